//! A pod's status, as the API shows it.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::container::{Container, Ended, State};
use super::lifecycle::Lifecycle;
use super::spec::{RestartPolicy, items, text};

/// What the status says about the place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) host: Ipv4Addr,
    pub(super) pod: Ipv4Addr,
    pub(super) since: Timestamp,
}

/// The whole status. Conditions that others wrote are kept; times of
/// conditions move only with their status.
pub(super) fn status(now: Timestamp, pod: &Value, life: &Lifecycle, place: Place) -> Value {
    let ready = life.containers_ready();
    let mut conditions: Vec<Value> = items(pod, "/status/conditions").to_vec();
    // The node is heard again: what was said about its silence no longer holds.
    let wanted = [
        ("PodScheduled", true, ""),
        ("PodReadyToStartContainers", true, ""),
        ("Initialized", life.is_initialized(), "ContainersNotInitialized"),
        ("ContainersReady", ready, "ContainersNotReady"),
        (
            "Ready",
            ready && life.gates_open,
            if ready {
                "ReadinessGatesNotReady"
            } else {
                "ContainersNotReady"
            },
        ),
    ];
    for (kind, holds, reason) in wanted {
        set_condition(&mut conditions, now, kind, holds, reason);
    }
    json!({
        "phase": phase(life),
        "conditions": conditions,
        "hostIP": place.host.to_string(),
        "hostIPs": [{ "ip": place.host.to_string() }],
        "podIP": place.pod.to_string(),
        "podIPs": [{ "ip": place.pod.to_string() }],
        "startTime": written(place.since),
        "qosClass": text_or(pod, "/status/qosClass", "BestEffort"),
        "initContainerStatuses": life.init.iter().map(|one| container(one, true)).collect::<Vec<_>>(),
        "containerStatuses": life.containers.iter().map(|one| container(one, life.is_initialized())).collect::<Vec<_>>(),
    })
}

fn text_or<'a>(value: &'a Value, pointer: &str, default: &'a str) -> &'a str {
    match text(value, pointer) {
        "" => default,
        text => text,
    }
}

pub(super) fn written(at: Timestamp) -> String {
    format!("{at:.0}")
}

fn set_condition(conditions: &mut Vec<Value>, now: Timestamp, kind: &str, holds: bool, reason: &str) {
    let status = if holds { "True" } else { "False" };
    let old = conditions
        .iter()
        .position(|condition| text(condition, "/type") == kind);
    let since = old
        .and_then(|at| conditions.get(at))
        .filter(|old| text(old, "/status") == status)
        .map_or_else(|| written(now), |old| text(old, "/lastTransitionTime").to_owned());
    let mut new = json!({ "type": kind, "status": status, "lastTransitionTime": since });
    if let (false, Some(map)) = (holds, new.as_object_mut()) {
        map.insert("reason".to_owned(), reason.into());
    }
    match old.and_then(|at| conditions.get_mut(at)) {
        Some(place) => *place = new,
        None => conditions.push(new),
    }
}

fn phase(life: &Lifecycle) -> &'static str {
    let failed =
        |container: &Container| matches!(&container.state, State::Ended(ended) if ended.exit.code != 0);
    if life.has_ended() && (life.deleted.is_some() || life.restart != RestartPolicy::Always) {
        return if life.init.iter().chain(&life.containers).any(failed) {
            "Failed"
        } else {
            "Succeeded"
        };
    }
    let begun = life.containers.iter().all(|container| container.attempts > 0);
    if life.is_initialized() && begun {
        "Running"
    } else {
        "Pending"
    }
}

fn container(container: &Container, initialized: bool) -> Value {
    let mut state = Map::new();
    let (key, value) = match &container.state {
        State::Waiting { .. } | State::Starting if !initialized => {
            ("waiting", json!({ "reason": "PodInitializing" }))
        }
        State::Waiting { reason, message, .. } if message.is_empty() => {
            ("waiting", json!({ "reason": reason }))
        }
        State::Waiting { reason, message, .. } => {
            ("waiting", json!({ "reason": reason, "message": message }))
        }
        State::Starting => ("waiting", json!({ "reason": "ContainerCreating" })),
        State::Running(run) => ("running", json!({ "startedAt": written(run.since) })),
        State::Ended(ended) => ("terminated", terminated(ended)),
    };
    state.insert(key.to_owned(), value);
    let mut status = json!({
        "name": container.spec.name,
        "image": container.spec.image,
        "imageID": container.spec.image,
        "ready": container.is_ready(),
        "started": container.has_started(),
        "restartCount": container.attempts.saturating_sub(1),
        "state": state,
        "lastState": container.last.as_ref().map_or_else(|| json!({}), |last| json!({ "terminated": terminated(last) })),
    });
    let id = match &container.state {
        State::Running(run) => Some(&run.id),
        State::Ended(ended) => Some(&ended.id),
        State::Waiting { .. } | State::Starting => container.last.as_ref().map(|last| &last.id),
    };
    if let (Some(id), Some(map)) = (id, status.as_object_mut()) {
        map.insert("containerID".to_owned(), id.0.clone().into());
    }
    status
}

fn terminated(ended: &Ended) -> Value {
    let mut value = json!({
        "exitCode": ended.exit.code,
        "reason": if ended.exit.code == 0 { "Completed" } else { "Error" },
        "startedAt": written(ended.started),
        "finishedAt": written(ended.finished),
        "containerID": ended.id.0,
    });
    if let (Some(signal), Some(map)) = (ended.exit.signal, value.as_object_mut()) {
        map.insert("signal".to_owned(), signal.into());
    }
    value
}
