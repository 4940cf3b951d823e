//! What a user declares: when, what, and in which order.
#![allow(
    unreachable_pub,
    reason = "the derive repeats our `pub` on a struct inside a function"
)]

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What sleeps on a schedule and wakes as it was.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "mainstay.dev",
    version = "v1alpha1",
    kind = "HibernatePlan",
    plural = "hibernateplans",
    singular = "hibernateplan",
    shortname = "hplan",
    namespaced,
    status = "super::HibernatePlanStatus",
    derive = "PartialEq",
    doc = "What sleeps on a schedule and wakes as it was, whatever failed in between.",
    validation = Rule::new("self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("metadata.name may have 63 lower case letters, digits and `-` and no dot: its restore points are in the ConfigMap hibernator-restore-NAME, and NAME.2 must be free for more of them"),
    printcolumn = r#"{"name":"PHASE","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"NEXT","type":"string","jsonPath":".status.next.desired"}"#,
    printcolumn = r#"{"name":"AT","type":"string","jsonPath":".status.next.at"}"#,
    printcolumn = r#"{"name":"CYCLE","type":"integer","jsonPath":".status.cycle"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"MESSAGE","type":"string","priority":1,"jsonPath":".status.message"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.execution.strategy.type != 'DAG' || !has(self.execution.strategy.dependencies) || self.execution.strategy.dependencies.all(d, self.targets.exists(t, t.name == d.from) && self.targets.exists(t, t.name == d.to))").message("spec.execution.strategy.dependencies names a target that is not in spec.targets"),
    validation = Rule::new("self.execution.strategy.type != 'Staged' || !has(self.execution.strategy.stages) || self.execution.strategy.stages.all(s, s.targets.all(n, self.targets.exists(t, t.name == n)))").message("spec.execution.strategy.stages names a target that is not in spec.targets"),
    validation = Rule::new("self.execution.strategy.type != 'Staged' || !has(self.execution.strategy.stages) || self.targets.all(t, self.execution.strategy.stages.exists(s, s.targets.exists(n, n == t.name)))").message("a target is in no stage: with strategy Staged every target belongs to exactly one"),
)]
pub struct HibernatePlanSpec {
    /// When it sleeps.
    pub schedule: ScheduleSpec,
    /// In which order targets go down. They come up in the reverse order.
    #[serde(default)]
    pub execution: Execution,
    /// What failures mean.
    #[serde(default)]
    pub behavior: Behavior,
    /// Touch nothing. What sleeps goes on sleeping.
    #[serde(default)]
    pub suspend: bool,
    /// What becomes of sleeping targets when the plan is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// What sleeps.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = Rule::new("self.all(t, self.exists_one(u, u.name == t.name))").message("two entries of spec.targets have the same name: every target needs a name of its own"))]
    pub targets: Vec<TargetSpec>,
}

/// When it sleeps.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("size(self.offHours) + size(self.intervals) + size(self.holidays) > 0").message("spec.schedule needs at least one of offHours, intervals or holidays: nothing would ever sleep"))]
pub struct ScheduleSpec {
    /// The time zone of everything here, by its IANA name.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z][A-Za-z0-9_+/-]*$')").message("spec.schedule.timezone is an IANA name such as Europe/Berlin, Asia/Jakarta or UTC"))]
    pub timezone: String,
    /// Windows of a day, week after week. The days name their *start*.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub off_hours: Vec<OffHours>,
    /// Stretches of the week, such as a weekend.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub intervals: Vec<WeekInterval>,
    /// Days off: asleep from midnight to midnight.
    #[serde(default)]
    #[schemars(length(max = 128))]
    pub holidays: Vec<HolidaySpec>,
}

/// A window of a day.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.start != self.end").message("start and end are the same: for whole days write 00:00 to 24:00"))]
pub struct OffHours {
    /// Falls asleep.
    #[schemars(length(max = 5))]
    #[x_kube(validation = Rule::new("self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')").message("start is a time of day from 00:00 to 23:59, such as 20:00"))]
    pub start: String,
    /// Wakes up; if it is not later than the start, on the next day.
    #[schemars(length(max = 5))]
    #[x_kube(validation = Rule::new("self.matches('^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$')").message("end is a time of day from 00:00 to 24:00, such as 06:00"))]
    pub end: String,
    /// The days on which it starts.
    #[schemars(length(min = 1, max = 7))]
    pub days_of_week: Vec<WeekDay>,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "days need no explanation")]
pub enum WeekDay {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl WeekDay {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mon => "MON",
            Self::Tue => "TUE",
            Self::Wed => "WED",
            Self::Thu => "THU",
            Self::Fri => "FRI",
            Self::Sat => "SAT",
            Self::Sun => "SUN",
        }
    }
}

/// A stretch of the week.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.from != self.to").message("from and to are the same moment: an interval must end later than it begins"))]
pub struct WeekInterval {
    /// Falls asleep.
    #[schemars(length(max = 9))]
    #[x_kube(validation = Rule::new("self.matches('^(MON|TUE|WED|THU|FRI|SAT|SUN) ([01][0-9]|2[0-3]):[0-5][0-9]$')").message("from is a day and a time, such as FRI 20:00"))]
    pub from: String,
    /// Wakes up: the next such moment of the week.
    #[schemars(length(max = 9))]
    #[x_kube(validation = Rule::new("self.matches('^(MON|TUE|WED|THU|FRI|SAT|SUN) (([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$')").message("to is a day and a time, such as MON 06:00"))]
    pub to: String,
}

