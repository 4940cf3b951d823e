//! What is different this time: exceptions, holidays, and "awake for three hours".

use super::error::ScheduleError;
use super::set::{Span, Spans};
use super::window::Window;
use super::zone::Zone;
use crate::time::Time;
use jiff::ToSpan;
use jiff::civil::Date;
use std::time::Duration;

/// A day off: everything sleeps from midnight to midnight, local time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holiday {
    date: Date,
    /// What people call it.
    pub name: String,
}

impl Holiday {
    /// `2026-12-25`, and its name.
    pub fn parse(date: &str, name: &str) -> Result<Self, ScheduleError> {
        let date: Date = date
            .parse()
            .map_err(|_| ScheduleError::BadDate(date.to_owned()))?;
        Ok(Self {
            date,
            name: name.to_owned(),
        })
    }

    /// Which day.
    pub fn date(&self) -> Date {
        self.date
    }

    pub(super) fn span(&self, zone: &Zone) -> Span {
        Span {
            from: zone.begins(self.date),
            to: zone.begins(self.date.saturating_add(1.day())),
        }
    }
}

/// When an exception applies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cover {
    /// As long as it is valid.
    Throughout,
    /// In these windows, while it is valid. Never empty.
    Windows(Vec<Window>),
}

impl Cover {
    /// No windows: throughout.
    pub fn of(windows: Vec<Window>) -> Self {
        if windows.is_empty() {
            Self::Throughout
        } else {
            Self::Windows(windows)
        }
    }
}

/// What an exception does to the schedule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Sleep then, too.
    Extend,
    /// Do not sleep then; and do not begin to sleep `lead` before it.
    Suspend {
        /// How long before.
        lead: Duration,
    },
    /// Only these windows count; the plan's own do not.
    Replace,
}

/// An exception that can be followed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Exception {
    name: String,
    valid: Span,
    kind: Kind,
    cover: Cover,
}

const LONGEST: Duration = Duration::from_hours(90 * 24);
pub(super) const LONGEST_LEAD: Duration = Duration::from_hours(24);

impl Exception {
    /// Checks that it makes sense.
    pub fn new(name: &str, valid: Span, kind: Kind, cover: Cover) -> Result<Self, ScheduleError> {
        if valid.from >= valid.to {
            return Err(ScheduleError::BadValidity(name.to_owned()));
        }
        if valid.to.since(valid.from) > LONGEST {
            return Err(ScheduleError::TooLong(name.to_owned()));
        }
        match &kind {
            Kind::Replace if cover == Cover::Throughout => {
                return Err(ScheduleError::ReplacesByNothing(name.to_owned()));
            }
            Kind::Suspend { lead } if *lead > LONGEST_LEAD => {
                return Err(ScheduleError::LeadTooLong(name.to_owned()));
            }
            Kind::Extend | Kind::Suspend { .. } | Kind::Replace => {}
        }
        Ok(Self {
            name: name.to_owned(),
            valid,
            kind,
            cover,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// From when to when it counts.
    pub fn valid(&self) -> Span {
        self.valid
    }

    /// What it does.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Same kind, and valid at the same time. Both count, their windows together; people should know.
    pub fn collides(&self, other: &Self) -> bool {
        std::mem::discriminant(&self.kind) == std::mem::discriminant(&other.kind)
            && self.valid.from < other.valid.to
            && other.valid.from < self.valid.to
    }

    /// Where it applies. Nothing of it reaches beyond its validity.
    pub(super) fn spans(&self, zone: &Zone, from: Time, to: Time) -> Spans {
        match &self.cover {
            Cover::Throughout => Spans::of([self.valid]),
            Cover::Windows(windows) => {
                let all = windows.iter().flat_map(|w| w.spans(zone, from, to));
                Spans::of(all).within(self.valid)
            }
        }
    }
}

/// What somebody wants in spite of the schedule, until a moment at which it ends by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Override {
    span: Span,
    asleep: bool,
    /// Who, and why; for people.
    pub note: String,
}

impl Override {
    /// Awake from `from` for `duration`.
    pub fn awake_for(from: Time, duration: Duration, note: &str) -> Result<Self, ScheduleError> {
        Self::new(from, from + duration, false, note)
    }

    /// Asleep from `from` to `until`.
    pub fn asleep_until(from: Time, until: Time, note: &str) -> Result<Self, ScheduleError> {
        Self::new(from, until, true, note)
    }

    fn new(from: Time, to: Time, asleep: bool, note: &str) -> Result<Self, ScheduleError> {
        if from >= to {
            return Err(ScheduleError::EmptyOverride);
        }
        Ok(Self {
            span: Span { from, to },
            asleep,
            note: note.to_owned(),
        })
    }

    /// When it counts.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Asleep, or awake?
    pub fn is_asleep(&self) -> bool {
        self.asleep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_that_makes_no_sense_is_refused() {
        let span = |from, to| Span {
            from: Time(from),
            to: Time(to),
        };
        let refused = |valid, kind| {
            Exception::new("x", valid, kind, Cover::Throughout)
                .unwrap_err()
                .to_string()
        };
        assert!(refused(span(5, 5), Kind::Extend).contains("validUntil"));
        assert!(refused(span(0, 91 * 86_400_000), Kind::Extend).contains("90 days"));
        assert!(refused(span(0, 5), Kind::Replace).contains("`suspend`"));
        let lead = Duration::from_hours(25);
        assert!(refused(span(0, 5), Kind::Suspend { lead }).contains("24h"));
        assert!(Override::awake_for(Time(5), Duration::ZERO, "").is_err());
        assert!(
            Holiday::parse("25.12.2026", "Christmas")
                .unwrap_err()
                .to_string()
                .contains("YYYY-MM-DD")
        );
    }
}
