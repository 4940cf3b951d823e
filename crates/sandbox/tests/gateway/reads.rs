//! The port for reads: who takes them (R29), for whom (R22), and what it costs.

use crate::bed::{Bed, PATIENCE, count, login_failure, metric, no_main, serving, taken, until, write};
use crate::reads_bed::{FROM_MAIN, POLICY, World, failure, reads, run};
use bolt::message::{Auth, FailureClass, Request};
use gateway::Credentials;
use mainstay_core::memgraph::read_gate;
use sandbox::standin::memgraph::client::{Client, ClientError, Outcome};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::time::timeout;

const ALL: [&str; 3] = ["STRICT_SYNC", "ASYNC", "ASYNC"];

#[tokio::test]
async fn g9_sessions_are_balanced_over_async_replicas_and_neither_sync_nor_main_gets_one() {
    let world = World::start(&ALL, POLICY).await;
    let (mut clients, mut pods) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        let mut client = world.reader().await.unwrap();
        pods.push(world.pod_of(&mut client).await);
        clients.push(client);
    }
    pods.sort_unstable();
    assert_eq!(pods, [2, 2, 2, 3, 3, 3]);
    let name = "sessions{listener=\"read\"}";
    assert_eq!(metric(&world.bed.gateway, name).await.to_string(), "6");
}

#[tokio::test]
async fn the_sync_replica_takes_reads_only_if_it_is_told_to() {
    let policy = read_gate::Reads {
        from_sync: true,
        ..POLICY
    };
    let world = World::start(&["STRICT_SYNC", "ASYNC"], policy).await;
    let (mut one, mut two) = (world.reader().await.unwrap(), world.reader().await.unwrap());
    let mut pods = [world.pod_of(&mut one).await, world.pod_of(&mut two).await];
    pods.sort_unstable();
    assert_eq!(pods, [1, 2]);
}

/// What MAIN says to an index while two readers are in the middle of a transaction.
async fn index_beside_readers(policy: read_gate::Reads) -> Result<(), String> {
    let world = World::start(&["STRICT_SYNC", "ASYNC"], policy).await;
    let mut readers = [world.reader().await.unwrap(), world.reader().await.unwrap()];
    for reader in &mut readers {
        reader.begin().await.unwrap();
        count(reader).await;
    }
    let mut client = world.bed.client().await.unwrap();
    let outcome = client.query("CREATE INDEX ON :P(id)").await.unwrap();
    for reader in &mut readers {
        reader.commit().await.unwrap();
    }
    match outcome {
        Outcome::Done(_) => Ok(()),
        Outcome::Refused { failure, .. } => Err(failure.message.into_owned()),
    }
}

/// Trace of R29: somebody reads from the protected replica for a while, and somebody else changes the schema. MAIN does
/// nothing else until it gives up, after thirty seconds with a real one.
#[tokio::test]
async fn r29_an_open_read_stops_an_index_only_if_the_protected_replica_takes_reads() {
    index_beside_readers(POLICY).await.unwrap();
    let without_the_rule = read_gate::Reads {
        from_sync: true,
        ..POLICY
    };
    let told = index_beside_readers(without_the_rule).await.unwrap_err();
    assert!(told.contains("RPC timeout while replicating"), "{told}");
}

#[tokio::test]
async fn without_a_replica_that_may_a_client_is_held_and_told_why() {
    let world = World::with(&["STRICT_SYNC"], POLICY, |config| {
        config.timeouts.hold = Duration::from_millis(400);
    })
    .await;
    let began = Instant::now();
    let told = login_failure(world.reader().await);
    assert!(began.elapsed() >= Duration::from_millis(400));
    assert_eq!(told.class(), FailureClass::Transient, "{told}");
    assert!(told.message.contains("the SYNC replica takes no reads"), "{told}");
    assert_eq!(metric(&world.bed.gateway, "sessions").await.to_string(), "0");
}

#[tokio::test]
async fn g9_main_takes_reads_only_if_it_is_told_to_and_only_as_long_as_no_replica_may() {
    let world = World::start(&["STRICT_SYNC", "ASYNC"], FROM_MAIN).await;
    let register = world.registration(2).await;
    run(&mut world.pods[0].client().await, "DROP REPLICA memgraph_ha_2").await;
    let (mut idle, mut busy) = (world.reader().await.unwrap(), world.reader().await.unwrap());
    assert_eq!(world.pod_of(&mut idle).await, 0);
    busy.begin().await.unwrap();
    assert_eq!(world.pod_of(&mut busy).await, 0);
    // A replica comes: sessions leave MAIN, and a transaction may end there.
    run(&mut world.pods[0].client().await, &register).await;
    until("it left MAIN", async || world.pod_of(&mut idle).await == 2).await;
    assert_eq!(world.pod_of(&mut busy).await, 0);
    busy.commit().await.unwrap();
    until("it left MAIN", async || world.pod_of(&mut busy).await == 2).await;
}

