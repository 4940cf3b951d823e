//! The layers of a schedule, and the questions asked of it.

use super::exception::LONGEST_LEAD;
use super::set::{Span, Spans};
use super::{Cause, Desired, Exception, Interval, Kind, Override, Schedule, Slot};
use crate::time::Time;
use std::collections::BTreeSet;
use std::time::Duration;

const DAY: Duration = Duration::from_hours(24);

/// How far `at` looks for the edges around a moment, further each time. A week is periodic; only exceptions,
/// holidays and wishes can be further away.
const HORIZONS: [u32; 2] = [8, 40];
/// Nobody looks further.
const FURTHEST: u32 = 400;

/// Edges within this much beyond the asked range are right, too: a lead time needs to see where a sleep began.
const MARGIN: Duration = Duration::from_hours(48);

impl Schedule {
    /// What is desired now, since when, until when, and why.
    pub fn at(&self, now: Time) -> Slot {
        let mut horizons = HORIZONS.into_iter().map(|days| self.within(now, days));
        let known = |slot: &Slot| slot.since.is_some() && slot.until.is_some();
        let first = horizons.find(known);
        first.unwrap_or_else(|| self.within(now, FURTHEST))
    }

    fn within(&self, now: Time, days: u32) -> Slot {
        let (from, to) = (now - DAY * days, now + DAY * days);
        let sleeps = self.sleeps(from, to);
        let inside = |at: Time| (from < at && at < to).then_some(at);
        if let Some(sleep) = sleeps.iter().find(|s| s.has(now)) {
            return Slot {
                desired: Desired::Asleep,
                since: inside(sleep.from),
                until: inside(sleep.to),
                why: self.cause(now, true),
            };
        }
        Slot {
            desired: Desired::Awake,
            since: sleeps
                .iter()
                .rev()
                .map(|s| s.to)
                .find(|to| *to <= now)
                .and_then(inside),
            until: sleeps
                .iter()
                .map(|s| s.from)
                .find(|from| *from > now)
                .and_then(inside),
            why: self.cause(now, false),
        }
    }

    /// Everything in `from..to`, one interval after the other, asleep and awake in turns.
    pub fn intervals(&self, from: Time, to: Time) -> Vec<Interval> {
        let mut edges = vec![from];
        let sleeps = self.sleeps(from, to);
        let inside = sleeps.iter().flat_map(|s| [s.from, s.to]);
        edges.extend(inside.filter(|at| from < *at && *at < to));
        edges.push(to);
        let state = |at: Time| {
            if sleeps.has(at) {
                Desired::Asleep
            } else {
                Desired::Awake
            }
        };
        let why = |at: Time| self.cause(at, sleeps.has(at));
        edges
            .windows(2)
            .filter_map(|pair| match pair {
                [a, b] if a < b => Some(Interval {
                    from: *a,
                    to: *b,
                    desired: state(*a),
                    begins: why(*a),
                    // At the very end nothing was computed: it is asked for on its own.
                    ends: if *b == to { self.at(*b).why } else { why(*b) },
                }),
                _ => None,
            })
            .collect()
    }

    /// What decides throughout an interval, with the moment from which it does: a sleep may begin in a window and go on
    /// because of a holiday.
    pub fn causes(&self, interval: &Interval) -> Vec<(Time, Cause)> {
        let Interval {
            from, to, desired, ..
        } = interval;
        let mut found: Vec<(Time, Cause)> = Vec::new();
        for at in self.edges(*from, *to) {
            let why = self.cause(at, *desired == Desired::Asleep);
            if found.last().is_none_or(|(_, last)| *last != why) {
                found.push((at, why));
            }
        }
        found
    }

    /// Every moment in `from..to` at which something may begin or cease to decide, and `from`.
    fn edges(&self, from: Time, to: Time) -> BTreeSet<Time> {
        let mut spans: Vec<Span> = self
            .windows
            .iter()
            .flat_map(|w| w.spans(&self.zone, from, to))
            .collect();
        spans.extend(self.holidays.iter().map(|h| h.span(&self.zone)));
        spans.extend(self.wish.iter().map(Override::span));
        for exception in &self.exceptions {
            spans.push(exception.valid());
            spans.extend(exception.spans(&self.zone, from, to + LONGEST_LEAD).iter());
        }
        let leads = self.suspends().flat_map(|(exception, lead)| {
            let starts = exception.spans(&self.zone, from, to + LONGEST_LEAD);
            let starts: Vec<Time> = starts.iter().map(|s| s.from - lead).collect();
            starts
        });
        let edges = spans.iter().flat_map(|s| [s.from, s.to]).chain(leads);
        let mut inside: BTreeSet<Time> = edges.filter(|at| from < *at && *at < to).collect();
        inside.insert(from);
        inside
    }

