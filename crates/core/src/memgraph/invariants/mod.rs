//! Judges any plan against what was observed, without knowing how the plan was made.
//!
//! The turn engine refuses a plan that breaks an invariant, and the explorer checks every plan it meets. So
//! nothing in here calls the code that decides, nor [`super::View`]: a mistake there must not be repeated
//! here. What is read of the observations is read again in `facts`, on purpose.
//!
//! It runs tens of millions of times in a search: nothing is allocated unless something is wrong.

mod catalogue;
mod claims;
mod facts;
mod protection;
mod registrations;
mod resets;
mod roles;
mod service;
mod terms;

#[cfg(test)]
mod tests;

pub use catalogue::Invariant;

use super::ids::{Ordinal, RegistrationName, Revision};
use super::observed::Observed;
use super::plan::{OnRefusal, Plan, Planned, Step, Target};
use super::record::Record;
use crate::time::Time;
use facts::Facts;
use serde::Serialize;
use std::fmt;

/// What a violation speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Detail {
    /// The plan as a whole.
    Plan,
    /// A pod.
    Pod(Ordinal),
    /// A process.
    Process(Target),
    /// A registration.
    Name(RegistrationName),
    /// A record that is written.
    Record(Revision),
    /// A number of pods.
    Pods(u8),
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan => f.write_str("the plan"),
            Self::Pod(pod) => pod.fmt(f),
            Self::Process(Target { pod, process }) => write!(f, "{pod} in process {process}"),
            Self::Name(name) => name.fmt(f),
            Self::Record(revision) => write!(f, "the record of {revision}"),
            Self::Pods(n) => write!(f, "{n} pods"),
        }
    }
}

/// An invariant that a plan breaks, where, and about what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// The step that breaks it, counted from 0.
    pub step: usize,
    /// What it speaks of.
    pub detail: Detail,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            invariant,
            step,
            detail,
        } = self;
        write!(f, "[{invariant}] step {step}, {detail}: {}", invariant.text())
    }
}

/// Everything that is wrong with this plan; empty if nothing is.
///
/// `record`, `seen` and `now` are what the plan was decided on. An invariant that stands for a rule which is
/// switched off in `seen.spec.rules` is not reported: the explorer switches it off to see the world go wrong.
pub fn check(record: Option<&Record>, seen: &Observed, plan: &Plan, now: Time) -> Vec<Violation> {
    let mut judge = Judge {
        facts: Facts { seen, now },
        read: record,
        steps: &plan.steps,
        found: Vec::new(),
    };
    let mut at = At {
        index: 0,
        record,
        written: None,
    };
    for (index, planned) in plan.steps.iter().enumerate() {
        at.index = index;
        judge.step(at, planned);
        if let Some(next) = planned.step.record() {
            at.record = Some(next);
            at.written = Some(index);
        }
    }
    judge.found
}

/// Where the walk through a plan stands.
#[derive(Clone, Copy)]
struct At<'a> {
    /// Which step.
    index: usize,
    /// The record as it stands before this step: written by this plan, or as it was read.
    record: Option<&'a Record>,
    /// The step that wrote it, if this plan did.
    written: Option<usize>,
}

/// A record that is written, beside the one it replaces.
#[derive(Clone, Copy)]
struct Change<'a> {
    before: Option<&'a Record>,
    next: &'a Record,
}

impl Change<'_> {
    fn begins_term(&self) -> bool {
        self.before.is_none_or(|b| b.term != self.next.term)
    }
}

struct Judge<'a> {
    facts: Facts<'a>,
    read: Option<&'a Record>,
    steps: &'a [Planned],
    found: Vec<Violation>,
}

impl<'a> Judge<'a> {
    fn step(&mut self, at: At<'a>, planned: &'a Planned) {
        service::any_step(self, at, &planned.step);
        match &planned.step {
            Step::CreateRecord(next) => self.change(at, next, true),
            Step::WriteRecord(next) => self.change(at, next, false),
            Step::Demote(target) => roles::demote(self, at, *target),
            Step::Promote(target) => roles::promote(self, at, *target),
            Step::AwaitFence {
                start_fence,
                otherwise,
                old,
                term: _,
            } => {
                roles::fence(self, at, *old, *start_fence, *otherwise);
            }
            Step::AdvanceMark { on, from, to } => terms::mark(self, at, *on, *from, *to),
            Step::RunOnPromotion(on) | Step::WriteProof { on, proof: _ } => roles::target(self, at, *on),
            Step::Register { on, name, mode, peer } => {
                let wanted = registrations::Wanted {
                    on: *on,
                    name: *name,
                    mode: *mode,
                    peer: *peer,
                };
                registrations::register(self, at, wanted, &planned.on_refusal);
            }
            Step::Drop { on, name } => registrations::drop(self, at, *on, *name),
            Step::EndProcess { target, uid } => resets::end_process(self, at, *target, *uid),
            Step::WriteMarker { target, id, term } => resets::marker(self, at, *target, *id, *term),
            Step::DeletePod { target, uid } => resets::delete(self, at, *target, *uid),
            Step::Scale(pods) => service::scale(self, at, *pods),
            Step::PushRecord(_) | Step::AwaitGateways(..) | Step::ReadProof { .. } => {}
        }
        if matches!(planned.on_refusal, OnRefusal::Undo(_)) && !matches!(planned.step, Step::Register { .. })
        {
            self.broken(at, Invariant::RegisterUndone, Detail::Plan);
        }
    }

    fn change(&mut self, at: At<'a>, next: &'a Record, create: bool) {
        let change = Change {
            before: at.record,
            next,
        };
        terms::counters(self, at, change, create);
        terms::transition(self, at, change);
        terms::candidate(self, at, change);
        terms::office(self, at, change);
        protection::proven(self, at, change);
        protection::epoch(self, at, change);
        protection::loose(self, at, change);
        resets::asked(self, at, change);
        service::writes(self, at, change);
        service::sleep(self, at, change);
    }

    fn broken(&mut self, at: At<'_>, invariant: Invariant, detail: Detail) {
        if invariant.in_force(self.facts.seen.spec.rules) {
            self.found.push(Violation {
                invariant,
                step: at.index,
                detail,
            });
        }
    }

    /// The steps of the plan before this one.
    fn earlier(&self, at: At<'_>) -> impl Iterator<Item = &'a Step> + use<'a> {
        self.steps.iter().take(at.index).map(|p| &p.step)
    }

    /// The steps between the last write of the record and this one.
    fn since_write(&self, at: At<'_>) -> impl Iterator<Item = &'a Step> + use<'a> {
        self.steps
            .iter()
            .take(at.index)
            .skip(at.written.map_or(0, |w| w + 1))
            .map(|p| &p.step)
    }

    /// Was this pair of processes proven by a commit earlier in this plan (R3)?
    fn proof_made(&self, at: At<'_>, main: Target, replica: Target) -> bool {
        self.earlier(at).enumerate().any(|(i, step)| match step {
            Step::ReadProof { on, proof } if *on == replica => self.earlier(at).take(i).any(|s| {
                *s == Step::WriteProof {
                    on: main,
                    proof: *proof,
                }
            }),
            _ => false,
        })
    }
}
