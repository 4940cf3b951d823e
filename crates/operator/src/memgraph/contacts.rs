//! What survives from turn to turn: who failed to answer how often, and since when a status has been so.

use crate::bolt::{ConnectError, Connection};
use mainstay_core::memgraph::ids::{Ordinal, ProcessId, RegistrationName};
use mainstay_core::memgraph::observed::{Contact, Refusal, Status};
use mainstay_core::time::Time;
use std::collections::BTreeMap;

/// How a pod failed to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Miss {
    /// A new connection was refused.
    Refused,
    /// No answer in time.
    Silent,
    /// It is there, and what it says is of no use: a login that failed, or a process nobody knows yet.
    Useless,
}

impl From<&ConnectError> for Miss {
    fn from(error: &ConnectError) -> Self {
        match error {
            ConnectError::Refused => Self::Refused,
            // A network that says "no route" is as silent as one that says nothing: it is no word of the host.
            ConnectError::Silent | ConnectError::Unreachable(_) => Self::Silent,
            ConnectError::Login(_) => Self::Useless,
        }
    }
}

/// What is remembered of one pod.
#[derive(Default)]
pub struct PodMemory {
    /// The connection that probes go over.
    pub connection: Option<Connection>,
    /// How it failed to answer, while it does.
    missed: Option<(Miss, u32, Time)>,
    /// The last refusal of a registration of this pod.
    pub refusal: Option<Refusal>,
}

impl PodMemory {
    /// It answered.
    pub fn answered(&mut self) {
        self.missed = None;
    }

    /// It did not: the contact, counted.
    pub fn missed(&mut self, miss: Miss, at: Time) -> Contact {
        let (times, since) = match self.missed {
            Some((before, times, since)) if before == miss => (times.saturating_add(1), since),
            _ => (1, at),
        };
        self.missed = Some((miss, times, since));
        match miss {
            Miss::Refused => Contact::Refused { times, since },
            Miss::Silent => Contact::Silent { probes: times, since },
            Miss::Useless => Contact::Unknown,
        }
    }

    /// How many probes in a row were not answered.
    pub fn silent(&self) -> u32 {
        match self.missed {
            Some((Miss::Silent, times, _)) => times,
            _ => 0,
        }
    }

    /// Has it just begun not to answer? One that is away for long is not looked at more often for it.
    pub fn is_missing(&self) -> bool {
        self.missed.is_some_and(|(_, times, _)| times <= 20)
    }
}

/// Since when registrations have stood still.
#[derive(Clone, Debug, Default)]
pub struct Statuses(BTreeMap<(ProcessId, RegistrationName), Standing>);

/// What MAIN shows of a replica, and since when. Under load every look may show `replicating`, of another commit each
/// time: only what does not move either stands still.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// What is shown.
    pub shown: Standstill,
    /// Since when.
    pub since: Time,
    /// When its timestamp last grew.
    pub moved: Option<Time>,
}

/// What must stay the same for a replica to stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// Attached or not.
    pub attached: bool,
    /// The status.
    pub status: Status,
    /// How far it is.
    pub ts: Option<i64>,
}

impl Statuses {
    /// Notes what MAIN shows now; says since when it has been so.
    pub fn note(
        &mut self,
        main: ProcessId,
        name: RegistrationName,
        shown: Standstill,
        now: Time,
    ) -> Standing {
        let fresh = Standing {
            shown,
            since: now,
            moved: None,
        };
        let entry = self.0.entry((main, name)).or_insert(fresh);
        if entry.shown != shown {
            let grew = entry.shown.ts.is_some() && shown.ts > entry.shown.ts;
            let moved = if grew { Some(now) } else { entry.moved };
            *entry = Standing { moved, ..fresh };
        }
        *entry
    }

    /// Forgets what this MAIN does not list any more.
    pub fn keep(&mut self, main: ProcessId, listed: &[RegistrationName]) {
        // What processes of long ago listed is of no use; to begin anew only makes a status look younger.
        if self.0.len() > 256 {
            self.0.clear();
        }
        self.0
            .retain(|(by, name), _| *by != main || listed.contains(name));
    }
}

/// Everything that survives from turn to turn.
#[derive(Default)]
pub struct Contacts {
    /// By pod.
    pub pods: BTreeMap<Ordinal, PodMemory>,
    /// By registration.
    pub statuses: Statuses,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_of_a_kind_are_counted_and_an_answer_ends_them() {
        let mut pod = PodMemory::default();
        assert_eq!(
            pod.missed(Miss::Silent, Time(1)),
            Contact::Silent {
                probes: 1,
                since: Time(1)
            }
        );
        assert_eq!(
            pod.missed(Miss::Silent, Time(2)),
            Contact::Silent {
                probes: 2,
                since: Time(1)
            }
        );
        assert_eq!(
            pod.missed(Miss::Refused, Time(3)),
            Contact::Refused {
                times: 1,
                since: Time(3)
            },
            "another kind begins anew"
        );
        assert_eq!(pod.silent(), 0);
        pod.answered();
        assert_eq!(
            pod.missed(Miss::Refused, Time(4)),
            Contact::Refused {
                times: 1,
                since: Time(4)
            }
        );
        assert_eq!(pod.missed(Miss::Useless, Time(5)), Contact::Unknown);
    }

    #[test]
    fn a_status_is_as_old_as_its_last_change_and_belongs_to_its_main() {
        let mut statuses = Statuses::default();
        let (main, name) = (ProcessId(1), RegistrationName::Async(Ordinal(2)));
        let shown = |status, attached, ts| Standstill {
            attached,
            status,
            ts: Some(ts),
        };
        let mut at = |status, attached, now| {
            statuses
                .note(main, name, shown(status, attached, 7), Time(now))
                .since
        };
        assert_eq!(at(Status::Invalid, true, 1), Time(1));
        assert_eq!(at(Status::Invalid, true, 5), Time(1));
        assert_eq!(at(Status::Ready, true, 6), Time(6));
        assert_eq!(at(Status::Ready, false, 7), Time(7), "detached is another thing");
        statuses.keep(ProcessId(2), &[]);
        let still = shown(Status::Ready, false, 7);
        assert_eq!(statuses.note(main, name, still, Time(8)).since, Time(7));
        statuses.keep(main, &[]);
        assert_eq!(statuses.note(main, name, still, Time(9)).since, Time(9));
        let mut at = |ts, now| {
            let Standing { since, moved, .. } =
                statuses.note(main, name, shown(Status::Ready, false, ts), Time(now));
            (since, moved)
        };
        assert_eq!(at(8, 10), (Time(10), Some(Time(10))), "it moved");
        assert_eq!(at(8, 11), (Time(10), Some(Time(10))), "and stands");
        assert_eq!(at(3, 12), (Time(12), Some(Time(10))), "what goes back is not fed");
    }
}
