//! A member that is not declared any more leaves the ring, and only then its objects go.

use super::checks;
use super::ids::Member;
use super::learn::has_left;
use super::ledger::{Known, Phase, Task, Work};
use super::observed::{Answer, Liveness, MemberView, NodeState, Seen};
use super::reason::{Check, Why};
use super::stamp::Found;
use super::step::{Plan, Step};
use super::view::View;

/// Somebody who is to leave, or the objects of somebody who has left.
pub(super) fn begin(view: &View<'_>) -> Plan {
    let mut plan = Plan::default();
    for m in &view.seen.members {
        if view.spec().declared(&m.member).is_some() {
            continue;
        }
        let Some(known) = view.ledger.known.get(&m.member) else {
            let done = stranger(view, m);
            if !done.steps.is_empty() {
                return done;
            }
            plan.reasons.extend(done.reasons);
            continue;
        };
        let member = m.member.clone();
        match hindrance(view, &member, known) {
            Some(why) => plan = plan.also(why),
            None => return leave(view, member, known),
        }
    }
    plan
}

/// Why it stays for now. Waiting brings no disk back, nor makes a keyspace do with fewer members: then a human is asked.
fn hindrance(view: &View<'_>, member: &Member, known: &Known) -> Option<Why> {
    let (of, host) = (member.clone(), known.host);
    if view.is_lost(member) {
        return Some(Why::LeaveLost { member: of, host });
    }
    obstacle(view, member, known).map(|check| {
        if check.needs_human() {
            Why::LeaveHeld { member: of, check }
        } else {
            Why::LeaveLater { member: of, check }
        }
    })
}

fn leave(view: &View<'_>, member: Member, known: &Known) -> Plan {
    let host = known.host;
    let work = Work {
        member: member.clone(),
        task: Task::Leave { left: known.clone() },
        phase: Phase::Leaving,
        since: view.now,
        failed: 0,
    };
    Plan::because(Why::Leave {
        member: member.clone(),
    })
    .write(view.ledger.working(work))
    .then(Step::Decommission { member, host })
}

/// Why this member cannot leave now.
fn obstacle(view: &View<'_>, member: &Member, known: &Known) -> Option<Check> {
    let witnesses = view.witnesses(member);
    let wanted = view.ledger.known.len().saturating_sub(1).max(1);
    let got = witnesses.len();
    if got < wanted {
        return Some(Check::TooFewAnswers { got, wanted });
    }
    let down = |a: &&Answer| {
        let node = a.nodes.iter().find(|n| n.owner && n.liveness != Liveness::Up)?;
        let (host, by) = (node.host, a.by.clone());
        Some(if host == known.host {
            Check::ItselfDown { host, by }
        } else {
            Check::OtherDown { other: host, by }
        })
    };
    let check = witnesses.iter().find_map(down);
    check
        .or_else(|| checks::busy(&witnesses, None))
        .or_else(|| crowded(view, known, &witnesses))
}

/// A keyspace that needs as many members as there are left with this one.
fn crowded(view: &View<'_>, known: &Known, witnesses: &[&Answer]) -> Option<Check> {
    let dc = &known.location.dc;
    let there = view
        .ledger
        .known
        .values()
        .filter(|k| k.location.dc == *dc)
        .count();
    let left = u32::try_from(there.saturating_sub(1)).unwrap_or(u32::MAX);
    let keyspaces = || {
        witnesses
            .iter()
            .flat_map(|a| a.keyspaces.iter().map(|k| (&a.by, k)))
    };
    let crowded = keyspaces()
        .filter_map(|(_, k)| Some((k, *k.copies.as_ref()?.get(dc)?)))
        .find_map(|(k, copies)| {
            (copies > left).then(|| Check::CopiesNeeded {
                keyspace: k.name.clone(),
                copies,
                left,
            })
        });
    crowded.or_else(|| checks::untold(keyspaces()))
}

