use super::*;

#[test]
fn a_peer_that_does_not_listen_leaves_a_zombie_02() {
    for profile in [Profile::V3_6, Profile::V3_9, Profile::V3_12, Profile::Next] {
        let mut cluster = Cluster::pair(profile, Mode::Sync);
        cluster.write_all(1, [1]);
        // Node 3 is MAIN: nothing listens on its replication port.
        let refused = cluster.register(1, Mode::StrictSync, 3).unwrap_err();
        assert_eq!(refused.register_code(), Some(5));
        assert_eq!(cluster.shown(1, R3), None);
        let again = cluster.register(1, Mode::StrictSync, 3).unwrap_err();
        assert_eq!(again.register_code(), Some(1));
        assert_eq!(cluster.write(1, 2), Told::Acked, "a zombie is not asked");
        cluster.demote(3).unwrap();
        cluster.settle(1);
        assert_eq!(cluster.shown(1, R3), None, "it does not attach by itself");
        assert_eq!(cluster.at_mut(1).drop_replica(R3), Ok(Dropped::Clean));
        assert_eq!(cluster.at_mut(1).drop_replica(R3), Err(Error::UnknownName));
        assert_eq!(cluster.register(1, Mode::Async, 3), Ok(Status::Recovery));
        cluster.settle(1);
        assert_eq!(cluster.shown(1, R3), Some((Status::Ready, 0)));
    }
}

#[test]
fn an_unreachable_peer_is_refused_with_the_same_code() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::Sync);
    cluster.demote(3).unwrap();
    cluster.kill(3);
    assert_eq!(cluster.register(1, Mode::Async, 3), Err(Error::NotAccepted));
    assert_eq!(cluster.shown(1, R3), None);
}

#[test]
fn names_and_endpoints_are_unique_02() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::Sync);
    let name_taken = cluster.act(1, |main, net| main.register(R2, Mode::Sync, NodeId(3), net));
    assert_eq!(name_taken.unwrap_err().register_code(), Some(1));
    let peer_taken = cluster.act(1, |main, net| main.register(R3, Mode::Async, NodeId(2), net));
    assert_eq!(peer_taken.unwrap_err().register_code(), Some(2));
    assert_eq!(cluster.at(1).registrations().len(), 1);
    let on_replica = cluster.act(2, |replica, net| {
        replica.register(R3, Mode::Async, NodeId(3), net)
    });
    assert_eq!(on_replica, Err(Error::NotMain));
}

#[test]
fn a_strict_zombie_wakes_up_with_main_and_blocks_every_write_02() {
    for profile in RECORDED {
        let mut cluster = Cluster::new(profile);
        assert_eq!(cluster.register(1, Mode::StrictSync, 3), Err(Error::NotAccepted));
        cluster.write_all(1, [1]);
        cluster.demote(3).unwrap();
        cluster.start(1, Stop::Killed, false);
        cluster.settle(1);
        assert_eq!(cluster.shown(1, R3), Some((Status::Invalid, -1)));
        assert_eq!(cluster.write(1, 2), Told::Aborted);
        assert_eq!(cluster.at_mut(1).drop_replica(R3), Ok(Dropped::Clean));
        assert_eq!(cluster.write(1, 3), Told::Acked);
    }
}

#[test]
fn a_zombie_of_divergence_wakes_up_diverged_and_each_sync_write_reports_it_05() {
    for (profile, behind) in [(Profile::V3_6, -1), (Profile::V3_12, -3)] {
        let mut cluster = Cluster::pair(profile, Mode::Sync);
        cluster.write_all(1, [1]);
        cluster.promote(2).unwrap();
        assert_eq!(cluster.write(1, 100), Told::CommittedUnconfirmed);
        assert_eq!(cluster.write(2, 200), Told::Acked);
        cluster.demote(1).unwrap();
        assert_eq!(
            cluster.register(2, Mode::Sync, 1).unwrap_err().register_code(),
            Some(3)
        );
        assert_eq!(cluster.shown(2, R1), None);
        assert_eq!(cluster.write(2, 201), Told::Acked);
        cluster.start(2, Stop::Killed, false);
        cluster.settle(2);
        assert_eq!(cluster.shown(2, R1), Some((Status::Diverged, behind)));
        assert_eq!(cluster.write(2, 202), Told::CommittedUnconfirmed);
        cluster.settle(2);
        assert_eq!(
            cluster.shown(2, R1).unwrap().0,
            Status::Diverged,
            "pings do not re-check it"
        );
        cluster.kill(1);
        cluster.outage(2);
        assert_eq!(cluster.shown(2, R1).unwrap().0, Status::Invalid, "an outage does");
    }
}

