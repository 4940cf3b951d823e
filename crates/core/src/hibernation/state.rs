//! What a plan remembers: durable in its status, written before anything is done because of it.

use super::ids::{CycleId, LegId, TargetName};
use super::plan::Intent;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Where a plan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Everything is awake, and every restore point is consumed.
    Active,
    /// Going down.
    Hibernating,
    /// Asleep.
    Hibernated,
    /// Coming up.
    WakingUp,
    /// Nothing is touched.
    Suspended,
    /// Something failed; the message says what, and when it is tried again.
    Error,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operation {
    /// Down.
    Shutdown,
    /// Up.
    WakeUp,
}

impl Operation {
    /// The phase while it runs.
    pub fn phase(self) -> Phase {
        match self {
            Self::Shutdown => Phase::Hibernating,
            Self::WakeUp => Phase::WakingUp,
        }
    }
}

/// How far a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stand {
    /// Not begun.
    Pending,
    /// Begun at this time.
    Running {
        /// When.
        since: Time,
    },
    /// Down, or usable again.
    Done,
    /// Its restore point is missing or cannot be read: a human must repair it or give it up. The others go on.
    Lost,
    /// It did not work.
    Failed {
        /// When it is tried again; `None`: not by itself.
        retry_at: Option<Time>,
    },
}

/// One target in one operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// How far.
    pub stand: Stand,
    /// A restore point of this cycle was durable: if it is not there any more, it was lost.
    pub captured: bool,
    /// In which leg that was last; `None` if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_in: Option<u32>,
    /// How often it failed in this operation.
    pub attempts: u8,
    /// How often it was stopped again in this night because it had drifted.
    pub enforced: u8,
    /// What went wrong last.
    pub message: Option<String>,
}

impl Progress {
    /// Nothing has happened yet.
    pub fn fresh() -> Self {
        Self {
            stand: Stand::Pending,
            captured: false,
            captured_in: None,
            attempts: 0,
            enforced: 0,
            message: None,
        }
    }

    /// Was it taken over by a point that could not be read? Then nobody knows yet what that says.
    pub fn is_unread(&self) -> bool {
        self.captured && self.captured_in.is_none()
    }

    /// Ready for the other operation, or for one more try.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            stand: Stand::Pending,
            captured: self.captured,
            captured_in: self.captured_in,
            attempts: 0,
            enforced: self.enforced,
            message: None,
        }
    }
}

/// A cycle that is not closed: something of it may be asleep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycle {
    /// Which.
    pub id: CycleId,
    /// Which way it is going.
    pub operation: Operation,
    /// How often it has turned round. An answer to a call of an earlier leg means nothing any more.
    pub leg: u32,
    /// What it is about, as it was when the cycle began.
    pub intent: Intent,
    /// How far every target is.
    pub targets: BTreeMap<TargetName, Progress>,
    /// When it began.
    pub began: Time,
}

impl Cycle {
    /// A new one, going down.
    pub fn begin(id: CycleId, intent: Intent, now: Time) -> Self {
        let targets = intent
            .targets
            .iter()
            .map(|t| (t.name.clone(), Progress::fresh()))
            .collect();
        Self {
            id,
            operation: Operation::Shutdown,
            leg: 0,
            intent,
            targets,
            began: now,
        }
    }

    /// The leg it is in.
    pub fn leg_id(&self) -> LegId {
        LegId {
            cycle: self.id,
            leg: self.leg,
        }
    }

    /// The same cycle, the other way.
    #[must_use]
    pub fn turned(&self, operation: Operation) -> Self {
        // A night that is resumed is the same night; one after a wake-up is another, and has its own patience.
        let next_night = operation == Operation::Shutdown && self.operation == Operation::WakeUp;
        let again = |progress: &Progress| Progress {
            enforced: if next_night { 0 } else { progress.enforced },
            ..progress.again()
        };
        Self {
            operation,
            leg: self.leg.saturating_add(1),
            targets: self
                .targets
                .iter()
                .map(|(name, progress)| (name.clone(), again(progress)))
                .collect(),
            ..self.clone()
        }
    }
}

/// A cycle that is over, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// Which.
    pub id: CycleId,
    /// When it began.
    pub began: Time,
    /// When everything was awake again.
    pub ended: Time,
}

/// How many cycles are remembered.
const REMEMBERED: usize = 5;

/// What a plan remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Where it stands.
    pub phase: Phase,
    /// Since when.
    pub since: Time,
    /// The last cycle that was begun.
    pub cycle: CycleId,
    /// The cycle that is not closed, if there is one.
    pub open: Option<Cycle>,
    /// The phase in which it was suspended.
    pub suspended_at: Option<Phase>,
    /// The last wish to try again that was granted.
    pub retried: Option<String>,
    /// The last cycles, the newest last.
    pub history: Vec<Past>,
}

impl State {
    /// Awake, and nothing has ever slept.
    pub fn first(cycle: CycleId, now: Time) -> Self {
        Self {
            phase: Phase::Active,
            since: now,
            cycle,
            open: None,
            suspended_at: None,
            retried: None,
            history: Vec::new(),
        }
    }

    /// The same in another phase.
    #[must_use]
    pub fn in_phase(&self, phase: Phase, now: Time) -> Self {
        Self {
            phase,
            since: if phase == self.phase { self.since } else { now },
            ..self.clone()
        }
    }

    /// The same with another open cycle.
    #[must_use]
    pub fn with(&self, cycle: Cycle) -> Self {
        Self {
            cycle: cycle.id.max(self.cycle),
            open: Some(cycle),
            ..self.clone()
        }
    }

    /// The open cycle is closed: everything is awake.
    #[must_use]
    pub fn closed(&self, now: Time) -> Self {
        let mut next = self.in_phase(Phase::Active, now);
        next.suspended_at = None;
        if let Some(cycle) = next.open.take() {
            next.history.push(Past {
                id: cycle.id,
                began: cycle.began,
                ended: now,
            });
        }
        let surplus = next.history.len().saturating_sub(REMEMBERED);
        next.history.drain(..surplus);
        next
    }
}
