//! The operator dies, or its write of the record fails, at every single step (B6, F11).

use super::bench::{Run, three_pods};
use mainstay_core::memgraph::plan::Step;
use sim::memgraph::instance::Role;
use sim::memgraph::world::{Action, Hashed, Look};

/// What goes wrong at a step.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// The operator dies before it.
    Before,
    /// It dies after it, before it knows.
    After,
    /// Its write of the record is refused: somebody else wrote.
    Conflict,
    /// Its command is not answered in time, and executes when everything is over.
    Late,
}

impl Cut {
    fn happens(self, run: &mut Run) {
        match self {
            Self::Before => {}
            Self::After => {
                run.act(Action::Step(0));
            }
            Self::Conflict => {
                if let Some(Step::CreateRecord(record)) = run.state.current_step(0) {
                    run.state.record = Some(Hashed::new((**record).clone()));
                }
                run.state.version += 1;
                run.act(Action::Step(0));
                assert_eq!(run.state.current_step(0), None, "a conflict ends the turn");
                return;
            }
            Self::Late => {
                run.act(Action::StepLate(0));
                run.quiet();
                run.act(Action::Execute(0));
                return;
            }
        }
        run.act(Action::Die(0));
    }
}

/// Plays the run to its end; at every step of the operator a copy goes wrong and must end like it.
/// Gives the number of copies.
fn cut_everywhere(mut run: Run, cuts: &[Cut], which: impl Fn(&Step) -> bool, end: impl Fn(&Run)) -> usize {
    let mut count = 0;
    while let Some(action) = run.next() {
        let step = run
            .state
            .current_step(0)
            .filter(|s| action == Action::Step(0) && which(s));
        if step.is_some() {
            for cut in cuts {
                let mut copy = run.clone();
                cut.happens(&mut copy);
                copy.quiet();
                end(&copy);
                count += 1;
            }
        }
        run.act(action);
    }
    end(&run);
    count
}

fn writes_record(step: &Step) -> bool {
    step.record().is_some()
}

const DEATHS: [Cut; 2] = [Cut::Before, Cut::After];
/// A write that happened and whose answer is lost is `After`.
const WRITES: [Cut; 3] = [Cut::Before, Cut::After, Cut::Conflict];

/// A protected cluster with a write that everybody has.
fn served() -> Run {
    let mut run = Run::protected(three_pods());
    run.write_acked();
    run.quiet();
    run
}

/// MAIN is dead; its pod comes back at once, as REPLICA.
fn main_restarts() -> Run {
    let mut run = served();
    run.act(Action::Crash(0));
    run
}

/// MAIN is dead and does not come back.
fn main_gone() -> Run {
    let mut run = main_restarts();
    run.blocked = vec![Action::Start(0)];
    run
}

/// The pod comes back after all.
fn comes_back(run: &Run) {
    assert!(run.serves(1) && run.route(0) == Some(1), "{}", run.story());
    let mut run = run.clone();
    run.blocked.clear();
    run.quiet();
    run.assert_complete();
}

fn sync_restarted() -> Run {
    let mut run = served();
    run.all([Action::Crash(1), Action::Tend(0, 1), Action::Start(1)]);
    run
}

fn switchover_begun() -> Run {
    let mut run = served();
    run.act(Action::Observe(0, Look::Switchover));
    assert!(run.state.current_step(0).is_some(), "{}", run.story());
    run
}

#[test]
fn b6_an_operator_killed_before_or_after_any_step_of_bootstrap_ends_in_the_same_cluster() {
    let count = cut_everywhere(
        Run::fresh(three_pods()),
        &DEATHS,
        |_| true,
        |run| {
            run.assert_complete();
            assert_eq!(run.role(0), Role::Main);
        },
    );
    println!("bootstrap: {count} deaths");
    assert!(count >= 20, "{count}");
}

