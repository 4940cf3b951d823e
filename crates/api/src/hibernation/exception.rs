//! What is different this time.
#![allow(
    unreachable_pub,
    reason = "the derive repeats our `pub` on a struct inside a function"
)]

use super::spec::{OffHours, WeekInterval, anything};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An exception to the schedule of one plan.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "mainstay.dev",
    version = "v1alpha1",
    kind = "ScheduleException",
    plural = "scheduleexceptions",
    singular = "scheduleexception",
    shortname = "schedex",
    namespaced,
    status = "ScheduleExceptionStatus",
    derive = "PartialEq",
    doc = "An exception to the schedule of a HibernatePlan: sleep then too, do not sleep then, or other windows for a while.",
    printcolumn = r#"{"name":"PLAN","type":"string","jsonPath":".spec.planRef.name"}"#,
    printcolumn = r#"{"name":"TYPE","type":"string","jsonPath":".spec.type"}"#,
    printcolumn = r#"{"name":"FROM","type":"string","jsonPath":".spec.validFrom"}"#,
    printcolumn = r#"{"name":"UNTIL","type":"string","jsonPath":".spec.validUntil"}"#,
    printcolumn = r#"{"name":"STATE","type":"string","jsonPath":".status.state"}"#,
    printcolumn = r#"{"name":"MESSAGE","type":"string","priority":1,"jsonPath":".status.message"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("timestamp(self.validFrom) < timestamp(self.validUntil)").message("spec.validUntil must be later than spec.validFrom"),
    validation = Rule::new("timestamp(self.validUntil) - timestamp(self.validFrom) <= duration('2160h')").message("an exception is valid for 90 days at most: change the plan's schedule instead"),
    validation = Rule::new("self.type == 'suspend' || !has(self.leadTime)").message("leadTime belongs to type suspend"),
    validation = Rule::new("self.type != 'replace' || size(self.windows) + size(self.intervals) > 0").message("type replace needs windows or intervals: to stay awake write type: suspend"),
    validation = Rule::new("self.type != 'suspend' || size(self.targets) == 0").message("targets belong to type extend or replace: with type suspend nothing goes to sleep"),
)]
pub struct ScheduleExceptionSpec {
    /// Of which plan, in the same namespace.
    pub plan_ref: PlanRef,
    /// From when it counts, as RFC 3339.
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\\\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$')").message("spec.validFrom is a time such as 2026-12-24T18:00:00+01:00"))]
    pub valid_from: String,
    /// Until when it counts.
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\\\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$')").message("spec.validUntil is a time such as 2026-12-27T06:00:00+01:00"))]
    pub valid_until: String,
    /// What it does.
    #[serde(rename = "type")]
    pub kind: ExceptionType,
    /// For `suspend`: no sleep begins so shortly before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) > duration('0s') && duration(self) <= duration('24h')").message("spec.leadTime is a duration of up to 24h in whole numbers, such as 1h or 1h30m"))]
    pub lead_time: Option<String>,
    /// When it applies, in the plan's zone; without any, as long as it is valid.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub windows: Vec<OffHours>,
    /// The same, as stretches of the week.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub intervals: Vec<WeekInterval>,
    /// What is different about targets in a cycle that begins while this is valid.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub targets: Vec<TargetChange>,
}

/// Which plan.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRef {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
}

/// What an exception does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExceptionType {
    /// Sleep then, too.
    Extend,
    /// Do not sleep then.
    Suspend,
    /// Only these windows count.
    Replace,
}

/// What is different about a target.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetChange {
    /// Which.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// It is left out.
    #[serde(default)]
    pub disabled: bool,
    /// Other parameters, in place of all of the plan's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub parameters: Option<Value>,
}

/// What the operator reports of an exception.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScheduleExceptionStatus {
    /// Does it count now?
    pub state: Option<ExceptionState>,
    /// A sentence for people.
    pub message: String,
}

/// Does an exception count now?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExceptionState {
    /// Not yet.
    Pending,
    /// Now.
    Active,
    /// Not any more.
    Expired,
    /// It cannot be followed.
    Invalid,
}
