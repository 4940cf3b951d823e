//! 10.2: registrations that are not what they should be (R1, R3, R4).

use super::bench::{Run, three_pods};
use mainstay_core::memgraph::ids::{Ordinal, RegistrationName};
use mainstay_core::memgraph::observed::{Mode, Status};
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::reason::Why;
use mainstay_core::memgraph::record::Writes;
use sim::memgraph::instance;
use sim::memgraph::world::{Action, Look};

const OF_POD_1: RegistrationName = RegistrationName::Async(Ordinal(1));

/// A protected cluster with one acknowledged write, its STRICT_SYNC registration just dropped by hand.
fn dropped_by_hand() -> Run {
    let mut run = Run::protected(three_pods());
    run.write_acked();
    run.quiet();
    run.forget();
    run.act(Action::HandDrop(0, 1));
    run
}

/// Goes on until the cluster is whole; writes may only be open again once protection is proven anew.
fn repaired_before_writes_open(run: &mut Run) {
    run.until(|run| !run.open());
    run.until(Run::open);
    let sync = run
        .record()
        .sync
        .unwrap_or_else(|| panic!("open and not protected\n{}", run.story()));
    let row = run.registration(0, 1).unwrap();
    assert_eq!(
        (row.name, row.mode, row.status),
        (sync.name, Mode::StrictSync, Status::Ready)
    );
    run.quiet();
    run.assert_complete();
    assert_eq!(
        run.role(0),
        instance::Role::Main,
        "nothing of this is a reason to move MAIN"
    );
}

#[test]
fn r1_a_sync_pod_registered_async_is_corrected_and_writes_wait_for_it() {
    let mut run = dropped_by_hand();
    run.register_by_hand(0, OF_POD_1, instance::Mode::Async, 1)
        .unwrap();
    repaired_before_writes_open(&mut run);
}

#[test]
fn r1_a_sync_pod_registered_in_plain_sync_mode_is_corrected() {
    let mut run = dropped_by_hand();
    run.register_by_hand(0, OF_POD_1, instance::Mode::Sync, 1)
        .unwrap();
    repaired_before_writes_open(&mut run);
}

#[test]
fn r1_a_registration_with_the_address_of_another_pod_is_corrected() {
    for mode in [instance::Mode::Async, instance::Mode::StrictSync] {
        let mut run = dropped_by_hand();
        run.act(Action::HandDrop(0, 2));
        run.register_by_hand(0, OF_POD_1, mode, 2).unwrap();
        repaired_before_writes_open(&mut run);
    }
}

#[test]
fn r1_an_async_pod_registered_strict_sync_is_corrected() {
    let mut run = Run::protected(three_pods());
    run.act(Action::HandDrop(0, 2));
    run.register_by_hand(
        0,
        RegistrationName::Async(Ordinal(2)),
        instance::Mode::StrictSync,
        2,
    )
    .unwrap();
    run.quiet();
    run.assert_complete();
}

#[test]
fn r1_an_async_pod_registered_with_the_address_of_another_is_corrected() {
    let mut config = three_pods();
    (config.pods, config.spec.replicas) = (4, 4);
    let mut run = Run::protected(config);
    run.all([Action::HandDrop(0, 2), Action::HandDrop(0, 3)]);
    run.register_by_hand(0, RegistrationName::Async(Ordinal(2)), instance::Mode::Async, 3)
        .unwrap();
    run.quiet();
    run.assert_complete();
}

#[test]
fn r3_a_sync_replica_that_shows_nothing_closes_writes_within_one_look() {
    let mut run = dropped_by_hand();
    let name = run.record().sync.unwrap().name;
    run.act(Action::Cut(0, 1));
    let refused = run.register_by_hand(0, name, instance::Mode::StrictSync, 1);
    assert_eq!(refused, Err(instance::Error::NotAccepted));
    run.act(Action::Heal(0, 1));
    let zombie = run.registration(0, 1).unwrap();
    assert_eq!(
        (zombie.name, zombie.attached),
        (name, false),
        "shown as {{}}, and not asked on commit"
    );
    // One look, one step: the record is closed before anything else is done.
    run.act(Action::Observe(0, Look::Plain));
    run.act(Action::Step(0));
    assert_ne!(run.record().writes, Writes::Open);
    assert_eq!(run.record().sync, None);
    repaired_before_writes_open(&mut run);
    assert_eq!(run.dropped_pods()[0], 1);
    assert_ne!(
        run.record().sync.unwrap().name,
        name,
        "a name is never used twice"
    );
}

#[test]
fn r4_a_refused_registration_is_dropped_and_tried_again_until_it_holds() {
    let mut run = dropped_by_hand();
    run.act(Action::Cut(0, 1));
    run.blocked = vec![Action::Heal(0, 1)];
    // Code 5: the peer is not reached. What the refusal leaves behind goes in the same turn.
    for attempt in 1..=5 {
        run.until(|run| run.registered_pods().len() == attempt);
        run.until(|run| run.state.current_step(0).is_none());
        assert_eq!(run.registration(0, 1), None, "attempt {attempt}\n{}", run.story());
        assert!(run.looks <= attempt + 1, "one REGISTER per look\n{}", run.story());
    }
    run.blocked.clear();
    repaired_or_whole(&mut run);
}

#[test]
fn r4_a_name_that_is_taken_by_a_zombie_is_dropped_first() {
    let mut run = dropped_by_hand();
    run.act(Action::Cut(0, 1));
    run.blocked = vec![Action::Heal(0, 1)];
    run.until(|run| matches!(run.state.current_step(0), Some(Step::Register { .. })));
    // Code 5 for somebody else, and its zombie takes the name: our own REGISTER gets code 1.
    assert_eq!(
        run.register_by_hand(0, OF_POD_1, instance::Mode::Async, 1),
        Err(instance::Error::NotAccepted)
    );
    let notes = run.act(Action::Step(0)).notes;
    assert!(
        notes
            .iter()
            .any(|n| n.contains(&instance::Error::NameExists.to_string())),
        "{notes:?}"
    );
    assert_eq!(run.registered_pods(), [1]);
    assert!(
        run.registration(0, 1).is_some_and(|r| !r.attached),
        "it is not ours to drop in this turn (R33)"
    );
    run.act(Action::Observe(0, Look::Plain));
    assert!(matches!(run.state.current_step(0), Some(Step::Drop { name, .. }) if *name == OF_POD_1));
    run.act(Action::Step(0));
    run.blocked.clear();
    repaired_or_whole(&mut run);
}

#[test]
fn r4_an_operator_that_dies_between_the_refusal_and_the_drop_leaves_nothing_for_ever() {
    let mut run = dropped_by_hand();
    run.act(Action::Cut(0, 1));
    run.blocked = vec![Action::Heal(0, 1)];
    run.until(|run| run.registered_pods() == [1]);
    assert!(
        matches!(run.state.current_step(0), Some(Step::Drop { .. })),
        "the undo is next"
    );
    run.act(Action::Die(0));
    assert!(run.registration(0, 1).is_some_and(|r| !r.attached));
    run.blocked.clear();
    repaired_or_whole(&mut run);
}

fn repaired_or_whole(run: &mut Run) {
    run.quiet();
    run.assert_complete();
    let why = run.plan().reasons[0].why;
    assert_eq!(why, Why::Healthy { main: Ordinal(0) });
}
