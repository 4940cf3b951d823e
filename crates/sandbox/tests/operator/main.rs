//! The operator on the small Kubernetes, with stand-ins as real processes.

mod adoption;
mod bed;
mod black_hole;
mod false_divergence;
mod faults;
mod kills;
mod ledger;
mod manifests;
mod mistakes;
mod order;
mod rights;
mod statuses;
mod through_gateway;
#[path = "../shared/trap.rs"]
mod trap;
mod unseen;

use anyhow::{Context, Result, ensure};
use bed::{Bed, NAME};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::record::{State, Writes};
use sandbox::kube::faults::{Fault, On};
use sandbox::standin::memgraph::client::Outcome;
use sim::kube::Method;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_bootstraps_to_serving_and_protected() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(3).await?;
    let operator = bed.operator().await?;
    let record = bed.until_protected().await?;
    let main = record.main.context("nobody serves")?;
    ensure!(main.pod == Ordinal(0) && record.writes == Writes::Open);
    let object = bed.clusters().get(NAME).await?;
    let status = object.status.context("no status")?;
    ensure!(
        status.target_main_pod.as_deref() == Some("memgraph-ha-0"),
        "{status:#?}"
    );
    operator.stop().await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn when_main_is_killed_the_other_pod_serves_and_nothing_acknowledged_is_lost() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    let before = bed.until_protected().await?;
    let mut bolt = bed.bolt(0).await?;
    let mut acknowledged = 0;
    for _ in 0..50 {
        let outcome = bolt.query("CREATE (:Written)").await?;
        ensure!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        acknowledged += 1;
    }
    let killed = std::time::Instant::now();
    bed.nodes.kill(&Bed::party(0), None)?;
    let after = bed
        .until("served by the other pod", |r| {
            r.state == State::Serving && r.main.as_ref().is_some_and(|m| m.pod == Ordinal(1))
        })
        .await?;
    eprintln!("MAIN killed, the other pod serves after {:?}", killed.elapsed());
    ensure!(after.term > before.term);
    ensure!(bed.count(1, "Written").await? == acknowledged);
    let healed = bed.until_protected().await?;
    ensure!(healed.sync.is_some_and(|sync| sync.pod == Ordinal(0)));
    operator.stop().await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_only_looked_at_aborts_no_commit() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    let address = bed.address(1, 10_000).await?;
    let looking = tokio::spawn(async move {
        loop {
            drop(tokio::net::TcpStream::connect(address).await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut bolt = bed.bolt(0).await?;
    for _ in 0..200 {
        let outcome = bolt.query("CREATE (:Written)").await?;
        ensure!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }
    looking.abort();
    operator.stop().await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_is_killed_half_way_is_replaced_by_one_that_goes_on() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let mut seen = 0;
    // Killed as soon as it wrote something more, again and again: each time the next one goes on.
    for round in 1..=4_u64 {
        let operator = bed.operator().await?;
        let record = bed
            .until("one step further", |r| r.revision.0 > seen || r.sync.is_some())
            .await?;
        seen = record.revision.0.max(round);
        operator.kill().await;
    }
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    operator.stop().await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_the_api_that_are_lost_delay_and_break_nothing() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let faults = bed.kubernetes.faults();
    // Done, and not answered: every third write of the record, of an object or of the lease.
    for (path, times) in [
        ("topology", 3),
        ("statefulsets", 2),
        ("leases", 3),
        ("memgraphclusters", 3),
    ] {
        for method in [Method::Post, Method::Put, Method::Patch] {
            faults.inject(Fault::LoseAnswer, On::path(path).method(method).times(times));
        }
    }
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    ensure!(!bed.kubernetes.faults().hits().is_empty(), "no fault hit");
    operator.stop().await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_operators_share_the_work_and_the_second_takes_over() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let first = bed.operator().await?;
    bed.until_protected().await?;
    let second = bed.operator().await?;
    first.kill().await;
    bed.nodes.kill(&Bed::party(0), None)?;
    bed.until("served by the other pod", |r| {
        r.state == State::Serving && r.main.as_ref().is_some_and(|m| m.pod == Ordinal(1))
    })
    .await?;
    let text = http_get(second.http, "/metrics").await?;
    ensure!(text.contains("memgraph_controller_is_leader 1"), "{text}");
    for path in ["/livez", "/readyz"] {
        ensure!(http_get(second.http, path).await?.contains("ok"), "{path}");
    }
    // The turn that wrote the record tells of it when it ends.
    let deadline = std::time::Instant::now() + bed::PATIENCE;
    loop {
        let state = http_get(second.http, "/api/v1/clusters").await?;
        if state.contains("\"current_main\": \"memgraph-ha-1\"") {
            break;
        }
        ensure!(std::time::Instant::now() < deadline, "{state}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    second.stop().await?;
    bed.end().await
}

async fn http_get(address: std::net::SocketAddr, path: &str) -> Result<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: operator\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
