//! Which node a pod goes to.

use jiff::Timestamp;
use serde_json::Value;

use super::nodes::tolerates;
use super::object::{
    Target, condition, condition_is, controller, has_ended, is_deleting, items, labels, name_of,
    namespace_of, text, with, with_condition,
};
use super::selector::selects;
use super::{Kind, Turn, View, Write};

pub(super) fn reconcile(now: Timestamp, view: &dyn View, turn: &mut Turn) {
    let pods = view.list(Kind::Pod);
    let nodes = view.list(Kind::Node);
    // Placed in this turn: they fill a node although no view shows it yet.
    let mut placed: Vec<(&str, &Value)> = pods
        .iter()
        .filter(|pod| !has_ended(pod) && !text(pod, "/spec/nodeName").is_empty())
        .map(|pod| (text(pod, "/spec/nodeName"), *pod))
        .collect();
    for pod in pods {
        if !text(pod, "/spec/nodeName").is_empty() || is_deleting(pod) || has_ended(pod) {
            continue;
        }
        match choose(pod, &nodes, &placed, view) {
            Ok(node) => {
                placed.push((node, pod));
                turn.writes.push(Write::Bind {
                    pod: Target::of(pod),
                    node: node.to_owned(),
                });
            }
            Err(why) => {
                let old = condition(pod, "PodScheduled").map(|old| text(old, "/message"));
                if old != Some(why.as_str()) {
                    let conditions = with_condition(pod, now, "PodScheduled", "False", "Unschedulable", &why);
                    turn.writes.push(Write::ReplaceStatus(with(
                        pod,
                        &["status", "conditions"],
                        conditions,
                    )));
                }
            }
        }
    }
}

fn choose<'a>(
    pod: &Value,
    nodes: &[&'a Value],
    placed: &[(&str, &Value)],
    view: &dyn View,
) -> Result<&'a str, String> {
    if let Some(claim) = unbound_claim(pod, view) {
        return Err(format!(
            "pod has unbound immediate PersistentVolumeClaims: {claim}"
        ));
    }
    let volumes = volumes_of(pod, view);
    let mut reasons: Vec<&str> = Vec::new();
    let mut fitting: Vec<&'a str> = Vec::new();
    for node in nodes {
        let elsewhere = volumes.iter().any(|volume| !reaches(volume, node));
        let elsewhere = elsewhere.then_some("node(s) had volume node affinity conflict");
        match objection(pod, node, placed).or(elsewhere) {
            Some(reason) => reasons.push(reason),
            None => fitting.push(name_of(node)),
        }
    }
    let siblings = |node: &str| {
        let same = |other: &Value| controller(other).is_some() && controller(other) == controller(pod);
        placed
            .iter()
            .filter(|(place, other)| *place == node && same(other))
            .count()
    };
    let all = |node: &str| placed.iter().filter(|(place, _)| *place == node).count();
    fitting
        .into_iter()
        .min_by_key(|node| (siblings(node), all(node), *node))
        .ok_or_else(|| {
            reasons.sort_unstable();
            let mut counted: Vec<String> = Vec::new();
            for group in reasons.chunk_by(|a, b| a == b) {
                counted.extend(group.first().map(|reason| format!("{} {reason}", group.len())));
            }
            format!("0/{} nodes are available: {}.", nodes.len(), counted.join(", "))
        })
}

/// The names of the claims that a pod mounts.
fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    items(pod, "/spec/volumes")
        .iter()
        .map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
        .filter(|name| !name.is_empty())
}

fn unbound_claim<'a>(pod: &'a Value, view: &dyn View) -> Option<&'a str> {
    let claims = view.list(Kind::PersistentVolumeClaim);
    claims_of(pod).find(|name| {
        !claims.iter().any(|claim| {
            name_of(claim) == *name
                && namespace_of(claim) == namespace_of(pod)
                && text(claim, "/status/phase") == "Bound"
                && !is_deleting(claim)
        })
    })
}

/// The volumes behind the claims of a pod.
fn volumes_of<'a>(pod: &Value, view: &'a dyn View) -> Vec<&'a Value> {
    let mounted = |claim: &&Value| {
        namespace_of(claim) == namespace_of(pod) && claims_of(pod).any(|name| name == name_of(claim))
    };
    let claims: Vec<&Value> = view
        .list(Kind::PersistentVolumeClaim)
        .into_iter()
        .filter(mounted)
        .collect();
    let bound = |volume: &&Value| {
        let mut names = claims.iter().map(|claim| text(claim, "/spec/volumeName"));
        names.any(|name| name == name_of(volume))
    };
    let volumes = view.list(Kind::PersistentVolume);
    volumes.into_iter().filter(bound).collect()
}

/// Can a volume be used on a node? One that names no nodes can be used on all. Fields of the node are not looked at,
/// only its labels.
fn reaches(volume: &Value, node: &Value) -> bool {
    let terms = items(volume, "/spec/nodeAffinity/required/nodeSelectorTerms");
    terms.is_empty() || terms.iter().any(|term| selects(Some(term), node))
}

/// Why a pod cannot go to a node, in upstream's words.
fn objection(pod: &Value, node: &Value, placed: &[(&str, &Value)]) -> Option<&'static str> {
    if node.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true) {
        return Some("node(s) were unschedulable");
    }
    let untolerated = items(node, "/spec/taints").iter().any(|taint| {
        let effect = text(taint, "/effect");
        let tolerated = |one: &Value| tolerates(one, text(taint, "/key"), effect);
        effect != "PreferNoSchedule" && !items(pod, "/spec/tolerations").iter().any(tolerated)
    });
    if untolerated {
        return Some("node(s) had untolerated taint(s)");
    }
    if !condition_is(node, "Ready", "True") {
        return Some("node(s) were not ready");
    }
    let empty = serde_json::Map::new();
    let wanted = pod
        .pointer("/spec/nodeSelector")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let labelled = labels(node).unwrap_or(&empty);
    if wanted.iter().any(|(key, value)| labelled.get(key) != Some(value)) {
        return Some("node(s) didn't match Pod's node affinity/selector");
    }
    let terms = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let crowded = items(pod, terms).iter().any(|term| {
        placed.iter().any(|(place, other)| {
            *place == name_of(node)
                && namespace_of(other) == namespace_of(pod)
                && selects(term.get("labelSelector"), other)
        })
    });
    crowded.then_some("node(s) didn't match pod anti-affinity rules")
}
