//! Operators: the real `decide`, the real executor. What their calls do is in `calls`.

use super::action::Look;
use super::observe::Lens;
use super::state::{Hashed, State};
use super::{Doing, Violation};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::turn::{Outcome, Progress, Turn, awaited};
use mainstay_core::memgraph::{Rules, decide, invariants};

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
        if let Look::Dying(pod) = look {
            self.crash(doing, pod, false);
        }
        if plan.steps.is_empty() {
            doing.effect.idle = !matches!(look, Look::Dying(_));
            return;
        }
        for planned in &plan.steps {
            doing.note(|| format!("  plan: {}", planned.step));
        }
        match look {
            Look::Suspect | Look::SuspectLate => {
                self.budget.suspicions = self.budget.suspicions.saturating_sub(1);
            }
            Look::Switchover => self.budget.switchovers = self.budget.switchovers.saturating_sub(1),
            Look::Plain | Look::Late | Look::Dying(_) => {}
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
                    dying: None,
                    turn: 0,
                },
            );
        }
    }

    pub(super) fn wait_for(
        &self,
        doing: &Doing<'_>,
        op: Option<u8>,
        step: &Step,
        lens: &impl Lens,
    ) -> Outcome {
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
}
