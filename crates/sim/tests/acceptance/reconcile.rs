//! 10.2: a serving cluster whose pods come, go and misbehave (R2, R5 to R8, R12).

use super::bench::{Run, three_pods};
use mainstay_core::memgraph::Rule;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::observed::Status;
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::reason::Why;
use mainstay_core::memgraph::record::Writes;
use mainstay_core::memgraph::spec::WritesWithoutSync;
use sim::memgraph::instance::Role;
use sim::memgraph::world::{Action, Look};

fn with_a_write() -> Run {
    let mut run = Run::protected(three_pods());
    run.write_acked();
    run.quiet();
    run.forget();
    run
}

#[test]
fn r2_a_sync_replica_that_is_invalid_for_a_moment_is_not_dropped_and_needs_nothing_afterwards() {
    let mut run = with_a_write();
    run.eyes.young = true;
    run.all([Action::Cut(0, 1), Action::Tend(0, 1)]);
    assert_eq!(run.registration(0, 1).unwrap().status, Status::Invalid);
    run.assert_waits(Rule::Stuck, Why::MainReadOnly { pod: Ordinal(1) });
    assert_eq!(run.write(), None, "Memgraph refuses it");
    run.act(Action::Heal(0, 1));
    run.quiet();
    run.assert_whole();
    assert_eq!(run.steps, [], "no action was needed");
    // The refused write left the ASYNC pod `replicating`; the next one finds out and MAIN mends it.
    run.write_acked();
    run.quiet();
    run.assert_complete();
}

#[test]
fn r2_a_sync_replica_that_is_down_is_never_dropped_however_long_it_takes() {
    let mut run = with_a_write();
    run.blocked = vec![Action::Start(1)];
    run.act(Action::Crash(1));
    run.quiet();
    run.assert_waits(Rule::Stuck, Why::MainReadOnly { pod: Ordinal(1) });
    assert_eq!(run.steps, []);
    assert_eq!(run.write(), None, "Memgraph refuses it");
    // The scenario wants no action after that either, but another process must be proven anew (R2, R25).
    run.blocked.clear();
    run.quiet();
    run.assert_complete();
}

#[test]
fn r2_a_sync_replica_that_never_recovers_is_made_anew_but_only_after_writes_stopped() {
    // Differs from the scenario: it answers us, so nothing but its registration is broken.
    let mut run = with_a_write();
    run.blocked = vec![Action::Heal(0, 1)];
    run.all([Action::Cut(0, 1), Action::Tend(0, 1)]);
    run.until(|run| run.dropped_pods() == [1]);
    assert_eq!((run.record().writes, run.record().sync), (Writes::Held, None));
    run.some(100);
    assert_ne!(run.record().writes, Writes::Open, "nobody protects MAIN");
    assert_eq!(run.write(), None);
    run.blocked.clear();
    run.quiet();
    run.assert_complete();
}

#[test]
fn r5_an_extra_main_is_demoted_by_the_next_look_and_nobody_is_registered_to_it() {
    for stray in [1, 2] {
        let mut run = with_a_write();
        run.promote_by_hand(stray);
        run.act(Action::Observe(0, Look::Plain));
        run.finish_turn(0);
        assert_eq!(run.role(stray), Role::Replica, "{}", run.story());
        assert_eq!((run.looks, run.registered_pods()), (1, vec![]));
        run.quiet();
        run.assert_complete();
        assert_eq!(run.role(0), Role::Main);
    }
}

#[test]
fn r5_an_extra_main_that_took_a_write_of_its_own_is_not_followed_and_waits_for_a_human() {
    let mut run = with_a_write();
    run.promote_by_hand(1);
    assert!(run.write_directly(1), "somebody writes past the gateways");
    run.quiet();
    assert_eq!((run.role(0), run.role(1)), (Role::Main, Role::Replica));
    // It protected MAIN until a moment ago: the seeds reset a SYNC replica only when a human says so (R14).
    run.assert_waits(Rule::R14, Why::NeedsApproval { pod: Ordinal(1) });
    assert!(!run.steps.iter().any(|s| matches!(s, Step::WriteMarker { .. })));
}

#[test]
fn r6_the_async_pod_follows_the_new_main_although_the_old_mains_node_is_lost() {
    let mut run = with_a_write();
    run.blocked = vec![Action::Start(0)];
    run.eyes.unreported = vec![0];
    run.eyes.silent = vec![0];
    run.act(Action::Crash(0));
    run.until(|run| run.serves(1));
    let begun = run.looks;
    run.until(|run| run.registration(1, 2).is_some_and(|r| r.status == Status::Ready));
    assert!(
        run.looks <= begun + 1,
        "{} looks\n{}",
        run.looks - begun,
        run.story()
    );
    run.write_acked();
    run.quiet();
    assert!(run.state.acked.is_within(&run.state.pods[2].db.store().writes));
    run.assert_waits(Rule::Join, Why::PartnerAway { pod: Ordinal(0) });
}

