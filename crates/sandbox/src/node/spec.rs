//! What the node needs to know of a pod, read once.

use jiff::SignedDuration;
use serde_json::Value;

/// When a container that ended is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

/// What a probe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ProbeKind {
    Startup,
    Readiness,
    Liveness,
}

impl ProbeKind {
    /// Its field in a container.
    pub fn field(self) -> &'static str {
        match self {
            Self::Startup => "startupProbe",
            Self::Readiness => "readinessProbe",
            Self::Liveness => "livenessProbe",
        }
    }
}

/// When a probe is asked and what its answers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ProbeTimes {
    pub initial_delay: SignedDuration,
    pub period: SignedDuration,
    pub successes: u32,
    pub failures: u32,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ContainerSpec {
    pub name: String,
    pub image: String,
    pub pre_stop: bool,
    pub probes: Vec<(ProbeKind, ProbeTimes)>,
}

/// One pod.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PodSpec {
    pub restart: RestartPolicy,
    pub grace: SignedDuration,
    pub init: Vec<ContainerSpec>,
    pub containers: Vec<ContainerSpec>,
    /// Whether it has readiness gates.
    pub gated: bool,
}

impl PodSpec {
    /// Read a pod that the store accepted; what is missing has upstream's default.
    pub fn read(pod: &Value) -> Self {
        let list = |field: &str| -> Vec<ContainerSpec> {
            items(pod, &format!("/spec/{field}"))
                .iter()
                .map(container)
                .collect()
        };
        Self {
            restart: match text(pod, "/spec/restartPolicy") {
                "Never" => RestartPolicy::Never,
                "OnFailure" => RestartPolicy::OnFailure,
                _ => RestartPolicy::Always,
            },
            grace: seconds(pod.pointer("/spec/terminationGracePeriodSeconds"), 30),
            init: list("initContainers"),
            containers: list("containers"),
            gated: !items(pod, "/spec/readinessGates").is_empty(),
        }
    }
}

fn container(container: &Value) -> ContainerSpec {
    let kinds = [ProbeKind::Startup, ProbeKind::Readiness, ProbeKind::Liveness];
    ContainerSpec {
        name: text(container, "/name").to_owned(),
        image: text(container, "/image").to_owned(),
        pre_stop: container
            .pointer("/lifecycle/preStop")
            .is_some_and(Value::is_object),
        probes: kinds
            .into_iter()
            .filter_map(|kind| Some((kind, times(container.get(kind.field())?))))
            .collect(),
    }
}

fn times(probe: &Value) -> ProbeTimes {
    let count = |field: &str, default: u32| {
        probe
            .get(field)
            .and_then(Value::as_u64)
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(default)
    };
    ProbeTimes {
        initial_delay: seconds(probe.get("initialDelaySeconds"), 0),
        period: seconds(probe.get("periodSeconds"), 10),
        successes: count("successThreshold", 1),
        failures: count("failureThreshold", 3),
    }
}

pub(super) fn seconds(value: Option<&Value>, default: i64) -> SignedDuration {
    SignedDuration::from_secs(value.and_then(Value::as_i64).unwrap_or(default).max(0))
}

pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}
