//! What was measured, in one table: suites that failed are in it, too.

use std::time::Duration;

use super::goals::{Goal, Measure};
use super::ledger::Counted;
use super::suites::Suite;

/// So many milliseconds without an acknowledged write are no fault of a slow machine any more.
const LONGEST_GAP: u64 = 30_000;

/// One round of a suite, and how it went.
pub(crate) struct Row {
    pub(crate) suite: &'static Suite,
    pub(crate) took: Duration,
    pub(crate) counted: Counted,
    pub(crate) failed: bool,
}

/// All rounds of one suite.
struct Rounds<'a>(&'a [Row]);

/// Whether a suite reached its goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Met,
    Missed,
    /// A figure of a suite that failed says nothing.
    Failed,
    NoGoal,
}

impl Mark {
    const fn text(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::Failed => "failed",
            Self::NoGoal => "-",
        }
    }
}

impl Rounds<'_> {
    fn suite(&self) -> Option<&'static Suite> {
        self.0.first().map(|row| row.suite)
    }

    fn sorted(&self, of: fn(&Counted) -> u64) -> Vec<u64> {
        let mut all: Vec<u64> = self.0.iter().map(|row| of(&row.counted)).collect();
        all.sort_unstable();
        all
    }

    fn middle(&self, of: fn(&Counted) -> u64) -> u64 {
        let all = self.sorted(of);
        all.get(all.len() / 2).copied().unwrap_or_default()
    }

    fn sum(&self, of: fn(&Counted) -> u64) -> u64 {
        self.0.iter().map(|row| of(&row.counted)).sum()
    }

    /// What the goal is about, in the middle of all rounds.
    fn measured(&self, of: Measure) -> u64 {
        match of {
            Measure::Gap => self.middle(|counted| counted.gap_ms),
            Measure::Dark => self.middle(|counted| counted.dark_ms),
        }
    }

    fn mark(&self) -> Mark {
        if self.0.iter().any(|row| row.failed) {
            return Mark::Failed;
        }
        match self.suite().and_then(|suite| suite.goal) {
            Some(goal) if self.measured(goal.of) <= goal.millis => Mark::Met,
            Some(_) => Mark::Missed,
            None => Mark::NoGoal,
        }
    }

    fn line(&self) -> String {
        let goal = self.suite().and_then(|suite| suite.goal);
        line(&[
            self.suite().map_or("", |suite| suite.name),
            &self.0.len().to_string(),
            &format!(
                "{:.1}",
                self.0.iter().map(|row| row.took.as_secs_f64()).sum::<f64>()
            ),
            &self.middle(|counted| counted.gap_ms).to_string(),
            &self
                .sorted(|counted| counted.gap_ms)
                .last()
                .copied()
                .unwrap_or_default()
                .to_string(),
            &self.middle(|counted| counted.dark_ms).to_string(),
            &goal.map_or_else(|| "-".to_owned(), Goal::text),
            goal.map_or("-", |goal| goal.beside),
            self.mark().text(),
            &self.sum(|counted| counted.acknowledged).to_string(),
            &self.sum(|counted| counted.failed).to_string(),
            &self.sum(|counted| counted.unknown).to_string(),
            &self.sum(|counted| counted.lost).to_string(),
            &self.sum(|counted| counted.twice).to_string(),
        ])
    }
}

const COLUMNS: [(&str, usize); 14] = [
    ("suite", 20),
    ("rounds", 6),
    ("seconds", 8),
    ("gap ms", 8),
    ("worst", 8),
    ("dark ms", 8),
    ("goal ms", 10),
    ("beside", 14),
    ("goal", 6),
    ("acked", 8),
    ("failed", 8),
    ("unknown", 8),
    ("lost", 6),
    ("twice", 6),
];

/// Names are read from the left, figures from the right.
fn line(cells: &[&str; 14]) -> String {
    let padded = cells
        .iter()
        .zip(COLUMNS)
        .enumerate()
        .map(|(number, (cell, (_, width)))| {
            if number == 0 {
                format!("{cell:width$}")
            } else {
                format!("{cell:>width$}")
            }
        });
    padded.collect::<Vec<_>>().join(" ")
}

fn by_suite(rows: &[Row]) -> impl Iterator<Item = Rounds<'_>> {
    rows.chunk_by(|one, next| one.suite.name == next.suite.name)
        .map(Rounds)
}

