//! Who may take the office, by what right, and for what cause.

use super::facts::{aspirant, holder, is_loose};
use super::{At, Detail, Invariant, Judge};
use crate::memgraph::ids::{Ordinal, ProcessId, Term};
use crate::memgraph::observed::{Answer, Contact, Role, Status};
use crate::memgraph::record::{Candidate, Main, Record, State};
use crate::memgraph::spec::FenceTimeout;

/// Was something seen that takes the office from a MAIN that serves, or that a planned move has not demoted yet?
pub(super) fn has_cause(judge: &Judge<'_>, before: &Record, candidate: &Candidate) -> bool {
    let facts = judge.facts;
    let Some(main) = before
        .main
        .as_ref()
        .filter(|m| matches!(before.state, State::Serving | State::SwitchingOver) && m.pod != candidate.pod)
    else {
        return true;
    };
    // The move itself was asked for; that it becomes a failover was not, nor does a pod on its way out make it one.
    let moving = before.state == State::SwitchingOver;
    let wished = !moving && facts.seen.wishes.switchover == Some(candidate.pod);
    let asked = wished || facts.chosen(Some(before), candidate.pod);
    let terminating = !moving && facts.terminating(main.pod);
    let ahead = facts.fresh(main.pod).is_some() && facts.is_ahead(main, candidate.pod);
    asked || ahead || terminating || has_lost_it(judge, main)
}

/// Has MAIN lost the office: it ended, is MAIN no more, or is heard by nobody?
pub(super) fn has_lost_it(judge: &Judge<'_>, main: &Main) -> bool {
    let facts = judge.facts;
    if let Some(answer) = facts.fresh(main.pod) {
        return answer.process != main.process || answer.role == Role::Replica;
    }
    let silent = match facts.pod(main.pod).map(|p| &p.contact) {
        Some(Contact::Refused { times, since: _ }) => *times >= 2,
        Some(Contact::Silent { probes, since: _ }) => *probes >= facts.seen.spec.silent_probes,
        Some(Contact::Answered(_) | Contact::Unknown) | None => false,
    };
    let heard = |(at, process)| process == main.process && facts.now.since(at) < facts.seen.spec.veto;
    let vetoed = facts.seen.gateways.iter().any(|g| g.heard.is_some_and(heard));
    facts.gone(holder(main)) || (silent && !vetoed)
}

/// By what right a pod is candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// There was never a MAIN.
    First,
    /// Protected, in the very process.
    Protected,
    /// Recorded as MAIN, with everything it had.
    Recorded,
    /// Protected when it went to sleep, on the same volume.
    Woken,
    /// It runs on the volume that the claim passed to (R37).
    Inherited,
    /// A human said so.
    Override,
}

pub(super) fn claim(judge: &Judge<'_>, before: Option<&Record>, candidate: &Candidate) -> Option<Claim> {
    let facts = judge.facts;
    let pod = candidate.pod;
    let Some(before) = before else {
        return Some(Claim::First);
    };
    let mark = facts.mark(pod);
    let chosen = || (facts.chosen(Some(before), pod) && pod.is_authority()).then_some(Claim::Override);
    let Some(main) = &before.main else {
        return if first_again(judge, before, candidate) {
            Some(Claim::First)
        } else {
            chosen()
        };
    };
    let level = mark == Some(main.term);
    if let Some(sync) = before.sync.filter(|s| s.pod == pod && level) {
        if sync.process == candidate.process {
            return Some(Claim::Protected);
        }
        if before.state == State::Hibernated && facts.volume(pod) == Some(sync.volume) {
            return Some(Claim::Woken);
        }
    }
    let explained = mark.is_some_and(|m| m >= main.term && m <= before.term);
    let same_data = facts.volume(pod) == Some(main.volume)
        && facts
            .fresh(pod)
            .and_then(|a| a.data)
            .is_some_and(|d| d.database == main.database);
    if explained && inherits(judge, before, candidate) {
        return Some(Claim::Inherited);
    }
    // A process cannot change its volume or its database.
    if main.pod == pod && explained && (same_data || candidate.process == main.process) {
        return Some(Claim::Recorded);
    }
    chosen()
}

/// The candidate of the unfinished term had passed its claim to the volume on which this one runs, MAIN's database.
fn inherits(judge: &Judge<'_>, before: &Record, candidate: &Candidate) -> bool {
    let facts = judge.facts;
    let (Some(main), Some(old)) = (&before.main, &before.candidate) else {
        return false;
    };
    let database = facts.data(candidate.pod).map(|d| d.database);
    before.state == State::NoMain
        && old.pod == candidate.pod
        && old.claim.is_some()
        && facts.volume(candidate.pod) == Some(old.volume)
        && database == Some(main.database)
}

