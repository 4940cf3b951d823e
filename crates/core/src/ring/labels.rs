//! The label `scylla/replace` on a cluster of our own: a human gives the volume of this member up.
//!
//! The node may be alive until then, so what is asked is whether the ring can do without it. Once its volume is gone,
//! it is replaced like any other that came back empty.

use super::ledger::{Phase, Task, Work};
use super::reason::Why;
use super::replacing::{self, by_hand, held};
use super::stamp::Report;
use super::step::Plan;
use super::view::View;

/// The first labelled member, or nobody.
pub(super) fn begin(view: &View<'_>) -> Plan {
    let labelled = view.seen.members.iter().filter(|m| m.replace_label);
    let mut plan = Plan::default();
    for m in labelled {
        let Some(lost) = view.ledger.known.get(&m.member) else {
            let member = m.member.clone();
            plan = plan.also(Why::LabelUnknown { member });
            continue;
        };
        let case = replacing::case(view, &m.member, lost, true);
        let findings = by_hand(&case);
        if let Some(first) = findings.iter().find(|f| !f.holds()) {
            let why = held(&m.member, &first.check);
            plan = plan.also(why).showing(findings);
            continue;
        }
        let empty = view.seen.report(&m.member).is_some_and(Report::waits_empty);
        let member = m.member.clone();
        let work = Work {
            member: member.clone(),
            task: Task::Replace {
                lost: lost.clone(),
                manual: true,
            },
            phase: if empty { Phase::Confirming } else { Phase::Evicting },
            since: view.now,
            failed: 0,
        };
        return Plan::because(Why::ByLabel { member }).write(view.ledger.working(work));
    }
    plan
}
