//! What the user declared, parsed, and what follows from the database and its version.

use super::ids::{Location, Member};
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// Not a version that is known how to be handled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a version of ScyllaDB: it begins with two numbers, as 5.4.1 or 2025.2")]
pub struct NotAVersion(pub String);

/// A version of ScyllaDB: open source (5.4) or by year (2025.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ScyllaVersion {
    /// The first number.
    pub major: u16,
    /// The second.
    pub minor: u16,
}

impl ScyllaVersion {
    fn at_least(self, open: (u16, u16), by_year: (u16, u16)) -> bool {
        let least = if self.major >= 2000 { by_year } else { open };
        (self.major, self.minor) >= least
    }

    /// `replace_node_first_boot` exists: 5.2 and 2023.1.
    fn replaces_by_host(self) -> bool {
        self.at_least((5, 2), (2023, 1))
    }

    /// `scylla sstable query` exists: 2025.2. Without it nobody can tell whether a disk is bootstrapped.
    pub fn reads_tables(self) -> bool {
        self.at_least((u16::MAX, 0), (2025, 2))
    }

    /// Membership is agreed on by a majority: for good from 2025.2 on, on new clusters from 6.0 and 2024.2 on. Whoever
    /// may have it is treated as having it: the majority is asked for once too often, never once too rarely.
    fn has_raft_topology(self) -> bool {
        self.at_least((6, 0), (2024, 2))
    }
}

impl FromStr for ScyllaVersion {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || NotAVersion(text.to_owned());
        let number = |part: Option<&str>| -> Result<u16, NotAVersion> {
            let digits: String = part
                .unwrap_or("")
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            digits.parse().map_err(|_| bad())
        };
        let mut parts = text.split('.');
        Ok(Self {
            major: number(parts.next())?,
            minor: number(parts.next())?,
        })
    }
}

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Engine {
    /// ScyllaDB.
    Scylla(ScyllaVersion),
    /// Apache Cassandra 4 or 5.
    Cassandra,
}

/// How a dead node is named to the one that takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ReplaceBy {
    /// By its host id: ScyllaDB 5.2 and later.
    Host,
    /// By its address: older ones, and Cassandra.
    Address,
}

impl Engine {
    /// How a dead node is named.
    pub fn replace_by(self) -> ReplaceBy {
        match self {
            Self::Scylla(v) if v.replaces_by_host() => ReplaceBy::Host,
            Self::Scylla(_) | Self::Cassandra => ReplaceBy::Address,
        }
    }

    /// Does the one that takes the place at the same address keep the host id of the dead one?
    pub fn keeps_host_id(self) -> bool {
        self.replace_by() == ReplaceBy::Address
    }

    /// Is membership agreed on by a majority? Then two nodes are too few: one of them is not a majority.
    pub fn needs_majority(self) -> bool {
        matches!(self, Self::Scylla(v) if v.has_raft_topology())
    }

    /// How many others must have answered before anything is believed of one member of a ring of this size: a majority,
    /// and two if there are two. Where no majority decides about membership, the only other one of a pair is enough.
    pub fn witnesses(self, ring: usize) -> usize {
        let majority = ring / 2 + 1;
        if self.needs_majority() {
            majority
        } else {
            majority.min(ring.saturating_sub(1))
        }
    }

    /// Does it refuse to replace one member while another is down? Cassandra goes on as long as every range has a
    /// source.
    pub fn refuses_with_others_down(self) -> bool {
        matches!(self, Self::Scylla(_))
    }

    /// Must the live members list an address among their seeds before a node may take it over? In Cassandra a node
    /// that replaces at its own address is `hibernate`, and nobody begins to gossip with such a node, except with a
    /// seed (CASSANDRA-19580).
    pub fn needs_seed_at_peers(self) -> bool {
        matches!(self, Self::Cassandra)
    }
}

/// Who runs the pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Managed {
    /// This operator: StatefulSets, Services and the gate are ours.
    #[default]
    Here,
    /// scylla-operator. All that is ever done there is to set its own replace label.
    ByScyllaOperator,
}

