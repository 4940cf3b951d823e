//! N3 and N4: a member that lives on while a new pod of its name waits with an empty disk.

use super::bed::{Bed, Kind, is_whole};
use super::looks::{LONG_ENOUGH, against, gate};
use super::says;
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use operator::tap::Tap;
use sandbox::node::{Direction, Loss, Party};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const MEMBER: &str = "ring-a-0";
const LIVE: &str = "/gossiper/endpoint/live/";
const DOWN: &str = "/gossiper/endpoint/down/";

/// The agent of its Node is gone and its process is not; a human gives the pod up by force. Nothing in Kubernetes tells
/// that it lives any more: only the others do.
async fn given_up_alive(bed: &Bed, node: &str) -> Result<()> {
    bed.nodes.lose(node, Loss::Agent)?;
    let nodes: Api<Node> = Api::all(bed.client.clone());
    let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    nodes.patch(node, &PatchParams::default(), &cordon).await?;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(bed.client.clone());
    claims
        .delete(&format!("data-{MEMBER}"), &DeleteParams::default())
        .await?;
    bed.pods()
        .delete(MEMBER, &DeleteParams::default().grace_period(0))
        .await?;
    Ok(())
}

/// First both others see it alive (N3); then one of them is cut off from it and calls it down, and the other does not
/// (N4). One that sees it is enough to hold, and it is named.
#[tokio::test(flavor = "multi_thread")]
async fn n3_n4_one_that_lives_is_not_replaced_although_its_pod_is_empty_and_another_member_calls_it_down()
-> Result<()> {
    let (bed, operator) = Bed::whole_of(Kind::QUICK).await?;
    let (old, address) = (bed.host_of(MEMBER).await?, bed.address(MEMBER).await?);
    let node = bed.node_of(MEMBER).await?;
    given_up_alive(&bed, &node).await?;
    let alive = format!("StillAlive: ring-b-0 sees {old} alive");
    bed.until("held by both", |s| {
        let empty = gate(s, MEMBER) == "Empty" && says(s, "StorageLost").is_some();
        empty && against(s, MEMBER, "Down") == Some(&alive)
    })
    .await?;
    bed.holds(&[MEMBER]).await?;

    let deaf = Bed::party("ring-b-0");
    let others = [MEMBER, "ring-c-0"].map(Bed::party);
    for other in &others {
        bed.nodes.cut(&deaf, other, Direction::Both);
    }
    bed.until_listed(&["ring-b-0"], DOWN, &address).await?;
    bed.until_listed(&["ring-c-0"], LIVE, &address).await?;
    let alive = format!("StillAlive: ring-c-0 sees {old} alive");
    let held = bed
        .until("held by one", |s| against(s, MEMBER, "Down") == Some(&alive))
        .await?;
    let said = says(&held, "ReplacementHeld").unwrap_or_default();
    ensure!(said == format!("{MEMBER} is not replaced yet: {alive}"), "{said}");
    let why = bed.why().await?;
    ensure!(why.contains("HELD") && why.contains(&alive), "{why}");
    bed.holds(&[MEMBER]).await?;
    ensure!(bed.lists("ring-b-0", DOWN, &address).await? && bed.lists("ring-c-0", LIVE, &address).await?);

    // Its Node is back and ends what has no pod any more. Now it is dead, and all say so.
    for other in &others {
        bed.nodes.heal(&deaf, other, Direction::Both);
    }
    bed.nodes.revive(&node)?;
    bed.until("whole again", |s| is_whole(s, 3)).await?;
    bed.is_replaced(MEMBER, &old).await?;
    operator.stop().await?;
    bed.end().await
}

/// For how long a gate may use a permission here.
const LASTS: Duration = Duration::from_secs(6);

/// Everybody calls the living one dead, because it is cut off, and its new pod is permitted to replace it. The gate does
/// not hear of it before the cut has healed and the old one is seen alive again: then it is too late for that permission.
#[tokio::test(flavor = "multi_thread")]
async fn n3_a_permission_that_the_gate_hears_of_too_late_replaces_nobody() -> Result<()> {
    let (bed, operator) = Bed::whole_of(Kind::QUICK).await?;
    operator.stop().await?;
    let operator = bed.operator_whose_permissions_last(LASTS, Tap::default()).await?;
    let (old, address) = (bed.host_of(MEMBER).await?, bed.address(MEMBER).await?);
    let node = bed.node_of(MEMBER).await?;
    given_up_alive(&bed, &node).await?;
    bed.until("held", |s| {
        let alive = against(s, MEMBER, "Down").is_some_and(|text| text.starts_with("StillAlive"));
        gate(s, MEMBER) == "Empty" && alive
    })
    .await?;

    let (own, others) = (Bed::party(MEMBER), ["ring-b-0", "ring-c-0"].map(Bed::party));
    bed.nodes.cut(&own, &Party::Api, Direction::Both);
    for other in &others {
        bed.nodes.cut(&own, other, Direction::Both);
    }
    let deadline = Instant::now() + Duration::from_mins(2);
    while bed.ledger().await?.work.is_none_or(|work| work.grant().is_none()) {
        ensure!(Instant::now() < deadline, "{:#?}", bed.status().await?);
        sleep(Duration::from_millis(100)).await;
    }
    // Nobody is there who could take it back: it is the gate's own affair.
    operator.stop().await?;
    sleep(LASTS).await;
    for other in &others {
        bed.nodes.heal(&own, other, Direction::Both);
    }
    bed.until_listed(&["ring-b-0", "ring-c-0"], LIVE, &address)
        .await?;
    bed.nodes.heal(&own, &Party::Api, Direction::Both);
    let deadline = Instant::now() + Duration::from_mins(1);
    while !bed
        .log(MEMBER)
        .await?
        .contains("the permission is older than it may be")
    {
        ensure!(Instant::now() < deadline, "{}", bed.log(MEMBER).await?);
        sleep(Duration::from_millis(200)).await;
    }
    sleep(LONG_ENOUGH).await;
    let log = bed.log(MEMBER).await?;
    ensure!(!log.contains("starting"), "{log}");

    // The next operator takes it back, and sees who lives.
    let operator = bed.operator_whose_permissions_last(LASTS, Tap::default()).await?;
    bed.until("held again", |s| {
        let alive = against(s, MEMBER, "Down").is_some_and(|text| text.starts_with("StillAlive"));
        s.work.is_empty() && alive
    })
    .await?;
    let ledger = bed.ledger().await?;
    ensure!(ledger.work.is_none() && ledger.retired.is_empty(), "{ledger:?}");
    bed.holds(&[MEMBER]).await?;
    bed.nodes.revive(&node)?;
    bed.until("whole again", |s| is_whole(s, 3)).await?;
    bed.is_replaced(MEMBER, &old).await?;
    operator.stop().await?;
    bed.end().await
}
