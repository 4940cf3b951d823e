//! Resets, deletions, and processes that are ended.

use super::facts::{aspirant, holder, is_loose};
use super::{At, Change, Detail, Invariant, Judge};
use crate::memgraph::ids::{Ordinal, PodUid, ResetId, Term};
use crate::memgraph::observed::{Contact, Role};
use crate::memgraph::plan::{Step, Target};
use crate::memgraph::record::{Main, Record, Reset, State};
use crate::memgraph::spec::WritesWithoutSync;

pub(super) fn asked(judge: &mut Judge<'_>, at: At<'_>, change: Change<'_>) {
    let Some(reset) = change.next.reset else { return };
    let before = change.before.and_then(|b| b.reset);
    if before == Some(reset) {
        return;
    }
    let Reset {
        pod,
        process,
        id: _,
        term,
        since: _,
        keep,
    } = reset;
    let facts = judge.facts;
    let record = change.next;
    let untouchable = is_untouchable(record, pod) || change.before.is_some_and(|b| is_untouchable(b, pod));
    if before.is_some() || untouchable || !main_serves(judge, record) || term != record.term {
        judge.broken(at, Invariant::ResetTarget, Detail::Pod(pod));
    }
    let Some(main) = &record.main else { return };
    let accused = facts.accused(main, pod);
    let meant = facts.fresh_process(Target { pod, process }).is_some();
    if !meant || !(accused || facts.foreign(main, pod) || facts.wished_away(pod)) {
        judge.broken(
            at,
            Invariant::ResetEvidence,
            Detail::Process(Target { pod, process }),
        );
    }
    let healthy = !accused && !facts.foreign(main, pod);
    let protector = record.sync.and_then(|s| {
        facts.fresh_process(Target {
            pod: s.pod,
            process: s.process,
        })
    });
    if healthy && protector.is_none() {
        judge.broken(at, Invariant::ResetTarget, Detail::Pod(pod));
    }
    if accused && facts.main_is_suspect(main) {
        judge.broken(at, Invariant::ResetSuspect, Detail::Pod(pod));
    }
    let followed = facts.followed(main, pod) || facts.data(pod).is_none();
    if accused && followed && !facts.approved(pod) {
        judge.broken(at, Invariant::ResetTarget, Detail::Pod(pod));
    }
    let (memory, spec) = (facts.seen.memory, facts.seen.spec);
    if memory.resets_last_hour >= spec.resets_per_hour || memory.crowded.contains(pod) {
        judge.broken(at, Invariant::ResetRoom, Detail::Pod(pod));
    }
    let young = facts.now.since(record.since) < spec.reset_quiet;
    if young && !pod.is_authority() && !facts.approved(pod) {
        judge.broken(at, Invariant::ResetQuiet, Detail::Pod(pod));
    }
    if !keep && (accused || facts.foreign(main, pod)) && facts.may_hold_lost_write(main, pod) {
        judge.broken(at, Invariant::ResetQuiet, Detail::Pod(pod));
    }
}

fn is_untouchable(record: &Record, pod: Ordinal) -> bool {
    record.main.as_ref().is_some_and(|m| m.pod == pod)
        || record.candidate.as_ref().is_some_and(|c| c.pod == pod)
        || record.sync.is_some_and(|s| s.pod == pod)
}

fn main_serves(judge: &Judge<'_>, record: &Record) -> bool {
    record.state == State::Serving && judge.facts.healthy(record).is_some()
}

/// The reset that the record asks for, if it may be carried out on this process now.
fn asked_of(judge: &Judge<'_>, at: At<'_>, target: Target) -> Option<Reset> {
    let record = at
        .record
        .filter(|r| main_serves(judge, r) && !is_untouchable(r, target.pod))?;
    record
        .reset
        .filter(|r| r.pod == target.pod && r.process == target.process && r.term == record.term)
}

pub(super) fn marker(judge: &mut Judge<'_>, at: At<'_>, target: Target, id: ResetId, term: Term) {
    if asked_of(judge, at, target).is_none_or(|r| r.id != id || r.term != term) {
        judge.broken(at, Invariant::MarkerOfRecord, Detail::Process(target));
    }
}

