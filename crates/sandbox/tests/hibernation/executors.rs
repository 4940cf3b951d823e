//! What the executors do to other kinds: KEDA, anything with a scale, Memgraph clusters.

use crate::bed::{Bed, DEPLOYMENTS, PLAN, nightly, target};
use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use operator::hibernation::Settings;
use operator::hibernation::dry_run::{Would, dry_run};
use serde_json::{Value, json};

const SCALED_OBJECTS: &str = "keda.sh/v1alpha1/scaledobjects";
pub(crate) const WIDGETS: &str = "example.com/v1/widgets";
pub(crate) const CLUSTERS: &str = "mainstay.dev/v1alpha1/memgraphclusters";
const HELD: &str = "autoscaling.keda.sh/paused-replicas";

pub(crate) async fn define(bed: &Bed, group: &str, version: &str, kind: &str, plural: &str) -> Result<()> {
    let replicas = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": replicas, "status": replicas } } },
                "subresources": {
                    "status": {},
                    "scale": { "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size" },
                },
            }],
        },
    }))?;
    let definitions: Api<CustomResourceDefinition> = Api::all(bed.client.clone());
    definitions.create(&PostParams::default(), &definition).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s78_s82_a_scaled_object_is_paused_at_zero_and_its_own_pause_comes_back() -> Result<()> {
    let bed = Bed::new().await?;
    define(&bed, "keda.sh", "v1alpha1", "ScaledObject", "scaledobjects").await?;
    for (name, held) in [("web", None), ("api", Some("2"))] {
        bed.workload(DEPLOYMENTS, name, 3).await?;
        let metadata = json!({ "name": name, "annotations": held.map(|n| json!({ HELD: n })) });
        let spec = json!({ "scaleTargetRef": { "name": name }, "triggers": [] });
        bed.create_with(SCALED_OBJECTS, metadata, spec).await?;
    }
    // One that scales something else.
    let spec = json!({ "scaleTargetRef": { "name": "elsewhere" } });
    bed.create(SCALED_OBJECTS, "other", spec).await?;
    // One of a StatefulSet that is called like the Deployment, and is not selected; and one that a label protects.
    let other =
        json!({ "scaleTargetRef": { "name": "web", "kind": "StatefulSet", "apiVersion": "apps/v1" } });
    bed.create(SCALED_OBJECTS, "namesake", other).await?;
    let label = json!({ "name": "precious", "labels": { "mainstay.dev/protected": "true" } });
    let spec = json!({ "scaleTargetRef": { "name": "web" } });
    bed.create_with(SCALED_OBJECTS, label, spec).await?;
    let groups = json!({ "includedGroups": ["Deployment"] });
    bed.plan(json!([target("apps", groups)])).await?;
    let held = async |name: &str| -> Result<Option<String>> {
        let object = bed.get(SCALED_OBJECTS, name).await?;
        Ok(object.annotations().get(HELD).cloned())
    };
    let operator = bed.operator();
    bed.at(2).await;
    ensure!(held("web").await?.as_deref() == Some("0") && held("api").await?.as_deref() == Some("0"));
    for left in ["other", "namesake", "precious"] {
        ensure!(held(left).await?.is_none(), "{left} is paused");
    }
    ensure!(bed.phase().await? == "Hibernated");
    bed.at(4).await;
    ensure!(held("web").await?.is_none(), "it had none");
    ensure!(held("api").await?.as_deref() == Some("2"), "its own pause");
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn anything_with_a_scale_sleeps_and_wakes() -> Result<()> {
    let bed = Bed::new().await?;
    define(&bed, "example.com", "v1", "Widget", "widgets").await?;
    bed.create(WIDGETS, "a", json!({ "size": 4 })).await?;
    let parameters = json!({ "includedGroups": [WIDGETS] });
    bed.plan(json!([target("widgets", parameters)])).await?;
    let size = async || -> Result<Option<i64>> {
        let object = bed.get(WIDGETS, "a").await?;
        Ok(object.data.pointer("/spec/size").and_then(Value::as_i64))
    };
    let report = async |size: i64| -> Result<()> {
        let patch = Patch::Merge(json!({ "status": { "size": size } }));
        let params = PatchParams::default();
        bed.api(WIDGETS).patch_status("a", &params, &patch).await?;
        Ok(())
    };
    report(4).await?;
    let operator = bed.operator();
    bed.at(2).await;
    ensure!(size().await? == Some(0));
    ensure!(bed.phase().await? == "Hibernating", "it waits until nothing runs");
    report(0).await?;
    bed.at(3).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    bed.at(4).await;
    ensure!(size().await? == Some(4));
    report(4).await?;
    bed.at(5).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

/// Is the cluster asked to sleep?
pub(crate) async fn is_asleep(bed: &Bed, name: &str) -> Result<bool> {
    let object = bed.get(CLUSTERS, name).await?;
    Ok(object.data.pointer("/spec/hibernated") == Some(&json!(true)))
}

/// The cluster's own controller says that it is where it was asked to be.
pub(crate) async fn obeys(bed: &Bed, name: &str) -> Result<()> {
    let asleep = is_asleep(bed, name).await?;
    let generation = bed.get(CLUSTERS, name).await?.metadata.generation;
    let condition = |kind: &str, holds: bool| {
        json!({ "type": kind, "status": if holds { "True" } else { "False" }, "reason": "X", "message": "",
            "lastTransitionTime": "2026-11-16T12:00:00Z" })
    };
    let status = json!({
        "observedGeneration": generation, "phase": "OPERATIONAL", "reasons": [], "pods": [], "history": [], "processes": [],
        "conditions": [condition("Hibernated", asleep), condition("Ready", !asleep)],
    });
    let (params, patch) = (PatchParams::default(), Patch::Merge(json!({ "status": status })));
    let done = bed.api(CLUSTERS).patch_status(name, &params, &patch).await;
    done.context("the status is refused")?;
    Ok(())
}

/// The object alone: what the cluster's own controller makes of it is tested where that runs.
#[tokio::test(start_paused = true)]
async fn s83_a_memgraph_cluster_is_asked_to_sleep_by_its_own_object() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(CLUSTERS, "graph", json!({})).await?;
    bed.create(CLUSTERS, "asleep", json!({ "hibernated": true }))
        .await?;
    let spec = json!({ "schedule": nightly(), "targets": [{ "name": "graphs", "executor": "memgraph" }] });
    bed.plan_with(PLAN, spec).await?;
    obeys(&bed, "graph").await?;
    let operator = bed.operator();
    bed.at(2).await;
    ensure!(is_asleep(&bed, "graph").await?);
    ensure!(bed.phase().await? == "Hibernating", "it waits for the cluster");
    obeys(&bed, "graph").await?;
    bed.at(3).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    bed.at(4).await;
    ensure!(!is_asleep(&bed, "graph").await?);
    ensure!(is_asleep(&bed, "asleep").await?, "what slept before stays asleep");
    obeys(&bed, "graph").await?;
    bed.at(5).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_executor_that_is_not_there_and_parameters_that_make_no_sense_are_said() -> Result<()> {
    for (target, says) in [
        (
            json!({ "name": "x", "executor": "ec2" }),
            "there is no executor `ec2`",
        ),
        (
            target("x", json!({ "includedGroups": ["Deploymint"] })),
            "`Deploymint`",
        ),
        (
            target("x", json!({ "namespace": { "literals": ["production"] } })),
            "its own namespace only",
        ),
    ] {
        let bed = Bed::new().await?;
        bed.workload(DEPLOYMENTS, "web", 3).await?;
        bed.plan(json!([target])).await?;
        let operator = bed.operator();
        bed.at(2).await;
        ensure!(bed.phase().await? == "Error", "{}", bed.phase().await?);
        let message = bed.hplan().await?.status.unwrap_or_default().message;
        ensure!(message.contains(says), "{message}");
        ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
        operator.kill().await;
        bed.end().await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s81_a_dry_run_lists_what_the_night_then_stops_and_touches_nothing() -> Result<()> {
    let bed = Bed::new().await?;
    for (name, replicas) in [("web", 3), ("idle", 0), ("precious", 1)] {
        bed.workload(DEPLOYMENTS, name, replicas).await?;
    }
    let label = json!({ "metadata": { "labels": { "mainstay.dev/protected": "true" } } });
    bed.patch(DEPLOYMENTS, "precious", label).await?;
    bed.plan(json!([target("apps", Value::Null)])).await?;
    let before = bed.writes();
    let found = dry_run(bed.client.clone(), "default", PLAN, Settings::default()).await?;
    ensure!(bed.writes() == before, "it wrote");
    let would: Vec<(&str, Would)> = found
        .resources
        .iter()
        .map(|l| (l.resource.as_str(), l.would))
        .collect();
    ensure!(
        would
            == [
                ("apps/v1/deployments/idle", Would::Leave),
                ("apps/v1/deployments/precious", Would::Skip),
                ("apps/v1/deployments/web", Would::Stop),
            ],
        "{would:?}"
    );
    let operator = bed.operator();
    bed.at(2).await;
    let slept = async |name: &str| -> Result<bool> {
        let object = bed.get(DEPLOYMENTS, name).await?;
        Ok(object.annotations().contains_key("mainstay.dev/hibernated-by"))
    };
    for line in &found.resources {
        let name = line.resource.rsplit('/').next().unwrap_or_default();
        ensure!(slept(name).await? == (line.would == Would::Stop), "{name}");
    }
    operator.kill().await;
    bed.end().await;
    Ok(())
}
