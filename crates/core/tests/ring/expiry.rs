//! A permission that its gate did not use in time is given anew only under all checks, or taken back.

use super::situation::{NOW, Situation, host, known, member, ready};
use mainstay_core::ring::ids::{DiskId, GrantNumber};
use mainstay_core::ring::invariants::{Invariant, check};
use mainstay_core::ring::ledger::{Grant, Ledger, Phase, Task};
use mainstay_core::ring::observed::Liveness;
use mainstay_core::ring::spec::PERMISSION;
use mainstay_core::ring::stamp::Found;
use mainstay_core::ring::{Plan, Step};
use std::time::Duration;

fn written(situation: &Situation) -> Option<Ledger> {
    let plan = situation.plan();
    plan.steps.iter().find_map(Step::ledger).cloned()
}

fn grant(ledger: &mut Ledger) -> &mut Grant {
    match ledger.work.as_mut().map(|w| &mut w.phase) {
        Some(Phase::Granted(grant)) => grant,
        other => panic!("{other:?}"),
    }
}

/// The permission was given so long ago, and the gate still holds an empty disk.
fn permitted(ago: Duration) -> Situation {
    let mut situation = ready();
    situation.ledger = written(&situation).unwrap();
    grant(&mut situation.ledger).at = NOW - ago;
    situation
}

const OVER: Duration = Duration::from_mins(2);

#[test]
fn s10_one_that_was_not_used_in_time_is_given_anew_while_all_checks_hold() {
    let waiting = permitted(OVER.checked_sub(Duration::from_millis(1)).unwrap());
    assert_eq!(written(&waiting), None, "a gate may use it yet");
    assert_eq!(waiting.plan().wake, Some(NOW + Duration::from_millis(1)));
    let mut late = permitted(OVER);
    assert_eq!(OVER, PERMISSION * 2);
    let mut next = written(&late).unwrap();
    assert_eq!(next.grants, GrantNumber(2), "{}", late.text());
    let new = grant(&mut next).clone();
    assert_eq!((new.number, new.at), (GrantNumber(2), NOW));
    // Once more: what the first one did is still known to be the permission's own doing.
    late.ledger = next;
    grant(&mut late.ledger).at = NOW - OVER;
    late.node(0, 1).liveness = Liveness::Up;
    assert!(written(&late).unwrap().retired.is_empty());
}

#[test]
fn n3_one_that_was_not_used_is_taken_back_when_the_dead_lives_again() {
    let mut alive = permitted(OVER);
    assert!(alive.ledger.retired.contains(&known(1).disk.unwrap()));
    alive.node(0, 1).liveness = Liveness::Up;
    let next = written(&alive).unwrap();
    assert_eq!(next.work, None, "{}", alive.text());
    assert!(next.retired.is_empty(), "its own disk may start again");
    assert!(alive.text().contains("StillAlive"), "{}", alive.text());
    assert!(alive.text().contains("did not use permission 1 in time"));
    alive.ledger = next;
    assert_eq!(written(&alive), None, "{}", alive.text());
}

#[test]
fn the_place_is_free_for_others_and_for_sleep() {
    let mut asleep = permitted(OVER);
    asleep.seen.wishes.hibernated = true;
    assert_eq!(written(&asleep).unwrap().work, None, "{}", asleep.text());
}

#[test]
fn a_disk_that_was_fenced_before_stays_fenced_and_after_a_failure_the_place_stays_taken() {
    let mut before = permitted(OVER);
    grant(&mut before.ledger).retires = false;
    before.node(0, 1).liveness = Liveness::Up;
    assert!(!written(&before).unwrap().retired.is_empty());
    let mut tried = permitted(OVER);
    tried.ledger.work.as_mut().unwrap().failed = 1;
    tried.node(0, 1).liveness = Liveness::Up;
    let next = written(&tried).unwrap();
    assert!(matches!(next.work.unwrap().phase, Phase::Resting { .. }));
    assert!(!next.retired.is_empty());
}

#[test]
fn i6_10_to_free_the_disk_while_a_gate_may_use_the_permission_is_refused() {
    for (ago, disk, allowed) in [
        (OVER, DiskId(0xe1), true),
        (PERMISSION, DiskId(0xe1), false),
        (OVER, DiskId(0xe2), false),
    ] {
        let mut situation = permitted(ago);
        let pod = situation.seen.members[1].pod.as_mut().unwrap();
        pod.report.as_mut().unwrap().disk = disk;
        let next = situation.ledger.with(|l| {
            l.work = None;
            l.retired.clear();
        });
        let plan = Plan::default().write(next);
        let found = check(Some(&situation.ledger), &situation.seen, &plan, NOW);
        let broken = found.iter().any(|v| v.invariant == Invariant::RetiredStays);
        assert_eq!(broken, !allowed, "{ago:?} {disk:?}: {found:?}");
    }
}

#[test]
fn one_that_was_used_at_the_moment_at_which_another_was_given_is_seen_through() {
    let mut crossed = permitted(Duration::from_secs(1));
    crossed.report(1, Found::StartedWith(GrantNumber(1)));
    grant(&mut crossed.ledger).number = GrantNumber(2);
    crossed.ledger.grants = GrantNumber(2);
    assert_eq!(written(&crossed), None, "{}", crossed.text());
    let new = host(9);
    for by in [0, 2] {
        let node = crossed.node(by, 1);
        (node.host, node.liveness) = (new, Liveness::Up);
    }
    let next = written(&crossed).unwrap();
    assert_eq!(next.known[&member(1)].host, new);
    assert_eq!(next.work, None);
}

/// Before anybody was on record, the disk of the second member was exchanged for that of the founder, which runs now.
#[test]
fn a_new_member_in_which_another_disk_runs_gives_its_place_back_when_its_permission_is_over() {
    let exchanged = |ago: Duration| {
        let mut situation = permitted(ago);
        situation.ledger.work.as_mut().unwrap().task = Task::Join;
        situation.ledger.known.clear();
        for view in &mut situation.seen.members {
            view.record = None;
        }
        situation.report(1, Found::Started(host(0)));
        let pod = situation.seen.members[1].pod.as_mut().unwrap();
        pod.report.as_mut().unwrap().disk = known(0).disk.unwrap();
        situation.seen.answers.clear();
        situation
    };
    let early = exchanged(OVER.checked_sub(Duration::from_millis(1)).unwrap());
    assert_eq!(written(&early), None, "its own disk may be back in time");
    let late = exchanged(OVER);
    let next = written(&late).expect("everybody would wait for ever");
    assert_eq!(next.work, None, "{}", late.text());
    // After a try that failed no permission is out.
    let pod = late.seen.members[1].pod.as_ref().unwrap().uid;
    for phase in [Phase::Resting { until: NOW }, Phase::GivenUp { pod }] {
        let mut failed = exchanged(OVER);
        let work = failed.ledger.work.as_mut().unwrap();
        (work.phase, work.failed) = (phase, 1);
        let next = written(&failed).expect("everybody would wait for ever");
        assert_eq!(next.work, None, "{}", failed.text());
    }
}
