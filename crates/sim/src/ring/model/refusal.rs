//! Why a start ends, in the words of the database.

use mainstay_core::ring::ids::{Address, HostId};
use thiserror::Error;

/// A start that was refused or did not finish.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A replace option on its own seed.
    #[error("Bad configuration: replace-node-first-boot is not allowed for seed nodes")]
    SeedByHost,
    /// The same, by address.
    #[error(
        "Bad configuration: replace-address and replace-address-first-boot are not allowed for seed nodes"
    )]
    SeedByAddress,
    /// The same, Cassandra.
    #[error(
        "Replacing a node without bootstrapping risks invalidating consistency guarantees as the expected data may not be present until repair is run. To perform this operation, please restart with -Dcassandra.allow_unsafe_replace=true"
    )]
    UnsafeReplace,
    /// It has left.
    #[error("A node that already left the cluster cannot be restarted")]
    AlreadyLeft,
    /// Its only seed is the one it replaces.
    #[error("Cannot replace_address {0} because no seed node is up")]
    NoSeedUp(Address),
    /// Nobody answers.
    #[error("Unable to gossip with any nodes={{…}} (ShadowRound).")]
    UnableToGossip,
    /// Nobody gossips with it.
    #[error("Unable to contact any seeds!")]
    NoContact,
    /// Unknown host id.
    #[error("Replaced node with Host ID {0} not found")]
    HostNotFound(HostId),
    /// Unknown address.
    #[error("Cannot replace_address {0} because it doesn't exist in gossip")]
    AddressNotFound(Address),
    /// Another place.
    #[error(
        "Cannot replace node {0} with a node on a different data center or rack. Current location is different."
    )]
    OtherRack(HostId),
    /// The target lives.
    #[error("tried to replace alive node {0}")]
    Alive(HostId),
    /// The target lives, by gossip.
    #[error("Cannot replace a live node...")]
    Live,
    /// The target is not a member.
    #[error("Cannot replace node {0} because it is not in the 'normal' state")]
    NotNormal(HostId),
    /// It asked before.
    #[error(
        "The node requested to join before but didn't finish the procedure. Please clear the data directory and restart."
    )]
    AskedBefore,
    /// Others are down, by majority.
    #[error(
        "the topology coordinator rejected request to join the cluster: request canceled because some required nodes are dead"
    )]
    RequiredDead,
    /// Others are down, by gossip.
    #[error(
        "replace[…]: Nodes={{…}} needed for replace operation are down. It is highly recommended to fix the down nodes and try again."
    )]
    NeededDown,
    /// No majority answers.
    #[error("raft operation timed out: no quorum")]
    NoQuorum,
    /// Its address is known.
    #[error(
        "A node with address {0} already exists, cancelling join. Use replace_address if you want to replace this node."
    )]
    AlreadyExists(Address),
    /// Another one is joining.
    #[error(
        "Other bootstrapping/leaving/moving nodes detected, cannot bootstrap while consistent_rangemovement is true"
    )]
    OthersMoving,
    /// Too few copies are left.
    #[error("Unable to find sufficient sources for streaming range … in keyspace")]
    NoSources,
    /// Streaming did not end.
    #[error("Streaming failed: a source is gone")]
    StreamFailed,
}
