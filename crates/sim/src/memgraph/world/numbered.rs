//! Where in a state the numbers are that only grow.
//!
//! Without `..` throughout: a number that is not shown would survive when all others are given anew.

use super::state::{Chosen, Gateway, Operator, Pod, Remembered, State, core_name, model_name};
use crate::memgraph::data::{Data, Delta};
use crate::memgraph::instance::{self, ContentVisitor};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::ids::{
    Gen, PodUid, ProcessId, ProofId, RegistrationName, ResetId, Revision, Term,
};
use mainstay_core::memgraph::plan::{Step, Target};
use mainstay_core::memgraph::prepare::Marker;
use mainstay_core::memgraph::record::{Candidate, Claim, Loose, Main, Reset, Sync};
use mainstay_core::memgraph::turn::Turn;

/// Is shown every number and may change it.
pub trait Visitor {
    /// A term.
    fn term(&mut self, term: &mut Term);
    /// A generation.
    fn generation(&mut self, generation: &mut Gen);
    /// A revision.
    fn revision(&mut self, revision: &mut Revision);
    /// Which run of which pod.
    fn run(&mut self, pod: usize, run: &mut u8);
    /// Which object of which pod.
    fn uid(&mut self, pod: usize, uid: &mut u8);

    /// A process: a pod and a run.
    fn process(&mut self, process: &mut ProcessId) {
        process.0 = self.split(process.0, Self::run);
    }

    /// A pod object: a pod and how often it was made.
    fn pod_uid(&mut self, uid: &mut PodUid) {
        uid.0 = self.split(uid.0, Self::uid);
    }

    /// What is said of one pod: see [`super::state::process`].
    fn split(&mut self, id: u128, change: fn(&mut Self, usize, &mut u8)) -> u128 {
        let number = id.saturating_sub(1);
        let pod = number / 1000;
        let (Ok(at), Ok(mut n)) = (usize::try_from(pod), u8::try_from(number % 1000)) else {
            return id;
        };
        change(self, at, &mut n);
        pod * 1000 + u128::from(n) + 1
    }

    /// A proof is called after the revision it was planned at, and one more.
    fn proof(&mut self, proof: &mut ProofId) {
        proof.0 = self.after_revision(proof.0);
    }

    /// So is a reset.
    fn reset(&mut self, reset: &mut ResetId) {
        reset.0 = self.after_revision(reset.0);
    }

    /// One more than a revision, or nothing yet.
    fn after_revision(&mut self, number: u64) -> u64 {
        let Some(before) = number.checked_sub(1) else {
            return 0;
        };
        let mut revision = Revision(before);
        self.revision(&mut revision);
        revision.0 + 1
    }
}

/// Something with numbers in it.
pub trait Numbered {
    /// Shows them all.
    fn visit(&mut self, visitor: &mut impl Visitor);
}

impl State {
    /// Shows every number, but for those in pods, in the record and in turns.
    pub(super) fn visit_parts(&mut self, visitor: &mut impl Visitor) {
        let Self {
            pods: _,
            record: _,
            version: _,
            status_term,
            gateways,
            operators,
            outstanding,
            cut: _,
            acked: _,
            next_write: _,
            next_id: _,
            asleep: _,
            scale: _,
            overriding: _,
            chosen,
            budget: _,
            last_write: _,
            begun: _,
            written: _,
        } = self;
        for Gateway { gate, session } in gateways {
            let (terms, revision) = gate.numbers_mut();
            terms.for_each(|term| visitor.term(term));
            visitor.revision(revision);
            if let Some((pod, run)) = session {
                visitor.run(usize::from(*pod), run);
            }
        }
        let accepted = chosen.iter_mut().filter_map(
            |Chosen {
                 pod: _,
                 held: _,
                 accepted,
             }| accepted.as_mut(),
        );
        for term in status_term.iter_mut().chain(accepted) {
            visitor.term(term);
        }
        for Operator {
            turn: _,
            version: _,
            scale: _,
            refused,
            unfenced: _,
        } in operators
        {
            for Remembered {
                pod: _,
                by,
                of,
                code: _,
                term,
            } in refused
            {
                visitor.process(by);
                visitor.process(of);
                visitor.term(term);
            }
        }
        for step in outstanding {
            step.visit(visitor);
        }
    }
}

pub(super) fn visit_pod(pod: &mut Pod, number: usize, visitor: &mut impl Visitor) {
    let Pod {
        run,
        alive: _,
        hung: _,
        uid,
        recreate: _,
        volume: _,
        last,
        marker,
        scaled_away: _,
        db,
        waiting: _,
    } = pod;
    visitor.run(number, run);
    visitor.run(number, last);
    visitor.uid(number, uid);
    if let Some(Marker { id, term }) = marker {
        visitor.reset(id);
        visitor.term(term);
    }
    db.visit_contents(&mut Contents(visitor));
}

