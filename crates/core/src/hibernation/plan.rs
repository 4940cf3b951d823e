//! What the user declared, in a form that cannot be wrong.

use super::ids::{ExecutorName, PlanName, TargetName};
use crate::schedule::{Schedule, Span};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use thiserror::Error;

/// One target and who takes care of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Its name.
    pub name: TargetName,
    /// Who stops and starts its resources.
    pub executor: ExecutorName,
    /// What the executor needs to know; only it understands this.
    #[serde(default)]
    pub parameters: Value,
    /// How long it may take until everything is down, or usable again. Then the step has failed.
    #[serde(default = "default_gate")]
    pub ready_within: Duration,
    /// What happens when something of it runs although it should sleep.
    #[serde(default)]
    pub drift: Drift,
}

/// Long enough for a database to come up, short enough to notice one that does not.
pub const DEFAULT_GATE: Duration = Duration::from_mins(10);

fn default_gate() -> Duration {
    DEFAULT_GATE
}

/// What happens when something runs although it should sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Drift {
    /// A condition says so, and nothing else.
    #[default]
    Ignore,
    /// The same, and an Event: once in each leg for each number of them.
    Report,
    /// It is stopped again; its restore point stays as it is.
    Enforce,
}

/// In which order targets go down. They come up in the reverse order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Strategy {
    /// One after the other, as they are listed.
    Sequential,
    /// All at once, or so many.
    Parallel {
        /// At most so many; `None`: all.
        max: Option<usize>,
    },
    /// `from` is down before `to` is stopped.
    Dag {
        /// The edges.
        edges: Vec<Edge>,
        /// At most so many at once; `None`: all.
        max: Option<usize>,
    },
    /// One stage after the other.
    Staged(Vec<Stage>),
}

/// An edge of a DAG.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Edge {
    /// Down first, up last.
    pub from: TargetName,
    /// Down last, up first.
    pub to: TargetName,
}

/// A stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Its targets.
    pub targets: Vec<TargetName>,
    /// All at once, or one after the other?
    pub parallel: bool,
    /// At most so many at once; `None`: all.
    pub max: Option<usize>,
}

/// What a failure means for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Nothing new is begun after a failure.
    #[default]
    Strict,
    /// Only what depends on it is left out.
    BestEffort,
}

/// How failures are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behaviour {
    /// What a failure means for the others.
    pub mode: Mode,
    /// How often a target is tried again.
    pub retries: u8,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            mode: Mode::Strict,
            retries: 3,
        }
    }
}

/// What a cycle is about. It is written down when the cycle begins and does not change until it is closed, whatever
/// is edited meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The targets, as they are listed.
    pub targets: Vec<Target>,
    /// Their order.
    pub strategy: Strategy,
    /// What failures mean.
    pub behaviour: Behaviour,
}

/// What happens to sleeping targets when the plan is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deletion {
    /// They wake first.
    #[default]
    WakeFirst,
    /// They stay asleep; the restore points stay, too.
    Abandon,
}

/// An exception that changes what a cycle is about, if the cycle begins while it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetOverride {
    /// Whose.
    pub exception: String,
    /// When it counts.
    pub valid: Span,
    /// These are left out.
    pub disabled: BTreeSet<TargetName>,
    /// These have other parameters.
    pub parameters: BTreeMap<TargetName, Value>,
}

/// A plan that can be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HibernatePlan {
    /// Its name.
    pub name: PlanName,
    /// When.
    pub schedule: Schedule,
    /// What.
    pub intent: Intent,
    /// What exceptions change about it.
    pub overrides: Vec<TargetOverride>,
    /// What deletion means.
    pub deletion: Deletion,
    /// Nothing is to be touched.
    pub suspend: bool,
    /// Only what has begun is followed, to its end: what wakes stays awake, and nothing else is put to sleep.
    pub ending: bool,
}

