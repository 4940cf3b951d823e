//! 10.3: MAIN fails (F1, F3 to F9, F14, F15, F17). F11 and F16 have files of their own.

use super::bench::{Run, promotes, three_pods};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::observed::Status;
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::reason::Why;
use mainstay_core::memgraph::record::{State as Phase, Writes};
use mainstay_core::memgraph::spec::WritesWithoutSync;
use mainstay_core::memgraph::{Rule, counts_as_protected};
use sim::memgraph::instance::Role;
use sim::memgraph::world::{Action, Config, Look, process};
use std::time::Duration;

fn with_writes(config: Config) -> Run {
    let mut run = Run::protected(config);
    for _ in 0..3 {
        run.write_acked();
        run.quiet();
    }
    run.forget();
    run
}

#[test]
fn f1_when_main_is_killed_the_first_look_fails_over_and_no_acknowledged_write_is_missing() {
    let mut run = with_writes(three_pods());
    run.blocked = vec![Action::Start(0)];
    run.act(Action::Crash(0));
    run.until(|run| run.route(0) == Some(1));
    // 3 s of detection are probes before this look; promotion is the first command after the record.
    assert_eq!(run.looks, 1, "{}", run.story());
    let commands: Vec<_> = run
        .steps
        .iter()
        .filter(|s| !matches!(s, Step::AwaitFence { .. }))
        .collect();
    assert!(matches!(commands[0], Step::WriteRecord(_)), "{commands:?}");
    assert!(
        matches!(commands[1], Step::Promote(t) if t.pod == Ordinal(1)),
        "{commands:?}"
    );
    assert_eq!(commands.len(), 4, "record, promote, mark, record: {commands:?}");
    run.write_acked();
    run.blocked.clear();
    run.quiet();
    run.assert_complete();
    assert_eq!((run.role(0), run.role(1)), (Role::Replica, Role::Main));
    assert_eq!(run.state.acked.len(), 4);
}

/// MAIN hangs: it answers nobody and does nothing, and its connections stay open.
fn hang_main(run: &mut Run) {
    run.eyes.silent = vec![0];
    let stands = [
        Action::CommitLocally(0),
        Action::Finalize(0),
        Action::Acknowledge(0),
    ];
    run.blocked = stands
        .into_iter()
        .chain([1, 2].map(|pod| Action::Tend(0, pod)))
        .collect();
}

fn main_goes_on(run: &mut Run) {
    run.eyes.silent.clear();
    run.blocked.clear();
}

#[test]
fn f3_a_main_that_hangs_is_replaced_and_demoted_when_it_goes_on() {
    let mut run = with_writes(three_pods());
    hang_main(&mut run);
    run.until(|run| run.route(0) == Some(1));
    assert_eq!(
        run.looks,
        1,
        "the probes' time-outs are before this look\n{}",
        run.story()
    );
    assert_eq!(run.role(0), Role::Main, "nobody could demote it");
    run.write_acked();
    main_goes_on(&mut run);
    assert!(
        !run.write_directly(0),
        "its STRICT_SYNC replica is MAIN now and votes no"
    );
    run.until(|run| run.role(0) == Role::Replica);
    run.quiet();
    run.assert_complete();
    assert_eq!(run.role(1), Role::Main);
}

#[test]
fn f3_a_commit_that_hung_with_main_is_never_acknowledged_afterwards() {
    // "Committed nothing" is not ours to promise: an unanswered transaction may end up in the old MAIN's
    // data. No client hears of it, and the data is set aside when the pod rejoins (R14).
    for stages in 0..2 {
        let mut run = with_writes(three_pods());
        let (_, write) = run.begin_write(0).unwrap();
        run.all([Action::CommitLocally(0)].into_iter().take(stages));
        hang_main(&mut run);
        run.until(|run| run.route(0) == Some(1));
        main_goes_on(&mut run);
        run.quiet();
        run.assert_complete();
        assert!(
            !run.state.acked.contains(write),
            "stage {stages}\n{}",
            run.story()
        );
        let copies = (0..3).filter(|pod| run.holds(*pod, write)).count();
        assert_eq!(copies, 0, "stage {stages}\n{}", run.story());
    }
}

