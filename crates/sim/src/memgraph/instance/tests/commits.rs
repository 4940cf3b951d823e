use super::*;

#[test]
fn a_dead_sync_replica_does_not_block_and_catches_up_by_itself_03() {
    for profile in RECORDED {
        let mut cluster = Cluster::pair(profile, Mode::Sync);
        cluster.write_all(1, [1]);
        cluster.kill(2);
        assert_eq!(cluster.write(1, 2), Told::CommittedUnconfirmed);
        assert_eq!(cluster.shown(1, R2), Some((Status::Invalid, -1)));
        cluster.start(2, Stop::Killed, true);
        cluster.settle(1);
        assert_eq!(cluster.shown(1, R2), Some((Status::Ready, 0)));
        assert_eq!(cluster.writes(2), [1, 2]);
    }
}

#[test]
fn a_dead_strict_replica_blocks_until_it_is_dropped_03() {
    for profile in RECORDED {
        let mut cluster = Cluster::pair(profile, Mode::StrictSync);
        cluster.write_all(1, [1]);
        cluster.kill(2);
        let failure = Failure {
            name: R2,
            mode: Mode::StrictSync,
            reason: Reason::Rpc,
        };
        assert_eq!(cluster.begin(1, 2), Begun::Aborted(vec![failure]));
        let failure = Failure {
            reason: Reason::NotInSync,
            ..failure
        };
        assert_eq!(cluster.begin(1, 3), Begun::Aborted(vec![failure]));
        assert_eq!(cluster.writes(1), [1]);
        assert_eq!(cluster.at_mut(1).drop_replica(R2), Ok(Dropped::Clean));
        assert_eq!(cluster.write(1, 4), Told::Acked);
    }
}

#[test]
fn a_replica_in_recovery_aborts_strict_writes_and_its_catch_up_ends_that_10() {
    let mut cluster = Cluster::new(Profile::V3_6);
    cluster.write_all(1, [1]);
    cluster.demote(2).unwrap();
    assert_eq!(cluster.register(1, Mode::StrictSync, 2), Ok(Status::Recovery));
    assert_eq!(cluster.write(1, 2), Told::Aborted);
    assert_eq!(
        cluster.act(1, |main, net| main.recover(R2, net)),
        Ok(Status::Ready)
    );
    assert_eq!(cluster.write(1, 3), Told::Acked);
}

#[test]
fn three_missed_pings_and_no_fewer_make_a_replica_invalid() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    cluster.kill(2);
    let mut ping = || cluster.act(1, |main, net| main.ping(R2, net).unwrap());
    assert_eq!(
        [ping(), ping(), ping(), ping()],
        [Pinged::Missed, Pinged::Missed, Pinged::Doubted, Pinged::Missed]
    );
    assert_eq!(cluster.shown(1, R2), Some((Status::Invalid, 0)));
}

#[test]
fn an_answered_ping_forgets_the_missed_ones() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    for _ in 0..2 {
        cluster.kill(2);
        for _ in 0..2 {
            assert_eq!(cluster.act(1, |main, net| main.ping(R2, net)), Ok(Pinged::Missed));
        }
        cluster.start(2, Stop::Killed, true);
        assert_eq!(
            cluster.act(1, |main, net| main.ping(R2, net)),
            Ok(Pinged::Answered)
        );
    }
    assert_eq!(cluster.shown(1, R2), Some((Status::Ready, 0)));
}

#[test]
fn after_a_quick_restart_of_the_replica_exactly_one_write_fails_03() {
    for (mode, told) in [
        (Mode::StrictSync, Told::Aborted),
        (Mode::Sync, Told::CommittedUnconfirmed),
    ] {
        let mut cluster = Cluster::pair(Profile::V3_6, mode);
        cluster.write_all(1, [1]);
        cluster.restart(2, Stop::Killed);
        cluster.at_mut(1).peer_restarted(NodeId(2));
        assert_eq!(cluster.shown(1, R2), Some((Status::Ready, 0)));
        assert_eq!(cluster.write(1, 2), told);
        cluster.settle(1);
        assert_eq!(cluster.write(1, 3), Told::Acked);
        assert_eq!(cluster.writes(2), cluster.writes(1));
    }
}

