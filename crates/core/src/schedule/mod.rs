//! When things should sleep, as a pure function of time.
//!
//! [`Schedule::at`] says for any moment what is desired, since when, until when and why; nothing is remembered
//! between two calls, so a missed edge is made up for by the next look. [`Schedule::intervals`] says the same for a
//! stretch of time, and is what `preview` shows. Times are milliseconds since 1970.
//!
//! Layers, each over the one before: the plan's windows and holidays; `replace` puts its windows in their place for
//! as long as it is valid; `extend` adds; `suspend` takes away and wins on every minute; what somebody asked for
//! ("awake for 3 h") wins over all of them until it ends by itself.
//!
//! | file | concern |
//! |---|---|
//! | `zone` | local time and moments; daylight saving time |
//! | `window` | windows and intervals of a week |
//! | `exception` | exceptions, holidays, overrides |
//! | `compose` | the layers |
//! | `preview` | the next days, with what a person should notice |

mod cause;
mod compose;
mod error;
mod exception;
pub mod preview;
mod set;
mod window;
mod zone;

pub use cause::Cause;
pub use error::ScheduleError;
pub use exception::{Cover, Exception, Holiday, Kind, Override};
pub use set::Span;
pub use window::{Day, Minute, Window};
pub use zone::{Change, Zone};

use crate::time::Time;
use serde::Serialize;

/// A moment as people and other programs read it: `2026-11-16T19:00:00Z`.
pub fn rfc3339(at: Time) -> String {
    zone::timestamp(at).to_string()
}

/// What a schedule asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Desired {
    /// Everything as it was.
    Awake,
    /// Everything stopped.
    Asleep,
}

/// What is desired at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// What.
    pub desired: Desired,
    /// Since when; `None`: for longer than anybody looks back.
    pub since: Option<Time>,
    /// Until when; `None`: no change is in sight.
    pub until: Option<Time>,
    /// Why.
    pub why: Cause,
}

/// A stretch of time in which the same is desired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// Its first moment.
    pub from: Time,
    /// The first moment after it.
    pub to: Time,
    /// What is desired.
    pub desired: Desired,
    /// Why it begins.
    pub begins: Cause,
    /// Why it ends.
    pub ends: Cause,
}

/// A schedule that can be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    zone: Zone,
    windows: Vec<Window>,
    holidays: Vec<Holiday>,
    exceptions: Vec<Exception>,
    wish: Option<Override>,
}

impl Schedule {
    /// The plan's own part.
    pub fn new(zone: Zone, windows: Vec<Window>, holidays: Vec<Holiday>) -> Result<Self, ScheduleError> {
        if windows.is_empty() && holidays.is_empty() {
            return Err(ScheduleError::NoWindows);
        }
        Ok(Self {
            zone,
            windows,
            holidays,
            exceptions: Vec::new(),
            wish: None,
        })
    }

    /// With these exceptions. Their order does not matter.
    #[must_use]
    pub fn with_exceptions(mut self, mut exceptions: Vec<Exception>) -> Self {
        exceptions.sort();
        self.exceptions = exceptions;
        self
    }

    /// With what somebody asked for.
    #[must_use]
    pub fn with_override(mut self, wish: Option<Override>) -> Self {
        self.wish = wish;
        self
    }

    /// Its zone.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Its exceptions, by name.
    pub fn exceptions(&self) -> &[Exception] {
        &self.exceptions
    }

    /// Pairs of exceptions of the same type that are valid at the same time. Their windows count together, so the
    /// result does not depend on which was there first; whoever wrote them should know.
    pub fn collisions(&self) -> Vec<(&Exception, &Exception)> {
        let mut found = Vec::new();
        for (index, one) in self.exceptions.iter().enumerate() {
            let others = self.exceptions.iter().skip(index + 1);
            found.extend(
                others
                    .filter(|other| one.collides(other))
                    .map(|other| (one, other)),
            );
        }
        found
    }
}
