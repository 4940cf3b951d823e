//! Disks that come back with less than they had.

use super::*;

#[test]
fn a_replica_with_an_empty_disk_is_ready_until_somebody_writes_12() {
    for profile in RECORDED {
        let mut cluster = Cluster::trio(profile, Mode::StrictSync);
        cluster.write_all(1, [1, 2, 3]);
        let id = cluster.fresh();
        cluster
            .at_mut(2)
            .lose_volume(DatabaseId(id), EpochId(id), MainId(id));
        cluster.restart(2, SIGTERM);
        assert_eq!(cluster.at(2).role(), Role::Replica);
        cluster.outage(1);
        assert_eq!(
            cluster.shown(1, R2),
            Some((Status::Ready, 0)),
            "MAIN does not know"
        );
        assert!(cluster.at(2).store().is_empty());
        assert_ne!(cluster.at(2).database_id(), cluster.at(1).database_id());
        assert_eq!(cluster.write(1, 4), Told::Aborted);
        cluster.outage(1);
        assert_eq!(cluster.shown(1, R2), Some((Status::Invalid, 0)), "for ever");
        assert_eq!(cluster.at_mut(1).drop_replica(R2), Ok(Dropped::Clean));
        assert_eq!(cluster.register(1, Mode::StrictSync, 2), Ok(Status::Recovery));
        cluster.settle(1);
        assert_eq!(cluster.writes(2), [1, 2, 3]);
        assert_eq!(cluster.at(2).database_id(), cluster.at(1).database_id());
    }
}

#[test]
fn a_replica_with_emptied_files_is_ready_too_and_the_first_write_starts_its_recovery_12() {
    for profile in RECORDED {
        let mut cluster = Cluster::trio(profile, Mode::StrictSync);
        cluster.write_all(1, [1, 2, 3]);
        let id = cluster.fresh();
        cluster.at_mut(2).wipe(EpochId(id));
        cluster.restart(2, Stop::Killed);
        cluster.outage(1);
        assert_eq!(cluster.shown(1, R2), Some((Status::Ready, 0)));
        assert_eq!(
            cluster.at(2).database_id(),
            cluster.at(1).database_id(),
            "the id does not tell"
        );
        assert_eq!(cluster.write(1, 8), Told::Aborted);
        cluster.settle(1);
        assert_eq!(cluster.write(1, 9), Told::Acked);
        assert_eq!(cluster.writes(2), [1, 2, 3, 9]);
    }
}

/// Node 2 was promoted, node 1 committed one write alone, and is a replica now.
fn ahead_by_one() -> Cluster {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::Sync);
    cluster.write_all(1, [1, 2]);
    cluster.promote(2).unwrap();
    assert_eq!(cluster.write(1, 100), Told::CommittedUnconfirmed);
    cluster.demote(1).unwrap();
    cluster
}

#[test]
fn a_main_that_restarts_before_its_first_write_loses_its_epoch_and_accepts_a_fork_05c_12b() {
    let mut cluster = ahead_by_one();
    cluster.start(2, Stop::Killed, false);
    assert_eq!(cluster.at(2).lineage().epoch, cluster.at(1).lineage().epoch);
    assert_eq!(verdict(cluster.at(2), cluster.at(1)), Verdict::Overlooked);
    assert_eq!(cluster.register(2, Mode::Sync, 1), Ok(Status::Ready));
    assert_eq!(cluster.shown(2, R1), Some((Status::Ready, 1)), "replica has more");
    // Its timestamp is taken on the replica: acknowledged, and not there.
    assert_eq!(cluster.write(2, 200), Told::Acked);
    assert_eq!(cluster.writes(1), [1, 2, 100]);
    assert_eq!(cluster.write(2, 201), Told::CommittedUnconfirmed);
    for _ in 0..3 {
        cluster.settle(2);
        let (status, _) = cluster.shown(2, R1).unwrap();
        assert!(
            matches!(status, Status::Invalid | Status::Recovery),
            "never diverged: {status:?}"
        );
    }
    assert_eq!(
        (cluster.writes(1), cluster.writes(2)),
        (&[1, 2, 100][..], &[1, 2, 200, 201][..])
    );
}

#[test]
fn a_marker_write_keeps_the_epoch_05d() {
    let mut cluster = ahead_by_one();
    assert_eq!(cluster.write(2, 50), Told::Acked);
    cluster.start(2, Stop::Killed, false);
    assert_eq!(cluster.register(2, Mode::Sync, 1), Err(Error::Diverged));
}

#[test]
fn the_init_file_and_a_second_promotion_give_a_proper_epoch_05e() {
    let mut cluster = ahead_by_one();
    cluster.start(2, Stop::Killed, true);
    cluster.promote(2).unwrap();
    assert_eq!(cluster.register(2, Mode::Sync, 1), Err(Error::Diverged));
}

