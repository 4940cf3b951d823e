//! What people ask for once, as annotations of a plan: a request is not part of the desired state.

use crate::times::moment;
use mainstay_core::hibernation::ids::{LegId, TargetName};
use mainstay_core::hibernation::observed::Wishes;
use mainstay_core::schedule::{Override, rfc3339};
use mainstay_core::time::Time;
use std::collections::BTreeMap;

/// `true`: touch nothing.
pub const SUSPEND: &str = "hibernator.ardikabs.com/suspend";
/// The phase in which it was suspended; ours to write.
pub const SUSPENDED_AT_PHASE: &str = "hibernator.ardikabs.com/suspended-at-phase";
/// `2026-11-16T04:00:00Z`: touch nothing until then.
pub const SUSPEND_UNTIL: &str = "mainstay.dev/suspend-until";
/// Any text that was not there before: try again now what has failed.
pub const RETRY: &str = "mainstay.dev/retry";
/// `db-1=7.3,web=7.3`: give up the restore points that these targets have in leg 3 of cycle 7.
pub const DISCARD: &str = "mainstay.dev/discard";
/// `awake 2026-11-16T23:00:00Z 2026-11-17T02:00:00Z because of a release`, or `asleep …`: in spite of the schedule.
pub const OVERRIDE: &str = "mainstay.dev/override";

/// What the annotations ask for. One that cannot be read asks for nothing, and is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// For the decisions.
    pub wishes: Wishes,
    /// For the schedule.
    pub wanted: Option<Override>,
    /// As it stands there.
    pub suspended_at_phase: Option<String>,
    /// Annotations that mean nothing.
    pub unread: Vec<&'static str>,
}

impl Asked {
    /// Reads the annotations of a plan.
    pub fn read(annotations: &BTreeMap<String, String>) -> Self {
        let mut asked = Self {
            suspended_at_phase: annotations.get(SUSPENDED_AT_PHASE).cloned(),
            ..Self::default()
        };
        match annotations.get(SUSPEND).map(String::as_str) {
            Some("true") => asked.wishes.suspend = true,
            None | Some("false" | "") => {}
            Some(_) => asked.unread.push(SUSPEND),
        }
        if let Some(text) = annotations.get(SUSPEND_UNTIL) {
            asked.wishes.suspend_until = moment(text.trim());
            asked.note(SUSPEND_UNTIL, asked.wishes.suspend_until.is_some());
        }
        asked.wishes.retry = annotations.get(RETRY).filter(|text| !text.is_empty()).cloned();
        if let Some(text) = annotations.get(DISCARD) {
            let read = discard(text);
            asked.note(DISCARD, read.is_some());
            asked.wishes.discard = read.unwrap_or_default();
        }
        if let Some(text) = annotations.get(OVERRIDE) {
            asked.wanted = wanted(text);
            asked.note(OVERRIDE, asked.wanted.is_some());
        }
        asked
    }

    fn note(&mut self, name: &'static str, read: bool) {
        if !read {
            self.unread.push(name);
        }
    }
}

/// The value of [`OVERRIDE`] for a wish.
pub fn override_text(asleep: bool, from: Time, until: Time, note: &str) -> String {
    let word = if asleep { "asleep" } else { "awake" };
    let text = format!("{word} {} {} {note}", rfc3339(from), rfc3339(until));
    text.trim_end().to_owned()
}

fn wanted(text: &str) -> Option<Override> {
    let mut words = text.trim().splitn(4, ' ');
    let word = words.next()?;
    let (from, until) = (moment(words.next()?)?, moment(words.next()?)?);
    let note = words.next().unwrap_or_default();
    match word {
        "asleep" => Override::asleep_until(from, until, note).ok(),
        "awake" => Override::awake_for(from, until.since(from), note).ok(),
        _ => None,
    }
}

fn discard(text: &str) -> Option<BTreeMap<TargetName, LegId>> {
    text.split(',')
        .map(|one| {
            let (target, leg) = one.trim().rsplit_once('=')?;
            Some((TargetName::parse(target).ok()?, LegId::parse(leg)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Asked {
        Asked::read(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn wishes_are_read_and_what_cannot_be_read_is_named() {
        assert!(read(SUSPEND, "true").wishes.suspend);
        assert!(!read(SUSPEND, "false").wishes.suspend);
        let until = read(SUSPEND_UNTIL, "1970-01-01T00:00:02Z").wishes.suspend_until;
        assert_eq!(until, Some(Time(2_000)));
        assert_eq!(read(RETRY, "1").wishes.retry.as_deref(), Some("1"));
        let given_up = read(DISCARD, "db-1=7.3, web=7.3").wishes.discard;
        let legs: Vec<String> = given_up.values().map(ToString::to_string).collect();
        assert_eq!(legs, ["7.3", "7.3"]);
        for (name, bad) in [
            (SUSPEND, "yes"),
            (SUSPEND_UNTIL, "tomorrow"),
            (DISCARD, "db-1"),
            (DISCARD, "=7.3"),
            // Without its leg it could mean the point of a later night.
            (DISCARD, "db-1=7"),
            (OVERRIDE, "awake"),
            (OVERRIDE, "asleep 1970-01-01T00:00:02Z 1970-01-01T00:00:02Z"),
            (OVERRIDE, "maybe 1970-01-01T00:00:02Z 1970-01-01T00:00:03Z"),
        ] {
            assert_eq!(read(name, bad).unread, [name], "{bad}");
        }
    }

    #[test]
    fn an_override_is_read_as_it_is_written() {
        for (asleep, note) in [(true, ""), (false, "a release, by Ann")] {
            let text = override_text(asleep, Time(1_000), Time(5_000), note);
            let wish = read(OVERRIDE, &text).wanted.unwrap();
            assert_eq!((wish.is_asleep(), wish.note.as_str()), (asleep, note));
            assert_eq!((wish.span().from, wish.span().to), (Time(1_000), Time(5_000)));
        }
    }
}
