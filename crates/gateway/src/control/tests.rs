use super::*;
use mainstay_core::memgraph::ids::{DatabaseId, Ordinal, ProcessId, VolumeId};
use mainstay_core::memgraph::observed::Role;
use mainstay_core::memgraph::record::{Candidate, Main, Writes};
use mainstay_core::time::Time;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

fn candidate() -> Candidate {
    Candidate {
        pod: Ordinal(0),
        process: ProcessId(1),
        volume: VolumeId(1),
        peers: vec![],
        suspect: false,
        forced: None,
        claim: None,
    }
}

/// Somebody else: nobody waits for the old MAIN.
fn elsewhere() -> Candidate {
    Candidate {
        pod: Ordinal(1),
        process: ProcessId(2),
        ..candidate()
    }
}

fn serving(term: u64) -> Record {
    let main = Main {
        pod: Ordinal(0),
        process: ProcessId(1),
        volume: VolumeId(1),
        database: DatabaseId(1),
        term: Term(term),
        epoch: Term(term),
        peers: vec![],
        suspect: false,
        history_from: Term(0),
        rebuilt: false,
        office_from: Term(1),
        rival: None,
    };
    Record::initialising(Term(term), candidate(), Time::ZERO).serving(main, Writes::Open, Time::ZERO)
}

/// For transactions to end; far longer than a test takes.
const PATIENCE: Duration = Duration::from_mins(1);

fn start() -> (Control, JoinSet<()>) {
    let (control, keeper) = new(Metrics::of_both_ports().0, PATIENCE);
    let mut tasks = JoinSet::new();
    tasks.spawn(keeper.run());
    (control, tasks)
}

async fn open(control: &Control, record: &Record) -> Arc<Epoch> {
    control.registered().await;
    control.follow(record.clone()).await;
    let mut epochs = control.epochs();
    let found = epochs.wait_for(|epoch| epoch.route().is_some()).await.unwrap();
    Arc::clone(&found)
}

#[tokio::test]
async fn nothing_is_forwarded_before_the_gateway_is_registered_and_has_read_the_record() {
    let (control, _tasks) = start();
    control.obey(serving(4)).await;
    assert!(control.epochs().borrow().route().is_none(), "pushed only");
    control.registered().await;
    control.obey(serving(4)).await;
    assert!(control.epochs().borrow().route().is_none(), "not read");
    assert!(!control.epochs().borrow().admits(Role::Main, Some(Term(4))));
    assert!(!control.is_ready());
    control.follow(serving(4)).await;
    let mut epochs = control.epochs();
    let opened = timeout(
        Duration::from_secs(10),
        epochs.wait_for(|epoch| epoch.route().is_some()),
    );
    assert!(opened.await.unwrap().unwrap().admits(Role::Main, Some(Term(4))));
    assert!(control.is_ready());
}

#[tokio::test]
async fn an_older_record_that_was_read_opens_a_gateway_for_the_newer_one_that_was_pushed() {
    let (control, _tasks) = start();
    control.registered().await;
    control.obey(serving(5)).await;
    assert!(control.epochs().borrow().route().is_none());
    control.follow(serving(4)).await;
    let mut epochs = control.epochs();
    let opened = timeout(PATIENCE, epochs.wait_for(|epoch| epoch.route().is_some())).await;
    assert!(opened.unwrap().unwrap().admits(Role::Main, Some(Term(5))));
}

#[tokio::test]
async fn who_waits_for_a_cluster_to_wake_is_counted_before_the_word_is_given_and_until_it_leaves() {
    let (control, _tasks) = start();
    assert!(!control.is_awaited());
    let (one, other) = (control.wake(), control.wake());
    control.awaited().await;
    assert!(control.is_awaited());
    drop(one);
    assert!(control.is_awaited());
    drop(other);
    assert!(!control.is_awaited());
}