/// A plan that cannot be followed. Nothing is touched because of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Nothing to do.
    #[error("a plan needs at least one target")]
    NoTargets,
    /// Two targets of one name.
    #[error("two targets are called `{0}`: every target needs a name of its own")]
    Twice(TargetName),
    /// Two targets whose marks are the same.
    #[error("the targets `{0}` and `{1}` cannot be told apart in annotations: rename one")]
    SameMark(TargetName, TargetName),
    /// An order that names nobody.
    #[error("the strategy names `{0}`, and no target is called so")]
    UnknownTarget(TargetName),
    /// Each waits for the other.
    #[error("the dependencies go round in a circle through `{0}`: remove one of its edges")]
    Circle(TargetName),
    /// In no stage.
    #[error("target `{0}` is in no stage: every target belongs to exactly one")]
    NoStage(TargetName),
    /// In two stages.
    #[error("target `{0}` is in two stages: every target belongs to exactly one")]
    TwoStages(TargetName),
    /// Two stages of one name.
    #[error("two stages are called `{0}`")]
    StageTwice(String),
    /// Nothing could ever run.
    #[error("maxConcurrency must be at least 1")]
    NoConcurrency,
    /// Too many.
    #[error("retries must be from 0 to 10")]
    Retries,
}

impl Intent {
    /// Checks it.
    pub fn new(targets: Vec<Target>, strategy: Strategy, behaviour: Behaviour) -> Result<Self, PlanError> {
        if targets.is_empty() {
            return Err(PlanError::NoTargets);
        }
        if behaviour.retries > 10 {
            return Err(PlanError::Retries);
        }
        let mut marks: BTreeMap<String, &TargetName> = BTreeMap::new();
        for target in &targets {
            match marks.insert(target.name.mark(), &target.name) {
                Some(other) if *other == target.name => return Err(PlanError::Twice(target.name.clone())),
                Some(other) => return Err(PlanError::SameMark(other.clone(), target.name.clone())),
                None => {}
            }
        }
        let names = targets.iter().map(|t| t.name.clone()).collect();
        check_strategy(&strategy, &names)?;
        let intent = Self {
            targets,
            strategy,
            behaviour,
        };
        if let Some(stuck) = super::order::Order::of(&intent).circle() {
            return Err(PlanError::Circle(stuck));
        }
        Ok(intent)
    }

    /// A target by name.
    pub fn target(&self, name: &TargetName) -> Option<&Target> {
        self.targets.iter().find(|t| t.name == *name)
    }
}

fn check_strategy(strategy: &Strategy, names: &BTreeSet<TargetName>) -> Result<(), PlanError> {
    let known = |name: &TargetName| {
        if names.contains(name) {
            Ok(())
        } else {
            Err(PlanError::UnknownTarget(name.clone()))
        }
    };
    let some = |max: &Option<usize>| {
        if *max == Some(0) {
            Err(PlanError::NoConcurrency)
        } else {
            Ok(())
        }
    };
    match strategy {
        Strategy::Sequential => Ok(()),
        Strategy::Parallel { max } => some(max),
        Strategy::Dag { edges, max } => {
            some(max)?;
            edges
                .iter()
                .try_for_each(|e| known(&e.from).and_then(|()| known(&e.to)))
        }
        Strategy::Staged(stages) => {
            let (mut seen, mut titles) = (BTreeSet::new(), BTreeSet::new());
            for stage in stages {
                some(&stage.max)?;
                if !titles.insert(&stage.name) {
                    return Err(PlanError::StageTwice(stage.name.clone()));
                }
                for name in &stage.targets {
                    known(name)?;
                    if !seen.insert(name) {
                        return Err(PlanError::TwoStages(name.clone()));
                    }
                }
            }
            match names.iter().find(|n| !seen.contains(n)) {
                Some(name) => Err(PlanError::NoStage(name.clone())),
                None => Ok(()),
            }
        }
    }
}

impl HibernatePlan {
    /// What a cycle that begins now is about; no targets at all if exceptions disable every one.
    pub fn intent_at(&self, now: Time) -> Intent {
        let mut intent = self.intent.clone();
        for change in self.overrides.iter().filter(|o| o.valid.has(now)) {
            intent.targets.retain(|t| !change.disabled.contains(&t.name));
            for target in &mut intent.targets {
                if let Some(parameters) = change.parameters.get(&target.name) {
                    target.parameters = parameters.clone();
                }
            }
        }
        intent
    }
}
