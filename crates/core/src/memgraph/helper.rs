//! What the operator asks of the helper in a database pod, and what the helper decides about it. Pure.
//!
//! The helper believes nobody: it writes a marker only if the record asks for it, by the very rule with which the init
//! container reads the marker later (R7). Whoever reaches its port can at most make it look.

use super::ids::{Ordinal, PodUid, ResetId};
use super::marker::{MarkerFile, Meant};
use super::objects::ClusterName;
use super::prepare::{Asked, Marker, Prepare, prepare};
use super::record::State;
use super::rules::Rules;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// The container of the helper.
pub const HELPER: &str = "helper";
/// Where it listens.
pub const HELPER_PORT: u16 = 7689;
/// `POST`: write the marker of this request ([`Meant`]).
pub const MARKER_PATH: &str = "/v1/marker";
/// `GET`: what is on the volume ([`VolumeReport`]).
pub const VOLUME_PATH: &str = "/v1/volume";
/// `POST`: delete what was set aside by these requests ([`Purge`]).
pub const PURGE_PATH: &str = "/v1/purge";
/// `GET`, by the kubelet: answered when the database may end.
pub const PRE_STOP_PATH: &str = "/v1/pre-stop";

/// The pod that a helper runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// Of which cluster.
    pub cluster: ClusterName,
    /// Its number.
    pub ordinal: Ordinal,
    /// Its uid.
    pub uid: PodUid,
}

/// Why a marker is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotMarked {
    /// The pod that was judged is gone: its namesake has another uid.
    #[error("another pod is meant")]
    OtherPod,
    /// Nobody says whether it is wanted.
    #[error("the record cannot be read, so nobody knows whether this reset is wanted")]
    NoAnswer,
    /// The record asks for something else, or the pod holds an office.
    #[error("the record does not ask for it")]
    NotAsked,
}

/// The marker of this request, if the record asks for it.
pub fn mark(me: &Me, meant: Meant, asked: Asked<'_>, at: String) -> Result<MarkerFile, NotMarked> {
    let Meant {
        id,
        term,
        process,
        pod_uid,
    } = meant;
    if pod_uid != me.uid {
        return Err(NotMarked::OtherPod);
    }
    let marker = Marker { id, term };
    match prepare(Some(marker), Some(process), me.ordinal, asked, Rules::ALL) {
        Prepare::Wipe(_) => {}
        Prepare::Wait => return Err(NotMarked::NoAnswer),
        Prepare::Stale | Prepare::Start => return Err(NotMarked::NotAsked),
    }
    let main = match asked {
        Asked::Record(record) => record.main.as_ref().map(|main| me.cluster.pod(main.pod)),
        Asked::NoAnswer | Asked::NoRecord => None,
    };
    Ok(MarkerFile::new(
        &me.cluster.pod(me.ordinal),
        main.as_deref(),
        at,
        meant,
    ))
}

/// How long a database that is told to end waits for its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreStopLimits {
    /// At most.
    pub successor: Duration,
    /// At most, while nobody is there who could succeed it.
    pub nobody: Duration,
}

impl Default for PreStopLimits {
    /// Below the 60 s that a pod has to end, so that the database itself has time to end in peace.
    fn default() -> Self {
        Self {
            successor: Duration::from_secs(40),
            nobody: Duration::from_secs(5),
        }
    }
}

/// What a pod that is told to end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreStop {
    /// Waits: it is MAIN, and its office is to be moved first.
    Wait,
    /// Ends: it holds no office.
    Free,
    /// Ends: nobody took the office in time.
    TooLong,
}

/// May this pod end now? MAIN waits until another one serves: a planned move loses no time and no transaction, a
/// failover does.
pub fn pre_stop(asked: Asked<'_>, me: Ordinal, waited: Duration, limits: PreStopLimits) -> PreStop {
    let PreStopLimits { successor, nobody } = limits;
    let limit = match asked {
        Asked::NoRecord => return PreStop::Free,
        Asked::NoAnswer => successor,
        Asked::Record(record) => {
            let mine = record.main.as_ref().is_some_and(|main| main.pod == me);
            match record.state {
                // All of them end, and the record says who was MAIN.
                State::Hibernated => return PreStop::Free,
                _ if !mine => return PreStop::Free,
                // Deposed: its successor may be waiting for its end (R30).
                State::NoMain if record.candidate.as_ref().is_some_and(|c| c.pod != me) => {
                    return PreStop::Free;
                }
                State::Serving if record.sync.is_none() => nobody,
                _ => successor,
            }
        }
    };
    if waited < limit {
        PreStop::Wait
    } else {
        PreStop::TooLong
    }
}

