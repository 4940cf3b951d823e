//! Judges any plan against what was observed, without knowing how the plan was made.
//!
//! The turn engine refuses a plan that breaks an invariant, and the simulation checks every plan it meets. So nothing
//! in here calls the code that decides, nor [`super::view`] or [`super::checks`]: a mistake there must not be repeated
//! here. What is read of the observations is read again in `facts`, on purpose.

mod catalogue;
mod facts;
mod ledgers;
mod objects;
mod slept;

pub use catalogue::Invariant;

use super::ids::Member;
use super::ledger::Ledger;
use super::observed::Observed;
use super::spec::Managed;
use super::step::{Plan, Step};
use crate::time::Time;
use facts::Facts;
use std::fmt;

/// An invariant that a plan breaks, where, and about whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// The step that breaks it, counted from 0.
    pub step: usize,
    /// About whom.
    pub member: Option<Member>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            invariant,
            step,
            member,
        } = self;
        write!(f, "[{invariant}] step {step}")?;
        if let Some(member) = member {
            write!(f, ", {member}")?;
        }
        write!(f, ": {}", invariant.text())
    }
}

/// Everything that is wrong with this plan; empty if nothing is. `ledger`, `seen` and `now` are what it was decided on.
pub fn check(ledger: Option<&Ledger>, seen: &Observed, plan: &Plan, now: Time) -> Vec<Violation> {
    let mut judge = Judge {
        facts: Facts { ledger, seen, now },
        plan,
        found: Vec::new(),
    };
    let writes = plan.steps.iter().filter(|s| s.ledger().is_some()).count();
    if seen.wishes.paused_until.is_some_and(|until| now < until) && !plan.steps.is_empty() {
        judge.broken(0, Invariant::Off, None);
    }
    for (index, step) in plan.steps.iter().enumerate() {
        slept::off(&mut judge, index, step);
    }
    if writes > 1 {
        judge.broken(0, Invariant::OneWrite, None);
    }
    for (index, step) in plan.steps.iter().enumerate() {
        judge.step(index, step);
    }
    judge.found
}

struct Judge<'a> {
    facts: Facts<'a>,
    plan: &'a Plan,
    found: Vec<Violation>,
}

impl<'a> Judge<'a> {
    fn step(&mut self, at: usize, step: &'a Step) {
        if self.facts.seen.spec.managed == Managed::ByScyllaOperator {
            objects::attended(self, at, step);
        }
        match step {
            Step::CreateLedger(next) => {
                if self.facts.ledger.is_some() || next.work.is_some() || !next.known.is_empty() {
                    self.broken(at, Invariant::OneWrite, None);
                }
                slept::begun(self, at, next);
            }
            Step::WriteLedger(next) => {
                ledgers::write(self, at, next);
                slept::write(self, at, next);
            }
            Step::DeleteLedger => {
                let ours = |l: &Ledger| l.cluster == self.facts.seen.cluster;
                if self.facts.ledger.is_none_or(ours) {
                    self.broken(at, Invariant::OneWrite, None);
                }
            }
            Step::CreateRecord { member, map, .. } => objects::create_record(self, at, member, map),
            Step::DeleteRecord { member, uid } => objects::delete_record(self, at, member, *uid),
            Step::DeletePod { member, uid } => objects::delete_pod(self, at, member, *uid),
            Step::DeleteClaim { member, uid } => objects::delete_claim(self, at, member, *uid),
            Step::SetReplaceLabel { member, .. } => objects::set_label(self, at, member),
            Step::Decommission { member, .. } | Step::Retire { member } => {
                if self.facts.seen.spec.declared(member).is_some() {
                    self.broken(at, Invariant::Declared, Some(member));
                }
            }
            Step::TeachSeeds { .. } | Step::RemoveReplaceLabel { .. } | Step::Drain { .. } => {}
        }
    }

    fn broken(&mut self, step: usize, invariant: Invariant, member: Option<&Member>) {
        self.found.push(Violation {
            invariant,
            step,
            member: member.cloned(),
        });
    }

    /// The ledger as it stands when this step is done: written by this plan, or as it was read.
    fn ledger_at(&self, at: usize) -> Option<&'a Ledger> {
        let written = self.plan.steps.iter().take(at).rev().find_map(Step::ledger);
        written.or(self.facts.ledger)
    }
}
