//! Operators: the real `decide`, the real executor, and a model of what their calls do.

use super::action::Look;
use super::observe::Lens;
use super::state::{Hashed, Remembered, State, model_name};
use super::{Doing, Violation};
use crate::memgraph::data::Delta;
use crate::memgraph::instance::{Begun, Dropped, Error, Mode, NodeId};
use mainstay_core::memgraph::ids::{Ordinal, ProofId, Term};
use mainstay_core::memgraph::observed;
use mainstay_core::memgraph::plan::{Step, Target};
use mainstay_core::memgraph::prepare::Marker;
use mainstay_core::memgraph::turn::{Outcome, Progress, Turn, awaited};
use mainstay_core::memgraph::{Record, Rule, Rules, decide, invariants};

impl State {
    /// One look: observe, decide, check. A plan without steps changes nothing.
    pub(super) fn look(&mut self, doing: &mut Doing<'_>, op: u8, look: Look, lens: &impl Lens) {
        let other = self.recorded_main().and_then(|m| Ordinal(m).partner());
        let switchover = if look == Look::Switchover { other } else { None };
        let seen = self.observe(doing.config, usize::from(op), lens, switchover);
        let record = self.record.as_deref();
        let plan = decide(record, &seen, lens.now());
        for reason in &plan.reasons {
            doing.note(|| reason.to_string());
        }
        // With a rule switched off the question is what becomes of the world, not of the plan.
        let judged = doing.config.rules() == Rules::ALL;
        if judged
            && let Some(broken) = invariants::check(record, &seen, &plan, lens.now())
                .into_iter()
                .next()
        {
            doing.violate(Violation::Invariant(broken.to_string()));
        }
        if plan.steps.is_empty() {
            doing.effect.idle = true;
            return;
        }
        for planned in &plan.steps {
            doing.note(|| format!("  plan: {}", planned.step));
        }
        match look {
            Look::Suspect => self.budget.suspicions = self.budget.suspicions.saturating_sub(1),
            Look::Switchover => self.budget.switchovers = self.budget.switchovers.saturating_sub(1),
            Look::Plain | Look::Late => {}
        }
        let (version, scale) = (self.version, self.scale);
        if let Some(operator) = self.operators.get_mut(usize::from(op)) {
            operator.scale = scale;
            operator.turn = Some(Hashed::new(Turn::new(plan)));
            operator.version = version;
            operator.unfenced = false;
        }
        self.skip_pushes(op);
    }

    /// The step an operator is at.
    pub fn current_step(&self, op: u8) -> Option<&Step> {
        self.operators.get(usize::from(op))?.turn.as_ref()?.step()
    }

    /// A push reaches gateways that listen. In a world of lagging gateways that is what `Read` does.
    fn skip_pushes(&mut self, op: u8) {
        while matches!(self.current_step(op), Some(Step::PushRecord(_))) {
            self.advance(op, Outcome::Done);
        }
    }

    pub(super) fn advance(&mut self, op: u8, outcome: Outcome) {
        let Some(operator) = self.operators.get_mut(usize::from(op)) else {
            return;
        };
        let Some(turn) = &operator.turn else { return };
        let mut turn: Turn = (**turn).clone();
        operator.turn = match turn.on(outcome) {
            Progress::GoOn => Some(Hashed::new(turn)),
            Progress::Finished | Progress::Ended => None,
        };
    }

    /// The turn and what was remembered are gone.
    pub(super) fn die(&mut self, op: u8) {
        if let Some(operator) = self.operators.get_mut(usize::from(op)) {
            *operator = super::Operator::default();
        }
    }

    /// Does the current step.
    pub(super) fn step(&mut self, doing: &mut Doing<'_>, op: u8, unfenced: bool, lens: &impl Lens) {
        let Some(step) = self.current_step(op).cloned() else {
            return;
        };
        doing.note(|| format!("{step}"));
        let outcome = if unfenced {
            Outcome::Done
        } else {
            self.perform(doing, Some(op), &step, lens)
        };
        if outcome != Outcome::Done {
            doing.note(|| format!("  {outcome:?}"));
        }
        if unfenced && let Some(operator) = self.operators.get_mut(usize::from(op)) {
            operator.unfenced = true;
        }
        self.advance(op, outcome);
        self.skip_pushes(op);
    }

