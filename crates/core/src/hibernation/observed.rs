//! What a turn knows. Executors are described by a small vocabulary: a resource has an id, a state that only its
//! executor understands, and is up or down, settled or not. A new executor needs nothing here.

use super::ids::{CycleId, LegId, PlanName, ResourceId, TargetName, Version};
use super::state::{Cycle, State};
use super::store::Store;
use crate::time::Time;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Is it asked to run? What it *is* while it gets there is [`Resource::settled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Power {
    /// It runs, or was told to.
    Up,
    /// It is stopped, or was told to.
    Down,
    /// It does not exist. Only said of resources that a restore point names.
    Gone,
}

/// Why a resource is left alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// It carries the label that no plan may touch.
    Protected,
    /// Another plan claims it, and has the better right: the older plan, then the smaller name.
    ClaimedBy(PlanName),
    /// The executor's own reason, such as "a member of an autoscaling group".
    Other(String),
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protected => f.write_str("it is protected"),
            Self::ClaimedBy(plan) => write!(f, "plan `{plan}` claims it"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

/// One thing that can be stopped and started, as its executor sees it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Is it asked to run?
    pub power: Power,
    /// Up: usable. Down: nothing of it runs any more.
    pub settled: bool,
    /// What is needed to bring it back as it is now.
    pub state: Value,
    /// Its version, for a call that must not hit a changed one; `None` where there are no versions.
    pub version: Option<Version>,
    /// The target's selector finds it. Resources that only a restore point names are looked at, too.
    pub selected: bool,
    /// It is left alone, because.
    pub skip: Option<Skip>,
}

/// The resources of a target: those its selector finds, and those its restore point names.
pub type Look = BTreeMap<ResourceId, Resource>;

/// What a failure is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The resource is not the one that was looked at any more: nothing was done, the next turn looks again.
    Changed,
    /// It may work the next time; no answer at all is one of these.
    Transient,
    /// Trying again without a change by a human is pointless: access denied, bad parameters.
    Permanent,
}

/// A failure, in the words of whoever refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was said.
    pub message: String,
    /// What it is worth.
    pub severity: Severity,
}

impl Refusal {
    /// Is it pointless to try again?
    pub fn is_permanent(&self) -> bool {
        self.severity == Severity::Permanent
    }
}

/// What was asked of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// Stop.
    Stop,
    /// Start.
    Start,
}

/// What came of a call of an earlier turn of this process. They are lost with the process, which costs a repeated
/// call and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// In which cycle.
    pub cycle: CycleId,
    /// In which leg of it.
    pub leg: u32,
    /// Of which target.
    pub target: TargetName,
    /// Which resource.
    pub resource: ResourceId,
    /// What was asked.
    pub call: Call,
    /// What came of it. No answer at all is a refusal that says so.
    pub outcome: Result<(), Refusal>,
}

/// What people ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Touch nothing: `spec.suspend` or the annotation.
    pub suspend: bool,
    /// Touch nothing until then.
    pub suspend_until: Option<Time>,
    /// Try again now. Each wish has another text.
    pub retry: Option<String>,
    /// Give up the restore points of these targets: what they name stays as it is. The wish names the leg, so that one
    /// that is left lying around never gives up what a later night captures, which may be one of the same cycle.
    pub discard: BTreeMap<TargetName, LegId>,
}

/// A share of a thousand, drawn by the caller: spreads retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter(u16);

impl Jitter {
    /// Anything above 1000 is 1000.
    pub fn per_mille(share: u16) -> Self {
        Self(share.min(1000))
    }

    /// The share.
    pub fn share(self) -> u16 {
        self.0
    }
}

/// What was read before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// From the status of the plan; `None` if there is none.
    pub state: Option<State>,
    /// The restore points.
    pub store: Store,
}

/// What was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The plan is being deleted.
    pub deleting: bool,
    /// Our finalizer is on the plan.
    pub finalizer: bool,
    /// The annotation `suspended-at-phase`, as it stands there.
    pub suspended_at_phase: Option<String>,
    /// What people ask for.
    pub wishes: Wishes,
    /// The namespace of the plan is being deleted, and everything in it with it.
    pub namespace_ends: bool,
    /// Every target of the plan and of the open cycle. Missing: not looked at yet.
    pub targets: BTreeMap<TargetName, Result<Look, Refusal>>,
    /// What could not be looked at of a target of which something else could, when only what is recorded is asked for.
    /// Nothing is known of these: they are neither started nor called restored.
    pub unseen: BTreeMap<TargetName, BTreeMap<ResourceId, Refusal>>,
    /// What came of the calls of the turn right before this one, and what could not be heeded since; nothing after a
    /// restart.
    pub answers: Vec<Answer>,
    /// Spreads retries.
    pub jitter: Jitter,
}

impl Observed {
    /// What came of the calls of this leg for one resource: the last answer counts.
    pub fn answer(
        &self,
        cycle: &Cycle,
        target: &TargetName,
        resource: &ResourceId,
        call: Call,
    ) -> Option<&Answer> {
        let mut latest = self
            .answers
            .iter()
            .rev()
            .filter(|a| a.cycle == cycle.id && a.leg == cycle.leg);
        latest.find(|a| a.target == *target && a.resource == *resource && a.call == call)
    }

    /// Why this resource could not be looked at, although others of its target could.
    pub fn unseen(&self, target: &TargetName, resource: &ResourceId) -> Option<&Refusal> {
        self.unseen.get(target)?.get(resource)
    }

    /// Starts that worked and that nobody can take note of in this turn, because what they started could not be looked at.
    /// They are told again: otherwise what was started would be started once more, over whatever was made of it since.
    pub fn unheeded(&self) -> Vec<Answer> {
        let unseen = |a: &Answer| {
            let whole = matches!(self.targets.get(&a.target), Some(Err(_)));
            whole || self.unseen(&a.target, &a.resource).is_some()
        };
        let started = self.answers.iter().filter(|a| a.call == Call::Start);
        started
            .filter(|a| a.outcome.is_ok() && unseen(a))
            .cloned()
            .collect()
    }

    /// Is the plan suspended now?
    pub fn suspended(&self, spec: bool, now: Time) -> bool {
        spec || self.wishes.suspend || self.wishes.suspend_until.is_some_and(|until| now < until)
    }
}
