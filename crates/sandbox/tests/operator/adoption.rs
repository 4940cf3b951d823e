//! A cluster of memgraph-controller is adopted as it stands.

use crate::bed::{Bed, NAME, PATIENCE};
use crate::trap::Trap;
use anyhow::{Context, Result, ensure};
use bolt::packstream::Value;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Service};
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

/// How memgraph-controller left a cluster.
#[derive(Clone, Copy)]
struct Left {
    /// Who is MAIN.
    main: u8,
    /// Whom its ConfigMap names.
    index: u8,
    /// Whether replicas are registered by their names; by their addresses otherwise, as older versions did.
    named: bool,
}

/// Three pods as memgraph-controller leaves them: MAIN, STRICT_SYNC, ASYNC, and its ConfigMap.
async fn of_memgraph_controller(bed: &Bed, left: Left) -> Result<()> {
    let Left { main, index, named } = left;
    bed.stateful_set_of_somebody_else(3).await?;
    if named {
        headless_service(bed).await?;
    }
    for pod in 0..3 {
        bed.until_answers(pod).await?;
    }
    for (pod, mode) in [(1 - main, "STRICT_SYNC"), (2, "ASYNC")] {
        done(bed, pod, "SET REPLICATION ROLE TO REPLICA WITH PORT 10000").await?;
        let address = bed.address(pod, 10_000).await?;
        // The network of the sandbox sees a new port a moment later.
        while tokio::net::TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let at = if named {
            named_at(bed, pod).await?
        } else {
            address.to_string()
        };
        done(
            bed,
            main,
            &format!("REGISTER REPLICA memgraph_ha_{pod} {mode} TO \"{at}\""),
        )
        .await?;
    }
    done(bed, main, "CREATE (:Written)").await?;
    let maps: Api<ConfigMap> = Api::default_namespaced(bed.client.clone());
    let state: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": "memgraph-controller-state" }, "data": { "targetMainIndex": index.to_string() },
    }))?;
    maps.create(&PostParams::default(), &state).await?;
    Ok(())
}

/// The Service of its chart, by which pods have names.
async fn headless_service(bed: &Bed) -> Result<()> {
    let service: Service = serde_json::from_value(json!({
        "metadata": { "name": NAME },
        "spec": { "clusterIP": "None", "selector": { "app": "memgraph" }, "ports": [{ "port": 7687 }] },
    }))?;
    let services: Api<Service> = Api::default_namespaced(bed.client.clone());
    services.create(&PostParams::default(), &service).await?;
    Ok(())
}

/// The name of a pod, as soon as it is known in the cluster. It is registered without a port, which means 10000.
async fn named_at(bed: &Bed, pod: u8) -> Result<String> {
    let name = format!("{NAME}-{pod}.{NAME}.default.svc.cluster.local");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let hosts = std::fs::read_to_string(bed.nodes.hosts_file("default")).unwrap_or_default();
        if !sandbox::node::lookup(&hosts, &name).is_empty() {
            return Ok(name);
        }
        ensure!(Instant::now() < deadline, "nobody knows {name}: {hosts}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until MAIN lists a replica under this address.
async fn until_listed(bed: &Bed, main: u8, replica: &str, address: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let outcome = bed.bolt(main).await?.query("SHOW REPLICAS").await?;
        let rows = outcome.rows().context("refused")?;
        let text = |row: &[Value<'_>], column| row.get(column).and_then(Value::as_str).map(str::to_owned);
        let mut listed = rows.iter().map(|row| (text(row, 0), text(row, 1)));
        if listed.any(|(name, at)| name.as_deref() == Some(replica) && at.as_deref() == Some(address)) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "{replica} is not listed at {address}: {rows:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
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
    let left = Left {
        main: 0,
        index: 1,
        named: false,
    };
    of_memgraph_controller(&bed, left).await?;
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

/// What newer versions leave: names, which mean the same pods as their addresses do. A MAIN whose replicas were taken for
/// somebody else's would not be known to hold everything (R8), and nobody would serve.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_replicas_are_registered_by_name_is_adopted_without_a_new_pod() -> Result<()> {
    let bed = Bed::new().await?;
    let left = Left {
        main: 0,
        index: 0,
        named: true,
    };
    of_memgraph_controller(&bed, left).await?;
    let named = |pod: u8| format!("{NAME}-{pod}.{NAME}.default.svc.cluster.local:10000");
    for pod in [1, 2] {
        until_listed(&bed, 0, &format!("memgraph_ha_{pod}"), &named(pod)).await?;
    }
    let before = uids(&bed.pods().list(&ListParams::default()).await?.items);
    bed.create(3).await?;
    let operator = bed.operator_by_name().await?;
    let record = bed.until_protected().await?;
    ensure!(
        record.main.as_ref().is_some_and(|main| main.pod == Ordinal(0)),
        "{record:?}"
    );
    let sync = record.sync.context("not protected")?.name.to_string();
    until_listed(&bed, 0, &sync, &named(1)).await?;
    until_listed(&bed, 0, "memgraph_ha_2", &named(2)).await?;
    for pod in [1, 2] {
        ensure!(bed.count(pod, "Written").await? == 1);
    }
    ensure!(uids(&bed.pods().list(&ListParams::default()).await?.items) == before);
    bed.nodes.kill(&Bed::party(0), None)?;
    until_served_with(&bed, "Written", 1).await?;
    operator.stop().await?;
    bed.end().await
}

/// A failover of memgraph-controller is behind it: pod 1 is MAIN, and its ConfigMap says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_main_is_pod_1_is_adopted_with_that_main() -> Result<()> {
    let bed = Bed::new().await?;
    let left = Left {
        main: 1,
        index: 1,
        named: false,
    };
    of_memgraph_controller(&bed, left).await?;
    let before = uids(&bed.pods().list(&ListParams::default()).await?.items);
    bed.create(3).await?;
    // Nobody dies: it only tells.
    let told = Trap::default();
    let operator = bed.operator_with(told.tap()).await?;
    let record = bed.until_protected().await?;
    ensure!(
        record.main.as_ref().is_some_and(|main| main.pod == Ordinal(1)),
        "{record:?}"
    );
    ensure!(
        record.sync.is_some_and(|sync| sync.pod == Ordinal(0)),
        "{record:?}"
    );
    for pod in [0, 2] {
        ensure!(bed.count(pod, "Written").await? == 1);
    }
    // It begins an epoch of its own, in place (R25); nobody else was MAIN in between.
    let promotions: Vec<String> = told
        .places()
        .into_iter()
        .filter(|place| place.contains("SET REPLICATION ROLE TO MAIN"))
        .collect();
    ensure!(
        promotions.iter().all(|place| place.contains("pod-1: ")),
        "{promotions:?}"
    );
    ensure!(uids(&bed.pods().list(&ListParams::default()).await?.items) == before);
    until_said(
        &bed,
        "`memgraph-controller-state` of memgraph-controller names pod 1",
    )
    .await?;
    bed.nodes.kill(&Bed::party(1), None)?;
    until_served_with(&bed, "Written", 1).await?;
    operator.stop().await?;
    bed.end().await
}