#[test]
fn a_lost_finalize_is_acknowledged_and_promotion_loses_the_write_14() {
    for (profile, behind) in [(Profile::V3_6, 0), (Profile::V3_12, -1)] {
        let mut cluster = Cluster::pair(profile, Mode::StrictSync);
        cluster.write_all(1, [1]);
        cluster.loses = Loses::FinalizeMessages;
        assert_eq!(cluster.write(1, 2), Told::Acked);
        assert_eq!(cluster.shown(1, R2), Some((Status::Ready, behind)), "{profile:?}");
        assert_eq!((cluster.writes(1), cluster.writes(2)), (&[1, 2][..], &[1][..]));
        cluster.loses = Loses::Nothing;
        cluster.kill(1);
        cluster.at_mut(2).connection_lost();
        cluster.promote(2).unwrap();
        assert_eq!(cluster.writes(2), [1]);
        assert_eq!(cluster.write(2, 3), Told::Acked);
        cluster.start(1, Stop::Killed, true);
        assert_eq!(verdict(cluster.at(2), cluster.at(1)), Verdict::Diverged);
        assert_eq!(cluster.register(2, Mode::StrictSync, 1), Err(Error::Diverged));
    }
}

#[test]
fn after_a_lost_finalize_nothing_heals_until_the_next_write_aborts_14b() {
    for profile in RECORDED {
        let mut cluster = Cluster::pair(profile, Mode::StrictSync);
        cluster.write_all(1, [1]);
        cluster.loses = Loses::FinalizeMessages;
        assert_eq!(cluster.write(1, 2), Told::Acked);
        cluster.loses = Loses::Nothing;
        cluster.outage(1);
        assert_eq!(cluster.writes(2), [1], "pings re-check nothing");
        assert_eq!(cluster.write(1, 3), Told::Aborted);
        cluster.settle(1);
        assert_eq!(cluster.writes(2), [1, 2]);
        assert_eq!(cluster.write(1, 5), Told::Acked);
        assert_eq!(cluster.writes(2), [1, 2, 5]);
    }
}

#[test]
fn a_vote_that_is_lost_aborts_and_leaves_nothing_14b() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    cluster.loses = Loses::Votes;
    assert_eq!(cluster.write(1, 4), Told::Aborted);
    assert!(cluster.at(2).is_prepared());
    cluster.loses = Loses::Nothing;
    cluster.settle(1);
    assert_eq!(cluster.write(1, 5), Told::Acked);
    assert_eq!((cluster.writes(1), cluster.writes(2)), (&[5][..], &[5][..]));
}

#[test]
fn a_main_that_dies_waiting_for_the_vote_stores_nothing_anywhere_11() {
    for profile in RECORDED {
        let mut cluster = Cluster::pair(profile, Mode::StrictSync);
        cluster.write_all(1, [1]);
        assert_eq!(cluster.begin(1, 2), Begun::Prepared);
        cluster.kill(1);
        cluster.at_mut(2).connection_lost();
        cluster.promote(2).unwrap();
        cluster.start(1, Stop::Killed, true);
        assert_eq!(cluster.register(2, Mode::StrictSync, 1), Ok(Status::Ready));
        assert_eq!((cluster.writes(1), cluster.writes(2)), (&[1][..], &[1][..]));
    }
}

#[test]
fn a_main_that_dies_after_its_local_commit_is_diverged_by_one_unacknowledged_write() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    cluster.write_all(1, [1]);
    assert_eq!(cluster.begin(1, 2), Begun::Prepared);
    cluster.at_mut(1).commit_locally().unwrap();
    cluster.kill(1);
    cluster.promote(2).unwrap();
    assert_eq!(cluster.write(2, 3), Told::Acked);
    cluster.start(1, Stop::Killed, true);
    assert_eq!(cluster.writes(1), [1, 2]);
    assert_eq!(cluster.register(2, Mode::StrictSync, 1), Err(Error::Diverged));
    assert_eq!(
        cluster.at(1).lineage().relation(cluster.at(2).lineage()),
        Relation::Forked
    );
}

