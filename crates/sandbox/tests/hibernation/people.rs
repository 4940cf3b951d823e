//! What people do to a plan while it runs: suspend, resume, wake, edit, delete, claim.

use crate::bed::{Bed, DEPLOYMENTS, EXCEPTIONS, HOUR, MINUTE, NOON, PLAN, PLANS, kind, nightly, target};
use anyhow::{Result, ensure};
use api::hibernation::wishes::{OVERRIDE, RETRY, SUSPEND_UNTIL, override_text};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::{Api, ResourceExt};
use mainstay_core::schedule::rfc3339;
use serde_json::{Value, json};

const SUSPEND: &str = "hibernator.ardikabs.com/suspend";

async fn one_deployment() -> Result<Bed> {
    let bed = Bed::new().await?;
    bed.workload(DEPLOYMENTS, "web", 3).await?;
    bed.plan(json!([target("apps", Value::Null)])).await?;
    Ok(bed)
}

#[tokio::test(start_paused = true)]
async fn s51_resumed_in_the_night_it_stays_asleep_and_nothing_is_stopped_again() -> Result<()> {
    let bed = one_deployment().await?;
    let operator = bed.operator();
    bed.at(2).await;
    let before = bed.get(DEPLOYMENTS, "web").await?.resource_version();
    bed.annotate(SUSPEND, Some("true")).await?;
    bed.later(HOUR).await;
    ensure!(bed.phase().await? == "Suspended");
    bed.annotate(SUSPEND, None).await?;
    bed.later(MINUTE).await;
    ensure!(bed.phase().await? == "Hibernated");
    ensure!(bed.get(DEPLOYMENTS, "web").await?.resource_version() == before);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s55_a_suspension_with_a_deadline_ends_by_itself() -> Result<()> {
    let bed = one_deployment().await?;
    let operator = bed.operator();
    bed.at(2).await;
    let until = rfc3339(NOON + HOUR * 5 + MINUTE * 30);
    bed.annotate(SUSPEND_UNTIL, Some(&until)).await?;
    bed.at(5).await;
    ensure!(bed.phase().await? == "Suspended");
    bed.at(6).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s19_s56_awake_for_a_while_ends_by_itself_and_survives_the_operator() -> Result<()> {
    let bed = one_deployment().await?;
    let operator = bed.operator();
    bed.at(2).await;
    ensure!(bed.phase().await? == "Hibernated");
    let now = bed.clock.now();
    let wish = override_text(false, now, now + MINUTE * 30, "a release");
    bed.annotate(OVERRIDE, Some(&wish)).await?;
    bed.later(MINUTE).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    let message = bed.hplan().await?.status.unwrap_or_default().message;
    ensure!(message.contains("a release"), "{message}");
    operator.kill().await;
    let next = bed.operator();
    bed.later(MINUTE * 40).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0);
    next.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s57_a_deleted_plan_wakes_first_or_says_that_it_does_not() -> Result<()> {
    for (policy, replicas) in [("WakeFirst", 3), ("Abandon", 0)] {
        let bed = one_deployment().await?;
        bed.patch(PLANS, PLAN, json!({ "spec": { "deletionPolicy": policy } }))
            .await?;
        let operator = bed.operator();
        bed.at(2).await;
        bed.api(PLANS).delete(PLAN, &DeleteParams::default()).await?;
        bed.later(MINUTE * 2).await;
        ensure!(
            bed.api(PLANS).get_opt(PLAN).await?.is_none(),
            "{policy}: it stays"
        );
        ensure!(bed.replicas(DEPLOYMENTS, "web").await? == replicas, "{policy}");
        ensure!(bed.restore_map().await?.data.is_some(), "data is never deleted");
        if policy == "Abandon" {
            ensure!(bed.events().await?.iter().any(|e| e == "Abandoned"));
            // Applied again it takes over what it left asleep.
            bed.plan(json!([target("apps", Value::Null)])).await?;
            bed.at(4).await;
            ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
            ensure!(bed.events().await?.iter().any(|e| e == "Adopted"));
        }
        operator.kill().await;
        bed.end().await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s57_a_deletion_that_cannot_wake_what_sleeps_waits_and_says_so() -> Result<()> {
    let bed = Bed::new().await?;
    let fails = json!({ "name": "x", "executor": "noop", "parameters": { "failureMode": "wakeup" } });
    bed.plan_with(PLAN, json!({ "schedule": nightly(), "targets": [fails] }))
        .await?;
    let operator = bed.operator();
    bed.at(2).await;
    bed.api(PLANS).delete(PLAN, &DeleteParams::default()).await?;
    bed.later(MINUTE * 30).await;
    ensure!(!bed.condition("Healthy").await?.0);
    let status = bed.hplan().await?.status.unwrap_or_default();
    ensure!(status.message.contains("failureMode"), "{}", status.message);
    let waits = |r: &String| r.contains("the plan is being deleted: what sleeps is woken first");
    ensure!(status.reasons.iter().any(waits), "{:?}", status.reasons);
    // Whoever does not want to wait says so.
    bed.patch(PLANS, PLAN, json!({ "spec": { "deletionPolicy": "Abandon" } }))
        .await?;
    bed.later(MINUTE).await;
    ensure!(bed.api(PLANS).get_opt(PLAN).await?.is_none(), "it stays");
    operator.kill().await;
    bed.end().await;
    Ok(())
}

/// `kubectl delete namespace` at night: the ConfigMap goes at once, and the plan has a finalizer.
#[tokio::test(start_paused = true)]
async fn s57_a_namespace_that_is_deleted_at_night_goes_with_its_plan() -> Result<()> {
    let bed = Bed::new().await?;
    let namespaces: Api<Namespace> = Api::all(bed.client.clone());
    let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": "staging" } }))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    let there = |path: &str| -> Api<DynamicObject> {
        Api::namespaced_with(bed.client.clone(), "staging", &kind(path))
    };
    let labels = json!({ "app": "web" });
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "replicas": 3, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] } },
        },
    });
    let plan = json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "HibernatePlan", "metadata": { "name": PLAN },
        "spec": { "schedule": nightly(), "targets": [target("apps", Value::Null)] },
    });
    for (path, object) in [(DEPLOYMENTS, web), (PLANS, plan)] {
        let object: DynamicObject = serde_json::from_value(object)?;
        there(path).create(&PostParams::default(), &object).await?;
    }
    let operator = bed.operator();
    bed.at(2).await;
    let asleep = there(DEPLOYMENTS).get("web").await?;
    ensure!(asleep.data.pointer("/spec/replicas") == Some(&json!(0)));
    namespaces.delete("staging", &DeleteParams::default()).await?;
    bed.later(MINUTE).await;
    let plan = there(PLANS).get_opt(PLAN).await?;
    ensure!(plan.is_none(), "it stays: {plan:#?}");
    ensure!(
        namespaces.get_opt("staging").await?.is_none(),
        "the namespace stays"
    );
    operator.kill().await;
    bed.end().await;
    Ok(())
}

