//! What becomes of a read session when its replica may not be read from any more.

use crate::bed::{
    Bed, Database, PATIENCE, count, login_failure, metric, moving, no_main, serving, taken, until, write,
};
use crate::reads_bed::{POLICY, World, failure, free_port, reads, run, who};
use bolt::message::{Amount, Auth, FailureClass, Fetch, Request, Run};
use mainstay_core::memgraph::ids::{Ordinal, ProcessId, ResetId, Term};
use mainstay_core::memgraph::read_gate;
use mainstay_core::memgraph::record::Reset;
use mainstay_core::time::Time;
use sandbox::standin::memgraph::client::{Client, Message};
use sandbox::standin::memgraph::{Effect, Fault, RpcKind, Rule};
use std::time::Duration;
use tokio::time::sleep;

const ONE: Fetch = Fetch {
    amount: Amount::AtMost(1),
    qid: None,
};

/// A session on each of the two replicas: first the one that stays, then the one that goes.
async fn on_both(world: &World, goes: usize) -> (Client, Client) {
    let (mut one, two) = (world.reader().await.unwrap(), world.reader().await.unwrap());
    if world.pod_of(&mut one).await == goes {
        (two, one)
    } else {
        (one, two)
    }
}

/// A session in the middle of nothing was taken from its replica.
async fn left(world: &World) {
    until("left", async || metric(&world.bed.gateway, "parked").await > 0.0).await;
}

/// Nothing is lost, and the session goes on.
async fn told_to_try_again(world: &World, client: &mut Client, message: Message) {
    let told = failure(message);
    assert_eq!(told.class(), FailureClass::Transient, "{told}");
    client.reset().await.unwrap();
    count(client).await;
    let unknown = metric(&world.bed.gateway, "lost_total{kind=\"unknown\"}").await;
    assert_eq!(unknown.to_string(), "0");
}

#[tokio::test]
async fn a_replica_that_is_killed_is_left_for_another_one() {
    let mut world = World::start(&["ASYNC", "ASYNC"], POLICY).await;
    let (_stays, mut idle) = on_both(&world, 2).await;
    let mut busy = world.reader().await.unwrap();
    let mut more = Vec::new();
    while world.pod_of(&mut busy).await != 2 {
        more.push(std::mem::replace(&mut busy, world.reader().await.unwrap()));
    }
    busy.begin().await.unwrap();
    count(&mut busy).await;
    drop(world.pods.pop());
    until("noticed", async || {
        metric(&world.bed.gateway, "parked").await > 1.0
    })
    .await;
    assert_eq!(world.pod_of(&mut idle).await, 1);
    let message = busy.ask(&Request::Commit).await.unwrap();
    told_to_try_again(&world, &mut busy, message).await;
    assert_eq!(world.pod_of(&mut busy).await, 1);
}

#[tokio::test]
async fn a_read_that_was_not_answered_may_be_tried_again() {
    let mut world = World::start(&["ASYNC", "ASYNC"], POLICY).await;
    let (_stays, mut client) = on_both(&world, 2).await;
    world.pods[2]
        .server
        .inject(&Fault::SlowBolt { ms: 5000 })
        .unwrap();
    let read = Request::Run(Run::new("MATCH (n) RETURN n"));
    for request in [read, Request::Pull(Fetch::ALL)] {
        client.send(&request).await.unwrap();
    }
    sleep(Duration::from_millis(100)).await;
    drop(world.pods.pop());
    let message = client.receive().await.unwrap();
    assert!(matches!(client.receive().await.unwrap(), Message::Ignored));
    // Whether it was committed is known: a replica commits nothing.
    told_to_try_again(&world, &mut client, message).await;
}