    /// The command goes out and is not answered: it may execute later.
    pub(super) fn step_late(&mut self, doing: &mut Doing<'_>, op: u8) {
        let Some(step) = self.current_step(op).cloned() else {
            return;
        };
        doing.note(|| format!("{step}: no answer"));
        self.budget.late = self.budget.late.saturating_sub(1);
        self.outstanding.push(step);
        self.advance(op, Outcome::Unknown);
    }

    /// A command that timed out executes now.
    pub(super) fn execute_late(&mut self, doing: &mut Doing<'_>, n: u8) {
        if usize::from(n) < self.outstanding.len() {
            let step = self.outstanding.remove(usize::from(n));
            doing.note(|| format!("{step} executes now"));
            self.perform(
                doing,
                None,
                &step,
                &super::Timeless {
                    suspect: None,
                    late: false,
                    turn: 0,
                },
            );
        }
    }

    /// What a call does. `op` is `None` for a late command: nobody waits for its answer.
    fn perform(&mut self, doing: &mut Doing<'_>, op: Option<u8>, step: &Step, lens: &impl Lens) -> Outcome {
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

    fn wait_for(&self, doing: &Doing<'_>, op: Option<u8>, step: &Step, lens: &impl Lens) -> Outcome {
        let seen = self.observe(doing.config, usize::from(op.unwrap_or(0)), lens, None);
        if awaited(step, &seen) {
            Outcome::Done
        } else {
            Outcome::Refused
        }
    }

    /// Is what the current step waits for there? `true` for a step that does not wait.
    pub fn may_step(&self, config: &super::Config, op: u8, lens: &impl Lens) -> bool {
        let Some(step) = self.current_step(op) else {
            return false;
        };
        match step {
            Step::AwaitFence { .. } | Step::AwaitGateways(..) => {
                awaited(step, &self.observe(config, usize::from(op), lens, None))
            }
            // A commit of ours waits for the lock that a client's commit holds.
            Step::AdvanceMark { on, .. } | Step::WriteProof { on, .. } => !self.is_busy(on.pod.0),
            // Asked again until it is not refused: only an attempt that can succeed is a step of its own.
            Step::Demote(on) => !self.is_busy(on.pod.0) || !self.retries(op),
            _ => true,
        }
    }

    fn retries(&self, op: u8) -> bool {
        use mainstay_core::memgraph::plan::OnRefusal;
        let turn = self.operators.get(usize::from(op)).and_then(|o| o.turn.as_ref());
        turn.and_then(|t| t.remaining().next())
            .is_some_and(|p| p.on_refusal == OnRefusal::Retry)
    }

    fn is_busy(&self, pod: u8) -> bool {
        self.pod(pod).is_some_and(|p| p.alive && p.db.stage().is_some())
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
        let mut record = record.clone();
        lens.stamp(&mut record);
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
            Some(Ok(())) => Outcome::Done,
            _ => Outcome::Refused,
        }
    }

