//! N3 with a process that lives on although its pod is gone: it is not replaced while anybody can know that it lives. And
//! the simulation notices when it is.

use super::bench::{ALL, Bench};
use sim::ring::model::Profile;
use sim::ring::simulate::{config, run_with};
use sim::ring::world::{Broken, Config};
use std::time::Duration;

/// The place of the process that lives on without a pod; a new pod waits, and its gate has said so.
fn given_up(bench: &mut Bench) -> usize {
    let ghost = bench.world.give_up(1).unwrap();
    for _ in 0..6 {
        bench.time_passes();
    }
    ghost
}

fn cut(bench: &mut Bench, ghost: usize) {
    for place in 0..3 {
        bench.world.ring.cut.insert((place, ghost));
    }
}

#[test]
fn n3_a_process_that_lives_on_beside_its_new_pod_is_not_replaced() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 3);
        let (hosts, grants) = (bench.hosts(), bench.grants());
        let ghost = given_up(&mut bench);
        bench.pass(15);
        assert_eq!((bench.hosts(), bench.grants()), (hosts, grants), "{profile:?}");
        assert!(bench.text().contains("StillAlive"), "{}", bench.text());
        bench.world.end_ghost(ghost);
        assert!(bench.heals(20), "{profile:?}: {}", bench.text());
    }
}

/// Cut off from everybody it counts as dead, and its new pod is permitted to replace it. The gate hears of that only when
/// the others have heard from the living one again.
fn heard_of_too_late(broken: Option<Broken>, profile: Profile) -> (Bench, usize) {
    let mut bench = Bench::without(broken, profile, 3, 3).come_up();
    let ghost = given_up(&mut bench);
    cut(&mut bench, ghost);
    let standing_still = bench.world.now + Duration::from_hours(1);
    let pod = bench.world.objects[1].pod.as_mut().unwrap();
    pod.backoff = standing_still;
    let granted = |bench: &Bench| {
        let ledger = bench.world.ledger.as_ref().map(|(_, l)| l).unwrap();
        ledger.work.as_ref().is_some_and(|w| w.grant().is_some())
    };
    for _ in 0..120 {
        if !granted(&bench) {
            bench.tick();
        }
    }
    assert!(granted(&bench), "{profile:?}: {}", bench.text());
    // There is no operator any more that could take it back.
    bench.world.ring.cut.clear();
    for _ in 0..30 {
        bench.time_passes();
    }
    let now = bench.world.now;
    bench.world.objects[1].pod.as_mut().unwrap().backoff = now;
    for _ in 0..3 {
        bench.time_passes();
    }
    (bench, ghost)
}

#[test]
fn n3_a_permission_that_its_gate_hears_of_too_late_is_not_used_and_is_taken_back() {
    for profile in ALL {
        let (mut bench, ghost) = heard_of_too_late(None, profile);
        assert_eq!(bench.world.judge.violation, None, "{profile:?}");
        bench.pass(5);
        assert!(bench.text().contains("StillAlive"), "{}", bench.text());
        let (_, ledger) = bench.world.ledger.as_ref().unwrap();
        assert_eq!(ledger.work, None, "{profile:?}: {}", bench.text());
        bench.world.end_ghost(ghost);
        assert!(bench.heals(20), "{profile:?}: {}", bench.text());
    }
}

#[test]
fn the_judge_notices_a_gate_that_uses_permissions_of_any_age() {
    for profile in ALL {
        let (bench, _) = heard_of_too_late(Some(Broken::Freshness), profile);
        let found = bench.world.judge.violation.unwrap_or_default();
        assert!(
            found.starts_with("a living node is replaced"),
            "{profile:?}: {found}"
        );
    }
}

#[test]
fn the_judge_notices_when_check_b_is_not_there() {
    for profile in ALL {
        let mut bench = Bench::without(Some(Broken::Down), profile, 3, 3).come_up();
        given_up(&mut bench);
        for _ in 0..60 {
            bench.time_passes();
            bench.operate();
        }
        let found = bench.world.judge.violation.unwrap_or_default();
        assert!(
            found.starts_with("a living node is replaced"),
            "{profile:?}: {found}"
        );
    }
}

#[test]
fn random_faults_find_out_that_check_b_is_not_there() {
    let broken = |seed: u64| Config {
        broken: Some(Broken::Down),
        ..config(seed)
    };
    let found = (0..300).filter_map(|seed| run_with(seed, broken(seed), false).violation);
    let alive = found.filter(|text| text.starts_with("a living node is replaced"));
    assert!(alive.count() >= 5, "hardly anything was put to the test");
}
