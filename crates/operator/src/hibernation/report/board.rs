//! What is known of every plan, for whoever asks over HTTP; and the metrics.

use super::unsaid::stored;
use super::{Taken, Told};
use crate::clock::rfc3339;
use crate::engine::keeper::Audience;
use crate::engine::turns::Key;
use crate::http::metrics::{Metrics, number};
use crate::http::page::Page;
use mainstay_core::hibernation::reason::Why;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Everything that is shown of plans.
#[derive(Default)]
pub struct Board {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    plans: BTreeMap<Key, Shown>,
    /// Reasons of turns that did something, by their ids.
    reasons: BTreeMap<&'static str, u64>,
    decisions: BTreeMap<&'static str, u64>,
    unlocks: BTreeMap<&'static str, u64>,
    turns: u64,
    failed: u64,
    refused: u64,
}

#[derive(Default)]
struct Shown {
    told: Option<Told>,
    error: Option<String>,
}

impl Board {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn ended early. The engine says that it failed, and nothing of what it was about.
    pub(in crate::hibernation) fn ended(&self, told: &Told) {
        self.state().count_ended(told);
    }
}

impl State {
    /// Counts a turn that ended early: a write failed that the rest of it rested on, or its decision was refused. What
    /// it had written of restore data by then is durable, and no later turn speaks of it.
    fn count_ended(&mut self, told: &Told) {
        self.refused += u64::from(!told.violations.is_empty());
        for why in &told.reasons {
            self.count_stored(why, &told.taken);
        }
    }

    /// Counts what a turn did. One that did nothing has the reasons of the one before it.
    fn count(&mut self, told: &Told) {
        if told.taken.is_empty() {
            return;
        }
        for why in &told.reasons {
            *self.reasons.entry(why.id()).or_default() += 1;
            self.count_stored(why, &told.taken);
        }
    }

    /// Counts what became of restore data, by what was written of it and not by what was decided.
    fn count_stored(&mut self, why: &Why, taken: &[Taken]) {
        match (why, stored(taken)) {
            (
                Why::Captured {
                    saved,
                    upgraded,
                    preserved,
                    ..
                },
                Some(true),
            ) => {
                for (decision, count) in [("saved", saved), ("upgraded", upgraded), ("preserved", preserved)]
                {
                    *self.decisions.entry(decision).or_default() += number(*count);
                }
            }
            (Why::Unlocked, Some(done)) => {
                let result = if done { "done" } else { "failed" };
                *self.unlocks.entry(result).or_default() += 1;
            }
            _ => {}
        }
    }
}

impl Audience<Told> for Board {
    fn told(&self, key: &Key, told: Option<Told>) {
        let mut state = self.state();
        state.turns += 1;
        let Some(told) = told else {
            // What was last seen of it is not so any more.
            state.plans.remove(key);
            return;
        };
        state.count(&told);
        let shown = Shown {
            error: None,
            told: Some(told),
        };
        state.plans.insert(key.clone(), shown);
    }

    fn failed(&self, key: &Key, why: &str) {
        let mut state = self.state();
        state.failed += 1;
        state.plans.entry(key.clone()).or_default().error = Some(why.to_owned());
    }

    fn forget(&self, key: &Key) {
        self.state().plans.remove(key);
    }

    fn forget_all(&self) {
        self.state().plans.clear();
    }
}

fn plan(key: &Key, shown: &Shown) -> Value {
    let Key { namespace, name } = key;
    let told = shown.told.as_ref();
    json!({
        "namespace": namespace, "name": name,
        "timestamp": told.map(|t| rfc3339(t.at)),
        "phase": told.and_then(|t| t.phase).map(|p| p.to_string()),
        "message": told.map(|t| t.message.clone()),
        "reasons": told.map(|t| t.reasons.iter().map(|why| json!({ "id": why.id(), "text": why.to_string() })).collect::<Vec<_>>()),
        "steps": told.map(|t| t.taken.iter().map(|s| json!({ "step": s.step, "refused": s.refused })).collect::<Vec<_>>()),
        "violations": told.map(|t| t.violations.clone()),
        "error": shown.error.clone().or_else(|| told.and_then(|t| t.error.clone())),
    })
}

