//! A search for two leaders at once: many seeds, all faults. And each rule taken away in turn, to see that
//! the search would have found it.

use super::world::{Faults, Incident, World};
use crate::lease::LeaseTiming;
use crate::lease::rules::Rule;
use std::collections::BTreeSet;

/// Each run: two minutes of true time with faults.
const FAULTY_MS: u64 = 120_000;

/// The slowest and the fastest clock that differ by just less than the stated bound of a third.
const WITHIN_BOUND: (u64, u64) = (820, 1_220);

/// And just more.
const BEYOND_BOUND: (u64, u64) = (790, 1_220);

/// Everything, except that the wall clock is never set back where machines are suspended: only the two
/// together can hide a suspension.
const ALL: Faults = Faults {
    rates: WITHIN_BOUND,
    lost: 60,
    slow: 100,
    late: 60,
    incidents: &[
        Incident::Pause,
        Incident::Suspend,
        Incident::Crash,
        Incident::Release,
        Incident::CutOff,
        Incident::DeleteLease,
        Incident::RecreateLease,
        Incident::ClockRate,
        Incident::WallForward,
    ],
    skewed_walls: true,
    blind_writes: false,
    without: None,
};

/// Without deletions and crashes leaders live longer and are cut off more often.
const NETWORK_AND_CLOCKS: Faults = Faults {
    incidents: &[
        Incident::Pause,
        Incident::CutOff,
        Incident::CutOff,
        Incident::ClockRate,
        Incident::WallBack,
    ],
    ..ALL
};

const DELETIONS: Faults = Faults {
    late: 200,
    incidents: &[
        Incident::DeleteLease,
        Incident::DeleteLease,
        Incident::RecreateLease,
        Incident::Crash,
    ],
    ..ALL
};

fn faulty_run(seed: u64, faults: Faults) -> World {
    let mut world = World::new(seed, 2 + usize::from(seed % 2 == 1), faults);
    world.run_until(FAULTY_MS);
    world
}

fn assert_safe(seeds: std::ops::Range<u64>, faults: Faults) {
    for seed in seeds {
        let world = faulty_run(seed, faults);
        if let Some(violation) = world.violation {
            panic!("seed {seed}: {violation}\n{}", world.log.join("\n"));
        }
    }
}

/// The first seed with two leaders at once.
fn first_overlap(faults: Faults) -> Option<u64> {
    (0..3_000).find(|seed| {
        faulty_run(*seed, faults)
            .violation
            .is_some_and(|what| what.contains("may act"))
    })
}

#[test]
fn the_clocks_of_the_search_just_keep_and_just_break_the_stated_bound() {
    let bound = LeaseTiming::default().clock_tolerance();
    let slower_by = |(slowest, fastest): (u32, u32)| 1.0 - f64::from(slowest) / f64::from(fastest);
    let narrow = |(a, b): (u64, u64)| (u32::try_from(a).unwrap(), u32::try_from(b).unwrap());
    assert!(slower_by(narrow(WITHIN_BOUND)) < bound);
    assert!(slower_by(narrow(BEYOND_BOUND)) > bound);
}

#[test]
fn never_two_leaders_with_all_faults_at_once() {
    assert_safe(0..3_000, ALL);
}

#[test]
fn never_two_leaders_with_a_bad_network_and_bad_clocks() {
    assert_safe(0..3_000, NETWORK_AND_CLOCKS);
}

#[test]
fn never_two_leaders_while_the_lease_is_deleted_again_and_again() {
    assert_safe(0..3_000, DELETIONS);
}

#[test]
fn leadership_changes_hands_in_most_faulty_runs() {
    let changes_hands = |seed| {
        let mut world = World::new(seed, 3, ALL);
        let mut leaders = BTreeSet::new();
        while world.now < FAULTY_MS {
            world.run_until(world.now + 100);
            // After a violation the world stands still.
            assert_eq!(world.violation, None, "seed {seed}");
            leaders.extend(world.leader());
        }
        leaders.len() > 1
    };
    let changed = (0..100).filter(|seed| changes_hands(*seed)).count();
    assert!(changed > 80, "{changed} of 100: else safety is shown of nothing");
}

#[test]
fn clocks_beyond_the_bound_make_two_leaders() {
    assert!(
        first_overlap(Faults {
            rates: BEYOND_BOUND,
            ..NETWORK_AND_CLOCKS
        })
        .is_some()
    );
}

#[test]
fn writes_that_ignore_the_version_make_two_leaders() {
    assert!(
        first_overlap(Faults {
            blind_writes: true,
            ..NETWORK_AND_CLOCKS
        })
        .is_some()
    );
}

#[test]
fn each_rule_that_is_broken_makes_two_leaders() {
    for (rule, faults) in [
        (Rule::CountFromSend, NETWORK_AND_CLOCKS),
        (Rule::OwnClockOnly, NETWORK_AND_CLOCKS),
        (Rule::WatchWallClock, ALL),
        (Rule::StopBeforeRelease, ALL),
        (Rule::DistrustNewLease, DELETIONS),
        (Rule::ProveClaim, DELETIONS),
    ] {
        let found = first_overlap(Faults {
            without: Some(rule),
            ..faults
        });
        assert!(
            found.is_some(),
            "the search does not notice that {rule:?} is missing"
        );
    }
}

/// The longest: a request that hangs when the faults end is given up, a read follows, its news is waited out,
/// and the takeover is answered; all by the slowest clock.
#[test]
fn after_the_faults_end_there_is_a_leader_within_duration_retry_and_one_hanging_request() {
    let timing = LeaseTiming::default();
    let own_time = timing.duration() + timing.retry() + timing.request_timeout();
    let own_ms = u64::try_from(own_time.as_millis()).unwrap();
    let bound = own_ms * 1_000 / WITHIN_BOUND.0 + 500;
    for seed in 0..2_000 {
        let mut world = faulty_run(seed, ALL);
        world.heal();
        let end = world.now + bound;
        world.run_while(end, |world| world.leader().is_none());
        assert!(
            world.leader().is_some(),
            "seed {seed}: no leader {bound} ms after\n{}",
            world.log.join("\n")
        );
        assert_eq!(world.violation, None, "seed {seed}");
    }
}
