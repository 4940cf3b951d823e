//! Suspension, overrides, deletion, edits: scenarios 18, 19, 50 to 61.

use super::bed::{Bed, HOUR, id, intent, plan, target};
use mainstay_core::hibernation::observed::Severity;
use mainstay_core::hibernation::plan::{Deletion, Strategy, TargetOverride};
use mainstay_core::hibernation::state::Phase;
use mainstay_core::schedule::{Override, Span};
use std::collections::BTreeMap;
use std::time::Duration;

fn two() -> Bed {
    let targets = vec![target("one"), target("two")];
    Bed::new(
        plan(intent(targets, Strategy::Sequential)),
        &[("one", "a", 1), ("two", "b", 2)],
    )
}

#[test]
fn s19_awake_for_three_hours_survives_a_restart() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    let wish = Override::awake_for(bed.now + HOUR * 3, HOUR * 3, "a demo").unwrap();
    bed.plan.schedule = bed.plan.schedule.clone().with_override(Some(wish));
    bed.later(HOUR * 3);
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 3));
    bed.answers.clear();
    bed.later(HOUR * 3);
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Hibernated, 0));
}

/// The story that lost data once, step by step.
#[test]
fn s50_the_data_loss_story_ends_with_the_original_state() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    bed.broken.insert(id("a"), Severity::Permanent);
    bed.morning();
    assert_eq!(bed.phase(), Phase::Error);
    bed.wishes.suspend = true;
    bed.later(HOUR);
    assert_eq!(
        (bed.phase(), bed.annotation.as_deref()),
        (Phase::Suspended, Some("Error"))
    );
    bed.broken.clear();
    bed.wishes.suspend = false;
    bed.later(HOUR);
    assert!(bed.said("ForcedWakeUp"));
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 3));
    assert_eq!(bed.annotation, None, "suspension tracking is cleaned up");
    bed.set("a", 5);
    bed.night();
    assert!(bed.point("web").is_open());
    bed.morning();
    assert_eq!(bed.replicas("a"), 5, "a later night captures fresh data");
}

#[test]
fn s51_resumed_in_the_night_it_stays_asleep_and_nothing_is_stopped_again() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    bed.calls.clear();
    bed.plan.suspend = true;
    bed.later(HOUR);
    bed.plan.suspend = false;
    bed.later(HOUR);
    assert_eq!(bed.phase(), Phase::Hibernated);
    assert!(bed.calls.is_empty() && bed.said("ResumeAsleep"));
}

#[test]
fn s52_the_remembered_phase_is_the_first_one() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    bed.wishes.suspend = true;
    for _ in 0..5 {
        bed.later(HOUR);
    }
    assert_eq!(bed.state.as_ref().unwrap().suspended_at, Some(Phase::Hibernated));
    assert_eq!(bed.annotation.as_deref(), Some("Hibernated"));
}

/// It dies before and after every step, one after the other, until there is none left to die at.
#[test]
fn s53_a_crash_at_every_step_of_a_forced_wake_up_and_it_happens_once() {
    for place in 0.. {
        let mut bed = Bed::simple();
        bed.settle();
        bed.night();
        bed.wishes.suspend = true;
        bed.morning();
        bed.calls.clear();
        bed.wishes.suspend = false;
        bed.die_at = Some(place);
        while bed.die_at.is_some() && bed.turn() {
            bed.now = bed.now + Duration::from_secs(1);
        }
        let alive = bed.die_at.take().is_some();
        // It was started, and nobody who comes after can know it: then, and only then, it is started once more.
        let unknown = !bed.calls.is_empty() && bed.point("web").is_open();
        bed.settle();
        assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 3), "{place}");
        let starts = if unknown { 2 } else { 1 };
        assert_eq!(bed.calls, vec!["start a"; starts], "{place}");
        // Before its first write nothing has happened, and the next one decides the same.
        let forced = if place == 0 { 2 } else { 1 };
        assert_eq!(bed.times("ForcedWakeUp"), forced, "{place}");
        let state = bed.state.as_ref().unwrap();
        assert_eq!(
            (state.history.len(), &state.open),
            (1, &None),
            "{place}: one cycle"
        );
        if alive {
            assert!(place >= 10, "only {place} places");
            return;
        }
    }
}

#[test]
fn s54_suspended_in_the_middle_of_a_shutdown_it_goes_on_or_wakes() {
    for resumed_at_night in [true, false] {
        let mut bed = two();
        bed.settle();
        bed.now = bed.now + HOUR * 9;
        while bed.replicas("a") > 0 {
            bed.turn();
        }
        bed.wishes.suspend = true;
        bed.settle();
        assert_eq!((bed.replicas("a"), bed.replicas("b")), (0, 2), "no new stage");
        if resumed_at_night {
            bed.wishes.suspend = false;
            bed.later(HOUR);
            assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Hibernated, 0));
        } else {
            bed.morning();
            bed.wishes.suspend = false;
            bed.later(HOUR);
            assert_eq!(
                (bed.phase(), bed.replicas("a"), bed.replicas("b")),
                (Phase::Active, 1, 2)
            );
            assert!(!bed.calls.contains(&"stop b".to_owned()));
        }
    }
}

#[test]
fn s55_a_suspension_with_a_deadline_ends_by_itself() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.wishes.suspend_until = Some(bed.now + HOUR * 10);
    bed.night();
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Suspended, 3));
    assert_eq!(bed.decision().wake, bed.wishes.suspend_until);
    bed.later(HOUR * 3);
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Hibernated, 0));
}