#[tokio::test]
async fn a_record_is_confirmed_only_when_nobody_acts_under_the_old_one_any_more() {
    let (control, mut tasks) = start();
    let old = open(&control, &serving(4)).await;
    let stay = old.stay();
    let next = serving(4).new_term(elsewhere(), true, Time::ZERO);
    let asking = control.clone();
    let mut asked = JoinSet::new();
    asked.spawn(async move { asking.obey(next).await });
    old.cut().await;
    // It was cut, and the session has not ended yet: however long that takes, nothing is confirmed.
    assert!(
        timeout(Duration::from_millis(100), asked.join_next())
            .await
            .is_err()
    );
    assert_eq!(control.confirmation().term, Term(4));
    assert!(
        control.epochs().borrow().route().is_none(),
        "and nobody new is let in"
    );
    drop(stay);
    asked.join_next().await.unwrap().unwrap();
    assert_eq!(control.confirmation().term, Term(5));
    tasks.shutdown().await;
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_leave_a_cut_half_done() {
    let (control, _tasks) = start();
    let old = open(&control, &serving(4)).await;
    let stay = old.stay();
    let next = serving(4).new_term(elsewhere(), true, Time::ZERO);
    let given_up = timeout(Duration::from_millis(50), control.obey(next.clone())).await;
    assert!(given_up.is_err());
    let again = timeout(Duration::from_millis(50), control.obey(next.clone())).await;
    assert!(
        again.is_err(),
        "the same record again must not be confirmed either"
    );
    assert_eq!(control.confirmation().term, Term(4));
    drop(stay);
    control.obey(next).await;
    assert_eq!(control.confirmation().term, Term(5));
}

#[tokio::test]
async fn where_main_can_wait_transactions_may_end_before_the_cut_and_nobody_new_is_let_in() {
    let (control, _tasks) = start();
    let first = serving(4);
    let old = open(&control, &first).await;
    let stay = old.stay();
    let held = first.held(Time::ZERO);
    control.follow(held.clone()).await;
    old.draining().await;
    assert!(
        timeout(Duration::from_millis(100), old.cut()).await.is_err(),
        "what runs is not cut"
    );
    assert!(control.epochs().borrow().route().is_none());
    assert!(control.is_ready(), "who holds is ready");
    assert_eq!(control.confirmation().revision, first.revision, "not confirmed");
    // The same record again, as it comes by watch and by push, changes nothing.
    control.follow(held.clone()).await;
    assert!(timeout(Duration::from_millis(100), old.cut()).await.is_err());
    drop(stay);
    control.obey(held.clone()).await;
    assert_eq!(control.confirmation().revision, held.revision);
}

#[tokio::test]
async fn a_newer_record_ends_the_patience_with_transactions() {
    let (control, _tasks) = start();
    let first = serving(4);
    let old = open(&control, &first).await;
    let stay = old.stay();
    control.follow(first.held(Time::ZERO)).await;
    old.draining().await;
    let lost = first.held(Time::ZERO).with_writes(Writes::Closed);
    control.follow(lost.clone()).await;
    timeout(Duration::from_secs(10), old.cut()).await.unwrap();
    assert_eq!(control.confirmation().revision, first.revision, "a stay is left");
    drop(stay);
    control.obey(lost.clone()).await;
    assert_eq!(control.confirmation().revision, lost.revision);
}

/// An operator that dies in the middle of a move is no reason to end what runs.
#[tokio::test(start_paused = true)]
async fn a_move_that_another_operator_takes_over_is_the_same_move() {
    let (control, _tasks) = start();
    let first = serving(4);
    let old = open(&control, &first).await;
    let stay = old.stay();
    let asked = Instant::now();
    let begun = first.switching_over(elsewhere(), Time::ZERO);
    control.follow(begun.clone()).await;
    old.draining().await;
    let taken_over = begun.taken_over(true);
    control.follow(taken_over.clone()).await;
    let pushed = timeout(PATIENCE / 2, control.obey(taken_over.clone())).await;
    assert!(pushed.is_err() && !old.is_cut(), "it may still end");
    assert_eq!(control.confirmation().term, Term(4));
    // The time is that of the whole move.
    old.cut().await;
    assert!(asked.elapsed() >= PATIENCE && asked.elapsed() < PATIENCE * 5 / 4);
    drop(stay);
    let mut confirmed = control.confirmed();
    let both = (taken_over.term, taken_over.revision);
    let said = timeout(PATIENCE, confirmed.wait_for(|said| *said == Some(both))).await;
    said.unwrap().unwrap();
}

#[tokio::test]
async fn a_move_that_is_given_up_after_it_was_taken_over_ends_the_patience() {
    let (control, _tasks) = start();
    let first = serving(4);
    let old = open(&control, &first).await;
    let stay = old.stay();
    let begun = first.switching_over(elsewhere(), Time::ZERO);
    control.follow(begun.clone()).await;
    old.draining().await;
    let taken_over = begun.taken_over(true);
    control.follow(taken_over.clone()).await;
    let given_up = taken_over.new_term(candidate(), false, Time::ZERO);
    control.follow(given_up.clone()).await;
    timeout(Duration::from_secs(10), old.cut()).await.unwrap();
    drop(stay);
    control.obey(given_up.clone()).await;
    assert_eq!(control.confirmation().term, given_up.term);
}

#[tokio::test(start_paused = true)]
async fn transactions_that_take_too_long_are_cut() {
    let first = serving(4);
    for (next, patience) in [
        (first.held(Time::ZERO), MOMENT),
        (first.switching_over(elsewhere(), Time::ZERO), PATIENCE),
    ] {
        let (control, _tasks) = start();
        let old = open(&control, &first).await;
        let stay = old.stay();
        let began = Instant::now();
        control.follow(next.clone()).await;
        old.cut().await;
        assert!(began.elapsed() >= patience && began.elapsed() < patience * 2);
        drop(stay);
        control.obey(next.clone()).await;
        assert_eq!(control.confirmation().revision, next.revision);
    }
}

#[tokio::test]
async fn a_session_that_asks_too_late_sees_that_it_is_cut() {
    let (control, _tasks) = start();
    let old = open(&control, &serving(4)).await;
    control.obey(serving(5)).await;
    let _stay = old.stay();
    timeout(Duration::from_secs(10), old.cut()).await.unwrap();
}

#[tokio::test]
async fn records_never_go_back_and_the_same_route_is_not_cut() {
    let (control, _tasks) = start();
    let epoch = open(&control, &serving(5)).await;
    control.obey(serving(4)).await;
    control.obey(serving(5).touched()).await;
    assert_eq!(
        (control.confirmation().term, control.confirmation().revision),
        (Term(5), Revision(3))
    );
    assert!(Arc::ptr_eq(&epoch, &control.epochs().borrow()), "nobody was cut");
}

#[tokio::test]
async fn when_nobody_keeps_the_record_any_more_everything_is_cut() {
    let (control, mut tasks) = start();
    let epoch = open(&control, &serving(4)).await;
    drop(control);
    timeout(Duration::from_secs(10), epoch.cut()).await.unwrap();
    tasks.join_next().await.unwrap().unwrap();
}

async fn reading(control: &Control) -> Arc<Epoch> {
    let mut epochs = control.reading();
    let found = epochs.wait_for(|epoch| epoch.route().is_some()).await.unwrap();
    Arc::clone(&found)
}

#[tokio::test]
async fn a_record_is_confirmed_only_when_nobody_reads_under_the_old_one_any_more() {
    let (control, _tasks) = start();
    open(&control, &serving(4)).await;
    let old = reading(&control).await;
    // With a pod that left before: its sessions are of the same epoch.
    let part = old.part();
    let stay = part.stay();
    part.fall();
    let next = serving(4).new_term(elsewhere(), true, Time::ZERO);
    let asked = timeout(Duration::from_millis(100), control.obey(next.clone())).await;
    assert!(asked.is_err(), "a stay is left");
    timeout(Duration::from_secs(10), old.cut()).await.unwrap();
    assert_eq!(control.confirmation().term, Term(4));
    drop(stay);
    control.obey(next).await;
    assert_eq!(control.confirmation().term, Term(5));
    assert!(control.reading().borrow().route().is_none());
}

#[tokio::test]
async fn who_reads_is_not_cut_because_writes_are_held_or_closed() {
    let (control, _tasks) = start();
    let first = serving(4);
    open(&control, &first).await;
    let old = reading(&control).await;
    let held = first.held(Time::ZERO);
    for record in [held.clone(), held.with_writes(Writes::Closed)] {
        control.obey(record.clone()).await;
        assert!(control.epochs().borrow().route().is_none());
        assert!(Arc::ptr_eq(&old, &control.reading().borrow()));
        assert_eq!(control.record().borrow().as_ref().unwrap().writes, record.writes);
    }
    assert!(old.admits(Role::Main, Some(Term(4))));
    assert!(!old.admits(Role::Replica, Some(Term(4))));
}

#[tokio::test]
async fn a_part_ends_alone_and_with_its_epoch() {
    let (control, _tasks) = start();
    open(&control, &serving(4)).await;
    let whole = reading(&control).await;
    let (one, two) = (whole.part(), whole.part());
    one.fall();
    assert!(one.is_draining() && !two.is_draining() && !whole.is_draining());
    control.obey(serving(5)).await;
    assert!(two.is_draining());
    timeout(Duration::from_secs(10), two.cut()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn where_main_can_wait_reads_may_end_in_the_time_of_the_writers_and_before_the_record_is_confirmed() {
    let first = serving(4);
    for (next, patience) in [
        (first.switching_over(elsewhere(), Time::ZERO), PATIENCE),
        (first.new_term(candidate(), true, Time::ZERO), MOMENT),
    ] {
        let (control, _tasks) = start();
        let writing = open(&control, &first).await;
        let old = reading(&control).await;
        let (part, written) = (old.part(), writing.stay());
        let stay = part.stay();
        let began = Instant::now();
        control.follow(next.clone()).await;
        part.draining().await;
        assert!(control.reading().borrow().route().is_none(), "nothing new begins");
        assert!(writing.is_draining() && !writing.is_cut() && !part.is_cut());
        // Both at once, and neither after the other.
        part.cut().await;
        assert!(writing.is_cut());
        let took = began.elapsed();
        assert!(took >= patience && took < patience * 2, "{took:?}");
        drop(written);
        assert!(timeout(MOMENT, control.obey(next.clone())).await.is_err());
        assert_eq!(control.confirmation().term, Term(4), "somebody reads");
        drop(stay);
        control.obey(next.clone()).await;
        assert_eq!(control.confirmation().term, Term(5));
    }
}

#[tokio::test]
async fn reads_that_end_by_themselves_are_not_cut() {
    let (control, _tasks) = start();
    let first = serving(4);
    open(&control, &first).await;
    let old = reading(&control).await;
    let stay = old.stay();
    let next = first.switching_over(elsewhere(), Time::ZERO);
    control.follow(next.clone()).await;
    old.draining().await;
    assert!(timeout(Duration::from_millis(100), old.cut()).await.is_err());
    drop(stay);
    control.obey(next).await;
    assert_eq!(control.confirmation().term, Term(5));
}

#[tokio::test(start_paused = true)]
async fn a_move_that_begins_while_writes_are_held_lets_reads_end_too() {
    let held = serving(4).held(Time::ZERO);
    for (next, patience) in [
        (held.switching_over(elsewhere(), Time::ZERO), PATIENCE),
        (held.new_term(candidate(), true, Time::ZERO), MOMENT),
        (held.new_term(elsewhere(), true, Time::ZERO), Duration::ZERO),
    ] {
        let (control, _tasks) = start();
        open(&control, &serving(4)).await;
        let old = reading(&control).await;
        let stay = old.stay();
        control.obey(held.clone()).await;
        assert!(!old.is_draining(), "reads outlast writes that are held");
        let began = Instant::now();
        control.follow(next.clone()).await;
        old.cut().await;
        let took = began.elapsed();
        assert!(
            took >= patience && took <= patience + MOMENT,
            "{took:?} of {patience:?}"
        );
        assert_eq!(control.confirmation().term, Term(4), "somebody reads");
        drop(stay);
        control.obey(next).await;
        assert_eq!(control.confirmation().term, Term(5));
    }
}

/// No route before, and none afterwards: nobody is cut, and whoever waits for a route must look again nevertheless.
#[tokio::test]
async fn who_waits_for_a_route_hears_that_the_cluster_falls_asleep_and_wakes() {
    let (control, _tasks) = start();
    let first = serving(4);
    open(&control, &first).await;
    let lost = first.new_term(elsewhere(), true, Time::ZERO);
    control.obey(lost.clone()).await;
    let (mut writes, mut reads) = (control.epochs(), control.reading());
    let asleep = lost.hibernated(Time::ZERO);
    let mut awake = asleep.touched();
    awake.state = lost.state;
    for (record, sleeps) in [(asleep.clone(), true), (asleep.touched(), true), (awake, false)] {
        writes.mark_unchanged();
        reads.mark_unchanged();
        let before = control.is_asleep();
        // The second one says nothing new.
        let mut newer = record.clone();
        newer.revision = Revision(control.confirmation().revision.0 + 1);
        control.obey(newer).await;
        assert_eq!(control.is_asleep(), sleeps);
        let told = (writes.has_changed().unwrap(), reads.has_changed().unwrap());
        assert_eq!(
            told,
            (before != sleeps, before != sleeps),
            "{}",
            record.headline()
        );
        assert!(control.epochs().borrow().route().is_none());
    }
}
