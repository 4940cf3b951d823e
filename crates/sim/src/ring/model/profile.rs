//! What differs from version to version.

use mainstay_core::ring::spec::Engine;
use std::time::Duration;

/// A family of versions that behave alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// ScyllaDB up to 5.1: gossip, replaces by address, keeps the host id.
    Gossip4,
    /// ScyllaDB 5.2 to 5.4: gossip, replaces by host id.
    Gossip52,
    /// ScyllaDB 2025.1 to 2026.1: membership by a majority.
    Raft2025,
    /// ScyllaDB 2026.2 and later: the same, and nothing stops an empty node from joining under a known address.
    Raft2026,
    /// Apache Cassandra 5.
    Cassandra5,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Gossip4,
        Self::Gossip52,
        Self::Raft2025,
        Self::Raft2026,
        Self::Cassandra5,
    ];

    /// The database that the operator believes to run.
    pub fn engine(self) -> Engine {
        let version = |text: &str| text.parse().map_or(Engine::Cassandra, Engine::Scylla);
        match self {
            Self::Gossip4 => version("4.6.11"),
            Self::Gossip52 => version("5.4.1"),
            Self::Raft2025 => version("2025.2.0"),
            Self::Raft2026 => version("2026.2.0"),
            Self::Cassandra5 => Engine::Cassandra,
        }
    }

    /// Membership is agreed on by a majority.
    pub fn is_raft(self) -> bool {
        matches!(self, Self::Raft2025 | Self::Raft2026)
    }

    /// Who takes a place at the same address takes the host id, too.
    pub fn keeps_host(self) -> bool {
        matches!(self, Self::Gossip4 | Self::Cassandra5)
    }

    /// Without a heartbeat for this long, a node is called down.
    pub const DETECTION: Duration = Duration::from_secs(20);
    /// What every joining node waits for gossip to spread.
    pub const RING_DELAY: Duration = Duration::from_secs(30);
    /// What a start that was cut off leaves in gossip goes after this.
    pub const EXPIRY: Duration = Duration::from_mins(1);
}
