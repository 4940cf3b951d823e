//! 10.7: operators that lose their lease, the API, or their view of the pods (L1, L3, L6, L7).

use super::bench::{Run, promotes, three_pods};
use super::lease::Election;
use mainstay_core::memgraph::Plan;
use mainstay_core::memgraph::ids::{PodUid, ProcessId};
use mainstay_core::memgraph::observed::Contact;
use mainstay_core::memgraph::plan::Step;
use mainstay_core::time::Time;
use sim::memgraph::instance::Role;
use sim::memgraph::world::{Action, Look, process};

const NOBODY: [u8; 0] = [];

/// Two operators, of which the second never looks yet; one acknowledged write; MAIN is dead.
fn main_dead() -> Run {
    let mut run = served();
    run.blocked = vec![Action::Observe(1, Look::Plain)];
    run.act(Action::Crash(0));
    run
}

fn served() -> Run {
    let mut config = three_pods();
    config.operators = 2;
    let mut run = Run::protected(config);
    run.write_acked();
    run.quiet();
    run.forget();
    run
}

fn writes_record(run: &Run, op: u8) -> bool {
    run.state.current_step(op).is_some_and(|s| s.record().is_some())
}

/// The API goes away for 20 s when `steps` steps of the failover are done. How many more were done?
fn api_outage_after(steps: usize) -> Option<usize> {
    let mut run = main_dead();
    let mut election = Election::held();
    run.until(|run| run.steps.len() == steps && run.next() == Some(Action::Step(0)) || run.next().is_none());
    run.next()?;
    election.reachable = false;
    let (start, before) = (election.now, run.steps.len());
    run.blocked
        .extend([Action::Read(0), Action::Observe(0, Look::Plain)]);
    let mut last = start;
    while election.now < start + 20_000 {
        election.run(1_000);
        if run.state.current_step(0).is_none() || !election.permits(0) {
            continue;
        }
        if writes_record(&run, 0) {
            // The record cannot be written, and the turn ends there.
            run.act(Action::Die(0));
        } else if run.next() == Some(Action::Step(0)) {
            run.act(Action::Step(0));
            last = election.now;
        }
    }
    assert!(last < start + 10_000, "acted {} ms into the outage", last - start);
    let done = run.steps.len() - before;
    election.reachable = true;
    assert!(election.ms_until_leader() <= 5_000);
    let leader = election.leader().unwrap();
    // Whoever leads now goes on; the other one has forgotten its turn.
    run.act(Action::Die(1 - leader));
    run.act(Action::Die(leader));
    run.blocked = vec![Action::Observe(1 - leader, Look::Plain)];
    run.quiet();
    run.assert_complete();
    Some(done)
}

#[test]
fn l1_a_leader_that_loses_the_api_at_any_step_of_a_failover_stops_and_the_next_one_finishes_it() {
    let done: Vec<usize> = (0..).map_while(api_outage_after).collect();
    println!("{} outages, steps still done in each: {done:?}", done.len());
    assert!(done.len() >= 10, "{done:?}");
    assert!(
        done.iter().any(|n| *n > 0),
        "a command that needs no record goes on while the lease lasts"
    );
}

#[test]
fn l3_a_new_leader_finds_the_gateway_open_and_keeps_it_so_although_an_async_pod_is_down() {
    let mut run = served();
    run.all([Action::Crash(2), Action::Tend(0, 2), Action::Die(0)]);
    run.blocked = vec![Action::Start(2), Action::Observe(0, Look::Plain)];
    run.quiet();
    assert_eq!((run.steps.len(), run.route(0)), (0, Some(0)));
    run.write_acked();
}

#[test]
fn l3_a_new_leader_opens_the_gateway_with_its_first_look_wherever_the_old_one_stopped() {
    let mut run = main_dead();
    run.act(Action::Crash(2));
    run.blocked.extend([Action::Start(0), Action::Start(2)]);
    let mut count = 0;
    while run.route(0) != Some(1) {
        let action = run.next().unwrap();
        if action == Action::Step(0) {
            let mut copy = run.clone();
            copy.act(Action::Die(0));
            copy.forget();
            copy.blocked = vec![
                Action::Observe(0, Look::Plain),
                Action::Start(0),
                Action::Start(2),
            ];
            copy.until(|run| run.route(0) == Some(1));
            assert_eq!(copy.looks, 1, "{}", copy.story());
            copy.write_acked();
            count += 1;
        }
        run.act(action);
    }
    println!("{count} places to stop");
    assert!(count >= 4, "{count}");
}

/// Lets everybody work without the API: nobody reads or writes the record.
fn without_api(run: &mut Run, actions: usize) {
    for _ in 0..actions {
        let Some(action) = run.next() else { return };
        let Action::Step(op) = action else {
            run.act(action);
            continue;
        };
        if writes_record(run, op) {
            run.act(Action::Die(op));
        } else {
            run.act(action);
        }
    }
}