#[test]
fn f4_a_main_that_only_we_cannot_reach_stays_while_a_gateway_still_hears_it() {
    let mut config = three_pods();
    config.spec.veto = Duration::from_secs(1);
    let mut run = with_writes(config);
    run.eyes.silent = vec![0];
    run.eyes.heard = Some(process(0, run.state.pods[0].run));
    run.assert_waits(Rule::R21, Why::VetoedByGateway { main: Ordinal(0) });
    run.quiet();
    assert_eq!(run.steps, []);
    run.write_acked();
}

#[test]
fn f4_a_main_that_only_we_cannot_reach_commits_nothing_after_the_promotion() {
    for stage in 0..=2 {
        let mut config = three_pods();
        config.gateways = 2;
        let mut run = with_writes(config);
        run.all([Action::Read(1), Action::Connect(1)]);
        run.begin_write(0).unwrap();
        run.all(
            [Action::CommitLocally(0), Action::Finalize(0)]
                .into_iter()
                .take(stage),
        );
        let acked = run.state.acked.len();
        run.eyes.silent = vec![0];
        run.act(Action::Observe(0, Look::Plain));
        run.until(|run| run.role(1) == Role::Main);
        assert!(
            run.state.gateways.iter().all(|g| g.session.is_none()),
            "every client of the old MAIN is cut"
        );
        assert_eq!(run.write_on_session(1), None);
        run.quiet();
        assert!(
            !run.write_directly(0),
            "it is cut off by its own STRICT_SYNC replica"
        );
        assert!(
            run.state.acked.len() <= acked + 1,
            "at most the write that was under way"
        );
        run.eyes.silent.clear();
        run.quiet();
        run.assert_complete();
        assert_eq!(run.role(1), Role::Main);
    }
}

#[test]
fn f5_a_main_that_nobody_reaches_is_replaced_and_acknowledges_nothing_until_it_follows() {
    let mut run = with_writes(three_pods());
    run.all([Action::Cut(0, 1), Action::Cut(0, 2)]);
    run.eyes.silent = vec![0];
    run.act(Action::Observe(0, Look::Plain));
    run.until(|run| run.route(0) == Some(1));
    run.write_acked();
    assert_eq!(run.role(0), Role::Main, "nobody could demote it");
    assert!(!run.write_directly(0), "its STRICT_SYNC replica does not vote");
    run.all([Action::Heal(0, 1), Action::Heal(0, 2)]);
    run.eyes.silent.clear();
    run.quiet();
    run.assert_complete();
    assert_eq!((run.role(0), run.role(1)), (Role::Replica, Role::Main));
}

#[test]
fn f15_sixty_failovers_in_a_row_lose_nothing_and_leave_nobody_diverged() {
    let mut run = with_writes(three_pods());
    for round in 0..60 {
        let main = run.state.recorded_main().unwrap();
        run.write_acked();
        run.act(Action::Crash(main));
        run.quiet();
        run.assert_complete();
        let next = run.state.recorded_main().unwrap();
        let listed = run.listed(next);
        assert!(
            listed.iter().all(|r| r.status != Status::Diverged),
            "round {round}: {listed:?}"
        );
        run.forget();
    }
    assert_eq!(run.state.acked.len(), 63);
}

/// Puts pod-2's registration into this status; `None` is down.
fn spoil_async(run: &mut Run, status: Option<Status>) {
    match status {
        None => {
            run.act(Action::Crash(2));
            return;
        }
        Some(Status::Ready) => {}
        Some(Status::Invalid) => run.all([Action::Cut(0, 2), Action::Tend(0, 2)]),
        Some(Status::Replicating) => {
            run.act(Action::Cut(0, 1));
            assert_eq!(run.write(), None);
            run.all([Action::Heal(0, 1), Action::Tend(0, 1)]);
        }
        Some(Status::Recovery) => {
            run.all([
                Action::HandDrop(0, 2),
                Action::Crash(2),
                Action::LoseVolume(2),
                Action::Start(2),
            ]);
            run.blocked = vec![Action::Tend(0, 2)];
            run.quiet();
        }
        Some(Status::Diverged) => {
            run.promote_by_hand(2);
            assert!(run.write_directly(2));
            run.demote_by_hand(2);
            let name = run.registration(0, 2).unwrap().name;
            run.act(Action::HandDrop(0, 2));
            let mode = sim::memgraph::instance::Mode::Async;
            assert!(run.register_by_hand(0, name, mode, 2).is_err());
        }
    }
    let row = run.registration(0, 2).unwrap();
    // A registration that is refused as diverged is a zombie, and shows no status at all.
    assert!(Some(row.status) == status || !row.attached, "{row:?}");
}

