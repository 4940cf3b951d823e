//! What the databases do when somebody goes away in the middle, and when somebody comes back who was removed.

use super::bench::{ALL, Bench};
use mainstay_core::ring::ids::HostId;
use sim::ring::model::Profile;
use sim::ring::model::node::Mode;

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
