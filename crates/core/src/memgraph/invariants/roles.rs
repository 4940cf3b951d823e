//! Role commands and the fence before them.

use super::claims::{self, Claim};
use super::facts::{aspirant, holder, unfinished};
use super::{At, Detail, Invariant, Judge};
use crate::memgraph::plan::{Step, Target};
use crate::memgraph::record::{Record, State};
use crate::memgraph::spec::FenceTimeout;

/// A command goes to a process that answered in this turn.
pub(super) fn target(judge: &mut Judge<'_>, at: At<'_>, on: Target) {
    if judge.facts.fresh_process(on).is_none() {
        judge.broken(at, Invariant::FreshTarget, Detail::Process(on));
    }
}

pub(super) fn promote(judge: &mut Judge<'_>, at: At<'_>, on: Target) {
    target(judge, at, on);
    let Some(record) = written(judge, at, on) else {
        return;
    };
    if !unfinished(record) || record.candidate.as_ref().map(aspirant) != Some(on) {
        judge.broken(at, Invariant::CandidateOnly, Detail::Process(on));
    }
    if !fenced(judge, at, record, on) {
        judge.broken(at, Invariant::FenceFirst, Detail::Process(on));
    }
}

/// Was the holder of the office fenced since this record was written, or is there nobody to fence?
pub(super) fn fenced(judge: &Judge<'_>, at: At<'_>, record: &Record, candidate: Target) -> bool {
    let Some(main) = &record.main else { return true };
    let awaited = |who: Target| {
        judge
            .since_write(at)
            .any(|s| matches!(s, Step::AwaitFence { old, term, .. } if *old == who && *term == record.term))
    };
    // The pod of MAIN was being promoted again in another process: with MAIN's mark it may acknowledge as well.
    let again = record
        .loose
        .iter()
        .filter(|l| l.pod == main.pod && l.process != main.process && l.pod != candidate.pod);
    let mut again = again.map(|l| Target {
        pod: l.pod,
        process: l.process,
    });
    holder(main) == candidate || (awaited(holder(main)) && again.all(awaited))
}

pub(super) fn demote(judge: &mut Judge<'_>, at: At<'_>, on: Target) {
    target(judge, at, on);
    let Some(record) = written(judge, at, on) else {
        return;
    };
    if record.sync.is_some_and(|s| s.pod == on.pod) {
        judge.broken(at, Invariant::StrayUnprotected, Detail::Process(on));
    }
    let office = record.main.as_ref().map(holder) == Some(on);
    let candidate = record.candidate.as_ref().map(aspirant) == Some(on);
    let confirmed = judge
        .since_write(at)
        .any(|s| *s == Step::AwaitGateways(record.term, record.revision));
    let allowed = match record.state {
        State::Serving => !office,
        State::Hibernated => false,
        // Its own candidate loses the role only to get it back in a new epoch.
        State::Initialising | State::NoMain | State::SwitchingOver => !candidate || (office && confirmed),
    };
    if !allowed {
        judge.broken(at, Invariant::OfficeKept, Detail::Process(on));
    }
}

/// The record that this plan wrote before a role command.
fn written<'a>(judge: &mut Judge<'_>, at: At<'a>, on: Target) -> Option<&'a Record> {
    if at.written.is_none() {
        judge.broken(at, Invariant::RecordFirst, Detail::Process(on));
        return None;
    }
    at.record
}

pub(super) fn fence(
    judge: &mut Judge<'_>,
    at: At<'_>,
    old: Target,
    start_fence: bool,
    otherwise: FenceTimeout,
) {
    if start_fence && !judge.facts.object(old.pod).is_some_and(|o| o.start_fence) {
        judge.broken(at, Invariant::StartFenceSeen, Detail::Process(old));
    }
    if otherwise == FenceTimeout::Proceed && !may_proceed(judge, at) {
        judge.broken(at, Invariant::NoProceed, Detail::Process(old));
    }
}

fn may_proceed(judge: &Judge<'_>, at: At<'_>) -> bool {
    let (Some(record), FenceTimeout::Proceed) = (at.record, judge.facts.seen.spec.fence_timeout) else {
        return false;
    };
    let begun_here = judge.read.is_none_or(|r| r.term != record.term);
    // A move that another turn began and whose MAIN is lost since is a failover.
    let lost = record
        .main
        .as_ref()
        .is_some_and(|main| claims::has_lost_it(judge, main));
    let moves = record.state == State::SwitchingOver && (begun_here || !lost);
    let by_choice = record.candidate.as_ref().is_some_and(|c| {
        if begun_here {
            claims::claim(judge, judge.read, c) == Some(Claim::Override)
        } else {
            // The record remembers a human's choice, for the wish may be gone by now. Who a move goes to is
            // protected, whatever else is said of it.
            record.state != State::SwitchingOver && c.forced.is_some()
        }
    });
    !moves && !by_choice
}
