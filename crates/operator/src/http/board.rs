//! What is known of every Memgraph cluster, for whoever asks over HTTP; and its metrics, with the names of
//! memgraph-controller where they mean the same.

use super::metrics::{Metrics, number};
use super::page::Page;
use crate::clock::rfc3339;
use crate::engine::keeper::Audience;
use crate::engine::turns::Key;
use crate::memgraph::report::resets::{self, Counted};
use crate::memgraph::report::{Told, is_protected, phases};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::observed::{Contact, Role};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Everything that is shown.
#[derive(Default)]
pub struct Board {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clusters: BTreeMap<Key, Shown>,
    turns: u64,
    failed: u64,
    refused_plans: u64,
    unfenced: u64,
    resets: BTreeMap<(&'static str, String), u64>,
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
}

impl Audience<Told> for Board {
    fn told(&self, key: &Key, told: Option<Told>) {
        let mut state = self.state();
        state.turns += 1;
        let Some(told) = told else { return };
        state.refused_plans += u64::from(!told.violations.is_empty());
        state.unfenced += u64::from(told.acted.unfenced);
        if let Some((what, pod)) = resets::counted(&told).map(name_of) {
            let pod = format!("{}-{}", key.name, pod.0);
            *state.resets.entry((what, pod)).or_default() += 1;
        }
        let shown = state.clusters.entry(key.clone()).or_default();
        shown.turns += 1;
        shown.main_changes += u64::from(phases(&told).is_some());
        shown.error = None;
        shown.told = Some(told);
    }

    fn failed(&self, key: &Key, why: &str) {
        let mut state = self.state();
        state.failed += 1;
        let shown = state.clusters.entry(key.clone()).or_default();
        shown.failed += 1;
        shown.error = Some(why.to_owned());
    }

    fn forget(&self, key: &Key) {
        self.state().clusters.remove(key);
    }
}

impl Page for Board {
    fn paths(&self) -> &'static [&'static str] {
        &["/api/v1/clusters", "/api/v1/clusters/NAMESPACE/NAME"]
    }

    fn answer(&self, path: &str) -> Option<Value> {
        match path {
            "/api/v1/clusters" | "/api/v1/status" => Some(self.clusters()),
            _ => path
                .strip_prefix("/api/v1/clusters/")
                .and_then(|rest| rest.split_once('/'))
                .and_then(|(namespace, name)| self.cluster(namespace, name)),
        }
    }

    fn metrics(&self, text: &mut Metrics) {
        let state = self.state();
        state.of_turns(text);
        state.of_clusters(text);
        state.of_resets(text);
    }
}

impl State {
    fn of_turns(&self, text: &mut Metrics) {
        let prefix = "memgraph_controller";
        let counters = [
            ("reconciliations_total", "Turns.", self.turns + self.failed),
            (
                "reconciliations_successful_total",
                "Turns that looked and decided.",
                self.turns,
            ),
            (
                "reconciliations_failed_total",
                "Turns that came to nothing.",
                self.failed,
            ),
        ];
        for (name, help, value) in counters {
            text.counter(&format!("{prefix}_{name}"), help, value);
        }
        let refused = "Plans that would have broken an invariant.";
        text.counter("mainstay_plans_refused_total", refused, self.refused_plans);
        let unfenced = "Promotions without a fence, as policy allowed.";
        text.counter("mainstay_unfenced_promotions_total", unfenced, self.unfenced);
    }

    /// The seeds' names.
    fn of_resets(&self, text: &mut Metrics) {
        for (what, help) in [
            ("triggered", "Hard resets asked for."),
            ("success", "Hard resets after which the clean replica was ready."),
            ("failure", "Hard resets that were given up."),
        ] {
            let counted = self.resets.iter().filter(|((kind, _), _)| *kind == what);
            let values: Vec<(String, u64)> = counted
                .map(|((_, pod), count)| (format!("{{pod=\"{pod}\"}}"), *count))
                .collect();
            let name = format!("memgraph_controller_hard_reset_{what}_total");
            text.add(&name, "counter", help, &values);
        }
        let told = self.clusters.values().filter_map(|shown| shown.told.as_ref());
        let diverged: usize = told.map(|told| resets::diverged(told).len()).sum();
        text.gauge(
            "memgraph_controller_diverged_replicas",
            "Replicas that are diverged now.",
            number(diverged),
        );
    }

