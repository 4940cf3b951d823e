//! What is asked over HTTP and what is answered: the shapes are those of ScyllaDB's REST interface.

use super::node::{ME, Node};
use mainstay_core::ring::ids::{Address, HostId};
use serde_json::{Value, json};
use sim::ring::model::api::{Reply, Request};
use sim::ring::model::node::Endpoint;
use sim::ring::model::{Profile, Refusal};
use std::time::Duration;

/// How a request is answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// 200.
    Value(Value),
    /// Another code, with the object that ScyllaDB sends.
    Refused(u16, String),
    /// These are to be told that a node is gone; then 200.
    TellGone(HostId),
    /// A row that these are to keep; then 200 with how many did.
    TellStore {
        row: u16,
        to: Vec<Address>,
        wanted: usize,
    },
}

fn refused(code: u16, text: &str) -> Answer {
    Answer::Refused(code, text.to_owned())
}

/// Answers a call of the REST interface.
pub(super) fn rest(node: &mut Node, method: &str, path: &str, query: &[(String, String)]) -> Answer {
    *node.calls.entry(path.to_owned()).or_default() += 1;
    if node.ring.process(ME).is_none() {
        return refused(404, "Not found");
    }
    let argument = |name: &str| {
        let found = query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    };
    match method {
        "GET" => get(node, path.trim_end_matches('/'), &argument),
        "POST" => post(node, path.trim_end_matches('/'), &argument),
        _ => refused(405, "Method not allowed"),
    }
}

fn get<'a>(node: &Node, path: &str, argument: &impl Fn(&str) -> &'a str) -> Answer {
    let plain = match path {
        "/storage_service/host_id" => Some(Request::HostIds),
        "/storage_service/hostid/local" => Some(Request::LocalHostId),
        "/gossiper/endpoint/live" => Some(Request::Live),
        "/gossiper/endpoint/down" => Some(Request::Down),
        "/storage_service/nodes/joining" => Some(Request::Joining),
        "/storage_service/nodes/leaving" => Some(Request::Leaving),
        "/storage_service/operation_mode" => Some(Request::OperationMode),
        "/storage_service/native_transport" => Some(Request::NativeTransport),
        _ => None,
    };
    if let (Some(Request::OperationMode), true) = (plain, node.drained) {
        return Answer::Value(json!("DRAINED"));
    }
    if let Some(request) = plain {
        return ask(node, request);
    }
    match path {
        "/storage_service/nodes/moving" => Answer::Value(json!([])),
        "/storage_service/nodes/excluded" => Answer::Value(json!(node.ring.excluded())),
        "/storage_service/tokens" => Answer::Value(json!(tokens(node, |_| true))),
        "/storage_service/keyspaces" => Answer::Value(json!(["ks"])),
        "/storage_service/scylla_release_version" => Answer::Value(json!(version(node.config.profile))),
        "/storage_service/raft_topology/upgrade" if node.config.profile.is_raft() => {
            Answer::Value(json!("done"))
        }
        // Where rows are kept in tablets, as they are from 2025.1 on unless somebody says otherwise, each table has a ring
        // of its own.
        "/storage_service/describe_ring/ks" => match (argument("table"), node.config.profile.is_raft()) {
            ("", true) => refused(
                500,
                "std::runtime_error (The keyspace ks has tablet table. Query describe_ring with the table parameter!)",
            ),
            ("" | "rows", _) => Answer::Value(describe_ring(node)),
            (other, _) => refused(400, &format!("Can't find a column family {other} in keyspace ks")),
        },
        "/column_family" => Answer::Value(json!([
            { "ks": "system", "cf": "local", "type": "ColumnFamilies" },
            { "ks": "ks", "cf": "rows", "type": "ColumnFamilies" },
        ])),
        "/failure_detector/simple_states" => Answer::Value(simple_states(node)),
        "/failure_detector/endpoints" => Answer::Value(endpoints(node)),
        "/snitch/datacenter" | "/snitch/rack" => snitch(node, path, argument("host")),
        _ => get_one(node, path),
    }
}

