//! What is known of every Memgraph cluster, for whoever asks over HTTP; and its metrics, with the names of
//! memgraph-controller where they mean the same.

use super::metrics::{Metrics, Times, number};
use super::page::Page;
use super::shape::cluster;
use crate::clock::{rfc3339, wall};
use crate::engine::keeper::Audience;
use crate::engine::turns::Key;
use crate::memgraph::report::resets::{self, Counted};
use crate::memgraph::report::{Told, is_protected};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::observed::Contact;
use mainstay_core::memgraph::record::State as RecordState;
use mainstay_core::time::Time;
use serde_json::{Value, json};
use std::collections::BTreeMap;
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
    turns: u64,
    failed: u64,
    times: Times,
    last: Option<Time>,
    last_error: Option<Time>,
    refused_plans: u64,
    unfenced: u64,
    resets: BTreeMap<(&'static str, String), u64>,
}

/// What is shown of one cluster.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) told: Option<Told>,
    pub(super) error: Option<String>,
    pub(super) turns: u64,
    pub(super) failed: u64,
    pub(super) times: Times,
    /// When its last turn ended.
    pub(super) last: Option<Time>,
    main_changes: u64,
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

    /// As memgraph-controller has it: it knows one cluster, which is at the top here if there is only one.
    fn status(&self) -> Value {
        let mut answer = self.clusters();
        let only = match answer
            .get("clusters")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
        {
            Some([only]) => only.as_object().cloned(),
            _ => None,
        };
        if let Value::Object(fields) = &mut answer {
            fields.insert("timestamp".to_owned(), json!(rfc3339(wall())));
            fields.extend(only.into_iter().flatten());
        }
        answer
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
        let Some(told) = told else {
            // What was last seen of it is not so any more.
            state.clusters.remove(key);
            return;
        };
        state.refused_plans += u64::from(!told.violations.is_empty());
        state.unfenced += u64::from(told.acted.unfenced);
        if let Some((what, pod)) = resets::counted(&told).map(name_of) {
            let pod = format!("{}-{}", key.name, pod.0);
            *state.resets.entry((what, pod)).or_default() += 1;
        }
        let shown = state.clusters.entry(key.clone()).or_default();
        shown.turns += 1;
        shown.main_changes += u64::from(main_changed(shown.told.as_ref(), &told));
        shown.error = None;
        shown.told = Some(told);
    }

    fn failed(&self, key: &Key, why: &str) {
        let mut state = self.state();
        state.failed += 1;
        state.last_error = Some(wall());
        let shown = state.clusters.entry(key.clone()).or_default();
        shown.failed += 1;
        shown.error = Some(why.to_owned());
    }

    fn forget(&self, key: &Key) {
        self.state().clusters.remove(key);
    }

    fn forget_all(&self) {
        self.state().clusters.clear();
    }

    fn took(&self, key: &Key, took: Duration) {
        let mut state = self.state();
        let now = Some(wall());
        state.times.note(took);
        state.last = now;
        let shown = state.clusters.entry(key.clone()).or_default();
        shown.times.note(took);
        shown.last = now;
    }
}

impl Page for Board {
    fn paths(&self) -> &'static [&'static str] {
        &[
            "/api/v1/status",
            "/api/v1/clusters",
            "/api/v1/clusters/NAMESPACE/NAME",
        ]
    }

    fn answer(&self, path: &str) -> Option<Value> {
        match path {
            "/api/v1/clusters" => Some(self.clusters()),
            "/api/v1/status" => Some(self.status()),
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
        text.histogram(
            &format!("{prefix}_reconciliation_duration_seconds"),
            "How long a turn took.",
            &self.times,
        );
        text.gauge(
            &format!("{prefix}_last_reconciliation_timestamp"),
            "When the last turn ended, in seconds since 1970.",
            seconds(self.last),
        );
        let label = "{type=\"reconciliation\"}".to_owned();
        text.add(
            &format!("{prefix}_errors_total"),
            "counter",
            "Turns that came to nothing.",
            &[(label.clone(), self.failed)],
        );
        text.add(
            &format!("{prefix}_last_error_timestamp"),
            "gauge",
            "When the last turn came to nothing, in seconds since 1970.",
            &[(label, seconds(self.last_error))],
        );
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
            "How often another pod became MAIN.",
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
        let states = each(&state_number);
        let help = "0 no record, 1 Initialising, 2 Serving, 3 NoMain, 4 SwitchingOver, 5 Hibernated.";
        text.add("memgraph_cluster_state", "gauge", help, &states);
        let safe = each(&|shown| u64::from(protected(shown)));
        let help = "Whether the cluster is protected.";
        text.add("memgraph_cluster_sync_replica_healthy", "gauge", help, &safe);
    }
}

fn seconds(at: Option<Time>) -> u64 {
    at.map_or(0, |at| at.0 / 1_000)
}

fn state_number(shown: &Shown) -> u64 {
    let document = shown.told.as_ref().and_then(|told| told.document.as_ref());
    document.map_or(0, |document| match document.record.state {
        RecordState::Initialising => 1,
        RecordState::Serving => 2,
        RecordState::NoMain => 3,
        RecordState::SwitchingOver => 4,
        RecordState::Hibernated => 5,
    })
}

/// Is another pod MAIN than the turn before told? A new term of the same pod is no change.
fn main_changed(before: Option<&Told>, now: &Told) -> bool {
    let main = |told: &Told| {
        let record = &told.document.as_ref()?.record;
        record.main.as_ref().map(|main| (main.term, main.pod))
    };
    match (before.and_then(main), main(now)) {
        (Some((old, was)), Some((new, is))) => new > old && is != was,
        _ => false,
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

pub(super) fn protected(shown: &Shown) -> bool {
    shown.told.as_ref().is_some_and(is_protected)
}

#[cfg(test)]
mod tests;
