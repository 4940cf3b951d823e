//! Nothing may be replaced.

use super::bench::{ALL, Bench};
use mainstay_core::ring::stamp::Found;
use sim::ring::model::Profile;

/// Nothing was permitted, and every disk is where it was.
fn untouched(bench: &Bench, grants: u64) {
    assert_eq!(bench.grants(), grants, "{}", bench.text());
    assert!(
        bench
            .world
            .objects
            .iter()
            .all(|o| o.claim.is_some_and(|c| !c.terminating))
    );
}

#[test]
fn n2_a_node_that_is_down_for_hours_with_its_volume_is_left_alone() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 3);
        let known = bench.known(1);
        bench.down(1, 180);
        bench.pass(170);
        untouched(&bench, 3);
        assert!(bench.heals(30));
        assert_eq!(bench.known(1), known);
    }
}

#[test]
fn n5_without_any_other_member_an_empty_node_is_not_started() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 3);
        bench.down(0, 60);
        bench.down(2, 60);
        bench.wipe(1);
        bench.pass(50);
        untouched(&bench, 3);
        assert!(bench.world.ring.running().is_empty());
        assert!(
            bench.text().contains("no other member answers"),
            "{}",
            bench.text()
        );
        assert!(bench.heals(60), "{profile:?}: {}", bench.text());
    }
}

#[test]
fn n6_the_only_node_loses_its_disk_and_a_human_is_asked() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 1, 1);
        bench.wipe(0);
        bench.pass(30);
        untouched(&bench, 1);
        assert!(bench.says("DataLost"), "{}", bench.text());
    }
}

#[test]
fn n7_two_of_three_lost_neither_is_started() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 3);
        bench.wipe(1);
        bench.wipe(2);
        bench.pass(40);
        untouched(&bench, 3);
        assert_eq!(bench.world.ring.running(), [0]);
        assert!(bench.says("HeldForHuman"), "{profile:?}: {}", bench.text());
    }
}

#[test]
fn n8_two_lost_in_five_one_at_a_time_or_the_databases_refusal_is_shown() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 5, 3);
        bench.wipe(1);
        bench.wipe(3);
        bench.tick();
        let healed = bench.heals(40);
        if profile == Profile::Cassandra5 {
            assert!(healed, "{}", bench.text());
            assert_eq!(bench.grants(), 7);
        } else {
            untouched(&bench, 5);
            assert!(
                bench
                    .text()
                    .contains("request canceled because some required nodes are dead")
            );
        }
    }
}

#[test]
fn n8_when_a_human_declares_one_of_two_dead_for_good_they_are_replaced_one_after_the_other() {
    let mut bench = Bench::whole(Profile::Raft2026, 5, 3);
    let given_up = bench.known(3).host;
    assert!(!bench.world.ring.exclude_node(0, given_up), "it lives");
    bench.wipe(1);
    bench.wipe(3);
    bench.pass(10);
    untouched(&bench, 5);
    assert!(bench.world.ring.exclude_node(0, given_up));
    assert!(bench.heals(40), "{}", bench.text());
    assert_eq!(bench.grants(), 7, "one permission each");
    let done = |member: &str| {
        let text = format!("{member} is whole again");
        bench.notes.iter().position(|note| note.contains(&text))
    };
    assert!(done("ring-r1-1").is_some() && done("ring-r1-1") < done("ring-r0-3"));
}

#[test]
fn n10_a_first_bootstrap_that_was_cut_off_begins_again_on_a_clean_disk_and_replaces_nobody() {
    for profile in ALL {
        let mut bench = Bench::declared(profile, 3, 3);
        let joins = |b: &Bench| {
            let pod = b.world.objects[1].pod.as_ref();
            let report = pod.and_then(|p| p.report);
            report.is_some_and(|r| matches!(r.found, Found::StartedWith(_)))
        };
        while !joins(&bench) {
            bench.tick();
        }
        assert!(bench.world.objects[1].record.is_none(), "N11: only joining");
        bench.world.ring.stop(1, false);
        assert!(bench.heals(40), "{profile:?}: {}", bench.text());
        assert!(!bench.noted("is whole again"), "nobody was replaced");
    }
}

#[test]
fn n12_a_node_that_was_removed_by_hand_joins_as_new() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 2);
        let old = bench.known(2);
        bench.down(2, 30);
        bench.pass(3);
        assert!(bench.world.ring.remove_node(old.host));
        bench.wipe(2);
        bench.pass(1);
        assert!(bench.heals(60), "{profile:?}: {}", bench.text());
        assert_ne!(bench.known(2).host, old.host);
        assert!(!bench.noted("not found"), "no loop of refused starts");
    }
}

#[test]
fn n25_in_a_minority_nothing_is_done() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 5, 3);
        bench.wipe(1);
        for place in [2, 3, 4] {
            bench.world.operators[0].blind.insert(place);
        }
        bench.pass(30);
        untouched(&bench, 5);
        assert!(bench.text().contains("answer"), "{}", bench.text());
        bench.world.operators[0].blind.clear();
        assert!(bench.heals(30), "{profile:?}: {}", bench.text());
    }
}

#[test]
fn n25_a_living_node_that_is_cut_off_from_everybody_is_not_replaced() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 3);
        bench.cut_off(1);
        bench.pass(60);
        untouched(&bench, 3);
        bench.world.ring.cut.clear();
        assert!(bench.heals(10), "{profile:?}: {}", bench.text());
    }
}

#[test]
fn n26_a_cassandra_that_lost_its_disk_is_never_its_own_seed() {
    let mut bench = Bench::whole(Profile::Cassandra5, 3, 3);
    bench.down(0, 30);
    bench.down(2, 30);
    bench.wipe(1);
    bench.pass(20);
    assert!(
        bench.world.ring.running().is_empty(),
        "it would be Normal, and empty"
    );
    assert!(bench.heals(60), "{}", bench.text());
}

#[test]
fn an_old_disk_that_returns_after_the_replacement_is_not_started() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 3);
        bench.unmount(1);
        bench.tick();
        assert!(bench.heals(20), "{profile:?}: {}", bench.text());
        let known = bench.known(1);
        bench.mount(1);
        bench.pass(10);
        assert!(
            bench.world.ring.process(1).is_none(),
            "it would take its tokens back"
        );
        assert!(bench.says("RetiredDisk"), "{}", bench.text());
        assert_eq!(bench.known(1), known);
    }
}

#[test]
fn a_start_that_fails_again_and_again_is_given_up_and_says_so() {
    let mut bench = Bench::whole(Profile::Raft2025, 3, 3);
    bench.wipe(1);
    for _ in 0..30 * 12 {
        bench.tick();
        let started = bench.world.ring.process(1).is_some();
        if started {
            bench.world.ring.stop(1, false);
        }
    }
    assert!(bench.says("GivenUp"), "{}", bench.text());
    assert_eq!(bench.grants(), 6, "three tries");
    // A human makes the pod anew: that orders another try.
    bench.remove_pod(1);
    bench.tick();
    assert!(bench.heals(30), "{}", bench.text());
}
