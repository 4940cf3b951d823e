//! S83: a plan puts a Memgraph cluster of three pods to sleep and wakes it.

use crate::bed::{NAME, Whole, protected, serves};
use crate::load::Load;
use anyhow::{Context, Result, ensure};
use api::{HibernatePlan, MemgraphCluster};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use mainstay_core::memgraph::document::{Document, Parsed};
use mainstay_core::memgraph::record::{State, Writes};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const PLAN: &str = "nights";
const PODS: u8 = 3;
/// Longer than anything that would make a pod suspect by day.
const NIGHT: Duration = Duration::from_secs(10);

/// The plan, which sleeps only because somebody asks for it.
fn plan() -> Result<HibernatePlan> {
    let now = jiff::Timestamp::now();
    let (from, until) = (now - Duration::from_mins(1), now + Duration::from_hours(1));
    Ok(serde_json::from_value(json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "HibernatePlan",
        "metadata": {
            "name": PLAN,
            "annotations": { "mainstay.dev/override": format!("asleep {from:.0} {until:.0} a test") },
        },
        "spec": {
            "schedule": { "timezone": "UTC", "holidays": [{ "date": "2020-01-01" }] },
            "targets": [{ "name": "graphs", "executor": "memgraph", "parameters": { "names": [NAME] } }],
        },
    }))?)
}

fn version(object: &impl ResourceExt) -> Result<u64> {
    Ok(object.resource_version().context("no version")?.parse()?)
}

/// When what was seen first, counted in versions: every write of this Kubernetes has the next one.
#[derive(Debug, Default)]
struct Order {
    /// The record said that it sleeps.
    recorded: Option<u64>,
    /// A pod was told to end, or was gone.
    told: BTreeMap<String, u64>,
}

/// Watches records and pods until all of them were told to end.
async fn order(client: Client, from: String) -> Result<Order> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    let params = WatchParams::default();
    let mut maps = maps.watch(&params, &from).await?.boxed();
    let mut pods = pods.watch(&params, &from).await?.boxed();
    let mut order = Order::default();
    while order.recorded.is_none() || order.told.len() < usize::from(PODS) {
        tokio::select! {
            change = maps.try_next() => {
                let change = change?.context("the watch of records has ended")?;
                if let WatchEvent::Modified(map) = change
                    && map.name_any() == format!("{NAME}-topology")
                    && order.recorded.is_none()
                    && sleeps(&map)?
                {
                    order.recorded = Some(version(&map)?);
                }
            }
            change = pods.try_next() => {
                let (pod, gone) = match change?.context("the watch of pods has ended")? {
                    WatchEvent::Modified(pod) => { let gone = pod.metadata.deletion_timestamp.is_some(); (pod, gone) }
                    WatchEvent::Deleted(pod) => (pod, true),
                    _ => continue,
                };
                let name = pod.name_any();
                let number = name.strip_prefix(NAME).and_then(|rest| rest.strip_prefix('-'));
                if gone && number.is_some_and(|number| number.parse::<u8>().is_ok()) {
                    let at = version(&pod)?;
                    order.told.entry(name).or_insert(at);
                }
            }
        }
    }
    Ok(order)
}

/// Does the record say that it sleeps, with nothing left to be written?
fn sleeps(map: &ConfigMap) -> Result<bool> {
    let data = map.data.clone().unwrap_or_default();
    Ok(match Document::parse(&data)? {
        Parsed::Full { document, .. } => {
            let record = document.record;
            record.state == State::Hibernated && record.writes == Writes::Closed && record.sync.is_some()
        }
        Parsed::SeedOnly { .. } => false,
    })
}

async fn until_phase(plans: &Api<HibernatePlan>, phase: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(4);
    loop {
        let status = plans.get(PLAN).await?.status.unwrap_or_default();
        if status.phase.as_deref() == Some(phase) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "not {phase}: {status:#?}");
        sleep(Duration::from_millis(200)).await;
    }
}

/// The numbers that a pod has.
async fn numbers(whole: &Whole, pod: u8) -> Result<BTreeSet<i64>> {
    let rows = whole.ask(pod, "MATCH (n:Numbered) RETURN n.n AS n").await?;
    Ok(rows.iter().filter_map(|row| row.first()?.as_int()).collect())
}

/// What each pod keeps its data on.
async fn claims(whole: &Whole) -> Result<Vec<Option<String>>> {
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(whole.client.clone());
    let all = claims.list(&ListParams::default()).await?.items;
    Ok(all.iter().map(ResourceExt::uid).collect())
}

/// What the operator warns of.
async fn warnings(whole: &Whole) -> Result<BTreeSet<String>> {
    let events: Api<Event> = Api::default_namespaced(whole.client.clone());
    let all = events.list(&ListParams::default()).await?.items.into_iter();
    let of_it = all.filter(|event| {
        let cluster = event.involved_object.kind.as_deref() == Some("MemgraphCluster");
        cluster && event.type_.as_deref() != Some("Normal")
    });
    Ok(of_it.filter_map(|event| event.message).collect())
}

