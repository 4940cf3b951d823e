//! Counters, transitions, and who may be candidate and MAIN.

use super::facts::{aspirant, unfinished};
use super::{At, Change, Detail, Invariant, Judge, roles};
use crate::memgraph::ids::{Ordinal, Term};
use crate::memgraph::observed::{Answer, Data, Role, Status};
use crate::memgraph::plan::{Step, Target};
use crate::memgraph::record::{Candidate, Record, State};

pub(super) fn counters(judge: &mut Judge<'_>, at: At<'_>, change: Change<'_>, create: bool) {
    let Change { before, next } = change;
    let detail = Detail::Record(next.revision);
    if create != before.is_none() {
        judge.broken(at, Invariant::OneRevision, detail);
    }
    let Some(before) = before else { return };
    if next.revision != before.revision.next() {
        judge.broken(at, Invariant::OneRevision, detail);
    }
    let most = judge.read.map_or(before.term, |r| r.term.next());
    if next.term < before.term || next.term > before.term.next() || next.term > most {
        judge.broken(at, Invariant::OneTerm, detail);
    }
    let serves_on = before.state == State::Serving && next.state == State::Serving;
    let withdrawn = serves_on && before.sync.is_some() && next.sync.is_none();
    let must_grow = change.begins_term() || withdrawn;
    if next.generation < before.generation || (must_grow && next.generation == before.generation) {
        judge.broken(at, Invariant::GenerationGrows, detail);
    }
}

pub(super) fn transition(judge: &mut Judge<'_>, at: At<'_>, change: Change<'_>) {
    let Change { before, next } = change;
    let begun = change.begins_term();
    let legal = match before {
        None => next.state == State::Initialising,
        Some(before) if begun => match next.state {
            State::Initialising => before.main.is_none(),
            State::NoMain => before.main.is_some(),
            State::SwitchingOver => before.state == State::Serving,
            State::Serving | State::Hibernated => false,
        },
        Some(before) => {
            next.state == before.state
                || (next.state == State::Serving && unfinished(before))
                || (next.state == State::Hibernated && before.state == State::Serving)
        }
    };
    let named = !unfinished(next) || next.candidate.is_some();
    let office_kept = before.is_some_and(|b| b.main == next.main) || begins_to_serve(change);
    if !legal || !named || !(office_kept || (before.is_none() && next.main.is_none())) {
        judge.broken(at, Invariant::LegalChange, Detail::Record(next.revision));
    }
}

/// The candidate of a term becomes its MAIN with this write.
pub(super) fn begins_to_serve(change: Change<'_>) -> bool {
    change.next.state == State::Serving && change.before.is_none_or(unfinished)
}

/// Who is candidate, and by what right.
pub(super) fn candidate(judge: &mut Judge<'_>, at: At<'_>, change: Change<'_>) {
    let Change { before, next } = change;
    let Some(candidate) = next.candidate.as_ref().filter(|_| unfinished(next)) else { return };
    let detail = Detail::Process(aspirant(candidate));
    if !change.begins_term() {
        if before.is_some_and(|b| b.candidate.as_ref() != Some(candidate)) {
            judge.broken(at, Invariant::CandidateStays, detail);
        }
        return;
    }
    let facts = judge.facts;
    let answers = facts.fresh_process(aspirant(candidate)).is_some();
    if !candidate.pod.is_authority() || !answers || facts.volume(candidate.pod) != Some(candidate.volume) {
        judge.broken(at, Invariant::CandidateSeen, detail);
    }
    if claim(judge, before, candidate).is_none() {
        judge.broken(at, Invariant::Entitled, detail);
    }
    if before.and_then(|b| b.main.as_ref()).is_some_and(|main| {
        let suspect = if main.pod == candidate.pod {
            main.suspect && main.process == candidate.process
        } else {
            !main.peers.contains(&candidate.process)
        };
        suspect && !candidate.suspect
    }) {
        judge.broken(at, Invariant::SuspectKept, detail);
    }
    if before.is_none() {
        first(judge, at, next, candidate);
    }
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
    /// A human said so.
    Override,
}

pub(super) fn claim(judge: &Judge<'_>, before: Option<&Record>, candidate: &Candidate) -> Option<Claim> {
    let facts = judge.facts;
    let pod = candidate.pod;
    let Some(before) = before else { return Some(Claim::First) };
    let mark = facts.mark(pod);
    let chosen = || {
        let named = facts.seen.wishes.override_main.is_some_and(|(p, until)| p == pod && facts.now < until);
        (named && pod.is_authority()).then_some(Claim::Override)
    };
    let Some(main) = &before.main else {
        return if first_again(judge, before, candidate) { Some(Claim::First) } else { chosen() };
    };
    let level = mark == Some(Some(main.term));
    if let Some(sync) = before.sync.filter(|s| s.pod == pod && level) {
        if sync.process == candidate.process {
            return Some(Claim::Protected);
        }
        if before.state == State::Hibernated && facts.volume(pod) == Some(sync.volume) {
            return Some(Claim::Woken);
        }
    }
    let explained = mark.flatten().is_some_and(|m| m >= main.term && m <= before.term);
    let same_data = facts.volume(pod) == Some(main.volume)
        && facts.fresh(pod).and_then(|a| a.data).is_some_and(|d| d.database == main.database);
    // A process cannot change its volume or its database.
    if main.pod == pod && explained && (same_data || candidate.process == main.process) {
        return Some(Claim::Recorded);
    }
    chosen()
}