#[tokio::test]
async fn g9_a_replica_that_falls_too_far_behind_is_left_and_taken_again_when_it_caught_up() {
    let world = World::start(&["ASYNC", "ASYNC"], POLICY).await;
    let (_stays, mut idle) = on_both(&world, 2).await;
    let slow = Rule {
        peer: Some(world.pods[2].server.bolt().ip().to_string()),
        rpc: Some(RpcKind::Prepare),
        effect: Effect::Delay(2_000),
        times: None,
    };
    world.pods[0].server.inject(&Fault::Link(slow)).unwrap();
    let mut writer = world.bed.client().await.unwrap();
    for _ in 0..20 {
        write(&mut writer).await.unwrap();
    }
    until("behind", async || world.listed(2).await.1 < -10).await;
    left(&world).await;
    assert_eq!(world.pod_of(&mut idle).await, 1);
    world.pods[0].server.inject(&Fault::Clear).unwrap();
    until("level", async || world.listed(2).await.1 == 0).await;
    // The next sessions go where there are fewer.
    until("taken again", async || {
        let mut next = world.reader().await.unwrap();
        world.pod_of(&mut next).await == 2
    })
    .await;
}

#[tokio::test]
async fn g9_a_replica_that_does_not_follow_any_more_is_left() {
    let world = World::start(&["ASYNC", "ASYNC"], POLICY).await;
    let (_stays, mut idle) = on_both(&world, 2).await;
    run(&mut world.pods[0].client().await, "DROP REPLICA memgraph_ha_2").await;
    left(&world).await;
    assert_eq!(world.pod_of(&mut idle).await, 1);
}

/// In a small database everybody is near, also who has nothing yet.
#[tokio::test]
async fn g9_a_replica_that_recovers_gets_no_session_before_it_has_what_main_has() {
    let world = World::start(&["ASYNC", "ASYNC"], POLICY).await;
    let register = world.registration(2).await;
    let main = &world.pods[0];
    run(&mut main.client().await, "DROP REPLICA memgraph_ha_2").await;
    let mut writer = world.bed.client().await.unwrap();
    for _ in 0..3 {
        write(&mut writer).await.unwrap();
    }
    main.server.inject(&Fault::SlowRecovery { ms: 6_000 }).unwrap();
    run(&mut main.client().await, &register).await;
    let mut readers = Vec::new();
    let began = std::time::Instant::now();
    // The gateway has looked at it several times by then.
    while began.elapsed() < Duration::from_secs(3) {
        let mut reader = world.reader().await.unwrap();
        assert_eq!(world.pod_of(&mut reader).await, 1);
        until("replicated", async || count(&mut reader).await == 3).await;
        readers.push(reader);
        sleep(Duration::from_millis(500)).await;
    }
    let (status, behind) = world.listed(2).await;
    assert_eq!(status, "recovery");
    assert!((-10..0).contains(&behind), "it is near: {behind}");
    until("taken", async || {
        let mut next = world.reader().await.unwrap();
        world.pod_of(&mut next).await == 2
    })
    .await;
    assert_eq!(world.listed(2).await.0, "ready");
}

/// MAIN's word for it is a cache: a replica that came back empty between two pings is still called `ready`.
#[tokio::test]
async fn g9_a_replica_that_is_called_ready_and_has_nothing_gets_no_session() {
    let world = World::start(&["ASYNC"], POLICY).await;
    let address = world.pods[1].server.bolt().ip();
    let empty = Database::main_at(address, None).await;
    let demote = format!("SET REPLICATION ROLE TO REPLICA WITH PORT {}", free_port(address));
    run(&mut empty.client().await, &demote).await;
    let addresses = [world.pods[0].server.bolt(), empty.server.bolt()];
    let bed = Bed::with(Some(serving(4, 0)), &addresses, |config| {
        config.reads = Some(reads(POLICY));
        config.timeouts.hold = Duration::from_secs(1);
    })
    .await;
    let reader = Client::connect_within(bed.gateway.reads().unwrap(), Auth::None, PATIENCE);
    let told = login_failure(reader.await);
    assert!(told.message.contains("it has nothing of MAIN's"), "{told}");
    assert!(metric(&bed.gateway, "checks_total{kind=\"no_mark\"}").await > 0.0);
}