#[test]
fn a_sync_main_that_dies_right_after_sending_finds_the_write_in_its_log() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::Sync);
    assert_eq!(cluster.begin(1, 1), Begun::Local);
    assert_eq!(cluster.writes(1), [0_u16; 0]);
    cluster.start(1, Stop::Killed, false);
    assert_eq!((cluster.writes(1), cluster.writes(2)), (&[1][..], &[1][..]));
}

#[test]
fn steps_out_of_order_are_refused() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    assert_eq!(cluster.at_mut(1).commit_locally(), Err(Error::WrongStage));
    assert_eq!(cluster.begin(1, 1), Begun::Prepared);
    assert_eq!(cluster.act(1, Instance::finalize), Err(Error::WrongStage));
    cluster.at_mut(1).commit_locally().unwrap();
    assert_eq!(cluster.at_mut(1).commit_locally(), Err(Error::WrongStage));
    assert_eq!(cluster.at_mut(1).finish(), Err(Error::WrongStage));
    assert_eq!(cluster.at(1).stage(), Some(Stage::Committed));
}

#[test]
fn an_abort_leaves_the_async_replica_replicating_and_the_next_write_skips_it_12() {
    let mut cluster = Cluster::trio(Profile::V3_6, Mode::StrictSync);
    cluster.write_all(1, [1]);
    cluster.kill(2);
    assert_eq!(cluster.write(1, 2), Told::Aborted);
    assert_eq!(cluster.shown(1, R3), Some((Status::Replicating, 0)));
    cluster.settle(1);
    assert_eq!(cluster.shown(1, R3), Some((Status::Replicating, 0)), "sticky");
    cluster.at_mut(1).drop_replica(R2).map(|_| ()).unwrap();
    assert_eq!(cluster.write(1, 3), Told::Acked);
    assert_eq!(cluster.shown(1, R3).unwrap().0, Status::Invalid);
    assert_eq!(cluster.writes(3), [1]);
    cluster.settle(1);
    assert_eq!(cluster.shown(1, R3), Some((Status::Ready, 0)));
    assert_eq!(cluster.writes(3), [1, 3]);
}

#[test]
fn an_abort_after_a_yes_vote_shows_positive_behind_in_old_releases_only_10() {
    for (profile, behind) in [(Profile::V3_6, 1), (Profile::V3_12, 0)] {
        let mut cluster = Cluster::pair(profile, Mode::StrictSync);
        cluster.demote(3).unwrap();
        cluster.register(1, Mode::StrictSync, 3).unwrap();
        cluster.write_all(1, [1]);
        cluster.kill(3);
        assert_eq!(cluster.write(1, 2), Told::Aborted);
        assert_eq!(cluster.shown(1, R2), Some((Status::Ready, behind)), "{profile:?}");
        assert_eq!(cluster.writes(2), [1], "the healthy one must not keep it");
        assert!(!cluster.at(2).is_prepared());
    }
}

#[test]
fn mixed_modes_do_not_wait_for_sync_in_3_6_and_abort_in_3_12_10() {
    for (profile, behind, second) in [
        (Profile::V3_6, -1, Told::Acked),
        (Profile::V3_12, 0, Told::Aborted),
    ] {
        let mut cluster = Cluster::pair(profile, Mode::StrictSync);
        cluster.demote(3).unwrap();
        cluster.register(1, Mode::Sync, 3).unwrap();
        assert_eq!(cluster.write(1, 1), Told::Acked);
        assert_eq!(
            cluster.shown(1, R3),
            Some((Status::Replicating, behind)),
            "{profile:?}"
        );
        assert_eq!(cluster.writes(3), [0_u16; 0], "nothing was sent to it");
        assert_eq!(cluster.write(1, 2), second, "{profile:?}");
        assert_eq!(cluster.shown(1, R3).unwrap().0, Status::Invalid);
        cluster.settle(1);
        assert_eq!(cluster.shown(1, R3), Some((Status::Ready, 0)));
        assert_eq!(cluster.writes(3), cluster.writes(1));
    }
}

