//! S6: the Node that holds a member's volume is gone.

use super::bed::{Bed, Kind, is_whole};
use super::looks::uid;
use super::says;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use sandbox::node::Loss;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const MEMBER: &str = "ring-b-0";

/// Why a pod has no Node, if it has none.
fn unscheduled(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|c| c.type_ == "PodScheduled")?;
    scheduled
        .message
        .as_deref()
        .filter(|_| scheduled.status == "False")
}

/// As a provisioner of local disks does it: the volumes of the small Kubernetes are folders, and bound to no Node.
async fn bind_to(bed: &Bed, volume: &str, node: &str) -> Result<()> {
    let volumes: Api<PersistentVolume> = Api::all(bed.client.clone());
    let there = json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": "kubernetes.io/hostname", "operator": "In", "values": [node] }] },
    ] } } } });
    volumes
        .patch(volume, &PatchParams::default(), &Patch::Merge(there))
        .await?;
    Ok(())
}

/// Its pod cannot come up anywhere, because its volume is where the Node was. The claim is given up, and the volume with
/// it; then it is a member like any other that lost its disk.
#[tokio::test(flavor = "multi_thread")]
async fn s6_the_node_of_a_volume_is_gone_and_the_member_comes_up_elsewhere() -> Result<()> {
    let (bed, operator) = Bed::whole_of(Kind::QUICK).await?;
    let (old, node) = (bed.host_of(MEMBER).await?, bed.node_of(MEMBER).await?);
    let claim = bed.claim_of(MEMBER).await?;
    let volume = claim.spec.as_ref().and_then(|s| s.volume_name.clone());
    let volume = volume.context("not bound")?;
    bind_to(&bed, &volume, &node).await?;

    bed.nodes.lose(&node, Loss::Power)?;
    let nodes: Api<Node> = Api::all(bed.client.clone());
    nodes.delete(&node, &DeleteParams::default()).await?;
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let pod = bed.pods().get_opt(MEMBER).await?;
        if let Some(why) = pod.as_ref().and_then(unscheduled) {
            ensure!(why.contains("volume node affinity conflict"), "{why}");
            break;
        }
        ensure!(Instant::now() < deadline, "its pod is not made anew: {pod:?}");
        sleep(Duration::from_millis(100)).await;
    }
    ensure!(
        uid(&bed.claim_of(MEMBER).await?)? == uid(&claim)?,
        "a Node may come back"
    );
    bed.until("without a Node", |s| {
        let gone = format!("the Node that holds the volume of {MEMBER} is gone for good");
        says(s, "StorageLost").is_some_and(|why| why == gone)
    })
    .await?;

    bed.until("whole again", |s| is_whole(s, 3)).await?;
    bed.is_replaced(MEMBER, &old).await?;
    ensure!(bed.node_of(MEMBER).await? != node);
    ensure!(uid(&bed.claim_of(MEMBER).await?)? != uid(&claim)?);
    let volumes: Api<PersistentVolume> = Api::all(bed.client.clone());
    ensure!(
        volumes.get_opt(&volume).await?.is_none(),
        "its volume went with the claim"
    );
    let told = bed.events().await?;
    for reason in ["NodeGone", "Evict", "Replaced"] {
        ensure!(told.iter().any(|r| r == reason), "{reason}: {told:?}");
    }
    operator.stop().await?;
    bed.end().await
}
