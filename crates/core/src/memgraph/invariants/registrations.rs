//! REGISTER and DROP.

use super::facts::holder;
use super::{At, Detail, Invariant, Judge, roles};
use crate::memgraph::ids::RegistrationName;
use crate::memgraph::observed::{Mode, Registration, Role, Status};
use crate::memgraph::plan::{OnRefusal, Step, Target};
use crate::memgraph::record::{State, Writes};

/// A registration that a plan makes.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) on: Target,
    pub(super) name: RegistrationName,
    pub(super) mode: Mode,
    pub(super) peer: Target,
}

pub(super) fn register(judge: &mut Judge<'_>, at: At<'_>, wanted: Wanted, on_refusal: &OnRefusal) {
    let Wanted { on, name, mode, peer } = wanted;
    roles::target(judge, at, on);
    let detail = Detail::Name(name);
    let generation = at.record.map(|r| r.generation);
    let named = match (mode, name) {
        (Mode::Async, RegistrationName::Async(pod)) => pod == peer.pod,
        (Mode::StrictSync, RegistrationName::Strict(pod, g)) => {
            pod == peer.pod && pod.is_authority() && Some(g) == generation
        }
        (Mode::Sync | Mode::Async | Mode::StrictSync, _) => false,
    };
    if !named {
        judge.broken(at, Invariant::RegisterName, detail);
    }
    if !right_peer(judge, at, on, peer) {
        judge.broken(at, Invariant::RegisterPeer, Detail::Process(peer));
    }
    if judge
        .facts
        .pod(peer.pod)
        .is_none_or(|p| p.replication_port_open != Some(true))
    {
        judge.broken(at, Invariant::RegisterPort, Detail::Pod(peer.pod));
    }
    let dropped = judge.earlier(at).any(|s| *s == Step::Drop { on, name });
    let listed = !dropped && judge.facts.listed(on.pod).any(|r| r.name == name);
    let protected = mode == Mode::StrictSync && at.record.is_some_and(|r| r.sync.is_some());
    if listed || protected {
        judge.broken(at, Invariant::RegisterNewName, detail);
    }
    if !matches!(on_refusal, OnRefusal::Undo(step) if **step == Step::Drop { on, name }) {
        judge.broken(at, Invariant::RegisterUndone, detail);
    }
}

fn right_peer(judge: &Judge<'_>, at: At<'_>, on: Target, peer: Target) -> bool {
    let facts = judge.facts;
    let main = facts.fresh_process(on).is_some_and(|a| a.role == Role::Main);
    // Without a record a MAIN may be asked whether it holds everything (R8).
    let office = at
        .record
        .is_none_or(|r| r.state == State::Serving && r.main.as_ref().map(holder) == Some(on));
    let replica = facts.fresh_process(peer).is_some_and(|a| a.role == Role::Replica);
    main && office && replica && peer.pod != on.pod
}

pub(super) fn drop(judge: &mut Judge<'_>, at: At<'_>, on: Target, name: RegistrationName) {
    roles::target(judge, at, on);
    if at.record.is_some_and(|r| r.sync.is_some_and(|s| s.name == name)) {
        judge.broken(at, Invariant::WithdrawFirst, Detail::Name(name));
    }
    let facts = judge.facts;
    if facts
        .listed(on.pod)
        .any(|r| r.name == name && !idle(judge, at, r))
    {
        judge.broken(at, Invariant::DropIdle, Detail::Name(name));
    }
}

/// Has this registration no background work (R33)?
fn idle(judge: &Judge<'_>, at: At<'_>, registration: &Registration) -> bool {
    let facts = judge.facts;
    let pod = registration.name.pod();
    if !registration.attached {
        return true;
    }
    let steady = facts.now.since(registration.since) >= facts.seen.spec.steady;
    match registration.status {
        Status::Replicating | Status::Recovery => false,
        Status::Invalid | Status::Diverged => facts.away(pod) || steady,
        Status::Ready => {
            // The hold counts only as the gateways confirmed it, and only if this plan did not lift it.
            let held = judge
                .read
                .is_some_and(|r| r.writes != Writes::Open && facts.gateways_have(r));
            let level = registration.behind == 0 || steady;
            level && held && at.record.is_some_and(|r| r.writes != Writes::Open)
        }
    }
}
