//! What an operator's calls do to the record, the pods and their databases.

use super::Doing;
use super::observe::Lens;
use super::state::{Hashed, State};
use crate::memgraph::data::Delta;
use crate::memgraph::instance::{Begun, Error};
use mainstay_core::memgraph::ids::{ProofId, Term};
use mainstay_core::memgraph::plan::{Step, Target};
use mainstay_core::memgraph::prepare::Marker;
use mainstay_core::memgraph::turn::Outcome;
use mainstay_core::memgraph::{Record, Rule};

impl State {
    /// What a call does. `op` is `None` for a late command: nobody waits for its answer.
    pub(super) fn perform(
        &mut self,
        doing: &mut Doing<'_>,
        op: Option<u8>,
        step: &Step,
        lens: &impl Lens,
    ) -> Outcome {
        if commanded(step).is_some_and(|on| self.hangs(on)) {
            return Outcome::Unknown;
        }
        match step {
            Step::CreateRecord(record) => self.create_record(op, record, lens),
            Step::WriteRecord(record) => self.write_record(doing, op, record, lens),
            Step::Demote(target) => self.demote(doing, *target),
            Step::Promote(target) => self.promote(doing, *target),
            Step::AwaitFence { .. } | Step::AwaitGateways(..) => self.wait_for(doing, op, step, lens),
            Step::AdvanceMark { on, from, to } => self.advance_mark(doing, *on, *from, *to),
            Step::PushRecord(_) | Step::RunOnPromotion(_) => Outcome::Done,
            Step::Register { on, name, mode, peer } => self.register(doing, op, *on, *name, *mode, *peer),
            Step::Drop { on, name } => self.drop_registration(doing, *on, *name),
            Step::WriteProof { on, proof } => self.write_proof(*on, *proof),
            Step::ReadProof { on, proof } => self.read_proof(*on, *proof),
            Step::EndProcess { target, uid: _ } => self.end_target(doing, *target),
            Step::WriteMarker { target, id, term } => {
                self.write_marker(doing, *target, Marker { id: *id, term: *term })
            }
            Step::DeletePod { target, uid } => self.delete_pod(doing, *target, *uid),
            Step::Scale(n) => self.scale(doing, op, *n),
        }
    }

    fn create_record(&mut self, op: Option<u8>, record: &Record, lens: &impl Lens) -> Outcome {
        if self.record.is_some() {
            return Outcome::Refused;
        }
        self.store(op, record, lens);
        Outcome::Done
    }

    /// R9: the version read before observing, or the version this turn wrote itself.
    fn write_record(
        &mut self,
        doing: &Doing<'_>,
        op: Option<u8>,
        record: &Record,
        lens: &impl Lens,
    ) -> Outcome {
        let expected = op
            .and_then(|op| self.operators.get(usize::from(op)))
            .map(|o| o.version);
        let fresh = !doing.config.rules().on(Rule::R9);
        if self.record.is_none() || (expected != Some(self.version) && !fresh) {
            return Outcome::Refused;
        }
        self.store(op, record, lens);
        Outcome::Done
    }

    fn store(&mut self, op: Option<u8>, record: &Record, lens: &impl Lens) {
        self.version += 1;
        self.written += 1;
        let mut record = record.clone();
        lens.stamp(&mut record);
        let known = self.status_term.unwrap_or_default();
        self.begun += record.term.0.saturating_sub(known.0);
        self.status_term = self.status_term.max(Some(record.term));
        self.record = Some(Hashed::new(record));
        let version = self.version;
        if let Some(operator) = op.and_then(|op| self.operators.get_mut(usize::from(op))) {
            operator.version = version;
        }
    }

    /// The pod that a command reaches (R36: only the process that was meant).
    fn reached(&self, doing: &Doing<'_>, target: Target) -> Option<u8> {
        let pod = self.pod(target.pod.0).filter(|p| p.alive)?;
        let meant = pod.process(target.pod.0) == target.process;
        (meant || !doing.config.rules().on(Rule::R36)).then_some(target.pod.0)
    }

    fn demote(&mut self, doing: &Doing<'_>, target: Target) -> Outcome {
        let Some(pod) = self.reached(doing, target) else {
            return Outcome::Refused;
        };
        let main = crate::memgraph::instance::MainId(self.fresh_id());
        match self.with_db(pod, |db, _| db.demote(main)) {
            // The server's error says nothing; the executor reads the role back, and REPLICA is what was wanted.
            Some(Ok(()) | Err(Error::AlreadyReplica)) => Outcome::Done,
            _ => Outcome::Refused,
        }
    }

    fn promote(&mut self, doing: &Doing<'_>, target: Target) -> Outcome {
        let Some(pod) = self.reached(doing, target) else {
            return Outcome::Refused;
        };
        let epoch = crate::memgraph::instance::EpochId(self.fresh_id());
        let main = crate::memgraph::instance::MainId(self.fresh_id());
        match self.with_db(pod, |db, _| db.promote(epoch, main)) {
            Some(Ok(())) => {
                self.accept_loss(pod);
                Outcome::Done
            }
            _ => Outcome::Refused,
        }
    }

