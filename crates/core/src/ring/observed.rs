//! What a turn knows: objects of Kubernetes, and what members of the ring said about each other.
//!
//! The ledger is read first, then everything in here. An answer that is older than that is history. What a node says
//! of itself is never evidence: a node that founded a ring of its own finds itself in best health.

use super::ids::{
    Address, ClusterUid, GrantNumber, HostId, Location, MapUid, Member, Name, PodUid, ServiceUid, VolumeUid,
};
use super::record::RecordMap;
use super::spec::Spec;
use super::stamp::{Found, Report};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Is a node alive, in somebody's eyes?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Liveness {
    /// Yes: in the list of the living, or its heartbeat moves.
    Up,
    /// No, and for how long at least.
    Down(Duration),
    /// Two nodes at one address: the lists are by address and cannot tell.
    Unclear,
}

/// What a node is doing, in somebody's eyes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeState {
    /// A member like any other, up or down.
    Normal,
    /// Joins for the first time.
    Joining,
    /// Takes another one's place: `BOOT_REPLACE`, `hibernate`, or replacing in the topology.
    Replacing,
    /// Leaves.
    Leaving,
    /// Moves its tokens.
    Moving,
    /// Has left.
    Left,
    /// Says nothing of itself.
    Unknown,
}

/// One node, in somebody's eyes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seen {
    /// Who.
    pub host: HostId,
    /// At which address.
    pub address: Address,
    /// Alive?
    pub liveness: Liveness,
    /// Doing what.
    pub state: NodeState,
    /// It owns tokens.
    pub owner: bool,
    /// A human declared it dead for good (`exclude_node`).
    pub excluded: bool,
    /// Where it lives.
    pub location: Option<Location>,
    /// Rises with each start.
    pub generation: u64,
}

impl Seen {
    /// A normal owner of tokens.
    pub fn is_normal(&self) -> bool {
        self.owner && self.state == NodeState::Normal
    }

    /// Counts as a member, or is about to.
    pub fn counts(&self) -> bool {
        !matches!(self.state, NodeState::Left)
    }

    /// In the middle of something that must end before anything else is begun.
    pub fn is_busy(&self) -> bool {
        match self.state {
            NodeState::Normal | NodeState::Left => false,
            // A member known only from disk says nothing of itself after a cold start of the whole ring.
            NodeState::Unknown => !self.owner,
            NodeState::Joining | NodeState::Replacing | NodeState::Leaving | NodeState::Moving => true,
        }
    }
}

/// How often the rows of a keyspace are kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keyspace {
    /// Its name.
    pub name: Name,
    /// It holds the accounts of clients: counts only if they log in.
    pub accounts: bool,
    /// Copies by datacenter; `None` if that cannot be told, which is not the same as none.
    pub copies: Option<BTreeMap<Name, u32>>,
}

/// What one member said of the ring, all of it from this one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Answer {
    /// Who.
    pub by: Member,
    /// When.
    pub at: Time,
    /// The nodes it knows, itself included.
    pub nodes: Vec<Seen>,
    /// The addresses it always gossips with; `None` if it does not tell.
    pub seeds: Option<Vec<Address>>,
    /// The keyspaces.
    pub keyspaces: Vec<Keyspace>,
    /// All owners of tokens that live, in its eyes, have its schema.
    pub schema_agrees: bool,
    /// Owners that are down and had another schema when they were last heard.
    pub other_schema: Vec<HostId>,
}

impl Answer {
    /// This node, as this member sees it.
    pub fn node(&self, host: HostId) -> Option<&Seen> {
        self.nodes.iter().find(|n| n.host == host)
    }

    /// Everybody at this address who has not left.
    pub fn at_address(&self, address: Address) -> impl Iterator<Item = &Seen> {
        self.nodes
            .iter()
            .filter(move |n| n.address == address && n.counts())
    }
}