/// A target is removed that an old exception still names.
#[tokio::test(start_paused = true)]
async fn an_exception_that_names_a_removed_target_is_reported_and_what_sleeps_wakes() -> Result<()> {
    let bed = one_deployment().await?;
    let exception = json!({
        "planRef": { "name": PLAN }, "type": "extend",
        "validFrom": rfc3339(NOON), "validUntil": rfc3339(NOON + MINUTE),
        "targets": [{ "name": "gone", "disabled": true }],
    });
    bed.create(EXCEPTIONS, "over", exception.clone()).await?;
    let mut later = exception;
    later["validUntil"] = json!(rfc3339(NOON + HOUR * 10));
    later["validFrom"] = json!(rfc3339(NOON + HOUR * 9));
    bed.create(EXCEPTIONS, "later", later).await?;
    let operator = bed.operator();
    bed.at(2).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    ensure!(bed.condition("Followed").await?.0);
    ensure!(bed.condition("Understood").await? == (false, "ExceptionInvalid".to_owned()));
    let told = async |name: &str| -> Result<String> {
        let object = bed.get(EXCEPTIONS, name).await?;
        Ok(object
            .data
            .pointer("/status/message")
            .map(Value::to_string)
            .unwrap_or_default())
    };
    ensure!(
        told("later").await?.contains("`gone`"),
        "{}",
        told("later").await?
    );
    ensure!(!told("over").await?.contains("`gone`"), "{}", told("over").await?);
    bed.api(EXCEPTIONS)
        .delete("later", &DeleteParams::default())
        .await?;
    bed.at(4).await;
    ensure!(bed.condition("Understood").await?.0);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s59_s60_targets_that_are_edited_at_night_count_from_the_next_cycle() -> Result<()> {
    let bed = one_deployment().await?;
    bed.workload(DEPLOYMENTS, "late", 2).await?;
    let only = json!([target("apps", json!({ "names": ["web"] }))]);
    bed.patch(PLANS, PLAN, json!({ "spec": { "targets": only } }))
        .await?;
    let operator = bed.operator();
    bed.at(2).await;
    let other = json!([target("late", json!({ "names": ["late"] }))]);
    bed.patch(PLANS, PLAN, json!({ "spec": { "targets": other } }))
        .await?;
    bed.later(HOUR).await;
    ensure!(
        bed.replicas(DEPLOYMENTS, "late").await? == 2,
        "it is not part of this cycle"
    );
    bed.at(4).await;
    ensure!(
        bed.replicas(DEPLOYMENTS, "web").await? == 3,
        "what was removed is woken"
    );
    bed.at(7).await;
    ensure!(bed.replicas(DEPLOYMENTS, "late").await? == 0);
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

/// `web` belongs to a plan, and a younger one that claims it, too, sleeps by day, when the older one is awake.
async fn two_plans() -> Result<Bed> {
    let bed = one_deployment().await?;
    bed.later(MINUTE).await;
    let schedule = json!({ "timezone": "UTC", "offHours": [{ "start": "12:30", "end": "13:30", "daysOfWeek": ["MON"] }] });
    let spec = json!({ "schedule": schedule, "targets": [target("apps", Value::Null)] });
    bed.plan_with("younger", spec).await?;
    Ok(bed)
}

#[tokio::test(start_paused = true)]
async fn s62_a_mistake_in_the_older_plan_does_not_make_its_things_the_younger_ones() -> Result<()> {
    let bed = two_plans().await?;
    let nowhere = json!({ "spec": { "schedule": { "timezone": "Europe/Nowhere" } } });
    bed.patch(PLANS, PLAN, nowhere).await?;
    let operator = bed.operator();
    bed.at(1).await;
    ensure!(bed.condition("Followed").await? == (false, "ScheduleInvalid".to_owned()));
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s62_of_two_plans_that_claim_one_thing_the_older_has_it() -> Result<()> {
    let bed = two_plans().await?;
    let operator = bed.operator();
    bed.at(1).await;
    ensure!(
        bed.replicas(DEPLOYMENTS, "web").await? == 3,
        "it is not stopped by the younger plan"
    );
    let younger = bed.get(PLANS, "younger").await?;
    let conditions = younger
        .data
        .pointer("/status/conditions")
        .cloned()
        .unwrap_or_default();
    let conflict = |c: &&Value| c.get("type") == Some(&json!("Conflict"));
    let conflict = conditions
        .as_array()
        .into_iter()
        .flatten()
        .find(conflict)
        .cloned();
    let conflict = conflict.unwrap_or_default();
    ensure!(conflict["status"] == "True", "{conditions}");
    ensure!(
        conflict["message"]
            .to_string()
            .contains("plan `my-plan` claims it"),
        "{conflict}"
    );
    bed.at(2).await;
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 0);
    bed.at(4).await;
    ensure!(bed.replicas(DEPLOYMENTS, "web").await? == 3);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn s17_s18_exceptions_count_while_they_are_valid_and_a_cycle_keeps_what_it_began_with() -> Result<()> {
    let bed = one_deployment().await?;
    bed.workload(DEPLOYMENTS, "cache", 1).await?;
    let targets = json!([
        target("apps", json!({ "names": ["web"] })),
        target("cache", json!({ "names": ["cache"] }))
    ]);
    bed.patch(PLANS, PLAN, json!({ "spec": { "targets": targets } }))
        .await?;
    let operator = bed.operator();
    bed.until("Active").await?;
    let extend = json!({
        "planRef": { "name": PLAN }, "type": "extend",
        "validFrom": rfc3339(NOON + MINUTE * 30), "validUntil": rfc3339(NOON + MINUTE * 90),
        "targets": [{ "name": "cache", "disabled": true }],
    });
    bed.create(EXCEPTIONS, "quiet-afternoon", extend.clone()).await?;
    bed.create(EXCEPTIONS, "same-again", extend).await?;
    bed.at(0).await;
    ensure!(
        bed.condition("ExceptionsCollide").await?.0,
        "two of one type are reported"
    );
    let state = |o: &DynamicObject| o.data.pointer("/status/state").cloned();
    ensure!(state(&bed.get(EXCEPTIONS, "quiet-afternoon").await?) == Some(json!("Pending")));
    bed.later(MINUTE * 30).await;
    ensure!(bed.phase().await? == "Hibernated", "{}", bed.phase().await?);
    ensure!(state(&bed.get(EXCEPTIONS, "quiet-afternoon").await?) == Some(json!("Active")));
    ensure!(
        bed.replicas(DEPLOYMENTS, "cache").await? == 1,
        "it is left out of this cycle"
    );
    // s18: the override is edited while its cycle runs; the cycle keeps what it began with.
    let edit = json!({ "spec": { "targets": [] } });
    bed.patch(EXCEPTIONS, "quiet-afternoon", edit.clone()).await?;
    bed.patch(EXCEPTIONS, "same-again", edit).await?;
    bed.at(1).await;
    ensure!(bed.replicas(DEPLOYMENTS, "cache").await? == 1);
    // s61: what was disabled does not keep the cycle open.
    bed.later(MINUTE * 30).await;
    ensure!(bed.phase().await? == "Active", "{}", bed.phase().await?);
    ensure!(state(&bed.get(EXCEPTIONS, "quiet-afternoon").await?) == Some(json!("Expired")));
    bed.at(2).await;
    ensure!(bed.replicas(DEPLOYMENTS, "cache").await? == 0);
    operator.kill().await;
    bed.end().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wish_to_try_again_does_not_wait() -> Result<()> {
    let bed = Bed::new().await?;
    let fails = json!({ "name": "x", "executor": "noop", "parameters": { "failureMode": "shutdown" } });
    let spec = json!({ "schedule": nightly(), "targets": [fails], "behavior": { "retries": 0 } });
    bed.plan_with(PLAN, spec).await?;
    let operator = bed.operator();
    bed.at(3).await;
    ensure!(bed.phase().await? == "Error");
    let status = bed.hplan().await?.status.unwrap_or_default();
    ensure!(status.message.contains("failureMode"), "{}", status.message);
    ensure!(status.targets[0].attempts == 1, "{:?}", status.targets);
    bed.annotate(RETRY, Some("1")).await?;
    bed.later(MINUTE).await;
    let status = bed.hplan().await?.status.unwrap_or_default();
    ensure!(
        status.targets[0].attempts == 1 && status.phase.as_deref() == Some("Error"),
        "{status:?}"
    );
    ensure!(bed.events().await?.iter().any(|e| e == "RetryAsked"));
    operator.kill().await;
    bed.end().await;
    Ok(())
}
