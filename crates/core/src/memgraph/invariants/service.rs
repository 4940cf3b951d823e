//! Writes, sleep and pause.

use super::facts::holder;
use super::{At, Change, Detail, Invariant, Judge};
use crate::memgraph::plan::{Step, Target};
use crate::memgraph::record::{Record, State, Writes};
use crate::memgraph::spec::WritesWithoutSync;

/// What holds for every step.
pub(super) fn any_step(judge: &mut Judge<'_>, at: At<'_>, step: &Step) {
    let wishes = judge.facts.seen.wishes;
    if wishes.paused_until.is_some_and(|until| judge.facts.now < until) {
        judge.broken(at, Invariant::Paused, Detail::Plan);
    }
    let asleep = wishes.hibernated && judge.read.is_some_and(|r| r.state == State::Hibernated);
    if asleep && !matches!(step, Step::Scale(_)) && step.record().is_none() {
        judge.broken(at, Invariant::AsleepQuiet, Detail::Plan);
    }
}

pub(super) fn scale(judge: &mut Judge<'_>, at: At<'_>, pods: u8) {
    let seen = judge.facts.seen;
    let all = seen.spec.replicas;
    let asleep = at.record.is_some_and(|r| r.state == State::Hibernated);
    let lost = judge.read.is_none() && seen.memory.status_term.is_some();
    // A term that was begun cannot end without its pods.
    let unfinished = |r: &Record| {
        matches!(
            r.state,
            State::Initialising | State::NoMain | State::SwitchingOver
        )
    };
    let deserted = at.record.is_some_and(unfinished) && seen.pods.iter().all(|p| p.object.is_none());
    let right = match (asleep, seen.wishes.hibernated) {
        (true, true) => pods == 0,
        (true, false) => pods == all,
        (false, hibernated) => pods == all && (deserted || (lost && !hibernated)),
    };
    if !right {
        judge.broken(at, Invariant::AsleepQuiet, Detail::Pods(pods));
    }
}

pub(super) fn writes(judge: &mut Judge<'_>, at: At<'_>, change: Change<'_>) {
    let Change { before, next } = change;
    let detail = Detail::Record(next.revision);
    if before.is_some_and(|b| !b.exposed) && next.exposed && !change.begins_term() {
        judge.broken(at, Invariant::WritesByPolicy, detail);
    }
    if next.writes != Writes::Open {
        return;
    }
    if next.state != State::Serving {
        judge.broken(at, Invariant::WritesOnlyServing, detail);
    }
    let opened = before.is_some_and(|b| b.writes != Writes::Open && b.state == State::Serving);
    let ahead = next.main.as_ref().is_some_and(|m| {
        judge.facts.healthy(next).is_some() && m.pod.partner().is_some_and(|p| judge.facts.is_ahead(m, p))
    });
    if opened && ahead {
        judge.broken(at, Invariant::ClosedWhileAhead, detail);
    }
    let allowed = match judge.facts.seen.spec.writes_without_sync {
        WritesWithoutSync::Always => true,
        WritesWithoutSync::AfterFailover => next.exposed,
        WritesWithoutSync::Never => false,
    };
    // Writes that were open and unprotected under another policy are not opened by this write.
    let was_so =
        before.is_some_and(|b| b.writes == Writes::Open && b.sync.is_none() && b.state == next.state);
    if next.sync.is_none() && !allowed && !was_so {
        judge.broken(at, Invariant::WritesByPolicy, detail);
    }
}

pub(super) fn sleep(judge: &mut Judge<'_>, at: At<'_>, change: Change<'_>) {
    let Change {
        before: Some(before),
        next,
    } = change
    else {
        return;
    };
    if next.state != State::Hibernated || before.state == State::Hibernated {
        return;
    }
    let facts = judge.facts;
    let quiet = before.writes == Writes::Closed && facts.gateways_have(before);
    if !facts.seen.wishes.hibernated || at.written.is_some() || !quiet {
        judge.broken(at, Invariant::SleepClosed, Detail::Record(next.revision));
    }
    let (Some(sync), Some(main)) = (next.sync, &next.main) else {
        return;
    };
    if !judge.proof_made(
        at,
        holder(main),
        Target {
            pod: sync.pod,
            process: sync.process,
        },
    ) {
        judge.broken(at, Invariant::SleepProven, Detail::Pod(sync.pod));
    }
}