/// Calls with something in their path.
fn get_one(node: &Node, path: &str) -> Answer {
    let Some((head, last)) = path.rsplit_once('/') else {
        return refused(404, "Not found");
    };
    if head == "/v2/config" {
        return config(node, last);
    }
    let Ok(address) = last.parse::<Address>() else {
        return refused(404, "Not found");
    };
    match head {
        "/gossiper/downtime" => ask(node, Request::Downtime(address)),
        "/gossiper/generation_number" => ask(node, Request::Generation(address)),
        "/storage_service/tokens" => Answer::Value(json!(tokens(node, |e| e.address == address))),
        _ => refused(404, "Not found"),
    }
}

fn ask(node: &Node, request: Request) -> Answer {
    let Some(reply) = node.ring.ask(ME, request, node.now()) else {
        return refused(404, "local host ID is not yet set");
    };
    let scale = u64::from(node.config.time_scale);
    Answer::Value(match reply {
        Reply::HostIds(all) => all.iter().map(|(a, h)| json!({ "key": a, "value": h })).collect(),
        Reply::HostId(host) => json!(host),
        Reply::Addresses(all) => json!(all),
        // In time of the clock on the wall, whatever the scale.
        Reply::Number(number) if matches!(request, Request::Downtime(_)) => json!(number / scale),
        Reply::Number(number) => json!(number),
        Reply::Word(word) => json!(word),
        Reply::Truth(truth) => json!(truth),
        Reply::Location(location) => json!(location.map(|l| l.dc)),
    })
}

fn view(node: &Node) -> impl Iterator<Item = (&HostId, &Endpoint)> {
    node.ring.process(ME).into_iter().flat_map(|p| p.view.iter())
}

fn tokens(node: &Node, which: impl Fn(&Endpoint) -> bool) -> Vec<String> {
    let owners = view(node).filter(|(_, e)| e.is_owner() && which(e));
    let mut tokens: Vec<u64> = owners.filter_map(|(_, e)| e.token).collect();
    tokens.sort_unstable();
    // A token has one owner: who takes a place has the token of the one before, who may still be known for a moment.
    tokens.dedup();
    tokens.iter().map(ToString::to_string).collect()
}

fn describe_ring(node: &Node) -> Value {
    let mut owners: Vec<(u64, &Endpoint)> = view(node)
        .filter(|(_, e)| e.is_owner())
        .filter_map(|(_, e)| Some((e.token?, e)))
        .collect();
    owners.sort_by_key(|(token, _)| *token);
    let copies = usize::try_from(node.config.copies).unwrap_or(1);
    let range = |first: usize| {
        let kept = (0..copies.min(owners.len())).filter_map(|n| owners.get((first + n) % owners.len()));
        let details = kept
            .map(|(_, e)| json!({ "host": e.address, "datacenter": e.location.dc, "rack": e.location.rack }));
        json!({
            "start_token": owners.get(first).map(|(t, _)| t.to_string()),
            "end_token": owners.get((first + 1) % owners.len()).map(|(t, _)| t.to_string()),
            "endpoint_details": details.collect::<Vec<_>>(),
        })
    };
    (0..owners.len()).map(range).collect()
}

fn simple_states(node: &Node) -> Value {
    let now = node.now();
    let word = |e: &Endpoint| if e.is_up(now) { "UP" } else { "DOWN" };
    view(node)
        .map(|(_, e)| json!({ "key": e.address, "value": word(e) }))
        .collect()
}

fn endpoints(node: &Node) -> Value {
    let now = node.now();
    view(node)
        .map(|(host, e)| {
            json!({
                "addrs": e.address, "generation": e.generation, "version": e.heartbeat,
                "update_time": e.heard, "is_alive": e.is_up(now),
                "application_state": [
                    { "application_state": 0, "value": format!("{:?}", e.status).to_uppercase(), "version": 1 },
                    { "application_state": 5, "value": host, "version": 1 },
                ],
            })
        })
        .collect()
}

/// The default location for an unknown host, never an error.
fn snitch(node: &Node, path: &str, host: &str) -> Answer {
    let address = host.parse().unwrap_or(node.config.broadcast);
    let known = node.ring.ask(ME, Request::Location(address), node.now());
    let location = match known {
        Some(Reply::Location(Some(location))) => location,
        _ => node.config.location.clone(),
    };
    Answer::Value(json!(if path.ends_with("rack") {
        location.rack
    } else {
        location.dc
    }))
}

