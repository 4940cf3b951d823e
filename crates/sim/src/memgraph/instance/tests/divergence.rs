//! The table of false divergence, and divergence that is real.

use super::*;

/// Node 2 is promoted after node 1 was demoted, and asked what it makes of the
/// others. Every node has the same data.
fn switch_to_2(cluster: &mut Cluster) -> [Result<Status, Error>; 2] {
    cluster.demote(1).unwrap();
    cluster.promote(2).unwrap();
    register_all_at_2(cluster)
}

fn register_all_at_2(cluster: &mut Cluster) -> [Result<Status, Error>; 2] {
    [
        cluster.register(2, Mode::StrictSync, 1),
        cluster.register(2, Mode::Async, 3),
    ]
}

const FINE: [Result<Status, Error>; 2] = [Ok(Status::Ready), Ok(Status::Ready)];
const REFUSED: [Result<Status, Error>; 2] = [Err(Error::Diverged), Err(Error::Diverged)];

/// Two writes, a restart of node 2, two more writes: the common beginning.
fn replica_restarted_in_the_epoch(profile: Profile, stop: Stop) -> Cluster {
    let mut cluster = Cluster::trio(profile, Mode::StrictSync);
    cluster.write_all(1, [1, 2]);
    cluster.restart(2, stop);
    cluster.write_all(1, [3, 4]);
    for node in [2, 3] {
        assert_eq!(cluster.writes(node), [1, 2, 3, 4]);
    }
    cluster
}

#[test]
fn a_candidate_that_never_restarted_is_fine_17a() {
    for profile in RECORDED {
        let mut cluster = Cluster::trio(profile, Mode::StrictSync);
        cluster.write_all(1, [1, 2]);
        assert_eq!(switch_to_2(&mut cluster), FINE);
    }
}

#[test]
fn a_candidate_that_restarted_without_a_commit_since_is_fine_17g() {
    for profile in RECORDED {
        for stop in [Stop::Killed, SIGTERM] {
            let mut cluster = Cluster::trio(profile, Mode::StrictSync);
            cluster.write_all(1, [1, 2]);
            cluster.restart(2, stop);
            assert_eq!(switch_to_2(&mut cluster), FINE);
        }
    }
}

#[test]
fn a_candidate_that_was_terminated_and_applied_more_refuses_all_in_3_6_only_18a() {
    for (profile, expected, truth) in [
        (Profile::V3_6, REFUSED, Verdict::FalselyDiverged),
        (Profile::V3_9, REFUSED, Verdict::FalselyDiverged),
        (Profile::V3_12, FINE, Verdict::Accepted),
    ] {
        let mut cluster = replica_restarted_in_the_epoch(profile, SIGTERM);
        assert_eq!(switch_to_2(&mut cluster), expected, "{profile:?}");
        for peer in [1, 3] {
            assert_eq!(verdict(cluster.at(2), cluster.at(peer)), truth);
        }
    }
}

#[test]
fn a_candidate_that_was_killed_and_applied_more_refuses_all_18d_18gk() {
    for profile in [Profile::V3_6, Profile::V3_9, Profile::V3_12, Profile::Next] {
        let mut cluster = replica_restarted_in_the_epoch(profile, Stop::Killed);
        assert_eq!(switch_to_2(&mut cluster), REFUSED);
        assert_eq!(verdict(cluster.at(2), cluster.at(1)), Verdict::FalselyDiverged);
    }
}

#[test]
fn a_candidate_filled_from_a_snapshot_and_killed_refuses_all_18d() {
    for profile in RECORDED {
        let mut cluster = Cluster::new(profile);
        cluster.write_all(1, [1, 2]);
        cluster.at_mut(1).take_snapshot().unwrap();
        cluster.demote(2).unwrap();
        cluster.demote(3).unwrap();
        assert_eq!(cluster.register(1, Mode::StrictSync, 2), Ok(Status::Recovery));
        assert_eq!(
            cluster.act(1, |main, net| main.recover_snapshot_begin(R2, net)),
            Ok(Status::Recovery)
        );
        assert_eq!(
            cluster.act(1, |main, net| main.recover_snapshot_finish(R2, net)),
            Ok(Status::Ready)
        );
        assert_eq!(cluster.register(1, Mode::Async, 3), Ok(Status::Recovery));
        cluster.settle(1);
        cluster.write_all(1, [3]);
        cluster.restart(2, Stop::Killed);
        cluster.write_all(1, [4, 5]);
        assert_eq!(switch_to_2(&mut cluster), REFUSED);
        assert_eq!(cluster.at_mut(2).delete_snapshot(), Err(Error::LogIncomplete));
    }
}

