//! A MAIN's list of replicas.

use super::ids::{NodeId, RegistrationName, Ts};
use super::rpc::{Answer, Network, Rpc, Store, Transaction};
use serde::{Deserialize, Serialize};

/// How a MAIN waits for a replica.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Mode {
    /// Never.
    Async,
    /// Waits, and commits whatever the answer.
    Sync,
    /// Two-phase: no yes, no commit.
    StrictSync,
}

/// What `SHOW REPLICAS` says about an attached replica. It is a cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// Believed level.
    Ready,
    /// A transaction was opened towards it. Sticky after an abort.
    Replicating,
    /// Known to be behind; files are to be sent.
    Recovery,
    /// Maybe behind; the next heartbeat decides.
    Invalid,
    /// Has other data. Left only by an outage or by DROP.
    Diverged,
}

/// One entry of the list.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Registration<S: Store> {
    pub(super) name: RegistrationName,
    pub(super) mode: Mode,
    pub(super) peer: NodeId,
    /// False: a zombie, shown as `data_info: {}`, neither written to nor asked.
    pub(super) attached: bool,
    pub(super) status: Status,
    pub(super) ts: Ts,
    pub(super) failed_pings: u8,
    /// The commit in flight opened a stream to it.
    pub(super) open: bool,
    /// The peer's process is another one than the connection was made to.
    pub(super) stale: bool,
    /// On its way to this ASYNC replica.
    pub(super) queued: Option<Box<Transaction<S::Delta>>>,
}

/// How many pings in a row must fail before MAIN doubts a replica.
pub(super) const PINGS_TO_DOUBT: u8 = 3;

impl<S: Store> Registration<S> {
    pub(super) const fn detached(name: RegistrationName, mode: Mode, peer: NodeId) -> Self {
        Self {
            name,
            mode,
            peer,
            attached: false,
            status: Status::Invalid,
            ts: Ts::ZERO,
            failed_pings: 0,
            open: false,
            stale: false,
            queued: None,
        }
    }

    /// The commit in flight is done with this replica. A ping may have put it
    /// to `invalid` meanwhile; that stays.
    pub(super) fn settle(&mut self) {
        self.open = false;
        if self.status == Status::Replicating {
            self.status = Status::Ready;
        }
    }

    /// Sends a transaction. A dead connection is found out by using it, which
    /// costs that transaction; the next one gets a new connection.
    pub(super) fn prepare(&mut self, rpc: Rpc<S>, net: &mut impl Network<S>) -> bool {
        if std::mem::take(&mut self.stale) {
            false
        } else {
            Answer::is_yes(net.call(self.peer, rpc))
        }
    }

    /// Its name.
    pub const fn name(&self) -> RegistrationName {
        self.name
    }

    /// Its mode.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Where it points.
    pub const fn peer(&self) -> NodeId {
        self.peer
    }

    /// False: a zombie. It is not written to and not asked, whatever its mode.
    pub const fn is_attached(&self) -> bool {
        self.attached
    }

    /// The cached status; meaningless unless attached.
    pub const fn status(&self) -> Status {
        self.status
    }

    /// The position MAIN believes it has.
    pub const fn ts(&self) -> Ts {
        self.ts
    }

    /// Pings failed in a row, at most three.
    pub const fn failed_pings(&self) -> u8 {
        self.failed_pings
    }

    /// A transaction waits to be delivered to this ASYNC replica.
    pub const fn has_queued(&self) -> bool {
        self.queued.is_some()
    }

    /// DROP now may crash or freeze MAIN.
    pub fn has_background_work(&self) -> bool {
        self.attached && (self.queued.is_some() || self.status == Status::Recovery)
    }
}

/// One row of `SHOW REPLICAS`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shown {
    /// Name column.
    pub name: RegistrationName,
    /// Address column.
    pub peer: NodeId,
    /// Mode column.
    pub mode: Mode,
    /// `None` is `{}`: a zombie.
    pub info: Option<ShownInfo>,
}

/// The entry of one database in `data_info`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ShownInfo {
    /// `ts`.
    pub ts: Ts,
    /// `behind`: replica minus MAIN. Positive: the replica has more, or (before
    /// 3.12) a write was just aborted after its yes vote.
    pub behind: i64,
    /// `status`.
    pub status: Status,
}