fn labelled(
    label: &str,
    counts: &BTreeMap<&'static str, u64>,
    always: &[&'static str],
) -> Vec<(String, u64)> {
    let mut all: BTreeMap<&str, u64> = always.iter().map(|name| (*name, 0)).collect();
    all.extend(counts.iter().map(|(name, count)| (*name, *count)));
    let values = all.into_iter();
    values
        .map(|(value, count)| (format!("{{{label}=\"{value}\"}}"), count))
        .collect()
}

impl Page for Board {
    fn paths(&self) -> &'static [&'static str] {
        &["/api/v1/plans", "/api/v1/plans/NAMESPACE/NAME"]
    }

    fn answer(&self, path: &str) -> Option<Value> {
        let state = self.state();
        if path == "/api/v1/plans" {
            let all: Vec<Value> = state.plans.iter().map(|(key, shown)| plan(key, shown)).collect();
            return Some(json!({ "plans": all }));
        }
        let (namespace, name) = path.strip_prefix("/api/v1/plans/")?.split_once('/')?;
        let key = Key {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        state.plans.get(&key).map(|shown| plan(&key, shown))
    }

    fn metrics(&self, text: &mut Metrics) {
        let state = self.state();
        state.of_the_seed(text);
        state.of_plans(text);
    }
}

impl State {
    fn told(&self) -> impl Iterator<Item = &Told> {
        self.plans.values().filter_map(|shown| shown.told.as_ref())
    }

    /// The seed's four.
    fn of_the_seed(&self, text: &mut Metrics) {
        let (live, dead) = self
            .told()
            .fold((0, 0), |(l, d), t| (l + t.points.0, d + t.points.1));
        text.add(
            "hibernator_restore_points",
            "gauge",
            "Restore points by quality: captured from something that ran, or not.",
            &[
                ("{live=\"true\"}".to_owned(), live),
                ("{live=\"false\"}".to_owned(), dead),
            ],
        );
        text.add(
            "hibernator_save_decisions_total",
            "counter",
            "What became of captured resources.",
            &labelled("decision", &self.decisions, &["saved", "upgraded", "preserved"]),
        );
        let forced = self.reasons.get("ForcedWakeUp").copied().unwrap_or_default();
        let help = "Wake-ups forced after an unsuspend.";
        text.counter("hibernator_forced_wakeups_total", help, forced);
        text.add(
            "hibernator_unlocks_total",
            "counter",
            "Restore data unlocked after everything was restored.",
            &labelled("result", &self.unlocks, &["done", "failed"]),
        );
    }

    fn of_plans(&self, text: &mut Metrics) {
        text.add(
            "mainstay_hibernation_reasons_total",
            "counter",
            "Reasons of turns that did something.",
            &labelled("reason", &self.reasons, &[]),
        );
        let mut phases: BTreeMap<String, u64> = BTreeMap::new();
        for phase in self.told().filter_map(|t| t.phase) {
            *phases.entry(format!("{{phase=\"{phase}\"}}")).or_default() += 1;
        }
        let phases: Vec<(String, u64)> = phases.into_iter().collect();
        text.add("mainstay_hibernation_plans", "gauge", "Plans by phase.", &phases);
        for (name, help, value) in [
            ("turns_total", "Turns of plans.", self.turns + self.failed),
            ("turns_failed_total", "Turns that came to nothing.", self.failed),
            (
                "decisions_refused_total",
                "Decisions that would have broken an invariant.",
                self.refused,
            ),
        ] {
            text.counter(&format!("mainstay_hibernation_{name}"), help, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::hibernation::Phase;
    use mainstay_core::hibernation::ids::TargetName;

    fn told(taken: Vec<Taken>) -> Told {
        Told {
            phase: Some(Phase::Hibernating),
            reasons: vec![
                Why::Captured {
                    target: TargetName::parse("web").unwrap(),
                    saved: 2,
                    upgraded: 0,
                    preserved: 1,
                },
                Why::ForcedWakeUp {
                    phase: Phase::Hibernated,
                },
                Why::Unlocked,
            ],
            taken,
            points: (1, 0),
            ..Told::default()
        }
    }

    #[test]
    fn s86_the_seeds_metrics_exist_and_a_turn_that_did_nothing_counts_nothing() {
        let board = Board::default();
        let key = Key {
            namespace: "staging".to_owned(),
            name: "p".to_owned(),
        };
        let write = |refused: Option<&str>| Taken {
            step: "x".to_owned(),
            stores: true,
            refused: refused.map(str::to_owned),
        };
        board.told(&key, Some(told(vec![write(None)])));
        board.told(&key, Some(told(Vec::new())));
        board.ended(&told(vec![write(Some("busy"))]));
        let violating = Told {
            violations: vec!["H1".to_owned()],
            ..told(Vec::new())
        };
        board.ended(&violating);
        let mut text = Metrics::default();
        board.metrics(&mut text);
        let text = text.into_text();
        for line in [
            "hibernator_restore_points{live=\"true\"} 1",
            "hibernator_save_decisions_total{decision=\"saved\"} 2",
            "hibernator_save_decisions_total{decision=\"preserved\"} 1",
            "hibernator_forced_wakeups_total 1",
            "hibernator_unlocks_total{result=\"done\"} 1",
            "hibernator_unlocks_total{result=\"failed\"} 1",
            "mainstay_hibernation_decisions_refused_total 1",
            "mainstay_hibernation_plans{phase=\"Hibernating\"} 1",
            "mainstay_hibernation_turns_total 2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
        assert!(board.answer("/api/v1/plans/staging/p").is_some());
        board.forget(&key);
        assert!(board.answer("/api/v1/plans/staging/p").is_none());
    }

    /// The restore data was written, and then somebody changed the plan: what was written stays.
    #[test]
    fn s86_what_was_written_before_a_turn_ended_is_counted_as_it_was() {
        let board = Board::default();
        let step = |stores, refused: Option<&str>| Taken {
            step: "x".to_owned(),
            stores,
            refused: refused.map(str::to_owned),
        };
        board.ended(&told(vec![step(true, None), step(false, Some("conflict"))]));
        board.ended(&told(vec![step(true, None), step(true, Some("busy"))]));
        let mut text = Metrics::default();
        board.metrics(&mut text);
        let text = text.into_text();
        for line in [
            "hibernator_save_decisions_total{decision=\"saved\"} 2",
            "hibernator_unlocks_total{result=\"done\"} 1",
            "hibernator_unlocks_total{result=\"failed\"} 1",
            "hibernator_forced_wakeups_total 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
    }
}
