//! What a person wrote and cannot be followed: the cluster is looked after all the same.

use crate::bed::{Bed, NAME, PATIENCE};
use anyhow::{Context, Result, ensure};
use api::MemgraphCluster;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{CustomResourceExt, ResourceExt};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::record::{Record, State};
use sandbox::kube::faults::{Fault, On};
use serde_json::{Value, json};
use sim::kube::Method;
use std::time::{Duration, Instant};

fn serves(record: &Record, pod: u8) -> bool {
    record.state == State::Serving && record.main.as_ref().is_some_and(|m| m.pod == Ordinal(pod))
}

async fn change(bed: &Bed, patch: Value) -> Result<()> {
    bed.clusters()
        .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// Waits until a condition of the cluster has this status and reason.
async fn until_condition(bed: &Bed, kind: &str, wanted: (&str, &str)) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = bed.clusters().get(NAME).await?.status.unwrap_or_default();
        let found = status.conditions.iter().find(|c| c.kind == kind);
        if let Some(found) = found.filter(|c| (c.status.as_str(), c.reason.as_str()) == wanted) {
            return Ok(found.message.clone());
        }
        ensure!(Instant::now() < deadline, "{kind} is not {wanted:?}: {status:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn event_reasons(bed: &Bed) -> Result<Vec<String>> {
    let events: Api<Event> = Api::default_namespaced(bed.client.clone());
    let all = events.list(&ListParams::default()).await?.items;
    Ok(all.into_iter().filter_map(|event| event.reason).collect())
}

/// As an earlier Mainstay would have let it through: the same kind without a rule.
async fn without_rules(bed: &Bed) -> Result<()> {
    fn strip(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                fields.remove("x-kubernetes-validations");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(bed.client.clone());
    let crd = MemgraphCluster::crd();
    let mut open = serde_json::to_value(&crd)?;
    strip(&mut open);
    let mut open: CustomResourceDefinition = serde_json::from_value(open)?;
    open.metadata.resource_version = definitions.get(&crd.name_any()).await?.resource_version();
    definitions
        .replace(&crd.name_any(), &PostParams::default(), &open)
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_are_refused_do_not_switch_failover_off() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    ensure!(
        until_condition(&bed, "Applied", ("True", "AsDeclared"))
            .await?
            .is_empty()
    );
    let too_much =
        "spec.template.spec.containers[0].resources.requests: must be less than or equal to memory limit";
    for (method, path, code, why) in [
        (Method::Put, "statefulsets", 422, too_much),
        (Method::Post, "deployments", 403, "exceeded quota: objects"),
    ] {
        let on = On::path(path).method(method);
        bed.kubernetes
            .faults()
            .inject(Fault::Denied(code, why.to_owned()), on);
    }
    let resources = json!({ "requests": { "memory": "2Gi" }, "limits": { "memory": "1Gi" } });
    change(
        &bed,
        json!({ "spec": { "resources": resources, "gateway": { "enabled": true } } }),
    )
    .await?;
    let said = until_condition(&bed, "Applied", ("False", "ObjectNotWritten")).await?;
    ensure!(
        said.contains(too_much) && said.contains("exceeded quota"),
        "{said}"
    );
    bed.nodes.kill(&Bed::party(0), None)?;
    bed.until("served by the other pod", |r| serves(r, 1)).await?;
    let reasons = event_reasons(&bed).await?;
    ensure!(
        reasons.iter().any(|reason| reason == "ObjectNotWritten"),
        "{reasons:?}"
    );
    bed.kubernetes.faults().lift_all();
    until_condition(&bed, "Applied", ("True", "AsDeclared")).await?;
    operator.stop().await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spec_that_cannot_be_read_does_not_switch_failover_off() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    without_rules(&bed).await?;
    let mistakes = [
        json!({ "spec": { "failover": { "drain": "1.5s" } } }),
        json!({ "spec": { "failover": { "drain": "10s" }, "paused": { "until": "2026-13-40T00:00:00Z" } } }),
    ];
    for (serving, mistake) in mistakes.into_iter().enumerate() {
        let serving = u8::try_from(serving)?;
        change(&bed, mistake).await?;
        until_condition(&bed, "Applied", ("False", "SpecNotFollowed")).await?;
        bed.nodes.kill(&Bed::party(serving), None)?;
        bed.until("served by the other pod and protected", |r| {
            serves(r, 1 - serving) && r.sync.is_some()
        })
        .await?;
    }
    operator.stop().await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_unknown_when_turns_come_to_nothing() -> Result<()> {
    let bed = Bed::new().await?;
    bed.create(2).await?;
    let operator = bed.operator().await?;
    bed.until_protected().await?;
    until_condition(&bed, "Protected", ("True", "ProvenByACommit")).await?;
    let on = On::path("memgraph-ha-topology").method(Method::Get);
    let fault = bed.kubernetes.faults().inject(Fault::ServerError, on);
    let said = until_condition(&bed, "Protected", ("Unknown", "TurnFailed")).await?;
    ensure!(said.contains("record"), "{said}");
    bed.kubernetes.faults().lift(fault);
    until_condition(&bed, "Protected", ("True", "ProvenByACommit"))
        .await
        .context("it is known again")?;
    operator.stop().await?;
    bed.end().await
}

/// What is not replicated is run before a new MAIN serves (R23): a statement that cannot be run keeps the cluster dark,
/// and whoever asks is told which and why.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_fails_on_promotion_is_named_and_nobody_serves_before_it_is_mended() -> Result<()> {
    let bed = Bed::new().await?;
    let statements = ["MERGE (:Promoted)", "GRANT EVERYTHING TO 'hunter2'"];
    bed.create_with(json!({ "replicas": 2, "onPromotion": statements }))
        .await?;
    let operator = bed.operator().await?;
    let deadline = Instant::now() + PATIENCE;
    let said = loop {
        let status = bed.clusters().get(NAME).await?.status.unwrap_or_default();
        let ready = status.conditions.iter().find(|c| c.kind == "Ready");
        let message = ready
            .map(|c| (c.status.clone(), c.message.clone()))
            .unwrap_or_default();
        if message.1.contains("statement 2 of 2") {
            ensure!(
                status.reasons.iter().any(|r| r.contains("statement 2 of 2")),
                "{status:#?}"
            );
            break message;
        }
        ensure!(Instant::now() < deadline, "{status:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    ensure!(
        said.0 == "False" && said.1.contains("GRANT EVERYTHING TO…"),
        "{said:?}"
    );
    let events: Api<Event> = Api::default_namespaced(bed.client.clone());
    let told = |events: Vec<Event>| {
        let messages: Vec<String> = events.into_iter().filter_map(|event| event.message).collect();
        ensure!(
            messages.iter().any(|m| m.contains("statement 2 of 2")),
            "{messages:?}"
        );
        ensure!(!messages.iter().any(|m| m.contains("hunter2")), "{messages:?}");
        Ok(())
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    told(events.list(&ListParams::default()).await?.items)?;
    let record = bed.record().await?.context("no record")?;
    ensure!(record.state != State::Serving, "{record:?}");
    change(&bed, json!({ "spec": { "onPromotion": ["MERGE (:Promoted)"] } })).await?;
    bed.until_protected().await?;
    ensure!(bed.count(0, "Promoted").await? == 1);
    operator.stop().await?;
    bed.end().await
}
