//! Whom a gateway lets in, holds and cuts.

use crate::bed::{Bed, Database, PATIENCE, count, login_failure, metric, no_main, serving, until, write};
use crate::reads_bed::free_port;
use bolt::message::{Auth, FailureClass};
use mainstay_core::memgraph::ids::Term;
use mainstay_core::memgraph::record::Writes;
use mainstay_core::time::Time;
use sandbox::standin::memgraph::Fault;
use sandbox::standin::memgraph::client::{Client, Outcome};
use std::time::Duration;

#[tokio::test]
async fn a_client_writes_through_the_gateway_and_main_has_it() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    for _ in 0..20 {
        write(&mut client).await.unwrap();
    }
    assert_eq!(count(&mut client).await, 20);
    client.begin().await.unwrap();
    write(&mut client).await.unwrap();
    client.rollback().await.unwrap();
    assert_eq!(main.count().await, 20);
    // A result of many megabytes comes through whole.
    let many = "UNWIND range(1, 200000) AS x RETURN x, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'";
    let Outcome::Done(table) = client.query(many).await.unwrap() else {
        panic!("refused")
    };
    assert_eq!(table.rows.len(), 200_000);
    let run_id = table.summary.get("run_id").and_then(|id| id.as_str()).unwrap();
    let heard = bed.gateway.confirmation().heard.unwrap();
    assert_eq!(heard.run_id, run_id, "whom it hears");
}

#[tokio::test]
async fn a_new_term_cuts_every_session_before_it_is_confirmed() {
    let main = Database::main(Some(4)).await;
    let first = serving(4, 0);
    let mut bed = Bed::start(Some(first.clone()), &[main.server.bolt()]).await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(bed.client().await.unwrap());
    }
    // One of them is in the middle of a transaction, and one waits for a slow answer.
    clients[0].begin().await.unwrap();
    write(&mut clients[0]).await.unwrap();
    bed.records.send_replace(Some(no_main(&first, 1)));
    bed.confirmed(5).await;
    assert_eq!(metric(&bed.gateway, "sessions").await.to_string(), "0");
    assert_eq!(metric(&bed.gateway, "cut_sessions_total").await.to_string(), "8");
    assert_eq!(
        metric(&bed.gateway, "parked").await.to_string(),
        "8",
        "the clients stay"
    );
    until("the transaction is gone", async || main.count().await == 0).await;
}

#[tokio::test]
async fn a_cut_session_gets_no_answer_any_more() {
    let main = Database::main(Some(4)).await;
    let first = serving(4, 0);
    let mut bed = Bed::start(Some(first.clone()), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    main.server.inject(&Fault::SlowBolt { ms: 300 }).unwrap();
    let asked = async { client.query("CREATE (:P)").await };
    let cut = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        bed.records.send_replace(Some(no_main(&first, 1)));
        bed.confirmed(5).await;
    };
    let (answer, ()) = tokio::join!(asked, cut);
    let answer = answer.unwrap();
    let told = answer.failure().expect("an answer after the cut");
    assert_eq!(told.code, "Memgraph.ClientError.Transaction.OutcomeUnknown");
}

