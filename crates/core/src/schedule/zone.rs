//! A time zone by its IANA name, from the database that is compiled in.
//!
//! The zoneinfo of the machine is never read: the same plan must mean the same everywhere, and an image may have none.

use super::error::ScheduleError;
use crate::time::Time;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};
use std::fmt;

/// A zone that exists.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

/// The clocks are put forward or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Time,
    /// By how many seconds the local clock jumps: 3600 in spring, -3600 in autumn.
    pub by_seconds: i32,
}

impl Zone {
    /// Reads an IANA name such as `Europe/Berlin`.
    pub fn parse(name: &str) -> Result<Self, ScheduleError> {
        let rules = TimeZoneDatabase::bundled()
            .get(name)
            .map_err(|_| ScheduleError::UnknownZone(name.to_owned()))?;
        // The database ignores case; the name that people see is the one of the database.
        let name = rules.iana_name().unwrap_or(name).to_owned();
        Ok(Self { name, rules })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a clock on the wall shows.
    pub fn local(&self, at: Time) -> DateTime {
        self.rules.to_datetime(timestamp(at))
    }

    /// The first moment at which a clock on the wall shows `local` or later.
    ///
    /// This one rule is all there is to say about daylight saving time. A time that is skipped in spring is the
    /// moment of the jump: a wake-up at 02:30 happens at 03:00, and not a day later. A time that is shown twice in
    /// autumn is its first showing, so that it happens once. A later local time never is an earlier moment.
    pub fn reached(&self, local: DateTime) -> Time {
        match self.rules.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => moment(offset, local),
            AmbiguousOffset::Fold { before, after: _ } => moment(before, local),
            AmbiguousOffset::Gap { before, after: _ } => {
                let beyond = moment(before, local);
                let next = timestamp(Time(beyond.0.saturating_add(1)));
                let jump = self.rules.preceding(next).next();
                jump.map_or(beyond, |t| time(t.timestamp()))
            }
        }
    }

    /// Midnight at the beginning of a day, or the first moment of it that exists.
    pub fn begins(&self, day: Date) -> Time {
        self.reached(day.to_datetime(jiff::civil::Time::midnight()))
    }

    /// Every change of the clocks in `from..to`.
    pub fn changes(&self, from: Time, to: Time) -> Vec<Change> {
        let before = timestamp(Time(from.0.saturating_sub(1)));
        let all = self.rules.following(before);
        all.take_while(|t| time(t.timestamp()) < to)
            .map(|t| {
                let at = time(t.timestamp());
                let earlier = self.rules.to_offset(timestamp(Time(at.0.saturating_sub(1))));
                Change {
                    at,
                    by_seconds: t.offset().seconds() - earlier.seconds(),
                }
            })
            // A zone may only change its name or what it calls daylight saving.
            .filter(|change| change.by_seconds != 0)
            .collect()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

/// Milliseconds since 1970 as the zone rules want them. What they cannot express is as far away as they can.
pub(super) fn timestamp(at: Time) -> Timestamp {
    i64::try_from(at.0)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .unwrap_or(Timestamp::MAX)
}

/// The same back; before 1970 is 1970.
pub(super) fn time(at: Timestamp) -> Time {
    Time(u64::try_from(at.as_millisecond()).unwrap_or(0))
}

fn moment(offset: Offset, local: DateTime) -> Time {
    offset.to_timestamp(local).map_or_else(
        |_| {
            if local.year() < 1971 {
                Time::ZERO
            } else {
                time(Timestamp::MAX)
            }
        },
        time,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::datetime;

    fn utc(text: &str) -> Time {
        time(text.parse().unwrap())
    }

    #[test]
    fn a_zone_is_known_by_its_name_and_nothing_else_is_a_zone() {
        assert_eq!(Zone::parse("europe/berlin").unwrap().name(), "Europe/Berlin");
        for name in ["", "Europe/Bielefeld", "CET+1", "+02:00", "local"] {
            let error = Zone::parse(name).unwrap_err();
            assert!(error.to_string().contains("Europe/Berlin"), "{error}");
        }
    }

    #[test]
    fn a_skipped_time_is_the_moment_of_the_jump_and_a_repeated_one_its_first_showing() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        for (local, moment) in [
            (datetime(2026, 3, 29, 1, 59, 0, 0), "2026-03-29T00:59:00Z"),
            (datetime(2026, 3, 29, 2, 0, 0, 0), "2026-03-29T01:00:00Z"),
            (datetime(2026, 3, 29, 2, 30, 0, 0), "2026-03-29T01:00:00Z"),
            (datetime(2026, 3, 29, 3, 0, 0, 0), "2026-03-29T01:00:00Z"),
            (datetime(2026, 3, 29, 3, 1, 0, 0), "2026-03-29T01:01:00Z"),
            (datetime(2026, 10, 25, 2, 30, 0, 0), "2026-10-25T00:30:00Z"),
            (datetime(2026, 10, 25, 3, 0, 0, 0), "2026-10-25T02:00:00Z"),
        ] {
            assert_eq!(berlin.reached(local), utc(moment), "{local}");
        }
        // Half an hour at Lord Howe, a whole day at Apia.
        let howe = Zone::parse("Australia/Lord_Howe").unwrap();
        assert_eq!(
            howe.reached(datetime(2026, 10, 4, 2, 10, 0, 0)),
            utc("2026-10-03T15:30:00Z")
        );
        let apia = Zone::parse("Pacific/Apia").unwrap();
        assert_eq!(
            apia.reached(datetime(2011, 12, 30, 12, 0, 0, 0)),
            utc("2011-12-30T10:00:00Z")
        );
    }

    #[test]
    fn changes_of_the_clocks_are_listed_with_their_size() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let year = berlin.changes(utc("2026-01-01T00:00:00Z"), utc("2027-01-01T00:00:00Z"));
        let sizes: Vec<_> = year.iter().map(|c| c.by_seconds).collect();
        assert_eq!(sizes, [3600, -3600]);
        assert_eq!(year[0].at, utc("2026-03-29T01:00:00Z"));
        let jakarta = Zone::parse("Asia/Jakarta").unwrap();
        assert_eq!(jakarta.changes(year[0].at, utc("2030-01-01T00:00:00Z")), []);
    }

    #[test]
    fn times_that_no_calendar_has_are_as_far_away_as_possible() {
        let zone = Zone::parse("UTC").unwrap();
        assert_eq!(zone.local(Time(u64::MAX)).year(), 9999);
        assert_eq!(zone.reached(datetime(1969, 1, 1, 0, 0, 0, 0)), Time::ZERO);
    }
}
