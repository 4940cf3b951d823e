//! Pods that do not end, and work whose pod says nothing: it is not there, does not end, or its gate has not spoken. That mends itself, and the place
//! is kept for it; but not for ever without a word, because nobody else's turn comes meanwhile.

use super::ids::Member;
use super::ledger::Work;
use super::observed::MemberView;
use super::reason::{Missing, Why};
use super::step::Plan;
use super::view::View;
use crate::time::Time;

/// The same plan, and a sentence for a human if nothing was heard of this work's pod for longer than a start may take.
pub(super) fn told(view: &View<'_>, work: &Work, since: Time, plan: Plan) -> Plan {
    // At night there are no pods: what counts is how long it has been since the ring was woken.
    let since = view.ledger.woken().map_or(since, |woken| woken.max(since));
    let late = view.now.since(since) >= view.spec().timing.limit;
    match missing(view, &work.member).filter(|_| late) {
        Some(missing) => plan.also(Why::Unheard {
            member: work.member.clone(),
            missing,
        }),
        None => plan,
    }
}

/// The same plan, and a sentence for a human about each pod that should have been gone long ago. Where its Node is gone for
/// good, what becomes of it is decided elsewhere.
pub(super) fn unended(view: &View<'_>, plan: Plan) -> Plan {
    let overdue = |m: &&MemberView| {
        let by = m.pod.as_ref().and_then(|p| p.ends_by);
        let late = by.is_some_and(|by| view.now.since(by) >= view.spec().timing.node_gone);
        late && !view.node_is_gone(&m.member)
    };
    let members = view.seen.members.iter().filter(overdue);
    members.fold(plan, |plan, m| {
        let member = m.member.clone();
        plan.also(Why::Unended { member })
    })
}

/// What is there instead of a pod whose gate speaks.
fn missing(view: &View<'_>, member: &Member) -> Option<Missing> {
    if view.seen.report(member).is_some() {
        return None;
    }
    let pod = view.seen.member(member).and_then(|m| m.pod.as_ref());
    Some(match pod {
        None => Missing::Gone,
        Some(pod) if pod.is_ending() => Missing::Ending,
        Some(_) => Missing::Silent,
    })
}
