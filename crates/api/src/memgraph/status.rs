//! What the operator reports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the operator reports.
// Written by merge patches, which keep what they do not name: an empty field is named too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemgraphClusterStatus {
    /// Which generation of the spec this is about.
    pub observed_generation: Option<i64>,
    /// `BOOTSTRAP` until a record serves, then `OPERATIONAL`.
    pub phase: String,
    /// The state that the record is in.
    pub state: Option<String>,
    /// The highest term ever; never goes back.
    pub term: Option<u64>,
    /// The pod that is MAIN, or is to become it.
    pub target_main_pod: Option<String>,
    /// Its partner.
    pub target_sync_replica: Option<String>,
    /// `Open`, `Held` or `Closed`, as recorded; of writes that are recorded as open `Unserved` if MAIN is not there to
    /// take them, and `Unknown` if it does not answer.
    pub writes: Option<String>,
    /// How far the SYNC replica is behind MAIN, in Memgraph's own count.
    pub lag: Option<i64>,
    /// Why the last turn did what it did, or did nothing: rule and sentence.
    pub reasons: Vec<String>,
    /// Ready, Protected, WritesOpen, TopologyKnown, Hibernated, Applied, GatewaysReachApi.
    pub conditions: Vec<Condition>,
    /// The pods, as they were last seen.
    pub pods: Vec<PodStatus>,
    /// The last ten terms.
    pub history: Vec<TermStatus>,
    /// The last resets that were asked for.
    pub resets: Vec<ResetStatus>,
    /// Data that was set aside by resets, as the pods' helpers last said.
    pub quarantines: Vec<QuarantineStatus>,
    /// Which database process runs in which container: what an operator that starts must know at once.
    pub processes: Vec<ProcessSeen>,
    /// A copy of the record, in case its ConfigMap is lost.
    pub record: Option<String>,
}

/// One condition, as Kubernetes has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A word for programs.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    /// Since when.
    pub last_transition_time: String,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// Its name.
    pub name: String,
    /// `main`, `replica`, or how it failed to answer.
    pub role: String,
    /// Is it the proven SYNC replica, and there?
    pub protected: bool,
}

/// One term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TermStatus {
    /// Which.
    pub term: u64,
    /// For which pod it was begun.
    pub pod: String,
    /// When it was begun.
    pub began: String,
    /// The rule that began it.
    pub why: String,
    /// From the first evidence to the new term in the record, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detect_ms: Option<u64>,
    /// Until the old MAIN was fenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence_ms: Option<u64>,
    /// Until the new one was promoted and marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promote_ms: Option<u64>,
    /// Until the record served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_ms: Option<u64>,
}

/// One reset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResetStatus {
    /// Which request.
    pub id: u64,
    /// Of which pod.
    pub pod: String,
    /// When it was asked for.
    pub at: String,
}

/// Data that was set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuarantineStatus {
    /// On the volume of this pod.
    pub pod: String,
    /// By which request; its folder is `quarantine/ID`.
    pub id: u64,
    /// How large it is.
    pub bytes: u64,
    /// It may hold a write that nobody else has: it is deleted only on request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
}

/// A database process and the container it runs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessSeen {
    /// The pod.
    pub pod: u8,
    /// The `run_id` that the server puts into every summary.
    pub run_id: String,
    /// The container, its first 128 bits.
    pub process: String,
}