#[test]
fn the_next_release_removes_a_registration_refused_as_diverged() {
    let mut cluster = Cluster::pair(Profile::Next, Mode::Sync);
    cluster.write_all(1, [1]);
    cluster.promote(2).unwrap();
    assert_eq!(cluster.write(1, 100), Told::CommittedUnconfirmed);
    cluster.demote(1).unwrap();
    assert_eq!(cluster.register(2, Mode::Sync, 1), Err(Error::Diverged));
    assert!(cluster.at(2).registrations().is_empty());
}

#[test]
fn an_unrelated_disk_with_data_is_accepted_and_stays_invalid_for_ever() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::Sync);
    cluster.write_all(1, [1]);
    assert_eq!(cluster.write(3, 300), Told::Acked);
    cluster.demote(3).unwrap();
    assert_eq!(cluster.register(1, Mode::Async, 3), Ok(Status::Invalid));
    cluster.outage(1);
    assert_eq!(cluster.shown(1, R3), Some((Status::Invalid, -1)));
    assert_eq!(cluster.writes(3), [300]);
    assert_ne!(cluster.at(3).database_id(), cluster.at(1).database_id());
    assert_eq!(
        cluster.at(2).database_id(),
        cluster.at(1).database_id(),
        "an empty one adopts the id"
    );
}

#[test]
fn a_new_main_steals_a_replica_and_the_old_strict_main_cannot_write() {
    let mut cluster = Cluster::trio(Profile::V3_6, Mode::StrictSync);
    cluster.write_all(1, [1]);
    // Node 2 stays a replica of both; whoever registers last is obeyed.
    cluster.promote(3).unwrap();
    assert_eq!(cluster.register(3, Mode::StrictSync, 2), Ok(Status::Ready));
    assert_eq!(cluster.write(1, 2), Told::Aborted);
    cluster.settle(1);
    assert_eq!(cluster.shown(1, R2), Some((Status::Invalid, 0)));
    assert_eq!(cluster.write(3, 3), Told::Acked);
    assert_eq!(cluster.writes(2), [1, 3]);
}

#[test]
fn a_drop_says_whether_the_replica_had_background_work_20_21() {
    let mut cluster = Cluster::trio(Profile::V3_6, Mode::StrictSync);
    assert_eq!(cluster.write(1, 1), Told::Acked);
    let mut working = cluster.at(1).clone();
    assert_eq!(working.drop_replica(R3), Ok(Dropped::WhileWorking), "undelivered");
    assert_eq!(working.drop_replica(R2), Ok(Dropped::Clean));

    cluster.settle(1);
    let mut level = cluster.at(1).clone();
    assert_eq!(level.drop_replica(R3), Ok(Dropped::Clean), "ready and level");

    cluster.at_mut(1).drop_replica(R3).map(|_| ()).unwrap();
    let id = cluster.fresh();
    cluster.at_mut(3).wipe(EpochId(id));
    assert_eq!(cluster.register(1, Mode::Async, 3), Ok(Status::Recovery));
    let mut recovering = cluster.at(1).clone();
    assert_eq!(recovering.drop_replica(R3), Ok(Dropped::WhileWorking), "recovery");

    cluster.kill(3);
    (0..3).for_each(|_| {
        let _ = cluster.act(1, |main, net| main.ping(R3, net));
    });
    assert_eq!(cluster.shown(1, R3).unwrap().0, Status::Invalid);
    assert_eq!(cluster.at_mut(1).drop_replica(R3), Ok(Dropped::Clean), "dead");
}