    /// One commit of an operator, all four steps at once, unless it waits for a replica that hangs: then the call
    /// times out, and the commit is still there.
    pub(super) fn commit(&mut self, target: Target, delta: Delta) -> Outcome {
        if self.running(target.process).is_none() {
            return Outcome::Refused;
        }
        let done = self.with_db(target.pod.0, |db, net| {
            let begun = db.begin(delta, net)?;
            match begun {
                Begun::Aborted(_) => return Ok(Outcome::Refused),
                Begun::Waiting => return Ok(Outcome::Unknown),
                Begun::Prepared | Begun::Local => {}
            }
            db.commit_locally()?;
            if begun == Begun::Prepared {
                db.finalize(net)?;
            }
            let _ = db.finish()?;
            Ok::<Outcome, Error>(Outcome::Done)
        });
        done.and_then(Result::ok).unwrap_or(Outcome::Refused)
    }

    fn advance_mark(&mut self, doing: &Doing<'_>, on: Target, from: Option<Term>, to: Term) -> Outcome {
        let Some((_, pod)) = self.running(on.process) else {
            return Outcome::Refused;
        };
        let mark = pod.db.store().mark;
        if mark == Some(to) && pod.db.role() == crate::memgraph::instance::Role::Main {
            return Outcome::Done;
        }
        // R31: the mark is compared inside the database, after the promotion.
        if mark != from && doing.config.rules().on(Rule::R31) {
            return Outcome::Refused;
        }
        self.accept_loss(on.pod.0);
        self.commit(on, Delta::Mark(to))
    }

    /// The proof is a property of the mark: without one the query matches nothing.
    fn write_proof(&mut self, on: Target, proof: ProofId) -> Outcome {
        let marked = self
            .running(on.process)
            .is_some_and(|(_, pod)| pod.db.store().mark.is_some());
        if marked {
            self.commit(on, Delta::Proof(proof))
        } else {
            Outcome::Refused
        }
    }

    fn read_proof(&self, on: Target, proof: ProofId) -> Outcome {
        match self.running(on.process) {
            Some((_, pod)) if pod.db.store().proof == proof => Outcome::Done,
            _ => Outcome::Refused,
        }
    }

    fn end_target(&mut self, doing: &Doing<'_>, target: Target) -> Outcome {
        match self.running(target.process) {
            Some((pod, _)) => {
                self.end_process(doing.config, pod, false);
                Outcome::Done
            }
            None => Outcome::Refused,
        }
    }

    /// The pod's helper writes the marker, if its process is the one that was judged.
    fn write_marker(&mut self, doing: &Doing<'_>, target: Target, marker: Marker) -> Outcome {
        let checks = doing.config.rules().on(Rule::R7);
        let judged = self.running(target.process).is_some();
        match self.pod_mut(target.pod.0) {
            Some(pod) if judged || (!checks && pod.alive) => {
                pod.marker = Some(marker);
                Outcome::Done
            }
            _ => Outcome::Refused,
        }
    }

    fn delete_pod(
        &mut self,
        doing: &Doing<'_>,
        target: Target,
        uid: mainstay_core::memgraph::ids::PodUid,
    ) -> Outcome {
        let number = target.pod.0;
        match self.pod(number) {
            Some(pod) if pod.pod_uid(number) == uid => {
                self.recreate(doing.config, number);
                Outcome::Done
            }
            _ => Outcome::Refused,
        }
    }

    /// The StatefulSet is written with the version that was read: a late `Scale` hits nothing.
    fn scale(&mut self, doing: &Doing<'_>, op: Option<u8>, wanted: u8) -> Outcome {
        let seen = op
            .and_then(|op| self.operators.get(usize::from(op)))
            .map(|o| o.scale);
        if seen != Some(self.scale) {
            return Outcome::Refused;
        }
        self.scale += 1;
        for number in 0..doing.config.pods {
            let away = number >= wanted;
            if away && self.pod(number).is_some_and(|p| p.alive) {
                self.end_process(doing.config, number, false);
            }
            if let Some(pod) = self.pod_mut(number) {
                if away && !pod.scaled_away {
                    pod.recreate = true;
                    pod.uid = pod.uid.wrapping_add(1);
                }
                pod.scaled_away = away;
            }
        }
        Outcome::Done
    }
}

/// The process whose database must answer for this step to be done.
pub(super) fn commanded(step: &Step) -> Option<Target> {
    match step {
        Step::Demote(on)
        | Step::Promote(on)
        | Step::AdvanceMark { on, .. }
        | Step::Register { on, .. }
        | Step::Drop { on, .. }
        | Step::WriteProof { on, .. }
        | Step::ReadProof { on, .. } => Some(*on),
        _ => None,
    }
}
