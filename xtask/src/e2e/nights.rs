//! A plan puts to sleep what it is asked to, and wakes it as it was: workloads of every kind, and the cluster itself.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::look::{PATIENCE, condition, until};
use super::place::Place;
use super::undo::Undo;

const PLAN: &str = "night";
/// What sleeps besides databases.
const NAME: &str = "sleeper";
/// By which the plan selects it.
const LABEL: &str = "e2e.mainstay.dev/sleeps";
/// A kind of KEDA that nobody serves here but the API server: the operator asks for it, and pauses it.
const SCALERS: &str = "scaledobjects.keda.sh";
const PAUSED: &str = "/metadata/annotations/autoscaling.keda.sh~1paused-replicas";
/// More than one, so that the number that comes back says something.
const REPLICAS: u64 = 2;

/// A plan that never sleeps by itself: the only day of its schedule is over, and people ask.
pub(super) fn plan(targets: &Value) -> Value {
    json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "HibernatePlan", "metadata": { "name": PLAN },
        "spec": {
            "schedule": { "timezone": "UTC", "offHours": [], "intervals": [], "holidays": [{ "date": "2020-01-01" }] },
            "targets": targets,
        },
    })
}

pub(super) fn sleep(place: &Place<'_>, namespace: &str) -> Result<()> {
    place.mainstay(&[
        "hibernate",
        "sleep",
        PLAN,
        "--namespace",
        namespace,
        "--until",
        "2099-01-01T00:00:00Z",
        "--wait",
        "--timeout",
        "8m",
    ])
}

pub(super) fn wake(place: &Place<'_>, namespace: &str) -> Result<()> {
    place.mainstay(&[
        "hibernate",
        "resume",
        PLAN,
        "--namespace",
        namespace,
        "--wait",
        "--timeout",
        "8m",
    ])
}

/// Its finalizer goes when everything is awake.
pub(super) fn forget(place: &Place<'_>, namespace: &str) -> Result<()> {
    let plan = format!("hibernateplans/{PLAN}");
    place.kubectl(&[
        "-n",
        namespace,
        "delete",
        &plan,
        "--ignore-not-found",
        "--timeout=240s",
    ])
}

/// It runs, as the level `restricted` wants it, and ends when it is told to.
fn pod(app: &str, more: &Value) -> Value {
    let mut spec = json!({
        "securityContext": { "runAsNonRoot": true, "runAsUser": 65_532, "seccompProfile": { "type": "RuntimeDefault" } },
        "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "pause", "image": "localhost/pause:1",
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        }],
    });
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more.clone());
    }
    json!({ "metadata": { "labels": { "app": app } }, "spec": spec })
}

fn labelled(version: &str, kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": version, "kind": kind,
        "metadata": { "name": NAME, "labels": { LABEL: "true" } },
        "spec": spec,
    })
}

/// One of each kind that a plan knows.
fn workloads() -> Vec<Value> {
    let replicated = |kind: &str| {
        let app = kind.to_lowercase();
        let mut spec = json!({
            "replicas": REPLICAS,
            "selector": { "matchLabels": { "app": app } },
            "template": pod(&app, &json!({})),
        });
        if let (Value::Object(spec), "StatefulSet") = (&mut spec, kind) {
            spec.insert("serviceName".to_owned(), json!(NAME));
        }
        labelled("apps/v1", kind, &spec)
    };
    // Once a year, and never here: it is its switch that counts.
    let job = json!({
        "schedule": "0 0 1 1 *",
        "jobTemplate": { "spec": { "template": pod("cronjob", &json!({ "restartPolicy": "Never" })) } },
    });
    vec![
        replicated("Deployment"),
        replicated("StatefulSet"),
        replicated("ReplicaSet"),
        labelled("batch/v1", "CronJob", &job),
    ]
}

fn scalers() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": SCALERS },
        "spec": {
            "group": "keda.sh", "scope": "Namespaced",
            "names": { "kind": "ScaledObject", "plural": "scaledobjects", "singular": "scaledobject" },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}

