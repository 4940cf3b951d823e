//! What is known of every cluster, for whoever asks over HTTP; and the metrics.

use crate::clock::{monotonic, rfc3339};
use crate::engine::queue::Depth;
use crate::engine::turns::Key;
use crate::memgraph::report::{Told, phases};
use mainstay_core::memgraph::observed::{Contact, Role};
use mainstay_core::time::Time;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Everything that is shown.
#[derive(Default)]
pub struct Board {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clusters: BTreeMap<Key, Shown>,
    beat: Time,
    turns: u64,
    failed: u64,
    refused_plans: u64,
    unfenced: u64,
}

#[derive(Default)]
struct Shown {
    told: Option<Told>,
    error: Option<String>,
    main_changes: u64,
    turns: u64,
    failed: u64,
}

impl Board {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of turns is alive.
    pub fn beat(&self) {
        self.state().beat = monotonic();
    }

    /// How long ago it last said so.
    pub fn silence(&self) -> Duration {
        monotonic().since(self.state().beat)
    }

    /// A turn is over.
    pub fn told(&self, key: &Key, told: Option<Told>) {
        let mut state = self.state();
        state.turns += 1;
        let Some(told) = told else { return };
        state.refused_plans += u64::from(!told.violations.is_empty());
        state.unfenced += u64::from(told.acted.unfenced);
        let shown = state.clusters.entry(key.clone()).or_default();
        shown.turns += 1;
        shown.main_changes += u64::from(phases(&told).is_some());
        shown.error = None;
        shown.told = Some(told);
    }

    /// A turn came to nothing.
    pub fn failed(&self, key: &Key, why: &str) {
        let mut state = self.state();
        state.failed += 1;
        let shown = state.clusters.entry(key.clone()).or_default();
        shown.failed += 1;
        shown.error = Some(why.to_owned());
    }

    /// The cluster is gone.
    pub fn forget(&self, key: &Key) {
        self.state().clusters.remove(key);
    }

    /// All clusters as JSON.
    pub fn clusters(&self) -> Value {
        let state = self.state();
        let all: Vec<Value> = state
            .clusters
            .iter()
            .map(|(key, shown)| cluster(key, shown))
            .collect();
        json!({ "clusters": all })
    }

