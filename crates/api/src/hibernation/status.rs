//! What the operator reports of a plan, and what it remembers.

use super::spec::anything;
use crate::memgraph::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the operator reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HibernatePlanStatus {
    /// Which generation of the spec this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Active`, `Hibernating`, `Hibernated`, `WakingUp`, `Suspended` or `Error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What happened, and what comes next.
    pub message: String,
    /// What the schedule asks for next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextStatus>,
    /// The last cycle that was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycle: Option<u64>,
    /// `Shutdown` or `WakeUp`, while a cycle is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// How far every target of the open cycle is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetStatus>,
    /// What the open cycle put to sleep, and how long of it ran all the same: for the sum that sleeping saved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asleep: Vec<SleptStatus>,
    /// Why the last turn did what it did, or did nothing.
    pub reasons: Vec<String>,
    /// Followed, Asleep, Healthy, RestorePointsIntact, Drifted, Conflict, Suspended, LongSleep.
    pub conditions: Vec<Condition>,
    /// The last cycles, the newest last.
    pub history: Vec<CycleStatus>,
    /// What the operator remembers, exactly. It is written before anything is done because of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub state: Option<Value>,
}

/// What the schedule asks for next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextStatus {
    /// `Asleep` or `Awake`.
    pub desired: String,
    /// When.
    pub at: String,
    /// Why.
    pub why: String,
}

/// One target in the open cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    /// Its name.
    pub name: String,
    /// Who takes care of it.
    pub executor: String,
    /// `Pending`, `Running`, `Done`, `Failed` or `Lost`.
    pub state: String,
    /// How often it failed in this operation.
    pub attempts: u8,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<String>,
}

/// One cycle that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CycleStatus {
    /// Which.
    pub cycle: u64,
    /// When it began.
    pub began: String,
    /// When everything was awake again.
    pub ended: String,
    /// What slept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<SleptStatus>,
}

/// What slept of one target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SleptStatus {
    /// The target.
    pub name: String,
    /// So many resources ran before.
    pub resources: u64,
    /// So long they ran although they should have slept, all together.
    pub leaked_seconds: u64,
    /// So many run now although they should sleep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}