#[tokio::test]
async fn a_replica_that_is_to_be_reset_is_left_at_once() {
    let world = World::start(&["ASYNC", "ASYNC"], POLICY).await;
    let (_stays, mut idle) = on_both(&world, 2).await;
    let mut record = serving(4, 0);
    record.revision = record.revision.next();
    record.reset = Some(Reset {
        pod: Ordinal(2),
        process: ProcessId(1),
        id: ResetId(1),
        term: Term(4),
        since: Time::ZERO,
        keep: false,
    });
    world.tell(&record);
    left(&world).await;
    assert_eq!(world.pod_of(&mut idle).await, 1);
}

#[tokio::test]
async fn when_main_moves_sessions_log_in_with_the_next_one_and_see_nothing() {
    let mut world = World::start(&["ASYNC", "ASYNC"], POLICY).await;
    let (mut idle, mut busy) = (world.reader().await.unwrap(), world.reader().await.unwrap());
    count(&mut idle).await;
    busy.begin().await.unwrap();
    count(&mut busy).await;
    let register = world.registration(2).await;
    // Pod 0 goes; pod 1 takes over in term 5, and pod 2 follows it.
    let lost = no_main(&serving(4, 0), 1);
    world.tell(&lost);
    world.bed.confirmed(5).await;
    let message = busy.ask(&Request::Commit).await.unwrap();
    assert_eq!(failure(message).class(), FailureClass::Transient);
    run(&mut world.pods[0].client().await, "DROP REPLICA memgraph_ha_2").await;
    run(&mut world.pods[1].client().await, "SET REPLICATION ROLE TO MAIN").await;
    world.pods[1].mark(5).await;
    run(&mut world.pods[1].client().await, &register).await;
    world.tell(&taken(&lost, 1));
    assert_eq!(world.pod_of(&mut idle).await, 2);
    busy.reset().await.unwrap();
    assert_eq!(world.pod_of(&mut busy).await, 2);
}

#[tokio::test]
async fn a_planned_move_waits_for_reads_that_run_and_is_confirmed_when_the_last_one_has_ended() {
    // Patience is longer than what MAIN last said of its replicas counts: that they are not asked for any more is no
    // reason to end what runs.
    let world = World::with(&["ASYNC"], POLICY, |config| {
        config.timeouts.transactions = PATIENCE;
    })
    .await;
    let (mut busy, mut idle) = (world.reader().await.unwrap(), world.reader().await.unwrap());
    busy.begin().await.unwrap();
    count(&mut busy).await;
    let begun = moving(&serving(4, 0), 1);
    world.tell(&begun);
    left(&world).await;
    sleep(Duration::from_secs(6)).await;
    assert_eq!(world.bed.gateway.confirmation().term, Term(4), "somebody reads");
    count(&mut busy).await;
    assert!(matches!(busy.commit().await.unwrap(), Message::Success(_)));
    until("confirmed", async || {
        world.bed.gateway.confirmation().term == Term(5)
    })
    .await;
    world.pods[0].mark(5).await;
    world.tell(&taken(&begun, 0));
    count(&mut idle).await;
    count(&mut busy).await;
    let told = metric(&world.bed.gateway, "lost_total{kind=\"nothing\"}").await;
    assert_eq!(told.to_string(), "0");
}

#[tokio::test]
async fn writes_that_are_held_or_closed_hold_no_reads() {
    let world = World::start(&["ASYNC"], POLICY).await;
    let mut open = world.reader().await.unwrap();
    let held = serving(4, 0).held(Time::ZERO);
    world.tell(&held);
    until("held", async || {
        world.bed.gateway.confirmation().revision == held.revision
    })
    .await;
    assert_eq!(world.pod_of(&mut open).await, 1);
    assert_eq!(metric(&world.bed.gateway, "moved_total").await.to_string(), "0");
    let mut next = world.reader().await.unwrap();
    assert_eq!(world.pod_of(&mut next).await, 1);
}

