//! The label `scylla/replace` on a cluster of our own: a human gives the volume of this member up.
//!
//! The node may be alive until then, so what is asked is whether the ring can do without it. Once its volume is gone,
//! it is replaced like any other that came back empty.

use super::ledger::{Phase, Task, Work};
use super::reason::Why;
use super::replacing::{self, held, may_give_up};
use super::stamp::Report;
use super::step::Plan;
use super::view::View;

/// The first labelled member, or nobody.
pub(super) fn begin(view: &View<'_>) -> Plan {
    let labelled = view.seen.members.iter().filter(|m| m.replace_label);
    let mut plan = Plan::default();
    for m in labelled {
        let Some(lost) = view.ledger.known.get(&m.member) else {
            continue;
        };
        let case = replacing::case(view, &m.member, lost, true);
        if let Err(check) = may_give_up(&case) {
            plan = plan.also(held(&m.member, &check));
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
