//! How the stages went, as one table.

use std::fmt;
use std::time::Duration;

/// How one stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok(Duration),
    Failed(Duration),
    /// A stage before it failed.
    NotRun,
    /// Left out by `--only` or `--skip`.
    Skipped,
}

/// The stages in the order they ran.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    rows: Vec<(&'static str, Outcome)>,
    took: Duration,
}

impl Summary {
    pub(crate) fn add(&mut self, stage: &'static str, outcome: Outcome) {
        self.rows.push((stage, outcome));
    }

    pub(crate) fn failed(&self) -> bool {
        self.rows
            .iter()
            .any(|(_, outcome)| matches!(outcome, Outcome::Failed(_)))
    }

    /// How long all of it took: less than its stages together, for some run beside each other.
    pub(crate) fn ended(&mut self, took: Duration) {
        self.took = took;
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .rows
            .iter()
            .map(|(stage, _)| stage.len())
            .max()
            .unwrap_or(0)
            .max(5);
        writeln!(f, "{:width$}  {:>8}  result", "stage", "seconds")?;
        for (stage, outcome) in &self.rows {
            let (seconds, result) = match outcome {
                Outcome::Ok(took) => (seconds(*took), "ok"),
                Outcome::Failed(took) => (seconds(*took), "FAILED"),
                Outcome::NotRun => ("-".to_owned(), "not run"),
                Outcome::Skipped => ("-".to_owned(), "skipped"),
            };
            writeln!(f, "{stage:width$}  {seconds:>8}  {result}")?;
        }
        let verdict = if self.failed() { "FAILED" } else { "ok" };
        write!(f, "{:width$}  {:>8}  {verdict}", "total", seconds(self.took))
    }
}

/// Seconds with one digit: what a person compares.
pub(crate) fn seconds(took: Duration) -> String {
    format!("{:.1}", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lines_up_and_says_what_failed_and_what_never_ran() {
        let mut summary = Summary::default();
        summary.add("fmt", Outcome::Ok(Duration::from_millis(1_240)));
        summary.add("hygiene", Outcome::Skipped);
        summary.add("clippy", Outcome::Failed(Duration::from_secs(100)));
        summary.add("test", Outcome::NotRun);
        summary.ended(Duration::from_millis(101_240));
        let expected = "\
stage     seconds  result
fmt           1.2  ok
hygiene         -  skipped
clippy      100.0  FAILED
test            -  not run
total       101.2  FAILED";
        assert_eq!(summary.to_string(), expected);
        assert!(summary.failed());
    }

    #[test]
    fn skipped_stages_do_not_make_a_run_fail() {
        let mut summary = Summary::default();
        summary.add("fmt", Outcome::Ok(Duration::ZERO));
        summary.add("deny", Outcome::Skipped);
        assert!(!summary.failed());
        assert!(summary.to_string().ends_with("ok"));
    }
}
