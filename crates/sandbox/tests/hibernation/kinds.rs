//! Kinds that are not installed: the operator says which, serves the others, and serves them when they come.

use crate::attended::Attended;
use anyhow::{Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, PostParams};
use kube::{Client, ResourceExt};
use operator::http::client;
use sandbox::kube::Kubernetes;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

async fn install(client: &Client, which: impl Fn(&str) -> bool) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in api::kinds().into_iter().filter(|kind| which(&kind.name_any())) {
        definitions.create(&PostParams::default(), &kind).await?;
    }
    Ok(())
}

async fn until(
    at: &str,
    path: &str,
    fits: impl Fn(&Result<String, client::PostError>) -> bool,
) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let answer = client::get(at, path, None, Duration::from_secs(2)).await;
        if fits(&answer) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{path}: {answer:?}");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_that_are_not_installed_are_named_and_the_others_are_served() -> Result<()> {
    let kubernetes = Kubernetes::new(11);
    let client = kubernetes.client();
    let plans = |name: &str| name.starts_with("hibernateplans") || name.starts_with("scheduleexceptions");
    let operator = Attended::start(&kubernetes, operator::hibernation::Settings::default()).await?;
    let at = operator.http.clone();
    until(&at, "/readyz", |answer| {
        answer
            .as_ref()
            .is_err_and(|error| error.to_string().contains("503"))
    })
    .await?;
    install(&client, plans).await?;
    let missing = |text: &String| text.contains("not installed") && text.contains("memgraph, ring");
    until(&at, "/readyz", |answer| answer.as_ref().is_ok_and(missing)).await?;
    // Plans are followed meanwhile.
    let kind = super::bed::kind(super::bed::PLANS);
    let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind);
    let plan = json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "HibernatePlan", "metadata": { "name": "nights" },
        "spec": { "schedule": super::bed::nightly(), "targets": [{ "name": "x", "executor": "noop" }] },
    });
    api.create(&PostParams::default(), &serde_json::from_value(plan)?)
        .await?;
    let deadline = Instant::now() + Duration::from_mins(1);
    while api.get("nights").await?.data.pointer("/status/phase").is_none() {
        ensure!(Instant::now() < deadline, "the plan is not followed");
        sleep(Duration::from_millis(100)).await;
    }
    install(&client, |name| !plans(name)).await?;
    until(&at, "/readyz", |answer| {
        answer.as_ref().is_ok_and(|text| text == "ok\n")
    })
    .await?;
    operator.stop().await?;
    kubernetes.shutdown().await;
    Ok(())
}
