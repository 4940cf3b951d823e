use super::*;
use mainstay_core::ring::answers;
use mainstay_core::ring::ids::HostId;
use mainstay_core::ring::observed::{Liveness, NodeState};
use std::time::Duration;

fn ip(n: u8) -> Address {
    format!("10.0.0.{n}").parse().unwrap()
}

fn place(rack: &str) -> Location {
    Location {
        dc: "dc1".parse().unwrap(),
        rack: rack.parse().unwrap(),
    }
}

fn row(n: u8, heartbeat: i32, status: Option<&str>) -> Gossiped {
    Gossiped {
        address: ip(n),
        generation: if status.is_some() { 5 } else { 0 },
        heartbeat,
        status: status.map(str::to_owned),
        host: status.map(|_| HostId(u128::from(n))),
        location: status.map(|_| place("a")),
        schema: status.map(|_| "one".to_owned()),
    }
}

fn simple(name: &str, class: &str, copies: &[(&str, &str)]) -> (Name, BTreeMap<String, String>) {
    let mut replication: BTreeMap<String, String> = copies
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    replication.insert(
        "class".to_owned(),
        format!("org.apache.cassandra.locator.{class}"),
    );
    (name.parse().unwrap(), replication)
}

/// Two of three live; the third was killed, and all but its heart says that it is well.
fn seen(heartbeat: i32) -> (Tables, Ring) {
    let tables = Tables {
        gossip: vec![
            row(1, heartbeat, Some("NORMAL,-5")),
            row(2, heartbeat, Some("NORMAL,7")),
            row(3, 40, Some("NORMAL,9")),
        ],
        peers: BTreeMap::new(),
        keyspaces: vec![
            simple("system", "LocalStrategy", &[]),
            simple("system_auth", "SimpleStrategy", &[("replication_factor", "1")]),
            simple("app", "NetworkTopologyStrategy", &[("dc1", "3")]),
            simple("thin", "SimpleStrategy", &[("replication_factor", "2")]),
            simple("partly", "NetworkTopologyStrategy", &[("dc1", "3/1")]),
            simple("odd", "EverywhereAndNowhere", &[]),
            simple("unread", "NetworkTopologyStrategy", &[("dc1", "many")]),
            simple("half", "SimpleStrategy", &[]),
            ("nothing".parse().unwrap(), BTreeMap::new()),
        ],
    };
    let ring = Ring {
        live: vec![ip(1), ip(2)],
        hosts: [1, 2, 3].map(|n| (ip(n), HostId(u128::from(n)))).into(),
        owners: vec![ip(1), ip(2), ip(3)],
        seeds: vec![ip(2), ip(3)],
    };
    (tables, ring)
}

#[test]
fn a_killed_node_is_down_only_when_its_heart_was_seen_to_stand_still() {
    let mut hearts = Hearts::default();
    let by: Member = "m-0".parse().unwrap();
    let at = |seconds: u64| Time(1_000_000_000_000) + Duration::from_secs(seconds);
    let look = |hearts: &mut Hearts, seconds: u64| {
        let (tables, ring) = seen(i32::try_from(100 + seconds).unwrap());
        let replies = replies(&by, (at(seconds), at(seconds)), &tables, ring, hearts);
        answers::cassandra(by.clone(), at(seconds), &replies)
    };
    let liveness = |answer: &mainstay_core::ring::observed::Answer| answer.node(HostId(3)).unwrap().liveness;
    assert_eq!(
        liveness(&look(&mut hearts, 0)),
        Liveness::Up,
        "one look proves nothing"
    );
    assert_eq!(liveness(&look(&mut hearts, 20)), Liveness::Up);
    let later = look(&mut hearts, 60);
    assert_eq!(liveness(&later), Liveness::Down(Duration::from_mins(1)));
    assert_eq!(later.node(HostId(1)).unwrap().liveness, Liveness::Up);
    assert_eq!(later.seeds, Some(vec![ip(2), ip(3)]));
    assert!(later.schema_agrees);
}

#[test]
fn copies_are_counted_as_cassandra_keeps_them() {
    let (tables, ring) = seen(1);
    let replies = replies(
        &"m-0".parse().unwrap(),
        (Time(0), Time(0)),
        &tables,
        ring,
        &mut Hearts::default(),
    );
    let dc: Name = "dc1".parse().unwrap();
    let counted: Vec<(String, bool, Option<u32>)> = replies
        .keyspaces
        .iter()
        .map(|k| {
            let copies = k.copies.as_ref().and_then(|c| c.get(&dc).copied());
            (k.name.to_string(), k.accounts, copies)
        })
        .collect();
    let line = |name: &str, accounts: bool, copies: u32| (name.to_owned(), accounts, Some(copies));
    let unknown = |name: &str| (name.to_owned(), false, None);
    assert_eq!(
        counted,
        [
            line("system_auth", true, 1),
            line("app", false, 3),
            line("thin", false, 2),
            line("partly", false, 2),
            unknown("odd"),
            unknown("unread"),
            unknown("half"),
            unknown("nothing"),
        ]
    );
}

#[test]
fn where_there_are_two_datacenters_simple_copies_may_all_be_in_the_other_one() {
    let (mut tables, ring) = seen(1);
    for row in tables.gossip.iter_mut().skip(1) {
        row.location = Some(Location {
            dc: "dc2".parse().unwrap(),
            rack: "a".parse().unwrap(),
        });
    }
    let replies = replies(
        &"m-0".parse().unwrap(),
        (Time(0), Time(0)),
        &tables,
        ring,
        &mut Hearts::default(),
    );
    let thin = replies
        .keyspaces
        .iter()
        .find(|k| k.name.as_str() == "thin")
        .unwrap();
    let copies = thin.copies.as_ref().unwrap();
    assert_eq!(copies.get(&"dc1".parse().unwrap()), Some(&0));
    assert_eq!(copies.get(&"dc2".parse().unwrap()), Some(&1));
}

#[test]
fn after_a_cold_start_a_dead_member_is_known_from_disk() {
    let (mut tables, ring) = seen(1);
    tables.gossip[2] = row(3, -1, None);
    tables.peers.insert(ip(3), place("c"));
    let by: Member = "m-0".parse().unwrap();
    let replies = replies(&by, (Time(0), Time(0)), &tables, ring, &mut Hearts::default());
    let answer = answers::cassandra(by, Time(0), &replies);
    let dead = answer.node(HostId(3)).unwrap();
    assert_eq!((dead.state, dead.owner), (NodeState::Unknown, true));
    assert_eq!(dead.location, Some(place("c")));
    assert!(!dead.is_busy());
}

#[test]
fn k_the_living_have_to_agree_on_the_schema_and_who_is_down_with_another_one_is_named() {
    let agrees = |change: &dyn Fn(&mut Tables)| {
        let (mut tables, ring) = seen(1);
        change(&mut tables);
        let by: Member = "m-0".parse().unwrap();
        let replies = replies(&by, (Time(0), Time(0)), &tables, ring, &mut Hearts::default());
        let answer = answers::cassandra(by, Time(0), &replies);
        (answer.schema_agrees, answer.other_schema)
    };
    assert_eq!(agrees(&|_| {}), (true, Vec::new()));
    let old = || Some("old".to_owned());
    assert_eq!(agrees(&|t| t.gossip[2].schema = old()), (true, vec![HostId(3)]));
    assert_eq!(
        agrees(&|t| t.gossip[2].schema = None),
        (true, Vec::new()),
        "known from disk only"
    );
    assert!(!agrees(&|t| t.gossip[1].schema = old()).0);
}
