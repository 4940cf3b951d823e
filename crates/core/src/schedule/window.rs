//! When to sleep, week after week.

use super::error::ScheduleError;
use super::set::Span;
use super::zone::Zone;
use crate::time::Time;
use jiff::ToSpan;
use jiff::civil::{Date, Weekday};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "days need no explanation")]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl Day {
    /// Monday first.
    pub const ALL: [Self; 7] = [
        Self::Mon,
        Self::Tue,
        Self::Wed,
        Self::Thu,
        Self::Fri,
        Self::Sat,
        Self::Sun,
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mon => "MON",
            Self::Tue => "TUE",
            Self::Wed => "WED",
            Self::Thu => "THU",
            Self::Fri => "FRI",
            Self::Sat => "SAT",
            Self::Sun => "SUN",
        }
    }

    /// The day of a date.
    pub fn of(date: Date) -> Self {
        match date.weekday() {
            Weekday::Monday => Self::Mon,
            Weekday::Tuesday => Self::Tue,
            Weekday::Wednesday => Self::Wed,
            Weekday::Thursday => Self::Thu,
            Weekday::Friday => Self::Fri,
            Weekday::Saturday => Self::Sat,
            Weekday::Sunday => Self::Sun,
        }
    }

    /// Days from this one to the next `other`; zero for the same.
    fn days_until(self, other: Self) -> u8 {
        (other as u8 + 7 - self as u8) % 7
    }
}

impl FromStr for Day {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|day| day.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| ScheduleError::BadDay(text.to_owned()))
    }
}

/// A minute of a local day, `00:00` to `24:00`. The last one is the midnight that ends the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minute(u16);

impl Minute {
    const END_OF_DAY: u16 = 24 * 60;

    /// The moment of this minute on this date.
    fn on(self, date: Date, zone: &Zone) -> Time {
        if self.0 == Self::END_OF_DAY {
            return zone.begins(date.saturating_add(1.day()));
        }
        let (hour, minute) = (self.0 / 60, self.0 % 60);
        let clock =
            jiff::civil::Time::midnight().saturating_add(i64::from(hour).hours().minutes(i64::from(minute)));
        zone.reached(date.to_datetime(clock))
    }
}

impl FromStr for Minute {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ScheduleError::BadTime(text.to_owned());
        let two = |part: &str| {
            let plain = part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| part.parse::<u16>().ok()).flatten()
        };
        let (hour, minute) = text.split_once(':').ok_or_else(bad)?;
        match (two(hour), two(minute)) {
            (Some(24), Some(0)) => Ok(Self(Self::END_OF_DAY)),
            (Some(hour @ 0..=23), Some(minute @ 0..=59)) => Ok(Self(hour * 60 + minute)),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

/// A stretch of the week to sleep through. Its days name its *start*: `FRI 20:00 to 06:00` ends on Saturday
/// morning, and a window that starts on Monday night can never last a week.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    starts_on: BTreeSet<Day>,
    start: Minute,
    /// How many dates after the one it starts on.
    days_later: u8,
    end: Minute,
}

impl Window {
    /// `start`, `end`, `daysOfWeek`: an end that is not later than the start is on the next day.
    pub fn daily(start: &str, end: &str, days: &[&str]) -> Result<Self, ScheduleError> {
        let (start, end) = (a_start(start)?, end.parse::<Minute>()?);
        if start == end {
            return Err(ScheduleError::EmptyWindow(start.to_string()));
        }
        let starts_on: BTreeSet<Day> = days.iter().map(|d| d.parse()).collect::<Result<_, _>>()?;
        if starts_on.is_empty() {
            return Err(ScheduleError::NoDays);
        }
        Ok(Self {
            starts_on,
            start,
            days_later: u8::from(end < start),
            end,
        })
    }

    /// `from: FRI 20:00`, `to: MON 06:00`.
    pub fn interval(from: &str, to: &str) -> Result<Self, ScheduleError> {
        let ((first, start), (last, end)) = (moment(from)?, moment(to)?);
        let start = a_start(&start.to_string())?;
        let days = first.days_until(last);
        if days == 0 && start == end {
            return Err(ScheduleError::EmptyWindow(from.to_owned()));
        }
        Ok(Self {
            starts_on: [first].into(),
            start,
            days_later: if days == 0 && end < start { 7 } else { days },
            end,
        })
    }

