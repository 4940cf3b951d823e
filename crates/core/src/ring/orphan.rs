//! A claim whose volume is bound to a Node that is gone for good, or that a human gave up: it is deleted, and its pod
//! with it, so that both come back elsewhere. Nothing else is done here: what comes back empty is replaced like any
//! other (`replacing`), and under the same checks, one at a time. While those do not hold, the claim stays: if the
//! Node returns, so does the data.

use super::checks::Finding;
use super::ids::Member;
use super::ledger::{Known, Phase, Work};
use super::reason::Why;
use super::replacing::{self, Verdict, phase, verdict};
use super::stamp::Report;
use super::step::{Plan, Step};
use super::unheard;
use super::view::View;

/// Is the volume of this member bound to a Node that is gone for good, and does nothing run on it?
pub(super) fn is_orphaned(view: &View<'_>, member: &Member) -> bool {
    let waits = view.seen.report(member).is_some_and(Report::waits_empty);
    !waits && view.node_is_gone(member)
}

/// All checks held for long enough: the claim may go.
pub(super) fn give_up_volume(view: &View<'_>, work: &Work) -> Plan {
    let member = work.member.clone();
    let plan = Plan::because(Why::Evict { member }).write(phase(view, work, Phase::Evicting));
    delete(view, &work.member, plan)
}

fn delete(view: &View<'_>, member: &Member, plan: Plan) -> Plan {
    let Some(m) = view.seen.member(member) else {
        return plan;
    };
    // The claim first: it stays until its pod is gone, and a pod that comes back before would wait for it.
    let mut plan = plan;
    if let Some(claim) = m.claim.filter(|c| !c.terminating) {
        plan = plan.then(Step::DeleteClaim {
            member: member.clone(),
            uid: claim.uid,
        });
    }
    if let Some(pod) = m.pod.as_ref().filter(|p| !p.is_ending()) {
        plan = plan.then(Step::DeletePod {
            member: member.clone(),
            uid: pod.uid,
        });
    }
    plan
}

/// A new member whose Node is gone before it joined: nothing of it is in the ring, so its claim may go.
pub(super) fn evict_stranger(view: &View<'_>, member: &Member) -> Option<Plan> {
    let address = view.seen.member(member)?.address?;
    let witnesses = view.witnesses(member);
    let listed = |a: &&super::observed::Answer| a.at_address(address).next().is_some();
    let heard = view
        .ledger
        .known
        .keys()
        .all(|m| witnesses.iter().any(|a| a.by == *m));
    let may = heard && !witnesses.is_empty() && !witnesses.iter().any(listed);
    let why = Why::Evict {
        member: member.clone(),
    };
    may.then(|| delete(view, member, Plan::because(why)))
}

/// The volume is being given up: go on until the member waits with another one.
pub(super) fn evict(view: &View<'_>, work: &Work, lost: &Known, manual: bool) -> Plan {
    let member = &work.member;
    if view.seen.report(member).is_some_and(Report::waits_empty) {
        let until = view.now + view.spec().timing.confirm;
        let next = phase(view, work, Phase::Confirming);
        let member = member.clone();
        return Plan::because(Why::Confirming { member, until })
            .write(next)
            .wake_at(until);
    }
    let claim = view.seen.member(member).and_then(|m| m.claim);
    let gone = view.node_is_gone(member);
    // A disk may have come back behind another claim: what is to be given up is the disk.
    let mounted = view.seen.report(member).map(|r| r.disk);
    let same = mounted.is_some() && mounted == lost.disk;
    // Where the old claim is not on record, the new one is told from it by its gate alone: before that has looked, to
    // delete what is there would go on for ever.
    let looked = mounted.is_some()
        || view
            .seen
            .member(member)
            .and_then(|m| m.pod.as_ref())
            .is_some_and(|p| p.runs);
    let old = claim.is_some_and(|c| gone || same || lost.volume.map_or(looked, |v| v == c.uid));
    if !old {
        let member = member.clone();
        return unheard::told(view, work, work.since, Plan::because(Why::Evicting { member }));
    }
    let case = replacing::case(view, member, lost, manual);
    let may = if manual {
        replacing::by_hand(&case).iter().all(Finding::holds)
    } else {
        is_orphaned(view, member) && matches!(verdict(&case), Verdict::Holds(_))
    };
    if !may {
        let member = member.clone();
        return Plan::because(Why::Withdrawn { member }).write(view.ledger.idle());
    }
    let why = Why::Evict {
        member: member.clone(),
    };
    let plan = delete(view, member, Plan::because(why));
    // Both are told to go already, and one of them does not.
    if plan.steps.is_empty() {
        return unheard::told(view, work, work.since, plan);
    }
    plan
}