    /// One commit of an operator, all four steps at once.
    fn commit(&mut self, target: Target, delta: Delta) -> Outcome {
        if self.running(target.process).is_none() {
            return Outcome::Refused;
        }
        let done = self.with_db(target.pod.0, |db, net| {
            let begun = db.begin(delta, net)?;
            if let Begun::Aborted(_) = begun {
                return Ok(false);
            }
            db.commit_locally()?;
            if begun == Begun::Prepared {
                db.finalize(net)?;
            }
            let _ = db.finish()?;
            Ok::<bool, Error>(true)
        });
        if done == Some(Ok(true)) {
            Outcome::Done
        } else {
            Outcome::Refused
        }
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

    fn register(
        &mut self,
        doing: &mut Doing<'_>,
        op: Option<u8>,
        on: Target,
        name: mainstay_core::memgraph::ids::RegistrationName,
        mode: observed::Mode,
        peer: Target,
    ) -> Outcome {
        if self.running(on.process).is_none() {
            return Outcome::Refused;
        }
        let mode = match mode {
            observed::Mode::Async => Mode::Async,
            observed::Mode::Sync => Mode::Sync,
            observed::Mode::StrictSync => Mode::StrictSync,
        };
        let before = self.false_divergence(on.pod.0, peer.pod.0);
        let listens = self.pod(peer.pod.0).is_some_and(|p| p.alive) && !self.is_cut(on.pod.0, peer.pod.0);
        if doing.config.report_stalls && !listens {
            doing.violate(Violation::RegisterDead {
                main: on.pod,
                replica: peer.pod,
            });
        }
        let result = self.with_db(on.pod.0, |db, net| {
            db.register(model_name(name), mode, NodeId(peer.pod.0), net)
        });
        match result {
            Some(Ok(status)) => {
                doing.note(|| format!("  {status:?}"));
                Outcome::Done
            }
            Some(Err(error)) => {
                doing.note(|| format!("  {error}"));
                if error == Error::Diverged {
                    doing.note(|| self.why_diverged(on.pod.0, peer.pod.0, before));
                    self.remember_refusal(doing, op, on, peer, before);
                }
                if self.registered(on.pod.0, name) && error != Error::NameExists {
                    Outcome::Spoiled
                } else {
                    Outcome::Refused
                }
            }
            None => Outcome::Refused,
        }
    }

    /// What MAIN judged by, and whether it is right.
    fn why_diverged(&self, main: u8, peer: u8, false_one: bool) -> String {
        let lineage = |n: u8| self.pod(n).map(|p| p.db.lineage());
        let (Some(judge), Some(accused)) = (lineage(main), lineage(peer)) else {
            return String::new();
        };
        let truth = if false_one { "wrongly" } else { "rightly" };
        let history: Vec<_> = judge
            .history
            .iter()
            .map(|e| format!("e{}@{}", e.epoch.0, e.ts.0))
            .collect();
        format!(
            "  {truth}: it has e{}@{}, MAIN's history is {}",
            accused.reported_epoch().0,
            accused.ldt.0,
            history.join(" ")
        )
    }

    fn remember_refusal(
        &mut self,
        doing: &mut Doing<'_>,
        op: Option<u8>,
        on: Target,
        peer: Target,
        false_one: bool,
    ) {
        let serving = self.record.as_ref().is_some_and(|r| {
            r.state == mainstay_core::memgraph::record::State::Serving
                && r.main.as_ref().is_some_and(|m| m.process == on.process)
        });
        if false_one && serving && doing.config.report_false_divergence {
            doing.violate(Violation::FalseDivergence {
                main: on.pod,
                accused: peer.pod,
            });
        }
        let term = self.record.as_ref().map_or_else(Default::default, |r| r.term);
        if let Some(operator) = op.and_then(|op| self.operators.get_mut(usize::from(op))) {
            operator.refused.retain(|r| r.pod != peer.pod);
            operator.refused.push(Remembered {
                pod: peer.pod,
                by: on.process,
                of: peer.process,
                code: 3,
                term,
            });
            operator.refused.sort_unstable();
        }
    }

    fn drop_registration(
        &mut self,
        doing: &mut Doing<'_>,
        on: Target,
        name: mainstay_core::memgraph::ids::RegistrationName,
    ) -> Outcome {
        if self.running(on.process).is_none() {
            return Outcome::Refused;
        }
        match self.with_db(on.pod.0, |db, _| db.drop_replica(model_name(name))) {
            Some(Ok(Dropped::Clean)) => Outcome::Done,
            Some(Ok(Dropped::WhileWorking)) => {
                doing.note(|| "  MAIN crashes: the replica had background work".to_owned());
                if doing.config.report_drops {
                    doing.violate(Violation::DropWhileWorking {
                        main: on.pod,
                        replica: name.pod(),
                    });
                }
                self.end_process(doing.config, on.pod.0, false);
                Outcome::Unknown
            }
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
