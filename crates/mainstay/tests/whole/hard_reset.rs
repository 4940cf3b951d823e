//! A diverged replica is reset by itself, and a marker that nobody asks for wipes nothing.

use crate::bed::{Whole, serves};
use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;
use mainstay_core::memgraph::ids::{Ordinal, ProcessId, ResetId};
use mainstay_core::memgraph::marker::{MarkerFile, Meant};
use mainstay_core::time::Time;
use std::fs;
use std::time::Duration;
use tokio::time::sleep;

/// The seed's scenario "happy path", from a real divergence: pod 2 was MAIN for a moment and took a write of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_diverged_async_replica_is_reset_by_itself_and_its_data_is_kept() -> Result<()> {
    let whole = Whole::start().await?;
    whole.ask(0, "CREATE (:Written)").await?;
    whole.operators(0).await?;
    for query in [
        "SET REPLICATION ROLE TO MAIN",
        "CREATE (:Stray)",
        "SET REPLICATION ROLE TO REPLICA WITH PORT 10000",
    ] {
        whole.ask(2, query).await.context(query)?;
    }
    whole.ask(0, "CREATE (:Written)").await?;
    // In a young term an ASYNC pod may hold what a failover lost, and is not reset (R20): the term is made an old one.
    let mut document = whole.document().await?;
    document.record.since = Time(document.record.since.0.saturating_sub(10 * 60 * 1_000));
    whole.put(&document).await?;
    let before = [whole.uid(0).await?, whole.uid(1).await?, whole.uid(2).await?];
    let volume = whole.volume(2).await?;

    whole.operators(2).await?;
    let asked = whole
        .until("asking for the reset of pod 2", |r| {
            r.reset.is_some_and(|r| r.pod == Ordinal(2))
        })
        .await?;
    let ResetId(id) = asked.reset.context("no reset")?.id;
    whole.until("done with the reset", |r| r.reset.is_none()).await?;
    whole.until_another(2, &before[2]).await?;

    for _ in 0..600 {
        if whole.count(2, "Written").await.unwrap_or_default() == 2 {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    ensure!(whole.count(2, "Written").await? == 2, "pod 2 has what MAIN has");
    ensure!(whole.count(2, "Stray").await? == 0, "and nothing else");
    let quarantine = volume.join("quarantine").join(id.to_string());
    ensure!(
        fs::read_dir(&quarantine)?.next().is_some(),
        "{} is empty",
        quarantine.display()
    );
    ensure!(
        !volume.join(".hard-reset-requested").exists(),
        "the marker is gone"
    );
    let log = whole.init_log(2).await?;
    ensure!(
        log.contains("Hard reset complete - pod will start with clean slate"),
        "{log}"
    );
    let record = whole
        .until("protected", |r| serves(r, 0) && r.sync.is_some())
        .await?;
    ensure!(record.term == asked.term, "no failover for it");
    ensure!(
        [whole.uid(0).await?, whole.uid(1).await?] == before[..2],
        "nobody else was touched"
    );
    whole.end().await
}

/// The seed's scenario "marker persistence" turned round (T7): the marker outlived its request, and the pod is good.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_marker_on_a_healthy_pod_that_restarts_wipes_nothing() -> Result<()> {
    let whole = Whole::start().await?;
    whole.ask(0, "CREATE (:Written)").await?;
    let record = whole.document().await?.record;
    let uid = whole.uid(2).await?;
    let meant = Meant {
        id: ResetId(record.revision.0),
        term: record.term,
        process: ProcessId(1),
        pod_uid: uid.parse()?,
    };
    let volume = whole.volume(2).await?;
    let marker = volume.join(".hard-reset-requested");
    let file = MarkerFile::new("memgraph-ha-2", Some("memgraph-ha-0"), String::new(), meant);
    fs::write(&marker, file.render()?)?;
    whole
        .pods()
        .delete("memgraph-ha-2", &DeleteParams::default())
        .await?;
    whole.until_another(2, &uid).await?;
    ensure!(!marker.exists(), "the marker is gone");
    ensure!(
        volume.join(".hard-reset-requested.stale").exists(),
        "and kept for whoever asks"
    );
    ensure!(!volume.join("quarantine").exists(), "no data was moved");
    ensure!(
        whole.count(2, "Written").await? == 1,
        "it started on its own data"
    );
    let log = whole.init_log(2).await?;
    ensure!(log.contains("The marker has no effect"), "{log}");
    whole.end().await
}