#[test]
fn a_candidate_with_a_snapshot_and_log_after_it_is_fine_without_a_commit_since_its_restart() {
    for profile in RECORDED {
        let mut cluster = Cluster::trio(profile, Mode::StrictSync);
        cluster.write_all(1, [1, 2]);
        cluster.at_mut(1).take_snapshot().unwrap();
        cluster.write_all(1, [3]);
        cluster.restart(1, Stop::Killed);
        cluster.promote(1).unwrap();
        assert_eq!(cluster.register(1, Mode::StrictSync, 2), Ok(Status::Ready));
        assert_eq!(cluster.register(1, Mode::Async, 3), Ok(Status::Ready));
    }
}

#[test]
fn one_more_restart_right_before_promotion_prevents_it_18b() {
    for profile in RECORDED {
        let mut cluster = replica_restarted_in_the_epoch(profile, Stop::Killed);
        cluster.restart(2, Stop::Killed);
        assert_eq!(switch_to_2(&mut cluster), FINE);
    }
}

#[test]
fn a_main_that_restarted_and_wrote_refuses_all_when_it_is_switched_back_to_18c() {
    for profile in RECORDED {
        let mut cluster = Cluster::trio(profile, Mode::StrictSync);
        cluster.write_all(1, [1, 2]);
        cluster.start(1, Stop::Killed, false);
        cluster.settle(1);
        cluster.write_all(1, [3, 4]);
        assert_eq!(switch_to_2(&mut cluster), FINE, "away is fine");
        cluster.demote(2).unwrap();
        cluster.promote(1).unwrap();
        assert_eq!(cluster.register(1, Mode::StrictSync, 2), Err(Error::Diverged));
        assert_eq!(cluster.register(1, Mode::Async, 3), Err(Error::Diverged));
        assert_eq!(verdict(cluster.at(1), cluster.at(2)), Verdict::FalselyDiverged);
    }
}

/// The false refusal has happened and node 2 took a write alone.
fn refused_and_written(profile: Profile) -> Cluster {
    let mut cluster = replica_restarted_in_the_epoch(profile, Stop::Killed);
    cluster.kill(1);
    cluster.promote(2).unwrap();
    assert_eq!(cluster.register(2, Mode::Async, 3), Err(Error::Diverged));
    assert_eq!(cluster.write(2, 10), Told::Acked);
    cluster.start(1, Stop::Killed, true);
    assert_eq!(cluster.register(2, Mode::StrictSync, 1), Err(Error::Diverged));
    for name in [R1, R3] {
        assert_eq!(cluster.at_mut(2).drop_replica(name), Ok(Dropped::Clean));
    }
    cluster
}

#[test]
fn a_sigkill_of_the_new_main_and_a_second_promotion_cure_it_18g() {
    for profile in RECORDED {
        let mut cluster = refused_and_written(profile);
        cluster.restart(2, Stop::Killed);
        cluster.promote(2).unwrap();
        assert_eq!(
            register_all_at_2(&mut cluster),
            [Ok(Status::Recovery), Ok(Status::Recovery)]
        );
        cluster.settle(2);
        assert_eq!(cluster.write(2, 11), Told::Acked);
        assert_eq!(cluster.writes(1), [1, 2, 3, 4, 10, 11]);
    }
}

#[test]
fn a_snapshot_keeps_the_wrong_history_until_it_is_deleted_18h() {
    for profile in RECORDED {
        let mut cluster = refused_and_written(profile);
        cluster.restart(2, SIGTERM);
        cluster.promote(2).unwrap();
        assert_eq!(register_all_at_2(&mut cluster), REFUSED);
        for name in [R1, R3] {
            assert_eq!(cluster.at_mut(2).drop_replica(name), Ok(Dropped::Clean));
        }
        cluster.at_mut(2).delete_snapshot().unwrap();
        cluster.restart(2, Stop::Killed);
        cluster.promote(2).unwrap();
        assert_eq!(
            register_all_at_2(&mut cluster),
            [Ok(Status::Recovery), Ok(Status::Recovery)]
        );
    }
}

#[test]
fn a_graceful_stop_without_a_snapshot_cures_like_a_kill() {
    let mut cluster = refused_and_written(Profile::V3_6);
    cluster.restart(
        2,
        Stop::Graceful {
            snapshot_on_exit: false,
        },
    );
    cluster.promote(2).unwrap();
    assert_eq!(
        register_all_at_2(&mut cluster),
        [Ok(Status::Recovery), Ok(Status::Recovery)]
    );
}

#[test]
fn a_hard_reset_of_the_peer_is_accepted_by_the_wrong_history() {
    let mut cluster = refused_and_written(Profile::V3_6);
    let id = cluster.fresh();
    cluster.at_mut(3).wipe(EpochId(id));
    assert_eq!(cluster.register(2, Mode::Async, 3), Ok(Status::Recovery));
}

