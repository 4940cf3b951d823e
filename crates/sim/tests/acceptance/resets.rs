//! 10.5: divergence and hard reset (H1 to H4). H5, H7 and H9 need real processes (`crates/mainstay/tests`), H6 a disk
//! (`crates/operator/src/pod/prepare/tests.rs`), H10 the versions of a server (`crates/sandbox/tests/standin.rs`).

use super::bench::{Run, three_pods};
use mainstay_core::memgraph::Rule;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::reason::Why;
use sim::memgraph::instance::Role;
use sim::memgraph::world::Action;

fn with_a_write() -> Run {
    let mut run = Run::protected(three_pods());
    run.write_acked();
    run.quiet();
    run.forget();
    run
}

/// A replica takes a write of its own, as nobody but a fault would.
fn diverge(run: &mut Run, pod: u8) {
    run.promote_by_hand(pod);
    assert!(run.write_directly(pod), "somebody writes past the gateways");
    run.demote_by_hand(pod);
}

/// The pods whose data was to be set aside, in order.
fn marked(run: &Run) -> Vec<u8> {
    let pod = |step: &Step| match step {
        Step::WriteMarker { target, .. } => Some(target.pod.0),
        _ => None,
    };
    run.steps.iter().filter_map(pod).collect()
}

#[test]
fn h1_a_replica_that_its_main_calls_diverged_is_reset_once_and_comes_back_whole() {
    let mut run = with_a_write();
    let term = run.record().term;
    diverge(&mut run, 2);
    run.write_acked();
    run.quiet();
    assert_eq!(marked(&run), [2], "{}", run.story());
    assert_eq!(run.record().reset, None, "the request is over");
    assert_eq!((run.role(0), run.record().term), (Role::Main, term), "MAIN stays");
    run.assert_complete();
}

#[test]
fn h2_a_registration_that_is_refused_as_diverged_leads_to_the_same_reset() {
    let mut run = with_a_write();
    run.act(Action::HandDrop(0, 2));
    diverge(&mut run, 2);
    run.quiet();
    assert_eq!(
        run.registered_pods().first(),
        Some(&2),
        "it was asked by REGISTER"
    );
    assert_eq!(marked(&run), [2], "{}", run.story());
    run.assert_complete();
}

#[test]
fn h2_a_registration_that_fails_for_another_reason_never_leads_to_a_reset() {
    let mut run = with_a_write();
    run.blocked = vec![Action::Heal(0, 2)];
    run.act(Action::Cut(0, 2));
    run.act(Action::HandDrop(0, 2));
    run.some(200);
    assert!(
        run.registered_pods().len() > 1,
        "it was tried again\n{}",
        run.story()
    );
    assert_eq!((marked(&run), run.record().reset), (vec![], None));
    run.blocked.clear();
    run.quiet();
    assert_eq!(marked(&run), [0_u8; 0]);
    run.assert_complete();
}

#[test]
fn h3_a_diverged_sync_replica_waits_for_a_human() {
    let mut run = with_a_write();
    diverge(&mut run, 1);
    assert_eq!(
        run.write(),
        None,
        "MAIN learns it from a write that it cannot make"
    );
    run.quiet();
    run.assert_waits(Rule::R14, Why::NeedsApproval { pod: Ordinal(1) });
    assert_eq!(marked(&run), [0_u8; 0]);
}

/// Where the protocol differs from the scenario: the ex-MAIN protects nobody, and waits for no approval (R14).
#[test]
fn h3_an_ex_main_with_a_write_of_its_own_is_reset_by_itself_once_another_serves() {
    let mut run = with_a_write();
    run.blocked = vec![Action::Start(0)];
    // In its own data, and not yet finalized anywhere: nobody was told.
    let (main, write) = run.begin_write(0).unwrap();
    run.act(Action::CommitLocally(main));
    run.act(Action::Crash(0));
    run.until(|run| run.serves(1));
    assert!(!run.holds(1, write), "it was only prepared there");
    run.write_acked();
    assert_eq!(marked(&run), [0_u8; 0], "nobody is reset before another serves");
    run.blocked.clear();
    run.quiet();
    assert_eq!(marked(&run), [0], "{}", run.story());
    run.assert_complete();
}

#[test]
fn h4_two_diverged_replicas_are_reset_one_after_the_other() {
    let mut config = three_pods();
    (config.pods, config.spec.replicas) = (4, 4);
    let mut run = Run::protected(config);
    run.write_acked();
    run.quiet();
    run.forget();
    diverge(&mut run, 2);
    diverge(&mut run, 3);
    run.write_acked();
    run.until(|run| !marked(run).is_empty());
    let first = marked(&run)[0];
    run.until(|run| marked(run).len() > 1);
    let back = run.registration(0, first).is_some_and(|row| row.attached);
    assert!(back, "the second before the first is back\n{}", run.story());
    run.quiet();
    let mut all = marked(&run);
    all.sort_unstable();
    assert_eq!(all, [2, 3], "{}", run.story());
    run.assert_complete();
}

#[test]
fn h4_when_everybody_is_called_diverged_the_last_good_copies_stay() {
    let mut run = with_a_write();
    diverge(&mut run, 1);
    diverge(&mut run, 2);
    assert_eq!(run.write(), None);
    run.some(400);
    let reset = marked(&run);
    assert!(
        !reset.contains(&0) && !reset.contains(&1),
        "{reset:?}\n{}",
        run.story()
    );
    assert_eq!(run.role(0), Role::Main);
}

#[test]
fn h4_no_more_resets_than_the_hour_allows() {
    let mut config = three_pods();
    config.spec.resets_per_hour = 0;
    let mut run = Run::protected(config);
    run.write_acked();
    run.quiet();
    run.forget();
    diverge(&mut run, 2);
    run.write_acked();
    run.quiet();
    run.assert_waits(Rule::Reset, Why::TooManyResets { pod: Ordinal(2) });
    assert_eq!(marked(&run), [0_u8; 0]);
}
