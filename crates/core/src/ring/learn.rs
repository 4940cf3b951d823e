//! What becomes known of the members: only what other members say, and only when they all say the same.

use super::ids::{HostId, Member};
use super::ledger::Known;
use super::observed::{Answer, Liveness, MemberView, NodeState, Pod, Seen};
use super::reason::Why;
use super::spec::Managed;
use super::stamp::Found;
use super::step::Plan;
use super::view::View;

/// Writes down what is new, or nothing.
pub(super) fn turn(view: &View<'_>) -> Option<Plan> {
    let mut reasons = Vec::new();
    let mut next = view.ledger.clone();
    for m in &view.seen.members {
        if view.ledger.work.as_ref().is_some_and(|w| w.member == m.member) {
            continue;
        }
        if let Some((known, why)) = learnt(view, m) {
            next.known.insert(m.member.clone(), known);
            reasons.push(why);
        }
    }
    for (member, known) in &view.ledger.known {
        let busy = view.ledger.work.as_ref().is_some_and(|w| w.member == *member);
        let renewed = next.known.get(member) != Some(known);
        if busy || renewed || !is_removed(view, member, known.host) {
            continue;
        }
        next.known.remove(member);
        next.retired.extend(known.disk);
        reasons.push(Why::RemovedByHand {
            member: member.clone(),
            host: known.host,
        });
    }
    // A bootstrapped disk, or anything that is known, is proof that there is a ring.
    let started = |m: &MemberView| {
        let report = view.seen.report(&m.member);
        report.is_some_and(|r| matches!(r.found, Found::Started(_)))
    };
    next.founded = next.founded || !next.known.is_empty() || view.seen.members.iter().any(started);
    if next == *view.ledger {
        return None;
    }
    next.revision = next.revision.saturating_add(1);
    let plan = Plan {
        reasons,
        ..Plan::default()
    };
    Some(plan.write(next))
}

/// What is new about one member.
fn learnt(view: &View<'_>, m: &MemberView) -> Option<(Known, Why)> {
    // One that is not declared any more and still runs must be on record as well: only who is on record is told to leave.
    // Where scylla-operator runs the pods, nobody is.
    let runs_here = view.spec().managed == Managed::Here && m.pod.is_some();
    if view.spec().declared(&m.member).is_none() && !runs_here {
        return None;
    }
    let node = agreed(view, m)?;
    let member = m.member.clone();
    let known = view.ledger.known.get(&m.member);
    let owner = view.ledger.owner_of(node.host);
    if owner.is_some_and(|owner| *owner != m.member) {
        return None;
    }
    let Some(known) = known else {
        let host = node.host;
        return Some((describe(view, m, node)?, Why::SeenNormal { member, host }));
    };
    if known.host != node.host {
        return renewed(view, m, node, known).map(|k| {
            let host = node.host;
            (k, Why::SeenNormal { member, host })
        });
    }
    if known.address != node.address {
        let address = node.address;
        let moved = Known {
            address,
            ..known.clone()
        };
        return Some((moved, Why::Moved { member, address }));
    }
    let described = describe(view, m, node)?;
    (known.disk.is_none() && described.disk.is_some()).then_some((described, Why::DiskLearnt { member }))
}

/// Its place was taken, and we did not see it through: believed when the old one is nowhere.
fn renewed(view: &View<'_>, m: &MemberView, node: &Seen, known: &Known) -> Option<Known> {
    let witnesses = view.witnesses(&m.member);
    let gone = |a: &&Answer| a.node(known.host).is_none_or(|n| !n.counts());
    let enough = witnesses.len() >= view.spec().engine.witnesses(view.ledger.known.len());
    if witnesses.iter().all(gone) && enough {
        describe(view, m, node)
    } else {
        None
    }
}

/// The one node that every witness sees at this member's address, normal.
fn agreed<'a>(view: &View<'a>, m: &MemberView) -> Option<&'a Seen> {
    let address = m.address?;
    let witnesses = view.witnesses(&m.member);
    let only = |answer: &'a Answer| -> Option<&'a Seen> {
        let mut there = answer.at_address(address);
        let node = there.next()?;
        let normal = node.owner && matches!(node.state, NodeState::Normal | NodeState::Unknown);
        (there.next().is_none() && normal).then_some(node)
    };
    let (head, rest) = witnesses.split_first()?;
    let node = only(head)?;
    let same = |a: &&'a Answer| only(a).is_some_and(|n| n.host == node.host);
    rest.iter().all(same).then_some(node)
}

/// What is known of a member that is seen so: with its disk, if its gate started this very node from it.
pub(super) fn describe(view: &View<'_>, m: &MemberView, node: &Seen) -> Option<Known> {
    // Also of a member that is not declared any more: it is in the ring until it has left.
    let known = view.ledger.known.get(&m.member).map(|k| &k.location);
    let declared = view.spec().declared(&m.member).map(|d| &d.location);
    let location = node.location.as_ref().or(declared).or(known)?;
    let report = view.seen.report(&m.member);
    let ran = report.filter(|r| match r.found {
        Found::Started(host) => host == node.host,
        Found::StartedWith(_) => true,
        _ => false,
    });
    // A pod without a gate tells of no disk. While it runs and its node lives, its claim is the one of its data.
    let ungated = report.is_none() && m.pod.as_ref().is_some_and(Pod::stays);
    let mounted = ran.is_some() || (ungated && node.liveness == Liveness::Up);
    Some(Known {
        host: node.host,
        address: node.address,
        location: location.clone(),
        volume: m.claim.filter(|_| mounted).map(|c| c.uid),
        disk: ran.map(|r| r.disk),
    })
}

/// Is this node nowhere in the ring any more? Only if every other member that is known says so, and knows everybody
/// else: a view that is not complete proves nothing. While the node itself speaks, nobody's word is done without.
pub(super) fn is_removed(view: &View<'_>, member: &Member, host: HostId) -> bool {
    let speaks = |a: &Answer| a.by == *member && a.at >= view.seen.read_at;
    if view.seen.answers.iter().any(speaks) {
        nowhere(view, member, host, |_| false)
    } else {
        has_left(view, member, host)
    }
}

/// The same of a node that is known to be going, or is silent: a member that lost its storage is not waited for. It
/// cannot answer before it is replaced, and that cannot begin before this is settled.
pub(super) fn has_left(view: &View<'_>, member: &Member, host: HostId) -> bool {
    nowhere(view, member, host, |m| view.is_lost(m))
}

fn nowhere(view: &View<'_>, member: &Member, host: HostId, excused: impl Fn(&Member) -> bool) -> bool {
    let witnesses = view.witnesses(member);
    let others = || view.ledger.known.iter().filter(|(m, _)| *m != member);
    let all_answer = others().all(|(m, _)| excused(m) || witnesses.iter().any(|a| a.by == *m));
    let gone = |a: &&Answer| a.node(host).is_none_or(|n| !n.counts());
    let complete = |a: &&Answer| others().all(|(_, k)| a.node(k.host).is_some());
    !witnesses.is_empty() && all_answer && witnesses.iter().all(|a| gone(a) && complete(a))
}
