//! Capture, save, consume: scenarios 22 to 48.

use super::bed::{Bed, HOUR, id, intent, plan, target};
use mainstay_core::hibernation::observed::{Severity, Skip};
use mainstay_core::hibernation::plan::{Drift, Strategy};
use mainstay_core::hibernation::state::Phase;
use mainstay_core::hibernation::step::{Purpose, Step};
use std::time::Duration;

fn three() -> Bed {
    let plan = plan(intent(vec![target("web")], Strategy::Sequential));
    Bed::new(plan, &[("web", "a", 3), ("web", "b", 1), ("web", "c", 0)])
}

fn enforcing() -> Bed {
    let mut web = target("web");
    web.drift = Drift::Enforce;
    Bed::new(plan(intent(vec![web], Strategy::Sequential)), &[("web", "a", 3)])
}

#[test]
fn s22_the_first_cycle_records_all_and_starts_what_ran() {
    let mut bed = three();
    bed.settle();
    assert_eq!(bed.phase(), Phase::Active);
    bed.night();
    assert_eq!(bed.phase(), Phase::Hibernated);
    let live: Vec<bool> = bed.point("web").entries.values().map(|e| e.live).collect();
    assert_eq!(live, [true, true, false]);
    assert!(bed.point("web").is_open());
    assert_eq!((bed.replicas("a"), bed.replicas("b")), (0, 0));
    bed.morning();
    assert_eq!(bed.phase(), Phase::Active);
    assert_eq!(
        (bed.replicas("a"), bed.replicas("b"), bed.replicas("c")),
        (3, 1, 0)
    );
    assert_eq!(bed.calls, ["stop a", "stop b", "start a", "start b"]);
    assert!(!bed.point("web").is_open());
    assert!(!bed.store().is_locked(), "unlocked after everything is restored");
}

#[test]
fn s23_killed_right_after_a_stop_and_the_point_already_says_it_ran() {
    for after in [true, false] {
        let mut bed = Bed::simple();
        bed.settle();
        let is_stop: fn(&Step) -> bool = |s| matches!(s, Step::Stop(_));
        if after {
            bed.die_after = Some(is_stop);
        } else {
            bed.die_before = Some(is_stop);
        }
        bed.night();
        assert!(bed.die_after.is_none() && bed.die_before.is_none(), "it died");
        assert!(bed.point("web").entries[&id("a")].live);
        assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Hibernated, 0));
        bed.morning();
        assert_eq!(bed.replicas("a"), 3);
    }
}

#[test]
fn s25_a_point_that_is_refused_stops_nothing() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.refuse_shards = 5;
    bed.now = bed.now + HOUR * 9;
    for _ in 0..6 {
        bed.turn();
        assert!(bed.calls.is_empty());
    }
    let write = bed
        .decision()
        .steps
        .into_iter()
        .find(|s| matches!(s, Step::WriteShard { .. }));
    assert_eq!(write.unwrap().on_failure(), "failed to save restore data");
    bed.settle();
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Hibernated, 0));
}

#[test]
fn s26_a_second_shutdown_of_what_is_down_preserves_the_point() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    let before = bed.point("web");
    // The morning cannot wake it, and the evening shuts it down a second time.
    bed.broken.insert(id("a"), Severity::Transient);
    bed.morning();
    bed.reasons.clear();
    bed.night();
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Hibernated, 0));
    let said: Vec<String> = bed.reasons.iter().map(ToString::to_string).collect();
    let counted = "restore point of `web`: 0 saved, 0 upgraded, 1 preserved";
    assert_eq!(said.iter().filter(|s| *s == counted).count(), 1, "{said:#?}");
    let after = bed.point("web");
    assert_eq!(
        (after.entries, after.captured_at),
        (before.entries, before.captured_at)
    );
    bed.broken.clear();
    bed.morning();
    assert_eq!(bed.replicas("a"), 3);
}

#[test]
fn s26_a_plan_that_lost_its_status_takes_the_point_over_and_captures_nothing() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    let before = bed.point("web");
    bed.state = None;
    bed.settle();
    assert_eq!(bed.phase(), Phase::Hibernated);
    assert!(bed.said("Adopted"));
    assert_eq!(bed.point("web"), before);
    bed.morning();
    assert_eq!(bed.replicas("a"), 3);
}

