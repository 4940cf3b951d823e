//! The right to act, for a while.

use super::model::LeaseEpoch;
use crate::time::Time;
use std::time::Duration;

/// The right to act until a moment on the own clock.
///
/// Ask the candidate for the newest one right before each effect: a copy kept from earlier is neither
/// extended by renewals nor taken back when the lease is released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leadership {
    epoch: LeaseEpoch,
    counted_from: Moment,
    term: Duration,
}

/// The same moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) mono: Time,
    pub(super) wall: Time,
}

/// Why a step must not start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseRefusal {
    /// The leadership is over.
    #[error("the leadership ended at {until}, now is {now} (monotonic clock)")]
    Over {
        /// When it ended.
        until: Time,
        /// When the step was to start.
        now: Time,
    },
    /// The monotonic clock stood still, or the wall clock was set forward. Either way our own age is unknown.
    #[error("the wall clock says {wall_elapsed:?} since the last renewal, the monotonic clock {elapsed:?}")]
    ClocksDisagree {
        /// Time since the last renewal on the wall clock.
        wall_elapsed: Duration,
        /// Time since the last renewal on the monotonic clock.
        elapsed: Duration,
    },
    /// The step could still be running when another leader starts.
    #[error("the leadership lasts {remaining:?} more, the step may take {step_timeout:?}")]
    TooShort {
        /// What is left of the leadership.
        remaining: Duration,
        /// How long the step may take.
        step_timeout: Duration,
    },
}

impl Leadership {
    pub(super) fn new(epoch: LeaseEpoch, counted_from: Moment, term: Duration) -> Self {
        Self {
            epoch,
            counted_from,
            term,
        }
    }

    /// The term of this leadership; goes into everything the leader records.
    pub fn epoch(&self) -> &LeaseEpoch {
        &self.epoch
    }

    /// When it ends, on the monotonic clock.
    pub fn until(&self) -> Time {
        self.counted_from.mono + self.term
    }

    /// Whether a step that ends or is given up after `step_timeout` may start now.
    pub fn permits(&self, now: Time, wall: Time, step_timeout: Duration) -> Result<(), LeaseRefusal> {
        let elapsed = now.since(self.counted_from.mono);
        let wall_elapsed = wall.since(self.counted_from.wall);
        if elapsed >= self.term {
            return Err(LeaseRefusal::Over {
                until: self.until(),
                now,
            });
        }
        if wall_elapsed >= self.term {
            return Err(LeaseRefusal::ClocksDisagree {
                wall_elapsed,
                elapsed,
            });
        }
        let remaining = self.term.saturating_sub(elapsed.max(wall_elapsed));
        if remaining <= step_timeout {
            return Err(LeaseRefusal::TooShort {
                remaining,
                step_timeout,
            });
        }
        Ok(())
    }
}
