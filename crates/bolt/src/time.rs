//! Time as a value.

use std::time::Duration;

/// A moment of a clock that only the caller knows: the time since its start.
///
/// Only differences matter here, so any monotonic clock will do, virtual ones
/// included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Duration);

impl Moment {
    /// The start of the clock.
    pub const START: Self = Self(Duration::ZERO);

    /// The moment `milliseconds` after the start.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    /// The moment `wait` later. Never overflows: the end of time is as far as it goes.
    #[must_use]
    pub const fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }
}
