//! Manifests that cannot be followed, each refused with a message that says what to write instead.

use crate::bed::{EXCEPTIONS, PLANS, kind};
use anyhow::{Result, bail, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use sandbox::kube::Kubernetes;
use serde_json::{Value, json};

fn good_plan() -> Value {
    json!({
        "schedule": {
            "timezone": "Europe/Berlin",
            "offHours": [{ "start": "20:00", "end": "06:00", "daysOfWeek": ["MON"] }],
        },
        "targets": [
            { "name": "web", "executor": "workloads" },
            { "name": "db", "executor": "memgraph" },
        ],
    })
}

fn good_exception() -> Value {
    json!({
        "planRef": { "name": "p" }, "type": "extend",
        "validFrom": "2026-12-24T18:00:00+01:00", "validUntil": "2026-12-27T06:00:00+01:00",
    })
}

/// Where, what is there, and a part of what is said.
type Bad = (&'static str, Value, &'static str);

fn bad_schedules() -> Vec<Bad> {
    let hours = |start: &str, end: &str| json!([{ "start": start, "end": end, "daysOfWeek": ["MON"] }]);
    let days = |days: Value| json!([{ "start": "20:00", "end": "06:00", "daysOfWeek": days }]);
    let interval = |from: &str, to: &str| json!([{ "from": from, "to": to }]);
    vec![
        ("/schedule/timezone", json!(""), "timezone"),
        ("/schedule/timezone", json!("+02:00"), "IANA name"),
        ("/schedule/timezone", json!("Europe Berlin"), "IANA name"),
        ("/schedule/timezone", json!(2), "timezone"),
        ("/schedule/offHours", json!([]), "nothing would ever sleep"),
        ("/schedule/offHours", hours("20:00", "20:00"), "00:00 to 24:00"),
        ("/schedule/offHours", hours("8:00", "20:00"), "such as 20:00"),
        ("/schedule/offHours", hours("24:00", "06:00"), "00:00 to 23:59"),
        ("/schedule/offHours", hours("20:60", "06:00"), "such as 20:00"),
        ("/schedule/offHours", hours("20:00", "24:01"), "such as 06:00"),
        ("/schedule/offHours", hours("20:00", "6"), "such as 06:00"),
        ("/schedule/offHours", days(json!([])), "daysOfWeek"),
        ("/schedule/offHours", days(json!(["MONDAY"])), "daysOfWeek"),
        ("/schedule/offHours", days(json!(["mon"])), "daysOfWeek"),
        ("/schedule/offHours", days(json!("MON")), "daysOfWeek"),
        (
            "/schedule/intervals",
            interval("FRI", "MON 06:00"),
            "such as FRI 20:00",
        ),
        (
            "/schedule/intervals",
            interval("FRI 20:00", "MON"),
            "such as MON 06:00",
        ),
        (
            "/schedule/intervals",
            interval("Fri 20:00", "MON 06:00"),
            "such as FRI 20:00",
        ),
        (
            "/schedule/intervals",
            interval("FRI 24:00", "MON 06:00"),
            "such as FRI 20:00",
        ),
        (
            "/schedule/intervals",
            interval("FRI 20:00", "FRI 20:00"),
            "end later than it begins",
        ),
        (
            "/schedule/holidays",
            json!([{ "date": "25.12.2026" }]),
            "2026-12-25",
        ),
        (
            "/schedule/holidays",
            json!([{ "date": "2026-13-01" }]),
            "2026-12-25",
        ),
        ("/schedule", json!(null), "schedule"),
    ]
}

fn bad_plans() -> Vec<Bad> {
    let target = |name: &str, executor: &str| json!([{ "name": name, "executor": executor }]);
    vec![
        ("/targets", json!([]), "targets"),
        (
            "/targets",
            json!([{ "name": "a", "executor": "noop" }, { "name": "a", "executor": "noop" }]),
            "a name of its own",
        ),
        ("/targets", target("", "noop"), "name"),
        ("/targets", target("a/b", "noop"), "key of a ConfigMap"),
        ("/targets", target("-a", "noop"), "key of a ConfigMap"),
        ("/targets", target(&"a".repeat(64), "noop"), "name"),
        ("/targets", target("a", "EC2"), "such as workloads"),
        ("/targets", target("a", "ec_2"), "such as workloads"),
        ("/targets", json!([{ "name": "a" }]), "executor"),
        (
            "/targets",
            json!([{ "name": "a", "executor": "noop", "readyWithin": "soon" }]),
            "readyWithin",
        ),
        (
            "/targets",
            json!([{ "name": "a", "executor": "noop", "readyWithin": "1.5h" }]),
            "in whole numbers",
        ),
        (
            "/targets",
            json!([{ "name": "a", "executor": "noop", "readyWithin": "25h" }]),
            "1s to 24h",
        ),
        (
            "/targets",
            json!([{ "name": "a", "executor": "noop", "drift": "Fix" }]),
            "drift",
        ),
        (
            "/targets",
            json!([{ "name": "a", "executor": "noop", "parameters": "x" }]),
            "parameters",
        ),
        ("/behavior", json!({ "mode": "strict" }), "mode"),
        ("/behavior", json!({ "retries": 11 }), "0 to 10"),
        ("/behavior", json!({ "retries": -1 }), "retries"),
        ("/suspend", json!("yes"), "suspend"),
        ("/deletionPolicy", json!("Wake"), "deletionPolicy"),
    ]
}

fn bad_strategies() -> Vec<Bad> {
    let strategy = |value: Value| json!({ "strategy": value });
    let edge = |from: &str, to: &str| json!([{ "from": from, "to": to }]);
    let stage = |name: &str, targets: Value| json!({ "name": name, "targets": targets });
    vec![
        ("/execution", strategy(json!({ "type": "Random" })), "type"),
        (
            "/execution",
            strategy(json!({ "type": "Sequential", "maxConcurrency": 2 })),
            "belongs to strategy Parallel or DAG",
        ),
        (
            "/execution",
            strategy(json!({ "type": "Parallel", "maxConcurrency": 0 })),
            "at least 1",
        ),
        (
            "/execution",
            strategy(json!({ "type": "Parallel", "dependencies": edge("web", "db") })),
            "belong to strategy DAG",
        ),
        (
            "/execution",
            strategy(json!({ "type": "DAG" })),
            "needs dependencies",
        ),
        (
            "/execution",
            strategy(json!({ "type": "DAG", "dependencies": edge("web", "web") })),
            "depend on itself",
        ),
        (
            "/execution",
            strategy(json!({ "type": "DAG", "dependencies": edge("web", "cache") })),
            "not in spec.targets",
        ),
        (
            "/execution",
            strategy(json!({ "type": "Sequential", "stages": [stage("a", json!(["web"]))] })),
            "belong to strategy Staged",
        ),
        (
            "/execution",
            strategy(json!({ "type": "Staged" })),
            "needs stages",
        ),
        (
            "/execution",
            strategy(json!({ "type": "Staged", "stages": [stage("a", json!(["web"]))] })),
            "in no stage",
        ),
        (
            "/execution",
            strategy(json!({ "type": "Staged", "stages": [stage("a", json!(["web", "db", "x"]))] })),
            "not in spec.targets",
        ),
        (
            "/execution",
            strategy(
                json!({ "type": "Staged", "stages": [stage("a", json!(["web"])), stage("a", json!(["db"]))] }),
            ),
            "the same name",
        ),
        (
            "/execution",
            strategy(
                json!({ "type": "Staged", "stages": [{ "name": "a", "targets": ["web", "db"], "maxConcurrency": 2 }] }),
            ),
            "needs parallel: true",
        ),
    ]
}

fn bad_exceptions() -> Vec<Bad> {
    vec![
        ("/planRef", json!({}), "name"),
        ("/planRef", json!({ "name": "" }), "name"),
        ("/type", json!("Extend"), "type"),
        (
            "/validFrom",
            json!("tomorrow"),
            "such as 2026-12-24T18:00:00+01:00",
        ),
        (
            "/validFrom",
            json!("2026-12-24"),
            "such as 2026-12-24T18:00:00+01:00",
        ),
        (
            "/validFrom",
            json!("2026-12-28T00:00:00Z"),
            "later than spec.validFrom",
        ),
        ("/validUntil", json!("2027-12-28T00:00:00Z"), "90 days"),
        ("/leadTime", json!("1h"), "belongs to type suspend"),
        ("/leadTime", json!("1.5h"), "in whole numbers"),
        ("/type", json!("replace"), "write type: suspend"),
        (
            "/windows",
            json!([{ "start": "20:00", "end": "20:00", "daysOfWeek": ["MON"] }]),
            "00:00 to 24:00",
        ),
        ("/targets", json!([{ "disabled": true }]), "name"),
    ]
}

async fn refused(path: &str, good: Value, all: Vec<Bad>) -> Result<()> {
    let kubernetes = Kubernetes::new(3);
    let client = kubernetes.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in api::kinds() {
        definitions.create(&PostParams::default(), &kind).await?;
    }
    let kind = kind(path);
    let api: Api<DynamicObject> = Api::default_namespaced_with(client, &kind);
    let create = async |name: &str, spec: &Value| {
        let object = json!({
            "apiVersion": kind.api_version, "kind": kind.kind, "metadata": { "name": name }, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        api.create(&PostParams::default(), &object).await
    };
    create("good", &good).await?;
    let mut wrong = Vec::new();
    for (place, value, part) in all {
        let mut spec = good.clone();
        let (parent, field) = place.rsplit_once('/').unwrap_or_default();
        spec.pointer_mut(parent)
            .and_then(Value::as_object_mut)
            .map(|o| o.insert(field.to_owned(), value.clone()));
        match create("x", &spec).await {
            Err(kube::Error::Api(status)) if status.message.contains(part) => {}
            Err(kube::Error::Api(status)) => wrong.push(format!("{place} {value}: {}", status.message)),
            Err(error) => bail!(error),
            Ok(_) => {
                wrong.push(format!("{place} {value}: accepted"));
                api.delete("x", &DeleteParams::default()).await?;
            }
        }
    }
    if path == PLANS {
        for name in ["with.a.dot".to_owned(), "a".repeat(64)] {
            let said = create(&name, &good)
                .await
                .err()
                .map(|e| e.to_string())
                .unwrap_or_default();
            ensure!(said.contains("hibernator-restore-NAME"), "{name}: {said}");
        }
    }
    kubernetes.shutdown().await;
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[tokio::test]
async fn s10_s49_bad_plans_are_refused_with_what_to_write_instead() -> Result<()> {
    let all = [bad_schedules(), bad_plans(), bad_strategies()].concat();
    ensure!(all.len() >= 50, "only {}", all.len());
    refused(PLANS, good_plan(), all).await
}

#[tokio::test]
async fn bad_exceptions_are_refused_with_what_to_write_instead() -> Result<()> {
    refused(EXCEPTIONS, good_exception(), bad_exceptions()).await
}
