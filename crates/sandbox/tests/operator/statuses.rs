//! What was reported and is not so any more is gone from the object too.

use anyhow::{Context, Result, ensure};
use api::memgraph::{QuarantineStatus, TermStatus};
use api::ring::CheckStatus;
use api::{MemgraphCluster, MemgraphClusterStatus, RingCluster, RingClusterStatus};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use mainstay_core::memgraph::ids::Term;
use sandbox::kube::Kubernetes;
use sandbox::kube::faults::{Fault, On};
use serde_json::json;
use sim::kube::Method;
use std::time::{Duration, Instant};

use crate::bed::{Bed, NAME, PATIENCE};

/// As both reporters write it.
fn patch(status: impl serde::Serialize) -> Patch<serde_json::Value> {
    Patch::Merge(json!({ "status": status }))
}

#[tokio::test]
async fn a_field_that_was_set_and_becomes_empty_is_gone() -> Result<()> {
    let kubernetes = Kubernetes::new(3);
    let client = kubernetes.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in api::kinds() {
        definitions.create(&PostParams::default(), &kind).await?;
    }
    let params = PatchParams::default();

    let clusters: Api<MemgraphCluster> = Api::default_namespaced(client.clone());
    let cluster = serde_json::from_value(json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
        "metadata": { "name": NAME }, "spec": {},
    }))?;
    clusters.create(&PostParams::default(), &cluster).await?;
    let full = MemgraphClusterStatus {
        lag: Some(3),
        quarantines: vec![QuarantineStatus {
            pod: "memgraph-ha-2".to_owned(),
            id: 9,
            bytes: 1,
            kept: false,
        }],
        ..MemgraphClusterStatus::default()
    };
    for status in [full, MemgraphClusterStatus::default()] {
        clusters.patch_status(NAME, &params, &patch(&status)).await?;
        let read = clusters.get(NAME).await?.status.context("no status")?;
        ensure!(read == status, "{read:#?}");
    }

    let rings: Api<RingCluster> = Api::default_namespaced(client);
    let ring = serde_json::from_value(json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "RingCluster",
        "metadata": { "name": "ring" }, "spec": { "image": "scylladb/scylla:2025.2.0", "racks": [{ "name": "a", "members": 3 }] },
    }))?;
    rings.create(&PostParams::default(), &ring).await?;
    let full = RingClusterStatus {
        checks: vec![CheckStatus {
            name: "Quorum".to_owned(),
            member: "ring-0".to_owned(),
            holds: false,
            message: "two are down".to_owned(),
        }],
        ..RingClusterStatus::default()
    };
    for status in [full, RingClusterStatus::default()] {
        rings.patch_status("ring", &params, &patch(&status)).await?;
        let read = rings.get("ring").await?.status.context("no status")?;
        ensure!(read == status, "{read:#?}");
    }
    kubernetes.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_cluster_is_not_written_about() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    let version = async || -> Result<_> { Ok(bed.clusters().get(NAME).await?.metadata.resource_version) };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let before = version().await?;
        // Some turns.
        tokio::time::sleep(Duration::from_secs(3)).await;
        if version().await? == before {
            break;
        }
        ensure!(
            Instant::now() < deadline,
            "it is written about for ever: {:#?}",
            bed.clusters().get(NAME).await?.status
        );
    }
    operator.stop().await?;
    bed.end().await
}

/// Waits until all parts of a term were measured.
async fn measured(bed: &Bed, term: Term) -> Result<(TermStatus, [u64; 4])> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let history = bed.clusters().get(NAME).await?.status.unwrap_or_default().history;
        let found = history.iter().find(|tenure| tenure.term == term.0);
        if let Some(tenure) = found
            && let (Some(detect), Some(fence), Some(promote), Some(open)) = (
                tenure.detect_ms,
                tenure.fence_ms,
                tenure.promote_ms,
                tenure.open_ms,
            )
        {
            return Ok((tenure.clone(), [detect, fence, promote, open]));
        }
        ensure!(
            Instant::now() < deadline,
            "{term:?} is not measured: {history:#?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_parts_of_a_failover_are_measured_and_outlive_the_operator() -> Result<()> {
    /// What every write of the record takes at least, for times that cannot be mistaken for none.
    const SLOW: Duration = Duration::from_millis(150);
    let bed = Bed::new().await?;
    let gateway = bed.gateway("one").await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    let faults = bed.kubernetes.faults();
    let slow = faults.inject(Fault::Delay(SLOW), On::path("topology").method(Method::Put));
    let began = Instant::now();
    let (record, _) = bed.fail_over().await?;
    let (tenure, parts) = measured(&bed, record.term).await?;
    let took = began.elapsed().as_millis();
    faults.lift(slow);
    eprintln!("detect, fence, promote, open: {parts:?} of {took} ms");
    let [detect, _, _, open] = parts;
    for part in [detect, open] {
        ensure!(u128::from(part) >= SLOW.as_millis(), "{tenure:?}");
    }
    let sum: u64 = parts.iter().sum();
    ensure!(u128::from(sum) <= took, "{sum} of {took} ms: {tenure:?}");
    ensure!(tenure.pod == format!("{NAME}-1"), "{tenure:?}");

    // The next operator measured nothing of it, and does not forget it.
    operator.stop().await?;
    let operator = bed.operator().await?;
    let (record, _) = bed.fail_over().await?;
    measured(&bed, record.term).await?;
    let history = bed
        .clusters()
        .get(NAME)
        .await?
        .status
        .context("no status")?
        .history;
    ensure!(history.contains(&tenure), "{tenure:?} is not in {history:#?}");
    operator.stop().await?;
    drop(gateway);
    bed.end().await
}
