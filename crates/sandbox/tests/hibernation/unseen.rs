//! What cannot be looked at, what is named and not there, and what an older version recorded: none of it keeps anything
//! else asleep, and each is said.

use crate::bed::{Bed, DEPLOYMENTS, HOUR, MINUTE, PLAN, PLANS, nightly, target};
use crate::executors::{CLUSTERS, WIDGETS, define, is_asleep, obeys};
use anyhow::{Context, Result, anyhow, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use mainstay_core::hibernation::ids::{ExecutorName, PlanName, TargetName};
use mainstay_core::hibernation::plan::{Drift, Target};
use operator::hibernation::dry_run::{Would, dry_run};
use operator::hibernation::{Ask, Place, Settings};
use sandbox::kube::faults::{Fault, On};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The words of all Events of this reason.
async fn words(bed: &Bed, reason: &str) -> Result<Vec<String>> {
    let events: Api<Event> = Api::default_namespaced(bed.client.clone());
    let all = events.list(&ListParams::default()).await?.items.into_iter();
    let mine = all.filter(|e| e.reason.as_deref() == Some(reason));
    Ok(mine.filter_map(|e| e.message).collect())
}

/// What the dry run would leave alone, and why.
async fn skipped(bed: &Bed) -> Result<Vec<(String, String)>> {
    let found = dry_run(bed.client.clone(), "default", PLAN, Settings::default()).await?;
    ensure!(found.failed.is_empty(), "{:?}", found.failed);
    let lines = found.resources.into_iter().filter(|l| l.would == Would::Skip);
    Ok(lines.map(|l| (l.resource, l.why.unwrap_or_default())).collect())
}

#[tokio::test(start_paused = true)]
async fn s45_s83_a_cluster_that_is_named_and_not_there_keeps_no_other_asleep() -> Result<()> {
    let bed = Bed::new().await?;
    for name in ["graph", "other"] {
        bed.create(CLUSTERS, name, json!({})).await?;
        obeys(&bed, name).await?;
    }
    let names = json!({ "names": ["graph", "other"] });
    let graphs = json!({ "name": "graphs", "executor": "memgraph", "parameters": names });
    bed.plan_with(PLAN, json!({ "schedule": nightly(), "targets": [graphs] }))
        .await?;
    let operator = bed.operator();
    for hours in [2, 4] {
        bed.at(hours).await;
        for name in ["graph", "other"] {
            obeys(&bed, name).await?;
        }
    }
    bed.at(5).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    bed.api(CLUSTERS)
        .delete("other", &DeleteParams::default())
        .await?;
    let why = "there is no MemgraphCluster `other`".to_owned();
    let found = skipped(&bed).await?;
    ensure!(
        found.is_empty() || found == [("other".to_owned(), why.clone())],
        "{found:?}"
    );
    bed.at(7).await;
    obeys(&bed, "graph").await?;
    bed.at(8).await;
    ensure!(
        bed.phase().await? == "Hibernated",
        "{:#?}",
        bed.hplan().await?.status
    );
    let said = words(&bed, "Skipped").await?;
    ensure!(said.iter().any(|s| s.contains(&why)), "{said:?}");
    ensure!(skipped(&bed).await? == [("other".to_owned(), why)]);
    bed.at(9).await;
    ensure!(!is_asleep(&bed, "graph").await?, "it is woken");
    obeys(&bed, "graph").await?;
    bed.later(MINUTE).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_is_named_and_not_there_is_said_before_the_night_and_in_it() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.plan(json!([target("apps", json!({ "names": ["web", "wbe"] }))]))
        .await?;
    let why = "there is no Deployment, StatefulSet or CronJob of this name";
    ensure!(skipped(&bed).await? == [("wbe".to_owned(), why.to_owned())]);
    let operator = bed.operator();
    bed.at(2).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0);
    let said = words(&bed, "Skipped").await?;
    let line = format!("`apps`: `wbe` is left alone, {why}");
    ensure!(
        matches!(said.as_slice(), [one] if one.contains(&line)),
        "{said:?}"
    );
    bed.at(4).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s47_what_is_recorded_wakes_although_what_is_selected_cannot_be_listed() -> Result<()> {
    let bed = Bed::new().await?;
    define(&bed, "example.com", "v1", "Widget", "widgets").await?;
    // So many that they are listed, and one of which there is only one.
    for name in ["a", "b", "c", "d", "e"] {
        bed.workload(DEPLOYMENTS, name, 3).await?;
    }
    bed.cron_job("report", false).await?;
    let groups = json!({ "includedGroups": ["Deployment", "CronJob", WIDGETS] });
    bed.plan(json!([target("apps", groups)])).await?;
    let operator = bed.operator();
    bed.at(3).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    let denied = Fault::Denied(403, "widgets is forbidden".to_owned());
    bed.kubernetes.faults().inject(denied, On::path("/widgets"));
    bed.at(4).await;
    for name in ["a", "b", "c", "d", "e"] {
        ensure!(bed.replicas(DEPLOYMENTS, name).await? == 3, "{name} sleeps");
    }
    ensure!(!bed.suspended("report").await?);
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s45_a_kind_that_is_not_served_for_a_while_uses_up_no_restore_point() -> Result<()> {
    let bed = Bed::new().await?;
    define(&bed, "example.com", "v1", "Widget", "widgets").await?;
    bed.create(WIDGETS, "a", json!({ "size": 4 })).await?;
    bed.create(CLUSTERS, "graph", json!({})).await?;
    let widgets = target("widgets", json!({ "includedGroups": [WIDGETS] }));
    let graphs = json!({ "name": "graphs", "executor": "memgraph" });
    let spec = json!({
        "schedule": nightly(), "targets": [widgets, graphs],
        "execution": { "strategy": { "type": "Parallel" } },
    });
    bed.plan_with(PLAN, spec).await?;
    let size = async || -> Result<Option<i64>> {
        let object = bed.get(WIDGETS, "a").await?;
        Ok(object.data.pointer("/spec/size").and_then(Value::as_i64))
    };
    let operator = bed.operator();
    bed.at(2).await;
    ensure!(size().await? == Some(0) && is_asleep(&bed, "graph").await?);
    // As an API server answers of a kind that it does not serve.
    for path in ["/widgets", "/memgraphclusters"] {
        let nowhere = Fault::Denied(404, "404 page not found".to_owned());
        bed.kubernetes.faults().inject(nowhere, On::path(path));
    }
    bed.at(4).await;
    ensure!(words(&bed, "Vanished").await?.is_empty(), "they are not gone");
    ensure!(bed.phase().await? != "Active" && !bed.condition("Healthy").await?.0);
    bed.kubernetes.faults().lift_all();
    bed.later(HOUR).await;
    ensure!(size().await? == Some(4), "{:?}", size().await?);
    ensure!(!is_asleep(&bed, "graph").await?);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s45_a_target_that_only_its_point_knows_selects_nothing_also_when_the_point_is_empty() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.create(CLUSTERS, "graph", json!({})).await?;
    let place = Place {
        client: bed.client.clone(),
        namespace: "default".to_owned(),
        plan: PlanName::parse(PLAN)?,
        before: Vec::new(),
        settings: Settings::default().into(),
    };
    for executor in ["workloads", "memgraph"] {
        let executor = ExecutorName::parse(executor)?;
        let seen = async |parameters: Value| -> Result<usize> {
            let target = Target {
                name: TargetName::parse("old")?,
                executor: executor.clone(),
                parameters,
                ready_within: MINUTE,
                drift: Drift::Ignore,
            };
            let ask = Ask {
                place: &place,
                target: &target,
                recorded: &BTreeMap::new(),
                only_recorded: false,
            };
            let executor = place.settings.executors.get(&executor);
            let look = executor.map_err(|r| anyhow!(r.message))?.observe(ask).await;
            Ok(look.map_err(|r| anyhow!(r.message))?.look.len())
        };
        ensure!(
            seen(json!({})).await? == 1,
            "{executor}: empty parameters select everything"
        );
        ensure!(
            seen(Value::Null).await? == 0,
            "{executor}: none at all select nothing"
        );
    }
    bed.end().await;
    Ok(())
}

/// A ConfigMap with a point that names no resources, as an older version wrote it.
async fn old_point(bed: &Bed, key: &str, executor: &str) -> Result<()> {
    let point = json!({ "type": executor, "data": { "replicas": 3 }, "isLive": true }).to_string();
    let name = format!("hibernator-restore-{PLAN}");
    map(bed, &name, key, &point).await
}

async fn map(bed: &Bed, name: &str, key: &str, text: &str) -> Result<()> {
    let maps: Api<ConfigMap> = Api::default_namespaced(bed.client.clone());
    let map = json!({ "metadata": { "name": name }, "data": { key: text } });
    maps.create(&PostParams::default(), &serde_json::from_value(map)?)
        .await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s41_an_old_point_of_an_executor_that_is_not_here_is_said_and_blocks_nobody() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    old_point(&bed, "ec2_vms.json", "ec2").await?;
    bed.plan(json!([target("apps", Value::Null)])).await?;
    let operator = bed.operator();
    bed.at(1).await;
    ensure!(!bed.condition("Healthy").await?.0, "somebody has to do something");
    let status = bed.hplan().await?.status.unwrap_or_default();
    for word in ["there is no executor `ec2`", "mainstay hibernate restore discard"] {
        ensure!(status.message.contains(word), "{}", status.message);
    }
    ensure!(words(&bed, "RestorePointOld").await?.len() == 1);
    bed.at(2).await;
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0, "the night goes on");
    bed.at(4).await;
    ensure!(
        bed.replicas(DEPLOYMENTS, "web").await? == 3,
        "and so does the morning"
    );
    ensure!(bed.condition("RestorePointsIntact").await? == (false, "RestorePointOld".to_owned()));
    bed.api(PLANS).delete(PLAN, &DeleteParams::default()).await?;
    bed.later(MINUTE).await;
    ensure!(bed.api(PLANS).get_opt(PLAN).await?.is_none(), "it may go");
    ensure!(words(&bed, "PointsStay").await?.len() == 1);
    let kept = bed.restore_map().await?.data.unwrap_or_default();
    ensure!(kept.contains_key("ec2_vms.json"));
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s41_no_executor_replays_a_point_that_names_no_resources_and_each_says_so_once() -> Result<()> {
    for executor in ["workloads", "memgraph", "ring", "noop"] {
        let bed = Bed::new().await?;
        old_point(&bed, &format!("{executor}_x.json"), executor).await?;
        let pretended = format!("hibernator-noop-{PLAN}");
        map(&bed, &pretended, "x", r#"{"up":false,"changes":1,"at":0}"#).await?;
        let one = json!({ "name": "x", "executor": executor });
        bed.plan_with(PLAN, json!({ "schedule": nightly(), "targets": [one] }))
            .await?;
        let operator = bed.operator();
        bed.until("Error").await?;
        bed.later(MINUTE).await;
        let intact = bed.condition("RestorePointsIntact").await?;
        ensure!(
            intact == (false, "RestorePointOld".to_owned()),
            "{executor}: {intact:?}"
        );
        let message = bed.hplan().await?.status.unwrap_or_default().message;
        for word in ["it names no resources", "mainstay hibernate restore discard"] {
            ensure!(message.contains(word), "{executor}: {message}");
        }
        let before = bed.writes();
        bed.later(MINUTE * 40).await;
        ensure!(bed.writes() == before, "{executor}: it goes on writing");
        let maps: Api<ConfigMap> = Api::default_namespaced(bed.client.clone());
        let keys = maps.get(&pretended).await?.data.unwrap_or_default();
        ensure!(keys.keys().eq(["x"]), "{keys:?}");
        // Somebody brought it back by hand.
        let open = bed.hplan().await?.status.unwrap_or_default().state;
        let leg = open.as_ref().and_then(|s| s.pointer("/open/leg"));
        let wish = format!("x=0.{}", leg.and_then(Value::as_u64).context("no leg")?);
        bed.annotate("mainstay.dev/discard", Some(&wish)).await?;
        bed.until("Active").await?;
        operator.kill().await;
        bed.end().await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s43_a_point_lost_at_night_stays_lost_while_nobody_looks() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.plan(json!([target("apps", Value::Null)])).await?;
    let operator = bed.operator();
    bed.at(2).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(bed.client.clone());
    let name = format!("hibernator-restore-{PLAN}");
    maps.delete(&name, &DeleteParams::default()).await?;
    bed.later(MINUTE * 2).await;
    let lost = (false, "NoRestorePoint".to_owned());
    ensure!(bed.condition("RestorePointsIntact").await? == lost);
    bed.annotate("hibernator.ardikabs.com/suspend", Some("true"))
        .await?;
    bed.later(MINUTE).await;
    ensure!(bed.phase().await? == "Suspended");
    ensure!(bed.condition("RestorePointsIntact").await? == lost, "suspended");
    ensure!(!bed.condition("Healthy").await?.0);
    bed.annotate("hibernator.ardikabs.com/suspend", None).await?;
    let zone = |name: &str| json!({ "spec": { "schedule": { "timezone": name } } });
    bed.patch(PLANS, PLAN, zone("Europe/Atlantis")).await?;
    bed.later(MINUTE).await;
    ensure!(!bed.condition("Followed").await?.0);
    ensure!(
        bed.condition("RestorePointsIntact").await? == lost,
        "not followed"
    );
    bed.patch(PLANS, PLAN, zone("UTC")).await?;
    bed.later(MINUTE).await;
    ensure!(
        bed.condition("RestorePointsIntact").await? == lost,
        "looked at again"
    );
    bed.at(4).await;
    ensure!(
        bed.condition("RestorePointsIntact").await? == lost,
        "in the morning"
    );
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s79_what_runs_in_a_night_that_has_failed_elsewhere_is_told() -> Result<()> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    let fails = json!({ "name": "x", "executor": "noop", "parameters": { "failureMode": "shutdown" } });
    let apps = json!({ "name": "apps", "executor": "workloads", "drift": "Report" });
    let spec = json!({
        "schedule": nightly(), "targets": [apps, fails], "behavior": { "retries": 0 },
    });
    bed.plan_with(PLAN, spec).await?;
    let operator = bed.operator();
    bed.at(2).await;
    ensure!(bed.phase().await? == "Error", "{}", bed.phase().await?);
    ensure!(!bed.condition("Drifted").await?.0);
    bed.scale("web", 7).await?;
    bed.later(MINUTE * 2).await;
    ensure!(bed.condition("Drifted").await? == (true, "Drifted".to_owned()));
    ensure!(
        words(&bed, "Drifted").await?.len() == 1,
        "once, and not each minute"
    );
    // Nobody can see whether it still runs: nothing says that it does not.
    let denied = Fault::ServerError;
    let fault = bed.kubernetes.faults().inject(denied, On::path("/deployments"));
    bed.later(MINUTE * 2).await;
    ensure!(bed.condition("Drifted").await?.0);
    bed.kubernetes.faults().lift(fault);
    bed.scale("web", 0).await?;
    bed.later(MINUTE * 2).await;
    ensure!(!bed.condition("Drifted").await?.0);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

/// KEDA is uninstalled at night; then somebody takes the right to read CronJobs away. Each keeps only its own asleep.
#[tokio::test(start_paused = true)]
async fn s35_a_kind_that_cannot_be_read_keeps_only_its_own_asleep() -> Result<()> {
    for (path, fault) in [
        (
            "/scaledobjects",
            Fault::Denied(404, "404 page not found".to_owned()),
        ),
        (
            "/cronjobs/",
            Fault::Denied(403, "cronjobs is forbidden".to_owned()),
        ),
    ] {
        let bed = Bed::new().await?;
        define(&bed, "keda.sh", "v1alpha1", "ScaledObject", "scaledobjects").await?;
        bed.workload(DEPLOYMENTS, "web", 3).await?;
        bed.cron_job("report", false).await?;
        let spec = json!({ "scaleTargetRef": { "name": "web" }, "triggers": [] });
        let scalers = "keda.sh/v1alpha1/scaledobjects";
        bed.create(scalers, "web", spec).await?;
        bed.plan(json!([target("apps", Value::Null)])).await?;
        let operator = bed.operator();
        bed.at(2).await;
        ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
        bed.kubernetes.faults().inject(fault, On::path(path));
        bed.at(4).await;
        ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3, "{path}: web sleeps");
        ensure!(bed.phase().await? != "Active" && !bed.condition("Healthy").await?.0);
        let said = words(&bed, "Unseen").await?;
        ensure!(
            said.iter().any(|s| s.contains("what else is recorded is woken")),
            "{said:?}"
        );
        ensure!(words(&bed, "Vanished").await?.is_empty());
        // What was woken is nobody's business any more.
        bed.scale("web", 5).await?;
        bed.kubernetes.faults().lift_all();
        bed.later(HOUR).await;
        ensure!(bed.phase().await? == "Active", "{:#?}", bed.hplan().await?.status);
        ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 5 && !bed.suspended("report").await?);
        let scaler = bed.get(scalers, "web").await?;
        let held = scaler.metadata.annotations.unwrap_or_default();
        ensure!(
            !held.contains_key("autoscaling.keda.sh/paused-replicas"),
            "{held:?}"
        );
        operator.kill().await;
        bed.end().await;
    }
    Ok(())
}
