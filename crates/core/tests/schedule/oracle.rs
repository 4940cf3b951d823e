//! What a schedule means, minute by minute, without intervals, zones rules or cleverness: a clock on the wall is
//! read every minute, and the latest time it ever showed decides which windows are open.

use jiff::Timestamp;
use jiff::civil::{Date, date};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use mainstay_core::schedule::{Cover, Day, Exception, Holiday, Kind, Override, Schedule, Span, Window, Zone};
use mainstay_core::time::Time;
use std::time::Duration;

pub(crate) const MINUTE: u64 = 60_000;
const DAY: i64 = 24 * 60;

/// A window in local minutes.
#[derive(Clone, Debug)]
pub(crate) struct RawWindow {
    pub(crate) days: Vec<Day>,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) days_later: i64,
}

/// An exception in minutes since 1970.
#[derive(Clone, Debug)]
pub(crate) struct RawException {
    pub(crate) kind: Kind,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) windows: Vec<RawWindow>,
}

/// A schedule as plain numbers.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) zone: &'static str,
    pub(crate) windows: Vec<RawWindow>,
    /// Days since 1970.
    pub(crate) holidays: Vec<i64>,
    pub(crate) exceptions: Vec<RawException>,
    /// From, to, asleep; in minutes since 1970.
    pub(crate) wish: Option<(u64, u64, bool)>,
}

fn epoch() -> Date {
    date(1970, 1, 1)
}

fn days_of(date: Date) -> i64 {
    i64::from(epoch().until(date).unwrap().get_days())
}

fn clock(minute: i64) -> String {
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

impl RawWindow {
    fn parsed(&self) -> Window {
        let names: Vec<_> = self.days.iter().map(|d| d.name()).collect();
        match self.days.as_slice() {
            [first] if self.days_later > 1 => {
                let last = Day::ALL[(*first as usize + usize::try_from(self.days_later).unwrap()) % 7];
                Window::interval(
                    &format!("{} {}", first.name(), clock(self.start)),
                    &format!("{} {}", last.name(), clock(self.end)),
                )
                .unwrap()
            }
            _ => Window::daily(&clock(self.start), &clock(self.end), &names).unwrap(),
        }
    }

    /// Is it open when the latest time ever shown is `shown`?
    fn open(&self, shown: i64) -> bool {
        let today = shown.div_euclid(DAY);
        (today - 8..=today).any(|day| {
            // 1970 began on a Thursday.
            let weekday = Day::ALL[usize::try_from((day + 3).rem_euclid(7)).unwrap()];
            let begins = day * DAY + self.start;
            let ends = (day + self.days_later) * DAY + self.end;
            self.days.contains(&weekday) && begins <= shown && shown < ends
        })
    }
}

impl Raw {
    pub(crate) fn parsed(&self) -> Schedule {
        let holidays = self.holidays.iter().map(|days| {
            let date = epoch().checked_add(jiff::Span::new().days(*days)).unwrap();
            Holiday::parse(&date.to_string(), "a day off").unwrap()
        });
        let exceptions = self.exceptions.iter().enumerate().map(|(index, raw)| {
            let valid = Span {
                from: Time(raw.from * MINUTE),
                to: Time(raw.to * MINUTE),
            };
            let cover = Cover::of(raw.windows.iter().map(RawWindow::parsed).collect());
            Exception::new(&format!("e{index}"), valid, raw.kind.clone(), cover).unwrap()
        });
        let windows = self.windows.iter().map(RawWindow::parsed).collect();
        let wish = self.wish.map(|(from, to, asleep)| {
            let (from, to) = (Time(from * MINUTE), Time(to * MINUTE));
            if asleep {
                Override::asleep_until(from, to, "test").unwrap()
            } else {
                Override::awake_for(from, to.since(from), "test").unwrap()
            }
        });
        Schedule::new(Zone::parse(self.zone).unwrap(), windows, holidays.collect())
            .unwrap()
            .with_exceptions(exceptions.collect())
            .with_override(wish)
    }

    /// For every minute of `from..to`: asleep?
    pub(crate) fn minutes(&self, from: u64, to: u64) -> Vec<bool> {
        // Far enough before that an hour which is shown twice, and a lead time, are seen whole.
        let margin = 3 * 24 * 60;
        let (first, last) = (from - margin, to + margin);
        let zone = TimeZoneDatabase::bundled().get(self.zone).unwrap();
        let shown = shown(&zone, first, last);
        let at = |index: usize| first + index as u64;
        let valid = |e: &RawException, minute: u64| e.from <= minute && minute < e.to;
        let open = |e: &RawException, index: usize| {
            valid(e, at(index)) && (e.windows.is_empty() || e.windows.iter().any(|w| w.open(shown[index])))
        };
        let any = |index: usize, wanted: fn(&Kind) -> bool| {
            self.exceptions.iter().any(|e| wanted(&e.kind) && open(e, index))
        };
        let wanted: Vec<bool> = (0..shown.len())
            .map(|i| {
                let replaced = self
                    .exceptions
                    .iter()
                    .any(|e| e.kind == Kind::Replace && valid(e, at(i)));
                let own = self.windows.iter().any(|w| w.open(shown[i]))
                    || self.holidays.contains(&shown[i].div_euclid(DAY));
                any(i, |k| *k == Kind::Extend) || any(i, |k| *k == Kind::Replace) || (own && !replaced)
            })
            .collect();
        let kept: Vec<bool> = (0..shown.len())
            .map(|i| any(i, |k| matches!(k, Kind::Suspend { .. })))
            .collect();
        let mut asleep: Vec<bool> = (0..shown.len()).map(|i| wanted[i] && !kept[i]).collect();
        let mut begin = 0;
        while begin < asleep.len() {
            if !asleep[begin] {
                begin += 1;
                continue;
            }
            let end = (begin..asleep.len())
                .find(|i| !asleep[*i])
                .unwrap_or(asleep.len());
            let length = Duration::from_secs(60 * (end - begin) as u64);
            let not_worth_it = end < asleep.len()
                && wanted[end]
                && self.exceptions.iter().any(
                    |e| matches!(&e.kind, Kind::Suspend { lead } if !lead.is_zero() && open(e, end) && length <= *lead),
                );
            if not_worth_it {
                asleep[begin..end].fill(false);
            }
            begin = end;
        }
        if let Some((wish_from, wish_to, state)) = self.wish {
            for (index, minute) in asleep.iter_mut().enumerate() {
                if wish_from <= at(index) && at(index) < wish_to {
                    *minute = state;
                }
            }
        }
        let margin = usize::try_from(margin).unwrap();
        asleep[margin..asleep.len() - margin].to_vec()
    }
}

/// For every minute: the latest local minute that the clock has shown so far.
fn shown(zone: &TimeZone, first: u64, last: u64) -> Vec<i64> {
    let mut latest = i64::MIN;
    let mut all = Vec::new();
    // Two days before, so that the first hour may be a repeated one.
    for minute in first - 2 * 24 * 60..last {
        let moment = Timestamp::from_second(i64::try_from(minute * 60).unwrap()).unwrap();
        let local = zone.to_datetime(moment);
        let now = days_of(local.date()) * DAY + i64::from(local.hour()) * 60 + i64::from(local.minute());
        latest = latest.max(now);
        if minute >= first {
            all.push(latest);
        }
    }
    all
}
