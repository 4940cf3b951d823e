//! What the operator did not see happen.

use anyhow::{Result, ensure};
use api::MemgraphCluster;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use operator::engine::keeper::{Audience, Keeper, Turned};
use operator::engine::lease::Permit;
use operator::engine::queue::Limits;
use operator::engine::turns::{Key, Pace, Turns};
use operator::engine::watch::{Scope, objects};
use sandbox::kube::Kubernetes;
use sandbox::kube::faults::{Fault, On};
use serde_json::json;
use sim::kube::Method;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use crate::bed::PATIENCE;

/// Looks once, and not again for long: only the watch says that an object is gone.
struct Once;

impl Keeper for Once {
    type Told = ();
    type Error = Infallible;

    async fn turn(&mut self, _permit: &Permit) -> Result<Turned<()>, Infallible> {
        Ok(Turned {
            again: Duration::from_hours(1),
            told: Some(()),
        })
    }
}

/// What is shown.
#[derive(Default)]
struct Shown(Mutex<BTreeSet<String>>);

impl Audience<()> for Shown {
    fn told(&self, key: &Key, _told: Option<()>) {
        self.0.lock().unwrap().insert(key.name.clone());
    }
    fn failed(&self, _key: &Key, _why: &str) {}
    fn forget(&self, key: &Key) {
        self.0.lock().unwrap().remove(&key.name);
    }
    fn forget_all(&self) {}
}

async fn until(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        ensure!(Instant::now() < deadline, "not so: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn with_clusters(names: &[&str]) -> Result<(Kubernetes, Api<MemgraphCluster>)> {
    let kubernetes = Kubernetes::new(17);
    let client = kubernetes.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PostParams::default();
    definitions.create(&params, &MemgraphCluster::crd()).await?;
    let clusters = Api::default_namespaced(client);
    for name in names {
        clusters.create(&params, &cluster(name)?).await?;
    }
    Ok((kubernetes, clusters))
}

fn cluster(name: &str) -> Result<MemgraphCluster> {
    let object = json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
        "metadata": { "name": name }, "spec": {},
    });
    Ok(serde_json::from_value(object)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_deleted_while_nobody_watched_is_forgotten_with_the_next_list() -> Result<()> {
    let (kubernetes, clusters) = with_clusters(&["stays", "goes"]).await?;
    let shown = Arc::new(Shown::default());
    let turns: Turns<Once> = Turns::new("memgraph", Limits::default(), Pace::default(), shown.clone());
    let stop = CancellationToken::new();
    let working = tokio::spawn({
        let (turns, stop) = (turns.clone(), stop.clone());
        async move { turns.run(|_| Once, Permit::ALWAYS, stop).await }
    });
    let watching = tokio::spawn(objects::<MemgraphCluster, _>(
        kubernetes.client(),
        Scope::All,
        turns,
    ));
    let are = |names: &[&str]| {
        let names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        *shown.0.lock().unwrap() == names
    };
    until("both are known", || are(&["goes", "stays"])).await?;
    // The watch breaks and cannot begin again; what happens meanwhile is forgotten by the API.
    let faults = kubernetes.faults();
    let path = || On::path("memgraphclusters");
    faults.inject(Fault::Refuse, path().method(Method::Get));
    faults.inject(Fault::CutWatch, path().times(1));
    until("the watch is cut", || {
        let hits = faults.hits();
        hits.iter().any(|hit| hit.fault == Fault::CutWatch)
    })
    .await?;
    clusters.delete("goes", &DeleteParams::default()).await?;
    kubernetes.compact();
    ensure!(are(&["goes", "stays"]), "nobody can know it yet");
    faults.lift_all();
    until("only one is left", || are(&["stays"])).await?;
    clusters
        .create(&PostParams::default(), &cluster("comes")?)
        .await?;
    until("the next one is known", || are(&["comes", "stays"])).await?;
    watching.abort();
    stop.cancel();
    working.await?;
    kubernetes.shutdown().await;
    Ok(())
}