/// May the claim of the candidate pass to its volume now (R37)?
pub(super) fn may_pass(judge: &Judge<'_>, before: &Record, candidate: &Candidate) -> bool {
    let facts = judge.facts;
    let (Some(main), Some(claim)) = (&before.main, candidate.claim) else {
        return false;
    };
    let over = facts.gone(holder(main)) && facts.object(main.pod).is_some_and(|o| o.start_fence);
    let given_up = facts.seen.spec.fence_timeout == FenceTimeout::Proceed;
    let fenced = over || (!claim.alone && (given_up || facts.gateways_have_term(before.term)));
    let waits = facts
        .fresh_process(aspirant(candidate))
        .is_some_and(|a| a.role == Role::Replica);
    let explained = facts
        .mark(candidate.pod)
        .is_some_and(|m| m >= main.term && m <= before.term);
    before.state == State::NoMain
        && main.pod != candidate.pod
        && candidate.forced.is_none()
        && claim.process == candidate.process
        && fenced
        && waits
        && explained
}

/// The process by whose history a candidate is judged: nothing was applied since the protected one ended (R26, R37).
pub(super) fn judged_as(candidate: &Candidate) -> ProcessId {
    match candidate.claim {
        Some(claim) if claim.alone => claim.process,
        Some(_) | None => candidate.process,
    }
}

/// The first term is begun again: by the same pod on the same volume, for an adopted cluster has data there.
fn first_again(judge: &Judge<'_>, before: &Record, candidate: &Candidate) -> bool {
    let data = judge.facts.data(candidate.pod);
    let explained = data.is_some_and(|d| d.mark.is_none_or(|m| m.term <= before.term));
    let same = before
        .candidate
        .as_ref()
        .is_some_and(|b| b.pod == candidate.pod && b.volume == candidate.volume);
    explained && same
}

/// A created record.
pub(super) fn first(judge: &mut Judge<'_>, at: At<'_>, next: &Record, candidate: &Candidate) {
    let facts = judge.facts;
    let marks = Ordinal::AUTHORITY.into_iter().filter_map(|p| facts.mark(p));
    let gateways = facts.seen.gateways.iter().map(|g| g.term);
    if marks
        .chain(gateways)
        .chain(facts.seen.memory.status_term)
        .any(|t| t >= next.term)
    {
        judge.broken(at, Invariant::FirstTermAboveAll, Detail::Record(next.revision));
    }
    if !may_be_first(judge, candidate.pod) {
        judge.broken(at, Invariant::Adopted, Detail::Pod(candidate.pod));
    }
    if next.term > Term(1) {
        remembers_nothing(judge, at, next);
    }
}

/// A record of a later term than the first follows one that was lost, with its loose processes and its names.
fn remembers_nothing(judge: &mut Judge<'_>, at: At<'_>, next: &Record) {
    let facts = judge.facts;
    let running = Ordinal::AUTHORITY.into_iter().filter_map(|p| facts.fresh(p));
    if running.into_iter().any(|a| !is_loose(next, a.process)) {
        judge.broken(at, Invariant::UnfinishedIsLoose, Detail::Record(next.revision));
    }
    if !next.begins_names_anew() {
        judge.broken(at, Invariant::GenerationGrows, Detail::Record(next.revision));
    }
}

fn may_be_first(judge: &Judge<'_>, pod: Ordinal) -> bool {
    let facts = judge.facts;
    let known = |p: Ordinal| facts.fresh(p).and_then(|a| a.data.map(|d| (a, d)));
    let (Some((own, mine)), Some((other, theirs))) = (known(pod), pod.partner().and_then(known)) else {
        return false;
    };
    if mine.is_blank() && theirs.is_blank() && facts.seen.memory.status_term.is_none() {
        return true;
    }
    let follows = |main: &Answer| {
        main.replicas.iter().flatten().any(|r| {
            Some(r.name.pod()) == pod.partner() && r.attached && r.address_ok && r.status != Status::Diverged
        })
    };
    let holds_all = theirs.mark.map(|m| m.term) <= mine.mark.map(|m| m.term) && (theirs.empty || !mine.empty);
    let one_main = own.role == Role::Main && other.role == Role::Replica;
    one_main && holds_all && follows(own) && (theirs.database == mine.database || theirs.is_blank())
}
