//! What a user declares.
#![allow(
    unreachable_pub,
    reason = "the derive repeats our `pub` on a struct inside a function"
)]

use super::gateway::Gateway;
use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A Memgraph cluster that survives the loss of its MAIN.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "mainstay.dev",
    version = "v1alpha1",
    kind = "MemgraphCluster",
    plural = "memgraphclusters",
    singular = "memgraphcluster",
    shortname = "mgc",
    category = "all",
    namespaced,
    status = "super::MemgraphClusterStatus",
    derive = "PartialEq",
    doc = "A Memgraph cluster that survives the loss of its MAIN without losing an acknowledged write.",
    validation = Rule::new("self.metadata.name.size() <= 40").message("metadata.name is longer than 40 characters: pods, claims and gateways are named after it; write a shorter one"),
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("metadata.name may have lower case letters, digits and `-`: it is the name of a StatefulSet and of a Service"),
    printcolumn = r#"{"name":"MAIN","type":"string","jsonPath":".status.targetMainPod"}"#,
    printcolumn = r#"{"name":"TERM","type":"integer","jsonPath":".status.term"}"#,
    printcolumn = r#"{"name":"PROTECTED","type":"string","jsonPath":".status.conditions[?(@.type==\"Protected\")].status"}"#,
    printcolumn = r#"{"name":"WRITES","type":"string","jsonPath":".status.writes"}"#,
    printcolumn = r#"{"name":"LAG","type":"integer","jsonPath":".status.lag"}"#,
    printcolumn = r#"{"name":"PHASE","type":"string","priority":1,"jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(has(self.hibernated) && self.hibernated && has(self.paused))").message("hibernated and paused exclude each other: a paused operator cannot put the cluster to sleep; remove spec.paused"),
    validation = Rule::new("self.durability != 'Relaxed' || self.failover.writesWithoutSync != 'Never'").message("durability: Relaxed is never called protected, so writesWithoutSync: Never would refuse every write; write durability: Strict or another writesWithoutSync"),
    validation = Rule::new("!has(self.version) || !self.image.matches(':v?[0-9]+[.][0-9]+([.-][^/:@]*)?(@.*)?$') || [':', ':v'].exists(p, self.image.endsWith(p + self.version) || ['.', '-', '@'].exists(s, self.image.contains(p + self.version + s)))").message("spec.version and the tag of spec.image name different versions; leave spec.version out, or write the same"),
    validation = Rule::new("!self.gateway.reads.enabled || self.replicas > 2 || self.gateway.reads.includeSync || self.gateway.reads.fallbackToMain").message("spec.replicas is 2, so there is no ASYNC replica, and spec.gateway.reads allows nobody else: nobody would take reads; write replicas: 3, or reads.includeSync or reads.fallbackToMain"),
    validation = Rule::new("oldSelf.storage.size == self.storage.size").message("spec.storage.size cannot change: a StatefulSet keeps the claims it has; grow the claims themselves"),
    validation = Rule::new("(has(oldSelf.storage.storageClass) ? oldSelf.storage.storageClass : '') == (has(self.storage.storageClass) ? self.storage.storageClass : '')").message("spec.storage.storageClass cannot change: existing claims keep theirs"),
)]
pub struct MemgraphClusterSpec {
    /// How many pods: 0 and 1 are MAIN and SYNC in turn, the others are ASYNC.
    #[serde(default = "three")]
    // Here and below: the schema says its bounds too. Those of the Rust type would be others, and bad advice.
    #[schemars(range(min = 2, max = 9))]
    #[x_kube(validation = Rule::new("self >= 2 && self <= 9").message("spec.replicas is 2 to 9: pods 0 and 1 take turns as MAIN and SYNC, the others are ASYNC"))]
    pub replicas: u8,
    /// The image, with a tag or a digest. Memgraph 3.6 or later.
    #[serde(default = "image")]
    #[schemars(length(max = 512))]
    #[x_kube(
        validation = Rule::new("self.size() > 0 && !self.matches('\\\\s')").message("spec.image is empty or has blanks; write for example memgraph/memgraph:3.12.0"),
        validation = Rule::new("self.contains('@sha256:') || self.matches(':[^/:]+$')").message("spec.image needs a tag or a digest: what runs must not depend on when it was pulled; write for example memgraph/memgraph:3.12.0"),
        validation = Rule::new("!self.endsWith(':latest')").message("spec.image must not be `latest`: what runs must not depend on when it was pulled; write for example memgraph/memgraph:3.12.0"),
        validation = Rule::new("!self.matches(':v?([0-2][.][0-9]+|3[.][0-5])([.-][^/:@]*)?(@.*)?$')").message("spec.image is a Memgraph before 3.6, which does not tell one run of a server from the next; write for example memgraph/memgraph:3.12.0"),
    )]
    pub image: String,
    /// Which Memgraph the image has, as 3.12 or 3.12.0. Without it the tag says so, if it is a version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^(3[.]([6-9]|[1-9][0-9]+)|([4-9]|[1-9][0-9]+)[.][0-9]+)([.][0-9]+)?$')").message("spec.version is 3.6 or later, such as 3.12"))]
    pub version: Option<String>,
    /// More flags for Memgraph. Those that the protocol depends on are ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    // Here and below: Kubernetes refuses a rule that could cost much, and takes what has no bound for endless. Our own
    // bounds are narrower and have a sentence.
    #[schemars(length(max = 128), inner(length(max = 1024)))]
    #[x_kube(
        validation = Rule::new("self.all(f, f.startsWith('--'))").message("every entry of spec.flags begins with `--`, as in --log-level=WARNING"),
        validation = Rule::new("!self.exists(f, f.matches('^--(no)?(data.directory|init.file|bolt.port|bolt.address|storage.wal.enabled|storage.wal.file.flush.every.n.tx|storage.snapshot.on.exit|storage.snapshot.interval.*|replication.restore.state.on.startup|data.recovery.on.startup|storage.recover.on.startup|storage.mode|coordinator.*|management.port|flag.?file|(try)?fromenv)(=|$)'))").message("spec.flags sets a flag that the protocol depends on; remove it (durability is spec.durability)"),
        validation = Rule::new("self.size() <= 64").message("spec.flags has more than 64 entries; put the others into the configuration file of your image"),
    )]
    pub flags: Vec<String>,
    /// The data volume of each pod.
    #[serde(default)]
    pub storage: Storage,
    /// Resources of the database container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Whom the operator logs in as; without it nobody needs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// When and how MAIN is replaced.
    #[serde(default)]
    pub failover: Failover,
    /// Whether a commit survives the loss of power.
    #[serde(default)]
    pub durability: Durability,
    /// What becomes of a replica that diverged.
    #[serde(default)]
    pub hard_reset: HardReset,
    /// The gateway that clients connect to.
    #[serde(default)]
    pub gateway: Gateway,
    /// Statements to run on a new MAIN before it serves: Memgraph Community does not replicate users,
    /// triggers, streams and settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 4096)))]
    #[x_kube(
        validation = Rule::new("self.all(s, s.size() > 0)").message("spec.onPromotion has an empty statement; remove it"),
        validation = Rule::new("self.size() <= 100").message("spec.onPromotion has more than 100 statements: they run before a new MAIN serves; keep them few"),
        validation = Rule::new("!self.exists(s, s.matches('(?i)REPLICATION\\\\s+ROLE|(REGISTER|DROP)\\\\s+REPLICA'))").message("spec.onPromotion must not change roles or replicas: that is what the operator does"),
        validation = Rule::new("!self.exists(s, s.contains('__mainstay'))").message("spec.onPromotion must not touch the mark (:__mainstay)"),
    )]
    pub on_promotion: Vec<String>,
    /// Sleep: prove, record, and stop all pods. They wake as they were.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hibernated: bool,
    /// Change nothing for a while, failover included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

