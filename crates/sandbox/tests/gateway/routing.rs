//! ROUTE, which makes `neo4j://` work.

use crate::bed::{Bed, Database, count, no_main, serving, write};
use crate::reads_bed::{POLICY, World};
use bolt::message::{Fetch, Request, Route, RouteTarget, Run};
use bolt::packstream::{OwnedDict, Value, dict};
use sandbox::standin::memgraph::client::{Client, Message};
use std::time::Duration;

fn question(address: Option<&'static str>, database: Option<&'static str>) -> Request<'static> {
    Request::Route(Route {
        context: address.map_or_else(bolt::packstream::Dict::new, |address| {
            dict([("address", Value::from(address))])
        }),
        bookmarks: vec!["bookmark".into()],
        target: RouteTarget::Extra(bolt::message::Extra(
            database.map_or_else(bolt::packstream::Dict::new, |name| {
                dict([("db", Value::from(name))])
            }),
        )),
    })
}

async fn ask(client: &mut Client, request: &Request<'_>) -> OwnedDict {
    match client.ask(request).await.unwrap() {
        Message::Success(metadata) => metadata,
        other => panic!("{other:?}"),
    }
}

/// The addresses of a role.
fn addresses(table: &OwnedDict, role: &str) -> Vec<String> {
    let Some(Value::Dict(table)) = table.get("rt") else {
        panic!("{table:?}")
    };
    let Some(Value::List(servers)) = table.get("servers") else {
        panic!("{table:?}")
    };
    let found = servers.iter().find_map(|server| match server {
        Value::Dict(server) if server.get("role").and_then(Value::as_str) == Some(role) => {
            server.get("addresses")
        }
        _ => None,
    });
    match found {
        Some(Value::List(all)) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        other => panic!("{role}: {other:?}"),
    }
}

#[tokio::test]
async fn a_client_is_sent_to_where_it_came_in() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    let table = ask(
        &mut client,
        &question(Some("memgraph.example:7687"), Some("memgraph")),
    )
    .await;
    for role in ["WRITE", "READ", "ROUTE"] {
        assert_eq!(addresses(&table, role), ["memgraph.example:7687"]);
    }
    let Some(Value::Dict(inner)) = table.get("rt") else {
        panic!()
    };
    assert_eq!(inner.get("db").and_then(Value::as_str), Some("memgraph"));
    assert_eq!(inner.get("ttl").and_then(Value::as_int), Some(30));
    let usual = ask(&mut client, &question(Some("memgraph.example"), None)).await;
    assert_eq!(addresses(&usual, "WRITE"), ["memgraph.example:7687"]);
    write(&mut client).await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_say_where_it_came_in_is_sent_to_this_gateway_and_not_to_its_port_for_the_operator()
 {
    let main = Database::main(Some(4)).await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = free.local_addr().unwrap();
    drop(free);
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.listen = listen;
        config.advertise = Some("10.0.0.9:7688".to_owned());
    })
    .await;
    let mut client = bed.client().await.unwrap();
    let table = ask(&mut client, &question(None, None)).await;
    for role in ["WRITE", "READ", "ROUTE"] {
        assert_eq!(addresses(&table, role), [format!("10.0.0.9:{}", listen.port())]);
    }
}

/// As a server does: after a failure everything is ignored until RESET, also what was sent with it.
#[tokio::test]
async fn a_route_that_cannot_be_read_fails_and_what_follows_is_ignored_until_reset() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    write(&mut client).await.unwrap();
    // ROUTE with no fields where there are three.
    client.send_bytes(&[0, 2, 0xb0, 0x66, 0, 0]).await.unwrap();
    client.send(&Request::Run(Run::new("CREATE (:P)"))).await.unwrap();
    assert!(matches!(client.receive().await.unwrap(), Message::Failure(_)));
    assert!(matches!(client.receive().await.unwrap(), Message::Ignored));
    client.reset().await.unwrap();
    assert_eq!(count(&mut client).await, 1);
}

