//! What is wrong with a schedule, and what to write instead.

use thiserror::Error;

/// A schedule that cannot be followed. Nothing is touched because of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// No such zone.
    #[error("`{0}` is not a time zone: write an IANA name such as `Europe/Berlin`, `Asia/Jakarta` or `UTC`")]
    UnknownZone(String),
    /// Not a time of day.
    #[error("`{0}` is not a time of day: write `HH:MM` from `00:00` to `23:59`, as an end also `24:00`")]
    BadTime(String),
    /// Not a day of the week.
    #[error("`{0}` is not a day: write MON, TUE, WED, THU, FRI, SAT or SUN")]
    BadDay(String),
    /// Not a day and a time.
    #[error("`{0}` is not a moment of the week: write a day and a time, such as `FRI 20:00`")]
    BadMoment(String),
    /// A window without length.
    #[error("a window from {0} to {0} is empty: for whole days write `00:00` to `24:00`")]
    EmptyWindow(String),
    /// No day is named.
    #[error("a window needs at least one day in `daysOfWeek`: the days on which it starts")]
    NoDays,
    /// Nothing would ever sleep.
    #[error("a schedule needs at least one window, interval or holiday")]
    NoWindows,
    /// Not a date.
    #[error("`{0}` is not a date: write `YYYY-MM-DD`")]
    BadDate(String),
    /// Ends before it begins.
    #[error("exception `{0}`: validUntil must be later than validFrom")]
    BadValidity(String),
    /// Too long.
    #[error("exception `{0}` is valid for more than 90 days: change the plan's schedule instead")]
    TooLong(String),
    /// It would replace the schedule by nothing.
    #[error("exception `{0}` replaces the schedule by no window at all: to stay awake write type `suspend`")]
    ReplacesByNothing(String),
    /// The lead is longer than makes sense.
    #[error(
        "exception `{0}`: a leadTime of more than 24 hours keeps things awake for days: write at most 24h"
    )]
    LeadTooLong(String),
    /// An override that is over when it begins.
    #[error("an override must end after it begins")]
    EmptyOverride,
}