#[test]
fn f6_no_state_of_the_async_replica_keeps_failover_back() {
    use Status::{Diverged, Invalid, Ready, Recovery, Replicating};
    for status in [
        Some(Ready),
        Some(Invalid),
        Some(Replicating),
        Some(Recovery),
        Some(Diverged),
        None,
    ] {
        let mut run = with_writes(three_pods());
        spoil_async(&mut run, status);
        run.forget();
        run.blocked
            .extend([Action::Start(0), Action::Start(2), Action::Heal(0, 2)]);
        run.act(Action::Crash(0));
        assert_eq!(promotes(&run.plan()), [1], "{status:?}");
        run.until(|run| run.route(0) == Some(1));
        assert_eq!(run.looks, 1, "{status:?}\n{}", run.story());
        run.write_acked();
        run.blocked.clear();
        run.quiet();
        run.assert_complete();
    }
}

/// pod-1 is another process than the proven one, and MAIN is dead.
fn both_down() -> Run {
    let mut run = with_writes(three_pods());
    run.all([Action::Crash(1), Action::Tend(0, 1), Action::Crash(0)]);
    run.blocked = vec![Action::Start(0), Action::Start(1)];
    run
}

#[test]
fn f7_without_a_proven_replica_nobody_is_promoted_and_the_old_main_is_awaited() {
    let mut run = both_down();
    run.assert_waits(Rule::Stuck, Why::NobodyEntitled { awaited: Ordinal(0) });
    run.quiet();
    assert_eq!(run.steps, []);
    assert_eq!(
        run.write(),
        None,
        "a gateway gets no session with a MAIN that does not answer"
    );
    // Differs from the scenario: the replica alone is not enough, because another process of it was proven.
    run.blocked = vec![Action::Start(0)];
    run.quiet();
    assert_eq!(run.role_commands(), []);
    run.assert_waits(Rule::Stuck, Why::NobodyEntitled { awaited: Ordinal(0) });
    run.blocked.clear();
    run.quiet();
    run.assert_complete();
    assert_eq!(run.role(0), Role::Main, "it returned with everything it had");
}

#[test]
fn f7_the_old_main_alone_is_enough_to_go_on() {
    let mut run = both_down();
    run.blocked = vec![Action::Start(1)];
    let old = run.record().term;
    run.until(|run| run.serves(0) && run.state.gateways[0].gate.term() > old);
    run.write_acked();
    run.blocked.clear();
    run.quiet();
    run.assert_complete();
}

#[test]
fn f7_a_proven_replica_whose_status_was_invalid_is_promoted_all_the_same() {
    // Differs from the scenario: a status is a cache. Without this replica nothing was acknowledged, so it
    // has everything.
    let mut run = with_writes(three_pods());
    run.all([Action::Cut(0, 1), Action::Tend(0, 1)]);
    assert_eq!(run.write(), None);
    assert_eq!(run.registration(0, 1).unwrap().status, Status::Invalid);
    run.blocked = vec![Action::Start(0)];
    run.act(Action::Crash(0));
    run.until(|run| run.route(0) == Some(1));
    run.blocked.clear();
    run.quiet();
    run.assert_complete();
}

#[test]
fn f8_an_async_pod_is_never_promoted_not_even_by_an_override() {
    // Differs from the scenario: an override names one of the pair; an ASYNC pod may lack any number of writes.
    let mut run = both_down();
    run.quiet();
    run.act(Action::Override(2));
    run.quiet();
    assert_eq!((run.steps.len(), run.role(2)), (0, Role::Replica));
    run.assert_waits(Rule::Stuck, Why::NobodyEntitled { awaited: Ordinal(0) });
}

