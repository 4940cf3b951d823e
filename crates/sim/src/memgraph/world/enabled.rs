//! What can happen next.

use super::action::{Action, Look};
use super::config::Config;
use super::observe::Timeless;
use super::state::State;
use crate::memgraph::instance::{Role, Stage};
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::record::{State as Phase, Writes};
use mainstay_core::memgraph::spec::FenceTimeout;

impl State {
    /// Everything that can happen next, faults within the budget included.
    pub fn enabled(&self, config: &Config) -> Vec<Action> {
        let mut actions = Vec::with_capacity(24);
        self.operator_actions(config, &mut actions);
        self.gateway_actions(config, &mut actions);
        self.database_actions(config, &mut actions);
        self.faults(config, &mut actions);
        actions
    }

    fn operator_actions(&self, config: &Config, actions: &mut Vec<Action>) {
        let lens = Timeless {
            suspect: None,
            late: false,
            dying: None,
            turn: 0,
        };
        for (operator, op) in self.operators.iter().zip(0_u8..) {
            if operator.turn.is_some() {
                self.turn_actions(config, op, &lens, actions);
            } else {
                self.looks(config, |look| actions.push(Action::Observe(op, look)));
            }
        }
        for (_, n) in self.outstanding.iter().zip(0_u8..) {
            actions.push(Action::Execute(n));
        }
    }

    fn turn_actions(&self, config: &Config, op: u8, lens: &Timeless, actions: &mut Vec<Action>) {
        let may = self.may_step(config, op, lens);
        if may {
            actions.push(Action::Step(op));
        }
        let step = self.current_step(op);
        let waits = matches!(
            step,
            Some(Step::AwaitFence {
                otherwise: FenceTimeout::Proceed,
                ..
            })
        );
        if !may && waits {
            actions.push(Action::Proceed(op));
        }
        let can_be_late = matches!(step, Some(Step::Promote(_) | Step::Demote(_) | Step::Drop { .. }));
        if can_be_late && self.budget.late > 0 {
            actions.push(Action::StepLate(op));
        }
        if config.operators_die {
            self.looks(config, |look| actions.push(Action::Again(op, look)));
        }
    }

    fn looks(&self, config: &Config, mut push: impl FnMut(Look)) {
        push(Look::Plain);
        if config.slow_looks && self.budget.crashes > 0 {
            let alive = |n: &u8| self.pod(*n).is_some_and(|p| p.alive);
            (0..2).filter(alive).for_each(|n| push(Look::Dying(n)));
        }
        let Some(record) = &self.record else { return };
        let main_alive = self
            .recorded_main()
            .and_then(|m| self.pod(m))
            .is_some_and(|p| p.alive);
        // Once its successor is chosen, it matters only to a term that is held up.
        let held_up = config.deadlines && record.state == Phase::NoMain;
        if self.budget.suspicions > 0 && main_alive && (record.state == Phase::Serving || held_up) {
            push(Look::Suspect);
            if held_up {
                push(Look::SuspectLate);
            }
        }
        let deadline =
            matches!(record.state, Phase::SwitchingOver | Phase::NoMain) || record.writes == Writes::Held;
        if config.deadlines && deadline {
            push(Look::Late);
        }
        if self.budget.switchovers > 0 && record.state == Phase::Serving && record.sync.is_some() {
            push(Look::Switchover);
        }
    }

    fn gateway_actions(&self, config: &Config, actions: &mut Vec<Action>) {
        for (gateway, g) in self.gateways.iter().zip(0_u8..) {
            let seen = (gateway.gate.term(), gateway.gate.revision());
            if self.record.as_ref().is_some_and(|r| (r.term, r.revision) > seen) {
                actions.push(Action::Read(g));
            }
            let writes_left = self.next_write < config.writes;
            match (gateway.session, gateway.gate.route()) {
                (None, Some(route))
                    if writes_left && self.pod(route.pod.0).is_some_and(|p| p.alive && !p.hung) =>
                {
                    actions.push(Action::Connect(g));
                }
                (Some((pod, run)), _) => {
                    let free = |p: &&super::Pod| p.alive && !p.hung && p.run == run && p.db.stage().is_none();
                    let Some(pod) = self.pod(pod).filter(free) else {
                        continue;
                    };
                    if writes_left {
                        actions.push(Action::Write(g));
                    }
                    if self.budget.unmarks > 0 && pod.db.store().mark.is_some() {
                        actions.push(Action::Unmark(g));
                    }
                }
                _ => {}
            }
        }
    }

