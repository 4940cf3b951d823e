//! What a turn decided: steps, each one call with all its arguments, and the reasons.

use super::ids::{CycleId, ExecutorName, ResourceId, TargetName, Version};
use super::observed::Look;
use super::plan::Target;
use super::reason::Why;
use super::state::{Cycle, Phase, State};
use super::store::Shard;
use crate::time::Time;
use serde_json::Value;
use std::fmt;

/// Why a ConfigMap is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Something is captured.
    Save,
    /// Something was brought back.
    MarkRestored,
    /// Everything was brought back.
    Unlock,
    /// A human gave a point up.
    Discard,
}

/// Which resource is meant, and in which cycle. A call of an older cycle must not be carried out any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aim {
    /// In which cycle.
    pub cycle: CycleId,
    /// In which leg of it.
    pub leg: u32,
    /// Of which target.
    pub target: TargetName,
    /// By which executor.
    pub executor: ExecutorName,
    /// What the executor needs to know.
    pub parameters: Value,
    /// Which resource.
    pub resource: ResourceId,
    /// The version that was seen, which changes with what the resource is asked to be. Where there are versions, a call
    /// must not hit another one: a call that is late would stop what was woken since, or undo what somebody wants.
    pub version: Option<Version>,
}

impl Aim {
    /// This resource of this target, as it was seen, in this leg of the cycle.
    pub(super) fn at(
        cycle: &Cycle,
        target: &Target,
        resource: &ResourceId,
        look: Option<&Look>,
    ) -> Box<Self> {
        Box::new(Self {
            cycle: cycle.id,
            leg: cycle.leg,
            target: target.name.clone(),
            executor: target.executor.clone(),
            parameters: target.parameters.clone(),
            resource: resource.clone(),
            version: look.and_then(|l| l.get(resource)).and_then(|r| r.version.clone()),
        })
    }
}

/// One external call, fully determined. The executor makes no choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put our finalizer on the plan.
    AddFinalizer,
    /// Take it off: the plan may go.
    RemoveFinalizer,
    /// Write the status, with the version of the plan that this turn read.
    WriteState(Box<State>),
    /// Replace a ConfigMap, with the version that it carries; or create it.
    WriteShard {
        /// All of it.
        shard: Box<Shard>,
        /// Why.
        purpose: Purpose,
    },
    /// Set or remove the annotation `suspended-at-phase`.
    SetSuspendedAt(Option<Phase>),
    /// Stop one resource.
    Stop(Box<Aim>),
    /// Bring one resource back to this state. It must leave the resource in another version even if nothing else
    /// changes, so that a call that is late finds another one and does nothing.
    Start {
        /// Which.
        aim: Box<Aim>,
        /// As it was.
        state: Value,
    },
}

impl Step {
    /// Is it a call to an executor? What comes of it is told in the next turn's answers, and the turn goes on: one bad
    /// resource must not keep the others. Everything else ends the turn when it fails.
    pub fn is_call(&self) -> bool {
        matches!(self, Self::Stop(_) | Self::Start { .. })
    }

    /// What is said when it fails.
    pub fn on_failure(&self) -> &'static str {
        match self {
            Self::AddFinalizer | Self::RemoveFinalizer | Self::SetSuspendedAt(_) => {
                "failed to update the plan"
            }
            Self::WriteState(_) => "failed to write the status",
            Self::WriteShard { purpose, .. } => match purpose {
                Purpose::Save => "failed to save restore data",
                Purpose::MarkRestored => "failed to mark target as restored",
                Purpose::Unlock => "failed to unlock restore data",
                Purpose::Discard => "failed to discard restore data",
            },
            Self::Stop(_) => "shutdown failed, preserving existing restore point",
            Self::Start { .. } => "wake-up failed",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddFinalizer => f.write_str("add the finalizer"),
            Self::RemoveFinalizer => f.write_str("remove the finalizer"),
            Self::WriteState(state) => write!(f, "write the status: {}, {}", state.phase, state.cycle),
            Self::WriteShard { shard, purpose } => write!(f, "write ConfigMap {}: {purpose:?}", shard.number),
            Self::SetSuspendedAt(Some(phase)) => write!(f, "annotate: suspended at {phase}"),
            Self::SetSuspendedAt(None) => f.write_str("annotate: not suspended"),
            Self::Stop(aim) => write!(f, "{}: stop {}", aim.target, aim.resource),
            Self::Start { aim, state } => write!(f, "{}: start {} as {state}", aim.target, aim.resource),
        }
    }
}

/// What a turn decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// In this order.
    pub steps: Vec<Step>,
    /// Why these, and why not others.
    pub reasons: Vec<Why>,
    /// When to look again even if nothing happens.
    pub wake: Option<Time>,
    /// Every target of the open cycle was gone through: what is wrong with any of them is among the reasons. Otherwise
    /// nothing that was wrong before is known to be well now.
    pub watched: bool,
}

impl Decision {
    /// Because of this.
    pub fn because(why: Why) -> Self {
        Self {
            reasons: vec![why],
            ..Self::default()
        }
    }

    /// Adds a step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds a reason.
    #[must_use]
    pub fn also(mut self, why: Why) -> Self {
        self.reasons.push(why);
        self
    }

    /// Looks again at this time, or earlier if it was so decided.
    #[must_use]
    pub fn wake_at(mut self, at: impl Into<Option<Time>>) -> Self {
        if let Some(at) = at.into() {
            self.wake = Some(self.wake.map_or(at, |w| w.min(at)));
        }
        self
    }
}
