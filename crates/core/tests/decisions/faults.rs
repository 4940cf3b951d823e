//! Situations that were once decided wrongly, each with what is right.

use super::cluster::{NOW, Situation, TERM, ago, cluster, process};
use super::render::text;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::observed::{Role, Status};
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::reason::Why;
use mainstay_core::memgraph::record::Writes;
use std::time::Duration;

fn whys(situation: &Situation) -> Vec<Why> {
    situation.plan().reasons.into_iter().map(|r| r.why).collect()
}

fn has_step(situation: &Situation, wanted: impl Fn(&Step) -> bool) -> bool {
    situation.plan().steps.iter().any(|p| wanted(&p.step))
}

fn named(situation: Situation, pod: u8) -> Situation {
    situation.wish(|w| w.override_main = Some((Ordinal(pod), NOW + Duration::from_mins(1))))
}

#[test]
fn a_main_that_dies_during_a_move_leaves_writes_open_as_after_any_failover() {
    let dead = cluster().crashed(0).moving();
    let last = dead
        .plan()
        .steps
        .last()
        .and_then(|p| p.step.record().cloned())
        .expect("it serves");
    assert_eq!(last.writes, Writes::Open, "{}", text(&dead.plan()));
}

#[test]
fn a_protected_pod_that_is_shown_as_diverged_is_not_reset_without_approval() {
    let diverged = cluster().listed(1, |r| r.status = Status::Diverged);
    assert_eq!(
        whys(&diverged),
        [Why::NeedsApproval { pod: Ordinal(1) }],
        "{}",
        text(&diverged.plan())
    );
    assert!(diverged.plan().steps.is_empty());
}

#[test]
fn a_reset_whose_process_restarted_before_the_marker_was_written_is_asked_for_again() {
    let restarted = cluster()
        .unprotected()
        .unregistered(1)
        .resetting(1)
        .restarted(1)
        .accused(1, 3);
    let again = |s: &Step| {
        s.record()
            .is_some_and(|r| r.reset.is_none_or(|r| r.process != process(1)))
    };
    assert!(has_step(&restarted, again), "{}", text(&restarted.plan()));
}

#[test]
fn a_pod_without_an_object_is_not_reset() {
    let gone = cluster()
        .unregistered(2)
        .accused(2, 3)
        .pod(2, |p| p.object = None);
    assert!(gone.plan().steps.is_empty(), "{}", text(&gone.plan()));
}

#[test]
fn a_reset_is_not_over_while_nothing_runs_there() {
    let away = cluster().crashed(2).resetting(2);
    assert!(
        !whys(&away).contains(&Why::ResetOver { pod: Ordinal(2) }),
        "{}",
        text(&away.plan())
    );
}

#[test]
fn writes_are_not_held_for_longer_than_a_hold() {
    let held = |s: Situation| {
        s.record(|r| {
            r.writes = Writes::Held;
            r.held_at = ago(60_000);
        })
    };
    let late = [
        held(cluster().joining()).one_gateway(|g| g.revision.0 -= 1),
        held(cluster().unprotected()).one_gateway(|g| g.term.0 -= 1),
    ];
    for situation in late {
        let opens = |s: &Step| s.record().is_some_and(|r| r.writes == Writes::Open);
        assert!(has_step(&situation, opens), "{}", text(&situation.plan()));
    }
}

#[test]
fn writes_that_were_closed_for_a_sleep_that_did_not_come_are_opened_again() {
    let alone = cluster()
        .unprotected()
        .unregistered(1)
        .crashed(1)
        .record(|r| r.writes = Writes::Closed);
    let opens = |s: &Step| s.record().is_some_and(|r| r.writes == Writes::Open);
    assert!(has_step(&alone, opens), "{}", text(&alone.plan()));
}

#[test]
fn a_human_who_names_a_pod_is_heard_wherever_the_plan_says_that_a_human_must_look() {
    let suspicious = cluster().crashed(0).no_main(1).mark(1, None);
    let unmarked = cluster().restarted(0).unprotected().mark(0, None);
    let woken = cluster()
        .becomes(|r| r.hibernated(ago(1000)))
        .record(|r| r.sync = None)
        .emptied(0);
    for (pod, situation) in [(1, suspicious), (0, unmarked), (1, woken)] {
        assert!(situation.plan().steps.is_empty(), "it waits for a human");
        let named = named(situation, pod);
        let promoted = |s: &Step| matches!(s, Step::Promote(t) if t.pod == Ordinal(pod));
        assert!(has_step(&named, promoted), "{}", text(&named.plan()));
    }
}

#[test]
fn an_override_begins_above_the_mark_of_the_pod_it_names() {
    let ahead = named(cluster().crashed(0).unprotected().mark(1, Some(TERM.0 + 5)), 1);
    let back = |s: &Step| matches!(s, Step::AdvanceMark { from: Some(from), to, .. } if to < from);
    assert!(!has_step(&ahead, back), "{}", text(&ahead.plan()));
}

#[test]
fn b4_a_main_that_did_not_answer_show_replicas_is_not_discovered_yet() {
    let unread = |s: Situation, pod| s.answer(pod, |a| a.replicas = None);
    let adopted = unread(cluster().never_recorded(), 0);
    let begun = unread(super::cluster::fresh().role(1, Role::Main), 1);
    for situation in [adopted, begun] {
        assert!(situation.plan().steps.is_empty(), "{}", text(&situation.plan()));
    }
}

#[test]
fn a_lost_mark_does_not_keep_a_dead_registration_from_being_removed() {
    let stuck = cluster().mark(0, None).mark(1, None).listed(1, |r| {
        r.status = Status::Invalid;
        r.since = ago(60_000);
    });
    assert!(
        has_step(&stuck, |s| matches!(s, Step::Drop { .. })),
        "{}",
        text(&stuck.plan())
    );
}

#[test]
fn a_first_candidate_whose_data_was_not_read_is_not_called_suspicious() {
    let record = mainstay_core::memgraph::record::Record::initialising(
        TERM,
        super::cluster::a_candidate(0),
        ago(1000),
    );
    let unread = cluster()
        .with(|s| s.record = Some(record))
        .restarted(0)
        .answer(0, |a| a.data = None);
    assert!(
        !whys(&unread).contains(&Why::SuspiciousData { pod: Ordinal(0) }),
        "{}",
        text(&unread.plan())
    );
}

#[test]
fn nobody_is_asked_to_choose_while_the_protected_pod_is_only_slow_to_answer() {
    let lost = Why::MainVolumeLost {
        main: Ordinal(0),
        other: Ordinal(1),
    };
    let serving = cluster().emptied(0).silent(1, 1);
    let woken = cluster()
        .becomes(|r| r.hibernated(ago(1000)))
        .emptied(0)
        .silent(1, 1);
    for situation in [serving, woken] {
        assert!(!whys(&situation).contains(&lost), "{}", text(&situation.plan()));
    }
}

#[test]
fn an_async_registration_never_delays_the_withdrawal_of_a_protection_that_is_gone() {
    let wrong = cluster().listed(2, |r| r.address_ok = false).unregistered(1);
    let held = wrong.clone().record(|r| {
        r.writes = Writes::Held;
        r.held_at = ago(1000);
    });
    for situation in [wrong, held.one_gateway(|g| g.revision.0 -= 1)] {
        let withdraws = |s: &Step| s.record().is_some_and(|r| r.sync.is_none());
        assert!(has_step(&situation, withdraws), "{}", text(&situation.plan()));
    }
}
