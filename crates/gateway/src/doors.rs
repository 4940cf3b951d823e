//! Who may come in: how many connections there are, in all and of one address, and how fast they come. No clock, no
//! sockets.

use crate::config::Limits;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Addresses that are remembered before those are looked for that need not be.
const SWEEP_ABOVE: usize = 4096;

/// Why a connection may not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There are too many in all.
    Full,
    /// There are too many of this address.
    SourceFull,
    /// Too many come at once.
    TooFast,
    /// Too many of this address come at once.
    SourceTooFast,
}

impl Refused {
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Full => "too_many_connections",
            Self::SourceFull => "too_many_of_source",
            Self::TooFast => "too_fast",
            Self::SourceTooFast => "source_too_fast",
        }
    }
}

/// So many in a second, and as many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    /// Millionths of a connection that may come at `at`.
    room: u64,
    at: Duration,
}

const ONE: u64 = 1_000_000;

impl Bucket {
    fn full(rate: u32, at: Duration) -> Self {
        Self {
            room: u64::from(rate) * ONE,
            at,
        }
    }

    fn refill(&mut self, rate: u32, now: Duration) {
        let passed = u64::try_from(now.saturating_sub(self.at).as_micros()).unwrap_or(u64::MAX);
        let most = u64::from(rate) * ONE;
        self.room = passed
            .saturating_mul(u64::from(rate))
            .saturating_add(self.room)
            .min(most);
        self.at = now;
    }

    fn has_room(&self) -> bool {
        self.room >= ONE
    }
}

#[derive(Clone, Copy, Debug)]
struct Source {
    open: usize,
    bucket: Option<Bucket>,
}

/// The door of one gateway.
#[derive(Debug)]
pub(crate) struct Doors {
    limits: Limits,
    open: usize,
    bucket: Option<Bucket>,
    sources: BTreeMap<IpAddr, Source>,
    sweep_above: usize,
}

