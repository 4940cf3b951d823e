//! Times and places. All are plain numbers: what they mean is in their names.

use std::borrow::Cow;

/// A day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// Days since 1970-01-01.
    pub days: i64,
}

/// A time of day with an offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Nanoseconds since midnight, local.
    pub nanoseconds: i64,
    /// How far local time is ahead of UTC.
    pub offset_seconds: i64,
}

/// A time of day, nowhere in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// Nanoseconds since midnight.
    pub nanoseconds: i64,
}

/// A moment with an offset from UTC (Bolt 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    /// Seconds since the epoch, UTC.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanoseconds: i64,
    /// How far local time is ahead of UTC.
    pub offset_seconds: i64,
}

/// A moment with an offset from UTC, counted in local time (before Bolt 5).
///
/// Its own type, because the same three numbers mean another moment than in
/// [`DateTime`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyDateTime {
    /// Seconds since the epoch, as if local time were UTC.
    pub local_seconds: i64,
    /// And nanoseconds.
    pub nanoseconds: i64,
    /// How far local time is ahead of UTC.
    pub offset_seconds: i64,
}

impl LegacyDateTime {
    /// The same moment, counted in UTC; none if it is beyond what can be counted.
    pub const fn to_utc(self) -> Option<DateTime> {
        let Self {
            local_seconds,
            nanoseconds,
            offset_seconds,
        } = self;
        match local_seconds.checked_sub(offset_seconds) {
            Some(seconds) => Some(DateTime {
                seconds,
                nanoseconds,
                offset_seconds,
            }),
            None => None,
        }
    }
}

/// A moment in a named time zone (Bolt 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateTimeZoneId<'a> {
    /// Seconds since the epoch, UTC.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanoseconds: i64,
    /// The name of the zone.
    pub zone: Cow<'a, str>,
}

/// A moment in a named time zone, counted in local time (before Bolt 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyDateTimeZoneId<'a> {
    /// Seconds since the epoch, as if local time were UTC.
    pub local_seconds: i64,
    /// And nanoseconds.
    pub nanoseconds: i64,
    /// The name of the zone.
    pub zone: Cow<'a, str>,
}

/// A day and a time of day, nowhere in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalDateTime {
    /// Seconds since the epoch, as if it were UTC.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanoseconds: i64,
}

/// A length of time. The parts are not convertible into each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duration {
    /// Months.
    pub months: i64,
    /// And days.
    pub days: i64,
    /// And seconds.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanoseconds: i64,
}

/// A place in a plane or on a sphere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point2D {
    /// Which coordinate system.
    pub srid: i64,
    /// First coordinate.
    pub x: f64,
    /// Second coordinate.
    pub y: f64,
}

/// A place in space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point3D {
    /// Which coordinate system.
    pub srid: i64,
    /// First coordinate.
    pub x: f64,
    /// Second coordinate.
    pub y: f64,
    /// Third coordinate.
    pub z: f64,
}
