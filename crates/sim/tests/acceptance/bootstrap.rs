//! 10.1: bootstrap and discovery.

use super::bench::{Run, three_pods, touched};
use mainstay_core::memgraph::Rule;
use mainstay_core::memgraph::ids::{Ordinal, RegistrationName, Term};
use mainstay_core::memgraph::observed::{Contact, Mode, Status};
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::reason::Why;
use mainstay_core::memgraph::record::Writes;
use mainstay_core::memgraph::spec::WritesWithoutSync;
use sim::memgraph::instance::{self, Role};
use sim::memgraph::world::{Action, Look};

const REPLICAS_NAME: RegistrationName = RegistrationName::Async(Ordinal(1));

#[test]
fn b1_three_fresh_empty_pods_become_main_sync_and_async_and_the_gateway_opens() {
    let mut run = Run::fresh(three_pods());
    run.until(|run| run.route(0).is_some());
    assert_eq!(run.looks, 1, "the first look opens the gateway\n{}", run.story());
    run.quiet();
    run.assert_complete();
    assert_eq!(run.roles(), [Role::Main, Role::Replica, Role::Replica]);
    let record = run.record();
    assert_eq!(record.term, Term(1));
    assert_eq!(record.main.as_ref().map(|m| m.pod), Some(Ordinal(0)));
    assert_eq!(record.sync.map(|s| s.pod), Some(Ordinal(1)));
    assert_eq!(run.route(0), Some(0));
    // The scenario's 15 s: one look each to begin, join, hold, make STRICT, prove, and join the ASYNC pod.
    assert!(run.looks <= 7, "{} looks\n{}", run.looks, run.story());
    run.write_acked();
    run.quiet();
    run.assert_complete();
}

#[test]
fn b1_pods_without_the_start_up_fence_which_begin_as_main_end_the_same_way() {
    let mut run = Run::fresh(three_pods());
    for pod in 0..3 {
        run.promote_by_hand(pod);
    }
    run.quiet();
    run.assert_complete();
    assert_eq!(run.roles(), [Role::Main, Role::Replica, Role::Replica]);
}

#[test]
fn b2_two_mains_of_which_any_holds_data_get_no_command_and_no_open_gateway() {
    for with_data in [vec![0], vec![1], vec![0, 1]] {
        let mut run = Run::fresh(three_pods());
        for pod in [0, 1] {
            run.promote_by_hand(pod);
        }
        for pod in &with_data {
            assert!(run.write_directly(*pod));
        }
        run.assert_waits(Rule::Bootstrap, Why::UnknownState);
        run.quiet();
        assert_eq!(
            (run.looks, run.steps.len(), run.route(0)),
            (0, 0, None),
            "data on {with_data:?}"
        );
        assert_eq!((run.roles()[0], run.roles()[1]), (Role::Main, Role::Main));
    }
}

/// pod-0 is MAIN with data, pod-1 and pod-2 are empty REPLICAs, and nobody wrote a record.
fn unrecorded_main(policy: WritesWithoutSync) -> Run {
    let mut run = Run::fresh(three_pods().policy(policy));
    run.promote_by_hand(0);
    assert!(run.write_directly(0));
    run
}

#[test]
fn b3_a_main_without_a_record_is_adopted_and_its_replica_repaired_before_writes_open() {
    let states: [(&str, Option<instance::Mode>); 4] = [
        ("not registered", None),
        ("registered ASYNC", Some(instance::Mode::Async)),
        ("registered SYNC", Some(instance::Mode::Sync)),
        (
            "registered STRICT_SYNC under a foreign name",
            Some(instance::Mode::StrictSync),
        ),
    ];
    for (what, mode) in states {
        // Policy `Never` is the scenario's letter; the default opens at once, as the cluster was open before.
        let mut run = unrecorded_main(WritesWithoutSync::Never);
        if let Some(mode) = mode {
            run.register_by_hand(0, REPLICAS_NAME, mode, 1).unwrap();
        }
        run.until(|run| run.state.record.as_ref().is_some_and(|r| r.main.is_some()));
        assert_eq!(run.record().main.as_ref().unwrap().pod, Ordinal(0), "{what}");
        run.until(Run::open);
        let row = run.registration(0, 1).unwrap();
        assert_eq!(
            (row.mode, row.status),
            (Mode::StrictSync, Status::Ready),
            "{what}: {}",
            run.story()
        );
        assert_eq!(run.record().sync.map(|s| s.name), Some(row.name), "{what}");
        run.quiet();
        run.assert_complete();
        // A new epoch on the same MAIN (R25) is demote and promote; nobody else is ever promoted.
        let on_main = |s: &Step| matches!(s, Step::Promote(t) | Step::Demote(t) if t.pod == Ordinal(0));
        assert!(
            run.role_commands().iter().all(on_main),
            "{what}: an adopted MAIN keeps its office"
        );
    }
}

#[test]
fn b3_by_default_an_adopted_main_goes_on_taking_writes_while_its_replica_is_repaired() {
    let mut run = unrecorded_main(WritesWithoutSync::default());
    run.until(|run| run.route(0).is_some());
    assert_eq!(run.record().sync, None);
    run.write_acked();
    run.quiet();
    run.assert_complete();
}

