//! F16: a commit in doubt. Crashes and promotions at every stage of it.

use super::bench::{Run, three_pods};
use sim::memgraph::instance::{Profile, Role};
use sim::memgraph::world::Action;

/// What happens while a client waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    MainDies,
    SyncDies,
    /// MAIN lives, is believed silent, and the other pod is promoted before the commit goes on.
    Promotion,
}

const TROUBLES: [Trouble; 3] = [Trouble::MainDies, Trouble::SyncDies, Trouble::Promotion];

/// The write, stage by stage: prepared, committed, finalized, answered.
const STAGES: [Action; 4] = [
    Action::Write(0),
    Action::CommitLocally(0),
    Action::Finalize(0),
    Action::Acknowledge(0),
];

fn strike(run: &mut Run, trouble: Trouble) {
    match trouble {
        Trouble::MainDies => {
            run.act(Action::Crash(0));
            // Its connections end with it.
            for pod in &mut run.state.pods {
                pod.db.connection_lost();
            }
        }
        Trouble::SyncDies => {
            run.act(Action::Crash(1));
        }
        Trouble::Promotion => promote_other(run),
    }
}

fn promote_other(run: &mut Run) {
    let before = run.blocked.clone();
    run.blocked.extend(STAGES);
    run.eyes.silent.push(0);
    // Not if nobody is entitled any more (then it comes to rest), nor while the database refuses it.
    for _ in 0..60 {
        // A gateway hears of the new term only when nothing else is left to do: the fence has to wait for it.
        run.blocked.push(Action::Read(0));
        let first = run.next();
        run.blocked.pop();
        match first.or_else(|| run.next()) {
            Some(action) if run.role(1) != Role::Main => run.act(action),
            _ => break,
        };
    }
    run.eyes.silent.clear();
    run.blocked = before;
}

/// Does the stages of the write that can still be done.
fn go_on(run: &mut Run, stages: &[Action]) {
    for stage in stages {
        if run.state.enabled(&run.config).contains(stage) {
            run.act(*stage);
        }
    }
}

/// An acknowledged write is never lost, an unacknowledged one is everywhere or nowhere.
fn judge(run: &mut Run, what: &str) {
    run.quiet();
    run.assert_complete();
    let write = sim::memgraph::data::WriteId(1);
    let copies = (0..3).filter(|pod| run.holds(*pod, write)).count();
    let acked = run.state.acked.contains(write);
    assert!(
        copies == 3 || (copies == 0 && !acked),
        "{what}: {copies} copies\n{}",
        run.story()
    );
}

fn in_doubt(profile: Profile) -> usize {
    let mut config = three_pods();
    config.profile = profile;
    let mut start = Run::protected(config);
    start.write_acked();
    start.quiet();
    start.all([Action::Read(0), Action::Connect(0)]);
    let mut count = 0;
    for at in 0..=STAGES.len() {
        for first in TROUBLES {
            for then in at..=STAGES.len() {
                for second in [None].into_iter().chain(TROUBLES.map(Some)) {
                    for late_start in [false, true] {
                        let what =
                            format!("{first:?} at {at}, {second:?} at {then}, late start {late_start}");
                        let mut run = start.clone();
                        let waits = if late_start {
                            vec![Action::Start(0), Action::Start(1)]
                        } else {
                            vec![]
                        };
                        run.blocked.clone_from(&waits);
                        go_on(&mut run, &STAGES[..at]);
                        strike(&mut run, first);
                        go_on(&mut run, &STAGES[at..then]);
                        if let Some(second) = second {
                            strike(&mut run, second);
                        }
                        run.quiet();
                        run.blocked.clear();
                        judge(&mut run, &what);
                        count += 1;
                    }
                }
            }
        }
    }
    count
}

#[test]
fn f16_a_commit_in_doubt_is_kept_if_it_was_acknowledged_and_otherwise_everywhere_or_nowhere() {
    let count = in_doubt(Profile::V3_6);
    println!("{count} commits in doubt");
    assert_eq!(count, 360);
}

#[test]
fn f16_a_commit_in_doubt_ends_the_same_way_on_a_release_that_refuses_to_promote_while_prepared() {
    let count = in_doubt(Profile::V3_12);
    println!("{count} commits in doubt");
    assert_eq!(count, 360);
}
