//! What a user declares.
#![allow(
    unreachable_pub,
    reason = "the derive repeats our `pub` on a struct inside a function"
)]

use crate::memgraph::{Pause, Storage};
use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A ring of ScyllaDB whose members are replaced when they lose their storage, and never while they live.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "mainstay.dev",
    version = "v1alpha1",
    kind = "RingCluster",
    plural = "ringclusters",
    singular = "ringcluster",
    shortname = "ring",
    category = "all",
    namespaced,
    status = "super::RingClusterStatus",
    derive = "PartialEq",
    doc = "A ring whose members are replaced when they lose their storage, and never while they live.",
    validation = Rule::new("self.metadata.name.size() <= 30").message("metadata.name is longer than 30 characters: members, claims and records are named after it; write a shorter one"),
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("metadata.name may have lower case letters, digits and `-`: StatefulSets and Services are named after it"),
    printcolumn = r#"{"name":"MEMBERS","type":"string","jsonPath":".status.summary"}"#,
    printcolumn = r#"{"name":"STORAGELOST","type":"string","jsonPath":".status.conditions[?(@.type==\"StorageLost\")].status"}"#,
    printcolumn = r#"{"name":"HELD","type":"string","jsonPath":".status.conditions[?(@.type==\"ReplacementHeld\")].status"}"#,
    printcolumn = r#"{"name":"WORK","type":"string","jsonPath":".status.work"}"#,
    printcolumn = r#"{"name":"AGE","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.version) || self.image.matches(':[0-9]+[.][0-9]+[^/]*$')").message("the version of the database decides how a dead node is named, and the tag of spec.image does not tell it; write spec.version, such as 2025.2"),
    validation = Rule::new("!(has(self.hibernated) && self.hibernated && has(self.paused))").message("hibernated and paused exclude each other; remove spec.paused"),
    validation = Rule::new("oldSelf.storage.size == self.storage.size").message("spec.storage.size cannot change: a StatefulSet keeps the claims it has; grow the claims themselves"),
    validation = Rule::new("(has(oldSelf.storage.storageClass) ? oldSelf.storage.storageClass : '') == (has(self.storage.storageClass) ? self.storage.storageClass : '')").message("spec.storage.storageClass cannot change: existing claims keep theirs"),
    validation = Rule::new("oldSelf.datacenter == self.datacenter").message("spec.datacenter cannot change: the database keeps the one it was founded with"),
)]
pub struct RingClusterSpec {
    /// Which database.
    #[serde(default)]
    pub engine: Engine,
    /// The image, with a tag or a digest.
    #[x_kube(
        validation = Rule::new("self.size() > 0 && !self.matches('\\\\s')").message("spec.image is empty or has blanks; write for example scylladb/scylla:2025.2.0"),
        validation = Rule::new("self.contains('@sha256:') || self.matches(':[^/:]+$')").message("spec.image needs a tag or a digest: what runs must not depend on when it was pulled; write for example scylladb/scylla:2025.2.0"),
        validation = Rule::new("!self.endsWith(':latest')").message("spec.image must not be `latest`: what runs must not depend on when it was pulled; write for example scylladb/scylla:2025.2.0"),
    )]
    #[schemars(length(max = 512))]
    pub image: String,
    /// The version of the database, if the tag of the image does not begin with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]+[.][0-9]+')").message("spec.version begins with two numbers, such as 5.4.1 or 2025.2"))]
    pub version: Option<String>,
    /// The datacenter, as the database means it.
    #[serde(default = "datacenter")]
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$')").message("spec.datacenter may have letters, digits, `-`, `_` and `.`"))]
    pub datacenter: String,
    /// The racks; the first member of the first one founds the ring.
    #[schemars(length(max = 16))]
    #[x_kube(
        validation = Rule::new("self.size() >= 1").message("spec.racks is empty: a ring has at least one rack"),
        validation = Rule::new("self.all(r, self.exists_one(s, s.name == r.name))").message("two entries of spec.racks have the same name"),
    )]
    pub racks: Vec<Rack>,
    /// The data volume of each member.
    #[serde(default)]
    pub storage: Storage,
    /// Resources of the database container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// The program inside the image. The gate starts it.
    #[serde(default = "command")]
    #[schemars(length(max = 256))]
    #[x_kube(validation = Rule::new("self.startsWith('/')").message("spec.command is the absolute path of the database's program, such as /usr/bin/scylla"))]
    pub command: String,
    /// More arguments for the database. Those that the protocol depends on are ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 512)))]
    #[x_kube(
        validation = Rule::new("self.all(f, f.startsWith('--'))").message("every entry of spec.flags begins with `--`, as in --smp=2"),
        validation = Rule::new("!self.exists(f, f.matches('^--(workdir|listen.address|broadcast.*|api.address|api.port|seed.*|replace.*|ignore.dead.nodes.for.replace|storage.port)(=|$)'))").message("spec.flags sets a flag that the operator depends on; remove it"),
    )]
    pub flags: Vec<String>,
    /// What becomes of a member that lost its storage.
    #[serde(default)]
    pub autoreplacement: Autoreplacement,
    /// Clients log in: then the keyspace of the accounts must survive, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub authentication: bool,
    /// Asleep: nothing is replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hibernated: bool,
    /// Change nothing for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

fn datacenter() -> String {
    "datacenter1".to_owned()
}

fn command() -> String {
    "/usr/bin/scylla".to_owned()
}

/// Which database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Engine {
    /// ScyllaDB.
    #[default]
    Scylla,
}

/// One rack: a StatefulSet of its own.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rack {
    /// Its name, as the database means it.
    #[schemars(length(max = 63))]
    #[x_kube(
        validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("the name of a rack may have lower case letters, digits and `-`"),
        validation = Rule::new("self.size() <= 15").message("the name of a rack is longer than 15 characters: members are named after it"),
    )]
    pub name: String,
    /// How many members.
    #[x_kube(validation = Rule::new("self >= 0 && self <= 32").message("a rack has 0 to 32 members"))]
    pub members: u8,
    /// The zone whose Nodes it runs on (`topology.kubernetes.io/zone`); any if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub zone: Option<String>,
}

/// What becomes of a member that lost its storage.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Autoreplacement {
    /// Replace it without being asked, if all checks hold.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Go on although rows of keyspaces with too few copies are then gone for good.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_loss: bool,
    /// How often a start is tried before a human is asked.
    #[serde(default = "three")]
    #[x_kube(validation = Rule::new("self >= 1 && self <= 10").message("spec.autoreplacement.tries is 1 to 10"))]
    pub tries: u32,
}

const fn yes() -> bool {
    true
}

const fn three() -> u32 {
    3
}

impl Default for Autoreplacement {
    fn default() -> Self {
        Self {
            enabled: yes(),
            accept_loss: false,
            tries: three(),
        }
    }
}