/// The first term is begun again: by the same pod on the same volume, for an adopted cluster has data there.
fn first_again(judge: &Judge<'_>, before: &Record, candidate: &Candidate) -> bool {
    let mark = judge.facts.mark(candidate.pod);
    let explained = mark.is_some_and(|m| m.is_none_or(|t| t <= before.term));
    let same = before.candidate.as_ref().is_some_and(|b| b.pod == candidate.pod && b.volume == candidate.volume);
    explained && same
}

/// A created record.
fn first(judge: &mut Judge<'_>, at: At<'_>, next: &Record, candidate: &Candidate) {
    let facts = judge.facts;
    let marks = Ordinal::AUTHORITY.into_iter().filter_map(|p| facts.mark(p).flatten());
    let gateways = facts.seen.gateways.iter().map(|g| g.term);
    if marks.chain(gateways).chain(facts.seen.memory.status_term).any(|t| t >= next.term) {
        judge.broken(at, Invariant::FirstTermAboveAll, Detail::Record(next.revision));
    }
    if !may_be_first(judge, candidate.pod) {
        judge.broken(at, Invariant::Adopted, Detail::Pod(candidate.pod));
    }
}

fn may_be_first(judge: &Judge<'_>, pod: Ordinal) -> bool {
    let facts = judge.facts;
    let known = |p: Ordinal| facts.fresh(p).and_then(|a| a.data.map(|d| (a, d)));
    let (Some((own, mine)), Some((other, theirs))) = (known(pod), pod.partner().and_then(known)) else {
        return false;
    };
    let untouched = |d: Data| d.empty && d.mark.is_none();
    if untouched(mine) && untouched(theirs) && facts.seen.memory.status_term.is_none() {
        return true;
    }
    let follows = |main: &Answer| {
        main.replicas.iter().flatten().any(|r| {
            Some(r.name.pod()) == pod.partner() && r.attached && r.address_ok && r.status != Status::Diverged
        })
    };
    let holds_all = theirs.mark.map(|m| m.term) <= mine.mark.map(|m| m.term) && (theirs.empty || !mine.empty);
    let one_main = own.role == Role::Main && other.role == Role::Replica;
    one_main && holds_all && follows(own) && (theirs.database == mine.database || untouched(theirs))
}

/// The mark is advanced from a value that was read and that the record explains.
pub(super) fn mark(judge: &mut Judge<'_>, at: At<'_>, on: Target, from: Option<Term>, to: Term) {
    roles::target(judge, at, on);
    let Some(record) = at.record else { return };
    let is_candidate = unfinished(record) && record.candidate.as_ref().map(aspirant) == Some(on);
    let highest = judge.read.map_or(record.term, |r| r.term);
    let explained = match (from, &record.main) {
        (None, Some(_)) => false,
        (None, None) => true,
        (Some(term), main) => main.as_ref().is_none_or(|m| term >= m.term) && term <= highest,
    };
    let begun_here = judge.read.is_none_or(|r| r.term != record.term);
    let wishes = judge.facts.seen.wishes;
    let chosen =
        wishes.override_main.is_some_and(|(pod, until)| pod == on.pod && (!begun_here || judge.facts.now < until));
    let read = judge.facts.mark(on.pod) == Some(from);
    if !is_candidate || to != record.term || !read || !(explained || chosen) {
        judge.broken(at, Invariant::MarkExpected, Detail::Process(on));
    }
}

/// Who begins to serve.
pub(super) fn office(judge: &mut Judge<'_>, at: At<'_>, change: Change<'_>) {
    if !begins_to_serve(change) {
        return;
    }
    let detail = Detail::Record(change.next.revision);
    let (Some(before), Some(main)) = (change.before, &change.next.main) else {
        judge.broken(at, Invariant::ServesAsCandidate, detail);
        return;
    };
    let Some(candidate) = &before.candidate else {
        judge.broken(at, Invariant::ServesAsCandidate, detail);
        return;
    };
    let on = aspirant(candidate);
    let answer = judge.facts.fresh_process(on);
    let is_main = judge.since_write(at).any(|s| *s == Step::Promote(on))
        || answer.is_some_and(|a| a.role == Role::Main);
    let marked = judge
        .since_write(at)
        .any(|s| matches!(s, Step::AdvanceMark { on: o, to, .. } if *o == on && *to == change.next.term));
    let same = main.pod == candidate.pod && main.process == candidate.process && main.volume == candidate.volume;
    let database = answer.and_then(|a| a.data).is_some_and(|d| d.database == main.database);
    let over = change.next.candidate.is_none() && main.term == change.next.term;
    if !(is_main && marked && same && database && over) {
        judge.broken(at, Invariant::ServesAsCandidate, detail);
    }
    if candidate.suspect && !main.suspect {
        judge.broken(at, Invariant::SuspectKept, detail);
    }
    if !roles::fenced(judge, at, before, on) {
        judge.broken(at, Invariant::FenceFirst, detail);
    }
}
