//! A world: databases, record, gateways, operators, network, and everything that can happen to them.
//!
//! The operators run the real `decide` and the real executor; the gateways run the real gate; the init
//! container runs the real `prepare`. Only the databases, the API server and the network are models.

mod action;
mod calls;
mod canonical;
mod config;
mod databases;
mod describe;
mod enabled;
mod few;
pub mod fingerprint;
mod gateways;
mod judge;
mod numbered;
mod numbers;
mod observe;
mod operators;
mod overrides;
mod registering;
mod shared;
mod start;
mod state;

pub use action::{Action, Look};
pub use config::{Bounds, Budget, Config};
pub use describe::{describe, transcript};
pub use judge::{Heal, Violation};
pub use observe::{Lens, NOW, Timeless, core_role, pod_letter, short};
pub use shared::Shared;
pub use state::{Gateway, Hashed, Operator, Pod, Remembered, State, process};

use judge::Judged;

/// What an action did.
#[derive(Clone, Debug, Default)]
pub struct Effect {
    /// Something that must never happen.
    pub violation: Option<Violation>,
    /// What it did, for a transcript. Empty unless asked for.
    pub notes: Vec<String>,
    /// The action changed nothing and is no step of its own.
    pub idle: bool,
}

/// What is carried through one action.
#[derive(Debug)]
pub(crate) struct Doing<'a> {
    pub(crate) config: &'a Config,
    pub(crate) noting: bool,
    pub(crate) effect: Effect,
}

impl Doing<'_> {
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.noting {
            self.effect.notes.push(text());
        }
    }

    pub(crate) fn violate(&mut self, violation: Violation) {
        self.effect.violation.get_or_insert(violation);
    }
}

impl State {
    /// Does it, and judges the result.
    pub fn apply(&mut self, config: &Config, action: Action, noting: bool) -> Effect {
        let look = match action {
            Action::Observe(_, look) | Action::Again(_, look) => Some(look),
            _ => None,
        };
        let late = matches!(look, Some(Look::Late | Look::SuspectLate));
        let suspect = match look {
            Some(Look::Suspect | Look::SuspectLate) => self.recorded_main(),
            _ => None,
        };
        let dying = match look {
            Some(Look::Dying(pod)) => Some(pod),
            _ => None,
        };
        let turn = self.record.as_ref().map_or(0, |r| r.revision.0) + 1;
        self.apply_with(
            config,
            action,
            noting,
            &Timeless {
                suspect,
                late,
                dying,
                turn,
            },
        )
    }

    /// Does it with a lens of the caller's, and judges the result.
    pub fn apply_with(&mut self, config: &Config, action: Action, noting: bool, lens: &impl Lens) -> Effect {
        let mut doing = Doing {
            config,
            noting,
            effect: Effect::default(),
        };
        match action {
            Action::Observe(op, look) => self.look(&mut doing, op, look, lens),
            Action::Step(op) => self.step(&mut doing, op, false, lens),
            Action::Proceed(op) => self.step(&mut doing, op, true, lens),
            Action::StepLate(op) => self.step_late(&mut doing, op),
            Action::Die(op) => self.die(op),
            Action::Again(op, look) => {
                self.die(op);
                self.look(&mut doing, op, look, lens);
                doing.effect.idle = false;
            }
            Action::Execute(n) => self.execute_late(&mut doing, n),
            Action::Read(g) => self.gateway_reads(&mut doing, g),
            Action::Connect(g) => self.gateway_connects(&mut doing, g),
            Action::Write(g) => self.client_writes(&mut doing, g),
            Action::CommitLocally(pod) => self.commit_locally(pod),
            Action::Finalize(pod) => self.finalize(pod),
            Action::Acknowledge(pod) => self.acknowledge(&mut doing, pod),
            Action::Tend(main, replica) => self.tend(&mut doing, main, replica),
            Action::Empty(main, replica) => self.empty(main, replica),
            Action::Crash(pod) => self.crash(&mut doing, pod, false),
            Action::PowerLoss(pod) => self.crash(&mut doing, pod, true),
            Action::Drain(pod) => {
                self.budget.drains = self.budget.drains.saturating_sub(1);
                self.recreate(config, pod);
            }
            Action::Start(pod) => self.start_pod(&mut doing, pod),
            Action::LoseVolume(pod) => self.lose_volume(config, pod),
            Action::Cut(a, b) => {
                self.budget.partitions = self.budget.partitions.saturating_sub(1);
                self.cut.push((a.min(b), a.max(b)));
                self.cut.sort_unstable();
            }
            Action::Heal(a, b) => self.cut.retain(|l| *l != (a.min(b), a.max(b))),
            Action::HandDrop(main, replica) => self.hand_drop(main, replica),
            Action::LoseRecord => {
                self.budget.records = self.budget.records.saturating_sub(1);
                self.record = None;
                self.version += 1;
                self.written += 1;
            }
            Action::Sleep(asleep) => {
                if asleep {
                    self.budget.sleeps = self.budget.sleeps.saturating_sub(1);
                }
                self.asleep = asleep;
            }
            Action::Override(pod) => self.choose(pod),
            Action::Repair(pod) => self.repair(config, pod),
            Action::Unmark(gateway) => self.unmark(&mut doing, gateway),
            Action::Hang(pod) => self.hang(pod),
            Action::GiveUp(pod) => self.give_up(&mut doing, pod),
            Action::Snapshot(pod) => {
                if let Some(pod) = self.pod_mut(pod) {
                    let _ = pod.db.take_snapshot();
                }
            }
        }
        if let Judged::Bad(violation) = self.judge(config) {
            doing.violate(violation);
        }
        doing.effect
    }

    /// The pod the record calls MAIN.
    pub fn recorded_main(&self) -> Option<u8> {
        self.record.as_ref()?.main.as_ref().map(|m| m.pod.0)
    }
}