impl Doors {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: 0,
            bucket: limits
                .new_per_second
                .map(|rate| Bucket::full(rate, Duration::ZERO)),
            sources: BTreeMap::new(),
            sweep_above: SWEEP_ABOVE,
        }
    }

    /// Lets a connection in, or says why not; one that is refused takes nothing from the others.
    pub(crate) fn enter(&mut self, source: IpAddr, now: Duration) -> Result<(), Refused> {
        let Limits {
            connections,
            per_source,
            new_per_second,
            new_per_second_per_source,
            ..
        } = self.limits;
        if self.open >= connections {
            return Err(Refused::Full);
        }
        if self.sources.len() > self.sweep_above {
            self.sweep(now);
        }
        let fresh = Source {
            open: 0,
            bucket: new_per_second_per_source.map(|rate| Bucket::full(rate, now)),
        };
        let known = self.sources.entry(source).or_insert(fresh);
        if let (Some(bucket), Some(rate)) = (&mut known.bucket, new_per_second_per_source) {
            bucket.refill(rate, now);
            if !bucket.has_room() {
                return Err(Refused::SourceTooFast);
            }
        }
        if per_source.is_some_and(|most| known.open >= most) {
            return Err(Refused::SourceFull);
        }
        if let (Some(bucket), Some(rate)) = (&mut self.bucket, new_per_second) {
            bucket.refill(rate, now);
            if !bucket.has_room() {
                return Err(Refused::TooFast);
            }
            bucket.room -= ONE;
        }
        if let Some(bucket) = &mut known.bucket {
            bucket.room -= ONE;
        }
        known.open += 1;
        self.open += 1;
        Ok(())
    }

    /// A connection that was let in is over.
    pub(crate) fn leave(&mut self, source: IpAddr) {
        self.open = self.open.saturating_sub(1);
        if let Some(known) = self.sources.get_mut(&source) {
            known.open = known.open.saturating_sub(1);
            if known.open == 0 && known.bucket.is_none() {
                self.sources.remove(&source);
            }
        }
    }

    /// Forgets addresses that would be treated as new ones anyway.
    fn sweep(&mut self, now: Duration) {
        let rate = self.limits.new_per_second_per_source.unwrap_or_default();
        self.sources.retain(|_, known| {
            let rested = known.bucket.is_none_or(|mut bucket| {
                bucket.refill(rate, now);
                bucket == Bucket::full(rate, now)
            });
            known.open > 0 || !rested
        });
        // Whoever floods from many addresses must not make each connection cost a sweep.
        self.sweep_above = (self.sources.len() * 2).max(SWEEP_ABOVE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn from(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    fn limits() -> Limits {
        Limits {
            connections: 5,
            per_source: Some(2),
            new_per_second: None,
            new_per_second_per_source: None,
            ..Limits::default()
        }
    }

    #[test]
    fn there_are_never_more_than_allowed_and_a_place_that_is_given_back_is_free() {
        let mut doors = Doors::new(limits());
        let now = Duration::ZERO;
        for source in [1, 1, 2, 2] {
            assert_eq!(doors.enter(from(source), now), Ok(()));
        }
        assert_eq!(doors.enter(from(1), now), Err(Refused::SourceFull));
        assert_eq!(doors.enter(from(3), now), Ok(()));
        assert_eq!(doors.enter(from(4), now), Err(Refused::Full));
        doors.leave(from(1));
        assert_eq!(doors.enter(from(4), now), Ok(()));
        assert!(!doors.sources.contains_key(&from(5)));
        for source in [1, 2, 2, 3, 4] {
            doors.leave(from(source));
        }
        assert!(doors.sources.is_empty(), "nobody is remembered for nothing");
    }

    #[test]
    fn so_many_come_in_a_second_and_not_one_more() {
        for (all, each, refused) in [
            (Some(10), None, Refused::TooFast),
            (None, Some(10), Refused::SourceTooFast),
        ] {
            let mut doors = Doors::new(Limits {
                connections: 10_000,
                per_source: None,
                new_per_second: all,
                new_per_second_per_source: each,
                ..Limits::default()
            });
            let mut let_in = 0;
            // A connection each millisecond, for four seconds.
            for millis in 0..4_000 {
                match doors.enter(from(1), Duration::from_millis(millis)) {
                    Ok(()) => let_in += 1,
                    Err(why) => assert_eq!(why, refused),
                }
            }
            assert_eq!(let_in, 10 + 39, "ten at once, then one each tenth of a second");
        }
    }

    #[test]
    fn one_source_that_is_too_fast_takes_nothing_from_the_others() {
        let mut doors = Doors::new(Limits {
            connections: 10_000,
            per_source: None,
            new_per_second: Some(20),
            new_per_second_per_source: Some(5),
            ..Limits::default()
        });
        for _ in 0..1_000 {
            doors.enter(from(1), Duration::ZERO).ok();
        }
        for source in 2..5 {
            for _ in 0..5 {
                assert_eq!(doors.enter(from(source), Duration::ZERO), Ok(()));
            }
        }
        assert_eq!(doors.enter(from(9), Duration::ZERO), Err(Refused::TooFast));
    }

    #[test]
    fn a_flood_from_many_addresses_is_not_remembered_for_ever() {
        let mut doors = Doors::new(Limits {
            connections: 10,
            new_per_second_per_source: Some(1),
            ..Limits::default()
        });
        for number in 0..200_000_u32 {
            let now = Duration::from_millis(u64::from(number));
            doors.enter(from(number), now).unwrap();
            doors.leave(from(number));
        }
        assert!(doors.sources.len() <= 3 * SWEEP_ABOVE, "{}", doors.sources.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_comes_and_goes_the_counts_are_right(
            moves in prop::collection::vec((any::<bool>(), 0_u32..6), 0..200),
        ) {
            let mut doors = Doors::new(limits());
            let mut inside: Vec<u32> = Vec::new();
            for (comes, source) in moves {
                if comes {
                    let mine = inside.iter().filter(|one| **one == source).count();
                    let may = inside.len() < 5 && mine < 2;
                    prop_assert_eq!(doors.enter(from(source), Duration::ZERO).is_ok(), may);
                    if may {
                        inside.push(source);
                    }
                } else if let Some(place) = inside.iter().position(|one| *one == source) {
                    inside.swap_remove(place);
                    doors.leave(from(source));
                }
            }
            prop_assert_eq!(doors.open, inside.len());
        }
    }
}
