//! What a turn knows: facts with their time, source and process.
//!
//! The record is read first, then everything in here. An answer that is older than the reading of the
//! record is history, not evidence: it may be about a world the record has already left behind.

use super::ids::{
    DatabaseId, GatewayId, Ordinal, PodUid, Pods, ProcessId, ProofId, RegistrationName, Revision, Term,
    VolumeId,
};
use super::record::Override;
use super::spec::Spec;
use crate::time::Time;
use serde::Serialize;

/// Replication role, as `SHOW REPLICATION ROLE` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Takes writes.
    Main,
    /// Follows a MAIN.
    Replica,
}

/// Mode of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Mode {
    /// Not waited for.
    Async,
    /// Waited for but not obeyed: never used by us, recognised to be repaired.
    Sync,
    /// MAIN refuses a commit that this replica did not prepare.
    StrictSync,
}

/// Status of a registration, as MAIN caches it. A cache proves nothing (hole P3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Level when MAIN last looked.
    Ready,
    /// In a commit; sticky after an aborted one.
    Replicating,
    /// Catching up.
    Recovery,
    /// MAIN does not know.
    Invalid,
    /// Refused as diverged.
    Diverged,
}

/// A row of `SHOW REPLICAS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Registration {
    /// Its name.
    pub name: RegistrationName,
    /// Its mode.
    pub mode: Mode,
    /// Does its address mean the pod its name means?
    pub address_ok: bool,
    /// `data_info` was not empty. An empty one is a zombie: listed, and not consulted on commit.
    pub attached: bool,
    /// Cached status.
    pub status: Status,
    /// Replica minus MAIN: zero is level, negative is lag, positive means MAIN lost its tail (R27).
    pub behind: i64,
    /// Since when it has had this status and has not moved.
    pub since: Time,
    /// When its timestamp was last seen to grow in MAIN's list: only what MAIN accepts is fed.
    pub moved: Option<Time>,
}

/// The mark: one vertex in the data that carries the term and the last proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Mark {
    /// Term in the data.
    pub term: Term,
    /// Last proof written.
    pub proof: ProofId,
}

/// What needs a storage transaction to read; absent while a commit hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Data {
    /// `database_uuid`.
    pub database: DatabaseId,
    /// The mark, if there is one.
    pub mark: Option<Mark>,
    /// No vertices and no edges, the mark not counted.
    pub empty: bool,
    /// `SHOW SNAPSHOTS` lists one. A snapshot keeps a wrong history through a restart (R26).
    pub snapshots: bool,
}

impl Data {
    /// Is there nothing at all, not even a mark?
    pub fn is_blank(&self) -> bool {
        self.empty && self.mark.is_none()
    }
}

/// What a database process answered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Answer {
    /// When.
    pub at: Time,
    /// Which run of the container answered.
    pub process: ProcessId,
    /// `SHOW REPLICATION ROLE`.
    pub role: Role,
    /// What needed a storage transaction.
    pub data: Option<Data>,
    /// `SHOW REPLICAS`, on a MAIN; `None` if not asked, not answered, or not a MAIN.
    pub replicas: Option<Vec<Registration>>,
}

/// What came of asking a pod's database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Contact {
    /// Not asked yet.
    Unknown,
    /// It answered.
    Answered(Answer),
    /// New connections are refused.
    Refused {
        /// How often in a row, each on a new connection.
        times: u32,
        /// Since when.
        since: Time,
    },
    /// Probes are not answered.
    Silent {
        /// How many in a row.
        probes: u32,
        /// Since when.
        since: Time,
    },
}

/// What Kubernetes says of a pod.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is one independent fact of the pod object"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PodObject {
    /// Its uid.
    pub uid: PodUid,
    /// The container that runs now, if one does.
    pub running: Option<ProcessId>,
    /// The container that ended last, as the kubelet reported it.
    pub ended: Option<ProcessId>,
    /// The claim behind its data folder.
    pub volume: Option<VolumeId>,
    /// Being deleted.
    pub terminating: bool,
    /// Ready, as Kubernetes means it.
    pub ready: bool,
    /// Has an address that can be dialled.
    pub addressed: bool,
    /// Starts with the init file that makes it REPLICA before Bolt opens.
    pub start_fence: bool,
    /// Writes every commit through to its disk (R12).
    pub fsync: bool,
}

