//! A planned move: what runs may end, what is new waits, and nobody sees an error.

use crate::bed::{Bed, Database, http, metric, moving, serving, taken, until, write};
use bolt::message::{Extra, Request};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::ids::Term;
use sandbox::standin::memgraph::client::{Client, Message};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

#[tokio::test]
async fn running_transactions_end_on_the_old_main_and_new_ones_begin_on_the_next() {
    let (old, new) = (Database::main(Some(4)).await, Database::main(Some(5)).await);
    let first = serving(4, 0);
    let bed = Bed::start(Some(first.clone()), &[old.server.bolt(), new.server.bolt()]).await;
    let mut running = bed.client().await.unwrap();
    let mut idle = bed.client().await.unwrap();
    running.begin().await.unwrap();
    write(&mut running).await.unwrap();
    let begun = moving(&first, 1);
    bed.records.send_replace(Some(begun.clone()));
    until("the idle one has left", async || {
        metric(&bed.gateway, "parked").await > 0.0
    })
    .await;
    assert_eq!(
        bed.gateway.confirmation().term,
        Term(4),
        "not confirmed while it runs"
    );
    write(&mut running).await.unwrap();
    let late = async { idle.begin().await.unwrap() };
    let end = async {
        until("held", async || metric(&bed.gateway, "waiting").await > 0.0).await;
        assert!(matches!(running.commit().await.unwrap(), Message::Success(_)));
        until("confirmed", async || bed.gateway.confirmation().term == Term(5)).await;
        assert_eq!(old.count().await, 2);
        bed.records.send_replace(Some(taken(&begun, 1)));
    };
    let (begun, ()) = tokio::join!(late, end);
    assert!(matches!(begun, Message::Success(_)), "{begun:?}");
    write(&mut idle).await.unwrap();
    idle.commit().await.unwrap();
    write(&mut running).await.unwrap();
    assert_eq!((old.count().await, new.count().await), (2, 2));
}

/// Whoever connects during a move is held by the gateways, and not refused because none of them is ready.
#[tokio::test]
async fn a_gateway_that_waits_for_a_transaction_is_ready_and_holds_who_comes() {
    let (old, new) = (Database::main(Some(4)).await, Database::main(Some(5)).await);
    let first = serving(4, 0);
    let bed = Bed::start(Some(first.clone()), &[old.server.bolt(), new.server.bolt()]).await;
    let mut running = bed.client().await.unwrap();
    running.begin().await.unwrap();
    write(&mut running).await.unwrap();
    let begun = moving(&first, 1);
    bed.records.send_replace(Some(begun.clone()));
    let ends = async {
        until("held", async || metric(&bed.gateway, "waiting").await > 0.0).await;
        assert_eq!(bed.gateway.confirmation().term, Term(4), "it drains");
        let (status, why) = http(&bed.gateway, "GET /readyz HTTP/1.1", "").await;
        assert_eq!(status, 200, "{why}");
        running.commit().await.unwrap();
        until("confirmed", async || bed.gateway.confirmation().term == Term(5)).await;
        assert_eq!(http(&bed.gateway, "GET /readyz HTTP/1.1", "").await.0, 200);
        bed.records.send_replace(Some(taken(&begun, 1)));
    };
    // Before the drain has begun it would be let in at once.
    let comes = async {
        until("it drains", async || {
            metric(&bed.gateway, "cuts_total").await > 1.0
        })
        .await;
        bed.client().await.unwrap()
    };
    let (mut client, ()) = tokio::join!(comes, ends);
    write(&mut client).await.unwrap();
    assert_eq!((old.count().await, new.count().await), (1, 1));
}

#[tokio::test]
async fn a_transaction_that_does_not_end_is_cut_after_the_bound() {
    let (old, new) = (Database::main(Some(4)).await, Database::main(Some(5)).await);
    let first = serving(4, 0);
    let addresses = [old.server.bolt(), new.server.bolt()];
    let mut bed = Bed::with(Some(first.clone()), &addresses, |config| {
        config.timeouts.transactions = Duration::from_millis(200);
    })
    .await;
    let mut client = bed.client().await.unwrap();
    client.begin().await.unwrap();
    write(&mut client).await.unwrap();
    let begun = moving(&first, 1);
    bed.records.send_replace(Some(begun.clone()));
    bed.confirmed(5).await;
    assert_eq!(
        metric(&bed.gateway, "drains_cut_short_total").await.to_string(),
        "1"
    );
    bed.records.send_replace(Some(taken(&begun, 1)));
    let told = client.ask(&Request::Begin(Extra::default())).await.unwrap();
    assert!(
        matches!(&told, Message::Failure(told) if told.message.contains("Nothing of this was committed")),
        "{told:?}"
    );
    assert_eq!((old.count().await, new.count().await), (0, 0));
}

/// Writes until told to stop, without a retry: how many it was told were written, and what else it was told.
async fn work(mut client: Client, stop: Arc<AtomicBool>, explicit: bool) -> (i64, Vec<String>) {
    let (mut written, mut errors) = (0, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        if explicit && !matches!(client.begin().await, Ok(Message::Success(_))) {
            errors.push("BEGIN".to_owned());
        }
        match client.query("CREATE (:P)").await {
            Ok(outcome) => match outcome.failure() {
                None => written += i64::from(!explicit),
                Some(failure) => errors.push(failure.to_string()),
            },
            Err(error) => {
                errors.push(error.to_string());
                break;
            }
        }
        if explicit {
            match client.commit().await {
                Ok(Message::Success(_)) => written += 1,
                other => errors.push(format!("COMMIT {other:?}")),
            }
        }
    }
    (written, errors)
}

/// Fifty moves to and fro under eight clients that retry nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_retry_nothing_see_no_error_and_no_write_is_lost_or_misled() {
    const MOVES: u64 = 50;
    let databases = [Database::main(Some(4)).await, Database::main(None).await];
    let addresses = [databases[0].server.bolt(), databases[1].server.bolt()];
    let mut record = serving(4, 0);
    let mut bed = Bed::start(Some(record.clone()), &addresses).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for number in 0..8 {
        let client = bed.client().await.unwrap();
        clients.spawn(work(client, Arc::clone(&stop), number % 2 == 0));
    }
    for number in 0..MOVES {
        let (from, to) = if number % 2 == 0 { (0, 1) } else { (1, 0) };
        record = one_move(&mut bed, &databases, &record, from, to).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut written = 0;
    while let Some(done) = clients.join_next().await {
        let (acknowledged, errors) = done.unwrap();
        assert_eq!(errors, Vec::<String>::new());
        written += acknowledged;
    }
    let there = databases[0].count().await + databases[1].count().await;
    assert_eq!(written, there, "each once, none lost");
    assert!(written > 100, "{written}");
    assert_eq!(
        metric(&bed.gateway, "drains_cut_short_total").await.to_string(),
        "0"
    );
}

/// One planned move. Once it is confirmed, the old MAIN hears nothing any more.
async fn one_move(bed: &mut Bed, databases: &[Database; 2], before: &Record, from: u8, to: u8) -> Record {
    let begun = moving(before, to);
    bed.records.send_replace(Some(begun.clone()));
    bed.confirmed(begun.term.0).await;
    let old = &databases[usize::from(from)];
    let confirmed = old.count().await;
    databases[usize::from(to)].mark(begun.term.0).await;
    let next = taken(&begun, to);
    bed.records.send_replace(Some(next.clone()));
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(
        old.count().await,
        confirmed,
        "written on the old MAIN after it was confirmed"
    );
    next
}