fn config(node: &Node, name: &str) -> Answer {
    use mainstay_core::ring::record::Replaces;
    let text = match (name, node.config.replaces) {
        ("replace_node_first_boot", Some(Replaces::Host(host))) => host.to_string(),
        ("replace_address_first_boot", Some(Replaces::Address(address))) => address.to_string(),
        ("replace_node_first_boot" | "replace_address_first_boot", _) => String::new(),
        _ => return refused(404, "No such config entry"),
    };
    Answer::Value(json!(text))
}

fn version(profile: Profile) -> &'static str {
    match profile {
        Profile::Gossip4 => "4.6.11",
        Profile::Gossip52 => "5.4.1",
        Profile::Raft2025 => "2025.2.0",
        Profile::Raft2026 => "2026.2.0",
        Profile::Cassandra5 => "5.0.2",
    }
}

fn post<'a>(node: &mut Node, path: &str, argument: &impl Fn(&str) -> &'a str) -> Answer {
    match path {
        "/storage_service/drain" => {
            node.drained = true;
            Answer::Value(Value::Null)
        }
        "/storage_service/decommission" => {
            let (now, stream) = (node.now(), node.config.stream);
            if node.ring.decommission(ME, now, stream) {
                Answer::Value(json!(""))
            } else {
                refused(500, &format!("std::runtime_error ({})", Refusal::RequiredDead))
            }
        }
        "/storage_service/remove_node" => match argument("host_id").parse::<HostId>() {
            Ok(host) if node.ring.remove_node(host) => {
                node.gone(host);
                Answer::TellGone(host)
            }
            Ok(host) => refused(
                500,
                &format!("removenode[{host}]: rejected, the node is alive or another is down"),
            ),
            Err(error) => refused(400, &error.to_string()),
        },
        // One at a time here. The others hear of it by gossip.
        "/storage_service/exclude_node" => match argument("hosts").parse::<HostId>() {
            Ok(host) if node.ring.exclude_node(ME, host) => Answer::Value(Value::Null),
            Ok(host) => refused(
                500,
                &format!("{host} is alive or no member, a majority is away, or this version cannot exclude"),
            ),
            Err(error) => refused(400, &error.to_string()),
        },
        _ => refused(404, "Not found"),
    }
}

/// Answers the admin port: `POST /fault/NAME?on=true`, `POST /write?row=N`, `GET /rows`, `GET /calls`.
pub(super) fn admin(node: &mut Node, method: &str, path: &str, query: &[(String, String)]) -> Answer {
    let argument = |name: &str| {
        let found = query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    };
    match (method, path) {
        ("POST", "/write") => match argument("row").and_then(|row| row.parse().ok()) {
            Some(row) => write(node, row),
            None => refused(400, "a row is needed"),
        },
        ("GET", "/calls") => Answer::Value(json!(node.calls)),
        ("GET", "/rows") => {
            let rows = node.ring.places.first().map(|p| p.disk.rows.clone());
            Answer::Value(json!(rows.unwrap_or_default()))
        }
        ("POST", _) => {
            let on = argument("on") != Some("false");
            let name = path.strip_prefix("/fault/").unwrap_or_default();
            if node.faults.order(name, on) {
                Answer::Value(json!(on))
            } else {
                refused(404, "no such fault")
            }
        }
        _ => refused(404, "Not found"),
    }
}

/// At QUORUM: who is away gets it later.
fn write(node: &mut Node, row: u16) -> Answer {
    if node.drained {
        return refused(503, "the node is drained");
    }
    let replicas = node.ring.replicas(row);
    let alive: Vec<HostId> = replicas
        .iter()
        .copied()
        .filter(|host| node.ring.alive(*host).is_some())
        .collect();
    let wanted = replicas.len() / 2 + 1;
    if alive.len() < wanted {
        return refused(503, "Cannot achieve consistency level for cl QUORUM");
    }
    let away = replicas.iter().filter(|host| !alive.contains(host));
    node.ring.hints.extend(away.map(|host| (*host, row)));
    let to = alive
        .iter()
        .filter_map(|host| Some(node.ring.truth.get(host)?.address));
    Answer::TellStore {
        row,
        to: to.collect(),
        wanted,
    }
}

/// How long a call that is frozen is kept waiting.
pub(super) const FROZEN: Duration = Duration::from_hours(1);
