//! How what one node of a database says becomes an [`Answer`]. The shell asks and hands over what came back; what it
//! means is decided here, so that the stand-in, the simulation and the operator read it alike.
//!
//! All replies of one answer must come from one node. Lists of two nodes, mixed, describe a ring that never was.

use super::ids::{Address, HostId, Location, Member};
use super::observed::{Answer, Keyspace, Liveness, NodeState, Seen};
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// What one ScyllaDB node replied to the REST calls in the comments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScyllaReplies {
    /// `/storage_service/host_id`. Since 2025.1 also nodes that are only joining; two may share an address.
    pub host_id: Vec<(Address, HostId)>,
    /// `/gossiper/endpoint/live/`.
    pub live: Vec<Address>,
    /// `/gossiper/downtime/{addr}` in microseconds, for those that are not live.
    pub downtime: BTreeMap<Address, u64>,
    /// `/gossiper/generation_number/{addr}`.
    pub generation: BTreeMap<Address, u64>,
    /// `/storage_service/nodes/joining`.
    pub joining: Vec<Address>,
    /// `/storage_service/nodes/leaving`.
    pub leaving: Vec<Address>,
    /// Addresses for which `/storage_service/tokens/{addr}` is not empty.
    pub owners: Vec<Address>,
    /// `/storage_service/nodes/excluded`, from 2026.1 on.
    pub excluded: Vec<HostId>,
    /// `/snitch/datacenter` and `/snitch/rack`.
    pub locations: BTreeMap<Address, Location>,
    /// The keyspaces that are kept per datacenter.
    pub keyspaces: Vec<Keyspace>,
}

/// What a ScyllaDB node said.
pub fn scylla(by: Member, at: Time, replies: &ScyllaReplies) -> Answer {
    let nodes = replies
        .host_id
        .iter()
        .map(|(address, host)| scylla_node(replies, *address, *host));
    // Up to 6.0 `host_id` lists members only: one that joins is an address without a host id.
    let listed = |address: &Address| replies.host_id.iter().any(|(a, _)| a == address);
    let joining = replies.joining.iter().filter(|a| !listed(a));
    let unnamed = joining.map(|a| scylla_node(replies, *a, HostId(0)));
    Answer {
        by,
        at,
        nodes: nodes.chain(unnamed).collect(),
        seeds: None,
        keyspaces: replies.keyspaces.clone(),
        // ScyllaDB agrees on its schema before a node may join.
        schema_agrees: true,
        other_schema: Vec::new(),
    }
}

fn scylla_node(replies: &ScyllaReplies, address: Address, host: HostId) -> Seen {
    let sharing = replies.host_id.iter().filter(|(a, _)| *a == address).count();
    let liveness = if sharing > 1 {
        // The lists are by address, and a dead node looks alive while its successor joins there.
        Liveness::Unclear
    } else if replies.live.contains(&address) {
        Liveness::Up
    } else {
        let micros = replies.downtime.get(&address).copied().unwrap_or(0);
        Liveness::Down(Duration::from_micros(micros))
    };
    let owner = replies.owners.contains(&address);
    let state = if replies.joining.contains(&address) || sharing > 1 || !owner {
        NodeState::Joining
    } else if replies.leaving.contains(&address) {
        NodeState::Leaving
    } else {
        NodeState::Normal
    };
    Seen {
        host,
        address,
        liveness,
        state,
        owner,
        excluded: replies.excluded.contains(&host),
        location: replies.locations.get(&address).cloned(),
        generation: replies.generation.get(&address).copied().unwrap_or(0),
    }
}

/// A row of `system_views.gossip_info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipRow {
    /// `address`.
    pub address: Address,
    /// `host_id`, or the one from `EndpointToHostId`; neither while a node only begins to join.
    pub host: Option<HostId>,
    /// `generation`.
    pub generation: u64,
    /// For how long neither generation nor heartbeat have risen, as far as we have looked.
    pub still: Duration,
    /// `status_with_port`: `NORMAL,<token>`, `hibernate,true`, and so on.
    pub status: Option<String>,
    /// `dc` and `rack`.
    pub location: Option<Location>,
}

/// What one Cassandra node replied, by CQL and Jolokia.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CassandraReplies {
    /// `system_views.gossip_info`.
    pub gossip: Vec<GossipRow>,
    /// `LiveNodes`.
    pub live: Vec<Address>,
    /// The addresses in `TokenToEndpointMap`: the true ring.
    pub owners: Vec<Address>,
    /// The answer of `reloadSeeds`, or what was last configured.
    pub seeds: Vec<Address>,
    /// All owners that live have one schema.
    pub schema_agrees: bool,
    /// Owners that are down, and had another one when they were last heard.
    pub other_schema: Vec<Address>,
    /// `system_schema.keyspaces`.
    pub keyspaces: Vec<Keyspace>,
}

