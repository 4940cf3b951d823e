//! Sleep: members are drained one after the other, the seeds last; then all pods go. On waking the seeds come first.
//!
//! How far it is stands in the ledger, so that it goes on after any crash. Which pods there should be follows from it
//! ([`running`]); whoever keeps the sets of pods asks that and nothing else.

use super::ids::{HostId, Member, PodUid};
use super::ledger::{Ledger, Phase, Sleep, Stage};
use super::observed::{MemberView, Wishes};
use super::reason::Why;
use super::spec::Spec;
use super::stamp::Found;
use super::step::{Plan, Step};
use super::unheard;
use super::view::View;
use crate::time::Time;

/// Which pods of a ring there should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Running {
    /// All that are declared.
    Everybody,
    /// The first member of each rack.
    Seeds,
    /// None.
    Nobody,
    /// Those that there are, and no others.
    AsTheyAre,
}

/// Which pods there should be. A ledger of a namesake says nothing about this ring.
pub fn running(ledger: Option<&Ledger>, wishes: &Wishes) -> Running {
    match (ledger.and_then(|l| l.sleep), wishes.hibernated) {
        (Some(Sleep { stage, .. }), _) => match stage {
            Stage::Draining => Running::AsTheyAre,
            Stage::Stopped => Running::Nobody,
            Stage::Seeds => Running::Seeds,
            Stage::Woken => Running::Everybody,
        },
        // Nobody is stopped before that is in the ledger, and nobody is begun who is to sleep.
        (None, true) if ledger.is_none() => Running::AsTheyAre,
        (None, _) => Running::Everybody,
    }
}

/// The first member of each rack.
pub fn is_seed(spec: &Spec, member: &Member) -> bool {
    let Some(own) = spec.declared(member) else {
        return false;
    };
    let first = spec.members.iter().find(|d| d.location == own.location);
    first.is_some_and(|d| d.member == *member)
}

/// The ledger of a ring that is to sleep from the beginning, or whose ledger was lost.
pub(super) fn begun(ledger: Ledger, wishes: &Wishes, nobody: bool, now: Time) -> Ledger {
    let stage = if nobody { Stage::Stopped } else { Stage::Draining };
    Ledger {
        sleep: wishes.hibernated.then_some(Sleep { stage, since: now }),
        ..ledger
    }
}

/// What sleep asks for; `None` if the ring is awake and should be.
pub(super) fn turn(view: &View<'_>) -> Option<Plan> {
    let hibernated = view.seen.wishes.hibernated;
    let sleep = view.ledger.sleep;
    match (sleep.map(|s| (s.stage, s.since)), hibernated) {
        (None | Some((Stage::Woken, _)), false) => None,
        (None | Some((Stage::Woken, _)), true) => fall_asleep(view),
        (Some((Stage::Draining, since)), _) => Some(drain(view, since)),
        (Some((Stage::Stopped, _)), wanted) => Some(stopped(view, wanted)),
        (Some((Stage::Seeds, _)), true) => Some(enter(view, Stage::Draining, Why::FallAsleep)),
        (Some((Stage::Seeds, since)), false) => Some(seeds(view, since)),
    }
}

fn enter(view: &View<'_>, stage: Stage, why: Why) -> Plan {
    let since = view.now;
    let next = view.ledger.with(|next| next.sleep = Some(Sleep { stage, since }));
    Plan::because(why).write(next)
}

/// A start or a leaving that is under way is not cut off.
fn fall_asleep(view: &View<'_>) -> Option<Plan> {
    let work = view.ledger.work.as_ref();
    let runs = work.is_some_and(|w| matches!(w.phase, Phase::Granted(_) | Phase::Leaving));
    (!runs).then(|| enter(view, Stage::Draining, Why::FallAsleep))
}

/// Whose database was started, in which pod, and who it is, as far as that is known.
fn started<'a>(view: &View<'a>, m: &'a MemberView) -> Option<(&'a Member, PodUid, Option<HostId>)> {
    let pod = m.pod.as_ref().filter(|p| !p.is_ending())?;
    let known = || view.ledger.known.get(&m.member).map(|k| k.host);
    match pod.report?.found {
        Found::Started(host) => Some((&m.member, pod.uid, Some(host))),
        Found::StartedWith(_) => Some((&m.member, pod.uid, known())),
        Found::Empty
        | Found::Unfinished(_)
        | Found::Retired(_)
        | Found::Foreign(_)
        | Found::Damaged
        | Found::Unreadable => None,
    }
}

fn drain(view: &View<'_>, since: Time) -> Plan {
    let until = since + view.spec().timing.drain;
    let members = view.seen.members.iter();
    let left: Vec<(&Member, PodUid, Option<HostId>)> = members
        .filter_map(|m| started(view, m))
        .filter(|(member, _, _)| !view.seen.drained.contains(*member))
        .collect();
    // The last one first: the first member of the ring keeps what came last.
    let next = left
        .iter()
        .rev()
        .find(|(m, _, _)| !is_seed(view.spec(), m))
        .or_else(|| left.last());
    match next {
        Some((member, pod, host)) if view.now < until => {
            let (member, pod, host) = ((*member).clone(), *pod, *host);
            let count = left.len();
            Plan::because(Why::Draining {
                member: member.clone(),
                left: count,
            })
            .then(Step::Drain { member, pod, host })
            .wake_at(until)
        }
        _ => left.iter().fold(
            enter(view, Stage::Stopped, Why::Stopping),
            |plan, (member, _, _)| {
                plan.also(Why::Undrained {
                    member: (*member).clone(),
                })
            },
        ),
    }
}

fn stopped(view: &View<'_>, wanted: bool) -> Plan {
    let gone = view.seen.members.iter().all(|m| m.pod.is_none());
    // A drained database serves nobody: its pod has to go before another one comes. One that was told to go is never
    // more than its own member's concern: its set makes no other of its name before it is gone.
    let stays = |m: &&MemberView| m.pod.as_ref().is_some_and(|p| !p.is_ending());
    let left = view.seen.members.iter().find(stays);
    match (wanted, gone, left) {
        (true, true, _) => Plan::because(Why::Asleep),
        (true, false, _) => unheard::unended(view, Plan::because(Why::Stopping)),
        (false, _, Some(m)) => {
            let member = m.member.clone();
            Plan::because(Why::WakeLater { member })
        }
        (false, _, None) => enter(view, Stage::Seeds, Why::WakeSeeds),
    }
}

/// The others follow when every seed was started, or cannot be. Where a majority decides, a seed is not usable before
/// the others are there.
fn seeds(view: &View<'_>, since: Time) -> Plan {
    let until = since + view.spec().timing.rest;
    let settled = |m: &&MemberView| {
        let alone = view.spec().engine.needs_majority();
        let runs = m.pod.as_ref().is_some_and(|p| alone || p.runs);
        (started(view, m).is_some() && runs) || view.is_lost(&m.member)
    };
    let first = view
        .seen
        .members
        .iter()
        .filter(|m| is_seed(view.spec(), &m.member))
        .find(|m| !settled(m));
    match first {
        Some(m) if view.now < until => Plan::because(Why::WaitForSeed {
            member: m.member.clone(),
        })
        .wake_at(until),
        _ => enter(view, Stage::Woken, Why::WakeRest),
    }
}
