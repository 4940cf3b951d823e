//! What a Cassandra node says of the ring: states and copies over CQL, who is alive and who owns tokens over Jolokia,
//! all of it from this one node.
//!
//! | file | concern |
//! |---|---|
//! | `jolokia` | the agent in the database: HTTP and JSON |
//! | `cql` | four tables, of this node and no other |
//! | `hearts` | for how long each heart has stood still |

mod cql;
mod hearts;
mod jolokia;

pub use cql::{Consistency, Cql, CqlError, FrameError, Gossiped, Row, Tables};
pub use hearts::Hearts;
pub use jolokia::{JOLOKIA_PORT, Jolokia, JolokiaError, Ring};

use mainstay_core::ring::answers::{CassandraReplies, GossipRow};
use mainstay_core::ring::ids::{Address, Location, Member, Name};
use mainstay_core::ring::observed::Keyspace;
use mainstay_core::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Puts both together, asked and heard then. Pure: what it means is decided in `mainstay_core::ring::answers`.
pub fn replies(
    by: &Member,
    when: (Time, Time),
    tables: &Tables,
    ring: Ring,
    hearts: &mut Hearts,
) -> CassandraReplies {
    let Ring {
        live,
        hosts,
        owners,
        seeds,
    } = ring;
    let gossip: Vec<GossipRow> = tables
        .gossip
        .iter()
        .map(|row| GossipRow {
            address: row.address,
            host: row.host.or_else(|| hosts.get(&row.address).copied()),
            generation: u64::try_from(row.generation).unwrap_or(0),
            still: hearts.still(by, row.address, (row.generation, row.heartbeat), when),
            status: row.status.clone(),
            location: row
                .location
                .clone()
                .or_else(|| tables.peers.get(&row.address).cloned()),
        })
        .collect();
    // A member that is known from disk only may have no row at all.
    let silent = hosts
        .iter()
        .filter(|(a, _)| !gossip.iter().any(|g| g.address == **a));
    let silent: Vec<GossipRow> = silent
        .map(|(address, host)| GossipRow {
            address: *address,
            host: Some(*host),
            generation: 0,
            still: hearts.still(by, *address, (0, -1), when),
            status: None,
            location: tables.peers.get(address).cloned(),
        })
        .collect();
    let rows = || tables.gossip.iter().filter(|row| owners.contains(&row.address));
    let (living, down): (Vec<&Gossiped>, Vec<&Gossiped>) =
        rows().partition(|row| live.contains(&row.address));
    let schemas: BTreeSet<Option<&String>> = living.iter().map(|row| row.schema.as_ref()).collect();
    // One that is known from disk only has none that anybody knows.
    let other_schema = down
        .iter()
        .filter(|row| row.schema.is_some() && !schemas.contains(&row.schema.as_ref()))
        .map(|row| row.address)
        .collect();
    CassandraReplies {
        other_schema,
        keyspaces: keyspaces(tables, &gossip, &owners),
        schema_agrees: schemas.len() <= 1,
        gossip: gossip.into_iter().chain(silent).collect(),
        live,
        owners,
        seeds,
    }
}

/// How often rows are kept, by datacenter. `SimpleStrategy` knows none: as few as there can be in one are counted.
fn keyspaces(tables: &Tables, gossip: &[GossipRow], owners: &[Address]) -> Vec<Keyspace> {
    let mut members: BTreeMap<Name, u32> = BTreeMap::new();
    for row in gossip.iter().filter(|row| owners.contains(&row.address)) {
        if let Some(Location { dc, rack: _ }) = &row.location {
            *members.entry(dc.clone()).or_default() += 1;
        }
    }
    let all: u32 = members.values().sum();
    let class = |replication: &BTreeMap<String, String>| {
        let full = replication.get("class").map_or("", String::as_str);
        full.rsplit('.').next().unwrap_or(full).to_owned()
    };
    // What cannot be read, or is a strategy that nobody here knows, is not known: then nothing may be lost.
    let kept = |replication: &BTreeMap<String, String>| -> Option<BTreeMap<Name, u32>> {
        match class(replication).as_str() {
            "SimpleStrategy" => {
                let copies = copies(replication.get("replication_factor")?)?;
                let least = |here: u32| copies.saturating_sub(all.saturating_sub(here)).min(here);
                Some(members.iter().map(|(dc, n)| (dc.clone(), least(*n))).collect())
            }
            "NetworkTopologyStrategy" => {
                let named = replication.iter().filter(|(key, _)| *key != "class");
                named
                    .map(|(dc, n)| Some((dc.parse().ok()?, copies(n)?)))
                    .collect()
            }
            _ => None,
        }
    };
    // Some are kept by each node for itself.
    let each = tables
        .keyspaces
        .iter()
        .filter(|(_, replication)| class(replication) != "LocalStrategy");
    each.map(|(name, replication)| Keyspace {
        accounts: name.as_str() == "system_auth",
        copies: kept(replication),
        name: name.clone(),
    })
    .collect()
}

/// `3`, or `3/1` where one of three is transient and holds rows only for a while.
fn copies(text: &str) -> Option<u32> {
    let (all, transient) = text.split_once('/').unwrap_or((text, "0"));
    Some(all.parse::<u32>().ok()?.saturating_sub(transient.parse().ok()?))
}

#[cfg(test)]
mod tests;
