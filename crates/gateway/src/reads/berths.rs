//! Who sits where, who is next, and who must leave. No I/O.

use crate::control::Epoch;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::read_gate::Readers;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a pod is tried last after it could not be used. MAIN needs about as long to notice that it is gone.
const SHUNNED: Duration = Duration::from_secs(3);

/// One pod that is read from. It ends when its epoch does, or earlier.
#[derive(Debug)]
struct Berth {
    epoch: Arc<Epoch>,
    /// Each session has a clone.
    sessions: Arc<()>,
    is_main: bool,
}

impl Berth {
    fn sessions(&self) -> usize {
        Arc::strong_count(&self.sessions).saturating_sub(1)
    }

    /// Nobody new sits down here.
    fn is_over(&self) -> bool {
        self.epoch.is_draining()
    }
}

/// A session's place with one pod.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) pod: Ordinal,
    /// It is MAIN: what is said there may be committed.
    pub(crate) is_main: bool,
    /// What the session belongs to.
    pub(crate) epoch: Arc<Epoch>,
    _counted: Arc<()>,
}

#[derive(Debug, Default)]
pub(super) struct Berths {
    pods: BTreeMap<Ordinal, Berth>,
    shunned: BTreeMap<Ordinal, Instant>,
}

impl Berths {
    /// A seat with the replica that has the fewest sessions, of those that are in good repute.
    pub(super) fn replica(&mut self, reading: &Arc<Epoch>, pods: &[Ordinal], now: Instant) -> Option<Seat> {
        self.shunned.retain(|_, until| *until > now);
        let load = |pod: &Ordinal| {
            let sessions = self.pods.get(pod).filter(|berth| !berth.is_over());
            (
                self.shunned.contains_key(pod),
                sessions.map_or(0, Berth::sessions),
            )
        };
        let pod = pods.iter().copied().min_by_key(load)?;
        Some(self.seat(reading, pod, false))
    }

    /// A seat with MAIN.
    pub(super) fn main(&mut self, writing: &Arc<Epoch>, pod: Ordinal) -> Seat {
        self.seat(writing, pod, true)
    }

    fn seat(&mut self, epoch: &Arc<Epoch>, pod: Ordinal, is_main: bool) -> Seat {
        let fresh = || Berth {
            epoch: epoch.part(),
            sessions: Arc::new(()),
            is_main,
        };
        let berth = self.pods.entry(pod).or_insert_with(fresh);
        if berth.is_over() || berth.is_main != is_main {
            // Whoever still sits there leaves with the epoch that it belongs to.
            *berth = fresh();
        }
        Seat {
            pod,
            is_main,
            epoch: Arc::clone(&berth.epoch),
            _counted: Arc::clone(&berth.sessions),
        }
    }

    pub(super) fn shun(&mut self, pod: Ordinal, now: Instant) {
        self.shunned.insert(pod, now + SHUNNED);
    }

    /// Whoever sits where nobody may sit any more leaves: at once, but from MAIN when its transaction is over.
    pub(super) fn tidy(&mut self, readers: Option<&Readers>) {
        self.pods.retain(|pod, berth| {
            let stays = match readers {
                Some(Readers::Replicas(pods)) => !berth.is_main && pods.contains(pod),
                Some(Readers::Main(main)) => berth.is_main && main == pod,
                None => false,
            };
            if !stays && berth.is_main {
                berth.epoch.fade();
            } else if !stays {
                berth.epoch.fall();
            }
            stays && !berth.is_over()
        });
    }
}
