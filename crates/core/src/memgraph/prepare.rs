//! What the init container `data-cleanup` decides: start, wipe, or wait (R7).
//!
//! [`prepare`] is the rule; [`next`] applies it to what is really on a volume, where an earlier run may have been cut
//! off anywhere.

use super::ids::{Ordinal, PodUid, ProcessId, ResetId, Term};
use super::marker::MarkerFile;
use super::record::Record;
use super::rules::{Rule, Rules};
use std::fmt;

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

/// A request that was carried out. Numbers begin anew when a record was lost, and terms do not (R19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which.
    pub id: ResetId,
    /// In which term it was decided. Not noted by the first versions.
    pub term: Option<Term>,
}

impl Done {
    /// Reads what is noted on a volume: `9 4`, or `9`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace().map(str::parse);
        let id = ResetId(words.next()?.ok()?);
        let term = words.next().transpose().ok()?.map(Term);
        Some(Self { id, term })
    }

    /// Was it this one?
    fn was(self, marker: Marker) -> bool {
        self.id == marker.id && self.term.is_none_or(|term| term == marker.term)
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id.0)?;
        self.term.map_or(Ok(()), |Term(term)| write!(f, " {term}"))
    }
}

/// What is on a volume before its database starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// The text of the marker file.
    pub marker: Option<String>,
    /// The pod that was last prepared on this volume, so that ran on it last.
    pub last_pod: Option<PodUid>,
    /// The last request that was carried out.
    pub done: Option<Done>,
    /// There is data.
    pub data: bool,
    /// Data was set aside for these requests, the oldest first.
    pub set_aside: Vec<ResetId>,
}

/// What the init container does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// No hard reset was requested: start.
    Start,
    /// Read the record, then decide again.
    Ask,
    /// Set the data aside, then finish.
    SetAside {
        /// Under this id.
        id: ResetId,
        /// It is never trimmed (R20).
        keep: bool,
    },
    /// The data was set aside: note that this request was carried out, and remove the marker.
    Finish(Marker),
    /// Keep the data, and set the marker aside.
    Stale(Stale),
    /// Neither wipe nor start: read the record again in a while.
    Wait,
}

/// Why a marker has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// It cannot be read, or was not written by this operator.
    Unreadable,
    /// Data was set aside under this number before, and there is data again: somebody put it back, or the number was used
    /// by a record that was lost.
    PutBack,
    /// There is no record that could ask for it.
    NoRecord,
    /// The pod that ran here last is not the one that the marker is meant for.
    OtherPod,
    /// The record does not ask for this request, of this pod, in this term.
    NotAsked,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "it cannot be read, so it asks for nothing",
            Self::PutBack => "data was set aside under its number before, and there is data again",
            Self::NoRecord => "there is no record that asks for it",
            Self::OtherPod => "another pod than the one that was judged ran on this volume since",
            Self::NotAsked => "the record does not ask for it (any more)",
        })
    }
}

/// Decides from what is on the volume and, if it was asked, from the record.
///
/// An order that survives being cut off anywhere: the data is moved at once or not at all, then the request is noted
/// as done, and only then the marker goes. Data that was moved for this request is never moved again, so a request
/// wipes once at most, however often its marker is written. What is left of a request that moved its data needs no
/// record: it was asked then.
pub fn next(volume: &Volume, me: Ordinal, asked: Option<Asked<'_>>) -> Next {
    let Volume {
        marker,
        last_pod,
        done,
        data,
        set_aside,
    } = volume;
    let Some(text) = marker else {
        return Next::Start;
    };
    let Some(file) = MarkerFile::parse(text) else {
        return Next::Stale(Stale::Unreadable);
    };
    if done.is_some_and(|done| done.was(file.marker())) {
        return Next::Finish(file.marker());
    }
    if set_aside.contains(&file.id) {
        return if *data {
            Next::Stale(Stale::PutBack)
        } else {
            Next::Finish(file.marker())
        };
    }
    let Some(asked) = asked else {
        return Next::Ask;
    };
    match prepare(
        Some(file.marker()),
        last_process(&file, *last_pod),
        me,
        asked,
        Rules::ALL,
    ) {
        Prepare::Start => Next::Start,
        Prepare::Wipe(id) if *data => Next::SetAside {
            id,
            keep: keeps(asked),
        },
        Prepare::Wipe(_) => Next::Finish(file.marker()),
        Prepare::Wait => Next::Wait,
        Prepare::Stale => Next::Stale(match asked {
            Asked::NoRecord => Stale::NoRecord,
            _ if *last_pod != Some(file.pod_uid) => Stale::OtherPod,
            _ => Stale::NotAsked,
        }),
    }
}

/// Is what the record asks to set aside to be kept?
fn keeps(asked: Asked<'_>) -> bool {
    match asked {
        Asked::Record(record) => record.reset.is_some_and(|reset| reset.keep),
        Asked::NoAnswer | Asked::NoRecord => false,
    }
}

