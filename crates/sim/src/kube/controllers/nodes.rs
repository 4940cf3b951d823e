//! What happens to pods when their node is silent or gone.
//!
//! As upstream: the pods are called not ready and later deleted, but a deleted
//! pod on a silent node stays `Terminating`, because only its node can say that
//! its processes ended. Who knows better takes the node out of service.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::object::{
    Target, condition, condition_is, is_deleting, items, name_of, namespace_of, text, time, with,
    with_condition, written,
};
use super::{Kind, Settings, Turn, View, Write};

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

pub(super) fn reconcile(now: Timestamp, settings: &Settings, view: &dyn View, turn: &mut Turn) {
    let nodes = view.list(Kind::Node);
    let pods = view.list(Kind::Pod);
    for node in &nodes {
        let mine = pods
            .iter()
            .filter(|pod| text(pod, "/spec/nodeName") == name_of(node));
        if is_silent(now, settings, node, view, turn) {
            mark_unreachable(now, node, turn);
            for pod in mine {
                abandon(now, node, pod, turn);
            }
        } else if condition_is(node, "Ready", "True") && tainted(node, UNREACHABLE) {
            turn.writes.push(Write::Replace(with(
                node,
                &["spec", "taints"],
                other_taints(node).into(),
            )));
        }
    }
    for pod in &pods {
        let node = text(pod, "/spec/nodeName");
        let home = nodes.iter().find(|other| name_of(other) == node);
        let lost = !node.is_empty() && home.is_none() && !is_awaited(now, pod, turn);
        let given_up = is_deleting(pod) && home.is_some_and(|node| tainted(node, OUT_OF_SERVICE));
        if lost || given_up {
            turn.writes.push(Write::Delete {
                target: Target::of(pod),
                grace: Some(0),
            });
        }
    }
}

/// A pod that no node has taken yet: the object of its node may come a little later. Upstream gives every pod on an
/// unknown node this time.
fn is_awaited(now: Timestamp, pod: &Value, turn: &mut Turn) -> bool {
    const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);
    let made = time(pod, "/metadata/creationTimestamp").filter(|_| text(pod, "/status/startTime").is_empty());
    match made.and_then(|made| made.checked_add(QUARANTINE).ok()) {
        Some(until) if until > now => {
            turn.due(until);
            true
        }
        _ => false,
    }
}

fn is_silent(now: Timestamp, settings: &Settings, node: &Value, view: &dyn View, turn: &mut Turn) -> bool {
    let lease = view
        .list(Kind::Lease)
        .into_iter()
        .find(|lease| name_of(lease) == name_of(node) && namespace_of(lease) == "kube-node-lease");
    let heard = lease
        .and_then(|lease| time(lease, "/spec/renewTime"))
        .or_else(|| time(node, "/metadata/creationTimestamp"))
        .and_then(|heard| heard.checked_add(settings.node_grace).ok());
    match heard {
        Some(until) if until > now => {
            turn.due(until);
            false
        }
        _ => true,
    }
}

fn mark_unreachable(now: Timestamp, node: &Value, turn: &mut Turn) {
    if !condition_is(node, "Ready", "Unknown") {
        let message = "Kubelet stopped posting node status.";
        let conditions = with_condition(node, now, "Ready", "Unknown", "NodeStatusUnknown", message);
        turn.writes.push(Write::ReplaceStatus(with(
            node,
            &["status", "conditions"],
            conditions,
        )));
    } else if !tainted(node, UNREACHABLE) {
        let mut taints = other_taints(node);
        for effect in ["NoSchedule", "NoExecute"] {
            taints.push(json!({ "key": UNREACHABLE, "effect": effect, "timeAdded": written(now) }));
        }
        turn.writes
            .push(Write::Replace(with(node, &["spec", "taints"], taints.into())));
    }
}

fn abandon(now: Timestamp, node: &Value, pod: &Value, turn: &mut Turn) {
    if condition_is(pod, "Ready", "True") {
        let conditions = with_condition(pod, now, "Ready", "False", "NodeNotReady", "");
        turn.writes.push(Write::ReplaceStatus(with(
            pod,
            &["status", "conditions"],
            conditions,
        )));
    }
    let Some(since) = condition(node, "Ready")
        .filter(|_| condition_is(node, "Ready", "Unknown"))
        .and_then(|ready| time(ready, "/lastTransitionTime"))
    else {
        return;
    };
    let Some(at) = patience(pod).and_then(|patience| since.checked_add(patience).ok()) else {
        return;
    };
    if is_deleting(pod) {
        return;
    }
    if at > now {
        turn.due(at);
    } else {
        turn.writes.push(Write::Delete {
            target: Target::of(pod),
            grace: None,
        });
    }
}

/// How long a pod tolerates a silent node; `None` is for ever. The API gives
/// every pod that says nothing 300 seconds.
fn patience(pod: &Value) -> Option<SignedDuration> {
    let own = items(pod, "/spec/tolerations")
        .iter()
        .find(|toleration| tolerates(toleration, UNREACHABLE, "NoExecute"));
    match own {
        None => Some(SignedDuration::ZERO),
        Some(own) => own
            .get("tolerationSeconds")
            .and_then(Value::as_i64)
            .map(SignedDuration::from_secs),
    }
}

pub(super) fn tolerates(toleration: &Value, key: &str, effect: &str) -> bool {
    // Empty means any.
    let fits = |field: &str, wanted: &str| ["", wanted].contains(&text(toleration, field));
    fits("/key", key) && fits("/effect", effect)
}

fn tainted(node: &Value, key: &str) -> bool {
    items(node, "/spec/taints")
        .iter()
        .any(|taint| text(taint, "/key") == key)
}

fn other_taints(node: &Value) -> Vec<Value> {
    items(node, "/spec/taints")
        .iter()
        .filter(|taint| text(taint, "/key") != UNREACHABLE)
        .cloned()
        .collect()
}
