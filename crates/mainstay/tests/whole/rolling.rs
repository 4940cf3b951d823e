//! All pods are made anew under load: MAIN last, its office moves once, nothing is lost.

use crate::bed::{Whole, serves};
use crate::load::Load;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// In which order the pods were made anew, with the MAIN of each moment.
async fn order(whole: &Whole) -> Result<Vec<u8>> {
    let mut before = Vec::new();
    for pod in 0..3 {
        before.push(whole.uid(pod).await?);
    }
    let mut order = Vec::new();
    let deadline = Instant::now() + Duration::from_mins(5);
    while order.len() < 3 {
        for (pod, before) in (0_u8..).zip(&before) {
            if !order.contains(&pod) && whole.uid(pod).await.is_ok_and(|now| now != *before) {
                order.push(pod);
            }
        }
        ensure!(Instant::now() < deadline, "only {order:?} were made anew");
        sleep(Duration::from_millis(100)).await;
    }
    Ok(order)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_under_load_moves_main_once_and_loses_nothing() -> Result<()> {
    let whole = Whole::start().await?;
    let before = whole.document().await?.record;
    // Two hundred writes a second.
    let load = Load::start(whole.bolt, 4, Duration::from_millis(20));
    let sets: Api<StatefulSet> = Api::namespaced(whole.client.clone(), "default");
    // What `kubectl rollout restart` does.
    let patch = json!({ "spec": { "template": { "metadata": { "annotations": { "restarted": "now" } } } } });
    let began = Instant::now();
    sets.patch("memgraph-ha", &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    let order = order(&whole).await?;
    let old = before.main.context("nobody serves")?.process;
    let after = whole
        .until("served by pod 1 and protected by the new pod 0", |r| {
            serves(r, 1) && r.sync.is_some_and(|sync| sync.process != old)
        })
        .await?;
    let took = began.elapsed();
    let ledger = load.end().await?;
    ensure!(order == [2, 1, 0], "{order:?}");
    let document = whole.document().await?;
    let moves = document
        .history
        .iter()
        .filter(|tenure| tenure.term > before.term)
        .map(|tenure| (tenure.pod.0, tenure.why.as_str()))
        .collect::<Vec<_>>();
    let to_pod_1 = moves.iter().filter(|(pod, _)| *pod == 1);
    eprintln!("{}; terms {moves:?}", ledger.told(took));
    ensure!(
        to_pod_1.filter(|(_, why)| *why == "SWITCHOVER").count() == 1,
        "{moves:?}"
    );
    ensure!(
        moves.iter().all(|(_, why)| *why != "FAILOVER"),
        "nobody failed: {moves:?}"
    );
    let main = after.main.context("nobody serves")?.pod.0;
    ledger.is_kept(&whole, main).await?;
    whole.end().await
}