#[test]
fn s31_a_shutdown_that_fails_keeps_the_older_points_of_the_other_targets() {
    let both = vec![target("one"), target("two")];
    let plan = plan(intent(both, Strategy::Sequential));
    let mut bed = Bed::new(plan, &[("one", "a", 3), ("two", "b", 2)]);
    bed.settle();
    bed.night();
    // `two` does not wake; in the evening the stop of `one` fails.
    bed.broken.insert(id("b"), Severity::Transient);
    bed.morning();
    assert_eq!(
        (bed.replicas("a"), bed.replicas("b")),
        (0, 0),
        "Strict: `one` waits for `two`"
    );
    bed.broken.clear();
    bed.broken.insert(id("a"), Severity::Permanent);
    bed.later(HOUR);
    assert_eq!((bed.replicas("a"), bed.replicas("b")), (0, 2));
    let older = bed.point("one").entries;
    bed.night();
    assert_eq!(
        bed.point("one").entries,
        older,
        "what still sleeps keeps its record"
    );
    bed.set("a", 1);
    bed.later(HOUR);
    assert_eq!(bed.point("one").entries, older);
    bed.broken.clear();
    bed.morning();
    assert_eq!(
        (bed.phase(), bed.replicas("a"), bed.replicas("b")),
        (Phase::Active, 3, 2)
    );
}

#[test]
fn s27_an_entry_that_did_not_run_is_upgraded_when_it_runs_in_the_same_cycle() {
    let mut web = target("web");
    web.drift = Drift::Enforce;
    let mut bed = Bed::new(plan(intent(vec![web], Strategy::Sequential)), &[("web", "a", 0)]);
    bed.settle();
    bed.night();
    assert!(!bed.point("web").entries[&id("a")].live);
    bed.set("a", 2);
    bed.later(Duration::from_mins(2));
    assert!(bed.point("web").entries[&id("a")].live);
    assert_eq!(bed.replicas("a"), 0);
    bed.morning();
    assert_eq!(bed.replicas("a"), 2);
}

#[test]
fn s28_s29_a_new_night_takes_new_truth_and_what_a_user_stopped_stays_stopped() {
    let mut bed = three();
    bed.settle();
    bed.night();
    bed.morning();
    bed.set("a", 6);
    bed.set("b", 0);
    bed.later(HOUR);
    bed.night();
    bed.morning();
    assert_eq!(
        (bed.replicas("a"), bed.replicas("b"), bed.replicas("c")),
        (6, 0, 0)
    );
}

#[test]
fn s30_a_stop_that_fails_loses_nothing_that_was_captured() {
    let things: Vec<(&str, &str, u64)> = ["a", "b", "c", "d", "e"]
        .into_iter()
        .map(|r| ("web", r, 2))
        .collect();
    let mut bed = Bed::new(plan(intent(vec![target("web")], Strategy::Sequential)), &things);
    bed.settle();
    bed.broken.insert(id("c"), Severity::Transient);
    bed.night();
    assert_eq!(bed.phase(), Phase::Error);
    assert!(bed.point("web").entries.values().all(|e| e.live));
    assert_eq!(
        (bed.replicas("b"), bed.replicas("c"), bed.replicas("d")),
        (0, 2, 0)
    );
    bed.broken.clear();
    bed.later(Duration::from_mins(3));
    assert_eq!(bed.phase(), Phase::Hibernated);
    assert!(bed.point("web").entries.values().all(|e| e.live && !e.consumed));
    bed.morning();
    assert!(["a", "b", "c", "d", "e"].iter().all(|r| bed.replicas(r) == 2));
}

#[test]
fn s32_started_by_hand_and_ignored_is_reported_and_restored_as_recorded() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    bed.set("a", 1);
    bed.later(HOUR);
    assert!(bed.said("Drifted"));
    assert_eq!(bed.replicas("a"), 1, "nobody touches it");
    bed.morning();
    assert_eq!(bed.replicas("a"), 3, "the restore point is the contract");
}

#[test]
fn s33_started_by_hand_and_enforced_is_stopped_again_with_the_same_point() {
    let mut bed = enforcing();
    bed.settle();
    bed.night();
    let point = bed.point("web");
    bed.set("a", 1);
    bed.later(Duration::from_mins(2));
    assert_eq!((bed.replicas("a"), bed.point("web")), (0, point));
    bed.morning();
    assert_eq!(bed.replicas("a"), 3);
}

