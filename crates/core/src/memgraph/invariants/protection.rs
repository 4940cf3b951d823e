//! Protection: how it is proven, what ends it, and which processes can never have it.

use super::facts::{aspirant, holder, is_loose, unfinished};
use super::terms::begins_to_serve;
use super::{At, Change, Detail, Invariant, Judge};
use crate::memgraph::ids::RegistrationName;
use crate::memgraph::observed::{Mode, Role};
use crate::memgraph::plan::{Step, Target};
use crate::memgraph::record::{Record, State, Sync};

pub(super) fn proven(judge: &mut Judge<'_>, at: At<'_>, change: Change<'_>) {
    let Change { before, next } = change;
    let Some(sync) = next.sync else { return };
    let kept = before.is_some_and(|b| b.sync == Some(sync));
    let fresh_term = change.begins_term() && next.state != State::SwitchingOver;
    if fresh_term || begins_to_serve(change) {
        judge.broken(at, Invariant::ProtectionEnds, Detail::Pod(sync.pod));
    }
    if !kept {
        newly(judge, at, change, sync);
    }
}

/// Protection that was not in the record before.
fn newly(judge: &mut Judge<'_>, at: At<'_>, change: Change<'_>, sync: Sync) {
    let next = change.next;
    let replica = Target {
        pod: sync.pod,
        process: sync.process,
    };
    let detail = Detail::Process(replica);
    let Some(main) = &next.main else {
        judge.broken(at, Invariant::ProvenPair, detail);
        return;
    };
    if !judge.proof_made(at, holder(main), replica) {
        judge.broken(at, Invariant::ProvenByCommit, detail);
    }
    if !pair_stands(judge, change, sync) {
        judge.broken(at, Invariant::ProvenPair, detail);
    }
    let listed = judge.facts.listed(main.pod).any(|r| r.name == sync.name);
    if !listed || sync.name != RegistrationName::Strict(sync.pod, next.generation) {
        judge.broken(at, Invariant::ProvenName, Detail::Name(sync.name));
    }
    let loose = |r: &Record| is_loose(r, sync.process) || is_loose(r, main.process);
    if loose(next) || change.before.is_some_and(loose) {
        judge.broken(at, Invariant::ProvenNotLoose, detail);
    }
    if !main.peers.contains(&sync.process) {
        judge.broken(at, Invariant::ProvenInEpoch, detail);
    }
    if !judge.facts.gateways_have_term(next.term) {
        judge.broken(at, Invariant::ProvenAfterGateways, detail);
    }
}

/// A healthy MAIN, and the other authority pod attached to it, each in the process that is recorded.
fn pair_stands(judge: &Judge<'_>, change: Change<'_>, sync: Sync) -> bool {
    let facts = judge.facts;
    let next = change.next;
    let serving = next.state == State::Serving && change.before.is_some_and(|b| b.state == State::Serving);
    let Some(main) = &next.main else { return false };
    let partner = main.pod.partner() == Some(sync.pod);
    let replica = facts
        .fresh_process(Target {
            pod: sync.pod,
            process: sync.process,
        })
        .is_some_and(|a| a.role == Role::Replica);
    let attached = facts
        .listed(main.pod)
        .any(|r| r.name.pod() == sync.pod && r.mode == Mode::StrictSync && r.attached && r.address_ok);
    serving
        && facts.healthy(next).is_some()
        && partner
        && replica
        && attached
        && facts.volume(sync.pod) == Some(sync.volume)
}

/// Epoch and peers of a MAIN that begins to serve, and of a candidate (R25).
pub(super) fn epoch(judge: &mut Judge<'_>, at: At<'_>, change: Change<'_>) {
    let Change { before, next } = change;
    let detail = Detail::Record(next.revision);
    if let Some(candidate) = next.candidate.as_ref().filter(|_| change.begins_term()) {
        let facts = judge.facts;
        let seen = |process| {
            let others = facts.seen.pods.iter().filter(|p| p.ordinal != candidate.pod);
            others
                .filter_map(|p| facts.fresh(p.ordinal))
                .any(|a| a.process == process)
        };
        if !candidate.peers.iter().all(|p| seen(*p)) {
            judge.broken(at, Invariant::EpochNeedsPromotion, detail);
        }
    }
    let (true, Some(before), Some(main)) = (begins_to_serve(change), before, &next.main) else {
        return;
    };
    let Some(candidate) = &before.candidate else {
        return;
    };
    let promoted = judge
        .since_write(at)
        .any(|s| *s == Step::Promote(aspirant(candidate)));
    let right = match &before.main {
        _ if promoted => main.epoch == next.term && main.peers == candidate.peers,
        Some(old) if old.process == candidate.process => main.epoch == old.epoch && main.peers == old.peers,
        _ => main.peers.is_empty(),
    };
    if !right {
        judge.broken(at, Invariant::EpochNeedsPromotion, detail);
    }
}

/// Who becomes loose and who stops being it (R34).
pub(super) fn loose(judge: &mut Judge<'_>, at: At<'_>, change: Change<'_>) {
    let Some(before) = change.before else { return };
    for entry in before.loose.iter().filter(|l| !change.next.loose.contains(l)) {
        let target = Target {
            pod: entry.pod,
            process: entry.process,
        };
        if !judge.facts.gone(target) {
            judge.broken(at, Invariant::LooseUntilGone, Detail::Process(target));
        }
    }
    // Only the record as it was read is another turn's work.
    let taken = at.written.is_none() && unfinished(before);
    let Some(candidate) = before.candidate.as_ref().filter(|_| taken) else {
        return;
    };
    let target = aspirant(candidate);
    if !is_loose(change.next, target.process) && !judge.facts.gone(target) {
        judge.broken(at, Invariant::UnfinishedIsLoose, Detail::Process(target));
    }
}