const fn three() -> u8 {
    3
}

fn image() -> String {
    "memgraph/memgraph:3.12.0".to_owned()
}

/// The data volume of each pod.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// How large.
    #[serde(default = "ten_gi")]
    #[x_kube(validation = Rule::new("self.matches('^[1-9][0-9]*(\\\\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$')").message("spec.storage.size is a positive size such as 10Gi"))]
    pub size: String,
    /// Which class; the cluster's default if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.size() > 0").message("spec.storage.storageClass is empty; leave it out for the default class"))]
    pub storage_class: Option<String>,
}

fn ten_gi() -> String {
    "10Gi".to_owned()
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            size: ten_gi(),
            storage_class: None,
        }
    }
}

/// Whom the operator logs in as.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    /// The Secret.
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')").message("spec.credentials.secretName is not the name of a Secret; name a Secret, such as memgraph-admin, or leave spec.credentials out"))]
    pub secret_name: String,
    /// Its key with the name.
    #[serde(default = "username")]
    #[x_kube(validation = Rule::new("self.size() > 0").message("spec.credentials.usernameKey is empty; the default is `username`"))]
    pub username_key: String,
    /// Its key with the password.
    #[serde(default = "password")]
    #[x_kube(validation = Rule::new("self.size() > 0").message("spec.credentials.passwordKey is empty; the default is `password`"))]
    pub password_key: String,
}