    /// One cluster as JSON.
    pub fn cluster(&self, namespace: &str, name: &str) -> Option<Value> {
        let key = Key {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.state().clusters.get(&key).map(|shown| cluster(&key, shown))
    }

    /// The metrics as text.
    pub fn metrics(&self, leads: bool, depth: Depth) -> String {
        let state = self.state();
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, values: &[(String, u64)]| {
            // Writing to a String does not fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in values {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let one = |value: u64| vec![(String::new(), value)];
        let of = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
        metric(
            "memgraph_controller_is_leader",
            "gauge",
            "Whether this operator leads.",
            &one(u64::from(leads)),
        );
        metric(
            "memgraph_controller_reconciliations_total",
            "counter",
            "Turns.",
            &one(state.turns + state.failed),
        );
        metric(
            "memgraph_controller_reconciliations_successful_total",
            "counter",
            "Turns that looked and decided.",
            &one(state.turns),
        );
        metric(
            "memgraph_controller_reconciliations_failed_total",
            "counter",
            "Turns that came to nothing.",
            &one(state.failed),
        );
        metric(
            "mainstay_plans_refused_total",
            "counter",
            "Plans that would have broken an invariant.",
            &one(state.refused_plans),
        );
        metric(
            "mainstay_unfenced_promotions_total",
            "counter",
            "Promotions without a fence, as policy allowed.",
            &one(state.unfenced),
        );
        let Depth {
            failover,
            reconcile,
            aside,
            running,
            overflows,
        } = depth;
        let queues = [
            (r#"{queue="failover"}"#.to_owned(), of(failover)),
            (r#"{queue="reconcile"}"#.to_owned(), of(reconcile)),
            (r#"{queue="aside"}"#.to_owned(), of(aside)),
        ];
        metric(
            "mainstay_queue_depth",
            "gauge",
            "Clusters that wait for a turn.",
            &queues,
        );
        metric(
            "mainstay_turns_running",
            "gauge",
            "Turns under way.",
            &one(of(running)),
        );
        metric(
            "mainstay_queue_overflows_total",
            "counter",
            "How often a queue was full; nothing is lost by it.",
            &one(overflows),
        );
        let labelled = |value: &dyn Fn(&Shown) -> u64| -> Vec<(String, u64)> {
            let pairs = state.clusters.iter();
            pairs
                .map(|(Key { namespace, name }, shown)| {
                    (
                        format!("{{namespace=\"{namespace}\",cluster=\"{name}\"}}"),
                        value(shown),
                    )
                })
                .collect()
        };
        metric(
            "memgraph_cluster_main_changes_total",
            "counter",
            "Terms begun.",
            &labelled(&|s| s.main_changes),
        );
        metric(
            "memgraph_cluster_pods_total",
            "gauge",
            "Pods seen.",
            &labelled(&|s| of(pods(s, |_| true))),
        );
        metric(
            "memgraph_cluster_pods_healthy",
            "gauge",
            "Pods that answer.",
            &labelled(&|s| of(pods(s, |c| matches!(c, Contact::Answered(_))))),
        );
        metric(
            "memgraph_cluster_sync_replica_healthy",
            "gauge",
            "Whether the cluster is protected.",
            &labelled(&|s| u64::from(protected(s))),
        );
        text
    }
}

fn pods(shown: &Shown, which: impl Fn(&Contact) -> bool) -> usize {
    let observed = shown.told.as_ref().and_then(|told| told.observed.as_ref());
    observed.map_or(0, |seen| {
        seen.pods.iter().filter(|pod| which(&pod.contact)).count()
    })
}

fn protected(shown: &Shown) -> bool {
    let document = shown.told.as_ref().and_then(|told| told.document.as_ref());
    document.is_some_and(|document| document.record.sync.is_some())
}

fn cluster(key: &Key, shown: &Shown) -> Value {
    let Key { namespace, name } = key;
    let told = shown.told.as_ref();
    let document = told.and_then(|told| told.document.as_ref());
    let observed = told.and_then(|told| told.observed.as_ref());
    let pod = |ordinal: mainstay_core::memgraph::ids::Ordinal| format!("{name}-{}", ordinal.0);
    let pods: Vec<Value> = observed
        .iter()
        .flat_map(|seen| &seen.pods)
        .map(|p| {
            let (role, at) = match &p.contact {
                Contact::Answered(answer) => {
                    let role = match answer.role {
                        Role::Main => "main",
                        Role::Replica => "replica",
                    };
                    (role, Some(rfc3339(answer.at)))
                }
                Contact::Refused { .. } => ("refused", None),
                Contact::Silent { .. } => ("silent", None),
                Contact::Unknown => ("unknown", None),
            };
            json!({
                "name": pod(p.ordinal), "memgraph_role": role, "timestamp": at,
                "healthy": matches!(p.contact, Contact::Answered(_)), "evidence": p,
            })
        })
        .collect();
    let main = document.and_then(mainstay_core::memgraph::document::Document::target_main);
    json!({
        "namespace": namespace, "name": name,
        "timestamp": told.map(|told| rfc3339(told.at)),
        "cluster_state": {
            "current_main": main.map(pod),
            "current_sync_replica": main.and_then(mainstay_core::memgraph::ids::Ordinal::partner).map(pod),
            "total_pods": pods.len(),
            "healthy_pods": pods.iter().filter(|p| p.get("healthy") == Some(&Value::Bool(true))).count(),
            "sync_replica_healthy": protected(shown),
            "reconciliation_metrics": {
                "total_reconciliations": shown.turns + shown.failed,
                "successful_reconciliations": shown.turns,
                "failed_reconciliations": shown.failed,
                "last_reconciliation_error": shown.error,
            },
        },
        "record": document.map(|d| &d.record),
        "reasons": told.map(|told| told.plan.reasons.iter().map(|reason| json!({
            "rule": reason.rule.id(), "text": reason.why.to_string(), "evidence": reason.evidence,
        })).collect::<Vec<_>>()),
        "steps": told.map(|told| told.acted.taken.iter().map(|taken| json!({
            "step": taken.step, "outcome": format!("{:?}", taken.outcome), "ms": u64::try_from(taken.took.as_millis()).unwrap_or(u64::MAX),
        })).collect::<Vec<_>>()),
        "ended": told.and_then(|told| told.acted.ended.clone()),
        "violations": told.map(|told| told.violations.clone()),
        "notes": told.map(|told| told.notes.clone()),
        "gateways": observed.map(|seen| &seen.gateways),
        "pods": pods,
    })
}
