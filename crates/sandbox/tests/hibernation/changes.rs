//! What goes wrong, and what others do to the things that sleep.

use crate::bed::{Bed, DEPLOYMENTS, HOUR, MINUTE, PLAN, PLANS, STATEFUL_SETS, nightly, target};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use sandbox::kube::faults::{Fault, On};
use serde_json::{Value, json};
use sim::kube::Method;

async fn bed_with(drift: &str) -> Result<Bed> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.workload(DEPLOYMENTS, "api", 2).await?;
    let names = json!({ "names": ["web"] });
    let web = json!({ "name": "web", "executor": "workloads", "parameters": names, "drift": drift });
    let spec = json!({
        "schedule": nightly(),
        "execution": { "strategy": { "type": "Parallel" } },
        "targets": [web, target("api", json!({ "names": ["api"] }))],
    });
    bed.plan_with(PLAN, spec).await?;
    Ok(bed)
}

#[tokio::test(start_paused = true)]
async fn s25_nothing_is_stopped_while_the_api_refuses_the_point() -> Result<()> {
    let bed = bed_with("Ignore").await?;
    let operator = bed.operator();
    bed.until("Active").await?;
    let refuse = On::path("/configmaps").method(Method::Post);
    let fault = bed.kubernetes.faults().inject(Fault::ServerError, refuse);
    bed.at(2).await;
    ensure!(
        bed.replicas(DEPLOYMENTS, "web").await? == 3,
        "stopped without a point"
    );
    let (healthy, reason) = bed.condition("Healthy").await?;
    ensure!((healthy, reason.as_str()) == (false, "TurnFailed"));
    let message = bed.hplan().await?.status.unwrap_or_default().message;
    ensure!(message.contains("failed to save restore data"), "{message}");
    let targets = bed.hplan().await?.status.unwrap_or_default().targets;
    for target in &targets {
        let why = target.message.clone().unwrap_or_default();
        ensure!(
            target.state == "Failed" && why.contains("failed to save restore data"),
            "{target:?}"
        );
    }
    ensure!(targets.len() == 2);
    bed.kubernetes.faults().lift(fault);
    bed.later(MINUTE).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    bed.at(4).await;
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s36_a_mark_that_is_refused_is_tried_until_it_is_durable() -> Result<()> {
    let bed = bed_with("Ignore").await?;
    let operator = bed.operator();
    bed.at(2).await;
    let refuse = On::path("/configmaps/hibernator-restore-")
        .method(Method::Put)
        .times(5);
    bed.kubernetes.faults().inject(Fault::ServerError, refuse);
    bed.at(4).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    let hits = bed.kubernetes.faults().hits().len();
    ensure!(hits == 5, "{hits} were refused");
    let map = bed.restore_map().await?;
    ensure!(map.data.unwrap_or_default()["workloads_web.json"].contains("\"consumed\":true"));
    ensure!(
        map.metadata.annotations.unwrap_or_default().is_empty(),
        "it is unlocked"
    );
    operator.kill().await;
    bed.end().await;
    Ok(())
}

async fn change_point(bed: &Bed, from: &str, to: &str) -> Result<()> {
    let maps: Api<ConfigMap> = Api::default_namespaced(bed.client.clone());
    let data = bed.restore_map().await?.data.unwrap_or_default();
    let text = data
        .get("workloads_web.json")
        .context("no point")?
        .replace(from, to);
    let patch = Patch::Merge(json!({ "data": { "workloads_web.json": text } }));
    let name = format!("hibernator-restore-{PLAN}");
    maps.patch(&name, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s42_a_point_that_was_edited_is_not_used_and_not_overwritten_and_the_others_wake() -> Result<()> {
    let bed = bed_with("Ignore").await?;
    let operator = bed.operator();
    bed.at(2).await;
    change_point(&bed, "\"replicas\":3", "\"replicas\":300").await?;
    bed.at(4).await;
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0);
    ensure!(bed.replicas(DEPLOYMENTS, "api").await? == 2, "the others wake");
    ensure!(bed.condition("RestorePointsIntact").await? == (false, "RestorePointCorrupt".to_owned()));
    let kept = bed.restore_map().await?.data.unwrap_or_default();
    ensure!(
        kept["workloads_web.json"].contains("300"),
        "it is not overwritten"
    );
    // The edit is undone, and it goes on by itself.
    change_point(&bed, "\"replicas\":300", "\"replicas\":3").await?;
    bed.later(HOUR).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    ensure!(bed.condition("RestorePointsIntact").await?.0);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s43_a_point_that_is_gone_is_named_and_can_be_given_up() -> Result<()> {
    let bed = bed_with("Ignore").await?;
    let operator = bed.operator();
    bed.at(2).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(bed.client.clone());
    let patch = Patch::Merge(json!({ "data": { "workloads_web.json": null } }));
    let name = format!("hibernator-restore-{PLAN}");
    maps.patch(&name, &PatchParams::default(), &patch).await?;
    bed.at(4).await;
    ensure!(bed.replicas(DEPLOYMENTS, "api").await? == 2);
    ensure!(bed.condition("RestorePointsIntact").await? == (false, "NoRestorePoint".to_owned()));
    let message = bed.hplan().await?.status.unwrap_or_default().message;
    ensure!(
        message.contains("cannot wake up: no restore point found"),
        "{message}"
    );
    bed.annotate("mainstay.dev/discard", Some("web=1.1")).await?;
    bed.later(MINUTE).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0, "it stays as it is");
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s48_a_point_that_is_split_is_missed_by_its_parts_and_goes_on_when_they_are_back() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.workload(DEPLOYMENTS, "api", 2).await?;
    bed.plan(json!([target("apps", Value::Null)])).await?;
    // Whatever else is in the first ConfigMap leaves room for one of the two.
    let maps: Api<ConfigMap> = Api::default_namespaced(bed.client.clone());
    let name = format!("hibernator-restore-{PLAN}");
    let notes = "x".repeat(mainstay_core::hibernation::store::BUDGET - 650);
    let full = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "notes": notes } });
    maps.create(&PostParams::default(), &serde_json::from_value(full)?)
        .await?;
    let operator = bed.operator();
    bed.at(2).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    let second = format!("{name}.2");
    let mut part = maps.get(&second).await.context("it is not split")?;
    maps.delete(&second, &DeleteParams::default()).await?;
    bed.later(MINUTE * 2).await;
    ensure!(bed.condition("RestorePointsIntact").await? == (false, "RestorePointIncomplete".to_owned()));
    bed.at(4).await;
    let awake = bed.replicas(DEPLOYMENTS, "web").await? + bed.replicas(DEPLOYMENTS, "api").await?;
    ensure!(awake == 2 || awake == 3, "what is left of it is woken: {awake}");
    ensure!(bed.phase().await? == "Error", "{}", bed.phase().await?);
    part.metadata.resource_version = None;
    part.metadata.uid = None;
    maps.create(&PostParams::default(), &part).await?;
    bed.later(HOUR).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    ensure!(bed.replicas(DEPLOYMENTS, "api").await? == 2);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

