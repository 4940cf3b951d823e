//! What the databases do when somebody goes away in the middle, and when somebody comes back who was removed.

use super::bench::{ALL, Bench};
use mainstay_core::ring::ids::HostId;
use sim::ring::model::node::Mode;
use sim::ring::model::{Options, Profile};

/// Member 1 of three is replaced, and streams.
fn streaming(profile: Profile) -> Bench {
    let mut bench = Bench::whole(profile, 3, 2);
    bench.remove_claim_and_pod(1);
    for _ in 0..600 {
        bench.tick();
        let process = bench.world.ring.process(1);
        if process.is_some_and(|p| matches!(p.mode, Mode::Replacing { .. })) {
            return bench;
        }
    }
    panic!("{profile:?}: {}", bench.text());
}

#[test]
fn a_replacement_that_loses_a_source_is_never_called_done_and_is_tried_again() {
    for profile in ALL {
        let mut bench = streaming(profile);
        bench.down(0, 3);
        bench.pass(2);
        let normal = |h: &HostId| bench.world.ring.alive(*h) == Some(1);
        assert!(!bench.hosts().iter().any(normal), "{profile:?}: rows are missing");
        // Cassandra does not even exit: the limit of the start ends it.
        let hangs = bench.world.ring.process(1).is_some();
        assert_eq!(hangs, profile == Profile::Cassandra5, "{profile:?}");
        assert!(bench.heals(40), "{profile:?}: {}", bench.text());
    }
}

#[test]
fn n12_a_node_that_was_removed_although_its_disk_is_whole_does_not_come_back() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 2);
        let old = bench.known(2);
        bench.down(2, 5);
        bench.pass(1);
        assert!(bench.world.ring.remove_node(old.host));
        bench.world.judge.removed.insert(old.host);
        bench.pass(10);
        assert!(bench.world.ring.process(2).is_none(), "{profile:?}");
        assert_eq!(bench.hosts().len(), 2, "{profile:?}");
        assert!(bench.says("RetiredDisk"), "{profile:?}: {}", bench.text());
    }
}

#[test]
fn row_4_every_scylla_refuses_one_that_was_removed_and_cassandra_gives_it_its_tokens_back() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 2);
        let old = bench.known(2).host;
        bench.world.ring.stop(2, false);
        assert!(bench.world.ring.remove_node(old));
        bench.world.judge.removed.insert(old);
        // Nobody looks before it starts again.
        bench.world.tick(std::time::Duration::from_secs(5));
        let back = bench.world.ring.truth.contains_key(&old);
        assert_eq!(back, profile == Profile::Cassandra5, "{profile:?}");
        assert_eq!(bench.world.judge.violation, None, "{profile:?}");
        assert_eq!(bench.world.judge.returned.contains(&old), back, "{profile:?}");
    }
}

#[test]
fn a_leaving_whose_heirs_go_away_fails_and_no_row_is_lost() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 1);
        bench.world.declared = 2;
        for _ in 0..60 {
            bench.tick();
            let process = bench.world.ring.process(2);
            if process.is_some_and(|p| matches!(p.mode, Mode::Leaving { .. })) {
                break;
            }
        }
        bench.down(0, 3);
        bench.pass(2);
        assert_eq!(bench.hosts().len(), 3, "{profile:?}");
        assert!(bench.heals(40), "{profile:?}: {}", bench.text());
        assert_eq!(bench.hosts().len(), 2, "{profile:?}: told once more");
    }
}

#[test]
fn a_node_that_is_removed_while_another_one_takes_over_its_host_id_is_a_member_again() {
    for profile in ALL.into_iter().filter(|p| p.keeps_host()) {
        let mut bench = streaming(profile);
        let old = bench.known(1).host;
        assert!(bench.world.ring.remove_node(old));
        bench.world.judge.removed.insert(old);
        assert!(bench.heals(20), "{profile:?}: {}", bench.text());
        bench.world.ring.stop(1, false);
        assert!(bench.heals(20), "{profile:?}: {}", bench.text());
        assert!(bench.hosts().contains(&old), "{profile:?}");
    }
}

#[test]
fn a_disk_that_is_mounted_elsewhere_is_known_by_the_address_at_which_it_runs() {
    for profile in ALL {
        let mut bench = Bench::whole(profile, 3, 2);
        let host = bench.known(0).host;
        let ring = &mut bench.world.ring;
        for place in [0, 1] {
            ring.stop(place, false);
        }
        ring.places[1].disk = std::mem::take(&mut ring.places[0].disk);
        let options = Options {
            seeds: ring.places.iter().map(|p| p.address).collect(),
            replaces: None,
            stream: std::time::Duration::ZERO,
        };
        assert!(ring.start(1, &options, bench.world.now).is_ok(), "{profile:?}");
        assert_eq!(ring.truth[&host].address, ring.places[1].address, "{profile:?}");
    }
}

#[test]
fn a_member_that_ends_in_the_moment_in_which_another_one_has_joined_knows_it_when_it_starts_again() {
    for profile in ALL {
        let mut bench = Bench::declared(profile, 2, 1);
        for _ in 0..120 {
            if bench.hosts().len() < 2 {
                bench.tick();
            }
        }
        let first = &bench.world.ring.places[0].disk;
        let peers: Vec<HostId> = first.local.as_ref().unwrap().peers.keys().copied().collect();
        let others: Vec<HostId> = bench
            .hosts()
            .into_iter()
            .filter(|h| Some(*h) != first.host())
            .collect();
        assert_eq!((peers.len(), peers), (1, others), "{profile:?}");
    }
}
