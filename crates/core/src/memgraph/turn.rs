//! The executor without I/O: which step is next, and what an outcome means.
//!
//! It makes no choice. A refused step means what the plan says it means; an unknown outcome ends the turn,
//! and the next one observes again. The shell around it checks the lease right before every step.

use super::ids::Term;
use super::observed::{Observed, Role};
use super::plan::{OnRefusal, Plan, Planned, Step, Target};
use super::record::Record;
use super::spec::FenceTimeout;
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered: done.
    Done,
    /// Answered: not done, and it had no effect.
    Refused,
    /// Answered: not done, and it left something behind (a zombie registration).
    Spoiled,
    /// No answer. It may have been done, may be done later, or never.
    Unknown,
}

/// What is known beforehand of a step.
#[cfg(any(test, feature = "rule-switches"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing.
    Open,
    /// It can only be refused.
    Refused,
    /// It is as good as this one.
    Becomes(Step),
}

/// Where a turn stands after an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is a next step.
    GoOn,
    /// Every step was done.
    Finished,
    /// It ended early: refused, unknown, or undone.
    Ended,
}

/// A plan being carried out: what is left of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Turn {
    /// Not done yet; the first one is next.
    left: VecDeque<Planned>,
    undo: Option<Step>,
}

impl Turn {
    /// The plan, from its first step.
    pub fn new(plan: Plan) -> Self {
        Self {
            left: plan.steps.into(),
            undo: None,
        }
    }

    /// The step to do now; `None` when there is none left.
    pub fn step(&self) -> Option<&Step> {
        self.undo.as_ref().or_else(|| self.left.front().map(|p| &p.step))
    }

    /// Steps not done yet.
    pub fn remaining(&self) -> impl ExactSizeIterator<Item = &Planned> {
        self.left.iter()
    }

    /// Takes the outcome of the current step.
    pub fn on(&mut self, outcome: Outcome) -> Progress {
        if self.undo.take().is_some() {
            return Progress::Ended;
        }
        let Some(planned) = self.left.front() else {
            return Progress::Finished;
        };
        match (outcome, &planned.on_refusal) {
            (Outcome::Done, _) | (Outcome::Refused, OnRefusal::GoOn) => self.advance(),
            (Outcome::Refused, OnRefusal::Retry) => Progress::GoOn,
            // Only what this very call left behind is undone: "name exists" means that somebody else's
            // registration is there, and dropping that one could crash MAIN (R33).
            (Outcome::Spoiled, OnRefusal::Undo(step)) => {
                self.undo = Some((**step).clone());
                Progress::GoOn
            }
            (Outcome::Refused, OnRefusal::End | OnRefusal::Undo(_))
            | (Outcome::Spoiled | Outcome::Unknown, _) => Progress::Ended,
        }
    }

    /// The same turn as far as it can still matter, for a search that holds turns which differ in nothing else to
    /// be one: `None` if nothing can be left out.
    #[cfg(any(test, feature = "rule-switches"))]
    pub fn foreseen(&self, fate: impl Fn(&Step) -> Fate) -> Option<Self> {
        if self.left.iter().all(|p| matches!(fate(&p.step), Fate::Open)) {
            return None;
        }
        let mut left = VecDeque::with_capacity(self.left.len());
        for planned in &self.left {
            let Planned { step, on_refusal } = planned;
            match (fate(step), on_refusal) {
                (Fate::Open, _) => left.push_back(planned.clone()),
                (Fate::Becomes(step), on_refusal) => left.push_back(Planned {
                    step,
                    on_refusal: on_refusal.clone(),
                }),
                (Fate::Refused, OnRefusal::GoOn) => {}
                (Fate::Refused, OnRefusal::End | OnRefusal::Retry | OnRefusal::Undo(_)) => break,
            }
        }
        let undo = self.undo.clone();
        (left != self.left).then_some(Self { left, undo })
    }

