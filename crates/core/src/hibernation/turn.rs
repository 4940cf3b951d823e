//! The executor without I/O: which step is next, and what an outcome means.

use super::observed::{Answer, Call, Observed, Refusal};
use super::step::{Aim, Decision, Step};
use std::collections::VecDeque;

/// A decision being carried out: what is left of it, and what came of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    left: VecDeque<Step>,
    told: Vec<Answer>,
    unheeded: Vec<Answer>,
    answers: Vec<Answer>,
}

impl Turn {
    /// From its first step, with what was decided about.
    pub fn new(decision: Decision, seen: &Observed) -> Self {
        Self {
            left: decision.steps.into(),
            told: seen.answers.clone(),
            unheeded: seen.unheeded(),
            answers: Vec::new(),
        }
    }

    /// The step to do now.
    pub fn step(&self) -> Option<&Step> {
        self.left.front()
    }

    /// The calls that may be made now, at the same time or one after the other: each is about another resource, and
    /// everything that they rest on is done. Their outcomes are taken in this order.
    pub fn calls(&self) -> Vec<Step> {
        self.left.iter().take_while(|s| s.is_call()).cloned().collect()
    }

    /// Takes the outcome of the current step. A call that failed is told in the next turn and the others are made; a
    /// write that failed, or whose outcome is unknown, ends the turn: what follows rests on it. What was decided about
    /// the answers is not durable then, and the next turn is told them again: otherwise what was started would be
    /// started again with every attempt to write that down, over whatever was made of it since.
    pub fn on(&mut self, outcome: Result<(), Refusal>) {
        let Some(step) = self.left.pop_front() else { return };
        let (aim, call) = match step {
            Step::Stop(aim) => (aim, Call::Stop),
            Step::Start { aim, state: _ } => (aim, Call::Start),
            _ => {
                if outcome.is_err() {
                    self.left.clear();
                    self.answers.append(&mut self.told);
                }
                return;
            }
        };
        let Aim {
            cycle,
            leg,
            target,
            executor: _,
            parameters: _,
            resource,
            version: _,
        } = *aim;
        self.answers.push(Answer {
            cycle,
            leg,
            target,
            resource,
            call,
            outcome,
        });
    }

    /// What the next turn is told: the newest last.
    pub fn answers(self) -> Vec<Answer> {
        let mut all = self.unheeded;
        all.retain(|answer| !self.answers.contains(answer));
        all.extend(self.answers);
        all
    }
}
