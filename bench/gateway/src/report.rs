//! What was measured, as a table and as JSON, and which goals it misses.

use crate::contest::Kind;
use crate::sample::median;
use crate::switch::Switches;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// What one proxy used.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// µs of CPU for RUN and PULL.
    pub(crate) request: f64,
    /// µs of CPU to connect, log in and leave.
    pub(crate) connection: f64,
    /// ms of CPU for a GiB in rows of 60,000 bytes.
    pub(crate) large_rows: f64,
    /// ms of CPU for a GiB in rows of 100 bytes.
    pub(crate) small_rows: f64,
    /// KiB of memory for an idle connection.
    pub(crate) idle: f64,
    /// MiB of memory before.
    pub(crate) base: f64,
}

impl Figures {
    const NAMES: [&'static str; 6] = [
        "CPU µs per request",
        "CPU µs per connection",
        "CPU ms per GiB, large rows",
        "CPU ms per GiB, small rows",
        "KiB per idle connection",
        "MiB before any",
    ];

    const fn all(&self) -> [f64; 6] {
        let Self {
            request,
            connection,
            large_rows,
            small_rows,
            idle,
            base,
        } = *self;
        [request, connection, large_rows, small_rows, idle, base]
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for value in self.all() {
            write!(f, "{value:10.2}")?;
        }
        Ok(())
    }
}

/// What a figure should be, beside HAProxy or by itself.
struct Goal {
    figure: usize,
    most: f64,
    ratio: bool,
}

const GOALS: [Goal; 5] = [
    goal(0, 1.25, true),
    goal(1, 1.25, true),
    goal(2, 0.5, true),
    goal(4, 0.5, false),
    goal(5, 8.0, false),
];

const fn goal(figure: usize, most: f64, ratio: bool) -> Goal {
    Goal { figure, most, ratio }
}

/// For the first answer of the new MAIN.
const SWITCH_MS: f64 = 10.0;

/// A goal that nothing here measures.
const RAW: &str =
    "raw forwarding: 1 of HAProxy's is the goal, and there is no mode that forwards without looking";

/// Everything.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: String,
    pub(crate) load: [String; 2],
    pub(crate) versions: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) medians: BTreeMap<Kind, Figures>,
    /// The least of the rounds: what is left where neighbours disturb least.
    pub(crate) least: BTreeMap<Kind, Figures>,
    pub(crate) ratios: BTreeMap<Kind, Figures>,
    pub(crate) switches: BTreeMap<Kind, Switches>,
    pub(crate) missed: Vec<String>,
    /// Goals of which nothing is known.
    pub(crate) not_measured: Vec<String>,
}

impl Report {
    pub(crate) async fn new() -> Self {
        let read = async |path| tokio::fs::read_to_string(path).await.unwrap_or_default();
        let cpu = read("/proc/cpuinfo").await;
        let name = cpu.lines().find_map(|line| line.strip_prefix("model name"));
        let name = name.unwrap_or_default().trim_start_matches([' ', '\t', ':']);
        // All of them: this process is pinned to one.
        let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
        let kernel = read("/proc/sys/kernel/osrelease").await;
        Self {
            machine: format!("{name}, {cores} cores, Linux {}", kernel.trim()),
            load: [average(), String::new()],
            versions: Vec::new(),
            rounds: 0,
            medians: BTreeMap::new(),
            least: BTreeMap::new(),
            ratios: BTreeMap::new(),
            switches: BTreeMap::new(),
            missed: Vec::new(),
            not_measured: vec![RAW.to_owned()],
        }
    }

    /// Medians of the rounds, and of the ratios within each round.
    pub(crate) fn take(&mut self, rounds: BTreeMap<Kind, Vec<Figures>>) {
        let anchor = rounds.get(&Kind::Haproxy).cloned().unwrap_or_default();
        for (kind, figures) in rounds {
            self.rounds = figures.len();
            self.medians.insert(kind, over(&figures, median));
            self.least.insert(kind, over(&figures, least));
            let ratios: Vec<Figures> = figures
                .iter()
                .zip(&anchor)
                .map(|(own, anchor)| divided(own, anchor))
                .collect();
            if !ratios.is_empty() {
                self.ratios.insert(kind, over(&ratios, median));
            }
        }
    }

    fn table(of: &BTreeMap<Kind, Figures>, ratio: impl Fn(usize) -> Option<f64>) {
        print!("| |");
        for kind in of.keys() {
            print!(" {} |", kind.name());
        }
        println!(" gateway / HAProxy |");
        println!("|---|{}", "---|".repeat(of.len() + 1));
        for (row, name) in Figures::NAMES.iter().enumerate() {
            print!("| {name} |");
            for figures in of.values() {
                print!(" {:.2} |", figures.all().get(row).copied().unwrap_or(f64::NAN));
            }
            println!(" {:.2} |", ratio(row).unwrap_or(f64::NAN));
        }
    }

