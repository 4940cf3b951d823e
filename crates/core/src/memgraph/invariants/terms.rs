//! Counters, transitions, and the way from candidate to MAIN.

use super::facts::{aspirant, holder, unfinished};
use super::{At, Change, Detail, Invariant, Judge, claims, roles};
use crate::memgraph::ids::Term;
use crate::memgraph::observed::Role;
use crate::memgraph::plan::{Step, Target};
use crate::memgraph::record::{Candidate, Main, Record, State};

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
    let office_kept = if begins_to_serve(change) {
        next.main.as_ref().is_some_and(|m| office_is_told(change, m))
    } else {
        before.is_some_and(|b| with_rival(b, begun) == next.main)
    };
    if !legal || !named || !(office_kept || (before.is_none() && next.main.is_none())) {
        judge.broken(at, Invariant::LegalChange, Detail::Record(next.revision));
    }
}

/// The office as it was, with the candidacy of the other pod that the next term ends.
fn with_rival(before: &Record, begun: bool) -> Option<Main> {
    let rival = |main: &Main| {
        let other = before.candidate.as_ref().filter(|c| begun && c.pod != main.pod);
        other.map_or(main.rival, |_| Some(before.term))
    };
    before.main.clone().map(|main| Main {
        rival: rival(&main),
        ..main
    })
}

/// Who stays in office says since when; who takes it begins there.
fn office_is_told(change: Change<'_>, main: &Main) -> bool {
    let held = change
        .before
        .and_then(|b| b.main.as_ref())
        .filter(|m| m.pod == main.pod);
    let told = held.map_or((change.next.term, None), |m| (m.office_from, m.rival));
    (main.office_from, main.rival) == told
}

/// The candidate of a term becomes its MAIN with this write.
pub(super) fn begins_to_serve(change: Change<'_>) -> bool {
    change.next.state == State::Serving && change.before.is_none_or(unfinished)
}

/// Who is candidate, and by what right.
pub(super) fn candidate(judge: &mut Judge<'_>, at: At<'_>, change: Change<'_>) {
    let Change { before, next } = change;
    let Some(candidate) = next.candidate.as_ref().filter(|_| unfinished(next)) else {
        return;
    };
    let detail = Detail::Process(aspirant(candidate));
    if !change.begins_term() {
        stays(judge, at, before, candidate);
        return;
    }
    let facts = judge.facts;
    let answers = facts.fresh_process(aspirant(candidate)).is_some();
    if !candidate.pod.is_authority() || !answers || facts.volume(candidate.pod) != Some(candidate.volume) {
        judge.broken(at, Invariant::CandidateSeen, detail);
    }
    let chosen = facts.chosen(before, candidate.pod);
    if claims::claim(judge, before, candidate).is_none() || (candidate.forced.is_some() && !chosen) {
        judge.broken(at, Invariant::Entitled, detail);
    }
    if before.and_then(|b| b.main.as_ref()).is_some_and(|main| {
        let suspect = if main.pod == candidate.pod {
            main.suspect && main.process == candidate.process
        } else {
            !main.peers.contains(&claims::judged_as(candidate))
        };
        suspect && !candidate.suspect
    }) {
        judge.broken(at, Invariant::SuspectKept, detail);
    }
    let held = before.and_then(|b| b.candidate.as_ref()).and_then(|c| c.claim);
    if candidate.claim.is_some() && candidate.claim != held {
        judge.broken(at, Invariant::ClaimFenced, detail);
    }
    match before {
        None => claims::first(judge, at, next, candidate),
        Some(before) if !claims::has_cause(judge, before, candidate) => {
            judge.broken(at, Invariant::CauseNeeded, detail);
        }
        Some(_) => {}
    }
}

/// Within a term nothing of the candidate changes but its claim, and that only once.
fn stays(judge: &mut Judge<'_>, at: At<'_>, before: Option<&Record>, candidate: &Candidate) {
    let Some((before, old)) = before.and_then(|b| b.candidate.as_ref().map(|c| (b, c))) else {
        return;
    };
    let detail = Detail::Process(aspirant(candidate));
    let claim = candidate.claim;
    if (Candidate { claim, ..old.clone() }) != *candidate {
        judge.broken(at, Invariant::CandidateStays, detail);
    }
    if old.claim != claim && (old.claim.is_some() || !claims::may_pass(judge, before, candidate)) {
        judge.broken(at, Invariant::ClaimFenced, detail);
    }
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
    let chosen = if begun_here {
        judge.facts.chosen(judge.read, on.pod)
    } else {
        record.candidate.as_ref().is_some_and(|c| c.forced.is_some())
    };
    let read = judge
        .facts
        .data(on.pod)
        .is_some_and(|d| d.mark.map(|m| m.term) == from);
    let advanced = is_candidate && to == record.term && (explained || chosen);
    if !read || !(advanced || written_again(judge, record, on, from, to)) {
        judge.broken(at, Invariant::MarkExpected, Detail::Process(on));
    }
}

/// A user deleted the mark with everything else: MAIN, while it serves, may write its own term again.
fn written_again(judge: &Judge<'_>, record: &Record, on: Target, from: Option<Term>, to: Term) -> bool {
    let serves = record.state == State::Serving && judge.facts.healthy(record).is_some();
    let own = record
        .main
        .as_ref()
        .is_some_and(|m| holder(m) == on && m.term == to);
    serves && own && from.is_none()
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
    let same =
        main.pod == candidate.pod && main.process == candidate.process && main.volume == candidate.volume;
    let database = answer
        .and_then(|a| a.data)
        .is_some_and(|d| d.database == main.database);
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
