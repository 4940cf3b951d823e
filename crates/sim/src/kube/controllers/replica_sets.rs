//! ReplicaSets: that many pods, whatever they are called.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object::{
    Target, available, controller_reference, has_ended, hash, is_controlled_by, is_deleting, is_ready,
    name_of, namespace_of, number, set, text, uid_of, with,
};
use super::selector::adopt;
use super::{Kind, Turn, View, Write};

pub(super) fn reconcile(now: Timestamp, view: &dyn View, turn: &mut Turn) {
    for owner in view.list(Kind::ReplicaSet) {
        if is_deleting(owner) {
            continue;
        }
        adopt(Kind::ReplicaSet, owner, Kind::Pod, view, turn);
        let pods = live_pods(owner, view);
        scale(owner, &pods, view, turn);
        let status = with(owner, &["status"], status(now, owner, &pods, turn));
        if status != *owner {
            turn.writes.push(Write::ReplaceStatus(status));
        }
    }
}

/// Pods that count: a pod on its way out was already replaced.
fn live_pods<'a>(owner: &Value, view: &'a dyn View) -> Vec<&'a Value> {
    view.list(Kind::Pod)
        .into_iter()
        .filter(|pod| is_controlled_by(pod, owner) && !is_deleting(pod) && !has_ended(pod))
        .collect()
}

fn scale(owner: &Value, pods: &[&Value], view: &dyn View, turn: &mut Turn) {
    let wanted = usize::try_from(number(owner, "/spec/replicas").unwrap_or(1)).unwrap_or_default();
    if let Some(missing) = wanted.checked_sub(pods.len()) {
        let taken: Vec<&str> = view.list(Kind::Pod).into_iter().map(name_of).collect();
        let names = (0u64..).map(|salt| {
            let word: String = hash(&uid_of(owner).into(), salt).chars().take(5).collect();
            format!("{}-{word}", name_of(owner))
        });
        for name in names.filter(|name| !taken.contains(&name.as_str())).take(missing) {
            turn.writes.push(Write::Create(pod(owner, &name)));
        }
    }
    // Those that serve least go first: not placed, not ready, then the youngest.
    let mut order: Vec<&Value> = pods.to_vec();
    order.sort_by_key(|pod| {
        let age = text(pod, "/metadata/creationTimestamp");
        (
            !text(pod, "/spec/nodeName").is_empty(),
            is_ready(pod),
            std::cmp::Reverse(age),
            name_of(pod),
        )
    });
    for pod in order.into_iter().take(pods.len().saturating_sub(wanted)) {
        turn.writes.push(Write::Delete {
            target: Target::of(pod),
            grace: None,
        });
    }
}

fn pod(owner: &Value, name: &str) -> Value {
    let template = owner.pointer("/spec/template");
    let part = |key: &str| {
        template
            .and_then(|template| template.get(key))
            .cloned()
            .unwrap_or_else(|| json!({}))
    };
    let mut pod = json!({
        "apiVersion": Kind::Pod.api_version(),
        "kind": Kind::Pod.name(),
        "metadata": part("metadata"),
        "spec": part("spec"),
    });
    set(&mut pod, &["metadata", "name"], name.into());
    set(&mut pod, &["metadata", "namespace"], namespace_of(owner).into());
    set(
        &mut pod,
        &["metadata", "ownerReferences"],
        json!([controller_reference(Kind::ReplicaSet, owner)]),
    );
    pod
}

fn status(now: Timestamp, owner: &Value, pods: &[&Value], turn: &mut Turn) -> Value {
    let min_ready = number(owner, "/spec/minReadySeconds").unwrap_or_default();
    let mut available_replicas = 0;
    for pod in pods {
        match available(pod, min_ready, now) {
            Ok(()) => available_replicas += 1,
            Err(Some(at)) => turn.due(at),
            Err(None) => {}
        }
    }
    json!({
        "observedGeneration": number(owner, "/metadata/generation").unwrap_or_default(),
        "replicas": pods.len(),
        "fullyLabeledReplicas": pods.len(),
        "readyReplicas": pods.iter().filter(|pod| is_ready(pod)).count(),
        "availableReplicas": available_replicas,
    })
}
