//! How a world begins.

use super::action::{Action, Look};
use super::config::Config;
use super::state::State;
use crate::memgraph::instance::Role;

impl State {
    /// The first state of a world: a protected cluster, or empty pods without a record.
    pub fn first(config: &Config) -> Self {
        let mut state = Self::fresh(config);
        if !config.from_nothing {
            state.settle(config);
        }
        state.prepare_disks(config);
        state.budget = config.budget;
        (state.begun, state.written) = (0, 0);
        for gateway in 0..config.gateways {
            state.apply(config, Action::Connect(gateway), false);
        }
        // A trace begins with the numbers that a cluster of this age has.
        let as_they_are = Config {
            renumber: false,
            ..config.clone()
        };
        state.canonical(&as_they_are);
        state
    }

    /// What is there at the start is on disk; MAIN has a snapshot where catch-up loads one.
    fn prepare_disks(&mut self, config: &Config) {
        for pod in &mut self.pods {
            pod.db.fsynced();
            if config.snapshot_recovery && pod.db.role() == Role::Main {
                let _ = pod.db.take_snapshot();
            }
        }
    }

    /// Lets everybody do their work, without faults, until the cluster is whole or nothing changes.
    pub fn settle(&mut self, config: &Config) -> bool {
        for _ in 0..500 {
            if self.is_whole() && self.gateways.iter().all(|g| g.gate.route().is_some()) {
                return true;
            }
            let Some(action) = self.next_fair(config) else {
                return self.is_whole();
            };
            self.apply(config, action, false);
        }
        false
    }

    /// The next thing a calm world would do.
    pub fn next_fair(&self, config: &Config) -> Option<Action> {
        self.next_fair_of(config, &|_| true)
    }

    /// The same, among what is allowed.
    pub fn next_fair_of(&self, config: &Config, may: &impl Fn(Action) -> bool) -> Option<Action> {
        let rank = |action: &Action| match action {
            Action::Acknowledge(_) => 0,
            Action::Finalize(_) => 1,
            Action::CommitLocally(_) => 2,
            Action::Heal(..) => 3,
            Action::Start(_) => 4,
            Action::Tend(..) => 5,
            Action::Read(_) => 6,
            Action::Step(_) => 7,
            Action::GiveUp(_) => 8,
            Action::Observe(_, Look::Plain) => 9,
            Action::Observe(_, Look::Late) => 10,
            _ => 99,
        };
        let mut actions = self.enabled(config);
        actions.retain(|a| rank(a) < 99 && may(*a));
        actions.sort_by_key(rank);
        actions.into_iter().find(|action| {
            let mut copy = self.clone();
            let effect = copy.apply(config, *action, false);
            !effect.idle && copy != *self
        })
    }
}
