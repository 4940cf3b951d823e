//! What users see: outages, crashes and shutdowns with good clocks and an otherwise good network.

use super::world::{Faults, World};

/// Four messages of up to 50 ms each way.
const ROUND_TRIPS: u64 = 200;

fn led_world(seed: u64) -> (World, usize) {
    let mut world = World::new(seed, 3, Faults::default());
    world.run_until(3_000 + seed % 2_000);
    let leader = world.leader().expect("a free lease is taken at once");
    (world, leader)
}

fn ms_until_leader(world: &mut World, limit: u64) -> Option<u64> {
    let start = world.now;
    world.run_while(start + limit, |world| world.leader().is_none());
    world.leader().map(|_| world.now - start)
}

#[test]
fn without_faults_the_first_leader_stays() {
    let (mut world, leader) = led_world(1);
    for _ in 0..600 {
        world.run_until(world.now + 1_000);
        assert_eq!(world.leader(), Some(leader));
    }
    assert_eq!(world.violation, None);
}

#[test]
fn after_a_crash_there_is_a_leader_within_duration_and_retry() {
    for seed in 0..500 {
        let (mut world, leader) = led_world(seed);
        world.crash(leader, None);
        let took = ms_until_leader(&mut world, 60_000).unwrap();
        assert!(took <= 15_000 + 2_000 + ROUND_TRIPS, "seed {seed}: {took} ms");
        assert!(
            took > 10_000,
            "seed {seed}: the crashed leader could still have been acting"
        );
    }
}

#[test]
fn l5_after_a_release_there_is_a_leader_within_one_retry_interval() {
    for seed in 0..500 {
        let (mut world, leader) = led_world(seed);
        world.release(leader);
        assert_eq!(world.leader(), None);
        let took = ms_until_leader(&mut world, 60_000).unwrap();
        assert!(took <= 2_000 + ROUND_TRIPS, "seed {seed}: {took} ms");
        assert!(world.is_released(leader));
        assert_ne!(world.leader(), Some(leader));
        assert_eq!(world.violation, None);
    }
}

#[test]
fn in_an_api_outage_the_leader_stops_before_the_lease_can_expire_and_leads_again_within_5_s_after() {
    for seed in 0..500 {
        let (mut world, _) = led_world(seed);
        let start = world.now;
        world.set_api_reachable(false);
        world.run_while(start + 20_000, |world| world.leader().is_some());
        let acted = world.now - start;
        assert!(acted <= 10_000, "seed {seed}: acted for {acted} ms");
        world.run_until(start + 20_000);
        assert_eq!(world.leader(), None);
        world.set_api_reachable(true);
        let took = ms_until_leader(&mut world, 60_000).unwrap();
        assert!(took <= 5_000, "seed {seed}: {took} ms");
        assert_eq!(world.violation, None);
    }
}

#[test]
fn in_a_long_api_outage_nobody_leads_and_nobody_floods() {
    let (mut world, _) = led_world(3);
    let start = world.now;
    world.set_api_reachable(false);
    world.run_until(start + 10_000 + ROUND_TRIPS);
    while world.now < start + 600_000 {
        assert_eq!((world.leader(), &world.violation), (None, &None));
        world.run_until(world.now + 1_000);
    }
    let wakes = world.log.iter().filter(|line| line.contains("Wake")).count();
    assert!(
        wakes <= 3 * 600 / 2,
        "{wakes} wake-ups of three nodes in ten minutes"
    );
    world.set_api_reachable(true);
    assert!(ms_until_leader(&mut world, 60_000).unwrap() <= 5_000);
}

#[test]
fn without_a_lease_the_first_leader_waits_one_duration() {
    let mut world = World::new(1, 3, Faults::default());
    world.api.delete();
    let took = ms_until_leader(&mut world, 60_000).unwrap();
    assert!(
        (15_000..=15_000 + 1_000 + 2_000 + ROUND_TRIPS).contains(&took),
        "{took} ms"
    );
}
