//! A cluster of memgraph-controller is adopted as it stands.

use crate::bed::{Bed, NAME, PATIENCE};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::record::State;
use sandbox::standin::memgraph::client::Outcome;
use serde_json::json;
use std::time::{Duration, Instant};

async fn done(bed: &Bed, pod: u8, query: &str) -> Result<()> {
    let outcome = bed.bolt(pod).await?.query(query).await?;
    ensure!(matches!(outcome, Outcome::Done(_)), "{query}: {outcome:?}");
    Ok(())
}

/// Three pods as memgraph-controller leaves them: MAIN, STRICT_SYNC, ASYNC, and its ConfigMap.
async fn of_memgraph_controller(bed: &Bed) -> Result<()> {
    bed.stateful_set_of_somebody_else(3).await?;
    for pod in 0..3 {
        bed.until_answers(pod).await?;
    }
    for (pod, mode) in [(1, "STRICT_SYNC"), (2, "ASYNC")] {
        done(bed, pod, "SET REPLICATION ROLE TO REPLICA WITH PORT 10000").await?;
        let address = bed.address(pod, 10_000).await?;
        // The network of the sandbox sees a new port a moment later.
        while tokio::net::TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        done(
            bed,
            0,
            &format!("REGISTER REPLICA memgraph_ha_{pod} {mode} TO \"{address}\""),
        )
        .await?;
    }
    done(bed, 0, "CREATE (:Written)").await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(bed.client.clone());
    let state: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": "memgraph-controller-state" }, "data": { "targetMainIndex": "1" },
    }))?;
    maps.create(&PostParams::default(), &state).await?;
    Ok(())
}

fn uids(pods: &[Pod]) -> Vec<Option<String>> {
    pods.iter().map(ResourceExt::uid).collect()
}

async fn until_said(bed: &Bed, part: &str) -> Result<()> {
    let events: Api<Event> = Api::default_namespaced(bed.client.clone());
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = events.list(&ListParams::default()).await?.items;
        if all
            .iter()
            .filter_map(|event| event.message.as_ref())
            .any(|m| m.contains(part))
        {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "nobody says `{part}`");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until whoever is recorded as MAIN answers and has this many of the label.
async fn until_served_with(bed: &Bed, label: &str, wanted: i64) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    // Until the end of the process that was killed is seen.
    tokio::time::sleep(Duration::from_secs(1)).await;
    loop {
        let record = bed.until("serving", |r| r.state == State::Serving).await?;
        let main = record.main.context("nobody serves")?.pod.0;
        let found = bed.count(main, label).await;
        if found.as_ref().is_ok_and(|found| *found == wanted) && bed.write(main, "After").await.is_ok() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "pod {main} serves: {found:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Its ConfigMap names pod 1, and pod 0 is MAIN and holds everything: the data counts, the hint is told (R8).
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_memgraph_controller_is_adopted_without_a_new_pod() -> Result<()> {
    let bed = Bed::new().await?;
    of_memgraph_controller(&bed).await?;
    let before = uids(&bed.pods().list(&ListParams::default()).await?.items);
    bed.create(3).await?;
    let operator = bed.operator().await?;
    let record = bed.until_protected().await?;
    ensure!(
        record.main.as_ref().is_some_and(|main| main.pod == Ordinal(0)),
        "{record:?}"
    );
    for pod in [1, 2] {
        ensure!(bed.count(pod, "Written").await? == 1);
    }
    ensure!(uids(&bed.pods().list(&ListParams::default()).await?.items) == before);
    until_said(
        &bed,
        "`memgraph-controller-state` of memgraph-controller names pod 1",
    )
    .await?;
    // Its pods do not write every commit through to disk, whatever is declared (R12).
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = bed.clusters().get(NAME).await?.status.context("no status")?;
        let shown = status.conditions.iter().find(|c| c.kind == "Protected");
        let shown = shown.context("no condition")?;
        ensure!(shown.status != "True", "{shown:?}");
        if shown.reason == "NoFsync" {
            break;
        }
        ensure!(Instant::now() < deadline, "{status:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Without our label nobody is told when a pod goes; turns look by themselves.
    bed.nodes.kill(&Bed::party(0), None)?;
    until_served_with(&bed, "Written", 1).await?;
    operator.stop().await?;
    bed.end().await
}