#[test]
fn s56_awake_by_wish_wins_over_the_schedule_and_loses_to_suspension() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    bed.plan.suspend = true;
    let wish = Override::awake_for(bed.now, HOUR * 2, "").unwrap();
    bed.plan.schedule = bed.plan.schedule.clone().with_override(Some(wish));
    bed.later(Duration::from_mins(5));
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Suspended, 0));
    bed.plan.suspend = false;
    bed.later(Duration::from_mins(5));
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 3));
    bed.later(HOUR * 3);
    assert_eq!(bed.phase(), Phase::Hibernated);
}

#[test]
fn s57_deleted_while_asleep_it_wakes_first_or_says_that_it_does_not() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    bed.deleting = true;
    bed.broken.insert(id("a"), Severity::Permanent);
    bed.later(HOUR);
    assert!(!bed.gone && bed.said("WakeBeforeDeletion"), "deletion waits");
    bed.broken.clear();
    bed.wishes.retry = Some("1".to_owned());
    bed.later(HOUR);
    assert!(bed.gone && bed.replicas("a") == 3);

    let mut bed = Bed::simple();
    bed.plan.deletion = Deletion::Abandon;
    bed.settle();
    bed.night();
    bed.deleting = true;
    bed.later(HOUR);
    assert!(bed.gone && bed.said("Abandoned"));
    assert_eq!(bed.replicas("a"), 0);
    // Applied again, the plan takes its points over.
    (bed.gone, bed.deleting, bed.finalizer, bed.state) = (false, false, false, None);
    bed.morning();
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 3));
}

#[test]
fn s18_s59_s60_edits_while_asleep_count_from_the_next_cycle() {
    let mut bed = two();
    bed.settle();
    bed.night();
    bed.plan.intent = intent(
        vec![target("one"), target("three")],
        Strategy::Parallel { max: None },
    );
    bed.later(HOUR);
    assert!(bed.said("SpecDiffers"));
    bed.morning();
    assert_eq!(
        (bed.phase(), bed.replicas("a"), bed.replicas("b")),
        (Phase::Active, 1, 2)
    );
    bed.night();
    let cycle = bed.state.as_ref().unwrap().open.as_ref().unwrap();
    let names: Vec<_> = cycle.targets.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["one", "three"]);
}

#[test]
fn s61_a_target_that_an_exception_disables_does_not_keep_the_cycle_open() {
    let mut bed = two();
    bed.settle();
    let valid = Span {
        from: bed.now,
        to: bed.now + HOUR * 12,
    };
    bed.plan.overrides.push(TargetOverride {
        exception: "load-test".to_owned(),
        valid,
        disabled: [target("one").name].into(),
        parameters: BTreeMap::new(),
    });
    bed.night();
    assert_eq!(
        (bed.phase(), bed.replicas("a"), bed.replicas("b")),
        (Phase::Hibernated, 1, 0)
    );
    bed.morning();
    assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Active, 2));
}

#[test]
fn the_schedule_flips_in_the_middle_and_the_desired_state_wins() {
    let mut bed = two();
    bed.plan.intent.strategy = Strategy::Parallel { max: None };
    bed.settle();
    bed.broken.insert(id("b"), Severity::Permanent);
    bed.night();
    assert_eq!(
        (bed.phase(), bed.replicas("a"), bed.replicas("b")),
        (Phase::Error, 0, 2)
    );
    bed.morning();
    assert_eq!(
        bed.replicas("a"),
        1,
        "what went down is woken, although the shutdown had failed"
    );
    bed.broken.clear();
    bed.later(HOUR);
    bed.wishes.retry = Some("1".to_owned());
    bed.later(HOUR);
    assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Active, 2));
}

/// A plan whose targets were made nonsense of at night: what has begun is followed to its end, as it was recorded.
#[test]
fn a_plan_that_only_ends_wakes_what_sleeps_and_puts_nothing_to_sleep_again() {
    let targets = vec![target("db"), target("web")];
    let things = [("db", "a", 3), ("web", "b", 2)];
    let all_at_once = intent(targets, Strategy::Parallel { max: None });
    let mut bed = Bed::new(plan(all_at_once), &things);
    bed.settle();
    bed.night();
    bed.plan.ending = true;
    bed.later(HOUR);
    assert_eq!(
        (bed.phase(), bed.replicas("b")),
        (Phase::Hibernated, 0),
        "not yet"
    );
    bed.broken.insert(id("a"), Severity::Permanent);
    bed.morning();
    assert_eq!((bed.replicas("a"), bed.replicas("b")), (0, 2));
    bed.night();
    assert_eq!(bed.replicas("b"), 2, "it is time to sleep, and `web` stays awake");
    bed.wishes.suspend = true;
    bed.later(HOUR);
    bed.wishes.suspend = false;
    bed.later(HOUR);
    assert_eq!(bed.replicas("b"), 2, "nor does it after a suspension");
    bed.broken.clear();
    bed.wishes.retry = Some("again".to_owned());
    bed.later(HOUR);
    assert_eq!((bed.replicas("a"), bed.replicas("b")), (3, 2));
    assert_eq!(bed.phase(), Phase::Active);
    bed.later(HOUR);
    assert_eq!((bed.replicas("a"), bed.replicas("b")), (3, 2), "no night begins");
}
