//! Prometheus' text form.

use crate::engine::queue::Depth;
use crate::engine::turns::Loop;
use std::fmt::Write as _;
use std::time::Duration;

/// Metrics, as text.
#[derive(Debug, Default)]
pub struct Metrics(String);

impl Metrics {
    /// A metric with a value for each set of labels (`{a="b"}`, or nothing).
    pub fn add(&mut self, name: &str, kind: &str, help: &str, values: &[(String, u64)]) {
        // Writing to a String does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(self.0, "{name}{labels} {value}");
        }
    }

    /// One that only grows.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.add(name, "counter", help, &[(String::new(), value)]);
    }

    /// One that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.add(name, "gauge", help, &[(String::new(), value)]);
    }

    /// How long something took, in buckets.
    pub fn histogram(&mut self, name: &str, help: &str, times: &Times) {
        let Times { buckets, sum, count } = times;
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} histogram");
        for (bound, value) in BOUNDS.iter().zip(buckets) {
            let _ = writeln!(self.0, "{name}_bucket{{le=\"{bound}\"}} {value}");
        }
        let _ = writeln!(self.0, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(self.0, "{name}_sum {}\n{name}_count {count}", sum.as_secs_f64());
    }

    /// All of it.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// Prometheus' own bounds, in seconds.
const BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Times that were counted; each bucket has those below its bound.
#[derive(Clone, Debug, Default)]
pub struct Times {
    buckets: [u64; BOUNDS.len()],
    sum: Duration,
    count: u64,
}

impl Times {
    /// One more.
    pub fn note(&mut self, took: Duration) {
        for (bound, bucket) in BOUNDS.iter().zip(&mut self.buckets) {
            *bucket += u64::from(took.as_secs_f64() <= *bound);
        }
        self.sum += took;
        self.count += 1;
    }

    /// What one took on average.
    pub fn average(&self) -> Duration {
        let count = u32::try_from(self.count).unwrap_or(u32::MAX);
        self.sum.checked_div(count).unwrap_or_default()
    }
}

/// A length or a count.
pub fn number(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Of every loop of turns: what waits, what is under way, and whether a queue was ever full.
pub fn of_loops(text: &mut Metrics, loops: &[&dyn Loop]) {
    let (mut waiting, mut under_way, mut ages, mut full) = (vec![], vec![], vec![], vec![]);
    for one in loops {
        let kind = one.kind();
        let Depth {
            failover,
            reconcile,
            aside,
            running,
            overflows,
        } = one.depth();
        for (queue, depth) in [("failover", failover), ("reconcile", reconcile), ("aside", aside)] {
            waiting.push((format!("{{kind=\"{kind}\",queue=\"{queue}\"}}"), number(depth)));
        }
        under_way.push((format!("{{kind=\"{kind}\"}}"), number(running)));
        let age = one.oldest().map_or(0, |(_, age)| age.as_secs());
        ages.push((format!("{{kind=\"{kind}\"}}"), age));
        full.push((format!("{{kind=\"{kind}\"}}"), overflows));
    }
    text.add(
        "mainstay_queue_depth",
        "gauge",
        "Objects that wait for a turn.",
        &waiting,
    );
    text.add("mainstay_turns_running", "gauge", "Turns under way.", &under_way);
    text.add(
        "mainstay_oldest_turn_seconds",
        "gauge",
        "How long the oldest turn has been under way.",
        &ages,
    );
    text.add(
        "mainstay_queue_overflows_total",
        "counter",
        "How often a queue was full; nothing is lost by it.",
        &full,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::turns::Key;

    struct Busy;

    impl Loop for Busy {
        fn kind(&self) -> &'static str {
            "memgraph"
        }
        fn is_absent(&self) -> bool {
            false
        }

        fn is_synced(&self) -> bool {
            true
        }
        fn silence(&self) -> Duration {
            Duration::ZERO
        }
        fn oldest(&self) -> Option<(Key, Duration)> {
            let key = Key {
                namespace: "db".to_owned(),
                name: "memgraph-ha".to_owned(),
            };
            Some((key, Duration::from_secs(9)))
        }
        fn longest(&self) -> Duration {
            Duration::from_mins(1)
        }
        fn depth(&self) -> Depth {
            Depth {
                failover: 2,
                reconcile: 7,
                running: 1,
                ..Depth::default()
            }
        }
    }

    #[test]
    fn the_depth_of_every_queue_is_shown_with_its_kind() {
        let mut text = Metrics::default();
        of_loops(&mut text, &[&Busy]);
        let text = text.into_text();
        for line in [
            "mainstay_queue_depth{kind=\"memgraph\",queue=\"failover\"} 2",
            "mainstay_queue_depth{kind=\"memgraph\",queue=\"reconcile\"} 7",
            "mainstay_turns_running{kind=\"memgraph\"} 1",
            "mainstay_oldest_turn_seconds{kind=\"memgraph\"} 9",
            "mainstay_queue_overflows_total{kind=\"memgraph\"} 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
    }
}