/// Data that was set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quarantine {
    /// By which request.
    pub id: ResetId,
    /// How large it is.
    pub bytes: u64,
    /// It may hold a write that nobody else has: only a human deletes it (R20). Helpers of the first versions do not say.
    #[serde(default)]
    pub kept: bool,
}

/// What is on a pod's volume, as its helper says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeReport {
    /// Who says it.
    pub pod_uid: PodUid,
    /// Room that is left.
    pub free_bytes: u64,
    /// The size of the data.
    pub data_bytes: u64,
    /// A marker is on it.
    pub marked: bool,
    /// What was set aside, the oldest first.
    pub quarantines: Vec<Quarantine>,
}

/// What is to be deleted for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Purge {
    /// The pod that was looked at.
    pub pod_uid: PodUid,
    /// Which.
    pub ids: Vec<ResetId>,
}

impl VolumeReport {
    /// What is beyond the number to be kept, the oldest first. What is kept whatever the number is does not count.
    pub fn beyond(&self, keep: usize) -> Vec<ResetId> {
        let trimmed = self.quarantines.iter().filter(|q| !q.kept);
        let many = trimmed.clone().count().saturating_sub(keep);
        trimmed.take(many).map(|q| q.id).collect()
    }

    /// Is there room for a clean copy beside the one that is set aside? It will be as large as that of MAIN, or as the
    /// one that is set aside if MAIN's is not known; a tenth is left for what is written meanwhile.
    pub fn has_room(&self, main: Option<&Self>) -> bool {
        let copy = main.map_or(self.data_bytes, |main| main.data_bytes.max(self.data_bytes));
        self.free_bytes >= copy.saturating_add(copy / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memgraph::Record;
    use crate::memgraph::ids::{DatabaseId, Gen, ProcessId, RegistrationName, Term, VolumeId};
    use crate::memgraph::record::{Candidate, Main, Reset, Sync, Writes};
    use crate::time::Time;

    const MEANT: Meant = Meant {
        id: ResetId(9),
        term: Term(4),
        process: ProcessId(7),
        pod_uid: PodUid(5),
    };

    fn me() -> Me {
        Me {
            cluster: "memgraph-ha".parse().unwrap(),
            ordinal: Ordinal(2),
            uid: PodUid(5),
        }
    }

    fn serving() -> Record {
        let candidate = Candidate {
            pod: Ordinal(0),
            process: ProcessId(1),
            volume: VolumeId(1),
            peers: vec![],
            suspect: false,
            forced: None,
            claim: None,
        };
        let main = Main {
            pod: Ordinal(0),
            process: ProcessId(1),
            volume: VolumeId(1),
            database: DatabaseId(1),
            term: Term(4),
            epoch: Term(4),
            peers: vec![],
            suspect: false,
            history_from: Term(0),
            rebuilt: false,
            office_from: Term(1),
            rival: None,
        };
        Record::initialising(Term(4), candidate, Time(1)).serving(main, Writes::Open, Time(1))
    }

    fn resetting() -> Record {
        serving().resetting(Reset {
            pod: Ordinal(2),
            process: ProcessId(7),
            id: ResetId(9),
            term: Term(4),
            since: Time::ZERO,
            keep: false,
        })
    }

    fn protected() -> Record {
        serving().protected(Sync {
            pod: Ordinal(1),
            process: ProcessId(2),
            volume: VolumeId(2),
            name: RegistrationName::Strict(Ordinal(1), Gen(1)),
        })
    }

    #[test]
    fn a_marker_is_written_only_if_the_record_asks_for_this_very_request() {
        let record = resetting();
        let asked = Asked::Record(&record);
        let file = mark(&me(), MEANT, asked, "now".to_owned()).unwrap();
        assert_eq!(
            (file.replica_name.as_str(), file.original_main.as_deref()),
            ("memgraph_ha_2", Some("memgraph-ha-0"))
        );
        let other = [
            Meant {
                id: ResetId(8),
                ..MEANT
            },
            Meant {
                term: Term(3),
                ..MEANT
            },
            Meant {
                process: ProcessId(8),
                ..MEANT
            },
        ];
        for meant in other {
            assert_eq!(
                mark(&me(), meant, asked, String::new()),
                Err(NotMarked::NotAsked),
                "{meant:?}"
            );
        }
        let namesake = Meant {
            pod_uid: PodUid(6),
            ..MEANT
        };
        assert_eq!(
            mark(&me(), namesake, asked, String::new()),
            Err(NotMarked::OtherPod)
        );
    }

    #[test]
    fn without_a_record_that_can_be_read_no_marker_is_written() {
        for (asked, why) in [
            (Asked::NoAnswer, NotMarked::NoAnswer),
            (Asked::NoRecord, NotMarked::NotAsked),
            (Asked::Record(&serving()), NotMarked::NotAsked),
        ] {
            assert_eq!(mark(&me(), MEANT, asked, String::new()), Err(why));
        }
    }

    #[test]
    fn main_waits_for_its_successor_and_nobody_else_waits() {
        let limits = PreStopLimits::default();
        let after = |record: &Record, me: u8, waited: u64| {
            pre_stop(
                Asked::Record(record),
                Ordinal(me),
                Duration::from_secs(waited),
                limits,
            )
        };
        assert_eq!(after(&protected(), 0, 0), PreStop::Wait);
        assert_eq!(after(&protected(), 0, 39), PreStop::Wait);
        assert_eq!(after(&protected(), 0, 40), PreStop::TooLong);
        assert_eq!(after(&protected(), 1, 0), PreStop::Free);
        assert_eq!(after(&protected(), 2, 0), PreStop::Free);
        assert_eq!(
            after(&serving(), 0, 5),
            PreStop::TooLong,
            "nobody could succeed it"
        );
        let successor = |pod| Candidate {
            pod: Ordinal(pod),
            process: ProcessId(2),
            volume: VolumeId(2),
            peers: vec![],
            suspect: false,
            forced: None,
            claim: None,
        };
        let moving = protected().switching_over(successor(1), Time(2));
        assert_eq!(after(&moving, 0, 39), PreStop::Wait, "until the other one serves");
        let deposed = protected().new_term(successor(1), true, Time(2));
        assert_eq!(after(&deposed, 0, 0), PreStop::Free);
        let again = protected().new_term(successor(0), true, Time(2));
        assert_eq!(after(&again, 0, 39), PreStop::Wait);
        let asked = |asked, waited| pre_stop(asked, Ordinal(0), Duration::from_secs(waited), limits);
        assert_eq!(asked(Asked::NoRecord, 0), PreStop::Free);
        assert_eq!(asked(Asked::NoAnswer, 39), PreStop::Wait);
        assert_eq!(asked(Asked::NoAnswer, 40), PreStop::TooLong);
    }

    fn report(free_bytes: u64, data_bytes: u64, ids: &[u64]) -> VolumeReport {
        VolumeReport {
            pod_uid: PodUid(5),
            free_bytes,
            data_bytes,
            marked: false,
            quarantines: ids
                .iter()
                .map(|id| Quarantine {
                    id: ResetId(*id),
                    bytes: 1,
                    kept: false,
                })
                .collect(),
        }
    }

    #[test]
    fn the_oldest_go_first_and_never_more_than_is_beyond() {
        let volume = report(0, 0, &[3, 8, 11]);
        assert_eq!(volume.beyond(1), [ResetId(3), ResetId(8)]);
        assert_eq!(volume.beyond(3), []);
        assert_eq!(volume.beyond(0).len(), 3);
        let rebuilt = report(0, 0, &[40, 52, 61, 9]);
        assert_eq!(
            rebuilt.beyond(3),
            [ResetId(40)],
            "numbers begin anew, time does not"
        );
    }

    #[test]
    fn what_may_hold_a_lost_write_is_never_trimmed() {
        let mut volume = report(0, 0, &[3, 8, 11, 12]);
        volume.quarantines[0].kept = true;
        assert_eq!(volume.beyond(1), [ResetId(8), ResetId(11)]);
        assert_eq!(volume.beyond(3), []);
        assert!(!volume.beyond(0).contains(&ResetId(3)));
    }

    #[test]
    fn there_is_room_if_a_second_copy_fits() {
        assert!(report(110, 100, &[]).has_room(None));
        assert!(!report(109, 100, &[]).has_room(None));
        assert!(!report(110, 100, &[]).has_room(Some(&report(0, 101, &[]))));
        assert!(report(110, 100, &[]).has_room(Some(&report(0, 7, &[]))));
        assert!(report(0, 0, &[]).has_room(None), "an empty copy needs nothing");
    }
}