#[test]
fn l6_without_the_api_routing_goes_on_and_no_role_changes() {
    let mut run = served();
    run.blocked = vec![Action::Read(0)];
    without_api(&mut run, 200);
    assert_eq!(run.route(0), Some(0), "a gateway goes on with the last record");
    run.write_acked();
    // Even if MAIN dies: no role command without a compare-and-swap of the record before it.
    run.act(Action::Crash(0));
    let roles = vec![Role::Replica; 3];
    without_api(&mut run, 200);
    assert_eq!((run.roles(), run.role_commands()), (roles, vec![]));
    run.blocked.clear();
    run.quiet();
    run.assert_complete();
}

fn assert_record_before_roles(run: &Run, plan: &Plan) {
    let record = plan.steps.iter().position(|p| p.step.record().is_some());
    let role = plan.steps.iter().position(|p| p.step.is_role_command());
    if let Some(role) = role {
        assert!(
            record.is_some_and(|at| at < role),
            "{:?}\n{}",
            plan.steps,
            run.story()
        );
    }
}

#[test]
fn l6_every_role_command_follows_a_write_of_the_record_in_the_same_turn() {
    let mut plans = 0;
    let mut walk = |mut run: Run| {
        while let Some(action) = run.next() {
            let plan = run.plan();
            assert_record_before_roles(&run, &plan);
            plans += usize::from(plan.steps.iter().any(|p| p.step.is_role_command()));
            run.act(action);
        }
        run.assert_complete();
        run
    };
    let mut run = walk(Run::fresh(three_pods()));
    for trouble in [
        Action::Crash(1),
        Action::Crash(0),
        Action::Crash(2),
        Action::HandDrop(0, 1),
    ] {
        run.act(trouble);
        run = walk(run);
    }
    for stray in [1, 2] {
        let mut run = served();
        run.promote_by_hand(stray);
        walk(run);
    }
    let mut run = served();
    run.act(Action::Observe(0, Look::Switchover));
    walk(run);
    assert!(plans >= 20, "{plans} plans with role commands");
}

#[test]
fn l7_a_pod_whose_object_is_gone_from_the_cache_stays_main_while_it_answers() {
    let run = served();
    let mut seen = run.seen();
    seen.pods[0].object = None;
    assert_eq!(
        promotes(&run.plan_for(&seen)),
        NOBODY,
        "a missing object is not a dead process"
    );
    // It does not answer either: then it is replaced, but its death is not taken for granted.
    seen.pods[0].contact = Contact::Silent {
        probes: 9,
        since: Time::ZERO,
    };
    let plan = run.plan_for(&seen);
    assert_eq!(promotes(&plan), [1]);
    let old = process(0, run.state.pods[0].run);
    let fence = |s: &Step| matches!(s, Step::AwaitFence { old: t, .. } if t.process == old);
    let fence = plan.steps.iter().position(|p| fence(&p.step)).unwrap();
    let promote = plan
        .steps
        .iter()
        .position(|p| matches!(p.step, Step::Promote(_)))
        .unwrap();
    assert!(fence < promote);
    assert!(
        !mainstay_core::memgraph::turn::awaited(&plan.steps[fence].step, &seen),
        "gateways must confirm"
    );
}

#[test]
fn l7_protection_belongs_to_a_process_not_to_a_name() {
    let run = served();
    let dead = |seen: &mut mainstay_core::memgraph::observed::Observed| {
        seen.pods[0].contact = Contact::Refused {
            times: 2,
            since: Time::ZERO,
        };
    };
    let mut seen = run.seen();
    dead(&mut seen);
    assert_eq!(
        promotes(&run.plan_for(&seen)),
        [1],
        "the very process that was proven"
    );
    // The same pod, recreated: another uid and another process answer under the old name.
    let object = seen.pods[1].object.as_mut().unwrap();
    (object.uid, object.running) = (PodUid(4711), Some(ProcessId(4711)));
    let Contact::Answered(answer) = &mut seen.pods[1].contact else {
        panic!("it answers")
    };
    answer.process = ProcessId(4711);
    assert_eq!(
        promotes(&run.plan_for(&seen)),
        NOBODY,
        "a new process was never proven"
    );
}

#[test]
fn l7_an_old_object_of_a_pod_does_not_speak_for_the_process_that_answers() {
    let mut run = served();
    let old = run.seen().pods[1].object;
    run.all([Action::Crash(1), Action::Tend(0, 1), Action::Start(1)]);
    // The cache still shows the pod as it was; the database that answers is another process.
    let mut seen = run.seen();
    seen.pods[1].object = old;
    seen.pods[0].contact = Contact::Refused {
        times: 2,
        since: Time::ZERO,
    };
    assert_eq!(
        promotes(&run.plan_for(&seen)),
        NOBODY,
        "the answer is the stronger evidence"
    );
}

#[test]
fn l7_a_pod_that_is_listed_twice_does_not_confuse_the_decision() {
    let mut run = served();
    run.blocked = vec![Action::Start(1)];
    run.all([Action::Crash(1), Action::Tend(0, 1)]);
    let mut seen = run.seen();
    let mut twin = seen.pods[1].clone();
    twin.object.as_mut().unwrap().uid = PodUid(4711);
    seen.pods.push(twin);
    assert_eq!(run.plan_for(&seen).steps, []);
    assert_eq!(run.plan().reasons, run.plan_for(&seen).reasons);
}
