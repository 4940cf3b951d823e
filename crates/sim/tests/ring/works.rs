//! It must work.

use super::bench::{ALL, Bench};
use mainstay_core::ring::{Step, asks, decide};
use sim::ring::model::Profile;
use std::time::Duration;

#[test]
fn s1_the_first_node_boots_alone_without_a_record_and_without_an_option() {
    for profile in ALL {
        let mut bench = Bench::declared(profile, 1, 1);
        assert!(bench.heals(5), "{profile:?}: {}", bench.text());
        bench.pass(10);
        assert!(bench.world.objects[0].record.is_none(), "never for a single node");
        let ledger = &bench.world.ledger.as_ref().unwrap().1;
        assert!(ledger.known.is_empty() && ledger.founded);
    }
}

#[test]
fn s2_every_member_gets_one_record_the_first_included_and_then_nobody_is_asked() {
    for profile in ALL {
        let bench = Bench::whole(profile, 3, 3);
        for place in 0..3 {
            let record = bench.world.objects[place].record.as_ref().unwrap();
            let (_, known, _) = record.map.parse().unwrap();
            assert_eq!(known, bench.known(place));
            assert!(record.map.immutable && record.map.data.len() == 1);
        }
        let seen = bench.world.observe(0);
        let ledger = bench.world.ledger.as_ref().map(|(_, l)| l);
        assert!(!asks(ledger, &seen) && seen.answers.is_empty());
        assert!(decide(ledger, &seen, bench.world.now).steps.is_empty());
    }
}

fn replaced(profile: Profile, place: usize, lose: impl Fn(&mut Bench, usize)) {
    let mut bench = Bench::whole(profile, 3, 3);
    let (old, token) = (
        bench.known(place),
        bench.world.ring.truth[&bench.known(place).host].token,
    );
    lose(&mut bench, place);
    bench.tick();
    assert!(bench.heals(20), "{profile:?}: {}", bench.text());
    let new = bench.known(place);
    assert_eq!(bench.hosts().len(), 3);
    assert_eq!(bench.world.ring.truth[&new.host].token, token, "the old tokens");
    assert_eq!(new.host == old.host, profile.keeps_host());
    assert_ne!(new.disk, old.disk, "{profile:?}: the record names the new disk");
    assert!(
        bench
            .world
            .ledger
            .as_ref()
            .unwrap()
            .1
            .retired
            .contains(&old.disk.unwrap())
    );
    assert!(bench.noted("is whole again"), "S11: who replaced whom is told");
}

#[test]
fn s3_claim_and_pod_of_a_node_are_deleted_and_it_takes_its_own_place_again() {
    for profile in ALL {
        replaced(profile, 1, Bench::remove_claim_and_pod);
    }
}

#[test]
fn s4_the_same_for_the_first_node() {
    for profile in ALL {
        replaced(profile, 0, Bench::remove_claim_and_pod);
    }
}

#[test]
fn s5_the_claim_stays_and_only_the_folder_is_wiped() {
    for profile in ALL {
        replaced(profile, 2, Bench::wipe);
    }
}

#[test]
fn s6_the_node_is_gone_its_claim_is_evicted_and_the_member_comes_up_elsewhere() {
    for profile in ALL {
        replaced(profile, 1, |bench, place| {
            let now = bench.world.now;
            bench.world.ring.stop(place, false);
            bench.world.judge_disk_lost(place);
            bench.world.objects[place].claim.as_mut().unwrap().node_gone = Some(now);
        });
    }
}

#[test]
fn s7_n1_a_node_with_its_data_restarts_as_it_was_also_after_it_was_replaced() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 3);
        bench.wipe(1);
        bench.tick();
        assert!(bench.heals(20));
        let (known, grants) = (bench.known(1), bench.grants());
        for _ in 0..3 {
            bench.remove_pod(1);
            bench.pass(2);
        }
        assert!(bench.heals(5));
        assert_eq!((bench.known(1), bench.grants()), (known, grants));
    }
}

#[test]
fn s10_an_operator_that_dies_before_or_after_any_call_goes_on_and_begins_no_second_replacement() {
    // Every call of the whole story is the last one of an operator once.
    for profile in [Profile::Gossip52, Profile::Raft2025, Profile::Cassandra5] {
        for deadly in 0..14 {
            for before in [true, false] {
                let mut bench = Bench::whole(profile, 3, 3);
                bench.wipe(1);
                die_at(&mut bench, deadly, before);
                assert!(bench.heals(30), "{profile:?} {deadly} {before}: {}", bench.text());
                assert_eq!(bench.grants(), 4, "{profile:?}: three starts and one replacement");
            }
        }
    }
}