/// Nothing known yet is not the same as no replica that may: after a start, and in each new term.
#[tokio::test]
async fn g9_main_takes_no_reads_before_it_was_asked_for_its_replicas() {
    let folder = std::env::temp_dir();
    let file = |name: &str| folder.join(format!("mainstay-reads-late-{name}-{}", std::process::id()));
    let (username, password) = (file("username"), file("password"));
    std::fs::write(&password, "secret").unwrap();
    // What the gateway logs in with is not there before the test says so, and MAIN is not asked before.
    let late = || {
        let made = std::process::Command::new("mkfifo").arg(&username).status();
        assert!(made.unwrap().success());
    };
    late();
    let mut world = World::with(&["STRICT_SYNC", "ASYNC"], FROM_MAIN, |config| {
        config.reads.as_mut().unwrap().credentials = Credentials::Files {
            username: username.clone(),
            password,
        };
    })
    .await;
    let asked = async |world: &World| {
        // Many times as long as MAIN takes to let somebody in.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let waiting = metric(&world.bed.gateway, "waiting").await;
        tokio::fs::write(&username, "admin").await.unwrap();
        // Before this can fail: nobody is to wait for it when the test ends.
        std::fs::remove_file(&username).unwrap();
        assert_eq!(waiting.to_string(), "1");
    };
    let (client, ()) = tokio::join!(world.reader(), asked(&world));
    let mut client = client.unwrap();
    assert_eq!(world.pod_of(&mut client).await, 2);
    late();
    let lost = no_main(&serving(4, 0), 0);
    world.tell(&lost);
    world.bed.confirmed(5).await;
    world.pods[0].mark(5).await;
    world.tell(&taken(&lost, 0));
    let (pod, ()) = tokio::join!(world.pod_of(&mut client), asked(&world));
    assert_eq!(pod, 2);
}

#[tokio::test]
async fn main_takes_reads_if_it_is_told_to_also_where_it_cannot_be_asked_for_its_replicas() {
    let nowhere = std::env::temp_dir().join("mainstay-reads-nowhere");
    let world = World::with(&["ASYNC"], FROM_MAIN, |config| {
        config.reads.as_mut().unwrap().credentials = Credentials::Files {
            username: nowhere.clone(),
            password: nowhere,
        };
    })
    .await;
    let mut client = world.reader().await.unwrap();
    assert_eq!(world.pod_of(&mut client).await, 0);
}

#[tokio::test]
async fn a_read_client_that_is_with_main_does_not_write() {
    let world = World::start(&["STRICT_SYNC"], FROM_MAIN).await;
    let mut client = world.reader().await.unwrap();
    assert_eq!(world.pod_of(&mut client).await, 0);
    for in_words in [false, true] {
        if in_words {
            client.begin().await.unwrap();
        }
        let told = write(&mut client).await.unwrap_err();
        assert_eq!(told.class(), FailureClass::Client, "{told}");
        assert!(told.message.contains("port for writes"), "{told}");
        assert_eq!(count(&mut client).await, 0);
    }
    let long = format!("UNWIND range(1, 1) AS x {} CREATE (:P)", " ".repeat(20_000));
    assert!(client.query(&long).await.unwrap().failure().is_some());
    assert_eq!(count(&mut client).await, 0);
    assert_eq!(world.pods[0].count().await, 0);
    // Through the other port it may.
    write(&mut world.bed.client().await.unwrap()).await.unwrap();
    assert_eq!(count(&mut client).await, 1);
}

#[tokio::test]
async fn a_wrong_password_is_refused_although_the_replica_would_take_it() {
    let folder = std::env::temp_dir();
    let file = |name: &str| folder.join(format!("mainstay-reads-{name}-{}", std::process::id()));
    std::fs::write(file("username"), "admin").unwrap();
    std::fs::write(file("password"), "secret").unwrap();
    let world = World::with(&["ASYNC", "ASYNC"], POLICY, |config| {
        config.reads.as_mut().unwrap().credentials = Credentials::Files {
            username: file("username"),
            password: file("password"),
        };
    })
    .await;
    let create = "CREATE USER admin IDENTIFIED BY 'secret'";
    run(&mut world.pods[0].client().await, create).await;
    // The replica takes everybody.
    let stranger = Auth::basic("admin", "guessed");
    for pod in [1, 2] {
        let address = world.pods[pod].server.bolt();
        Client::connect(address, stranger.clone()).await.unwrap();
    }
    for wrong in [stranger, Auth::None, Auth::basic("nobody", "secret")] {
        let told = login_failure(world.reader_as(wrong).await);
        assert_eq!(told.message, "Authentication failure");
    }
    let mut client = world.reader_as(Auth::basic("admin", "secret")).await.unwrap();
    assert_eq!(count(&mut client).await, 0);
    // The gateway itself logs in with what the files say.
    assert_eq!(
        metric(&world.bed.gateway, "refused_total{kind=\"login\"}")
            .await
            .to_string(),
        "3"
    );
}