/// MAIN refused to register a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Refusal {
    /// When.
    pub at: Time,
    /// The process that refused.
    pub by: ProcessId,
    /// The process that was refused.
    pub of: ProcessId,
    /// Memgraph's number; 3 is "diverged".
    pub code: u8,
    /// In which term: the same two processes may agree again in a later one.
    pub term: Term,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Pod {
    /// Which.
    pub ordinal: Ordinal,
    /// Its object; `None` if there is none. A missing object is not a dead process (hole P23).
    pub object: Option<PodObject>,
    /// What its database said.
    pub contact: Contact,
    /// TCP to its replication port: `None` if not tried.
    pub replication_port_open: Option<bool>,
    /// The last refusal of a registration of this pod that this operator has seen.
    pub refusal: Option<Refusal>,
}

/// One registered gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Gateway {
    /// Which.
    pub id: GatewayId,
    /// Highest term it confirmed; older sessions were cut before it said so.
    pub term: Term,
    /// Highest revision it confirmed.
    pub revision: Revision,
    /// When it last had an answer from MAIN, and from which process.
    pub heard: Option<(Time, ProcessId)>,
}

/// A human looked at this very process and approves its reset. A reset ends the process, and with it the approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Approval {
    /// Which pod.
    pub pod: Ordinal,
    /// Which run of its container.
    pub process: ProcessId,
}

/// What people asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Wishes {
    /// Move MAIN to this pod (a request, a drain or a rollout).
    pub switchover: Option<Ordinal>,
    /// Make this pod MAIN whatever is lost, once.
    pub override_main: Option<Override>,
    /// Approve a reset, even if policy protects the pod.
    pub approve_reset: Option<Approval>,
    /// Reset this one although nobody calls it diverged. Only a pod outside the pair is.
    pub reset: Option<Approval>,
    /// Sleep.
    pub hibernated: bool,
    /// Change nothing until then.
    pub paused_until: Option<Time>,
}

/// What outlives the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Memory {
    /// The highest term that the status of the cluster has ever shown; `None` if it never had a record.
    pub status_term: Option<Term>,
    /// Resets begun in the last hour.
    pub resets_last_hour: u32,
    /// Pods whose volume has no room for a second copy beside the one that would be set aside.
    pub crowded: Pods,
}

/// Everything a turn knows besides the record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Observed {
    /// When the record was read: answers before it are history.
    pub read_at: Time,
    /// A number that no other turn of any operator has.
    pub turn: u64,
    /// What the user declared.
    pub spec: Spec,
    /// The pods, by ordinal.
    pub pods: Vec<Pod>,
    /// The registered gateways. One that never registered does not forward.
    pub gateways: Vec<Gateway>,
    /// What people asked for.
    pub wishes: Wishes,
    /// What outlives the record.
    pub memory: Memory,
}

impl Observed {
    /// The pod of this ordinal.
    pub fn pod(&self, ordinal: Ordinal) -> Option<&Pod> {
        self.pods.iter().find(|p| p.ordinal == ordinal)
    }

    /// What this pod answered after the record was read.
    pub fn answer(&self, ordinal: Ordinal) -> Option<&Answer> {
        match &self.pod(ordinal)?.contact {
            Contact::Answered(answer) if answer.at >= self.read_at => Some(answer),
            _ => None,
        }
    }

    /// The object of this pod.
    pub fn object(&self, ordinal: Ordinal) -> Option<&PodObject> {
        self.pod(ordinal)?.object.as_ref()
    }

    /// Is this process certainly over? The kubelet reported its end, or a newer one runs in its pod.
    ///
    /// An answer is stronger than the object, which may lag behind and still show an older process.
    pub fn is_gone(&self, ordinal: Ordinal, process: ProcessId) -> bool {
        if let Some(answer) = self.answer(ordinal) {
            return answer.process != process;
        }
        self.object(ordinal)
            .is_some_and(|o| o.ended == Some(process) || o.running.is_some_and(|now| now != process))
    }

    /// Has every registered gateway confirmed this term?
    pub fn all_confirmed_term(&self, term: Term) -> bool {
        self.gateways.iter().all(|g| g.term >= term)
    }

    /// Has every registered gateway confirmed this record, or a later one?
    ///
    /// Revisions begin anew when a lost record is rebuilt; only the term never goes back (R19).
    pub fn all_confirmed(&self, term: Term, revision: Revision) -> bool {
        self.gateways
            .iter()
            .all(|g| (g.term, g.revision) >= (term, revision))
    }
}
