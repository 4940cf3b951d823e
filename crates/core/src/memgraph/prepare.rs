//! What the init container `data-cleanup` decides: start, wipe, or wait (R7).

use super::ids::{Ordinal, ProcessId, ResetId, Term};
use super::record::Record;
use super::rules::{Rule, Rules};

/// The marker file on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marker {
    /// Which request.
    pub id: ResetId,
    /// In which term it was written.
    pub term: Term,
}

/// What could be learnt of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    /// The API did not answer.
    NoAnswer,
    /// There is no record.
    NoRecord,
    /// This is it.
    Record(&'a Record),
}

/// What the init container does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepare {
    /// Start the database on the data as it is.
    Start,
    /// Set the data aside, then start.
    Wipe(ResetId),
    /// The marker asks for something nobody wants any more: set the marker aside, then start.
    Stale,
    /// Do not start: whether to wipe cannot be known.
    Wait,
}

/// Decides from the marker, the process that ran last on this volume, and the record.
pub fn prepare(
    marker: Option<Marker>,
    last: Option<ProcessId>,
    me: Ordinal,
    asked: Asked<'_>,
    rules: Rules,
) -> Prepare {
    // No marker: never ask. A pod must be able to start without the API.
    let Some(marker) = marker else {
        return Prepare::Start;
    };
    if !rules.on(Rule::R7) {
        return Prepare::Wipe(marker.id);
    }
    let record = match asked {
        Asked::NoAnswer => return Prepare::Wait,
        Asked::NoRecord => return Prepare::Stale,
        Asked::Record(record) => record,
    };
    let holds_office = record.main.as_ref().is_some_and(|m| m.pod == me)
        || record.candidate.as_ref().is_some_and(|c| c.pod == me)
        || record.sync.is_some_and(|s| s.pod == me);
    let wanted = record.reset.is_some_and(|r| {
        r.pod == me
            && r.id == marker.id
            && r.term == marker.term
            && r.term == record.term
            && last == Some(r.process)
    });
    if wanted && !holds_office {
        Prepare::Wipe(marker.id)
    } else {
        Prepare::Stale
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memgraph::ids::VolumeId;
    use crate::memgraph::record::{Candidate, Reset};
    use crate::time::Time;

    const ME: Ordinal = Ordinal(1);
    const MARKER: Marker = Marker {
        id: ResetId(9),
        term: Term(4),
    };
    const LAST: ProcessId = ProcessId(7);

    fn record() -> Record {
        let pod_0 = Candidate {
            pod: Ordinal(0),
            process: ProcessId(1),
            volume: VolumeId(1),
            peers: vec![],
            suspect: false,
            forced: None,
        };
        Record::initialising(Term(4), pod_0, Time::ZERO).resetting(Reset {
            pod: ME,
            process: LAST,
            id: ResetId(9),
            term: Term(4),
            since: Time::ZERO,
        })
    }

    fn ask(record: &Record) -> Prepare {
        prepare(Some(MARKER), Some(LAST), ME, Asked::Record(record), Rules::ALL)
    }

    #[test]
    fn without_a_marker_the_pod_starts_and_asks_nobody() {
        assert_eq!(
            prepare(None, Some(LAST), ME, Asked::NoAnswer, Rules::ALL),
            Prepare::Start
        );
        assert_eq!(
            prepare(None, Some(LAST), ME, Asked::Record(&record()), Rules::ALL),
            Prepare::Start
        );
    }

    #[test]
    fn without_the_api_nothing_is_wiped_and_nothing_started() {
        assert_eq!(
            prepare(Some(MARKER), Some(LAST), ME, Asked::NoAnswer, Rules::ALL),
            Prepare::Wait
        );
    }

    #[test]
    fn only_what_the_record_still_asks_for_is_wiped() {
        assert_eq!(ask(&record()), Prepare::Wipe(ResetId(9)));
        let reset = record().reset.unwrap();
        let bad = [
            Reset {
                pod: Ordinal(2),
                ..reset
            },
            Reset {
                process: ProcessId(8),
                ..reset
            },
            Reset {
                id: ResetId(8),
                ..reset
            },
            Reset {
                term: Term(3),
                ..reset
            },
        ];
        for reset in bad {
            assert_eq!(ask(&record().resetting(reset)), Prepare::Stale, "{reset:?}");
        }
        assert_eq!(ask(&record().reset_done()), Prepare::Stale);
        assert_eq!(
            prepare(Some(MARKER), None, ME, Asked::Record(&record()), Rules::ALL),
            Prepare::Stale
        );
        assert_eq!(
            prepare(Some(MARKER), Some(LAST), ME, Asked::NoRecord, Rules::ALL),
            Prepare::Stale
        );
    }

    #[test]
    fn whoever_holds_or_seeks_office_is_never_wiped() {
        let mut candidate = record();
        candidate.candidate.as_mut().unwrap().pod = ME;
        assert_eq!(ask(&candidate), Prepare::Stale);
    }
}