    /// Every step in here, those included that only an outcome brings up: for a search that renumbers what they name.
    #[cfg(any(test, feature = "rule-switches"))]
    pub fn steps_mut(&mut self) -> impl Iterator<Item = &mut Step> {
        let Self { left, undo } = self;
        let planned = left.iter_mut().flat_map(|Planned { step, on_refusal }| {
            let undone = match on_refusal {
                OnRefusal::Undo(step) => Some(&mut **step),
                OnRefusal::End | OnRefusal::GoOn | OnRefusal::Retry => None,
            };
            std::iter::once(step).chain(undone)
        });
        planned.chain(undo)
    }

    fn advance(&mut self) -> Progress {
        self.left.pop_front();
        if self.left.is_empty() {
            Progress::Finished
        } else {
            Progress::GoOn
        }
    }
}

/// Why the old MAIN cannot acknowledge anything any more (R1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FencedBy {
    /// It answered as REPLICA.
    Demotion,
    /// Its process is over, and what follows it starts as REPLICA.
    Death,
    /// Every registered gateway cut its sessions and confirmed the term.
    Gateways,
}

/// Is the old MAIN fenced?
pub fn fenced(old: Target, start_fence: bool, term: Term, seen: &Observed) -> Option<FencedBy> {
    if seen.answer(old.pod).is_some_and(|a| a.role == Role::Replica) {
        return Some(FencedBy::Demotion);
    }
    if start_fence && seen.is_gone(old.pod, old.process) {
        return Some(FencedBy::Death);
    }
    seen.all_confirmed_term(term).then_some(FencedBy::Gateways)
}

/// How long the fence of a term is waited for, if a policy of `Proceed` gives it `fence`.
///
/// That time counts from the beginning of the term: who takes it over does not wait for it anew. Nor does the successor of
/// a claim, whose fence stood, or was given up, when the claim passed (R37). With `Wait` it is only when to look again.
pub fn fence_patience(record: &Record, otherwise: FenceTimeout, fence: Duration, now: Time) -> Duration {
    let claimed = record.candidate.as_ref().is_some_and(|c| c.claim.is_some());
    match otherwise {
        FenceTimeout::Wait => fence,
        FenceTimeout::Proceed if claimed => Duration::ZERO,
        FenceTimeout::Proceed => fence.saturating_sub(now.since(record.since)),
    }
}

/// Have gateways alone said what this step waits for? Their word is at hand long before a pod that hangs was asked.
pub fn confirmed(step: &Step, seen: &Observed) -> bool {
    match step {
        Step::AwaitFence { term, .. } => seen.all_confirmed_term(*term),
        Step::AwaitGateways(term, revision) => seen.all_confirmed(*term, *revision),
        _ => false,
    }
}