/// It was told to leave.
pub(super) fn go_on(view: &View<'_>, work: &Work, left: &Known) -> Plan {
    let member = work.member.clone();
    if has_left(view, &member, left.host) {
        let next = view.ledger.with(|next| {
            next.known.remove(&member);
            next.retired.extend(left.disk);
            next.work = None;
        });
        return Plan::because(Why::HasLeft { member }).write(next);
    }
    // Declared again before it began: it stays.
    let normal = |a: &&Answer| a.node(left.host).is_some_and(Seen::is_normal);
    let witnesses = view.witnesses(&member);
    let leaves = |a: &&Answer| a.node(left.host).is_some_and(|n| n.state == NodeState::Leaving);
    let stays = !witnesses.is_empty() && witnesses.iter().all(normal);
    let plan = Plan::because(Why::Leaving {
        member: member.clone(),
    });
    if stays && view.spec().declared(&member).is_some() {
        return plan.write(view.ledger.idle());
    }
    match hindrance(view, &member, left) {
        None if stays => {
            let host = left.host;
            plan.then(Step::Decommission { member, host })
        }
        _ if view.is_lost(&member) && witnesses.iter().any(leaves) => {
            let host = left.host;
            plan.also(Why::LeftHalfway { member, host })
        }
        Some(why) if gives_way(view, work, left, stays) => Plan::because(why).write(view.ledger.idle()),
        _ => plan,
    }
}

/// It has not begun to leave, and cannot: another member is lost, which is replaced first, or itself is. So the place is
/// given back. Not at once: whoever wrote this work may be about to tell the node.
fn gives_way(view: &View<'_>, work: &Work, known: &Known, stays: bool) -> bool {
    let others = || view.ledger.known.keys().filter(|m| **m != work.member);
    let hindered = others().any(|m| view.is_lost(m)) || view.is_lost(&work.member);
    // If nobody else is left, what it says of itself frees the place, and puts nothing on record.
    let deserted = others().all(|m| view.is_lost(m));
    let own_word = |a: &Answer| {
        let fresh = a.by == work.member && a.at >= view.seen.read_at;
        fresh && a.node(known.host).is_some_and(Seen::is_normal)
    };
    let settled = view.is_lost(&work.member) || view.seen.answers.iter().any(own_word);
    let waited = view.now.since(work.since) >= view.spec().timing.confirm;
    waited && hindered && (stays || (deserted && settled))
}

/// A member that is neither declared nor on record: its objects go if it is not in the ring.
fn stranger(view: &View<'_>, m: &MemberView) -> Plan {
    let witnesses = view.witnesses(&m.member);
    if witnesses.len() < view.ledger.known.len().max(1) {
        return Plan::default();
    }
    let Some(address) = m.address.filter(|_| !lives(view, m, &witnesses)) else {
        return unplaced(m);
    };
    // It is put on record when it is Normal, or goes when it has left.
    if witnesses.iter().any(|a| a.at_address(address).next().is_some()) {
        return Plan::default();
    }
    clear(m)
}

/// Does somebody list the node whose disk this is, at whatever address? Its Service may be a new one, and the others know it
/// at the old one's until its pod restarts.
fn lives(view: &View<'_>, m: &MemberView, witnesses: &[&Answer]) -> bool {
    if m.pod.is_none() && m.claim.is_none() {
        // No disk is left that could be somebody's.
        return false;
    }
    let mut nodes = witnesses.iter().flat_map(|a| &a.nodes).filter(|n| n.counts());
    match m.pod.as_ref().and_then(|p| p.report).map(|r| r.found) {
        Some(Found::Started(host) | Found::Foreign(host)) => nodes.any(|n| n.host == host),
        // Nobody knows under which host id, because a permission does not say it, the disk does not, or there is no gate
        // that would: so whoever belongs to no member may be it.
        Some(Found::StartedWith(_) | Found::Damaged | Found::Unreadable) | None => {
            nodes.any(|n| view.member_of(n.host, n.address).is_none())
        }
        Some(Found::Empty | Found::Unfinished(_) | Found::Retired(_)) => false,
    }
}

/// Nobody can tell it from the others by an address, so it is neither put on record nor cleared away. Not told while it
/// goes: then its claim goes first, and its Service before its pod.
fn unplaced(m: &MemberView) -> Plan {
    let stays = m.pod.as_ref().is_none_or(|p| !p.is_ending()) && m.claim.is_some_and(|c| !c.terminating);
    let member = m.member.clone();
    if stays {
        Plan::because(Why::LeaveUnplaced { member })
    } else {
        Plan::default()
    }
}

/// Nothing of it is in the ring.
fn clear(m: &MemberView) -> Plan {
    let member = m.member.clone();
    let plan = Plan::because(Why::HasLeft {
        member: member.clone(),
    });
    let plan = match m.claim.filter(|c| !c.terminating) {
        Some(claim) => plan.then(Step::DeleteClaim {
            member: member.clone(),
            uid: claim.uid,
        }),
        None => plan,
    };
    plan.then(Step::Retire { member })
}
