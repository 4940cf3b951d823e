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
            if berth.is_over() {
                // It ends with its epoch, which may let what runs there come to its end.
                return false;
            }
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
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: [Ordinal; 3] = [Ordinal(2), Ordinal(3), Ordinal(4)];

    fn seat(berths: &mut Berths, epoch: &Arc<Epoch>, now: Instant) -> Seat {
        berths.replica(epoch, &PODS, now).unwrap()
    }

    #[test]
    fn the_replica_with_the_fewest_sessions_is_next_and_one_that_failed_is_the_last() {
        let (epoch, now) = (Epoch::sample(), Instant::now());
        let mut berths = Berths::default();
        let mut seats: Vec<Seat> = (0..6).map(|_| seat(&mut berths, &epoch, now)).collect();
        let pods: Vec<u8> = seats.iter().map(|seat| seat.pod.0).collect();
        assert_eq!(pods, [2, 3, 4, 2, 3, 4]);
        // Somebody left pod 3.
        seats.remove(1);
        assert_eq!(seat(&mut berths, &epoch, now).pod, Ordinal(3));
        berths.shun(Ordinal(3), now);
        assert_eq!(seat(&mut berths, &epoch, now).pod, Ordinal(2));
        let alone = berths.replica(&epoch, &[Ordinal(3)], now).unwrap();
        assert_eq!(alone.pod, Ordinal(3), "better than nobody");
        drop(alone);
        assert_eq!(seat(&mut berths, &epoch, now + SHUNNED).pod, Ordinal(3));
        assert!(berths.replica(&epoch, &[], now).is_none());
    }

    #[test]
    fn who_may_not_stay_leaves_at_once_and_who_is_with_main_when_its_transaction_is_over() {
        let (epoch, now) = (Epoch::sample(), Instant::now());
        let mut berths = Berths::default();
        let (two, three) = (seat(&mut berths, &epoch, now), seat(&mut berths, &epoch, now));
        berths.tidy(Some(&Readers::Replicas(vec![Ordinal(3)])));
        assert!(two.epoch.is_cut() && !three.epoch.is_draining());
        // The next one there is not with those who had to leave.
        let next = berths.replica(&epoch, &[Ordinal(2)], now).unwrap();
        assert!(!next.epoch.is_draining());
        berths.tidy(None);
        assert!(next.epoch.is_cut() && three.epoch.is_cut());
        let main = berths.main(&epoch, Ordinal(0));
        berths.tidy(Some(&Readers::Main(Ordinal(0))));
        assert!(!main.epoch.is_draining());
        berths.tidy(Some(&Readers::Replicas(vec![Ordinal(2)])));
        assert!(main.epoch.is_draining() && !main.epoch.is_cut());
        assert!(!epoch.is_draining(), "it goes on");
    }

    /// MAIN is not asked any more while the reads of its term come to their end: that is no reason to end them at once.
    #[test]
    fn who_sits_in_an_epoch_that_drains_is_left_to_it() {
        let (epoch, now) = (Epoch::sample(), Instant::now());
        let mut berths = Berths::default();
        let two = seat(&mut berths, &epoch, now);
        epoch.fade();
        berths.tidy(None);
        assert!(two.epoch.is_draining() && !two.epoch.is_cut());
        epoch.fall();
        assert!(two.epoch.is_cut());
    }

    #[test]
    fn a_berth_of_an_epoch_that_is_over_is_made_anew() {
        let (old, new, now) = (Epoch::sample(), Epoch::sample(), Instant::now());
        let mut berths = Berths::default();
        let before = seat(&mut berths, &old, now);
        old.fall();
        assert!(before.epoch.is_cut());
        let after = seat(&mut berths, &new, now);
        assert_eq!((after.pod, after.epoch.is_draining()), (before.pod, false));
    }
}