/// What Kubernetes says of a member's pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pod {
    /// Its uid.
    pub uid: PodUid,
    /// By when it should be gone, if it is being deleted.
    pub ends_by: Option<Time>,
    /// Its database runs. One that does not may be removed from the ring meanwhile by a human, and come back.
    pub runs: bool,
    /// Where it was scheduled to, as its database will say.
    pub location: Option<Location>,
    /// What its gate said last.
    pub report: Option<Report>,
}

impl Pod {
    /// Is it being deleted?
    pub fn is_ending(&self) -> bool {
        self.ends_by.is_some()
    }

    /// Does it run, and stay? One that is on its way out still runs, and what its gate said counts no more.
    pub fn stays(&self) -> bool {
        self.runs && !self.is_ending()
    }
}

/// What Kubernetes says of a member's claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// Its uid.
    pub uid: VolumeUid,
    /// Its volume is bound to a Node that does not exist, since then.
    pub node_gone_since: Option<Time>,
    /// Being deleted.
    pub terminating: bool,
}

/// The ConfigMap of a member's record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredRecord {
    /// Its uid.
    pub uid: MapUid,
    /// What it holds.
    pub map: RecordMap,
}

/// Everything about one member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberView {
    /// Who.
    pub member: Member,
    /// Its Service.
    pub service: Option<ServiceUid>,
    /// The address under which the others know it: that of its Service, or of its pod.
    pub address: Option<Address>,
    /// Its pod.
    pub pod: Option<Pod>,
    /// Its claim.
    pub claim: Option<Claim>,
    /// Its record.
    pub record: Option<StoredRecord>,
    /// Somebody put `scylla/replace` on its Service.
    pub replace_label: bool,
    /// Somebody put it into maintenance.
    pub maintenance: bool,
    /// Where scylla-operator runs it: since when its pod waits before the start because its disk is not bootstrapped.
    pub waits_unbootstrapped_since: Option<Time>,
    /// Where scylla-operator runs it: the host id that its sidecar noted.
    pub noted_host: Option<HostId>,
}

/// What people asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wishes {
    /// Sleep.
    pub hibernated: bool,
    /// Change nothing until then.
    pub paused_until: Option<Time>,
    /// Pods are being restarted for a new template.
    pub rollout: bool,
}

/// Everything a turn knows besides the ledger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Observed {
    /// When the ledger was read: answers before it are history.
    pub read_at: Time,
    /// The object that declares the cluster.
    pub cluster: ClusterUid,
    /// What the user declared.
    pub spec: Spec,
    /// The members that are declared, and those that still have objects.
    pub members: Vec<MemberView>,
    /// What members said.
    pub answers: Vec<Answer>,
    /// Members that say that they are drained. Asked only on the way to sleep.
    pub drained: BTreeSet<Member>,
    /// What people asked for.
    pub wishes: Wishes,
}

impl Observed {
    /// This member.
    pub fn member(&self, member: &Member) -> Option<&MemberView> {
        self.members.iter().find(|m| m.member == *member)
    }

    /// What the gate of this member's pod said. If the Node is gone, it says nothing any more.
    pub fn report(&self, member: &Member) -> Option<&Report> {
        let m = self.member(member)?;
        let pod = m.pod.as_ref().filter(|p| !p.is_ending())?;
        let away = m.claim.is_some_and(|c| c.node_gone_since.is_some());
        pod.report.as_ref().filter(|_| !away)
    }

    /// The permissions that gates have seen used.
    pub fn used_grants(&self) -> impl Iterator<Item = GrantNumber> {
        let pods = self.members.iter().filter_map(|m| m.pod.as_ref());
        pods.filter_map(|p| match p.report?.found {
            Found::StartedWith(number) | Found::Unfinished(number) => Some(number),
            Found::Started(_)
            | Found::Empty
            | Found::Retired(_)
            | Found::Foreign(_)
            | Found::Damaged
            | Found::Unreadable => None,
        })
    }

    /// The addresses of the declared members.
    pub fn addresses(&self) -> Vec<Address> {
        let declared = self.spec.members.iter();
        declared.filter_map(|d| self.member(&d.member)?.address).collect()
    }
}
