//! What the answers of one turn say of what the record claims. Pure.

use crate::memgraph::report::Told;
use api::memgraph::Condition;
use mainstay_core::memgraph::ids::{Ordinal, ProcessId};
use mainstay_core::memgraph::observed::{Contact, Observed, Role, Status};
use mainstay_core::memgraph::record::{Main, Record, State, Sync};
use mainstay_core::memgraph::{counts_as_protected, pair_fsyncs};

/// What the evidence of a turn says of something that the record claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// An answer supports it.
    Yes,
    /// It is not so.
    No,
    /// A look was missed, and not often enough to mean something (R21): what was said before stands.
    NotNow,
    /// Nobody is there to say it.
    Nothing,
}

impl Said {
    /// With what was said before, where this look said nothing new.
    pub(super) fn or(self, before: Option<&Condition>) -> Self {
        match (self, before.map(|condition| condition.status.as_str())) {
            (Self::NotNow, Some("True")) => Self::Yes,
            (Self::NotNow, Some("False")) => Self::No,
            (Self::NotNow, _) => Self::Nothing,
            (said, _) => said,
        }
    }

    pub(super) const fn status(self) -> &'static str {
        match self {
            Self::Yes => "True",
            Self::No => "False",
            Self::NotNow | Self::Nothing => "Unknown",
        }
    }

    pub(super) const fn is(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

/// Does this very process answer as this? Counted as for a failover: one look that it missed is no sign of its death.
pub(super) fn answers_as(seen: &Observed, pod: Ordinal, process: ProcessId, role: Role) -> Said {
    if seen.is_gone(pod, process) {
        return Said::No;
    }
    match seen.pod(pod).map(|pod| &pod.contact) {
        Some(Contact::Answered(answer)) => Said::is(answer.role == role),
        Some(Contact::Refused { times: 0..=1, .. }) => Said::NotNow,
        Some(Contact::Silent { probes, .. }) if *probes < seen.spec.silent_probes => Said::NotNow,
        _ => Said::Nothing,
    }
}

/// What MAIN says of the replica that protects it, for the time in which nobody reaches the replica itself.
fn main_says(seen: &Observed, main: &Main, sync: &Sync) -> Said {
    let says = answers_as(seen, main.pod, main.process, Role::Main);
    let listed = seen.answer(main.pod).and_then(|answer| answer.replicas.as_ref());
    match (says, listed) {
        (Said::Yes, Some(listed)) => Said::is(listed.iter().any(|row| {
            row.name == sync.name && row.attached && matches!(row.status, Status::Ready | Status::Replicating)
        })),
        (Said::NotNow, _) => Said::NotNow,
        _ => Said::Nothing,
    }
}

/// Is the recorded replica there and the one that was proven?
fn sync_stands(record: &Record, seen: &Observed) -> Said {
    let Some(sync) = &record.sync else {
        return Said::No;
    };
    // Asleep everybody is gone, on purpose, and after a last proof: nothing is written that it would not cover (R24).
    if record.state == State::Hibernated {
        return Said::Yes;
    }
    match (
        answers_as(seen, sync.pod, sync.process, Role::Replica),
        &record.main,
    ) {
        (Said::Nothing, Some(main)) => main_says(seen, main, sync),
        (said, _) => said,
    }
}

/// Is the process in this pod the one that was proven to protect MAIN?
pub(super) fn protects(told: &Told, pod: Ordinal) -> bool {
    let (Some(document), Some(seen)) = (&told.document, &told.observed) else {
        return false;
    };
    let record = &document.record;
    record.sync.is_some_and(|sync| sync.pod == pod)
        && matches!(sync_stands(record, seen), Said::Yes | Said::NotNow)
}

pub(super) fn protection(told: &Told) -> Said {
    let (Some(document), Some(seen)) = (&told.document, &told.observed) else {
        return Said::No;
    };
    let record = &document.record;
    if counts_as_protected(seen.spec.durability, pair_fsyncs(seen, record), record) {
        sync_stands(record, seen)
    } else {
        Said::No
    }
}

/// Is the cluster protected, and may it be called so?
pub fn is_protected(told: &Told) -> bool {
    matches!(protection(told), Said::Yes | Said::NotNow)
}
