//! Deployments: one ReplicaSet per template, replicas moved from old to new.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object::{
    controller_reference, hash, is_controlled_by, is_deleting, name_of, namespace_of, number, set, share,
    text, with, with_condition,
};
use super::selector::adopt;
use super::{Kind, Turn, View, Write};

const HASH_LABEL: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

pub(super) fn reconcile(now: Timestamp, view: &dyn View, turn: &mut Turn) {
    for deployment in view.list(Kind::Deployment) {
        if is_deleting(deployment) {
            continue;
        }
        adopt(Kind::Deployment, deployment, Kind::ReplicaSet, view, turn);
        let sets: Vec<&Value> = view
            .list(Kind::ReplicaSet)
            .into_iter()
            .filter(|set| is_controlled_by(set, deployment))
            .collect();
        let (new, old): (Vec<&Value>, Vec<&Value>) =
            sets.iter().copied().partition(|set| follows(set, deployment));
        match new.first() {
            None => turn.writes.push(Write::Create(replica_set(deployment, &sets))),
            Some(new) => roll(deployment, new, &old, turn),
        }
        let status = status(now, deployment, new.first().copied(), &sets);
        if status != *deployment {
            turn.writes.push(Write::ReplaceStatus(status));
        }
    }
}

/// Whether a ReplicaSet has the Deployment's template, its own label aside.
fn follows(replica_set: &Value, deployment: &Value) -> bool {
    let mut template = replica_set.pointer("/spec/template").cloned().unwrap_or_default();
    if let Some(labels) = template
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.remove(HASH_LABEL);
    }
    Some(&template) == deployment.pointer("/spec/template")
}

fn roll(deployment: &Value, new: &Value, old: &[&Value], turn: &mut Turn) {
    let wanted = number(deployment, "/spec/replicas").unwrap_or(1);
    let mut resize = |set: &Value, to: i64| {
        if replicas(set) != to {
            turn.writes
                .push(Write::Replace(with(set, &["spec", "replicas"], json!(to))));
        }
    };
    if text(deployment, "/spec/strategy/type") == "Recreate" {
        for set in old {
            resize(set, 0);
        }
        // Upstream waits for the old pods to be gone; their set knows.
        if old.iter().all(|set| status_of(set, "replicas") == 0) {
            resize(new, wanted);
        }
        return;
    }
    let (surge, unavailable) = limits(deployment, wanted);
    let total: i64 = replicas(new) + old.iter().map(|set| replicas(set)).sum::<i64>();
    let room = (wanted + surge - total).max(0);
    let target = (replicas(new) + room).min(wanted);
    resize(new, target);
    // How many may go: what is available beyond the minimum, pods of the new
    // set that are still coming not counted as reserve.
    let available = serving(new) + old.iter().map(|set| serving(set)).sum::<i64>();
    let mut spare = (available - (wanted - unavailable)).max(0);
    for set in old {
        let healthy = serving(set);
        let fewer = healthy.min(spare);
        spare -= fewer;
        resize(set, healthy - fewer);
    }
}

fn replicas(set: &Value) -> i64 {
    number(set, "/spec/replicas").unwrap_or(1)
}

/// Pods that serve and that nobody asked to go yet: a set's status lags behind
/// its size, and a pod must not be counted as spare twice.
fn serving(set: &Value) -> i64 {
    status_of(set, "availableReplicas").min(replicas(set))
}

fn status_of(set: &Value, field: &str) -> i64 {
    number(set, &format!("/status/{field}")).unwrap_or_default()
}

/// `maxSurge` and `maxUnavailable`; both zero would never move.
fn limits(deployment: &Value, wanted: i64) -> (i64, i64) {
    let rolling = deployment.pointer("/spec/strategy/rollingUpdate");
    let quarter = json!("25%");
    let of = |field: &str, up| {
        let value = rolling.and_then(|rolling| rolling.get(field)).unwrap_or(&quarter);
        share(Some(value), wanted, up).unwrap_or_default()
    };
    let (surge, unavailable) = (of("maxSurge", true), of("maxUnavailable", false));
    if surge == 0 && unavailable == 0 {
        (0, 1)
    } else {
        (surge, unavailable)
    }
}

fn replica_set(deployment: &Value, sets: &[&Value]) -> Value {
    let template = deployment.pointer("/spec/template").cloned().unwrap_or_default();
    let word = hash(&template, 0);
    let revision = sets
        .iter()
        .filter_map(|set| {
            set.pointer("/metadata/annotations")?
                .get(REVISION)?
                .as_str()?
                .parse::<i64>()
                .ok()
        })
        .max()
        .unwrap_or_default();
    let mut new = json!({
        "apiVersion": Kind::ReplicaSet.api_version(),
        "kind": Kind::ReplicaSet.name(),
        "metadata": {
            "name": format!("{}-{word}", name_of(deployment)),
            "namespace": namespace_of(deployment),
            "labels": template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({})),
            "annotations": { REVISION: (revision + 1).to_string() },
            "ownerReferences": [controller_reference(Kind::Deployment, deployment)],
        },
        "spec": {
            "replicas": 0,
            "minReadySeconds": number(deployment, "/spec/minReadySeconds").unwrap_or_default(),
            "selector": deployment.pointer("/spec/selector").cloned().unwrap_or_default(),
            "template": template,
        },
    });
    for path in [
        &["metadata", "labels", HASH_LABEL][..],
        &["spec", "selector", "matchLabels", HASH_LABEL],
        &["spec", "template", "metadata", "labels", HASH_LABEL],
    ] {
        set(&mut new, path, word.as_str().into());
    }
    new
}

fn status(now: Timestamp, deployment: &Value, new: Option<&Value>, sets: &[&Value]) -> Value {
    let sum = |field: &str| sets.iter().map(|set| status_of(set, field)).sum::<i64>();
    let wanted = number(deployment, "/spec/replicas").unwrap_or(1);
    let available = sum("availableReplicas");
    let updated = new.map(|new| status_of(new, "replicas")).unwrap_or_default();
    let mut result = deployment.clone();
    for (field, value) in [
        (
            "observedGeneration",
            number(deployment, "/metadata/generation").unwrap_or_default(),
        ),
        ("replicas", sum("replicas")),
        ("updatedReplicas", updated),
        ("readyReplicas", sum("readyReplicas")),
        ("availableReplicas", available),
        ("unavailableReplicas", (wanted - available).max(0)),
    ] {
        set(&mut result, &["status", field], json!(value));
    }
    let (_, unavailable) = limits(deployment, wanted);
    let (status, reason) = if available >= wanted - unavailable {
        ("True", "MinimumReplicasAvailable")
    } else {
        ("False", "MinimumReplicasUnavailable")
    };
    let conditions = with_condition(&result, now, "Available", status, reason, "");
    set(&mut result, &["status", "conditions"], conditions);
    let done = updated == wanted && sum("replicas") == wanted && available == wanted;
    let reason = if done {
        "NewReplicaSetAvailable"
    } else {
        "ReplicaSetUpdated"
    };
    let conditions = with_condition(&result, now, "Progressing", "True", reason, "");
    set(&mut result, &["status", "conditions"], conditions);
    result
}
