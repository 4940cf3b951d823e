//! Which data that was set aside is deleted. Pure.
//!
//! It may be the last copy of something: it goes when a human says so, or when there are more than are to be kept and
//! the clean replica that took its place is `ready`. What may hold a write that nobody else has goes only when a human
//! says so (R20).

use super::helper::{Purge, VolumeReport};
use super::ids::{Ordinal, ResetId};
use super::observed::{Observed, Status};
use super::record::{Record, State};
use super::view::View;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is noted on a volume beside data that is set aside.
///
/// The order in which it was done is not that of the numbers: they begin anew when a record was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Note {
    /// When, by a clock that never goes back on this volume.
    pub at: Time,
    /// Only a human deletes it (R20).
    pub keep: bool,
}

impl Note {
    /// After all of these, whatever the clock of this machine says: a volume moves from one to the next.
    pub fn after(before: impl IntoIterator<Item = Self>, now: Time, keep: bool) -> Self {
        let last = before.into_iter().map(|note| note.at).max();
        let at = last.map_or(now, |Time(last)| now.max(Time(last.saturating_add(1))));
        Self { at, keep }
    }
}

/// What a human wants to be deleted, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// This one goes.
    pub purge: Option<(Ordinal, ResetId)>,
    /// So many stay on each volume.
    pub copies: usize,
}

/// What is deleted next, on which volume.
pub fn next(
    record: Option<&Record>,
    seen: &Observed,
    volumes: &BTreeMap<Ordinal, VolumeReport>,
    keep: Keep,
) -> Option<(Ordinal, Purge)> {
    let record = record.filter(|r| r.state == State::Serving && r.reset.is_none())?;
    let Keep { purge, copies } = keep;
    volumes.iter().find_map(|(pod, report)| {
        let asked = purge.filter(|(on, id)| on == pod && report.quarantines.iter().any(|q| q.id == *id));
        let ids = match asked {
            Some((_, id)) => vec![id],
            None if is_ready(record, seen, *pod) => report.beyond(copies),
            None => vec![],
        };
        let purge = Purge {
            pod_uid: report.pod_uid,
            ids,
        };
        (!purge.ids.is_empty()).then_some((*pod, purge))
    })
}

/// MAIN has this copy attached and level: what it replaced is not needed for it any more. MAIN itself has nobody to
/// vouch for it.
fn is_ready(record: &Record, seen: &Observed, pod: Ordinal) -> bool {
    let main = record.main.as_ref().and_then(|main| seen.answer(main.pod));
    main.is_some_and(|answer| {
        View::registrations_of(answer, pod).any(|r| r.attached && r.status == Status::Ready)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_aside_later_is_noted_as_later() {
        let at = |at| Note {
            at: Time(at),
            keep: false,
        };
        assert_eq!(Note::after([], Time(5), false), at(5));
        assert_eq!(Note::after([at(3), at(4)], Time(5), false), at(5));
        assert_eq!(
            Note::after([at(9), at(4)], Time(5), false),
            at(10),
            "a clock that is late"
        );
    }
}