    /// Every stretch that touches `from..to`, whole.
    pub(super) fn spans(&self, zone: &Zone, from: Time, to: Time) -> Vec<Span> {
        // A window lasts seven days at most; a day for the zone, and one for clocks that skip one.
        let mut date = zone.local(from).date().saturating_sub(9.days());
        let last = zone.local(to).date().saturating_add(1.day());
        let mut spans = Vec::new();
        while date <= last {
            if self.starts_on.contains(&Day::of(date)) {
                let begins = self.start.on(date, zone);
                let ends = self
                    .end
                    .on(date.saturating_add(i64::from(self.days_later).days()), zone);
                if begins < ends && ends > from && begins < to {
                    spans.push(Span {
                        from: begins,
                        to: ends,
                    });
                }
            }
            let Ok(next) = date.tomorrow() else { break };
            date = next;
        }
        spans
    }
}

/// A window cannot start at 24:00: that is the next day, and its name would be wrong.
fn a_start(text: &str) -> Result<Minute, ScheduleError> {
    let minute: Minute = text.parse()?;
    if minute.0 == Minute::END_OF_DAY {
        return Err(ScheduleError::BadTime(text.to_owned()));
    }
    Ok(minute)
}

fn moment(text: &str) -> Result<(Day, Minute), ScheduleError> {
    let (day, minute) = text
        .trim()
        .split_once(' ')
        .ok_or_else(|| ScheduleError::BadMoment(text.to_owned()))?;
    Ok((day.parse()?, minute.trim().parse()?))
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.starts_on.iter().map(|d| d.name()).collect();
        write!(f, "{} {} to ", names.join(","), self.start)?;
        if let (true, [first]) = (
            self.days_later > 0,
            self.starts_on.iter().collect::<Vec<_>>().as_slice(),
        ) {
            let index = (usize::from(**first as u8) + usize::from(self.days_later)) % 7;
            let last = Day::ALL.get(index).map_or("", |d| d.name());
            write!(f, "{last} ")?;
        }
        write!(f, "{}", self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_window_is_refused_with_what_to_write() {
        let daily = |s, e, d: &[&str]| Window::daily(s, e, d).unwrap_err().to_string();
        assert!(daily("20:00", "20:00", &["MON"]).contains("`00:00` to `24:00`"));
        assert!(daily("8:00", "20:00", &["MON"]).contains("`HH:MM`"));
        assert!(daily("24:00", "06:00", &["MON"]).contains("`24:00` is not"));
        assert!(daily("20:00", "24:01", &["MON"]).contains("`24:01`"));
        assert!(daily("+1:00", "20:00", &["MON"]).contains("`+1:00`"));
        assert!(daily("20:00", "06:00", &["MONDAY"]).contains("MON, TUE"));
        assert!(daily("20:00", "06:00", &[]).contains("at least one day"));
        let interval = |from, to| Window::interval(from, to).unwrap_err().to_string();
        assert!(interval("FRI", "MON 06:00").contains("`FRI 20:00`"));
        assert!(interval("FRI 20:00", "FRI 20:00").contains("empty"));
        assert!(interval("FRI 24:00", "MON 06:00").contains("`24:00`"));
    }

    #[test]
    fn a_window_says_itself() {
        let shown = |w: Result<Window, _>| w.unwrap().to_string();
        assert_eq!(
            shown(Window::daily("20:00", "06:00", &["MON", "fri"])),
            "MON,FRI 20:00 to 06:00"
        );
        assert_eq!(
            shown(Window::daily("20:00", "06:00", &["SUN"])),
            "SUN 20:00 to MON 06:00"
        );
        assert_eq!(
            shown(Window::interval("FRI 20:00", "MON 06:00")),
            "FRI 20:00 to MON 06:00"
        );
        assert_eq!(
            shown(Window::daily("00:00", "24:00", &["SAT"])),
            "SAT 00:00 to 24:00"
        );
    }

    #[test]
    fn an_interval_lasts_to_the_next_such_day_and_a_week_at_most() {
        let zone = Zone::parse("UTC").unwrap();
        let hours = |from, to| {
            let window = Window::interval(from, to).unwrap();
            let spans = window.spans(&zone, Time(1_800_000_000_000), Time(1_800_600_000_000));
            spans
                .iter()
                .map(|s| s.to.since(s.from).as_secs() / 3600)
                .max()
                .unwrap()
        };
        assert_eq!(hours("FRI 20:00", "MON 06:00"), 58);
        assert_eq!(hours("MON 06:00", "MON 07:00"), 1);
        assert_eq!(hours("MON 07:00", "MON 06:00"), 167);
        assert_eq!(hours("SAT 00:00", "SUN 24:00"), 48);
    }
}
