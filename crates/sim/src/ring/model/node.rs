//! One process: what it is doing and what it knows of the others.

use mainstay_core::ring::ids::{Address, HostId, Location};
use mainstay_core::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a node says of itself in gossip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Status {
    /// Nothing yet.
    Silent,
    /// Joins.
    Boot,
    /// Takes another one's place under a host id of its own.
    BootReplace,
    /// Takes another one's place under its host id.
    Hibernate,
    /// A member.
    Normal,
    /// Leaves.
    Leaving,
    /// Has left.
    Left,
}

/// What is known of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its address.
    pub address: Address,
    /// Which start of it.
    pub generation: u64,
    /// Rises while it lives.
    pub heartbeat: u64,
    /// When it last rose, here.
    pub heard: Time,
    /// Says it is.
    pub status: Status,
    /// Its place in the ring.
    pub token: Option<u64>,
    /// Where it lives.
    pub location: Location,
    /// It said goodbye.
    pub stopped: bool,
}

impl Endpoint {
    /// Is it alive, in the eyes of whoever knows this?
    pub fn is_up(&self, now: Time) -> bool {
        !self.stopped && now.since(self.heard) < super::Profile::DETECTION
    }

    /// It owns tokens.
    pub fn is_owner(&self) -> bool {
        self.token.is_some() && matches!(self.status, Status::Normal | Status::Leaving | Status::Hibernate)
    }
}

/// What a process is in the middle of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Joins for the first time.
    Joining {
        /// When it is done.
        until: Time,
    },
    /// Takes the place of this node.
    Replacing {
        /// Of whom.
        target: HostId,
        /// When it is done.
        until: Time,
        /// Nobody will gossip with it, so that it will fail.
        unheard: bool,
        /// Members that were away when it began: it streams without them.
        without: BTreeSet<HostId>,
    },
    /// A member.
    Normal,
    /// Leaves.
    Leaving {
        /// When it is done.
        until: Time,
    },
}

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its host id.
    pub host: HostId,
    /// Its address.
    pub address: Address,
    /// What it does.
    pub mode: Mode,
    /// Whom it always gossips with.
    pub seeds: Vec<Address>,
    /// Which ring it belongs to.
    pub cluster: u64,
    /// What it knows, itself included.
    pub view: BTreeMap<HostId, Endpoint>,
}

impl Process {
    /// What it says of itself.
    pub fn own(&self) -> Option<&Endpoint> {
        self.view.get(&self.host)
    }

    /// Takes over what another node knows, where that is newer.
    pub fn merge(&mut self, others: &BTreeMap<HostId, Endpoint>, now: Time) {
        for (host, theirs) in others {
            if *host == self.host {
                continue;
            }
            let newer = self
                .view
                .get(host)
                .is_none_or(|mine| (theirs.generation, theirs.heartbeat) > (mine.generation, mine.heartbeat));
            if newer {
                // Of somebody new it is known only when the other one heard of it.
                let heard = if self.view.contains_key(host) {
                    now
                } else {
                    theirs.heard
                };
                let known = Endpoint {
                    heard,
                    ..theirs.clone()
                };
                self.view.insert(*host, known);
            }
        }
    }

    /// Forgets starts that were cut off, once they have expired.
    pub fn expire(&mut self, now: Time) {
        let me = self.host;
        self.view.retain(|host, e| {
            let begun = matches!(e.status, Status::Silent | Status::Boot | Status::BootReplace);
            *host == me || !begun || now.since(e.heard) < super::Profile::EXPIRY
        });
    }
}
