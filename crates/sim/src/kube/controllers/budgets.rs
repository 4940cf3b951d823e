//! PodDisruptionBudgets: how many pods may be evicted now.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object::{
    controller, has_ended, is_deleting, is_ready, namespace_of, number, set, share, text, uid_of,
    with_condition,
};
use super::selector::selects;
use super::{Kind, Turn, View, Write};

pub(super) fn reconcile(now: Timestamp, view: &dyn View, turn: &mut Turn) {
    for budget in view.list(Kind::PodDisruptionBudget) {
        let pods: Vec<&Value> = view
            .list(Kind::Pod)
            .into_iter()
            .filter(|pod| {
                namespace_of(pod) == namespace_of(budget)
                    && selects(budget.pointer("/spec/selector"), pod)
                    && !has_ended(pod)
            })
            .collect();
        let status = status(now, budget, &pods, view);
        if status != *budget {
            turn.writes.push(Write::ReplaceStatus(status));
        }
    }
}

fn status(now: Timestamp, budget: &Value, pods: &[&Value], view: &dyn View) -> Value {
    let expected = expected(pods, view);
    let healthy = i64::try_from(
        pods.iter()
            .filter(|pod| is_ready(pod) && !is_deleting(pod))
            .count(),
    )
    .unwrap_or(i64::MAX);
    let most_missing = share(budget.pointer("/spec/maxUnavailable"), expected, true);
    let desired = match most_missing {
        Some(missing) => (expected - missing).max(0),
        None => share(budget.pointer("/spec/minAvailable"), expected, true).unwrap_or(1),
    };
    let allowed = if expected == 0 {
        0
    } else {
        (healthy - desired).max(0)
    };
    let mut result = budget.clone();
    // Written by an eviction, to be counted until its pod is seen to go; here
    // the pod goes in the same step.
    if let Some(status) = result.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("disruptedPods");
    }
    for (field, value) in [
        (
            "observedGeneration",
            number(budget, "/metadata/generation").unwrap_or_default(),
        ),
        ("expectedPods", expected),
        ("currentHealthy", healthy),
        ("desiredHealthy", desired),
        ("disruptionsAllowed", allowed),
    ] {
        set(&mut result, &["status", field], json!(value));
    }
    let (status, reason) = if allowed > 0 {
        ("True", "SufficientPods")
    } else {
        ("False", "InsufficientPods")
    };
    let conditions = with_condition(&result, now, "DisruptionAllowed", status, reason, "");
    set(&mut result, &["status", "conditions"], conditions);
    result
}

/// How many pods there should be: what their controllers were asked for. Pods
/// that are missing right now must count, or a drain would take the rest.
fn expected(pods: &[&Value], view: &dyn View) -> i64 {
    let mut by_owner: BTreeMap<&str, i64> = BTreeMap::new();
    let mut single = 0;
    for pod in pods {
        match controller(pod) {
            Some(owner) => *by_owner.entry(text(owner, "/uid")).or_default() += 1,
            None => single += 1,
        }
    }
    let owners = [Kind::StatefulSet, Kind::ReplicaSet]
        .map(|kind| view.list(kind))
        .concat();
    let asked = by_owner.iter().map(|(uid, counted)| {
        let owner = owners.iter().find(|owner| uid_of(owner) == *uid);
        owner.map_or(*counted, |owner| number(owner, "/spec/replicas").unwrap_or(1))
    });
    single + asked.sum::<i64>()
}