/// Nothing is decided about the cluster while it sleeps, and nobody is alarmed.
async fn stays_quiet(whole: &Whole) -> Result<()> {
    let (before, warned) = (whole.document().await?, warnings(whole).await?);
    let until = Instant::now() + NIGHT;
    while Instant::now() < until {
        let pods = whole.named(&format!("{NAME}-")).await?;
        let databases = (0..PODS).map(|pod| format!("{NAME}-{pod}"));
        let up: Vec<String> = databases.filter(|name| pods.contains(name)).collect();
        ensure!(up.is_empty(), "{up:?} are up at night");
        let now = whole.document().await?;
        ensure!(now == before, "asleep, and yet: {now:#?}");
        sleep(Duration::from_millis(250)).await;
    }
    let now = warnings(whole).await?;
    ensure!(now == warned, "{:#?}", now.difference(&warned));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s83_a_plan_puts_three_pods_to_sleep_and_the_same_main_leads_with_the_same_data() -> Result<()> {
    let whole = Whole::start().await?;
    // Not the pod that would lead anyway.
    whole.mainstay(&["switchover", &format!("{NAME}-1")]).await?;
    let moved = |r: &mainstay_core::memgraph::Record| serves(r, 1) && protected(r);
    whole.until("led by pod 1 and protected", moved).await?;
    let load = Load::start(whole.bolt, 4, Duration::from_millis(20));
    sleep(Duration::from_secs(3)).await;
    let ledger = load.end().await?;
    let before = whole.document().await?;
    let main = before.record.main.clone().context("nobody serves")?;
    let volumes = claims(&whole).await?;

    let from = whole.pods().list(&ListParams::default()).await?;
    let from = from.metadata.resource_version.context("no version")?;
    let watching: JoinHandle<Result<Order>> = tokio::spawn(order(whole.client.clone(), from));
    let plans: Api<HibernatePlan> = Api::default_namespaced(whole.client.clone());
    plans.create(&PostParams::default(), &plan()?).await?;
    until_phase(&plans, "Hibernated").await?;
    let order = watching.await??;
    let recorded = order.recorded.context("it was never recorded")?;
    eprintln!("recorded at {recorded}, told to end: {:?}", order.told);
    ensure!(
        order.told.values().all(|told| *told > recorded),
        "a pod went before writes were closed and the copy was proven: {order:?}"
    );
    let clusters: Api<MemgraphCluster> = Api::default_namespaced(whole.client.clone());
    ensure!(clusters.get(NAME).await?.spec.hibernated);
    let asleep = whole.document().await?;
    ensure!(
        asleep.record.term == before.record.term,
        "a term was begun to sleep"
    );
    stays_quiet(&whole).await?;

    let wake = Patch::Merge(json!({ "metadata": { "annotations": { "mainstay.dev/override": null } } }));
    plans.patch(PLAN, &PatchParams::default(), &wake).await?;
    until_phase(&plans, "Active").await?;
    let record = whole.until("led by pod 1 and protected", moved).await?;
    let now = record.main.context("nobody serves")?;
    ensure!(
        (now.volume, now.database) == (main.volume, main.database),
        "{now:?} was {main:?}"
    );
    let after = whole.document().await?;
    let terms: Vec<(u8, &str)> = after
        .history
        .iter()
        .filter(|tenure| tenure.term > before.record.term)
        .map(|tenure| (tenure.pod.0, tenure.why.as_str()))
        .collect();
    eprintln!("terms since: {terms:?}");
    ensure!(terms.first() == Some(&(1, "WAKE")), "{terms:?}");
    // A term of the same pod renews the epoch of pods that restarted; nobody else ever led.
    let led = terms
        .iter()
        .all(|(pod, why)| *pod == 1 && *why != "FAILOVER" && *why != "STRAY");
    ensure!(led, "{terms:?}");
    let status = whole.status().await?;
    ensure!(
        status.resets.is_empty() && status.quarantines.is_empty(),
        "somebody was reset: {status:#?}"
    );
    ensure!(claims(&whole).await? == volumes, "a volume was made anew");

    ledger.is_kept(&whole, 1).await?;
    let all = numbers(&whole, 1).await?;
    for pod in [0, 2] {
        whole.until_level(1, pod, "Numbered").await?;
        ensure!(numbers(&whole, pod).await? == all, "pod {pod} has other data");
    }
    let load = Load::counting_from(1_000_000, whole.bolt, 2, Duration::from_millis(50));
    sleep(Duration::from_secs(1)).await;
    load.end().await?.is_kept(&whole, 1).await?;
    whole.end().await
}