/// Has what this step waits for happened? Steps that do not wait are never `true`.
pub fn awaited(step: &Step, seen: &Observed) -> bool {
    match step {
        Step::AwaitFence {
            old,
            start_fence,
            term,
            otherwise: _,
        } => fenced(*old, *start_fence, *term, seen).is_some(),
        _ => confirmed(step, seen),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memgraph::ids::{Ordinal, ProcessId, Revision, VolumeId};
    use crate::memgraph::reason::{Reason, Why};
    use crate::memgraph::record::{Candidate, Claim};
    use crate::memgraph::rules::Rule;

    const X: Target = Target {
        pod: Ordinal(0),
        process: ProcessId(1),
    };

    fn plan(on_refusal: OnRefusal) -> Plan {
        Plan::because(Reason::new(Rule::Complete, Why::FallAsleep))
            .then_or(Step::Demote(X), on_refusal)
            .then(Step::Promote(X))
    }

    #[test]
    fn a_turn_goes_through_its_steps_in_order() {
        let mut turn = Turn::new(plan(OnRefusal::End));
        assert_eq!(turn.step(), Some(&Step::Demote(X)));
        assert_eq!(turn.on(Outcome::Done), Progress::GoOn);
        assert_eq!(
            (turn.step(), turn.remaining().len()),
            (Some(&Step::Promote(X)), 1)
        );
        assert_eq!(turn.on(Outcome::Done), Progress::Finished);
        assert_eq!((turn.step(), turn.remaining().len()), (None, 0));
        assert_eq!(turn.on(Outcome::Done), Progress::Finished);
    }

    #[test]
    fn a_turn_is_foreseen_up_to_the_first_step_that_must_fail() {
        let turn = Turn::new(plan(OnRefusal::GoOn));
        let demotion = |fate: Fate| {
            move |s: &Step| {
                if *s == Step::Demote(X) {
                    fate.clone()
                } else {
                    Fate::Open
                }
            }
        };
        assert_eq!(turn.foreseen(demotion(Fate::Open)), None);
        let passed = turn.foreseen(demotion(Fate::Refused)).unwrap();
        assert_eq!(
            (passed.step(), passed.remaining().len()),
            (Some(&Step::Promote(X)), 1)
        );
        let ended = Turn::new(plan(OnRefusal::End))
            .foreseen(demotion(Fate::Refused))
            .unwrap();
        assert_eq!(ended.step(), None);
        let other = turn.foreseen(demotion(Fate::Becomes(Step::Promote(X)))).unwrap();
        assert_eq!(
            (other.step(), other.remaining().len()),
            (Some(&Step::Promote(X)), 2)
        );
    }

    #[test]
    fn an_unknown_outcome_ends_the_turn_whatever_a_refusal_would_mean() {
        for on_refusal in [OnRefusal::End, OnRefusal::GoOn, OnRefusal::Retry] {
            assert_eq!(Turn::new(plan(on_refusal)).on(Outcome::Unknown), Progress::Ended);
        }
    }

    #[test]
    fn a_refusal_ends_goes_on_retries_or_is_undone_as_the_plan_says() {
        assert_eq!(
            Turn::new(plan(OnRefusal::End)).on(Outcome::Refused),
            Progress::Ended
        );
        let mut retried = Turn::new(plan(OnRefusal::Retry));
        assert_eq!(retried.on(Outcome::Refused), Progress::GoOn);
        assert_eq!(retried.step(), Some(&Step::Demote(X)));
        let mut passed = Turn::new(plan(OnRefusal::GoOn));
        assert_eq!(passed.on(Outcome::Refused), Progress::GoOn);
        assert_eq!(passed.step(), Some(&Step::Promote(X)));
        let undo = Step::PushRecord(Revision(7));
        let mut undone = Turn::new(plan(OnRefusal::Undo(Box::new(undo.clone()))));
        assert_eq!(
            undone.clone().on(Outcome::Refused),
            Progress::Ended,
            "nothing of ours was left behind"
        );
        assert_eq!(undone.on(Outcome::Spoiled), Progress::GoOn);
        assert_eq!(undone.step(), Some(&undo));
        assert_eq!(undone.on(Outcome::Done), Progress::Ended);
    }

    #[test]
    fn a_fence_has_its_time_from_the_beginning_of_its_term_and_a_claim_needs_none() {
        let candidate = Candidate {
            pod: X.pod,
            process: X.process,
            volume: VolumeId(1),
            peers: Vec::new(),
            suspect: false,
            forced: None,
            claim: None,
        };
        let begun = Record::initialising(Term(1), candidate, Time(10_000));
        let claimed = begun.claimed(Claim {
            process: X.process,
            alone: false,
        });
        let three = Duration::from_secs(3);
        let left = |record, otherwise, now| fence_patience(record, otherwise, three, Time(now)).as_millis();
        assert_eq!(left(&begun, FenceTimeout::Proceed, 10_000), 3_000);
        assert_eq!(left(&begun, FenceTimeout::Proceed, 12_500), 500);
        assert_eq!(left(&begun, FenceTimeout::Proceed, 60_000), 0);
        assert_eq!(left(&claimed, FenceTimeout::Proceed, 10_000), 0);
        assert_eq!(left(&begun, FenceTimeout::Wait, 60_000), 3_000);
        assert_eq!(left(&claimed, FenceTimeout::Wait, 60_000), 3_000);
    }
}
