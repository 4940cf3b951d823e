//! What the operator did not see happen, and what it must not take for something that happened.

use anyhow::{Result, ensure};
use api::MemgraphCluster;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use mainstay_core::memgraph::objects::ClusterName;
use operator::engine::keeper::{Audience, Keeper, Turned};
use operator::engine::lease::Permit;
use operator::engine::queue::Limits;
use operator::engine::turns::{Key, Pace, Turns};
use operator::engine::watch::{Scope, objects};
use operator::memgraph::stored::Stored;
use operator::memgraph::{Cluster, Settings};
use operator::pod;
use sandbox::kube::Kubernetes;
use sandbox::kube::faults::{Fault, On};
use serde_json::json;
use sim::kube::Method;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

impl Shown {
    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Audience<()> for Shown {
    fn told(&self, key: &Key, _told: Option<()>) {
        self.names().insert(key.name.clone());
    }
    fn failed(&self, _key: &Key, _why: &str) {}
    fn forget(&self, key: &Key) {
        self.names().remove(&key.name);
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
        *shown.names() == names
    };
    until("both are known", || are(&["goes", "stays"])).await?;
    // The watch breaks, if it has begun, and cannot begin again; what happens meanwhile is forgotten by the API.
    let faults = kubernetes.faults();
    let path = || On::path("memgraphclusters");
    faults.inject(Fault::Refuse, path().method(Method::Get));
    faults.inject(Fault::CutWatch, path().times(1));
    until("nobody watches", || {
        let hits = faults.hits();
        hits.iter().any(|hit| hit.fault == Fault::Refuse)
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

#[tokio::test]
async fn a_404_that_names_no_object_does_not_say_that_there_is_no_record() -> Result<()> {
    let kubernetes = Kubernetes::new(18);
    let name: ClusterName = "memgraph-ha".parse()?;
    let (client, patience) = (kubernetes.client(), Duration::from_secs(5));
    let looked_after = Cluster {
        name: name.clone(),
        namespace: "default".to_owned(),
        client: client.clone(),
        settings: Arc::new(Settings::default()),
        auth: bolt::message::Auth::None,
        memgraph: None,
    };
    let asked = || pod::record(client.clone(), "default", &name, patience);
    ensure!(Stored::read(&looked_after).await?.document.is_none());
    ensure!(asked().await?.is_none(), "there is none");
    // As a proxy answers that does not know the way.
    let nowhere = Fault::Denied(404, "404 page not found".to_owned());
    let reads = On::path(format!("configmaps/{}", name.record())).method(Method::Get);
    kubernetes.faults().inject(nowhere, reads);
    let read = Stored::read(&looked_after).await;
    ensure!(read.is_err(), "the operator would begin anew: {read:?}");
    let read = asked().await;
    ensure!(
        read.is_err(),
        "a reset that was asked for would be dropped: {read:?}"
    );
    kubernetes.faults().lift_all();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let empty = json!({ "metadata": { "name": name.record() }, "data": {} });
    let empty: ConfigMap = serde_json::from_value(empty)?;
    maps.create(&PostParams::default(), &empty).await?;
    ensure!(Stored::read(&looked_after).await?.document.is_none());
    kubernetes.shutdown().await;
    Ok(())
}
