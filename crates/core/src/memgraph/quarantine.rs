//! Which data that was set aside is deleted. Pure.
//!
//! It may be the last copy of something: it goes when a human says so, or when there are more than are to be kept and
//! the clean replica that took its place is `ready`.

use super::helper::{Purge, VolumeReport};
use super::ids::{Ordinal, ResetId};
use super::observed::{Observed, Status};
use super::record::{Record, State};
use super::view::View;
use std::collections::BTreeMap;

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