#[test]
fn b6_an_operator_killed_twice_during_bootstrap_ends_in_the_same_cluster() {
    let mut deaths = 0;
    let mut run = Run::fresh(three_pods());
    while let Some(action) = run.next() {
        if action == Action::Step(0) {
            for cut in DEATHS {
                let mut copy = run.clone();
                cut.happens(&mut copy);
                deaths += cut_everywhere(copy, &DEATHS, |_| true, Run::assert_complete);
            }
        }
        run.act(action);
    }
    println!("bootstrap: {deaths} pairs of deaths");
    assert!(deaths >= 200, "{deaths}");
}

#[test]
fn f11_an_operator_killed_before_or_after_any_step_of_a_failover_leaves_one_main_and_no_loss() {
    let back = cut_everywhere(main_restarts(), &DEATHS, |_| true, Run::assert_complete);
    let gone = cut_everywhere(main_gone(), &DEATHS, |_| true, comes_back);
    println!("failover and rejoin: {back} deaths; failover alone: {gone} deaths");
    assert!(back >= 20 && gone >= 10, "{back} {gone}");
}

#[test]
fn f11_an_operator_killed_before_or_after_any_step_of_a_switchover_leaves_one_main_and_no_loss() {
    let count = cut_everywhere(switchover_begun(), &DEATHS, |_| true, Run::assert_complete);
    println!("switchover: {count} deaths");
    assert!(count >= 20, "{count}");
}

#[test]
fn f11_an_operator_killed_before_or_after_any_step_of_a_rejoin_leaves_one_main_and_no_loss() {
    let count = cut_everywhere(
        sync_restarted(),
        &DEATHS,
        |_| true,
        |run| {
            run.assert_complete();
            assert_eq!(run.role(0), Role::Main, "MAIN was never in doubt");
        },
    );
    println!("rejoin: {count} deaths");
    assert!(count >= 10, "{count}");
}

#[test]
fn f11_a_write_of_the_record_that_fails_or_whose_answer_is_lost_opens_no_second_main_and_heals() {
    let runs = [
        ("bootstrap", Run::fresh(three_pods())),
        ("failover", main_restarts()),
        ("switchover", switchover_begun()),
        ("rejoin", sync_restarted()),
    ];
    for (what, run) in runs {
        let count = cut_everywhere(run, &WRITES, writes_record, Run::assert_complete);
        println!("{what}: {count} failed writes");
        assert!(count >= 6, "{what}: {count}");
    }
}

#[test]
fn f11_a_command_that_executes_after_everything_is_over_does_no_harm() {
    let sent = |s: &Step| s.is_role_command() || matches!(s, Step::Drop { .. });
    let mut count = 0;
    for run in [
        Run::fresh(three_pods()),
        main_restarts(),
        switchover_begun(),
        sync_restarted(),
    ] {
        count += cut_everywhere(run, &[Cut::Late], sent, Run::assert_complete);
    }
    println!("{count} late commands");
    assert!(count >= 8, "{count}");
}

#[test]
fn f11_a_failover_while_another_operator_sleeps_at_any_step_of_it_opens_no_second_main() {
    let mut config = three_pods();
    config.operators = 2;
    let mut run = Run::protected(config);
    run.write_acked();
    run.quiet();
    run.blocked = vec![Action::Observe(1, Look::Plain)];
    run.act(Action::Crash(0));
    let mut count = 0;
    while let Some(action) = run.next() {
        if action == Action::Step(0) {
            // The first one stops here; the second does everything; then the first goes on where it was.
            let mut copy = run.clone();
            copy.blocked = vec![Action::Step(0), Action::Observe(0, Look::Plain)];
            copy.quiet();
            copy.write_acked();
            copy.blocked.clear();
            copy.quiet();
            copy.assert_complete();
            count += 1;
        }
        run.act(action);
    }
    println!("failover: {count} sleeps");
    assert!(count >= 10, "{count}");
}