/// The operator dies at its n-th call.
fn die_at(bench: &mut Bench, deadly: usize, before: bool) {
    let mut calls = 0;
    for _ in 0..600 {
        bench.world.tick(Duration::from_secs(5));
        bench.world.look(0);
        let Some(mut turn) = bench.world.operators[0].turn.take() else {
            continue;
        };
        while let Some(step) = turn.steps.pop_front() {
            calls += 1;
            if calls > deadly && before {
                return;
            }
            let done = bench.world.carry_out(&step, &mut turn.version);
            if calls > deadly {
                return;
            }
            if !done {
                break;
            }
        }
        if bench.world.is_whole() && bench.grants() > 3 {
            return;
        }
    }
}

#[test]
fn s12_the_label_of_a_human_replaces_a_node_and_the_record_is_renewed_once() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 3);
        let old = bench.known(2);
        bench.world.objects[2].label = true;
        bench.tick();
        assert!(bench.heals(20), "{profile:?}: {}", bench.text());
        assert!(!bench.world.objects[2].label, "taken off when it is done");
        assert_ne!(bench.known(2).disk, old.disk);
        let grants = bench.grants();
        bench.pass(10);
        assert_eq!(bench.grants(), grants, "once");
    }
}

#[test]
fn s14_scaled_down_and_up_again_the_member_joins_as_new() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 2);
        let old = bench.known(2);
        bench.world.declared = 2;
        assert!(bench.heals(20), "{profile:?}: {}", bench.text());
        assert!(!bench.world.objects[2].exists && bench.world.objects[2].record.is_none());
        assert_eq!(bench.hosts().len(), 2);
        bench.world.declared = 3;
        bench.world.objects[2].exists = true;
        bench.notes.clear();
        bench.tick();
        assert!(bench.heals(20), "{profile:?}: {}", bench.text());
        assert_ne!(bench.known(2).host, old.host);
        assert!(bench.noted("ring-r2-2 is new and joins"));
    }
}

/// The seed's own test plan, in its words, where two nodes are enough.
#[test]
fn the_seeds_test_plan_with_two_nodes_where_no_majority_decides() {
    for profile in [Profile::Gossip4, Profile::Gossip52, Profile::Cassandra5] {
        // Create a ScyllaCluster with 2 nodes. Wait for the ScyllaCluster to deploy.
        let mut bench = Bench::whole(profile, 2, 2);
        // Remove first node's PVC. Remove first node's Pod. Await PVC's and Pod's deletion.
        bench.remove_claim_and_pod(0);
        bench.tick();
        // Wait for the ScyllaCluster to reconcile and become fully available again. Verify ScyllaCluster.
        assert!(bench.heals(20), "{profile:?}: {}", bench.text());
        assert_eq!(bench.hosts().len(), 2);
    }
}

#[test]
fn where_a_majority_decides_two_nodes_are_too_few_and_that_is_said() {
    let mut bench = Bench::whole(Profile::Raft2025, 2, 2);
    bench.remove_claim_and_pod(0);
    assert!(!bench.heals(30));
    assert!(bench.text().contains("cannot heal itself"), "{}", bench.text());
}

#[test]
fn a_disk_that_comes_back_before_anything_was_taken_keeps_its_place() {
    for profile in ALL {
        for seconds in [5, 60, 120, 150] {
            let mut bench = Bench::whole(profile, 3, 3);
            let old = bench.known(1);
            bench.unmount(1);
            for _ in 0..seconds / 5 {
                bench.tick();
            }
            if bench.grants() > 3 {
                continue;
            }
            bench.mount(1);
            assert!(bench.heals(20), "{profile:?} {seconds}: {}", bench.text());
            assert_eq!(bench.known(1), old, "{profile:?} {seconds}");
        }
    }
}

#[test]
fn cassandra_peers_are_taught_the_address_before_it_is_taken_over() {
    let mut bench = Bench::whole(Profile::Cassandra5, 3, 3);
    for place in [0, 2] {
        bench.world.ring.places[place]
            .process
            .as_mut()
            .unwrap()
            .seeds
            .clear();
    }
    bench.wipe(1);
    bench.tick();
    assert!(bench.heals(20), "{}", bench.text());
    assert!(bench.noted("reload 3 seeds"));
    assert!(!bench.noted("Unable to contact any seeds"));
}

#[test]
fn no_step_names_anything_that_it_does_not_carry_with_it() {
    let bench = Bench::declared(Profile::Gossip52, 1, 1);
    let seen = bench.world.observe(0);
    let plan = decide(None, &seen, bench.world.now);
    assert!(matches!(plan.steps.as_slice(), [Step::CreateLedger(_)]));
}