#[tokio::test]
async fn the_read_gateway_is_named_where_there_is_one() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.routing.writer = Some("writes:7687".to_owned());
        config.routing.reader = Some("reads:7687".to_owned());
        config.routing.ttl = Duration::from_secs(5);
    })
    .await;
    let mut client = bed.client().await.unwrap();
    let table = ask(&mut client, &question(Some("elsewhere:1"), None)).await;
    assert_eq!(addresses(&table, "WRITE"), ["writes:7687"]);
    assert_eq!(addresses(&table, "READ"), ["reads:7687"]);
    assert_eq!(addresses(&table, "ROUTE"), ["writes:7687"]);
}

#[tokio::test]
async fn the_answer_keeps_its_place_among_those_of_the_database_and_a_failure_ignores_it() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    for request in [
        Request::Run(Run::new("CREATE (:P)")),
        Request::Pull(Fetch::ALL),
        question(Some("a:1"), None),
        Request::Run(Run::new("this is no statement")),
        question(Some("a:1"), None),
    ] {
        client.send(&request).await.unwrap();
    }
    for _ in 0..2 {
        assert!(matches!(client.receive().await.unwrap(), Message::Success(_)));
    }
    match client.receive().await.unwrap() {
        Message::Success(table) => assert_eq!(addresses(&table, "WRITE"), ["a:1"]),
        other => panic!("{other:?}"),
    }
    assert!(matches!(client.receive().await.unwrap(), Message::Failure(_)));
    assert!(matches!(client.receive().await.unwrap(), Message::Ignored));
    client.reset().await.unwrap();
    write(&mut client).await.unwrap();
}

#[tokio::test]
async fn a_session_without_a_database_is_told_its_routes_too() {
    let main = Database::main(Some(4)).await;
    let first = serving(4, 0);
    let mut bed = Bed::start(Some(first.clone()), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    bed.records.send_replace(Some(no_main(&first, 1)));
    bed.confirmed(5).await;
    let table = ask(&mut client, &question(Some("a:1"), None)).await;
    assert_eq!(addresses(&table, "WRITE"), ["a:1"]);
}

#[tokio::test]
async fn reads_are_sent_to_the_port_for_reads_of_the_same_host() {
    let world = World::start(&["ASYNC"], POLICY).await;
    let mut writer = world.bed.client().await.unwrap();
    let table = ask(&mut writer, &question(Some("memgraph.example:7687"), None)).await;
    for role in ["WRITE", "ROUTE"] {
        assert_eq!(addresses(&table, role), ["memgraph.example:7687"]);
    }
    let port = world.reads().port();
    assert_eq!(addresses(&table, "READ"), [format!("memgraph.example:{port}")]);
    let six = ask(&mut writer, &question(Some("[::1]"), None)).await;
    assert_eq!(addresses(&six, "READ"), [format!("[::1]:{port}")]);
    // Who came in there stays there; where writes go is not known from there.
    let mut reader = world.reader().await.unwrap();
    let table = ask(&mut reader, &question(Some("reads.example:7687"), None)).await;
    for role in ["READ", "ROUTE"] {
        assert_eq!(addresses(&table, role), ["reads.example:7687"]);
    }
    assert!(addresses(&table, "WRITE").is_empty());
}

#[tokio::test]
async fn what_is_written_down_goes_before_the_port_for_reads() {
    let world = World::with(&["ASYNC"], POLICY, |config| {
        config.routing.writer = Some("writes:7687".to_owned());
        config.routing.reader = Some("reads:7687".to_owned());
    })
    .await;
    for mut client in [world.bed.client().await.unwrap(), world.reader().await.unwrap()] {
        let table = ask(&mut client, &question(Some("elsewhere:1"), None)).await;
        assert_eq!(addresses(&table, "WRITE"), ["writes:7687"]);
        assert_eq!(addresses(&table, "READ"), ["reads:7687"]);
    }
}
