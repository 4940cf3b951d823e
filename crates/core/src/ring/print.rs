//! The records of the members, printed from the ledger. No database is asked for this.

use super::observed::MemberView;
use super::reason::Why;
use super::record::RecordMap;
use super::spec::Managed;
use super::step::{Plan, Step};
use super::view::View;

/// Prints what differs, or nothing.
pub(super) fn turn(view: &View<'_>) -> Option<Plan> {
    // Where scylla-operator runs the pods, nobody would read them.
    if view.spec().managed == Managed::ByScyllaOperator {
        return None;
    }
    let plan = view
        .seen
        .members
        .iter()
        .fold(Plan::default(), |plan, m| member(view, m, plan));
    (!plan.steps.is_empty()).then_some(plan)
}

fn member(view: &View<'_>, m: &MemberView, plan: Plan) -> Plan {
    let by = view.spec().engine.replace_by();
    let known = view.ledger.known.get(&m.member);
    let stored = m.record.as_ref();
    let same = match (stored, known) {
        (Some(stored), Some(known)) => stored.map.says(known, by, view.seen.cluster),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    if same {
        return plan;
    }
    let wanted = known.map(|k| RecordMap::print(k, by, view.seen.cluster));
    let member = m.member.clone();
    let why = match (stored.is_some(), wanted.is_some()) {
        (false, _) => Why::RecordPrinted {
            member: member.clone(),
        },
        (true, true) => Why::RecordRestored {
            member: member.clone(),
        },
        (true, false) => Why::RecordDropped {
            member: member.clone(),
        },
    };
    let mut plan = plan;
    if let Some(stored) = stored {
        plan = plan.then(Step::DeleteRecord {
            member: member.clone(),
            uid: stored.uid,
        });
    }
    if let (Some(map), Some(service)) = (wanted, m.service) {
        plan = plan.then(Step::CreateRecord {
            member,
            service,
            map: Box::new(map),
        });
    }
    if plan.steps.is_empty() {
        plan
    } else {
        plan.also(why)
    }
}