#[tokio::test]
async fn a_record_that_keeps_the_route_cuts_nobody() {
    let main = Database::main(Some(4)).await;
    let first = serving(4, 0);
    let mut bed = Bed::start(Some(first.clone()), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    bed.records.send_replace(Some(first.touched()));
    let revision = first.touched().revision;
    let reached = bed
        .told
        .wait_for(|told| told.as_ref().is_some_and(|told| told.revision == revision));
    tokio::time::timeout(PATIENCE, reached).await.unwrap().unwrap();
    write(&mut client).await.unwrap();
}

#[tokio::test]
async fn a_held_connection_is_served_when_main_opens() {
    let (old, new) = (Database::main(Some(4)).await, Database::main(Some(5)).await);
    let addresses = [old.server.bolt(), new.server.bolt()];
    let first = serving(4, 0);
    let bed = Bed::start(Some(no_main(&first, 1)), &addresses).await;
    let held = bed.client();
    let opened = async {
        until("held", async || metric(&bed.gateway, "waiting").await > 0.0).await;
        let mut opened = serving(5, 1);
        opened.revision = no_main(&first, 1).revision.next();
        bed.records.send_replace(Some(opened));
    };
    let (client, ()) = tokio::join!(held, opened);
    write(&mut client.unwrap()).await.unwrap();
    assert_eq!((old.count().await, new.count().await), (0, 1));
}

#[tokio::test]
async fn held_writes_hold_new_connections_and_old_ones_alike() {
    let main = Database::main(Some(4)).await;
    let first = serving(4, 0);
    let bed = Bed::start(Some(first.clone()), &[main.server.bolt()]).await;
    let mut old = bed.client().await.unwrap();
    let held = first.held(Time::ZERO);
    bed.records.send_replace(Some(held.clone()));
    until("parked", async || metric(&bed.gateway, "parked").await > 0.0).await;
    let opened = async {
        until("held", async || metric(&bed.gateway, "waiting").await > 1.0).await;
        assert_eq!(main.count().await, 0);
        bed.records.send_replace(Some(held.with_writes(Writes::Open)));
    };
    let (client, written, ()) = tokio::join!(bed.client(), write(&mut old), opened);
    written.unwrap();
    write(&mut client.unwrap()).await.unwrap();
    assert_eq!(main.count().await, 2);
}

#[tokio::test]
async fn a_connection_is_held_no_longer_than_the_bound_and_told_to_try_again() {
    let bed = Bed::with(Some(no_main(&serving(4, 0), 0)), &[], |config| {
        config.timeouts.hold = Duration::from_millis(200);
    })
    .await;
    let failure = login_failure(bed.client().await);
    assert_eq!(failure.class(), FailureClass::Transient, "{failure}");
    assert!(failure.message.contains("NoMain"), "{failure}");
    assert!(metric(&bed.gateway, "refused_total{kind=\"held_too_long\"}").await > 0.0);
}

#[tokio::test]
async fn only_so_many_wait() {
    let bed = Bed::with(Some(no_main(&serving(4, 0), 0)), &[], |config| {
        config.limits.waiting = Some(1);
        config.timeouts.hold = Duration::from_secs(5);
    })
    .await;
    let first = bed.client();
    let second = async {
        until("held", async || metric(&bed.gateway, "waiting").await > 0.0).await;
        let failure = login_failure(bed.client().await);
        assert!(failure.message.contains("too many"), "{failure}");
        assert_eq!(failure.class(), FailureClass::Transient);
    };
    let (first, ()) = tokio::join!(first, second);
    assert!(login_failure(first).message.contains("held"));
}

#[tokio::test]
async fn a_main_whose_mark_is_another_term_or_missing_is_not_admitted() {
    for mark in [Some(3), Some(5), None] {
        let main = Database::main(mark).await;
        let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
            config.timeouts.hold = Duration::from_millis(300);
        })
        .await;
        let failure = login_failure(bed.client().await);
        assert_eq!(failure.class(), FailureClass::Transient, "{failure}");
        let kind = if mark.is_none() { "no_mark" } else { "other_term" };
        let metric = metric(&bed.gateway, &format!("checks_total{{kind=\"{kind}\"}}")).await;
        assert!(metric > 1.0, "it was tried again: {metric}");
    }
}

#[tokio::test]
async fn a_gateway_that_slept_through_failovers_does_not_follow_main_into_another_term() {
    // It knows "pod 0, term 4"; meanwhile pod 0 became MAIN again, in term 6.
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.hold = Duration::from_millis(300);
    })
    .await;
    write(&mut bed.client().await.unwrap()).await.unwrap();
    main.mark(6).await;
    login_failure(bed.client().await);
    assert_eq!(main.count().await, 1);
}

#[tokio::test]
async fn a_replica_is_not_admitted() {
    let replica = Database::main(Some(4)).await;
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let demote = format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port}");
    let done = replica.client().await.query(&demote).await.unwrap();
    assert!(done.rows().is_some(), "{done:?}");
    let bed = Bed::with(Some(serving(4, 0)), &[replica.server.bolt()], |config| {
        config.timeouts.hold = Duration::from_millis(300);
    })
    .await;
    login_failure(bed.client().await);
    assert!(metric(&bed.gateway, "checks_total{kind=\"replica\"}").await > 0.0);
}

