//! The next days as a person should see them before a plan is applied.

use super::{Cause, Change, Desired, Interval, Schedule};
use crate::time::Time;
use serde::Serialize;
use std::time::Duration;

/// A sleep that is longer than this is pointed out: it is often a window that does not mean what it should.
pub const LONG_SLEEP: Duration = Duration::from_hours(72);

/// One interval, and what is worth noticing about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The interval.
    pub interval: Interval,
    /// Local time at which it begins.
    pub begins_local: String,
    /// Local time at which it ends.
    pub ends_local: String,
    /// What decides in it, one after the other.
    pub because: Vec<Because>,
    /// The clocks change within it.
    pub clocks_change: Vec<ClockChange>,
    /// It is a sleep of more than 72 hours.
    pub long: bool,
}

/// What decides from a moment on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Because {
    /// From when.
    pub from: Time,
    /// The same as local time.
    pub from_local: String,
    /// What.
    pub why: Cause,
}

/// The clocks change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClockChange {
    /// When.
    pub at: Time,
    /// The local time right after it.
    pub local: String,
    /// By how many minutes the clock jumps.
    pub by_minutes: i32,
}

/// Everything in `from..to`. A sleep that is under way is shown from its beginning, one that goes on to its end, so
/// that its length is the true one.
pub fn preview(schedule: &Schedule, from: Time, to: Time) -> Vec<Entry> {
    let begin = schedule.at(from).since.unwrap_or(from);
    let end = schedule.at(to).until.unwrap_or(to);
    let intervals = schedule.intervals(begin, end);
    let shown = intervals.into_iter().filter(|i| i.to > from && i.from < to);
    shown.map(|interval| entry(schedule, interval)).collect()
}

/// Sleeps that are longer than [`LONG_SLEEP`].
pub fn long_sleeps(schedule: &Schedule, from: Time, to: Time) -> Vec<Entry> {
    preview(schedule, from, to)
        .into_iter()
        .filter(|e| e.long)
        .collect()
}

fn entry(schedule: &Schedule, interval: Interval) -> Entry {
    let zone = schedule.zone();
    let local = |at| zone.local(at).strftime("%a %Y-%m-%d %H:%M").to_string();
    let changes = zone.changes(interval.from, interval.to).into_iter();
    let because = schedule.causes(&interval).into_iter();
    let because = because.map(|(from, why)| Because {
        from,
        from_local: local(from),
        why,
    });
    Entry {
        because: because.collect(),
        begins_local: local(interval.from),
        ends_local: local(interval.to),
        clocks_change: changes
            .map(|Change { at, by_seconds }| ClockChange {
                at,
                local: local(at),
                by_minutes: by_seconds / 60,
            })
            .collect(),
        long: interval.desired == Desired::Asleep && interval.to.since(interval.from) > LONG_SLEEP,
        interval,
    }
}