/// A heartbeat rises every second. One that stood still for less than this is no proof of death.
const HEARTBEAT: Duration = Duration::from_secs(25);

/// What a Cassandra node said.
pub fn cassandra(by: Member, at: Time, replies: &CassandraReplies) -> Answer {
    Answer {
        by,
        at,
        nodes: replies
            .gossip
            .iter()
            .map(|row| cassandra_node(replies, row))
            .collect(),
        seeds: Some(replies.seeds.clone()),
        keyspaces: replies.keyspaces.clone(),
        schema_agrees: replies.schema_agrees,
        other_schema: replies
            .gossip
            .iter()
            .filter(|row| replies.other_schema.contains(&row.address))
            .filter_map(|row| row.host)
            .collect(),
    }
}

fn cassandra_node(replies: &CassandraReplies, row: &GossipRow) -> Seen {
    // A node that replaces at its own address is called unreachable while its heart beats.
    let alive = replies.live.contains(&row.address) || row.still < HEARTBEAT;
    let owner = replies.owners.contains(&row.address);
    Seen {
        host: row.host.unwrap_or(HostId(0)),
        address: row.address,
        liveness: if alive {
            Liveness::Up
        } else {
            Liveness::Down(row.still)
        },
        state: status(row.status.as_deref(), owner),
        owner,
        excluded: false,
        location: row.location.clone(),
        generation: row.generation,
    }
}

fn status(text: Option<&str>, owner: bool) -> NodeState {
    let word = text.and_then(|t| t.split(',').next()).unwrap_or("");
    match word {
        "NORMAL" => NodeState::Normal,
        "shutdown" if owner => NodeState::Normal,
        "hibernate" | "BOOT_REPLACE" => NodeState::Replacing,
        "BOOT" => NodeState::Joining,
        "LEAVING" => NodeState::Leaving,
        "MOVING" => NodeState::Moving,
        "LEFT" | "removed" | "removing" => NodeState::Left,
        _ => NodeState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u8) -> Address {
        format!("10.0.0.{n}").parse().unwrap()
    }

    #[test]
    fn d4_listed_is_not_a_member_and_two_at_one_address_are_told_apart_by_nobody() {
        let replies = ScyllaReplies {
            host_id: vec![
                (ip(1), HostId(1)),
                (ip(2), HostId(2)),
                (ip(3), HostId(3)),
                (ip(3), HostId(4)),
                (ip(5), HostId(5)),
            ],
            live: vec![ip(1), ip(2), ip(3)],
            owners: vec![ip(1), ip(3), ip(5)],
            downtime: BTreeMap::from([(ip(5), 61_000_000)]),
            ..ScyllaReplies::default()
        };
        let answer = scylla("m-1".parse().unwrap(), Time(5), &replies);
        let find = |n: u128| {
            let node = answer.node(HostId(n)).unwrap();
            (node.state, node.liveness, node.is_busy())
        };
        assert_eq!(find(1), (NodeState::Normal, Liveness::Up, false));
        assert_eq!(find(2), (NodeState::Joining, Liveness::Up, true), "owns nothing");
        assert_eq!(find(3).1, Liveness::Unclear);
        assert_eq!(find(4).1, Liveness::Unclear);
        let down = Liveness::Down(Duration::from_secs(61));
        assert_eq!(find(5), (NodeState::Normal, down, false));
    }

    #[test]
    fn d13_a_node_in_hibernate_is_replacing_and_alive_while_its_heart_beats() {
        let row = |n: u8, status: Option<&str>, still| GossipRow {
            address: ip(n),
            host: Some(HostId(u128::from(n))),
            generation: 1,
            still: Duration::from_secs(still),
            status: status.map(str::to_owned),
            location: None,
        };
        let replies = CassandraReplies {
            gossip: vec![
                row(1, Some("NORMAL,-5"), 0),
                row(2, Some("hibernate,true"), 1),
                row(3, Some("hibernate,true"), 90),
                row(4, None, 90),
                row(5, Some("LEFT,1"), 90),
                row(6, Some("shutdown,true"), 90),
                row(7, None, 0),
            ],
            live: vec![ip(1)],
            owners: vec![ip(1), ip(2), ip(3), ip(4), ip(6)],
            ..CassandraReplies::default()
        };
        let answer = cassandra("m-1".parse().unwrap(), Time(5), &replies);
        let states: Vec<_> = answer
            .nodes
            .iter()
            .map(|n| (n.state, n.liveness == Liveness::Up, n.is_busy()))
            .collect();
        assert_eq!(
            states,
            [
                (NodeState::Normal, true, false),
                (NodeState::Replacing, true, true),
                (NodeState::Replacing, false, true),
                (NodeState::Unknown, false, false), // known from disk only, after a cold start of all
                (NodeState::Left, false, false),
                (NodeState::Normal, false, false),
                (NodeState::Unknown, true, true), // begins to join, and says nothing yet
            ]
        );
    }
}
