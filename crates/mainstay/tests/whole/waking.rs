//! A connection wakes a cluster that hibernates.

use crate::bed::{Whole, protected};
use crate::load::Load;
use anyhow::{Result, ensure};
use api::MemgraphCluster;
use kube::api::{Api, Patch, PatchParams};
use mainstay_core::memgraph::record::State;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::time::sleep;

#[tokio::test(flavor = "multi_thread")]
async fn the_first_connection_wakes_the_cluster_and_finds_everything_as_it_was() -> Result<()> {
    let whole = Whole::start().await?;
    let load = Load::start(whole.bolt, 4, Duration::from_millis(50));
    sleep(Duration::from_secs(2)).await;
    let ledger = load.end().await?;
    let clusters: Api<MemgraphCluster> = Api::namespaced(whole.client.clone(), "default");
    let sleep_now = Patch::Merge(json!({ "spec": { "hibernated": true } }));
    let params = PatchParams::default();
    clusters.patch("memgraph-ha", &params, &sleep_now).await?;
    whole
        .until("asleep", |record| record.state == State::Hibernated)
        .await?;
    while !whole.named("memgraph-ha-0").await?.is_empty() {
        sleep(Duration::from_millis(100)).await;
    }
    // Nobody came, so it goes on sleeping.
    sleep(Duration::from_secs(3)).await;
    ensure!(clusters.get("memgraph-ha").await?.spec.hibernated);
    let began = Instant::now();
    let auth = bolt::message::Auth::None;
    let patience = Duration::from_mins(2);
    let mut client =
        sandbox::standin::memgraph::client::Client::connect_within(whole.bolt, auth, patience).await?;
    let found = client.query("MATCH (n:Numbered) RETURN count(n)").await?;
    eprintln!("served after {:.1} s", began.elapsed().as_secs_f64());
    ensure!(found.rows().is_some(), "{found:?}");
    ensure!(!clusters.get("memgraph-ha").await?.spec.hibernated);
    let record = whole.until("protected", protected).await?;
    let main = record.main.map_or(0, |main| main.pod.0);
    ledger.is_kept(&whole, main).await?;
    whole.end().await
}