/// What was made for the suite is gone, and whatever the plan put to sleep is awake.
fn clean(place: &Place<'_>) -> Result<()> {
    forget(place, Place::DATABASES)?;
    let (exception, selector) = (format!("scheduleexceptions/{PLAN}"), format!("{LABEL}=true"));
    place.kubectl(&["-n", Place::DATABASES, "delete", &exception, "--ignore-not-found"])?;
    let kinds = "deployments,statefulsets,replicasets,cronjobs";
    place.kubectl(&["-n", Place::DATABASES, "delete", kinds, "-l", &selector])?;
    place.kubectl(&["delete", "crd", SCALERS, "--ignore-not-found"])
}

/// How many of each are wanted; `CronJob` and scaler are switches.
fn are(place: &Place<'_>, replicas: u64) -> Result<bool> {
    let object = |kind: &str| place.object(Place::DATABASES, &format!("{kind}/{NAME}"));
    for kind in ["deployments", "statefulsets", "replicasets"] {
        let object = object(kind)?;
        let number = |at: &str| object.pointer(at).and_then(Value::as_u64).unwrap_or_default();
        if number("/spec/replicas") != replicas || number("/status/replicas") != replicas {
            return Ok(false);
        }
    }
    let asleep = replicas == 0;
    let suspended = object("cronjobs")?.pointer("/spec/suspend") == Some(&json!(true));
    let paused = object(SCALERS)?.pointer(PAUSED) == Some(&json!("0"));
    Ok(suspended == asleep && paused == asleep)
}

fn until_are(place: &Place<'_>, replicas: u64) -> Result<()> {
    until(PATIENCE, &format!("workloads of {replicas}"), || {
        Ok(are(place, replicas)?.then_some(()))
    })
}

pub(super) fn sleeps_and_wakes(place: &Place<'_>) -> Result<()> {
    let gone = Undo::by(|| clean(place));
    place.apply(Place::DATABASES, &[scalers()])?;
    let established = "--for=condition=Established";
    place.kubectl(&["wait", established, &format!("crd/{SCALERS}"), "--timeout=60s"])?;
    let scaler = labelled(
        "keda.sh/v1alpha1",
        "ScaledObject",
        &json!({ "scaleTargetRef": { "name": NAME } }),
    );
    let mut objects = workloads();
    objects.push(scaler);
    place.apply(Place::DATABASES, &objects)?;
    until_are(place, REPLICAS)?;
    // Applications go down before the database, and come up after it.
    let targets = json!([
        { "name": "apps", "executor": "workloads", "parameters": {
            "includedGroups": ["Deployment", "StatefulSet", "ReplicaSet", "CronJob"],
            "workloadSelector": { "matchLabels": { LABEL: "true" } },
        } },
        { "name": "graph", "executor": "memgraph", "parameters": { "names": [Place::CLUSTER] } },
    ]);
    // Over, and told so.
    let exception = json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "ScheduleException", "metadata": { "name": PLAN },
        "spec": {
            "planRef": { "name": PLAN }, "type": "extend",
            "validFrom": "2020-01-01T00:00:00Z", "validUntil": "2020-01-02T00:00:00Z",
        },
    });
    place.apply(Place::DATABASES, &[plan(&targets), exception])?;
    let main = place.main_pod()?;
    sleep(place, Place::DATABASES)?;
    until_are(place, 0)?;
    ensure!(
        condition(&place.cluster()?, "Hibernated"),
        "the cluster is not asleep"
    );
    wake(place, Place::DATABASES)?;
    until_are(place, REPLICAS)?;
    place.until_protected()?;
    let now = place.main_pod()?;
    ensure!(now == main, "{main} fell asleep as MAIN, and {now} woke as MAIN");
    let exception = place.object(Place::DATABASES, &format!("scheduleexceptions/{PLAN}"))?;
    ensure!(
        exception.pointer("/status/state") == Some(&json!("Expired")),
        "the exception is over, and nobody says so: {exception}"
    );
    gone.now()?;
    place.until_whole()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_selected_by_the_label_and_its_pods_are_not() {
        for workload in workloads() {
            assert_eq!(workload["metadata"]["labels"][LABEL], "true", "{workload}");
            let pods = ["/spec/template", "/spec/jobTemplate/spec/template"];
            let pod = pods.iter().find_map(|at| workload.pointer(at)).unwrap();
            assert!(pod["metadata"]["labels"].get(LABEL).is_none(), "{pod}");
        }
    }
}