/// The seed documents how to delete the ConfigMap; somebody does so at night, and somebody else starts something.
#[tokio::test(start_paused = true)]
async fn s43_a_configmap_deleted_at_night_is_missed_at_once_and_nothing_takes_its_place() -> Result<()> {
    let bed = bed_with("Enforce").await?;
    let operator = bed.operator();
    bed.at(2).await;
    ensure!(bed.condition("RestorePointsIntact").await?.0);
    let maps: Api<ConfigMap> = Api::default_namespaced(bed.client.clone());
    let name = format!("hibernator-restore-{PLAN}");
    let mut lost = maps.get(&name).await?;
    maps.delete(&name, &DeleteParams::default()).await?;
    bed.scale("web", 7).await?;
    bed.later(MINUTE * 3).await;
    ensure!(bed.condition("RestorePointsIntact").await? == (false, "NoRestorePoint".to_owned()));
    ensure!(!bed.condition("Healthy").await?.0);
    ensure!(
        bed.replicas(DEPLOYMENTS, "web").await? == 7,
        "it is not stopped without a record"
    );
    ensure!(
        maps.get_opt(&name).await?.is_none(),
        "nothing looks like its point"
    );
    lost.metadata.resource_version = None;
    lost.metadata.uid = None;
    maps.create(&PostParams::default(), &lost).await?;
    bed.at(4).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    ensure!(bed.replicas(DEPLOYMENTS, "api").await? == 2);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s32_s33_s79_what_is_started_at_night_is_reported_or_stopped_again_but_not_for_ever() -> Result<()> {
    let bed = bed_with("Enforce").await?;
    let operator = bed.operator();
    bed.at(2).await;
    // `api` is not enforced: it is reported, and the morning brings the recorded size.
    bed.scale("api", 7).await?;
    bed.later(MINUTE * 2).await;
    ensure!(bed.replicas(DEPLOYMENTS, "api").await? == 7);
    ensure!(bed.condition("Drifted").await? == (true, "Drifted".to_owned()));
    let asleep = bed.hplan().await?.status.unwrap_or_default().asleep;
    let leaks = asleep.iter().any(|s| s.name == "api" && s.running == Some(1));
    ensure!(leaks, "it is counted: {asleep:?}");
    for round in 1..=3 {
        bed.scale("web", 1).await?;
        bed.later(MINUTE * 2).await;
        ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0, "round {round}");
    }
    bed.scale("web", 1).await?;
    bed.later(MINUTE * 5).await;
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 1, "no endless fight");
    ensure!(bed.events().await?.iter().any(|e| e == "Contended"));
    let drifted = bed.condition("Drifted").await?;
    ensure!(drifted == (true, "Contended".to_owned()), "{drifted:?}");
    let told = bed.hplan().await?.status.unwrap_or_default().reasons;
    ensure!(
        told.iter().any(|r| r.contains("started by somebody each time")),
        "{told:?}"
    );
    bed.at(4).await;
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    ensure!(bed.replicas(DEPLOYMENTS, "api").await? == 2);
    ensure!(!bed.condition("Drifted").await?.0);
    let history = bed.hplan().await?.status.unwrap_or_default().history;
    let night = history.last().context("no night")?;
    let leaked = |name: &str| {
        let slept = night.targets.iter().find(|s| s.name == name);
        slept.map_or(0, |s| s.leaked_seconds)
    };
    // From five minutes past until the morning.
    ensure!((6800..=7000).contains(&leaked("api")), "{night:?}");
    ensure!(leaked("web") > 0, "{night:?}");
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s45_what_was_deleted_at_night_is_passed_over() -> Result<()> {
    let bed = bed_with("Ignore").await?;
    let operator = bed.operator();
    bed.at(2).await;
    bed.api(DEPLOYMENTS)
        .delete("web", &DeleteParams::default())
        .await?;
    bed.at(4).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    let vanished = bed.events().await?.iter().filter(|e| *e == "Vanished").count();
    ensure!(vanished == 1, "{vanished} Events");
    ensure!(bed.replicas(DEPLOYMENTS, "api").await? == 2);
    // The next night knows nothing of it any more.
    bed.at(7).await;
    let data = bed.restore_map().await?.data.unwrap_or_default();
    ensure!(
        !data["workloads_web.json"].contains("deployments/web"),
        "{data:?}"
    );
    let vanished = bed.events().await?.iter().filter(|e| *e == "Vanished").count();
    ensure!(vanished == 1, "{vanished} Events");
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s47_what_is_not_selected_any_more_is_woken_all_the_same() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    let by_label = json!({ "workloadSelector": { "matchLabels": { "app": "web" } } });
    bed.plan(json!([target("apps", by_label)])).await?;
    let operator = bed.operator();
    bed.at(2).await;
    bed.patch(
        DEPLOYMENTS,
        "web",
        json!({ "metadata": { "labels": { "app": "other" } } }),
    )
    .await?;
    bed.at(4).await;
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    ensure!(bed.phase().await? == "Active");
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s64_a_gate_that_does_not_open_is_a_failure() -> Result<()> {
    let bed = bed_with("Ignore").await?;
    let operator = bed.operator();
    bed.at(2).await;
    let stuck = json!({ "metadata": { "annotations": { "stuck": "yes" } } });
    bed.patch(DEPLOYMENTS, "web", stuck).await?;
    bed.at(4).await;
    ensure!(bed.phase().await? == "WakingUp");
    bed.later(MINUTE * 8).await;
    ensure!(bed.events().await?.iter().any(|e| e == "GateTimedOut"));
    let status = bed.hplan().await?.status.unwrap_or_default();
    ensure!(
        status.targets.iter().any(|t| t.name == "web" && t.attempts == 1),
        "{status:?}"
    );
    bed.patch(
        DEPLOYMENTS,
        "web",
        json!({ "metadata": { "annotations": { "stuck": null } } }),
    )
    .await?;
    bed.later(HOUR).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s82_what_is_protected_or_belongs_to_somebody_is_never_touched() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.workload(DEPLOYMENTS, "precious", 2).await?;
    bed.workload(DEPLOYMENTS, "owned", 2).await?;
    bed.workload(DEPLOYMENTS, "mainstay-operator", 2).await?;
    let label = json!({ "metadata": { "labels": { "mainstay.dev/protected": "true" } } });
    bed.patch(DEPLOYMENTS, "precious", label).await?;
    let itself = json!({ "metadata": { "labels": { "app.kubernetes.io/name": "mainstay-operator" } } });
    bed.patch(DEPLOYMENTS, "mainstay-operator", itself).await?;
    let owner = json!({ "apiVersion": "v1", "kind": "Thing", "name": "x", "uid": "1", "controller": true });
    bed.patch(
        DEPLOYMENTS,
        "owned",
        json!({ "metadata": { "ownerReferences": [owner] } }),
    )
    .await?;
    bed.plan(json!([target("apps", Value::Null)])).await?;
    let operator = bed.operator();
    bed.at(2).await;
    ensure!(bed.phase().await? == "Hibernated");
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0);
    for name in ["precious", "owned", "mainstay-operator"] {
        ensure!(bed.replicas(DEPLOYMENTS, name).await? == 2, "{name}");
    }
    ensure!(bed.events().await?.iter().filter(|e| *e == "Skipped").count() == 2);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s82_a_set_that_would_lose_its_volumes_is_left_alone_and_one_that_sleeps_wakes() -> Result<()> {
    let bed = Bed::new().await?;
    let claim = json!({
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let set = |when_scaled: &str, claims: Value| {
        let labels = json!({ "app": "x" });
        json!({
            "replicas": 2, "serviceName": "x", "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] } },
            "volumeClaimTemplates": claims,
            "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Retain", "whenScaled": when_scaled },
        })
    };
    bed.create(STATEFUL_SETS, "loses", set("Delete", json!([claim])))
        .await?;
    bed.create(STATEFUL_SETS, "keeps", set("Retain", json!([claim])))
        .await?;
    bed.create(STATEFUL_SETS, "without", set("Delete", json!([])))
        .await?;
    bed.plan(json!([target("apps", Value::Null)])).await?;
    let operator = bed.operator();
    bed.at(2).await;
    ensure!(bed.replicas(STATEFUL_SETS, "loses").await? == 2);
    ensure!(bed.replicas(STATEFUL_SETS, "keeps").await? == 0);
    ensure!(bed.replicas(STATEFUL_SETS, "without").await? == 0);
    ensure!(bed.events().await?.iter().any(|e| e == "Skipped"));
    let policy = json!({ "spec": { "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete" } } });
    bed.patch(STATEFUL_SETS, "keeps", policy).await?;
    bed.at(4).await;
    ensure!(
        bed.replicas(STATEFUL_SETS, "keeps").await? == 2,
        "it is woken all the same"
    );
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_state_that_was_edited_stops_everything_and_says_what_to_do() -> Result<()> {
    let bed = bed_with("Ignore").await?;
    let operator = bed.operator();
    bed.at(2).await;
    let params = PatchParams::default();
    let spoil = Patch::Merge(json!({ "status": { "state": { "phase": "Sleepy" } } }));
    bed.api(PLANS).patch_status(PLAN, &params, &spoil).await?;
    bed.at(4).await;
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0, "nothing is touched");
    let message = bed.hplan().await?.status.unwrap_or_default().message;
    ensure!(message.contains("status.state cannot be read"), "{message}");
    // Removed, what sleeps is taken over from its restore points.
    let remove = Patch::Merge(json!({ "status": { "state": null } }));
    bed.api(PLANS).patch_status(PLAN, &params, &remove).await?;
    bed.later(MINUTE * 2).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    operator.kill().await;
    bed.end().await;
    Ok(())
}