pub(super) fn delete(judge: &mut Judge<'_>, at: At<'_>, target: Target, uid: PodUid) {
    let marked = asked_of(judge, at, target).is_some_and(|r| {
        judge.since_write(at).any(|s| {
            *s == Step::WriteMarker {
                target,
                id: r.id,
                term: r.term,
            }
        })
    });
    if !marked || !judge.facts.has_uid(target.pod, uid) {
        judge.broken(at, Invariant::MarkerOfRecord, Detail::Process(target));
    }
}

pub(super) fn end_process(judge: &mut Judge<'_>, at: At<'_>, target: Target, uid: PodUid) {
    let may = at.record.is_some_and(|r| match r.state {
        State::Serving => may_end(judge, r, target),
        State::NoMain => deposed_and_hangs(judge, r, target) || needs_no_process(judge, r, target),
        _ => false,
    });
    if !may || !judge.facts.has_uid(target.pod, uid) {
        judge.broken(at, Invariant::EndProcess, Detail::Process(target));
    }
}

/// The old MAIN whose candidate was chosen some time ago and answers, and which itself answers nobody (R30).
fn deposed_and_hangs(judge: &Judge<'_>, record: &Record, target: Target) -> bool {
    let facts = judge.facts;
    let old = record.main.as_ref().map(holder) == Some(target);
    let successor = record.candidate.as_ref().map(aspirant);
    let chosen = successor.is_some_and(|c| c.pod != target.pod && facts.fresh_process(c).is_some());
    let enough = facts.seen.spec.silent_probes;
    let silent = facts
        .pod(target.pod)
        .is_some_and(|p| matches!(p.contact, Contact::Silent { probes, .. } if probes >= enough));
    let tried = facts.now.since(record.since) > facts.seen.spec.promotion_patience;
    old && chosen && silent && tried
}

/// The candidate whose volume has the claim, long after its term began (R37).
fn needs_no_process(judge: &Judge<'_>, record: &Record, target: Target) -> bool {
    let facts = judge.facts;
    let claimed = record
        .candidate
        .as_ref()
        .is_some_and(|c| aspirant(c) == target && c.claim.is_some());
    let waits = facts
        .fresh_process(target)
        .is_some_and(|a| a.role == Role::Replica);
    let tried = facts.now.since(record.since) > facts.seen.spec.promotion_patience * 5;
    claimed && waits && tried
}

fn may_end(judge: &Judge<'_>, record: &Record, target: Target) -> bool {
    let facts = judge.facts;
    let Some(main) = &record.main else { return false };
    if record.candidate.as_ref().map(aspirant) == Some(target) {
        return false;
    }
    // Who is protected needs no settling: its loose MAIN may serve on.
    let protected = record.sync.is_some_and(|s| {
        facts
            .fresh_process(Target {
                pod: s.pod,
                process: s.process,
            })
            .is_some()
    });
    let loose = is_loose(record, target.process) && !protected;
    if holder(main) == target {
        return loose || suspected(judge, main);
    }
    loose || hangs(judge, main, target)
}

/// MAIN is ended only if somebody is accused by it and its own history is the suspect (R26).
fn suspected(judge: &Judge<'_>, main: &Main) -> bool {
    judge.facts.main_is_suspect(main)
        && judge
            .facts
            .seen
            .pods
            .iter()
            .any(|p| judge.facts.accused(main, p.ordinal))
}

/// The other authority pod holds every commit, and the policy is to go on without it (R30).
fn hangs(judge: &Judge<'_>, main: &Main, target: Target) -> bool {
    let facts = judge.facts;
    let silent = facts
        .pod(target.pod)
        .is_some_and(|p| matches!(p.contact, Contact::Silent { .. }));
    let runs = facts
        .object(target.pod)
        .is_some_and(|o| o.running == Some(target.process));
    silent
        && runs
        && main.pod.partner() == Some(target.pod)
        && facts.seen.spec.writes_without_sync == WritesWithoutSync::Always
}
