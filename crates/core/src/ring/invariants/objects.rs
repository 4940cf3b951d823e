//! What may be done to records, pods, claims and labels.

use super::{Invariant, Judge};
use crate::ring::ids::{MapUid, Member, PodUid, VolumeUid};
use crate::ring::ledger::{Ledger, Phase, Task};
use crate::ring::observed::{Liveness, MemberView, NodeState, Seen};
use crate::ring::record::RecordMap;
use crate::ring::stamp::Found;
use crate::ring::step::Step;

fn view<'a>(judge: &Judge<'a>, member: &Member) -> Option<&'a MemberView> {
    let mut views = judge.facts.seen.members.iter();
    views.find(|m| m.member == *member)
}

/// Where scylla-operator runs the pods.
pub(super) fn attended(judge: &mut Judge<'_>, at: usize, step: &Step) {
    let allowed = matches!(
        step,
        Step::CreateLedger(_) | Step::WriteLedger(_) | Step::DeleteLedger | Step::SetReplaceLabel { .. }
    );
    if !allowed {
        judge.broken(at, Invariant::Attended, None);
    }
}

pub(super) fn set_label(judge: &mut Judge<'_>, at: usize, member: &Member) {
    let written = judge.plan.steps.iter().take(at).find_map(Step::ledger);
    let work = written.and_then(|l| l.work.as_ref());
    let lost = work.filter(|w| w.member == *member).and_then(|w| w.lost());
    let attended = judge.facts.seen.spec.managed == crate::ring::spec::Managed::ByScyllaOperator;
    let (Some(lost), true) = (lost, attended) else {
        judge.broken(at, Invariant::Attended, Some(member));
        return;
    };
    let facts = judge.facts;
    if !facts.is_dead(member, lost.host) {
        judge.broken(at, Invariant::NeverAlive, Some(member));
    }
    if !facts.has_copies(member, lost) {
        judge.broken(at, Invariant::EnoughCopies, Some(member));
    }
    if !facts.is_quiet(member, Some(lost.host)) {
        judge.broken(at, Invariant::QuietRing, Some(member));
    }
    let held = view(judge, member).is_none_or(|m| m.maintenance || m.replace_label);
    if held || !facts.seen.spec.automatic {
        judge.broken(at, Invariant::HandsOff, Some(member));
    }
}

pub(super) fn create_record(judge: &mut Judge<'_>, at: usize, member: &Member, map: &RecordMap) {
    let known = judge.ledger_at(at).and_then(|l| l.known.get(member));
    let says = map.parse().is_ok_and(|(_, recorded, cluster)| {
        Some(&recorded) == known && cluster == judge.facts.seen.cluster && map.immutable
    });
    if !says {
        judge.broken(at, Invariant::RecordPrinted, Some(member));
    }
}

pub(super) fn delete_record(judge: &mut Judge<'_>, at: usize, member: &Member, uid: MapUid) {
    let stored = view(judge, member).and_then(|m| m.record.as_ref());
    let known = judge.ledger_at(at).and_then(|l| l.known.get(member));
    let same = |r: &crate::ring::observed::StoredRecord| {
        let parsed = r.map.parse();
        let right =
            parsed.is_ok_and(|(_, k, cluster)| Some(&k) == known && cluster == judge.facts.seen.cluster);
        right && r.map.immutable
    };
    let wrong = stored.is_none_or(|r| r.uid != uid);
    let renewed = judge
        .plan
        .steps
        .iter()
        .any(|s| matches!(s, Step::CreateRecord { member: m, .. } if m == member));
    if wrong || (known.is_some() && !renewed) || (stored.is_some_and(same) && !renewed) {
        judge.broken(at, Invariant::RecordPrinted, Some(member));
    }
}

/// The member is neither declared nor known, and nobody lists its node: it has left, or never was.
fn has_left(judge: &Judge<'_>, at: usize, member: &Member) -> bool {
    let known = judge.ledger_at(at).is_some_and(|l| l.known.contains_key(member));
    let undeclared = judge.facts.seen.spec.declared(member).is_none() && !known;
    let Some(m) = view(judge, member).filter(|_| undeclared) else {
        return false;
    };
    let found = m.pod.as_ref().and_then(|p| p.report).map(|r| r.found);
    let disk = m.pod.is_some() || m.claim.is_some();
    let listed = judge.facts.members_among_others(member).any(|a| {
        let counts = |n: &&Seen| n.state != NodeState::Left;
        let mut nodes = a.nodes.iter().filter(counts);
        nodes.any(|n| {
            let its = match found {
                Some(Found::Started(host) | Found::Foreign(host)) => n.host == host,
                Some(Found::Empty | Found::Unfinished(_) | Found::Retired(_)) => false,
                // Nobody says which node's disk this is, if there is one.
                Some(Found::StartedWith(_) | Found::Damaged | Found::Unreadable) | None => {
                    disk && is_nobodys(judge, at, n)
                }
            };
            its || Some(n.address) == m.address
        })
    });
    m.address.is_some() && !listed
}