#[tokio::test]
async fn what_main_said_long_ago_counts_for_nothing() {
    let world = World::with(&["ASYNC"], POLICY, |config| {
        config.timeouts.hold = Duration::from_secs(1);
        config.timeouts.check = Duration::from_millis(300);
    })
    .await;
    let mut client = world.reader().await.unwrap();
    assert_eq!(world.pod_of(&mut client).await, 1);
    world.pods[0].server.inject(&Fault::Freeze).unwrap();
    let began = std::time::Instant::now();
    until("left", async || metric(&world.bed.gateway, "parked").await > 0.0).await;
    assert!(began.elapsed() > Duration::from_secs(3), "it counts for a while");
    assert!(began.elapsed() < PATIENCE);
    let told = failure(client.begin().await.unwrap());
    assert_eq!(told.class(), FailureClass::Transient, "{told}");
    assert!(told.message.contains("No replica"), "{told}");
}

/// The SYNC replica is promoted, and this gateway has not heard of it: what a read client says must not be the first
/// write of a MAIN that does not serve yet.
#[tokio::test]
async fn a_read_session_on_the_sync_replica_does_not_write_when_that_is_promoted_under_it() {
    let policy = read_gate::Reads {
        from_sync: true,
        ..POLICY
    };
    let world = World::start(&["STRICT_SYNC"], policy).await;
    let mut client = world.reader().await.unwrap();
    assert_eq!(world.pod_of(&mut client).await, 1);
    for promoted in [false, true] {
        if promoted {
            // What MAIN said last counts for a while: nobody tells the gateway.
            world.pods[0].server.inject(&Fault::Freeze).unwrap();
            run(&mut world.pods[1].client().await, "SET REPLICATION ROLE TO MAIN").await;
        }
        let told = write(&mut client).await.unwrap_err();
        assert_eq!(told.class(), FailureClass::Client, "{told}");
        assert!(told.message.contains("may be the next MAIN"), "{told}");
        client.begin().await.unwrap();
        write(&mut client).await.unwrap_err();
        client.reset().await.unwrap();
        assert_eq!(count(&mut client).await, 0);
        let next = who(&mut world.pods[1].client().await).await;
        assert_eq!(who(&mut client).await, next, "it is still there");
    }
    assert_eq!(world.pods[1].count().await, 0);
}

/// A statement may commit in batches while its pages are fetched, but not on an ASYNC replica.
#[tokio::test]
async fn a_page_of_a_read_that_is_lost_with_its_replica_may_be_tried_again() {
    let mut world = World::start(&["STRICT_SYNC", "ASYNC", "ASYNC"], POLICY).await;
    let mut writer = world.bed.client().await.unwrap();
    for _ in 0..3 {
        write(&mut writer).await.unwrap();
    }
    until("level", async || {
        world.listed(2).await.1 == 0 && world.listed(3).await.1 == 0
    })
    .await;
    let (mut one, two) = (world.reader().await.unwrap(), world.reader().await.unwrap());
    let mut client = if world.pod_of(&mut one).await == 3 {
        one
    } else {
        two
    };
    client
        .ask(&Request::Run(Run::new("MATCH (n:P) RETURN n")))
        .await
        .unwrap();
    client.send(&Request::Pull(ONE)).await.unwrap();
    assert!(matches!(client.receive().await.unwrap(), Message::Record(_)));
    assert!(matches!(client.receive().await.unwrap(), Message::Success(_)));
    drop(world.pods.pop());
    until("noticed", async || {
        metric(&world.bed.gateway, "parked").await > 0.0
    })
    .await;
    let message = client.ask(&Request::Pull(ONE)).await.unwrap();
    told_to_try_again(&world, &mut client, message).await;
}
