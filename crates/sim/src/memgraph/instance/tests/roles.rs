use super::*;

#[test]
fn promoting_a_main_and_demoting_a_replica_are_errors_and_roles_survive_a_kill() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::Sync);
    assert_eq!(cluster.promote(1), Err(Error::AlreadyMain));
    assert_eq!(cluster.demote(2), Err(Error::AlreadyReplica));
    cluster.start(1, Stop::Killed, false);
    cluster.start(2, Stop::Killed, false);
    assert_eq!(
        (cluster.at(1).role(), cluster.at(2).role()),
        (Role::Main, Role::Replica)
    );
}

#[test]
fn with_the_init_file_a_main_comes_back_as_replica_without_its_list() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    let main = cluster.at(1).main_id();
    cluster.start(1, Stop::Killed, true);
    assert_eq!(cluster.at(1).role(), Role::Replica);
    assert_ne!(cluster.at(1).main_id(), main);
    assert!(cluster.at(1).registrations().is_empty());
}

#[test]
fn without_the_init_file_an_old_main_comes_back_writable_with_its_list() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    cluster.write_all(1, [1]);
    cluster.start(1, Stop::Killed, false);
    cluster.settle(1);
    assert_eq!(cluster.shown(1, R2), Some((Status::Ready, 0)));
    assert_eq!(cluster.write(1, 2), Told::Acked);
    assert_eq!(cluster.writes(2), [1, 2]);
}

#[test]
fn an_init_file_does_not_change_what_a_replica_obeys() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    cluster.write_all(1, [1]);
    cluster.restart(2, Stop::Killed);
    assert_eq!(cluster.at(2).main_id(), cluster.at(1).main_id());
    assert_eq!(cluster.write(1, 2), Told::Acked);
}

#[test]
fn commands_are_refused_while_a_commit_hangs_19() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    assert_eq!(cluster.begin(1, 1), Begun::Prepared);
    assert_eq!(cluster.demote(1), Err(Error::Busy));
    assert_eq!(cluster.at_mut(1).drop_replica(R2), Err(Error::Busy));
    let refused = cluster.register(1, Mode::Async, 3).unwrap_err();
    assert_eq!(refused.register_code(), Some(6));
    assert_eq!(cluster.act(1, |main, net| main.begin(2, net)), Err(Error::Busy));
    assert_eq!(cluster.shown(1, R2), Some((Status::Replicating, 1)));
    assert_eq!(cluster.complete(1), Told::Acked);
    assert_eq!(cluster.demote(1), Ok(()));
}

#[test]
fn a_commit_waits_for_a_replica_that_hangs_and_main_takes_no_command_meanwhile_19() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    cluster.hung = Some(NodeId(2));
    assert_eq!(cluster.begin(1, 1), Begun::Waiting);
    assert_eq!(cluster.at(1).stage(), Some(Stage::Voting));
    assert_eq!(cluster.demote(1), Err(Error::Busy));
    assert_eq!(cluster.at_mut(1).drop_replica(R2), Err(Error::Busy));
    let refused = cluster.register(1, Mode::Async, 3).unwrap_err();
    assert_eq!(refused.register_code(), Some(6));
    assert_eq!(cluster.at_mut(1).commit_locally(), Err(Error::WrongStage));
    assert_eq!(cluster.at_mut(1).finish(), Err(Error::WrongStage));
    // Its process is ended and another one is there at once: the vote was asked of the one that is gone.
    cluster.hung = None;
    cluster.restart(2, Stop::Killed);
    let begun = cluster.act(1, Instance::end_votes).unwrap();
    assert!(matches!(begun, Begun::Aborted(_)), "{begun:?}");
    assert_eq!((cluster.writes(1), cluster.writes(2)), (&[][..], &[][..]));
    assert_eq!(cluster.act(1, Instance::end_votes), Err(Error::WrongStage));
    cluster.settle(1);
    assert_eq!(cluster.write(1, 2), Told::Acked);
    assert_eq!(cluster.writes(2), [2]);
}

#[test]
fn a_main_that_dies_while_a_commit_hangs_stores_nothing() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    cluster.hung = Some(NodeId(2));
    assert_eq!(cluster.begin(1, 1), Begun::Waiting);
    cluster.restart(1, Stop::Killed);
    assert_eq!(cluster.at(1).stage(), None);
    assert!(cluster.writes(1).is_empty());
}

#[test]
fn old_releases_promote_over_a_prepared_write_and_new_ones_refuse_until_its_connection_ends() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    assert_eq!(cluster.begin(1, 1), Begun::Prepared);
    assert_eq!(cluster.promote(2), Ok(()));
    assert!(!cluster.at(2).is_prepared());
    assert_eq!(cluster.complete(1), Told::Acked);
    assert_eq!(cluster.writes(2), [0_u16; 0], "acknowledged and lost");

    let mut cluster = Cluster::pair(Profile::V3_12, Mode::StrictSync);
    assert_eq!(cluster.begin(1, 1), Begun::Prepared);
    assert_eq!(cluster.promote(2), Err(Error::Busy));
    cluster.at_mut(2).connection_lost();
    assert_eq!(cluster.promote(2), Ok(()));
}

