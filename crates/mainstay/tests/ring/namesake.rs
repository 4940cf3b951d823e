//! N13: a ring is deleted, and another one of its name is made.

use super::bed::{Bed, Kind, NAME, is_whole};
use super::looks::uid;
use super::says;
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use operator::tap::Tap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Everything that was the ring's is gone.
async fn until_gone(bed: &Bed) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(1);
    let ours = ListParams::default().labels("mainstay.dev/ring=ring");
    loop {
        let pods: Api<Pod> = bed.pods();
        let services: Api<Service> = Api::default_namespaced(bed.client.clone());
        let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(bed.client.clone());
        let left = pods.list(&ours).await?.items.len()
            + services.list(&ours).await?.items.len()
            + claims.list(&ListParams::default()).await?.items.len()
            + bed.maps().list(&ours).await?.items.len();
        if left == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{left} objects are left");
        sleep(Duration::from_millis(200)).await;
    }
}

/// Its ledger and its records go with it. Here somebody brings them back, as a restored backup does, before the next ring
/// of the name is made: they have the uid of the old one, and nothing in them is honoured.
#[tokio::test(flavor = "multi_thread")]
async fn n13_the_ledger_and_the_records_of_a_deleted_ring_are_not_honoured_by_the_next_one() -> Result<()> {
    let kind = Kind {
        members: 2,
        copies: 2,
        ..Kind::QUICK
    };
    let (bed, operator) = Bed::whole_of(kind).await?;
    operator.stop().await?;
    let mut kept: Vec<ConfigMap> = vec![bed.maps().get(&format!("{NAME}-ring")).await?];
    let mut old = Vec::new();
    for member in &bed.members {
        kept.push(
            bed.maps()
                .get(&format!("{member}-autoreplacement-config"))
                .await?,
        );
        old.push(bed.host_of(member).await?);
    }
    let first = uid(&bed.rings().get(NAME).await?)?;
    bed.rings().delete(NAME, &DeleteParams::default()).await?;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(bed.client.clone());
    for member in &bed.members {
        claims
            .delete(&format!("data-{member}"), &DeleteParams::default())
            .await?;
    }
    until_gone(&bed).await?;
    for mut map in kept {
        map.metadata = ObjectMeta {
            name: map.metadata.name.clone(),
            labels: map.metadata.labels.clone(),
            annotations: map.metadata.annotations.clone(),
            ..ObjectMeta::default()
        };
        bed.maps().create(&PostParams::default(), &map).await?;
    }

    bed.create(kind).await?;
    let operator = bed.operator(Tap::default()).await?;
    bed.until("whole", |s| {
        assert_eq!(says(s, "StorageLost"), None, "it never had anything");
        is_whole(s, 2)
    })
    .await?;
    let ledger = bed.ledger().await?;
    let second = uid(&bed.rings().get(NAME).await?)?;
    ensure!(
        second != first && ledger.cluster.to_string() == second,
        "{ledger:?}"
    );
    ensure!(ledger.grants.0 == 2, "one founded and one joined: {ledger:?}");
    for (member, old) in bed.members.iter().zip(&old) {
        let new = bed.host_of(member).await?;
        ensure!(new != *old);
        bed.until_recorded(member, &new).await?;
        let record = bed
            .maps()
            .get(&format!("{member}-autoreplacement-config"))
            .await?;
        ensure!(
            record.annotations().get("mainstay.dev/cluster-uid") == Some(&second),
            "{record:?}"
        );
        let started = bed.command_line(member)?;
        ensure!(!started.contains("replace"), "{started}");
    }
    ensure!(bed.status().await?.replacements.is_empty());
    let told = bed.events().await?;
    ensure!(told.iter().any(|r| r == "OtherCluster"), "{told:?}");
    operator.stop().await?;
    bed.end().await
}