fn username() -> String {
    "username".to_owned()
}

fn password() -> String {
    "password".to_owned()
}

/// May MAIN take writes that nobody protects?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WritesWithoutSync {
    /// After a failover, until the other pod is protected again.
    #[default]
    AfterFailover,
    /// Also when the SYNC replica is lost while serving.
    Always,
    /// Never.
    Never,
}

/// What to do when the old MAIN cannot be fenced in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FenceTimeout {
    /// Promote all the same, counted and reported.
    #[default]
    Proceed,
    /// Wait for as long as it takes.
    Wait,
}

/// Whether a commit survives the loss of power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Durability {
    /// fsync per commit.
    #[default]
    Strict,
    /// Memgraph's default; the cluster never calls itself protected.
    Relaxed,
}

/// When and how MAIN is replaced.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failover {
    /// May MAIN take writes that nobody protects?
    #[serde(default)]
    pub writes_without_sync: WritesWithoutSync,
    /// When the old MAIN cannot be fenced in time.
    #[serde(default)]
    pub fence_timeout: FenceTimeout,
    /// Unanswered probes that make MAIN suspect.
    #[serde(default = "three_probes")]
    #[schemars(range(min = 2, max = 60))]
    #[x_kube(validation = Rule::new("self >= 2 && self <= 60").message("spec.failover.silentProbes is 2 to 60: one lost answer must not cost MAIN its office"))]
    pub silent_probes: u32,
    /// How long a SYNC replica may be away before `writesWithoutSync: Always` goes on without it.
    #[serde(default = "five_seconds")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')").message("spec.failover.syncGrace is a duration of 1s to 1h, such as 5s"))]
    pub sync_grace: String,
    /// How long running transactions may take to end in a planned move.
    #[serde(default = "ten_seconds")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('45s')").message("spec.failover.drain is a duration of 1s to 45s, such as 10s: a turn of the operator takes a minute at most"))]
    pub drain: String,
}

const fn three_probes() -> u32 {
    3
}

fn five_seconds() -> String {
    "5s".to_owned()
}

fn ten_seconds() -> String {
    "10s".to_owned()
}

impl Default for Failover {
    fn default() -> Self {
        Self {
            writes_without_sync: WritesWithoutSync::default(),
            fence_timeout: FenceTimeout::default(),
            silent_probes: three_probes(),
            sync_grace: five_seconds(),
            drain: ten_seconds(),
        }
    }
}

/// What becomes of a replica that diverged: it is reset by itself, and its data is set aside on its own volume.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HardReset {
    /// How many copies that were set aside are kept on a volume. Older ones are deleted when the clean replica is ready.
    #[serde(default = "three_copies")]
    #[schemars(range(min = 0, max = 20))]
    #[x_kube(validation = Rule::new("self >= 0 && self <= 20").message("spec.hardReset.keep is 0 to 20: each copy takes as much room as the data"))]
    pub keep: u8,
    /// How many resets an hour may have, of all pods together.
    #[serde(default = "three_probes")]
    #[schemars(range(min = 0, max = 60))]
    #[x_kube(validation = Rule::new("self >= 0 && self <= 60").message("spec.hardReset.perHour is 0 to 60; with 0 nobody is reset by itself"))]
    pub per_hour: u32,
    /// How long after a new term no ASYNC replica is reset: it may hold a write that the failover lost.
    #[serde(default = "two_minutes")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('0s') && duration(self) <= duration('24h')").message("spec.hardReset.quiet is a duration of 0s to 24h, such as 2m"))]
    pub quiet: String,
}

fn two_minutes() -> String {
    "2m".to_owned()
}

const fn three_copies() -> u8 {
    3
}

impl Default for HardReset {
    fn default() -> Self {
        Self {
            keep: three_copies(),
            per_hour: three_probes(),
            quiet: two_minutes(),
        }
    }
}

/// Change nothing for a while.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Until when, as RFC 3339. A pause without an end is a cluster that nobody looks after.
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\\\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$') && timestamp(self) >= timestamp('1970-01-01T00:00:00Z')").message("spec.paused.until is a time such as 2026-11-16T04:00:00Z"))]
    pub until: String,
}
