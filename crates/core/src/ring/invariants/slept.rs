//! What may be done to a ring that sleeps, and when it may fall asleep and wake.

use super::{Invariant, Judge};
use crate::ring::ledger::{Ledger, Phase, Sleep, Stage};
use crate::ring::observed::MemberView;
use crate::ring::step::Step;

fn under_way(ledger: &Ledger) -> bool {
    let work = ledger.work.as_ref();
    work.is_some_and(|w| matches!(w.phase, Phase::Granted(_) | Phase::Leaving))
}

/// One step of a plan for a ring that sleeps, or should.
pub(super) fn off(judge: &mut Judge<'_>, at: usize, step: &Step) {
    let stage = judge.facts.ledger.and_then(|l| l.sleep).map(|s| s.stage);
    if let Step::Drain { member, .. } = step
        && stage != Some(Stage::Draining)
    {
        judge.broken(at, Invariant::Off, Some(member));
    }
    let Some(ledger) = judge
        .facts
        .ledger
        .filter(|l| l.cluster == judge.facts.seen.cluster)
    else {
        return;
    };
    let asleep = matches!(stage, Some(Stage::Draining | Stage::Stopped | Stage::Seeds));
    let wanted = judge.facts.seen.wishes.hibernated;
    let good = match step {
        Step::WriteLedger(next) => {
            let only_sleep = Ledger {
                sleep: ledger.sleep,
                revision: ledger.revision,
                ..(**next).clone()
            } == *ledger;
            let granted = next.grants > ledger.grants;
            only_sleep || (!asleep && !granted && under_way(ledger))
        }
        Step::Drain { .. } => true,
        _ => !asleep && under_way(ledger),
    };
    if (asleep || wanted) && !good {
        judge.broken(at, Invariant::Off, None);
    }
}

/// A ledger is made.
pub(super) fn begun(judge: &mut Judge<'_>, at: usize, next: &Ledger) {
    let pods = judge.facts.seen.members.iter().any(|m| m.pod.is_some());
    let wanted = judge.facts.seen.wishes.hibernated;
    let good = match next.sleep.map(|s| s.stage) {
        None => true,
        Some(Stage::Draining) => wanted,
        Some(Stage::Stopped) => wanted && !pods,
        Some(Stage::Seeds | Stage::Woken) => false,
    };
    if !good {
        judge.broken(at, Invariant::Slept, None);
    }
}

/// A ledger is replaced.
pub(super) fn write(judge: &mut Judge<'_>, at: usize, next: &Ledger) {
    let facts = judge.facts;
    let Some(before) = facts.ledger.filter(|l| l.sleep != next.sleep) else {
        return;
    };
    let Some(Sleep { stage, since }) = next.sleep else {
        judge.broken(at, Invariant::Slept, None);
        return;
    };
    let wanted = facts.seen.wishes.hibernated;
    // One that was told to go comes back to nobody: only its successor does.
    let stays = |m: &MemberView| m.pod.as_ref().is_some_and(|p| p.ends_by.is_none());
    let stay = facts.seen.members.iter().any(stays);
    let runs = |m: &MemberView| {
        let pod = m.pod.as_ref().filter(|p| p.ends_by.is_none());
        let report = pod.and_then(|p| p.report);
        report.is_some_and(|r| r.found.runs())
    };
    let drained = facts
        .seen
        .members
        .iter()
        .all(|m| !runs(m) || facts.seen.drained.contains(&m.member));
    let good = match (before.sleep.map(|s| (s.stage, s.since)), stage) {
        (None | Some((Stage::Woken, _)), Stage::Draining) => wanted && !under_way(before),
        (Some((Stage::Seeds, _)), Stage::Draining) => wanted,
        (Some((Stage::Draining, began)), Stage::Stopped) => {
            drained || facts.now.since(began) >= facts.seen.spec.timing.drain
        }
        (Some((Stage::Stopped, _)), Stage::Seeds) => !wanted && !stay,
        (Some((Stage::Seeds, _)), Stage::Woken) => !wanted,
        _ => false,
    };
    if !good || since != facts.now {
        judge.broken(at, Invariant::Slept, None);
    }
}