#[test]
fn the_strict_fence_holds_against_an_old_main_04() {
    for profile in RECORDED {
        let mut cluster = Cluster::trio(profile, Mode::StrictSync);
        cluster.write_all(1, [1]);
        cluster.promote(2).unwrap();
        assert_eq!(cluster.write(1, 100), Told::Aborted);
        assert_eq!(cluster.register(2, Mode::Async, 3), Ok(Status::Ready));
        assert_eq!(cluster.write(1, 101), Told::Aborted);
        cluster.start(1, Stop::Killed, false);
        cluster.settle(1);
        assert_eq!(cluster.write(1, 102), Told::Aborted);
        assert_eq!(
            cluster.shown(1, R3),
            Some((Status::Invalid, -1)),
            "taken by the new MAIN"
        );
        cluster.demote(1).unwrap();
        assert_eq!(cluster.register(2, Mode::StrictSync, 1), Ok(Status::Ready));
        assert_eq!(cluster.writes(1), [1]);
    }
}

#[test]
fn a_replica_that_flapped_is_lost_until_it_is_registered_again_04c() {
    for profile in RECORDED {
        let mut cluster = Cluster::trio(profile, Mode::StrictSync);
        cluster.write_all(1, [1]);
        cluster.promote(2).unwrap();
        cluster.demote(2).unwrap();
        assert_eq!(cluster.write(1, 2), Told::Aborted);
        cluster.settle(1);
        assert_eq!(cluster.shown(1, R2), Some((Status::Invalid, 0)));
        assert_eq!(cluster.write(1, 3), Told::Aborted);
        assert_eq!(cluster.at_mut(1).drop_replica(R2), Ok(Dropped::Clean));
        assert_eq!(cluster.write(1, 4), Told::Acked);
        assert_eq!(cluster.register(1, Mode::StrictSync, 2), Ok(Status::Recovery));
        cluster.settle(1);
        assert_eq!(cluster.write(1, 5), Told::Acked);
        assert_eq!(cluster.writes(2), [1, 4, 5]);
    }
}

#[test]
fn a_main_that_flapped_lost_its_list_and_registration_brings_all_level_04c() {
    let mut cluster = Cluster::trio(Profile::V3_6, Mode::StrictSync);
    cluster.write_all(1, [1]);
    cluster.demote(1).unwrap();
    assert_eq!(cluster.at(1).show_replicas().err(), Some(Error::NotMain));
    cluster.promote(1).unwrap();
    assert_eq!(cluster.at(1).registrations().len(), 0);
    assert_eq!(cluster.write(1, 6), Told::Acked);
    assert_eq!(cluster.register(1, Mode::StrictSync, 2), Ok(Status::Recovery));
    assert_eq!(cluster.register(1, Mode::Async, 3), Ok(Status::Recovery));
    cluster.settle(1);
    assert_eq!((cluster.writes(2), cluster.writes(3)), (&[1, 6][..], &[1, 6][..]));
}

#[test]
fn promotion_and_demotion_without_a_write_are_harmless() {
    let mut cluster = Cluster::trio(Profile::V3_6, Mode::StrictSync);
    cluster.write_all(1, [1, 2]);
    cluster.demote(1).unwrap();
    for node in [2, 3, 2] {
        cluster.promote(node).unwrap();
        cluster.demote(node).unwrap();
    }
    cluster.promote(1).unwrap();
    assert_eq!(cluster.register(1, Mode::StrictSync, 2), Ok(Status::Ready));
    assert_eq!(cluster.register(1, Mode::Async, 3), Ok(Status::Ready));
}

#[test]
fn instances_that_differ_only_in_ids_are_equal_after_renumbering() {
    struct Renumber {
        seen: Vec<u32>,
    }
    impl Renumber {
        fn of(&mut self, id: &mut u32) {
            let known = self.seen.iter().position(|seen| seen == id);
            let index = known.unwrap_or_else(|| {
                self.seen.push(*id);
                self.seen.len() - 1
            });
            *id = u32::try_from(index).unwrap();
        }
    }
    impl IdVisitor for Renumber {
        fn main(&mut self, id: &mut MainId) {
            self.of(&mut id.0);
        }
        fn database(&mut self, id: &mut DatabaseId) {
            self.of(&mut id.0);
        }
        fn epoch(&mut self, id: &mut EpochId) {
            self.of(&mut id.0);
        }
        fn ts(&mut self, _ts: &mut Ts) {}
    }
    let build = |fresh| {
        let mut cluster = Cluster::trio(Profile::V3_12, Mode::StrictSync);
        cluster.fresh = fresh;
        cluster.write_all(1, [1]);
        cluster.demote(1).unwrap();
        cluster.promote(2).unwrap();
        cluster.at_mut(2).relax_fsync();
        cluster.register(2, Mode::StrictSync, 1).unwrap();
        cluster.register(2, Mode::Async, 3).unwrap();
        assert_eq!(cluster.write(2, 2), Told::Acked);
        cluster.at_mut(2).take_snapshot().unwrap();
        assert_eq!(cluster.begin(2, 3), Begun::Prepared);
        cluster
    };
    for node in [1, 2] {
        let (mut a, mut b) = (build(1000).at(node).clone(), build(2000).at(node).clone());
        assert_ne!(a, b);
        a.visit_ids(&mut Renumber { seen: Vec::new() });
        b.visit_ids(&mut Renumber { seen: Vec::new() });
        assert_eq!(a, b);
    }
}