    fn judge(&mut self) {
        for Goal { figure, most, ratio } in GOALS {
            let of = if ratio { &self.ratios } else { &self.medians };
            let value = of
                .get(&Kind::Gateway)
                .and_then(|figures| figures.all().get(figure).copied());
            let name = Figures::NAMES.get(figure).copied().unwrap_or_default();
            let beside = if ratio { " of HAProxy's" } else { "" };
            match value.filter(|value| value.is_finite()) {
                Some(value) if value > most => self
                    .missed
                    .push(format!("{name}: {value:.2}{beside}, at most {most} is the goal")),
                Some(_) => {}
                None => self
                    .not_measured
                    .push(format!("{name}: at most {most}{beside} is the goal")),
            }
        }
        let goal = format!("at most {SWITCH_MS} is the goal");
        match self.switches.get(&Kind::Gateway).map(|switches| switches.p99) {
            Some(p99) if p99 > SWITCH_MS => self
                .missed
                .push(format!("decision to first byte, p99: {p99:.1} ms, {goal}")),
            Some(p99) if p99.is_finite() => {}
            _ => self
                .not_measured
                .push(format!("decision to first byte, p99 in ms: {goal}")),
        }
    }

    /// What is to be said of the goals.
    fn goals(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.missed.is_empty() {
            lines.push("every goal that was measured is met".to_owned());
        }
        lines.extend(self.missed.iter().map(|missed| format!("missed: {missed}")));
        let unknown = self.not_measured.iter();
        lines.extend(unknown.map(|goal| format!("not measured: {goal}")));
        lines
    }

    /// Prints the table, and writes the file.
    pub(crate) fn show(mut self, json: Option<&Path>) -> Result<()> {
        self.load = [self.load[0].clone(), average()];
        self.judge();
        println!(
            "{}; load {} before, {} after",
            self.machine, self.load[0], self.load[1]
        );
        println!("{}; {} rounds", self.versions.join("; "), self.rounds);
        println!("medians:");
        Self::table(&self.medians, |row| {
            let ratio = self.ratios.get(&Kind::Gateway);
            ratio.and_then(|figures| figures.all().get(row).copied())
        });
        println!("the least of the rounds:");
        Self::table(&self.least, |row| {
            let of = |kind| self.least.get(&kind)?.all().get(row).copied();
            Some(of(Kind::Gateway)? / of(Kind::Haproxy)?)
        });
        for (
            kind,
            Switches {
                count,
                p50,
                p99,
                most,
            },
        ) in &self.switches
        {
            let name = kind.name();
            println!(
                "decision to first byte of the new MAIN, {name}: p50 {p50:.2} ms, p99 {p99:.2} ms, most {most:.2} ms ({count} switches)"
            );
        }
        for line in self.goals() {
            println!("{line}");
        }
        if let Some(path) = json {
            std::fs::write(path, serde_json::to_string_pretty(&self)?)?;
            println!("figures: {}", path.display());
        }
        Ok(())
    }
}

fn average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn least(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::NAN, f64::min)
}

fn over(figures: &[Figures], choose: fn(Vec<f64>) -> f64) -> Figures {
    let of = |one: fn(&Figures) -> f64| choose(figures.iter().map(one).collect());
    Figures {
        request: of(|f| f.request),
        connection: of(|f| f.connection),
        large_rows: of(|f| f.large_rows),
        small_rows: of(|f| f.small_rows),
        idle: of(|f| f.idle),
        base: of(|f| f.base),
    }
}

fn divided(own: &Figures, anchor: &Figures) -> Figures {
    Figures {
        request: own.request / anchor.request,
        connection: own.connection / anchor.connection,
        large_rows: own.large_rows / anchor.large_rows,
        small_rows: own.small_rows / anchor.small_rows,
        idle: own.idle / anchor.idle,
        base: own.base / anchor.base,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(value: f64) -> Figures {
        Figures {
            request: value,
            connection: value,
            large_rows: value,
            small_rows: value,
            idle: value,
            base: value,
        }
    }

    #[tokio::test]
    async fn a_goal_that_is_missed_is_named_and_one_that_is_met_is_not() {
        let mut report = Report::new().await;
        report.take(BTreeMap::from([
            (Kind::Haproxy, vec![figures(1.0), figures(2.0), figures(1.0)]),
            (Kind::Gateway, vec![figures(1.2), figures(2.4), figures(0.4)]),
        ]));
        report.judge();
        assert_eq!(report.missed.len(), 2, "{:?}", report.missed);
        assert!(report.missed[0].starts_with("CPU ms per GiB, large rows: 1.20"));
        assert!(report.missed[1].starts_with("KiB per idle connection"));
    }

    #[tokio::test]
    async fn a_goal_that_was_not_measured_is_not_called_met() {
        let mut alone = Report::new().await;
        alone.take(BTreeMap::from([(Kind::Gateway, vec![figures(0.4)])]));
        alone.judge();
        let said = alone.goals();
        assert_eq!(said[0], "every goal that was measured is met");
        let unknown: Vec<_> = said
            .iter()
            .filter(|line| line.starts_with("not measured: "))
            .collect();
        // Raw forwarding, the three beside HAProxy, and the switch.
        assert_eq!(unknown.len(), 5, "{said:?}");
        assert!(unknown[0].contains("raw forwarding"), "{said:?}");
        assert!(
            said.iter().any(|line| line.contains("decision to first byte")),
            "{said:?}"
        );
    }
}