    /// Every sleep that touches `from..to`.
    fn sleeps(&self, from: Time, to: Time) -> Spans {
        let (from, to) = (from - MARGIN, to + MARGIN);
        let wanted = self.wanted(from, to);
        let kept = self.suspended(from, to);
        let left = wanted.without(&kept);
        let left = left.filtered(|sleep| !self.within_lead(*sleep, &wanted, from, to));
        match &self.wish {
            None => left,
            Some(wish) if wish.is_asleep() => left.with(&Spans::of([wish.span()])),
            Some(wish) => left.without(&Spans::of([wish.span()])),
        }
    }

    /// Windows, holidays, replacements and extensions; nothing is suspended yet.
    fn wanted(&self, from: Time, to: Time) -> Spans {
        let own = self.windows.iter().flat_map(|w| w.spans(&self.zone, from, to));
        let days = self.holidays.iter().map(|h| h.span(&self.zone));
        let mut wanted = Spans::of(own.chain(days.filter(|d| d.to > from && d.from < to)));
        let replacing = Spans::of(self.of_kind(&Kind::Replace).map(Exception::valid));
        wanted = wanted.without(&replacing);
        for exception in self.of_kind(&Kind::Replace).chain(self.of_kind(&Kind::Extend)) {
            wanted = wanted.with(&exception.spans(&self.zone, from, to));
        }
        wanted
    }

    fn suspended(&self, from: Time, to: Time) -> Spans {
        let suspends = self.suspends();
        suspends.fold(Spans::default(), |all, (e, _)| {
            all.with(&e.spans(&self.zone, from, to))
        })
    }

    /// A sleep that begins within the lead time of a suspension, and would still go on when that begins, is not
    /// worth beginning. One that began earlier is.
    fn within_lead(&self, sleep: Span, wanted: &Spans, from: Time, to: Time) -> bool {
        wanted.has(sleep.to)
            && self.suspends().any(|(exception, lead)| {
                let starts = exception.spans(&self.zone, from, to);
                starts.iter().any(|s| s.has(sleep.to)) && sleep.from + lead >= sleep.to && !lead.is_zero()
            })
    }

    fn of_kind<'a>(&'a self, kind: &'a Kind) -> impl Iterator<Item = &'a Exception> {
        self.exceptions.iter().filter(move |e| e.kind() == kind)
    }

    fn suspends(&self) -> impl Iterator<Item = (&Exception, Duration)> {
        self.exceptions.iter().filter_map(|e| match e.kind() {
            Kind::Suspend { lead } => Some((e, *lead)),
            Kind::Extend | Kind::Replace => None,
        })
    }

    /// What decided at this moment, given what was decided.
    fn cause(&self, at: Time, asleep: bool) -> Cause {
        if let Some(wish) = self.wish.as_ref().filter(|w| w.span().has(at)) {
            return Cause::Asked {
                asleep: wish.is_asleep(),
                note: wish.note.clone(),
            };
        }
        match self.reason_to_sleep(at) {
            Ok(cause) if asleep => cause,
            Err(cause) => cause,
            Ok(_) => self.reason_to_stay_awake(at),
        }
    }

    /// `Err`: nothing wants sleep.
    fn reason_to_sleep(&self, at: Time) -> Result<Cause, Cause> {
        let next = Time(at.0.saturating_add(1));
        let open = |e: &&Exception| e.spans(&self.zone, at, next).has(at);
        let name = |e: &Exception| e.name().to_owned();
        if let Some(e) = self.of_kind(&Kind::Extend).find(open) {
            return Ok(Cause::Extended { exception: name(e) });
        }
        if let Some(e) = self.of_kind(&Kind::Replace).find(open) {
            return Ok(Cause::Replaced { exception: name(e) });
        }
        if let Some(e) = self.of_kind(&Kind::Replace).find(|e| e.valid().has(at)) {
            return Err(Cause::ReplacedAway { exception: name(e) });
        }
        let covers = |spans: Vec<Span>| spans.iter().any(|s| s.has(at));
        if let Some(window) = self
            .windows
            .iter()
            .find(|w| covers(w.spans(&self.zone, at, next)))
        {
            return Ok(Cause::Window {
                window: window.to_string(),
            });
        }
        if let Some(holiday) = self.holidays.iter().find(|h| h.span(&self.zone).has(at)) {
            return Ok(Cause::Holiday {
                name: holiday.name.clone(),
                date: holiday.date().to_string(),
            });
        }
        Err(Cause::OutsideWindows)
    }

    /// Something wants sleep, and yet it is awake.
    fn reason_to_stay_awake(&self, at: Time) -> Cause {
        let next = Time(at.0.saturating_add(1));
        let name = |e: &Exception| e.name().to_owned();
        if let Some((e, _)) = self
            .suspends()
            .find(|(e, _)| e.spans(&self.zone, at, next).has(at))
        {
            return Cause::KeptAwake { exception: name(e) };
        }
        let soon = self.suspends().find(|(e, lead)| {
            let spans = e.spans(&self.zone, at, at + *lead + Duration::from_millis(1));
            spans.iter().any(|s| at < s.from && s.from <= at + *lead)
        });
        soon.map_or(Cause::OutsideWindows, |(e, _)| Cause::LeadTime {
            exception: name(e),
        })
    }
}