#[tokio::test]
async fn an_older_record_is_ignored() {
    let (old, new) = (Database::main(Some(4)).await, Database::main(Some(5)).await);
    let addresses = [old.server.bolt(), new.server.bolt()];
    let mut bed = Bed::start(Some(serving(5, 1)), &addresses).await;
    let mut client = bed.client().await.unwrap();
    bed.records.send_replace(Some(serving(4, 0)));
    until("seen", async || {
        metric(&bed.gateway, "records_ignored_total").await > 0.0
    })
    .await;
    write(&mut client).await.unwrap();
    write(&mut bed.client().await.unwrap()).await.unwrap();
    assert_eq!(bed.confirmed(5).await.term, Term(5));
    assert_eq!((old.count().await, new.count().await), (0, 2));
}

/// As an operator does to a MAIN that lives.
async fn demote(main: &Database) {
    let port = free_port(main.server.bolt().ip());
    let demote = format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port}");
    let done = main.client().await.query(&demote).await.unwrap();
    assert!(done.rows().is_some(), "{done:?}");
}

#[tokio::test]
async fn a_session_leaves_its_server_when_that_says_that_it_is_not_main_any_more() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.hold = Duration::from_millis(300);
    })
    .await;
    let mut client = bed.client().await.unwrap();
    write(&mut client).await.unwrap();
    demote(&main).await;
    // Nothing of it was committed, so drivers may try again; what comes next is for a connection that is checked (G5).
    let refused = client
        .run_without_reset(&bolt::message::Run::new("CREATE (:P)"))
        .await
        .unwrap();
    let failure = refused.failure().unwrap();
    assert_eq!(failure.class(), FailureClass::Transient, "{refused:?}");
    assert!(
        failure.message.contains("not MAIN any more")
            && failure.message.contains("Nothing of this was committed"),
        "{refused:?}"
    );
    assert!(metric(&bed.gateway, "lost_total{kind=\"nothing\"}").await > 0.0);
    client.reset().await.unwrap();
    let held = write(&mut client).await.unwrap_err();
    assert_eq!(held.class(), FailureClass::Transient, "{held}");
    assert!(metric(&bed.gateway, "checks_total{kind=\"replica\"}").await > 0.0);
    login_failure(bed.client().await);
}

#[tokio::test]
async fn a_transaction_whose_main_is_demoted_before_its_commit_may_be_tried_again() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let mut client = bed.client().await.unwrap();
    for words in ["BEGIN", "CREATE (:P)"] {
        let done = client.run_without_reset(&bolt::message::Run::new(words)).await;
        assert!(done.unwrap().rows().is_some(), "{words}");
    }
    demote(&main).await;
    let refused = client
        .run_without_reset(&bolt::message::Run::new("COMMIT"))
        .await
        .unwrap();
    let failure = refused.failure().unwrap();
    assert_eq!(failure.class(), FailureClass::Transient, "{refused:?}");
    assert!(
        failure.message.contains("Nothing of this was committed"),
        "{refused:?}"
    );
    assert_eq!(main.count().await, 0);
}

#[tokio::test]
async fn a_wrong_password_is_answered_by_the_database() {
    let main = Database::main(Some(4)).await;
    let create = "CREATE USER admin IDENTIFIED BY 'secret'";
    assert!(main.client().await.query(create).await.unwrap().rows().is_some());
    let bed = Bed::start(Some(serving(4, 0)), &[main.server.bolt()]).await;
    let wrong = Client::connect(bed.gateway.bolt(), Auth::basic("admin", "wrong")).await;
    let failure = login_failure(wrong);
    assert_eq!(failure.message, "Authentication failure");
    let right = Client::connect(bed.gateway.bolt(), Auth::basic("admin", "secret")).await;
    write(&mut right.unwrap()).await.unwrap();
}
