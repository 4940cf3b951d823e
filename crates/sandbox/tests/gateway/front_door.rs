//! Limits and time-outs of the port that clients connect to.

use crate::bed::{Bed, Database, is_cut, metric, serving, until, write};
use sandbox::standin::memgraph::Fault;
use std::time::Duration;

#[tokio::test]
async fn only_so_many_connections_of_one_address_are_taken() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.limits.per_source = Some(2);
    })
    .await;
    let mut first = bed.client().await.unwrap();
    let second = bed.client().await.unwrap();
    assert!(bed.client().await.is_err());
    assert!(metric(&bed.gateway, "refused_total{kind=\"too_many_of_source\"}").await > 0.0);
    write(&mut first).await.unwrap();
    drop(second);
    until("room again", async || bed.client().await.is_ok()).await;
}

#[tokio::test]
async fn connections_that_come_too_fast_are_closed_and_those_that_are_there_go_on() {
    for (each, kind) in [(false, "too_fast"), (true, "source_too_fast")] {
        let main = Database::main(Some(4)).await;
        let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
            let bound = if each {
                &mut config.limits.new_per_second_per_source
            } else {
                &mut config.limits.new_per_second
            };
            *bound = Some(3);
        })
        .await;
        let mut clients = Vec::new();
        for _ in 0..30 {
            clients.extend(bed.client().await);
        }
        assert!(clients.len() >= 3 && clients.len() < 30, "{}", clients.len());
        let refused = metric(&bed.gateway, &format!("refused_total{{kind=\"{kind}\"}}")).await;
        assert_eq!(refused.to_string(), (30 - clients.len()).to_string());
        for client in &mut clients {
            write(client).await.unwrap();
        }
        until("slowly it works", async || bed.client().await.is_ok()).await;
    }
}

#[tokio::test]
async fn a_client_that_is_silent_is_closed_and_one_that_waits_is_not() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.idle = Some(Duration::from_millis(300));
    })
    .await;
    let mut busy = bed.client().await.unwrap();
    let mut silent = bed.client().await.unwrap();
    for _ in 0..8 {
        write(&mut busy).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(is_cut(&mut silent).await);
    // An answer that takes longer than anybody may be idle.
    main.server.inject(&Fault::SlowBolt { ms: 500 }).unwrap();
    write(&mut busy).await.unwrap();
    assert_eq!(
        metric(&bed.gateway, "refused_total{kind=\"idle\"}")
            .await
            .to_string(),
        "1"
    );
}

#[tokio::test]
async fn a_session_without_a_database_is_no_less_idle() {
    let main = Database::main(Some(4)).await;
    let bed = Bed::with(Some(serving(4, 0)), &[main.server.bolt()], |config| {
        config.timeouts.idle = Some(Duration::from_millis(200));
    })
    .await;
    let mut client = bed.client().await.unwrap();
    bed.records
        .send_replace(Some(crate::bed::no_main(&serving(4, 0), 1)));
    until("closed", async || {
        metric(&bed.gateway, "refused_total{kind=\"idle\"}").await > 0.0
    })
    .await;
    assert!(is_cut(&mut client).await);
}