    fn database_actions(&self, config: &Config, actions: &mut Vec<Action>) {
        for (pod, n) in self.pods.iter().zip(0_u8..) {
            actions.extend(self.commit_action(n));
            if pod.alive && !pod.hung && pod.db.stage() == Some(Stage::Voting) {
                actions.push(Action::GiveUp(n));
            }
            if !pod.alive && !pod.scaled_away {
                actions.push(Action::Start(n));
            }
        }
        for (main, replica, empties) in self.tendable(config) {
            actions.push(Action::Tend(main, replica));
            if empties {
                actions.push(Action::Empty(main, replica));
            }
        }
        for (a, b) in &self.cut {
            actions.push(Action::Heal(*a, *b));
        }
    }

    /// The next step of a client's commit on this pod.
    pub fn commit_action(&self, n: u8) -> Option<Action> {
        match self.stage(n)? {
            Stage::Voting => None,
            Stage::Prepared | Stage::Logged => Some(Action::CommitLocally(n)),
            // One phase is over with the local commit; two phases are told to the replicas first.
            Stage::Committed if !self.two_phase(n) => Some(Action::Acknowledge(n)),
            Stage::Committed => self.may_finalize(n).then_some(Action::Finalize(n)),
            Stage::Finalized => Some(Action::Acknowledge(n)),
        }
    }

    /// The registrations that MAINs work on now: MAIN, replica, and whether it may be emptied first.
    pub fn tendable(&self, config: &Config) -> Vec<(u8, u8, bool)> {
        let mut work = Vec::new();
        for (pod, n) in self.pods.iter().zip(0_u8..) {
            if !pod.alive || pod.hung || pod.db.role() != Role::Main || pod.db.stage().is_some() {
                continue;
            }
            for r in pod.db.registrations().iter().filter(|r| self.needs_tending(n, r)) {
                let recovers = r.status() == crate::memgraph::instance::Status::Recovery;
                let empties = config.snapshot_recovery && recovers && pod.db.snapshot().is_some();
                work.push((n, r.peer().0, empties));
            }
        }
        work
    }

    fn two_phase(&self, n: u8) -> bool {
        self.pod(n).is_some_and(|p| p.db.is_two_phase())
    }

    fn faults(&self, config: &Config, actions: &mut Vec<Action>) {
        let left = &self.budget;
        for (pod, n) in self.pods.iter().zip(0_u8..) {
            if pod.alive && left.crashes > 0 && !config.slow_looks {
                actions.push(if config.fsync {
                    Action::Crash(n)
                } else {
                    Action::PowerLoss(n)
                });
            }
            // A MAIN that hangs is one that is silent: `Suspect` is that, and it lives.
            if pod.alive && !pod.hung && left.hangs > 0 && pod.db.role() == Role::Replica {
                actions.push(Action::Hang(n));
            }
            if pod.alive && left.drains > 0 {
                actions.push(Action::Drain(n));
            }
            if !pod.alive && left.volumes > 0 {
                actions.push(Action::LoseVolume(n));
            }
            let main = pod.alive && !pod.hung && pod.db.role() == Role::Main;
            if main && left.hand_drops > 0 {
                for r in pod.db.registrations() {
                    actions.push(Action::HandDrop(n, r.peer().0));
                }
            }
            if left.repairs > 0 && !main {
                actions.push(Action::Repair(n));
            }
            if left.overrides > 0 && n < 2 {
                actions.push(Action::Override(n));
            }
            if left.partitions > 0 {
                for other in (n + 1)..config.pods {
                    if !self.is_cut(n, other) {
                        actions.push(Action::Cut(n, other));
                    }
                }
            }
        }
        if left.records > 0 && self.record.is_some() {
            actions.push(Action::LoseRecord);
        }
        if left.sleeps > 0 && !self.asleep {
            actions.push(Action::Sleep(true));
        }
        if self.asleep {
            actions.push(Action::Sleep(false));
        }
    }

    /// Is this state beyond what the search looks at?
    pub fn is_beyond(&self, config: &Config) -> bool {
        self.begun > config.bounds.terms || self.written > config.bounds.writes
    }
}
