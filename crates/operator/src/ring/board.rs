//! What is known of every ring, for whoever asks over HTTP; and its metrics.

use super::report::Told;
use crate::clock::rfc3339;
use crate::engine::keeper::Audience;
use crate::engine::turns::Key;
use crate::http::metrics::{Metrics, number};
use crate::http::page::Page;
use mainstay_core::ring::reason::{Condition, Why};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Name, meaning, and a value for each ring.
type Metric = (&'static str, &'static str, Vec<(String, u64)>);

/// Everything that is shown.
#[derive(Default)]
pub struct RingBoard {
    state: Mutex<BTreeMap<Key, Shown>>,
}

#[derive(Default)]
struct Shown {
    told: Option<Told>,
    error: Option<String>,
    replacements: u64,
    failures: u64,
    refused: u64,
}

impl RingBoard {
    fn state(&self) -> MutexGuard<'_, BTreeMap<Key, Shown>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Audience<Told> for RingBoard {
    fn told(&self, key: &Key, told: Option<Told>) {
        let mut state = self.state();
        let Some(told) = told else {
            // What was last seen of it is not so any more.
            state.remove(key);
            return;
        };
        let shown = state.entry(key.clone()).or_default();
        shown.replacements += u64::from(told.replaced().is_some());
        let failed = |why: &Why| matches!(why, Why::TryFailed { .. } | Why::GivenUp { .. });
        let wrote = !told.acted.done.is_empty();
        shown.failures += u64::from(wrote && told.plan.reasons.iter().any(failed));
        shown.refused += u64::from(!told.violations.is_empty());
        shown.error = None;
        shown.told = Some(told);
    }

    fn failed(&self, key: &Key, why: &str) {
        self.state().entry(key.clone()).or_default().error = Some(why.to_owned());
    }

    fn forget(&self, key: &Key) {
        self.state().remove(key);
    }

    fn forget_all(&self) {
        self.state().clear();
    }
}

impl Page for RingBoard {
    fn paths(&self) -> &'static [&'static str] {
        &["/api/v1/rings", "/api/v1/rings/NAMESPACE/NAME"]
    }

    fn answer(&self, path: &str) -> Option<Value> {
        let state = self.state();
        if path == "/api/v1/rings" {
            let all: Vec<Value> = state.iter().map(|(key, shown)| ring(key, shown)).collect();
            return Some(json!({ "rings": all }));
        }
        let (namespace, name) = path.strip_prefix("/api/v1/rings/")?.split_once('/')?;
        let key = Key {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        state.get(&key).map(|shown| ring(&key, shown))
    }

    fn metrics(&self, text: &mut Metrics) {
        let state = self.state();
        let each = |value: &dyn Fn(&Shown) -> u64| -> Vec<(String, u64)> {
            let labelled = state.iter().map(|(Key { namespace, name }, shown)| {
                let labels = format!("{{namespace=\"{namespace}\",ring=\"{name}\"}}");
                (labels, value(shown))
            });
            labelled.collect()
        };
        let speaks = |condition: Condition| {
            move |shown: &Shown| {
                let reasons = shown.told.iter().flat_map(|told| &told.plan.reasons);
                number(reasons.filter(|why| why.condition() == Some(condition)).count())
            }
        };
        let known = |shown: &Shown| {
            let ledger = shown.told.as_ref().and_then(|told| told.ledger.as_ref());
            ledger.map_or(0, |ledger| number(ledger.known.len()))
        };
        let gauges: [Metric; 3] = [
            ("mainstay_ring_members", "Members on record.", each(&known)),
            (
                "mainstay_ring_storage_lost",
                "Members that came back empty.",
                each(&speaks(Condition::StorageLost)),
            ),
            (
                "mainstay_ring_replacements_held",
                "Why replacements wait, counted.",
                each(&speaks(Condition::ReplacementHeld)),
            ),
        ];
        for (name, help, values) in gauges {
            text.add(name, "gauge", help, &values);
        }
        let counters: [Metric; 3] = [
            (
                "mainstay_ring_replacements_total",
                "Members that were replaced.",
                each(&|shown| shown.replacements),
            ),
            (
                "mainstay_ring_replacement_failures_total",
                "Starts in place of a lost member that did not finish.",
                each(&|shown| shown.failures),
            ),
            (
                "mainstay_ring_plans_refused_total",
                "Plans that would have broken an invariant.",
                each(&|shown| shown.refused),
            ),
        ];
        for (name, help, values) in counters {
            text.add(name, "counter", help, &values);
        }
    }
}

fn ring(Key { namespace, name }: &Key, shown: &Shown) -> Value {
    let mut value = json!({ "namespace": namespace, "name": name, "error": shown.error });
    if let (Some(told), Value::Object(value)) = (&shown.told, &mut value) {
        let texts = |list: Vec<String>| json!(list);
        value.insert("timestamp".to_owned(), json!(rfc3339(told.at)));
        let reasons = told.plan.reasons.iter();
        value.insert(
            "reasons".to_owned(),
            texts(reasons.map(ToString::to_string).collect()),
        );
        let findings = told.plan.findings.iter();
        let checks: Vec<Value> = findings
            .map(|f| json!({ "holds": f.holds(), "text": f.to_string() }))
            .collect();
        value.insert("checks".to_owned(), json!(checks));
        value.insert("steps".to_owned(), json!(told.acted.done));
        value.insert("ended".to_owned(), json!(told.acted.ended));
        value.insert("violations".to_owned(), json!(told.violations));
        let headline = told.ledger.as_ref().map(mainstay_core::ring::Ledger::headline);
        value.insert("ledger".to_owned(), json!(headline));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::ring::Plan;
    use mainstay_core::ring::ids::HostId;

    #[test]
    fn s11_each_replacement_counts_once_and_one_that_was_refused_does_not() {
        let board = RingBoard::default();
        let key = Key {
            namespace: "db".to_owned(),
            name: "ring".to_owned(),
        };
        let done = |violations: Vec<String>| Told {
            plan: Plan::because(Why::Replaced {
                member: "ring-a-0".parse().unwrap(),
                host: HostId(1),
                by: HostId(2),
            }),
            violations,
            ..Told::default()
        };
        let counted = || {
            let mut text = Metrics::default();
            board.metrics(&mut text);
            let text = text.into_text();
            let line = text
                .lines()
                .find(|l| l.starts_with("mainstay_ring_replacements_total{"));
            line.map(str::to_owned)
        };
        board.told(&key, Some(Told::default()));
        let line = |n: u8| {
            Some(format!(
                "mainstay_ring_replacements_total{{namespace=\"db\",ring=\"ring\"}} {n}"
            ))
        };
        assert_eq!(counted(), line(0));
        board.told(&key, Some(done(Vec::new())));
        assert_eq!(counted(), line(1));
        board.told(&key, Some(done(vec!["[I1] step 0".to_owned()])));
        board.told(&key, Some(Told::default()));
        assert_eq!(counted(), line(1));
    }
}