#[test]
fn r7_a_pod_that_comes_back_elsewhere_keeps_its_registration_by_name() {
    let mut run = with_a_write();
    run.act(Action::Crash(2));
    let pod = &mut run.state.pods[2];
    (pod.uid, pod.recreate) = (pod.uid + 1, true);
    run.act(Action::Tend(0, 2));
    assert_eq!(run.registration(0, 2).unwrap().status, Status::Invalid);
    run.quiet();
    run.assert_complete();
    assert_eq!(
        (run.registered_pods(), run.dropped_pods()),
        (vec![], vec![]),
        "MAIN finds it by itself"
    );
}

#[test]
fn r8_pods_join_and_leave_and_later_registrations_still_work() {
    let mut config = three_pods();
    config.pods = 5;
    let mut run = Run::fresh(config);
    let scale = |run: &mut Run, to: u8| {
        run.config.spec.replicas = to;
        for pod in 0..5 {
            if pod >= to && run.state.pods[usize::from(pod)].alive {
                run.act(Action::Crash(pod));
            }
            run.state.pods[usize::from(pod)].scaled_away = pod >= to;
        }
        run.forget();
        run.quiet();
        run.assert_complete();
    };
    scale(&mut run, 3);
    run.write_acked();
    for (to, joined, left) in [
        (5, vec![3, 4], vec![]),
        (3, vec![], vec![3, 4]),
        (4, vec![3], vec![]),
    ] {
        scale(&mut run, to);
        assert_eq!(
            (run.registered_pods(), run.dropped_pods()),
            (joined, left),
            "to {to}\n{}",
            run.story()
        );
        assert_eq!(run.listed(0).len(), usize::from(to) - 1);
        assert_eq!(run.role_commands(), [], "the pair is not touched");
        run.write_acked();
    }
}

/// At every moment of a bootstrap, a restart and a failover: what if this pod were being deleted?
fn never_registered_while_terminating(pod: u8) {
    let mut run = Run::fresh(three_pods());
    let mut looks = 0;
    for trouble in [
        None,
        Some(Action::Crash(1)),
        Some(Action::Crash(0)),
        Some(Action::Crash(2)),
    ] {
        run.all(trouble);
        while let Some(action) = run.next() {
            let mut seen = run.seen();
            if let Some(object) = &mut seen.pods[usize::from(pod)].object {
                object.terminating = true;
            }
            let plan = run.plan_for(&seen);
            let joins = |s: &Step| matches!(s, Step::Register { peer, .. } if peer.pod == Ordinal(pod));
            assert!(
                !plan.steps.iter().any(|p| joins(&p.step)),
                "{:?}\n{}",
                plan.steps,
                run.story()
            );
            looks += 1;
            run.act(action);
        }
        run.assert_complete();
    }
    assert!(looks > 60, "only {looks} looks");
}

#[test]
fn r12_a_terminating_async_replica_is_not_registered() {
    never_registered_while_terminating(2);
}

#[test]
fn r12_a_terminating_sync_replica_is_not_registered() {
    never_registered_while_terminating(1);
}

#[test]
fn r12_a_terminating_replica_keeps_its_registration_and_blocks_nobody() {
    let mut run = with_a_write();
    // The other ASYNC work still happens: pod-2 is terminating, and the pair's repair goes on beside it.
    let mut seen = run.seen();
    seen.pods[2].object.as_mut().unwrap().terminating = true;
    assert_eq!(run.plan_for(&seen).steps, [], "left as it is");
    run.act(Action::HandDrop(0, 1));
    let mut seen = run.seen();
    seen.pods[2].object.as_mut().unwrap().terminating = true;
    assert!(
        matches!(run.plan_for(&seen).steps[0].step, Step::WriteRecord(_)),
        "R17 is not delayed"
    );
}

#[test]
fn r2_with_policy_always_main_goes_on_without_its_sync_replica() {
    let mut run = Run::protected(three_pods().policy(WritesWithoutSync::Always));
    run.blocked = vec![Action::Start(1)];
    run.act(Action::Crash(1));
    run.quiet();
    assert_eq!(run.registration(0, 1), None, "withdrawn first, then dropped");
    assert_eq!((run.record().sync, run.record().writes), (None, Writes::Open));
    run.write_acked();
    run.blocked.clear();
    run.quiet();
    run.assert_complete();
}