    fn of_clusters(&self, text: &mut Metrics) {
        let each = |value: &dyn Fn(&Shown) -> u64| -> Vec<(String, u64)> {
            let labelled = self.clusters.iter().map(|(Key { namespace, name }, shown)| {
                let labels = format!("{{namespace=\"{namespace}\",cluster=\"{name}\"}}");
                (labels, value(shown))
            });
            labelled.collect()
        };
        let answers = |contact: &Contact| matches!(contact, Contact::Answered(_));
        let changes = each(&|shown| shown.main_changes);
        text.add(
            "memgraph_cluster_main_changes_total",
            "counter",
            "Terms begun.",
            &changes,
        );
        let all = each(&|shown| number(pods(shown, |_| true)));
        text.add("memgraph_cluster_pods_total", "gauge", "Pods seen.", &all);
        let healthy = each(&|shown| number(pods(shown, answers)));
        text.add(
            "memgraph_cluster_pods_healthy",
            "gauge",
            "Pods that answer.",
            &healthy,
        );
        let safe = each(&|shown| u64::from(protected(shown)));
        let help = "Whether the cluster is protected.";
        text.add("memgraph_cluster_sync_replica_healthy", "gauge", help, &safe);
    }
}

fn name_of(counted: Counted) -> (&'static str, Ordinal) {
    match counted {
        Counted::Triggered(pod) => ("triggered", pod),
        Counted::Succeeded(pod) => ("success", pod),
        Counted::Failed(pod) => ("failure", pod),
    }
}

fn pods(shown: &Shown, which: impl Fn(&Contact) -> bool) -> usize {
    let observed = shown.told.as_ref().and_then(|told| told.observed.as_ref());
    observed.map_or(0, |seen| {
        seen.pods.iter().filter(|pod| which(&pod.contact)).count()
    })
}

fn protected(shown: &Shown) -> bool {
    shown.told.as_ref().is_some_and(is_protected)
}

fn cluster(key: &Key, shown: &Shown) -> Value {
    let Key { namespace, name } = key;
    let told = shown.told.as_ref();
    let document = told.and_then(|told| told.document.as_ref());
    let observed = told.and_then(|told| told.observed.as_ref());
    let pod = |ordinal: Ordinal| format!("{name}-{}", ordinal.0);
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
            "current_sync_replica": main.and_then(Ordinal::partner).map(pod),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_their_names() {
        let board = Board::default();
        let key = Key {
            namespace: "db".to_owned(),
            name: "memgraph-ha".to_owned(),
        };
        board.told(&key, Some(Told::default()));
        board.failed(&key, "no API");
        let mut text = Metrics::default();
        board.metrics(&mut text);
        let text = text.into_text();
        for line in [
            "memgraph_controller_reconciliations_total 2",
            "memgraph_controller_reconciliations_failed_total 1",
            "# TYPE memgraph_controller_hard_reset_triggered_total counter",
            "# TYPE memgraph_controller_hard_reset_success_total counter",
            "# TYPE memgraph_controller_hard_reset_failure_total counter",
            "memgraph_controller_diverged_replicas 0",
            "memgraph_cluster_sync_replica_healthy{namespace=\"db\",cluster=\"memgraph-ha\"} 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
        assert_eq!(
            board.cluster("db", "memgraph-ha").unwrap()["cluster_state"]["reconciliation_metrics"]["last_reconciliation_error"],
            "no API"
        );
        board.forget(&key);
        assert!(board.cluster("db", "memgraph-ha").is_none());
    }
}