/// The numbers that a database keeps for others.
struct Contents<'a, V>(&'a mut V);

impl<V: Visitor> ContentVisitor<Data> for Contents<'_, V> {
    fn name(&mut self, name: &mut instance::RegistrationName) {
        let mut known = core_name(*name);
        visit_name(&mut known, self.0);
        *name = model_name(known);
    }

    fn store(&mut self, store: &mut Data) {
        let Data {
            mark,
            proof,
            writes: _,
        } = store;
        if let Some(term) = mark {
            self.0.term(term);
        }
        self.0.proof(proof);
    }

    fn delta(&mut self, delta: &mut Delta) {
        match delta {
            Delta::Mark(term) => self.0.term(term),
            Delta::Proof(proof) => self.0.proof(proof),
            Delta::Write(_) | Delta::Unmark => {}
        }
    }
}

fn visit_name(name: &mut RegistrationName, visitor: &mut impl Visitor) {
    match name {
        RegistrationName::Async(_) => {}
        RegistrationName::Strict(_, generation) => visitor.generation(generation),
    }
}

impl Numbered for Turn {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        for step in self.steps_mut() {
            step.visit(visitor);
        }
    }
}

impl Numbered for Record {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        let Self {
            term,
            generation,
            revision,
            state: _,
            since: _,
            main,
            candidate,
            sync,
            writes: _,
            held_at: _,
            moved_at: _,
            honoured: _,
            exposed: _,
            reset,
            loose,
        } = self;
        visitor.term(term);
        visitor.generation(generation);
        visitor.revision(revision);
        if let Some(main) = main {
            visit_main(main, visitor);
        }
        if let Some(Candidate {
            pod: _,
            process,
            volume: _,
            peers,
            suspect: _,
            forced: _,
            claim,
        }) = candidate
        {
            visitor.process(process);
            if let Some(Claim { process, alone: _ }) = claim {
                visitor.process(process);
            }
            for peer in peers {
                visitor.process(peer);
            }
        }
        if let Some(Sync {
            pod: _,
            process,
            volume: _,
            name,
        }) = sync
        {
            visitor.process(process);
            visit_name(name, visitor);
        }
        if let Some(Reset {
            pod: _,
            process,
            id,
            term,
            since: _,
            keep: _,
        }) = reset
        {
            visitor.process(process);
            visitor.reset(id);
            visitor.term(term);
        }
        for Loose { pod: _, process } in loose {
            visitor.process(process);
        }
    }
}

fn visit_main(main: &mut Main, visitor: &mut impl Visitor) {
    let Main {
        pod: _,
        process,
        volume: _,
        database: _,
        term,
        epoch,
        peers,
        suspect: _,
        history_from,
        rebuilt: _,
        office_from,
        rival,
    } = main;
    visitor.process(process);
    visitor.term(term);
    visitor.term(epoch);
    for peer in peers {
        visitor.process(peer);
    }
    visitor.term(history_from);
    visitor.term(office_from);
    if let Some(rival) = rival {
        visitor.term(rival);
    }
}

fn visit_target(target: &mut Target, visitor: &mut impl Visitor) {
    let Target { pod: _, process } = target;
    visitor.process(process);
}

impl Numbered for Step {
    fn visit(&mut self, visitor: &mut impl Visitor) {
        match self {
            Self::CreateRecord(record) | Self::WriteRecord(record) => record.visit(visitor),
            Self::Demote(on) | Self::Promote(on) | Self::RunOnPromotion(on) => visit_target(on, visitor),
            Self::PushRecord(revision) => visitor.revision(revision),
            Self::AwaitFence {
                old,
                start_fence: _,
                term,
                otherwise: _,
            } => {
                visit_target(old, visitor);
                visitor.term(term);
            }
            Self::AwaitGateways(term, revision) => {
                visitor.term(term);
                visitor.revision(revision);
            }
            Self::AdvanceMark { on, from, to } => {
                visit_target(on, visitor);
                from.iter_mut().chain([to]).for_each(|term| visitor.term(term));
            }
            Self::Register {
                on,
                name,
                mode: _,
                peer,
            } => {
                visit_target(on, visitor);
                visit_name(name, visitor);
                visit_target(peer, visitor);
            }
            Self::Drop { on, name } => {
                visit_target(on, visitor);
                visit_name(name, visitor);
            }
            Self::WriteProof { on, proof } | Self::ReadProof { on, proof } => {
                visit_target(on, visitor);
                visitor.proof(proof);
            }
            Self::EndProcess { target, uid } | Self::DeletePod { target, uid } => {
                visit_target(target, visitor);
                visitor.pod_uid(uid);
            }
            Self::WriteMarker { target, id, term } => {
                visit_target(target, visitor);
                visitor.reset(id);
                visitor.term(term);
            }
            Self::Scale(_) => {}
        }
    }
}
