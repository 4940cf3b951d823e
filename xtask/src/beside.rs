//! Stages that run while others do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use crate::summary::Outcome;

/// The stage with which they begin.
pub(crate) const WITH: &str = "test";

/// How much of the processors they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As much as anybody.
    Equal,
    /// What the others leave.
    Gentle,
}

/// One after the other in each. The first wait for processes and share nothing with the tests. The second only compute,
/// so that they fill the time in which tests and drills wait; they come last, so that nobody waits for them before.
pub(crate) const LANES: &[(&[&str], Pace)] = &[
    (&["conformance", "drivers"], Pace::Equal),
    (
        &["simulate", "simulate-nights", "simulate-ring", "explore"],
        Pace::Gentle,
    ),
];

/// What is to be done, by its name.
pub(crate) type Task<'a> = (&'static str, Box<dyn FnOnce() -> Outcome + Send + 'a>);
type Outcomes = Vec<(&'static str, Outcome)>;

/// The lanes that run, and what became of those that ended.
#[derive(Default)]
pub(crate) struct Beside<'scope> {
    running: Vec<(Vec<&'static str>, ScopedJoinHandle<'scope, Outcomes>)>,
    ended: Outcomes,
}

impl<'scope> Beside<'scope> {
    /// Every lane begins. In one that fails nothing more is begun, nor in any once `stop` is set.
    pub(crate) fn begin<'env>(
        scope: &'scope Scope<'scope, 'env>,
        stop: &'scope AtomicBool,
        tasks: impl Fn(&'static [&'static str], Pace) -> Vec<Task<'scope>>,
    ) -> Self {
        let lanes = LANES.iter().map(|(names, pace)| tasks(names, *pace));
        let running = lanes
            .map(|tasks| {
                let names = tasks.iter().map(|(name, _)| *name).collect();
                (names, scope.spawn(move || run(tasks, stop)))
            })
            .collect();
        Self {
            running,
            ended: Vec::new(),
        }
    }

    /// What became of this stage, once its lane has ended; `None` if it is in none.
    pub(crate) fn outcome(&mut self, stage: &str) -> Option<Outcome> {
        if let Some(index) = self.running.iter().position(|(names, _)| names.contains(&stage)) {
            let (_, lane) = self.running.remove(index);
            // It panics with the thread: what was not judged must not pass.
            let outcomes = lane
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            self.ended.extend(outcomes);
        }
        let ended = self.ended.iter().find(|(name, _)| *name == stage);
        ended.map(|(_, outcome)| *outcome)
    }
}

fn run(tasks: Vec<Task<'_>>, stop: &AtomicBool) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for (name, task) in tasks {
        let failed = outcomes.iter().any(|(_, o)| matches!(o, Outcome::Failed(_)));
        let over = failed || stop.load(Ordering::Relaxed);
        outcomes.push((name, if over { Outcome::NotRun } else { task() }));
    }
    outcomes
}