#[test]
fn the_second_of_two_quick_writes_is_missed_by_an_async_replica_and_repaired() {
    let mut cluster = Cluster::trio(Profile::V3_6, Mode::Sync);
    assert_eq!(cluster.write(1, 1), Told::Acked);
    assert_eq!(cluster.shown(1, R3), Some((Status::Replicating, -1)));
    assert_eq!(cluster.write(1, 2), Told::Acked);
    assert_eq!(cluster.shown(1, R3), Some((Status::Invalid, -2)));
    assert_eq!(
        cluster.act(1, |main, net| main.deliver_async(R3, net)),
        Ok(Status::Invalid)
    );
    assert_eq!(cluster.writes(3), [1]);
    cluster.settle(1);
    assert_eq!(cluster.shown(1, R3), Some((Status::Ready, 0)));
    assert_eq!(cluster.writes(3), [1, 2]);
}

#[test]
fn a_catch_up_during_a_commit_does_not_make_the_replica_ready() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    cluster.write_all(1, [1]);
    cluster.demote(3).unwrap();
    assert_eq!(cluster.register(1, Mode::Async, 3), Ok(Status::Recovery));
    assert_eq!(cluster.begin(1, 2), Begun::Prepared);
    assert_eq!(
        cluster.act(1, |main, net| main.recover(R3, net)),
        Ok(Status::Invalid)
    );
    assert_eq!(cluster.complete(1), Told::Acked);
    cluster.settle(1);
    assert_eq!(cluster.writes(3), [1, 2]);
}

#[test]
fn a_replica_that_restarts_between_the_votes_and_finalize_loses_the_acknowledged_write() {
    let mut cluster = Cluster::pair(Profile::V3_12, Mode::StrictSync);
    cluster.write_all(1, [1]);
    assert_eq!(cluster.begin(1, 2), Begun::Prepared);
    cluster.restart(2, Stop::Killed);
    assert_eq!(cluster.complete(1), Told::Acked);
    assert_eq!(cluster.shown(1, R2).unwrap().0, Status::Ready);
    assert_eq!(cluster.writes(2), [1]);
    assert_eq!(cluster.promote(2), Ok(()));
}

#[test]
fn finalize_acts_only_on_the_prepared_transaction_of_the_obeyed_main() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    assert_eq!(cluster.begin(1, 1), Begun::Prepared);
    let (main, ts) = (cluster.at(1).main_id(), Ts(1));
    let mut replica = cluster.at(2).clone();
    let foreign = Rpc::Finalize {
        main: MainId(9999),
        ts,
        commit: true,
    };
    assert_eq!(replica.serve(foreign), Answer::No);
    assert_eq!(
        replica.serve(Rpc::Finalize {
            main,
            ts: ts.next(),
            commit: true
        }),
        Answer::Yes
    );
    assert!(replica.is_prepared());
    assert!(replica.store().is_empty());
    assert_eq!(
        replica.serve(Rpc::Finalize {
            main,
            ts,
            commit: true
        }),
        Answer::Yes
    );
    assert_eq!(replica.ldt(), ts);
}

#[test]
fn a_refused_transaction_replaces_what_was_prepared() {
    let mut cluster = Cluster::pair(Profile::V3_6, Mode::StrictSync);
    assert_eq!(cluster.begin(1, 1), Begun::Prepared);
    let (main, db) = (cluster.at(1).main_id(), cluster.at(1).database_id());
    let epoch = cluster.at(1).lineage().epoch;
    let after = Some(Run {
        epoch,
        writer: main,
        last: Ts(7),
    });
    let transaction = Transaction {
        epoch,
        writer: main,
        after,
        ts: Ts(8),
        delta: 8,
    };
    let replica = cluster.at_mut(2);
    assert_eq!(
        replica.serve(Rpc::Prepare {
            main,
            db,
            transaction,
            two_phase: true
        }),
        Answer::No
    );
    assert!(!replica.is_prepared());
}

#[test]
fn a_main_answers_nobody() {
    let mut cluster = Cluster::new(Profile::V3_6);
    assert_eq!(cluster.at_mut(1).serve(Rpc::Ping), Answer::Refused);
    assert_eq!(
        cluster.at_mut(1).serve(Rpc::SwapMain { main: MainId(9) }),
        Answer::Refused
    );
}
