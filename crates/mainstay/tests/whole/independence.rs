//! Clients need neither operators nor the API server while nothing else is broken.

use crate::bed::{Whole, protected};
use crate::load::{Load, Readers};
use anyhow::{Result, ensure};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const EVERY: Duration = Duration::from_millis(20);
const SESSIONS: i64 = 200;
/// How often each of them writes.
const SELDOM: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread")]
async fn with_both_operators_killed_two_hundred_sessions_notice_nothing() -> Result<()> {
    let whole = Whole::start().await?;
    let before = whole.document().await?.record;
    let load = Load::start(whole.bolt, SESSIONS, SELDOM);
    let readers = Readers::start(whole.reads, 50, Duration::from_secs(1));
    // Until each has a session and has written.
    sleep(SELDOM * 2).await;
    let began = Instant::now();
    for operator in whole.named("mainstay-operator").await? {
        whole.control(json!({ "do": "kill", "pod": operator })).await?;
    }
    // Nor do they come back.
    whole.operators(0).await?;
    while began.elapsed() < Duration::from_secs(20) {
        whole.read_through_gateway().await?;
        sleep(Duration::from_millis(200)).await;
    }
    let fewest = readers.end().await?;
    ensure!(fewest >= 20, "a reader stood still: {fewest} reads");
    let ledger = load.end().await?;
    eprintln!("without operators, {}", ledger.told(began.elapsed()));
    ensure!(ledger.failed == 0, "{} writes failed", ledger.failed);
    let each = 3 * usize::try_from(SESSIONS)?;
    ensure!(ledger.acknowledged.len() >= each, "sessions stood still");
    ledger.is_kept(&whole, 0).await?;
    ensure!(whole.document().await?.record == before, "the record was changed");
    whole.operators(2).await?;
    whole.until("protected", protected).await?;
    whole.end().await
}

/// Holds bytes back between the operators and a pod, or lets them through again.
async fn hide(whole: &Whole, operators: &[String], pod: &str, what: &str) -> Result<()> {
    for operator in operators {
        whole
            .control(json!({ "do": what, "one": pod, "other": operator }))
            .await?;
    }
    Ok(())
}

/// For so long clients read, in both ways.
async fn read_for(whole: &Whole, time: Duration) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < time {
        whole.read_through_gateway().await?;
        whole.read_from_replica().await?;
        sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_api_server_frozen_for_two_minutes_clients_go_on_and_no_role_command_is_sent() -> Result<()>
{
    let whole = Whole::start().await?;
    // ASYNC pods are registered after the pair is protected.
    while whole.ask(0, "SHOW REPLICAS").await?.len() < 2 {
        sleep(Duration::from_millis(100)).await;
    }
    whole.control(json!({ "do": "freeze-api" })).await?;
    let before = whole.document().await?.record;
    let mut commands = Vec::new();
    for pod in 0..3 {
        commands.push(whole.commands(pod).await?);
    }
    ensure!(
        commands.iter().all(|said| !said.is_empty()),
        "the log is empty: {commands:?}"
    );
    let load = Load::start(whole.bolt, 4, EVERY);
    let readers = Readers::start(whole.reads, 4, EVERY);
    let began = Instant::now();
    // No operator reaches MAIN, which with an API is a reason to depose it. Gateways and replicas do. It is for longer than
    // a client waits for its write, so that one that stands still fails.
    let operators = whole.named("mainstay-operator").await?;
    ensure!(operators.len() == 2, "{operators:?}");
    read_for(&whole, Duration::from_secs(20)).await?;
    hide(&whole, &operators, "memgraph-ha-0", "part").await?;
    read_for(&whole, Duration::from_secs(50)).await?;
    hide(&whole, &operators, "memgraph-ha-0", "join").await?;
    read_for(&whole, Duration::from_secs(50)).await?;
    ensure!(readers.end().await? > 0);
    let ledger = load.end().await?;
    eprintln!("without the API, {}", ledger.told(began.elapsed()));
    ensure!(ledger.failed == 0, "{} writes failed", ledger.failed);
    ledger.is_kept(&whole, 0).await?;
    for (pod, before) in (0..3).zip(&commands) {
        ensure!(
            whole.commands(pod).await? == *before,
            "pod {pod} was told to change: {:?}",
            whole.commands(pod).await?
        );
    }
    ensure!(whole.document().await?.record == before, "the record was changed");
    whole.control(json!({ "do": "thaw-api" })).await?;
    whole.until("protected", protected).await?;
    whole.end().await
}