#[test]
fn a_new_epoch_on_the_same_main_prevents_it_18i() {
    for profile in RECORDED {
        let mut cluster = replica_restarted_in_the_epoch(profile, Stop::Killed);
        cluster.demote(1).unwrap();
        cluster.promote(1).unwrap();
        assert_eq!(cluster.register(1, Mode::StrictSync, 2), Ok(Status::Ready));
        assert_eq!(cluster.register(1, Mode::Async, 3), Ok(Status::Ready));
        cluster.write_all(1, [5]);
        cluster.kill(1);
        cluster.promote(2).unwrap();
        cluster.start(1, Stop::Killed, true);
        assert_eq!(register_all_at_2(&mut cluster), FINE);
    }
}

#[test]
fn another_level_member_can_be_promoted_instead_18j() {
    for profile in RECORDED {
        let mut cluster = replica_restarted_in_the_epoch(profile, Stop::Killed);
        assert_eq!(switch_to_2(&mut cluster), REFUSED);
        cluster.demote(2).unwrap();
        cluster.promote(1).unwrap();
        assert_eq!(cluster.register(1, Mode::StrictSync, 2), Ok(Status::Ready));
        assert_eq!(cluster.register(1, Mode::Async, 3), Ok(Status::Ready));
    }
}

#[test]
fn a_peer_that_stopped_before_the_stale_note_is_accepted_by_the_wrong_history() {
    let mut cluster = Cluster::trio(Profile::V3_6, Mode::StrictSync);
    cluster.write_all(1, [1, 2]);
    cluster.kill(3);
    cluster.restart(2, Stop::Killed);
    cluster.write_all(1, [3, 4]);
    cluster.start(3, Stop::Killed, true);
    cluster.demote(1).unwrap();
    cluster.promote(2).unwrap();
    assert_eq!(
        register_all_at_2(&mut cluster),
        [Err(Error::Diverged), Ok(Status::Recovery)]
    );
}

#[test]
fn an_unreplicated_sync_write_is_a_real_divergence_and_a_wipe_heals_it_05() {
    for profile in RECORDED {
        let mut cluster = Cluster::pair(profile, Mode::Sync);
        cluster.write_all(1, [1, 2]);
        cluster.promote(2).unwrap();
        assert_eq!(cluster.write(1, 100), Told::CommittedUnconfirmed);
        assert_eq!(cluster.write(2, 200), Told::Acked);
        cluster.demote(1).unwrap();
        assert_eq!(cluster.register(2, Mode::Sync, 1), Err(Error::Diverged));
        assert_eq!(verdict(cluster.at(2), cluster.at(1)), Verdict::Diverged);
        assert_eq!(cluster.at_mut(2).drop_replica(R1), Ok(Dropped::Clean));
        let (id, db) = (cluster.fresh(), cluster.at(1).database_id());
        cluster.at_mut(1).wipe(EpochId(id));
        assert_eq!(cluster.at(1).database_id(), db);
        assert_eq!(cluster.at(1).role(), Role::Replica);
        assert_eq!(cluster.register(2, Mode::Sync, 1), Ok(Status::Recovery));
        cluster.settle(2);
        assert_eq!(cluster.writes(1), [1, 2, 200]);
    }
}

#[test]
fn a_lagging_replica_is_not_diverged_after_a_failover() {
    let mut cluster = Cluster::trio(Profile::V3_6, Mode::Sync);
    cluster.write_all(1, [1]);
    cluster.kill(3);
    assert_eq!(cluster.write(1, 2), Told::Acked);
    cluster.kill(1);
    cluster.promote(2).unwrap();
    cluster.start(3, Stop::Killed, true);
    assert_eq!(verdict(cluster.at(2), cluster.at(3)), Verdict::Accepted);
    assert_eq!(cluster.register(2, Mode::Sync, 3), Ok(Status::Recovery));
    cluster.settle(2);
    assert_eq!(cluster.writes(3), [1, 2]);
}

#[test]
fn a_replica_ahead_of_the_promoted_one_is_refused_and_can_be_promoted_instead_05b() {
    let mut cluster = Cluster::trio(Profile::V3_6, Mode::Sync);
    cluster.write_all(1, [1]);
    cluster.kill(3);
    assert_eq!(cluster.write(1, 2), Told::Acked);
    cluster.kill(1);
    cluster.start(3, Stop::Killed, true);
    cluster.promote(3).unwrap();
    assert_eq!(verdict(cluster.at(3), cluster.at(2)), Verdict::Diverged);
    assert_eq!(cluster.register(3, Mode::Sync, 2), Err(Error::Diverged));
    cluster.demote(3).unwrap();
    cluster.promote(2).unwrap();
    assert_eq!(cluster.register(2, Mode::Sync, 3), Ok(Status::Recovery));
}