#[tokio::test]
async fn a_session_that_wants_to_be_somebody_else_has_to_come_anew() {
    let world = World::start(&["ASYNC"], POLICY).await;
    for request in [Request::Logoff, Request::Logon(Auth::basic("admin", "guessed"))] {
        let mut client = world.reader().await.unwrap();
        let told = failure(client.ask(&request).await.unwrap());
        assert_eq!(told.class(), FailureClass::Client, "{told}");
        let next = client.ask(&Request::Reset).await;
        assert!(matches!(next, Err(ClientError::Connection(_))), "{next:?}");
    }
}

#[tokio::test]
async fn a_write_is_refused_by_the_replica_itself_and_the_session_stays() {
    let world = World::start(&ALL, POLICY).await;
    let mut client = world.reader().await.unwrap();
    let pod = world.pod_of(&mut client).await;
    let told = write(&mut client).await.unwrap_err();
    assert!(
        told.message
            .starts_with("Write queries are forbidden on the replica"),
        "{told}"
    );
    assert_eq!(world.pod_of(&mut client).await, pod);
    assert_eq!(metric(&world.bed.gateway, "moved_total").await.to_string(), "0");
    assert_eq!(world.pods[0].count().await, 0);
    // Roles are refused by the gateway, as everywhere.
    match client.query("SET REPLICATION ROLE TO MAIN").await.unwrap() {
        Outcome::Refused { failure, .. } => assert!(failure.message.contains("Mainstay"), "{failure}"),
        done @ Outcome::Done(_) => panic!("{done:?}"),
    }
}

#[tokio::test]
async fn what_is_written_through_the_gateway_is_read_through_it() {
    let world = World::start(&ALL, POLICY).await;
    let (mut writer, mut reader) = (world.bed.client().await.unwrap(), world.reader().await.unwrap());
    for number in 1..=5 {
        write(&mut writer).await.unwrap();
        until("replicated", async || count(&mut reader).await == number).await;
    }
}

/// Readers that wait for a replica do not keep writers from waiting for MAIN.
#[tokio::test]
async fn each_port_has_its_own_places_to_wait() {
    let bed = Bed::with(Some(no_main(&serving(4, 0), 0)), &[], |config| {
        config.reads = Some(reads(POLICY));
        config.limits.waiting = Some(1);
        config.timeouts.hold = Duration::from_secs(2);
    })
    .await;
    let reader = Client::connect_within(bed.gateway.reads().unwrap(), Auth::None, PATIENCE);
    let writer = async {
        until("held", async || {
            metric(&bed.gateway, "waiting{listener=\"read\"}").await > 0.0
        })
        .await;
        bed.client().await
    };
    let (reader, writer) = tokio::join!(reader, writer);
    for held in [reader, writer] {
        let told = login_failure(held);
        assert!(told.message.contains("it was held for"), "{told}");
    }
}

#[tokio::test]
async fn an_idle_port_for_reads_asks_main_for_nothing() {
    // Nobody of ours: it counts who comes.
    let main = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let bed = Bed::with(Some(serving(4, 0)), &[main.local_addr().unwrap()], |config| {
        config.reads = Some(reads(POLICY));
    })
    .await;
    let nobody = timeout(Duration::from_millis(1500), main.accept()).await;
    assert!(nobody.is_err(), "somebody came");
    let client = Client::connect_within(bed.gateway.reads().unwrap(), Auth::None, PATIENCE);
    tokio::select! {
        came = timeout(PATIENCE, main.accept()) => assert!(came.unwrap().is_ok()),
        client = client => panic!("nobody answers, but {client:?}"),
    }
}

#[tokio::test]
async fn under_load_a_replica_is_read_from_although_main_calls_it_other_than_ready() {
    let policy = read_gate::Reads {
        max_lag: 1_000_000,
        ..POLICY
    };
    let world = World::start(&["ASYNC"], policy).await;
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mut writer = world.bed.client().await.unwrap();
        writers.spawn(async move {
            loop {
                write(&mut writer).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    }
    let mut shown = std::collections::BTreeSet::new();
    let mut client = world.reader().await.unwrap();
    let began = Instant::now();
    // Longer than what MAIN said last is believed.
    while began.elapsed() < Duration::from_secs(8) {
        count(&mut client).await;
        shown.insert(world.listed(1).await.0);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    writers.shutdown().await;
    assert!(shown.iter().any(|status| status != "ready"), "{shown:?}");
    assert_eq!(
        metric(&world.bed.gateway, "cut_sessions_total").await.to_string(),
        "0"
    );
}
