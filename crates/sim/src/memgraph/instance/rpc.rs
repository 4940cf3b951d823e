//! What instances say to each other, and the data they carry.

use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::hash::Hash;

use super::ids::{DatabaseId, EpochId, IdVisitor, MainId, NodeId, RegistrationName, Ts};
use super::lineage::{Run, Snapshot, visit_runs};

/// The data of one instance. The model only moves it around.
pub trait Store: Clone + Eq + Hash + Debug + Default {
    /// What one transaction changes.
    type Delta: Clone + Eq + Hash + Debug;

    /// Applies one committed transaction.
    fn apply(&mut self, delta: &Self::Delta);

    /// Whether there is any data.
    fn is_empty(&self) -> bool;
}

/// Visits what an instance keeps for others and does not understand, so that an explorer can renumber it.
pub trait ContentVisitor<S: Store> {
    /// The name of a registration.
    fn name(&mut self, name: &mut RegistrationName);
    /// The data.
    fn store(&mut self, store: &mut S);
    /// A transaction on its way into the data.
    fn delta(&mut self, delta: &mut S::Delta);
}

/// How a MAIN reaches its peers.
pub trait Network<S: Store> {
    /// One request and its answer. `None`: unreachable, or no answer in time;
    /// the peer may still have acted on the request.
    fn call(&mut self, to: NodeId, rpc: Rpc<S>) -> Option<Answer>;

    /// Does this peer take what it is sent and answer nothing, neither now nor ever?
    fn hangs(&self, _peer: NodeId) -> bool {
        false
    }
}

/// A request from a MAIN to a peer.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(bound(
    serialize = "S: Serialize, S::Delta: Serialize",
    deserialize = "S: Deserialize<'de>, S::Delta: Deserialize<'de>"
))]
pub enum Rpc<S: Store> {
    /// Is the replication port open?
    Ping,
    /// From now on this is your MAIN. Whoever says it is believed.
    SwapMain {
        /// The new main id.
        main: MainId,
    },
    /// This is the database of the cluster; adopt its id if you are empty.
    SystemRecovery {
        /// Who asks.
        main: MainId,
        /// The id to adopt.
        db: DatabaseId,
    },
    /// Where are you?
    Heartbeat {
        /// Who asks.
        main: MainId,
        /// About which database.
        db: DatabaseId,
    },
    /// One transaction.
    Prepare {
        /// Who sends.
        main: MainId,
        /// For which database.
        db: DatabaseId,
        /// What to prepare.
        transaction: Transaction<S::Delta>,
        /// Keep it until `Finalize`, or commit at once.
        two_phase: bool,
    },
    /// The fate of a prepared transaction.
    Finalize {
        /// Who sends.
        main: MainId,
        /// Which transaction.
        ts: Ts,
        /// Commit or drop.
        commit: bool,
    },
    /// First step of recovery from a snapshot: all data goes.
    Clear {
        /// Who sends.
        main: MainId,
        /// For which database.
        db: DatabaseId,
    },
    /// Recovery data.
    Files {
        /// Who sends.
        main: MainId,
        /// For which database.
        db: DatabaseId,
        /// Boxed: the other requests are small and many.
        files: Box<Files<S>>,
    },
}

/// One transaction on its way.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Transaction<D> {
    /// Its label.
    pub epoch: EpochId,
    /// True identity of the writer; the real message does not have it.
    pub writer: MainId,
    /// Where MAIN was before it. The real message has only the timestamp; there,
    /// new objects whose ids are taken give a fork away.
    pub after: Option<Run>,
    /// Its timestamp.
    pub ts: Ts,
    /// Its changes.
    pub delta: D,
}

impl<D> Transaction<D> {
    pub(super) fn visit_ids(&mut self, visitor: &mut impl IdVisitor) {
        let Self {
            epoch,
            writer,
            after,
            ts,
            delta: _,
        } = self;
        visitor.ts(ts);
        visitor.epoch(epoch);
        visitor.main(writer);
        visit_runs(after.as_mut_slice(), visitor);
    }
}

/// What recovery sends: MAIN's whole state, as the receiver will have it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(bound(
    serialize = "S: Serialize, S::Delta: Serialize",
    deserialize = "S: Deserialize<'de>, S::Delta: Deserialize<'de>"
))]
pub struct Files<S: Store> {
    /// All data.
    pub store: S,
    /// The runs behind it; the last one ends at MAIN's position.
    pub runs: Vec<Run>,
    /// Present: a snapshot is loaded first, and its history replaces the
    /// receiver's. Absent: log files only, the receiver goes on from where it is.
    pub snapshot: Option<Snapshot>,
}

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Nothing listens: the peer is not a REPLICA.
    Refused,
    /// Done, or a yes vote.
    Yes,
    /// Rejected, or a no vote.
    No,
    /// The answer to an accepted heartbeat.
    Position {
        /// The last epoch with a commit.
        epoch: EpochId,
        /// The last durable timestamp.
        ldt: Ts,
    },
}

impl Answer {
    /// Whether a call ended in a plain yes.
    pub fn is_yes(answer: Option<Self>) -> bool {
        answer == Some(Self::Yes)
    }
}