/// A member that the user declared, and where it belongs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Declared {
    /// Who.
    pub member: Member,
    /// Where.
    pub location: Location,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Timing {
    /// A node counts as down when everybody has seen it down for this long. At least twice the 20 s in which a crash
    /// is detected.
    pub grace: Duration,
    /// The checks must hold at the beginning and at the end of this time, and whenever they are looked at between.
    pub confirm: Duration,
    /// For so long a gate may use a permission. After twice that it is looked at again whether it may still be given.
    pub permission: Duration,
    /// A start that is not finished by then has failed. Streaming terabytes takes hours.
    pub limit: Duration,
    /// Before the next try.
    pub rest: Duration,
    /// A Node that has been gone for this long is gone for good.
    pub node_gone: Duration,
    /// Where scylla-operator runs the pods: a disk is lost when its barrier has waited for this long. It also waits for a
    /// disk that is slow to read.
    pub barrier: Duration,
    /// Before a ring sleeps: whoever is not drained by then is stopped as it is.
    pub drain: Duration,
}

/// For how long a permission may be used, where nothing else is said.
pub const PERMISSION: Duration = Duration::from_mins(1);

impl Default for Timing {
    fn default() -> Self {
        Self {
            grace: Duration::from_mins(1),
            confirm: Duration::from_mins(1),
            permission: PERMISSION,
            limit: Duration::from_hours(6),
            rest: Duration::from_mins(2),
            node_gone: Duration::from_mins(15),
            barrier: Duration::from_mins(15),
            drain: Duration::from_mins(5),
        }
    }
}

/// What the user declared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Spec {
    /// Which database.
    pub engine: Engine,
    /// Who runs the pods.
    pub managed: Managed,
    /// The members; the first one founds the ring.
    pub members: Vec<Declared>,
    /// Replace members that lost their storage without being asked.
    pub automatic: bool,
    /// The user accepts that rows of keyspaces with too few replicas are lost by a replacement.
    pub accept_loss: bool,
    /// Clients log in: then the keyspace of the accounts must survive, too.
    pub authentication: bool,
    /// How often a start is tried before a human is asked.
    pub tries: u32,
    /// How long to wait for what.
    pub timing: Timing,
}

impl Spec {
    /// How the user declared this member, if they did.
    pub fn declared(&self, member: &Member) -> Option<&Declared> {
        self.members.iter().find(|d| d.member == *member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scylla(text: &str) -> Engine {
        Engine::Scylla(text.parse().unwrap())
    }

    #[test]
    fn d3_the_version_decides_how_a_dead_node_is_named() {
        for (version, by) in [
            ("4.6.11", ReplaceBy::Address),
            ("5.1.0", ReplaceBy::Address),
            ("2022.2.1", ReplaceBy::Address),
            ("5.2.0", ReplaceBy::Host),
            ("2023.1", ReplaceBy::Host),
            ("2026.2.0-rc1", ReplaceBy::Host),
        ] {
            assert_eq!(scylla(version).replace_by(), by, "{version}");
        }
        assert_eq!(Engine::Cassandra.replace_by(), ReplaceBy::Address);
        for bad in ["", "latest", "5", "5.x"] {
            assert!(bad.parse::<ScyllaVersion>().is_err(), "{bad}");
        }
    }

    #[test]
    fn d11_two_members_are_enough_only_where_no_majority_decides() {
        let table: [(Engine, [usize; 5]); 3] = [
            (scylla("5.4"), [0, 1, 2, 3, 3]),
            (Engine::Cassandra, [0, 1, 2, 3, 3]),
            (scylla("2025.2"), [1, 2, 2, 3, 3]),
        ];
        for (engine, wanted) in table {
            let found = [1, 2, 3, 4, 5].map(|n| engine.witnesses(n));
            assert_eq!(found, wanted, "{engine:?}");
        }
    }
}