#[test]
fn b3_a_main_that_lacks_what_the_replica_holds_is_not_adopted() {
    let mut run = Run::protected(three_pods());
    run.write_acked();
    run.quiet();
    // pod-1 served a term that pod-0 never saw; then the record is lost, and pod-0 is the only MAIN.
    run.eyes.silent = vec![0];
    run.act(Action::Observe(0, Look::Plain));
    run.until(|run| run.serves(1));
    run.write_acked();
    run.all([Action::Crash(1), Action::Start(1)]);
    run.eyes.silent.clear();
    run.state.record = None;
    run.forget();
    assert_eq!((run.role(0), run.role(1)), (Role::Main, Role::Replica));
    for (remembered, rule) in [(run.state.status_term, Rule::RecordLost), (None, Rule::Bootstrap)] {
        run.state.status_term = remembered;
        run.assert_waits(rule, Why::UnknownState);
        run.quiet();
        assert_eq!(run.steps, []);
    }
}

#[test]
fn b4_two_replicas_with_data_are_left_alone_until_somebody_says_which_is_main() {
    let mut run = Run::protected(three_pods());
    run.write_acked();
    run.quiet();
    for pod in 0..3 {
        run.all([Action::Crash(pod), Action::Start(pod)]);
    }
    // Nobody remembers: neither the record nor the status of the cluster.
    run.state.record = None;
    run.state.status_term = None;
    run.forget();
    run.assert_waits(Rule::Bootstrap, Why::UnknownState);
    run.quiet();
    assert_eq!(
        (run.looks, run.steps.len()),
        (0, 0),
        "no exit, no mutation, only a look again"
    );
    assert_eq!(run.roles(), [Role::Replica; 3]);
    run.promote_by_hand(0);
    run.quiet();
    run.assert_complete();
    assert_eq!(run.role(0), Role::Main);
}

#[test]
fn b4_a_pod_that_does_not_answer_during_discovery_is_waited_for() {
    let mut run = Run::fresh(three_pods());
    for pod in [0, 1] {
        run.eyes.silent = vec![pod];
        run.assert_waits(Rule::Bootstrap, Why::NotReady { pod: Ordinal(pod) });
        run.quiet();
        assert_eq!((run.looks, run.state.record.is_some()), (0, false));
    }
    // It answers, but a question that needs a transaction fails.
    run.eyes.silent.clear();
    let mut seen = run.seen();
    let Contact::Answered(answer) = &mut seen.pods[1].contact else {
        panic!("it answers")
    };
    answer.data = None;
    let plan = run.plan_for(&seen);
    assert_eq!(plan.steps, []);
    assert_eq!(plan.reasons[0].why, Why::NotReady { pod: Ordinal(1) });
    run.quiet();
    run.assert_complete();
}

#[test]
fn b5_a_replica_in_recovery_at_the_first_look_is_waited_for() {
    let mut run = unrecorded_main(WritesWithoutSync::default());
    run.blocked = vec![Action::Tend(0, 1), Action::Tend(0, 2)];
    run.until(|run| {
        run.registration(0, 1)
            .is_some_and(|r| r.status == Status::Recovery)
    });
    run.quiet();
    let row = run.registration(0, 1).unwrap();
    assert_eq!((row.mode, row.status), (Mode::Async, Status::Recovery));
    run.assert_waits(Rule::Join, Why::CatchingUp { pod: Ordinal(1) });
    assert_eq!(run.dropped_pods(), [0; 0], "DROP in recovery crashes MAIN");
    run.blocked.clear();
    run.quiet();
    run.assert_complete();
    assert_eq!(run.record().writes, Writes::Open);
}

#[test]
fn b7_a_pod_without_an_address_is_never_named_in_a_command() {
    let mut looks = 0;
    let mut run = Run::fresh(three_pods());
    while let Some(action) = run.next() {
        for pod in 0..3_u8 {
            let mut seen = run.seen();
            let entry = &mut seen.pods[usize::from(pod)];
            entry.object.as_mut().unwrap().addressed = false;
            entry.contact = Contact::Unknown;
            entry.replication_port_open = None;
            let plan = run.plan_for(&seen);
            assert!(
                !touched(&plan).contains(&pod),
                "{} has no address: {:?}",
                Ordinal(pod),
                plan.steps
            );
            looks += 1;
        }
        run.act(action);
    }
    run.assert_complete();
    assert!(looks >= 60, "only {looks} looks");
}

#[test]
fn b7_a_pod_that_lost_its_address_after_it_answered_is_not_registered() {
    let mut run = Run::fresh(three_pods());
    while let Some(action) = run.next() {
        for pod in 0..3_u8 {
            let mut seen = run.seen();
            seen.pods[usize::from(pod)].object.as_mut().unwrap().addressed = false;
            let peer = |s: &Step| matches!(s, Step::Register { peer, .. } if peer.pod == Ordinal(pod));
            let plan = run.plan_for(&seen);
            assert!(
                !plan.steps.iter().any(|p| peer(&p.step)),
                "{:?}\n{}",
                plan.steps,
                run.story()
            );
        }
        run.act(action);
    }
    run.assert_complete();
}
