//! Lengths of time and moments as people write them, whatever the kind.

use mainstay_core::time::Time;
use std::time::Duration;

/// Reads `5s`, `250ms`, `1m30s`.
pub fn duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let number: u64 = number.parse().ok()?;
        let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
        let (unit, millis) = units.into_iter().find(|(unit, _)| {
            tail.strip_prefix(unit)
                .is_some_and(|after| after.is_empty() || after.starts_with(|c: char| c.is_ascii_digit()))
        })?;
        total = total.checked_add(Duration::from_millis(number.checked_mul(millis)?))?;
        rest = tail.strip_prefix(unit)?;
    }
    Some(total)
}

/// Reads an RFC 3339 time as milliseconds of the wall clock.
pub fn moment(text: &str) -> Option<Time> {
    let at: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(at.as_millisecond()).ok().map(Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_anything_else_is_refused() {
        let cases = [
            ("5s", 5_000),
            ("250ms", 250),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
        ];
        for (text, millis) in cases {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "5", "s", "5 s", "-5s", "1.5s", "5d", "99999999999999999999s"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_moment_is_read_with_its_zone_and_anything_else_is_refused() {
        assert_eq!(moment("1970-01-01T01:00:02+01:00"), Some(Time(2_000)));
        for bad in ["", "tomorrow", "2026-11-16", "1969-01-01T00:00:00Z"] {
            assert_eq!(moment(bad), None, "{bad}");
        }
    }
}