/// It is on record of no member, and seen at the address of none.
fn is_nobodys(judge: &Judge<'_>, at: usize, node: &Seen) -> bool {
    let recorded = |l: &Ledger| l.known.values().any(|k| k.host == node.host);
    let mut members = judge.facts.seen.members.iter();
    !judge.ledger_at(at).is_some_and(recorded) && !members.any(|m| m.address == Some(node.address))
}

/// Nothing is on record of it, others answered, and none lists anybody at its address.
fn never_joined(judge: &Judge<'_>, member: &Member) -> bool {
    let facts = judge.facts;
    let known = facts.ledger.is_some_and(|l| l.known.contains_key(member));
    let address = view(judge, member).and_then(|m| m.address);
    let listed = facts.others(member).any(|a| {
        a.nodes
            .iter()
            .any(|n| Some(n.address) == address && n.state != NodeState::Left)
    });
    let asked = facts.others(member).next().is_some();
    !known && asked && !listed && facts.node_gone(member) && !facts.waits(member)
}

/// A human labelled it, and the ledger says so.
fn by_label(judge: &Judge<'_>, at: usize, member: &Member) -> bool {
    let work = judge.ledger_at(at).and_then(|l| l.work.as_ref());
    let manual = work.is_some_and(|w| {
        let task = matches!(w.task, Task::Replace { manual: true, .. });
        w.member == *member && task && matches!(w.phase, Phase::Evicting)
    });
    manual && judge.facts.labelled(member)
}

pub(super) fn delete_claim(judge: &mut Judge<'_>, at: usize, member: &Member, uid: VolumeUid) {
    let facts = judge.facts;
    if view(judge, member)
        .and_then(|m| m.claim)
        .is_none_or(|c| c.uid != uid)
    {
        judge.broken(at, Invariant::NeverWiped, Some(member));
    }
    if has_left(judge, at, member) || by_label(judge, at, member) || never_joined(judge, member) {
        return;
    }
    let work = judge.ledger_at(at).and_then(|l| l.work.as_ref());
    let lost = work.filter(|w| w.member == *member).and_then(|w| w.lost());
    let evicts = work.is_some_and(|w| matches!(w.phase, Phase::Evicting));
    if !evicts || !facts.node_gone(member) || facts.waits(member) {
        judge.broken(at, Invariant::NeverWiped, Some(member));
    }
    if lost.is_none_or(|lost| !facts.is_dead(member, lost.host)) {
        judge.broken(at, Invariant::NeverAlive, Some(member));
    }
    if lost.is_some_and(|lost| !facts.has_copies(member, lost)) {
        judge.broken(at, Invariant::EnoughCopies, Some(member));
    }
}

pub(super) fn delete_pod(judge: &mut Judge<'_>, at: usize, member: &Member, uid: PodUid) {
    let facts = judge.facts;
    let pod = view(judge, member).and_then(|m| m.pod.as_ref());
    if pod.is_none_or(|p| p.uid != uid) {
        judge.broken(at, Invariant::PodIdle, Some(member));
    }
    // A gate that waits serves nobody: where the pod is ready, the others know.
    let host = facts.ledger.and_then(|l| l.known.get(member)).map(|k| k.host);
    let seen_alive = facts.others(member).any(|a| {
        let mut nodes = a.nodes.iter();
        nodes.any(|n| Some(n.host) == host && n.liveness == Liveness::Up)
    });
    if pod.is_some_and(|p| p.runs) && facts.waits(member) && seen_alive && !by_label(judge, at, member) {
        judge.broken(at, Invariant::PodIdle, Some(member));
    }
    let idle = facts.waits(member) || facts.node_gone(member) || by_label(judge, at, member);
    if !idle && !is_late(judge, member) {
        judge.broken(at, Invariant::PodIdle, Some(member));
    }
}

/// Its start is late, and nobody sees it as a living member.
fn is_late(judge: &Judge<'_>, member: &Member) -> bool {
    let facts = judge.facts;
    let work = facts.ledger.and_then(|l| l.work.as_ref());
    let Some(grant) = work.filter(|w| w.member == *member).and_then(|w| w.grant()) else {
        return false;
    };
    let late = facts.now.since(grant.at) >= facts.seen.spec.timing.limit;
    let report = facts.report(member);
    let unfinished =
        report.is_some_and(|r| matches!(r.found, Found::StartedWith(number) if number <= grant.number));
    let address = view(judge, member).and_then(|m| m.address);
    let member_now = facts.others(member).any(|a| {
        a.nodes
            .iter()
            .any(|n| Some(n.address) == address && n.is_normal() && n.liveness == Liveness::Up)
    });
    late && unfinished && !member_now
}
