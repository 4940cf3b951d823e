//! What the operator reports.

use crate::memgraph::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the operator reports.
// Written by merge patches, which keep what they do not name: an empty field is named too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RingClusterStatus {
    /// Which generation of the spec this is about.
    pub observed_generation: Option<i64>,
    /// How many members are on record, of how many that are declared: `3/3`.
    pub summary: String,
    /// What is being done, and how far it is; one thing at a time.
    pub work: String,
    /// Why the last turn did what it did, or did nothing.
    pub reasons: Vec<String>,
    /// The checks of a replacement that is thought about, the held ones first.
    pub checks: Vec<CheckStatus>,
    /// Ready, StorageLost, ReplacementHeld, ReplacementFailed, Progressing.
    pub conditions: Vec<Condition>,
    /// The members, as they are on record and as they were last seen.
    pub members: Vec<MemberStatus>,
    /// The last replacements.
    pub replacements: Vec<ReplacementStatus>,
}

/// One check of a replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckStatus {
    /// Its name.
    pub name: String,
    /// Whom it is about.
    pub member: String,
    /// Does it hold?
    pub holds: bool,
    /// What was found.
    pub message: String,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Its name.
    pub name: String,
    /// The host id on record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_id: Option<String>,
    /// The address under which the others know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What its gate said last.
    pub gate: String,
}

/// One replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacementStatus {
    /// Of which member.
    pub member: String,
    /// The host id that was lost.
    pub lost: String,
    /// The one that took its place.
    pub by: String,
    /// When it was seen to be whole.
    pub at: String,
}