#[test]
fn a_main_that_lost_its_tail_acknowledges_a_write_that_its_replica_does_not_take_04c() {
    for profile in RECORDED {
        let mut cluster = Cluster::pair(profile, Mode::StrictSync);
        cluster.at_mut(1).relax_fsync();
        cluster.write_all(1, [6]);
        cluster.at_mut(1).fsynced();
        cluster.write_all(1, [7, 8]);
        cluster.start(1, Stop::PowerLost, false);
        assert_eq!(cluster.writes(1), [6]);
        cluster.settle(1);
        assert_eq!(cluster.shown(1, R2), Some((Status::Ready, 2)), "positive");
        assert_eq!(verdict(cluster.at(1), cluster.at(2)), Verdict::Overlooked);
        assert_eq!(cluster.write(1, 9), Told::Acked);
        assert_eq!(cluster.writes(2), [6, 7, 8]);
        assert_eq!(
            cluster.at(1).lineage().relation(cluster.at(2).lineage()),
            Relation::Forked
        );
        assert_eq!(
            cluster.write(1, 10),
            Told::Acked,
            "timestamp of the last lost one"
        );
        assert_eq!(cluster.write(1, 11), Told::Aborted);
        assert_eq!(cluster.shown(1, R2).unwrap().0, Status::Invalid);
    }
}

#[test]
fn power_loss_takes_nothing_when_every_commit_is_fsynced() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    cluster.write_all(1, [1]);
    cluster.start(1, Stop::PowerLost, false);
    assert_eq!(cluster.writes(1), [1]);
}

#[test]
fn a_kill_takes_nothing_even_without_fsync() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    cluster.at_mut(1).relax_fsync();
    cluster.write_all(1, [1]);
    cluster.start(1, Stop::Killed, false);
    assert_eq!(cluster.writes(1), [1]);
}

#[test]
fn a_replica_that_lost_its_tail_is_behind_and_recovers() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    cluster.at_mut(2).relax_fsync();
    cluster.write_all(1, [1, 2]);
    cluster.restart(2, Stop::PowerLost);
    assert!(cluster.at(2).store().is_empty());
    assert_eq!(cluster.shown(1, R2), Some((Status::Ready, 0)));
    assert_eq!(cluster.write(1, 3), Told::Aborted);
    cluster.settle(1);
    assert_eq!(cluster.writes(2), [1, 2]);
}

#[test]
fn promotion_between_the_halves_of_a_snapshot_recovery_gives_an_empty_main_15() {
    for profile in RECORDED {
        let mut cluster = Cluster::trio(profile, Mode::StrictSync);
        cluster.write_all(1, [1, 2]);
        cluster.kill(3);
        assert_eq!(cluster.write(1, 3), Told::Acked);
        cluster.at_mut(1).take_snapshot().unwrap();
        cluster.outage(1);
        cluster.start(3, Stop::Killed, true);
        assert_eq!(
            cluster.act(1, |main, net| main.check(R3, net)),
            Ok(Status::Recovery)
        );
        assert_eq!(
            cluster.act(1, |main, net| main.recover_snapshot_begin(R3, net)),
            Ok(Status::Recovery)
        );
        assert_eq!(cluster.promote(3), Ok(()));
        assert!(cluster.at(3).store().is_empty());
        assert_eq!(cluster.at(3).ldt(), Ts::ZERO);
        assert_eq!(
            cluster.act(1, |main, net| main.recover_snapshot_finish(R3, net)),
            Ok(Status::Invalid)
        );
        // What it was filled with before does not come back either.
        cluster.start(3, Stop::Killed, true);
        assert!(cluster.at(3).store().is_empty());
    }
}

#[test]
fn promotion_of_a_replica_that_was_never_filled_gives_an_empty_main_15() {
    let mut cluster = Cluster::new(Profile::V3_6);
    cluster.write_all(1, [1]);
    cluster.demote(3).unwrap();
    assert_eq!(cluster.register(1, Mode::Async, 3), Ok(Status::Recovery));
    assert_eq!(cluster.promote(3), Ok(()));
    assert!(cluster.at(3).store().is_empty());
    assert_eq!(
        cluster.act(1, |main, net| main.recover(R3, net)),
        Ok(Status::Invalid)
    );
}

#[test]
fn replicas_take_snapshots_only_in_newer_releases() {
    for (profile, expected) in [
        (Profile::V3_6, Err(Error::ReplicaSnapshot)),
        (Profile::V3_12, Ok(())),
    ] {
        let mut cluster = Cluster::pair(profile, Mode::StrictSync);
        cluster.write_all(1, [1]);
        assert_eq!(cluster.at_mut(2).take_snapshot(), expected);
        assert_eq!(cluster.at(2).snapshot().is_some(), expected.is_ok());
    }
}

#[test]
fn a_snapshot_keeps_the_epoch_of_a_main_that_never_wrote() {
    let mut cluster = ahead_by_one();
    cluster.start(2, SIGTERM, false);
    assert_eq!(cluster.register(2, Mode::Sync, 1), Err(Error::Diverged));
}

#[test]
fn an_instance_stays_small_enough_for_an_explorer() {
    assert!(
        size_of::<Instance<Writes>>() <= 256,
        "{}",
        size_of::<Instance<Writes>>()
    );
}

#[test]
fn power_loss_takes_a_snapshot_that_was_not_fsynced_too() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    cluster.at_mut(1).relax_fsync();
    cluster.write_all(1, [1]);
    cluster.at_mut(1).take_snapshot().unwrap();
    cluster.start(1, Stop::PowerLost, false);
    assert_eq!(cluster.at(1).snapshot(), None);
    assert_eq!(cluster.at(1).ldt(), Ts::ZERO);
}

#[test]
fn a_new_volume_keeps_the_way_commits_are_written() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::Sync);
    cluster.at_mut(1).relax_fsync();
    cluster
        .at_mut(1)
        .lose_volume(DatabaseId(50), EpochId(50), MainId(50));
    cluster.write_all(1, [1]);
    cluster.start(1, Stop::PowerLost, false);
    assert!(cluster.at(1).store().is_empty());
}