#[test]
fn s79_whoever_starts_it_three_times_again_is_not_fought() {
    let mut bed = enforcing();
    bed.settle();
    bed.night();
    for _ in 0..3 {
        bed.set("a", 3);
        bed.later(Duration::from_mins(2));
        assert_eq!(bed.replicas("a"), 0);
    }
    bed.set("a", 3);
    bed.later(Duration::from_mins(2));
    assert_eq!(bed.replicas("a"), 3);
    assert!(bed.said("Contended"));
}

#[test]
fn s35_a_wake_up_that_fails_in_part_is_retried_only_there() {
    let two = vec![target("one"), target("two")];
    let strategy = Strategy::Parallel { max: None };
    let mut bed = Bed::new(plan(intent(two, strategy)), &[("one", "a", 1), ("two", "b", 2)]);
    bed.settle();
    bed.night();
    bed.broken.insert(id("b"), Severity::Transient);
    bed.morning();
    assert_eq!(bed.phase(), Phase::Error);
    assert!(!bed.point("one").is_open() && bed.point("two").is_open());
    bed.broken.clear();
    bed.calls.clear();
    bed.later(Duration::from_mins(5));
    assert_eq!(bed.calls, ["start b"]);
    assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Active, 2));
}

#[test]
fn s40_a_new_cycle_never_begins_over_a_point_that_was_not_used() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    let cycle = bed.state.as_ref().unwrap().cycle;
    // Somebody forces the status to Active in the middle of the night.
    let state = bed.state.as_ref().unwrap();
    bed.state = Some(state.closed(bed.now));
    bed.settle();
    assert_eq!(
        (bed.state.as_ref().unwrap().cycle, bed.phase()),
        (cycle, Phase::Hibernated)
    );
    bed.morning();
    assert_eq!(bed.replicas("a"), 3);
}

#[test]
fn s43_a_target_without_a_point_is_named_and_the_others_wake() {
    let two = vec![target("one"), target("two")];
    let mut bed = Bed::new(
        plan(intent(two, Strategy::Sequential)),
        &[("one", "a", 1), ("two", "b", 2)],
    );
    bed.settle();
    bed.night();
    bed.shards.get_mut(&1).unwrap().data.remove("noop_two.json");
    // Reverse order: the one without a point comes first, and the plan is Strict.
    bed.plan.intent.behaviour.mode = mainstay_core::hibernation::plan::Mode::Strict;
    bed.morning();
    assert!(bed.said("NoRestorePoint"));
    assert_eq!(bed.phase(), Phase::Error);
    assert_eq!(bed.replicas("a"), 1, "it never blocks the others");
    bed.give_up("two");
    bed.later(HOUR);
    assert_eq!(bed.phase(), Phase::Active);
}

#[test]
fn s44_a_selector_that_finds_nothing_gives_an_empty_point() {
    let mut bed = Bed::new(plan(intent(vec![target("web")], Strategy::Sequential)), &[]);
    bed.settle();
    bed.night();
    assert_eq!(bed.phase(), Phase::Hibernated);
    assert!(bed.said("NothingSelected"));
    assert!(bed.point("web").entries.is_empty());
    bed.morning();
    assert_eq!(bed.phase(), Phase::Active);
    assert!(
        bed.said("NothingRecorded") && bed.calls.is_empty(),
        "nothing, and why"
    );
}

#[test]
fn s45_s47_a_deleted_resource_is_left_out_and_one_without_its_label_is_woken() {
    let mut bed = three();
    bed.settle();
    bed.night();
    bed.things.get_mut(&id("a")).unwrap().exists = false;
    bed.things.get_mut(&id("b")).unwrap().selected = false;
    bed.morning();
    assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Active, 1));
    let vanished = bed.reasons.iter().filter(|w| w.id() == "Vanished");
    let vanished: Vec<String> = vanished.map(ToString::to_string).collect();
    assert_eq!(vanished, ["`web`: `a` is not there any more and left out"]);
    assert!(!bed.calls.contains(&"start a".to_owned()), "{:?}", bed.calls);
    bed.later(HOUR);
    bed.night();
    assert!(
        !bed.point("web").entries.contains_key(&id("a")),
        "dropped after consumption"
    );
    assert_eq!(bed.times("Vanished"), 1, "it is counted once");
}