/// A day off.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HolidaySpec {
    /// Which day.
    #[schemars(length(max = 10))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$')").message("date is a day such as 2026-12-25"))]
    pub date: String,
    /// What people call it.
    #[serde(default)]
    #[schemars(length(max = 63))]
    pub name: String,
}

/// How targets are worked on.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// In which order.
    #[serde(default)]
    pub strategy: StrategySpec,
}

/// In which order targets go down.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type == 'DAG' || !has(self.dependencies)").message("dependencies belong to strategy DAG: write type: DAG or remove them"),
    validation = Rule::new("self.type != 'DAG' || has(self.dependencies)").message("strategy DAG needs dependencies: write at least one, or type: Parallel"),
    validation = Rule::new("self.type == 'Staged' || !has(self.stages)").message("stages belong to strategy Staged: write type: Staged or remove them"),
    validation = Rule::new("self.type != 'Staged' || has(self.stages)").message("strategy Staged needs stages: write at least one, or type: Sequential"),
    validation = Rule::new("self.type == 'Parallel' || self.type == 'DAG' || !has(self.maxConcurrency)").message("maxConcurrency belongs to strategy Parallel or DAG; a stage has its own"),
)]
pub struct StrategySpec {
    /// Which one.
    #[serde(default, rename = "type")]
    pub kind: StrategyType,
    /// At most so many at once. Parallel and DAG.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[x_kube(validation = Rule::new("self >= 1").message("maxConcurrency is at least 1; leave it out for all at once"))]
    pub max_concurrency: Option<u16>,
    /// Who waits for whom. DAG.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub dependencies: Vec<Dependency>,
    /// One after the other. Staged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.all(s, self.exists_one(u, u.name == s.name))").message("two stages have the same name"))]
    pub stages: Vec<StageSpec>,
}

/// Who is first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StrategyType {
    /// One after the other, as they are listed.
    #[default]
    Sequential,
    /// All at once, or so many.
    Parallel,
    /// Each when those that it depends on are done.
    #[serde(rename = "DAG")]
    Dag,
    /// One stage after the other.
    Staged,
}

/// `from` is down before `to` is stopped, and up after it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("self.from != self.to").message("a target cannot depend on itself"))]
pub struct Dependency {
    /// Down first, up last.
    #[schemars(length(max = 63))]
    pub from: String,
    /// Down last, up first.
    #[schemars(length(max = 63))]
    pub to: String,
}

/// A stage.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.parallel || !has(self.maxConcurrency)").message("maxConcurrency of a stage needs parallel: true"))]
pub struct StageSpec {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Its targets.
    #[schemars(length(min = 1, max = 64), inner(length(max = 63)))]
    pub targets: Vec<String>,
    /// All at once, or one after the other?
    #[serde(default)]
    pub parallel: bool,
    /// At most so many at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[x_kube(validation = Rule::new("self >= 1").message("maxConcurrency is at least 1; leave it out for all at once"))]
    pub max_concurrency: Option<u16>,
}

/// What failures mean.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Behavior {
    /// For the other targets.
    #[serde(default)]
    pub mode: BehaviorMode,
    /// How often a target is tried again, later each time.
    #[serde(default = "three")]
    #[schemars(range(min = 0, max = 10))]
    #[x_kube(validation = Rule::new("self >= 0 && self <= 10").message("retries is 0 to 10"))]
    pub retries: u8,
}

const fn three() -> u8 {
    3
}

impl Default for Behavior {
    fn default() -> Self {
        Self {
            mode: BehaviorMode::default(),
            retries: three(),
        }
    }
}

/// What a failure means for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BehaviorMode {
    /// Nothing new is begun after a failure.
    #[default]
    Strict,
    /// Only what depends on it is left out.
    BestEffort,
}

/// What deletion means for what sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It wakes first.
    #[default]
    WakeFirst,
    /// It stays asleep; the restore points stay, too.
    Abandon,
}

/// What sleeps.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetSpec {
    /// Its name. It is part of a key and of an annotation.
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')").message("the name of a target may have 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends: it is part of a key of a ConfigMap"))]
    pub name: String,
    /// Who stops and starts it: `workloads`, `memgraph`, `ring`, `noop`.
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("executor may have lower case letters, digits and `-`, such as workloads or memgraph"))]
    pub executor: String,
    /// What the executor needs to know; docs/hibernation.md says what each takes.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "anything")]
    pub parameters: Value,
    /// How long it may take until everything is down, or usable again. Then it has failed.
    #[serde(default = "ten_minutes")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')").message("readyWithin is a duration of 1s to 24h in whole numbers, such as 10m or 1h30m"))]
    pub ready_within: String,
    /// What happens when something of it runs although it should sleep.
    #[serde(default)]
    pub drift: DriftPolicy,
}

fn ten_minutes() -> String {
    "10m".to_owned()
}

/// An object that only its executor understands.
pub(super) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// What happens when something runs although it should sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftPolicy {
    /// A condition says so, and nothing else.
    #[default]
    Ignore,
    /// The same, and an Event: once in each leg for each number of them.
    Report,
    /// It is stopped again; its restore point stays as it is.
    Enforce,
}