#[test]
fn f8_an_override_makes_the_named_pod_main_and_says_so() {
    let mut run = both_down();
    run.blocked = vec![Action::Start(0)];
    run.quiet();
    assert_eq!(run.role(1), Role::Replica);
    run.act(Action::Override(1));
    let why = run.plan().reasons[0].clone();
    assert_eq!(
        (why.rule, why.why),
        (Rule::Override, Why::Overridden { pod: Ordinal(1) })
    );
    run.until(|run| run.route(0) == Some(1));
    let fence = |s: &Step| matches!(s, Step::AwaitFence { .. });
    assert!(run.steps.iter().any(fence), "only the fence is not negotiable");
    run.write_acked();
}

#[test]
fn f9_an_operator_that_starts_when_main_dies_decides_from_the_record_and_one_look() {
    let mut run = with_writes(three_pods());
    run.blocked = vec![Action::Start(0)];
    run.all([Action::Die(0), Action::Crash(0)]);
    assert_eq!(promotes(&run.plan()), [1]);
    run.until(|run| run.route(0) == Some(1));
    assert_eq!(run.looks, 1);
    // And with the record alone, before the replica answered: no guess.
    let mut run = with_writes(three_pods());
    run.all([Action::Die(0), Action::Crash(0)]);
    run.blocked = vec![Action::Start(0)];
    run.eyes.silent = vec![1];
    run.assert_waits(Rule::Stuck, Why::NobodyEntitled { awaited: Ordinal(0) });
}

fn after_failover(policy: WritesWithoutSync) -> Run {
    let mut run = with_writes(three_pods().policy(policy));
    run.blocked = vec![Action::Start(0)];
    run.act(Action::Crash(0));
    run.until(|run| run.serves(1));
    run.quiet();
    run.forget();
    // Ten minutes are many looks, and each of them decides the same.
    run.assert_waits(Rule::Join, Why::PartnerAway { pod: Ordinal(0) });
    run
}

#[test]
fn f14_with_policy_never_writes_stay_closed_until_the_pair_is_protected_again() {
    // `requireSync` is called `Never`; the ASYNC pod does not become SYNC, only the pair may (promotion of a
    // pod outside of it is never safe).
    let mut run = after_failover(WritesWithoutSync::Never);
    assert_eq!((run.record().writes, run.route(0)), (Writes::Closed, None));
    assert!(
        run.registration(1, 2).is_some_and(|r| r.status == Status::Ready),
        "the ASYNC pod follows"
    );
    run.blocked.clear();
    run.until(Run::open);
    assert!(run.record().sync.is_some(), "opened by the proof");
    run.quiet();
    run.assert_complete();
}

#[test]
fn f14_with_the_other_policies_writes_are_open_and_the_cluster_says_it_is_not_protected() {
    // `allowDegraded` is called `AfterFailover` (default) or `Always`.
    for policy in [WritesWithoutSync::AfterFailover, WritesWithoutSync::Always] {
        let mut run = after_failover(policy);
        assert_eq!(run.route(0), Some(1));
        assert!(!counts_as_protected(
            run.config.spec.durability,
            true,
            run.record()
        ));
        run.write_acked();
        run.blocked.clear();
        run.quiet();
        run.assert_complete();
        assert!(counts_as_protected(
            run.config.spec.durability,
            true,
            run.record()
        ));
    }
}

#[test]
fn f17_nobody_is_sent_to_the_pod_under_promotion_and_no_replica_takes_a_write() {
    let mut run = with_writes(three_pods());
    run.act(Action::Crash(0));
    let mut moments = 0;
    while let Some(action) = run.next() {
        run.act(action);
        if run.record().state != Phase::Serving {
            let seen = (
                run.state.gateways[0].gate.term(),
                run.state.gateways[0].gate.route(),
            );
            assert!(
                seen.0 < run.record().term || seen.1.is_none(),
                "{seen:?}\n{}",
                run.story()
            );
            moments += 1;
        }
        for pod in (0..3).filter(|p| run.role(*p) == Role::Replica) {
            assert!(!run.clone().write_directly(pod), "a client of a replica");
        }
    }
    assert!(moments >= 4, "{moments} moments");
    run.assert_complete();
}