#[test]
fn s62_s82_what_another_plan_claims_or_a_label_protects_is_never_stopped() {
    let mut bed = three();
    let other = mainstay_core::hibernation::ids::PlanName::parse("other").unwrap();
    bed.things.get_mut(&id("a")).unwrap().skip = Some(Skip::ClaimedBy(other));
    bed.things.get_mut(&id("b")).unwrap().skip = Some(Skip::Protected);
    bed.settle();
    bed.night();
    assert_eq!(bed.phase(), Phase::Hibernated);
    assert!(bed.calls.is_empty());
    assert!(bed.said("Conflict") && bed.said("Skipped"));
    assert!(!bed.point("web").entries.contains_key(&id("a")));
}

#[test]
fn s86_every_save_says_what_was_saved_and_what_preserved() {
    let mut bed = three();
    bed.settle();
    bed.night();
    let captured = |bed: &Bed| -> Vec<String> {
        let all = bed.reasons.iter().filter(|w| w.id() == "Captured");
        all.map(ToString::to_string).collect()
    };
    let saved = "restore point of `web`: 3 saved, 0 upgraded, 0 preserved";
    assert_eq!(captured(&bed), [saved]);
    assert_eq!(bed.purposes, [Purpose::Save]);
    // Nothing can be woken, and it is night again: the only record of what ran stays, and that is said, too. What did
    // not run needed no start, so that its record was used.
    for resource in ["a", "b", "c"] {
        bed.broken.insert(id(resource), Severity::Transient);
    }
    bed.morning();
    bed.night();
    let preserved = "restore point of `web`: 1 saved, 0 upgraded, 2 preserved";
    assert_eq!(captured(&bed), [saved, preserved]);
    bed.broken.clear();
    bed.purposes.clear();
    bed.morning();
    // What did not run is noted at once, what was started when that was answered.
    assert_eq!(
        bed.purposes,
        [Purpose::MarkRestored, Purpose::MarkRestored, Purpose::Unlock]
    );
    for once in ["Consumed", "Unlocked", "AllRestored"] {
        assert_eq!(bed.times(once), 1, "{once}");
    }
}

#[test]
fn s38_who_still_wakes_what_somebody_else_puts_to_sleep_loses_the_race_for_the_point() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    let night = bed.now;
    let morning = night + HOUR * 10;
    bed.now = morning;
    while !bed.calls.contains(&"start a".to_owned()) {
        assert!(bed.turn());
    }
    // It was started, and is about to be called restored.
    let late = bed.decision();
    let written = late.steps.iter().find_map(|step| match step {
        Step::WriteShard { shard, .. } => Some(shard.clone()),
        _ => None,
    });
    let (late, before) = (written.unwrap(), bed.state.clone());
    // Another operator, whose clock is wrong, puts it to sleep again.
    bed.answers.clear();
    bed.now = night;
    let stops = |bed: &Bed| bed.calls.iter().filter(|c| *c == "stop a").count();
    while stops(&bed) < 2 {
        assert!(bed.turn());
    }
    let leg = bed.state.as_ref().unwrap().open.as_ref().unwrap().leg;
    assert_eq!(
        bed.point("web").leg,
        leg,
        "the point was written anew before the stop"
    );
    assert_ne!(
        bed.shards[&1].version, late.version,
        "the first one's write is refused"
    );
    assert_eq!(bed.point("web").entries[&id("a")].state["replicas"], 3);
    // Whoever reads the new point, but has the plan from before, touches nothing: all it tries is a write of the plan,
    // which is refused.
    let now = std::mem::replace(&mut bed.state, before);
    bed.now = morning;
    let behind = bed.decision();
    assert!(
        matches!(behind.steps.as_slice(), [Step::WriteState(_)]) && behind.reasons[0].id() == "Behind",
        "{behind:?}"
    );
    bed.state = now;
    bed.settle();
    bed.later(HOUR);
    assert_eq!(bed.replicas("a"), 3);
}

#[test]
fn s33_what_did_not_run_and_is_not_selected_any_more_is_not_stopped_when_somebody_starts_it() {
    let mut bed = three();
    bed.plan.intent.targets[0].drift = Drift::Enforce;
    bed.settle();
    bed.night();
    bed.things.get_mut(&id("c")).unwrap().selected = false;
    bed.set("c", 4);
    bed.later(HOUR);
    assert_eq!(bed.replicas("c"), 4, "it is nobody's any more");
    bed.morning();
    assert_eq!((bed.phase(), bed.replicas("c")), (Phase::Active, 4));
}
