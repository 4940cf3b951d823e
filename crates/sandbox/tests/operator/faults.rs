//! Faults and wishes, each until the cluster is serving and protected again.

use crate::bed::{Bed, NAME};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::record::{Record, State};
use sandbox::standin::memgraph::client::Outcome;
use serde_json::{Value, json};

fn serves(record: &Record, pod: u8) -> bool {
    record.state == State::Serving && record.main.as_ref().is_some_and(|m| m.pod == Ordinal(pod))
}

fn protected(record: &Record, pod: u8) -> bool {
    record.sync.is_some_and(|sync| sync.pod == Ordinal(pod))
}

async fn change(bed: &Bed, patch: Value) -> Result<()> {
    bed.clusters()
        .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

async fn write(bed: &Bed, pod: u8, label: &str) -> Result<()> {
    let outcome = bed.bolt(pod).await?.query(&format!("CREATE (:{label})")).await?;
    ensure!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_main_that_hangs_is_replaced_and_comes_back_as_replica() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    write(&bed, 0, "Written").await?;
    bed.nodes.stop_processes(&Bed::party(0), None)?;
    bed.until("served by the other pod", |r| serves(r, 1)).await?;
    ensure!(bed.count(1, "Written").await? == 1);
    bed.nodes.continue_processes(&Bed::party(0), None)?;
    bed.until("protected by the pod that hung", |r| {
        serves(r, 1) && protected(r, 0)
    })
    .await?;
    operator.stop().await?;
    bed.end().await
}

/// To check a password takes longer than one that was called silent is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_main_with_users_that_hangs_is_seen_again() -> Result<()> {
    let bed = Bed::new().await?;
    let secrets: Api<Secret> = Api::default_namespaced(bed.client.clone());
    let secret = serde_json::from_value(json!({
        "metadata": { "name": "login" },
        "stringData": { "username": "admin", "password": "secret" },
    }))?;
    secrets.create(&PostParams::default(), &secret).await?;
    bed.create_with(json!({ "replicas": 2, "credentials": { "secretName": "login" } }))
        .await?;
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    let created = bed
        .bolt(0)
        .await?
        .query("CREATE USER admin IDENTIFIED BY 'secret'")
        .await?;
    ensure!(matches!(created, Outcome::Done(_)), "{created:?}");
    bed.nodes.stop_processes(&Bed::party(0), None)?;
    bed.until("served by the other pod", |r| serves(r, 1)).await?;
    // It is called silent by now, and stays so for some more looks.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    bed.nodes.continue_processes(&Bed::party(0), None)?;
    bed.until("protected by the pod that hung", |r| {
        serves(r, 1) && protected(r, 0)
    })
    .await?;
    operator.stop().await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_restarts_is_proven_again_in_a_new_epoch() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    let before = bed.until_protected().await?.sync.context("not protected")?;
    bed.nodes.kill(&Bed::party(1), None)?;
    let after = bed
        .until("protected by the new process", |r| {
            serves(r, 0) && r.sync.is_some_and(|sync| sync.process != before.process)
        })
        .await?;
    ensure!(after.main.is_some_and(|main| main.epoch.0 > 1), "no new epoch");
    operator.stop().await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_dropped_by_hand_is_withdrawn_and_made_anew() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    let before = bed.until_protected().await?;
    let name = before.sync.context("not protected")?.name;
    let dropped = bed.bolt(0).await?.query(&format!("DROP REPLICA {name}")).await?;
    ensure!(matches!(dropped, Outcome::Done(_)), "{dropped:?}");
    bed.until("protected under another name", |r| {
        serves(r, 0) && r.sync.is_some_and(|sync| sync.name != name)
    })
    .await?;
    operator.stop().await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn main_is_moved_when_asked_and_when_its_pod_is_drained() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    write(&bed, 0, "Written").await?;
    change(
        &bed,
        json!({ "metadata": { "annotations": { "mainstay.dev/switchover-to": "1" } } }),
    )
    .await?;
    bed.until("moved", |r| serves(r, 1) && protected(r, 0)).await?;
    change(
        &bed,
        json!({ "metadata": { "annotations": { "mainstay.dev/switchover-to": null } } }),
    )
    .await?;
    bed.pods()
        .delete(&format!("{NAME}-1"), &DeleteParams::default())
        .await?;
    bed.until("moved away from the pod that is drained", |r| {
        serves(r, 0) && protected(r, 1)
    })
    .await?;
    ensure!(bed.count(0, "Written").await? == 1);
    operator.stop().await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_sleeps_and_wakes_as_it_was() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    write(&bed, 0, "Written").await?;
    change(&bed, json!({ "spec": { "hibernated": true } })).await?;
    bed.until("asleep", |r| r.state == State::Hibernated).await?;
    for _ in 0..600 {
        if bed.pods().list(&ListParams::default()).await?.items.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let left = bed.pods().list(&ListParams::default()).await?.items;
    ensure!(left.is_empty(), "{} pods are left", left.len());
    change(&bed, json!({ "spec": { "hibernated": false } })).await?;
    let awake = bed.until_protected().await?;
    let main = awake.main.context("nobody serves")?.pod.0;
    ensure!(bed.count(main, "Written").await? == 1);
    operator.stop().await?;
    bed.end().await
}
