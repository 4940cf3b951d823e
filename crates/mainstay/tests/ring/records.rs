//! S9 and N19: a record is print. It follows what other members say, and nobody else.

use super::bed::{Bed, Kind, is_whole};
use super::looks::{LONG_ENOUGH, uid};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use operator::tap::Tap;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const MEMBER: &str = "ring-b-0";
const LIVING: &str = "ring-a-0";
const RECORD: &str = "ring-b-0-autoreplacement-config";
const LIVE: &str = "/gossiper/endpoint/live/";

/// Waits until the record is as it should be.
async fn until_record(bed: &Bed, what: &str, fits: impl Fn(&ConfigMap) -> bool) -> Result<ConfigMap> {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let record = bed.maps().get_opt(RECORD).await?;
        match record {
            Some(record) if fits(&record) => return Ok(record),
            other => ensure!(Instant::now() < deadline, "not {what}: {other:?}"),
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Somebody writes a record of a healthy member that names a living one: with the labels that ours has, or without any.
async fn forge(bed: &Bed, was: &ConfigMap, labelled: bool) -> Result<()> {
    let (own, other) = (bed.host_of(MEMBER).await?, bed.host_of(LIVING).await?);
    let named = |texts: &Option<BTreeMap<String, String>>| -> Result<_> {
        let text = serde_json::to_string(texts)?.replace(&own, &other);
        Ok(serde_json::from_str(&text)?)
    };
    let forged = ConfigMap {
        metadata: ObjectMeta {
            name: Some(RECORD.to_owned()),
            labels: was.metadata.labels.clone().filter(|_| labelled),
            annotations: named(&was.metadata.annotations)?,
            ..ObjectMeta::default()
        },
        data: named(&was.data)?,
        ..ConfigMap::default()
    };
    ensure!(forged.data != was.data, "{forged:?}");
    bed.maps().delete(RECORD, &DeleteParams::default()).await?;
    bed.maps().create(&PostParams::default(), &forged).await?;
    Ok(())
}

/// Waits until the pod of the member answers, and is as it was: the same host id, started without an option.
async fn is_as_it_was(bed: &Bed, host: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(1);
    let option = loop {
        match bed.rest(MEMBER, "/v2/config/replace_node_first_boot").await {
            Ok(option) => break option,
            Err(error) => ensure!(Instant::now() < deadline, "{error:#}"),
        }
        sleep(Duration::from_millis(200)).await;
    };
    ensure!(option == "", "it was started with {option}");
    let own = bed.rest(MEMBER, "/storage_service/hostid/local").await?;
    ensure!(own == host, "it is {own}");
    Ok(())
}

/// N19: with nobody there to put it right, a healthy member restarts under a record that names a living one: it has no
/// effect. Then an operator comes, and writes the record again; also one that has no label by which it would be found.
///
/// S9: its Service is made anew, with another address. The record keeps the old one, until the member has joined with the
/// new one and another member lists it there.
#[tokio::test(flavor = "multi_thread")]
async fn s9_n19_a_record_that_is_edited_has_no_effect_and_a_new_address_is_recorded_when_another_lists_it()
-> Result<()> {
    let (bed, operator) = Bed::whole_of(Kind::QUICK).await?;
    let (host, grants) = (bed.host_of(MEMBER).await?, bed.ledger().await?.grants);
    let was = bed.maps().get(RECORD).await?;
    operator.stop().await?;
    forge(&bed, &was, true).await?;
    bed.nodes.kill(&Bed::party(MEMBER), None)?;
    sleep(Duration::from_secs(2)).await;
    is_as_it_was(&bed, &host).await?;
    let operator = bed.operator(Tap::default()).await?;
    let is = until_record(&bed, "written again", |is| is.data == was.data).await?;
    ensure!(is.immutable == Some(true) && is.uid() != was.uid());
    forge(&bed, &was, false).await?;
    let again = until_record(&bed, "found by its name", |again| again.data == was.data).await?;
    ensure!(again.metadata.labels == was.metadata.labels && again.uid() != is.uid());
    bed.until("whole", |s| is_whole(s, 3)).await?;
    operator.stop().await?;

    let services: Api<Service> = Api::default_namespaced(bed.client.clone());
    let (old, service) = (bed.address(MEMBER).await?, services.get(MEMBER).await?);
    services.delete(MEMBER, &DeleteParams::default()).await?;
    // Its address goes to somebody else meanwhile.
    let mut other = service.clone();
    other.metadata = ObjectMeta {
        name: Some("somebody-else".to_owned()),
        ..ObjectMeta::default()
    };
    other.status = None;
    services.create(&PostParams::default(), &other).await?;
    let operator = bed.operator(Tap::default()).await?;
    let record = until_record(&bed, "of the new Service", |r| {
        let owner = r.owner_references().first();
        owner.is_some_and(|o| Some(&o.uid) != service.metadata.uid.as_ref())
    })
    .await?;
    let new = bed.address(MEMBER).await?;
    ensure!(new != old);
    let names = |record: &ConfigMap, address: &str| {
        let mut noted = record.annotations().values();
        noted.any(|value| value == address)
    };
    ensure!(names(&record, &old) && !names(&record, &new), "{record:?}");
    let until = Instant::now() + LONG_ENOUGH;
    while Instant::now() < until {
        let known = bed.ledger().await?.known[&MEMBER.parse()?].clone();
        ensure!(known.address.to_string() == old, "nobody lists it at {new} yet");
        sleep(Duration::from_millis(200)).await;
    }

    let pod = uid(&bed.pods().get(MEMBER).await?)?;
    bed.pods()
        .delete(MEMBER, &DeleteParams::default().grace_period(1))
        .await?;
    let renewed = until_record(&bed, "of the new address", |r| names(r, &new)).await?;
    ensure!(
        bed.lists(LIVING, LIVE, &new).await?,
        "another member lists it by then"
    );
    ensure!(!names(&renewed, &old) && renewed.data == was.data, "{renewed:?}");
    bed.until("whole again", |s| is_whole(s, 3)).await?;
    ensure!(uid(&bed.pods().get(MEMBER).await?)? != pod);
    let known = bed.ledger().await?.known.remove(&MEMBER.parse()?);
    let known = known.context("not on record")?;
    ensure!(known.address.to_string() == new && known.host.to_string() == host);
    ensure!(bed.ledger().await?.grants == grants, "nothing was permitted");
    is_as_it_was(&bed, &host).await?;
    operator.stop().await?;
    bed.end().await
}