/// One line a suite: gaps in the middle and at worst, the goal and what it is set beside, and the counts of all rounds
/// together.
pub(crate) fn table(databases: &str, rows: &[Row]) -> String {
    let mut lines = vec![
        format!("databases: {databases}; beside: memgraph-controller, in the middle and at worst"),
        line(&COLUMNS.map(|(name, _)| name)),
    ];
    lines.extend(by_suite(rows).map(|rounds| rounds.line()));
    lines.join("\n")
}

/// The goals that were missed: said, and no failure.
pub(crate) fn missed(rows: &[Row]) -> Vec<String> {
    by_suite(rows)
        .filter(|rounds| rounds.mark() == Mark::Missed)
        .filter_map(|rounds| {
            let suite = rounds.suite()?;
            let goal = suite.goal?;
            Some(format!(
                "{}: {} ms, and the goal is {} ms (memgraph-controller: {})",
                suite.name,
                rounds.measured(goal.of),
                goal.text(),
                goal.beside
            ))
        })
        .collect()
}

/// What no machine explains: writes that are lost or there twice, and gaps that are too long.
pub(crate) fn broken(rows: &[Row]) -> Vec<String> {
    let mut all = Vec::new();
    for row in rows {
        let (name, counted) = (row.suite.name, &row.counted);
        if counted.lost > 0 || counted.twice > 0 {
            all.push(format!(
                "LOST {name}: {} acknowledged writes are missing, and {} are there twice",
                counted.lost, counted.twice
            ));
        }
        if counted.gap_ms > LONGEST_GAP && !row.suite.may_be_dark {
            all.push(format!(
                "TOO LONG {name}: {} ms without an acknowledged write",
                counted.gap_ms
            ));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::e2e::suites::SUITES;

    fn row(name: &str, gap_ms: u64, dark_ms: u64) -> Row {
        Row {
            suite: SUITES.iter().find(|suite| suite.name == name).unwrap(),
            took: Duration::from_secs(1),
            counted: Counted {
                acknowledged: 1,
                failed: 0,
                unknown: 0,
                gap_ms,
                dark_ms,
                lost: 0,
                twice: 0,
                last_error: String::new(),
            },
            failed: false,
        }
    }

    #[test]
    fn a_goal_is_about_the_middle_of_all_rounds() {
        let rows = [row("kill", 1_100, 0), row("kill", 900, 0), row("kill", 29_000, 0)];
        assert_eq!(missed(&rows), Vec::<String>::new());
        let shown = table("stand-ins", &rows);
        let last: Vec<&str> = shown.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(
            last,
            [
                "kill", "3", "3.0", "1100", "29000", "0", "1100", "1.1/23", "s", "met", "3", "0", "0", "0",
                "0"
            ]
        );
        let rows = [row("kill", 1_101, 0)];
        assert!(table("stand-ins", &rows).contains("missed"));
        assert_eq!(
            missed(&rows),
            ["kill: 1101 ms, and the goal is 1100 ms (memgraph-controller: 1.1/23 s)"]
        );
        assert!(broken(&rows).is_empty(), "a goal that is missed is no failure");
    }

    #[test]
    fn the_goal_of_a_rolling_change_is_about_all_that_is_dark() {
        assert!(missed(&[row("rolling", 4_000, 4_700)]).is_empty());
        assert_eq!(missed(&[row("rolling", 1_000, 4_701)]).len(), 1);
    }

    #[test]
    fn a_suite_that_failed_meets_no_goal() {
        let mut failed = row("delete", 10, 0);
        failed.failed = true;
        let rows = [row("delete", 10, 0), failed];
        assert!(
            table("stand-ins", &rows)
                .lines()
                .last()
                .unwrap()
                .contains("failed")
        );
        assert!(missed(&rows).is_empty());
    }

    #[test]
    fn what_no_machine_explains_is_a_failure() {
        assert!(broken(&[row("kill", 30_000, 0)]).is_empty());
        assert_eq!(broken(&[row("kill", 30_001, 0)]).len(), 1);
        assert!(
            broken(&[row("sync-protection", 60_000, 0)]).is_empty(),
            "it waits for a person"
        );
        let mut lost = row("bootstrap", 10, 0);
        lost.counted.lost = 1;
        assert_eq!(broken(&[lost]).len(), 1);
        let mut twice = row("bootstrap", 10, 0);
        twice.counted.twice = 1;
        assert_eq!(broken(&[twice]).len(), 1);
    }
}
