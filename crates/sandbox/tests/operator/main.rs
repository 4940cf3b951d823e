//! The operator on the small Kubernetes, with stand-ins as real processes.

mod bed;

use anyhow::{Context, Result, ensure};
use bed::{Bed, NAME};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::record::{State, Writes};
use sandbox::standin::memgraph::client::Outcome;

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
    bed.nodes.kill(&Bed::party(0), None)?;
    let after = bed
        .until("served by the other pod", |r| {
            r.state == State::Serving && r.main.as_ref().is_some_and(|m| m.pod == Ordinal(1))
        })
        .await?;
    ensure!(after.term > before.term);
    ensure!(bed.count(1, "Written").await? == acknowledged);
    let healed = bed.until_protected().await?;
    ensure!(healed.sync.is_some_and(|sync| sync.pod == Ordinal(0)));
    operator.stop().await?;
    bed.end().await
}