/// The process that ran last on the volume. Nothing on a volume names a process; but each pod notes its uid before its
/// database starts, so that a marker which reached a later pod (a paused operator wrote it) is seen. A container that
/// restarted inside the pod is not; the operator looks for it when it writes the marker.
fn last_process(file: &MarkerFile, last_pod: Option<PodUid>) -> Option<ProcessId> {
    (last_pod == Some(file.pod_uid)).then_some(file.process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memgraph::ids::VolumeId;
    use crate::memgraph::marker::Meant;
    use crate::memgraph::record::{Candidate, Reset};
    use crate::time::Time;

    const ME: Ordinal = Ordinal(1);
    const MARKER: Marker = Marker {
        id: ResetId(9),
        term: Term(4),
    };
    const LAST: ProcessId = ProcessId(7);
    const WIPE: Next = Next::SetAside {
        id: ResetId(9),
        keep: false,
    };

    fn record() -> Record {
        let pod_0 = Candidate {
            pod: Ordinal(0),
            process: ProcessId(1),
            volume: VolumeId(1),
            peers: vec![],
            suspect: false,
            forced: None,
            claim: None,
        };
        Record::initialising(Term(4), pod_0, Time::ZERO).resetting(Reset {
            pod: ME,
            process: LAST,
            id: ResetId(9),
            term: Term(4),
            since: Time::ZERO,
            keep: false,
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

    fn volume() -> Volume {
        let meant = Meant {
            id: MARKER.id,
            term: MARKER.term,
            process: LAST,
            pod_uid: PodUid(5),
        };
        let file = MarkerFile::new("db-1", Some("db-0"), String::new(), meant);
        Volume {
            marker: Some(file.render().unwrap()),
            last_pod: Some(PodUid(5)),
            done: None,
            data: true,
            set_aside: vec![ResetId(3)],
        }
    }

    fn told(volume: &Volume) -> Next {
        next(volume, ME, Some(Asked::Record(&record())))
    }

    #[test]
    fn a_volume_without_a_marker_needs_nobody() {
        let volume = Volume {
            marker: None,
            ..volume()
        };
        assert_eq!(next(&volume, ME, None), Next::Start);
    }

    #[test]
    fn a_request_that_the_record_has_is_carried_out_and_nothing_without_the_record() {
        assert_eq!(next(&volume(), ME, None), Next::Ask);
        assert_eq!(told(&volume()), WIPE);
        assert_eq!(next(&volume(), ME, Some(Asked::NoAnswer)), Next::Wait);
        let no_record = next(&volume(), ME, Some(Asked::NoRecord));
        assert_eq!(no_record, Next::Stale(Stale::NoRecord));
    }

    #[test]
    fn a_marker_that_reached_another_pod_or_was_overtaken_keeps_the_data() {
        let other = Volume {
            last_pod: Some(PodUid(6)),
            ..volume()
        };
        assert_eq!(told(&other), Next::Stale(Stale::OtherPod));
        let unknown = Volume {
            last_pod: None,
            ..volume()
        };
        assert_eq!(told(&unknown), Next::Stale(Stale::OtherPod));
        let over = record().reset_done();
        let overtaken = next(&volume(), ME, Some(Asked::Record(&over)));
        assert_eq!(overtaken, Next::Stale(Stale::NotAsked));
        let elsewhere = next(&volume(), Ordinal(2), Some(Asked::Record(&record())));
        assert_eq!(elsewhere, Next::Stale(Stale::NotAsked));
    }

    #[test]
    fn a_marker_that_cannot_be_read_asks_for_nothing() {
        for text in ["", "{", r#"{"reason":"diverged_data","error_code":3}"#] {
            let volume = Volume {
                marker: Some(text.to_owned()),
                ..volume()
            };
            assert_eq!(told(&volume), Next::Stale(Stale::Unreadable), "{text}");
        }
    }

    #[test]
    fn a_request_moves_data_once_and_ends_what_it_began_without_asking() {
        let done = Volume {
            done: Done::parse("9 4"),
            ..volume()
        };
        assert_eq!(next(&done, ME, None), Next::Finish(MARKER), "the marker again");
        let moved = Volume {
            data: false,
            set_aside: vec![ResetId(9)],
            ..volume()
        };
        assert_eq!(next(&moved, ME, None), Next::Finish(MARKER), "cut off");
        let back = Volume { data: true, ..moved };
        assert_eq!(told(&back), Next::Stale(Stale::PutBack));
        let empty = Volume {
            data: false,
            ..volume()
        };
        assert_eq!(told(&empty), Next::Finish(MARKER), "nothing to set aside");
    }

    #[test]
    fn a_number_that_was_used_in_another_term_is_another_request() {
        let noted = |text| Volume {
            done: Done::parse(text),
            ..volume()
        };
        assert_eq!(told(&noted("9 3")), WIPE, "of a record that was lost");
        assert_eq!(
            told(&noted("9")),
            Next::Finish(MARKER),
            "noted by an older version"
        );
        assert_eq!(told(&noted("nine")), WIPE);
        for text in ["9", "9 3"] {
            assert_eq!(
                Done::parse(text).map(|done| done.to_string()).as_deref(),
                Some(text)
            );
        }
    }

    #[test]
    fn the_record_says_whether_what_is_set_aside_is_kept() {
        let mut record = record();
        record.reset.as_mut().unwrap().keep = true;
        let kept = Next::SetAside {
            id: ResetId(9),
            keep: true,
        };
        assert_eq!(next(&volume(), ME, Some(Asked::Record(&record))), kept);
    }
}
