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

/// A ring of ScyllaDB or Cassandra whose members are replaced when they lose their storage, and never while they live.
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
    validation = Rule::new("oldSelf.engine == self.engine").message("spec.engine cannot change: a disk belongs to the database that wrote it"),
    validation = Rule::new("(has(oldSelf.attends) ? oldSelf.attends : '') == (has(self.attends) ? self.attends : '')").message("spec.attends cannot change: who runs the pods is decided once; make another RingCluster"),
    validation = Rule::new("!has(self.attends) || self.engine == 'Scylla'").message("spec.attends names a cluster of scylla-operator: spec.engine is then Scylla"),
    validation = Rule::new("!(has(self.attends) && has(self.hibernated) && self.hibernated)").message("a cluster that scylla-operator runs is not put to sleep from here; remove spec.hibernated"),
    validation = Rule::new("!has(self.flags) || self.engine == 'Cassandra' || self.flags.all(f, f.startsWith('--'))").message("every entry of spec.flags begins with `--`, as in --smp=2"),
    validation = Rule::new("!has(self.flags) || self.engine != 'Cassandra' || self.flags.all(f, f.matches('^-[DX][^ ]+$'))").message("every entry of spec.flags is an option of Java, as -Xmx4G or -Dcassandra.ring_delay_ms=30000, without blanks"),
    validation = Rule::new("has(self.attends) || oldSelf.racks.all(o, o.members == 0 || self.racks.exists(r, r.name == o.name))").message("a rack of spec.racks that has members cannot be taken away at once: they leave the ring first; write members: 0 instead, and take the rack away when they have left"),
    validation = Rule::new("oldSelf.datacenter == self.datacenter").message("spec.datacenter cannot change: the database keeps the one it was founded with"),
)]
pub struct RingClusterSpec {
    /// Which database.
    #[serde(default)]
    pub engine: Engine,
    /// The ScyllaCluster of this name is run by scylla-operator: no object of it is made or changed here. A member that
    /// lost its storage gets that operator's own label `scylla/replace`, under the same checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("spec.attends is the name of a ScyllaCluster in this namespace"))]
    pub attends: Option<String>,
    /// Where things are in an image of Cassandra.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cassandra: Option<CassandraImage>,
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
    /// The program inside the image, if it is not at its usual place. The gate starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    #[x_kube(validation = Rule::new("self.startsWith('/')").message("spec.command is the absolute path of the database's program, such as /usr/bin/scylla"))]
    pub command: Option<String>,
    /// The user of the database, by number. Cassandra is 999:999, as in its official image; the image of ScyllaDB begins
    /// as root, so for it nothing is said unless this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as: Option<RunAs>,
    /// More arguments for the database; for Cassandra, options of Java. Those that the protocol depends on are ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 512)))]
    #[x_kube(
        validation = Rule::new("!self.exists(f, f.matches('^-Dcassandra([.](replace|allow_unsafe|config|storagedir|join_ring|override_decommission|reset_bootstrap|initial_token|auto_bootstrap|consistent|load_ring_state)|-rackdc)'))").message("spec.flags sets a property that the operator depends on; remove it"),
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

/// A user, by number: Kubernetes cannot tell whether a name is root.
#[derive(KubeSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunAs {
    /// The user.
    #[schemars(range(min = 1))]
    #[x_kube(validation = Rule::new("self >= 1").message("spec.runAs.user is 0, which is root; leave spec.runAs out to run as the image says"))]
    pub user: u32,
    /// Its group; the volume is made writable for it.
    #[schemars(range(min = 1))]
    #[x_kube(validation = Rule::new("self >= 1").message("spec.runAs.group is 0, which is root's; write the group of the user"))]
    pub group: u32,
}

fn datacenter() -> String {
    "datacenter1".to_owned()
}

fn jolokia() -> String {
    "/opt/jolokia/jolokia-agent-jvm-javaagent.jar".to_owned()
}

fn dump() -> String {
    "/opt/cassandra/tools/bin/sstabledump".to_owned()
}

fn config() -> String {
    "/etc/cassandra/cassandra.yaml".to_owned()
}

/// Which database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Engine {
    /// ScyllaDB.
    #[default]
    Scylla,
    /// Apache Cassandra 4.1 or 5.
    Cassandra,
}

/// Where things are in an image of Cassandra. The rest of the image is as its makers ship it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CassandraImage {
    /// The Jolokia agent for the JVM, 2.x: the only thing that the image needs besides Cassandra.
    #[serde(default = "jolokia")]
    #[schemars(length(max = 256))]
    #[x_kube(validation = Rule::new("self.matches('^/[^ ,=]+$')").message("spec.cassandra.jolokia is the absolute path of the agent's jar"))]
    pub jolokia: String,
    /// The tool that reads a table while nothing runs.
    #[serde(default = "dump")]
    #[schemars(length(max = 256))]
    #[x_kube(validation = Rule::new("self.startsWith('/')").message("spec.cassandra.dump is the absolute path of sstabledump"))]
    pub dump: String,
    /// The configuration to begin with. Addresses, folders, snitch and seeds in it are ours.
    #[serde(default = "config")]
    #[schemars(length(max = 256))]
    #[x_kube(validation = Rule::new("self.startsWith('/')").message("spec.cassandra.config is the absolute path of a cassandra.yaml"))]
    pub config: String,
}

impl Default for CassandraImage {
    fn default() -> Self {
        Self {
            jolokia: jolokia(),
            dump: dump(),
            config: config(),
        }
    }
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
    #[schemars(range(min = 0, max = 32))]
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
    #[schemars(range(min = 1, max = 10))]
    #[x_kube(validation = Rule::new("self >= 1 && self <= 10").message("spec.autoreplacement.tries is 1 to 10"))]
    pub tries: u32,
    /// A start that is not finished by then has failed, and its pod is ended; 6h if not given. Streaming terabytes takes
    /// longer: a large node needs more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('10m') && duration(self) <= duration('720h')").message("spec.autoreplacement.startLimit is a duration of 10m to 720h, such as 24h"))]
    pub start_limit: Option<String>,
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
            start_limit: None,
        }
    }
}
