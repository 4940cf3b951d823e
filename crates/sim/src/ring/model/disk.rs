//! What a node keeps.

use mainstay_core::ring::ids::{Address, HostId, Location};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// `system.local.bootstrapped`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// It has not begun.
    Needs,
    /// It has begun.
    InProgress,
    /// It is a member.
    Completed,
}

/// Another node, as it is kept for the next start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its address.
    pub address: Address,
    /// Its place in the ring.
    pub token: u64,
    /// Where it lives.
    pub location: Location,
}

/// `system.local` and `system.peers`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Local {
    /// Its host id, made at the first start.
    pub host: HostId,
    /// How far it is.
    pub stage: Stage,
    /// Its place in the ring.
    pub token: Option<u64>,
    /// Which ring it belongs to: one that was founded twice is two.
    pub cluster: u64,
    /// Starts so far.
    pub generation: u64,
    /// It asked to join, and has not heard the end of it.
    pub asked: bool,
    /// It has left.
    pub left: bool,
    /// The others.
    pub peers: BTreeMap<HostId, Peer>,
}

/// A data folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Nothing before the first start.
    pub local: Option<Local>,
    /// The rows it holds.
    pub rows: BTreeSet<u16>,
}

impl Disk {
    /// How far the node on it is.
    pub fn stage(&self) -> Stage {
        self.local.as_ref().map_or(Stage::Needs, |l| l.stage)
    }

    /// The identity on it.
    pub fn host(&self) -> Option<HostId> {
        self.local.as_ref().map(|l| l.host)
    }
}
