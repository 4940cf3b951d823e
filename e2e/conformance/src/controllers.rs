//! What controllers make of what was asked for, as far as it needs no node.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{World, checks};

checks![
    a_stateful_set_makes_one_pod_after_the_other,
    a_deployment_makes_a_replica_set_and_its_pods,
    a_service_with_a_selector_gets_an_endpoint_slice,
];

async fn a_stateful_set_makes_one_pod_after_the_other(world: World) -> Result<()> {
    if !world.has_controllers().await? {
        return Ok(());
    }
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let set = json!({
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db", "replicas": 2, "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": "example.com/db:1"}]}},
            "volumeClaimTemplates": [claim],
        },
    });
    let made = world.post("/apis/apps/v1/{ns}/statefulsets", &set).await?;
    let uid = world.worked("made", made)?.at("/metadata/uid");
    let first = world
        .eventually("/api/v1/{ns}/pods/db-0", |reply| reply.code == 200)
        .await?;
    world.same("owner", first.at("/metadata/ownerReferences/0/uid"), uid)?;
    world.same(
        "its kind",
        first.text("/metadata/ownerReferences/0/kind"),
        "StatefulSet",
    )?;
    let labels = first.at("/metadata/labels");
    let label = |name: &str| labels.get(name).and_then(Value::as_str);
    for (name, wanted) in [
        ("app", "db"),
        ("statefulset.kubernetes.io/pod-name", "db-0"),
        ("apps.kubernetes.io/pod-index", "0"),
    ] {
        world.same(name, label(name), Some(wanted))?;
    }
    let revision = label("controller-revision-hash").unwrap_or_default();
    world.so("its revision", revision.starts_with("db-"), &labels)?;
    world.same("host name", first.text("/spec/hostname"), "db-0")?;
    world.same("subdomain", first.text("/spec/subdomain"), "db")?;
    world
        .eventually("/api/v1/{ns}/persistentvolumeclaims/data-db-0", |r| r.code == 200)
        .await?;
    let status = world
        .eventually("/apis/apps/v1/{ns}/statefulsets/db", |reply| {
            reply.at("/status/replicas") == json!(1)
        })
        .await?;
    world.same("observed", status.at("/status/observedGeneration"), json!(1))?;
    // The first one never becomes ready: there is no node.
    let second = world.get("/api/v1/{ns}/pods/db-1").await?;
    world.same("one after the other", second.code, 404)
}

async fn a_deployment_makes_a_replica_set_and_its_pods(world: World) -> Result<()> {
    if !world.has_controllers().await? {
        return Ok(());
    }
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]}},
        },
    });
    let made = world.post("/apis/apps/v1/{ns}/deployments", &deployment).await?;
    let uid = world.worked("made", made)?.at("/metadata/uid");
    let sets = world
        .eventually("/apis/apps/v1/{ns}/replicasets?labelSelector=app=web", |reply| {
            reply.names().len() == 1
        })
        .await?;
    world.same("owner", sets.at("/items/0/metadata/ownerReferences/0/uid"), uid)?;
    let hash = sets.text("/items/0/metadata/labels/pod-template-hash").to_owned();
    world.so("a hash of the template", !hash.is_empty(), &sets.body)?;
    let pods = world
        .eventually("/api/v1/{ns}/pods?labelSelector=app=web", |reply| {
            reply.names().len() == 2
        })
        .await?;
    let set = sets.at("/items/0/metadata/uid");
    world.same(
        "of the set",
        pods.at("/items/0/metadata/ownerReferences/0/uid"),
        set,
    )?;
    world.same(
        "with the hash",
        pods.text("/items/1/metadata/labels/pod-template-hash"),
        hash.as_str(),
    )?;
    let prefix = format!("web-{hash}-");
    world.so(
        "named after it",
        pods.names().iter().all(|name| name.starts_with(&prefix)),
        &json!(pods.names()),
    )
}

async fn a_service_with_a_selector_gets_an_endpoint_slice(world: World) -> Result<()> {
    if !world.has_controllers().await? {
        return Ok(());
    }
    let service =
        json!({"metadata": {"name": "db"}, "spec": {"selector": {"app": "db"}, "ports": [{"port": 7687}]}});
    let made = world.post("/api/v1/{ns}/services", &service).await?;
    let uid = world.worked("made", made)?.at("/metadata/uid");
    let path = "/apis/discovery.k8s.io/v1/{ns}/endpointslices?labelSelector=kubernetes.io/service-name=db";
    let slices = world.eventually(path, |reply| reply.names().len() == 1).await?;
    world.same("owner", slices.at("/items/0/metadata/ownerReferences/0/uid"), uid)?;
    world.same("addresses", slices.text("/items/0/addressType"), "IPv4")?;
    let endpoints = slices.at("/items/0/endpoints");
    let none = endpoints.is_null() || endpoints == json!([]);
    world.so("of nobody yet", none, &endpoints)
}
