//! What could not be looked at, what nobody can replay, and what a failure of one target must not hide about the others.

use super::bed::{Bed, HOUR, id, intent, name, plan, target};
use mainstay_core::hibernation::ids::Version;
use mainstay_core::hibernation::invariants::{Invariant, check};
use mainstay_core::hibernation::observed::{Severity, Skip, Stored};
use mainstay_core::hibernation::plan::{Drift, Mode, Strategy};
use mainstay_core::hibernation::state::{Phase, Stand};
use mainstay_core::hibernation::step::{Decision, Step};
use mainstay_core::hibernation::store::Shard;
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

fn two() -> Bed {
    let targets = vec![target("db"), target("web")];
    let things = [("db", "a", 3), ("web", "b", 2)];
    Bed::new(plan(intent(targets, Strategy::Sequential)), &things)
}

fn stand(bed: &Bed, of: &str) -> Stand {
    bed.state.as_ref().unwrap().open.as_ref().unwrap().targets[&name(of)].stand
}

fn starts(bed: &Bed, resource: &str) -> usize {
    let call = format!("start {resource}");
    bed.calls.iter().filter(|c| **c == call).count()
}

#[test]
fn a_start_is_not_made_again_because_the_look_after_it_was_refused() {
    for severity in [Severity::Transient, Severity::Permanent] {
        let mut bed = Bed::simple();
        bed.settle();
        bed.night();
        bed.now = bed.now + HOUR * 10;
        while starts(&bed, "a") == 0 {
            assert!(bed.turn());
        }
        // An autoscaler takes over at once; several looks are refused, and a write of the status, too.
        bed.set("a", 9);
        bed.blind.insert(name("web"), severity);
        for _ in 0..3 {
            bed.turn();
            bed.now = bed.now + MINUTE;
        }
        assert_eq!(bed.answers.len(), 1, "told again, and once: {:?}", bed.answers);
        bed.blind.clear();
        bed.later(HOUR);
        assert_eq!((bed.phase(), starts(&bed, "a")), (Phase::Active, 1));
        assert_eq!(bed.replicas("a"), 9, "what was made of it since stays");
    }
}

/// `db` is asleep and enforced, `web` could not be stopped, and the plan is in `Error`.
fn one_failed() -> Bed {
    let mut bed = two();
    bed.plan.intent.targets[0].drift = Drift::Enforce;
    bed.settle();
    bed.broken.insert(id("b"), Severity::Permanent);
    bed.night();
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Error, 0));
    bed.reasons.clear();
    bed
}

#[test]
fn s79_what_is_started_in_a_night_that_has_failed_elsewhere_is_stopped_again() {
    let mut bed = one_failed();
    assert!(
        bed.decision().wake.unwrap() <= bed.now + MINUTE,
        "it is looked at"
    );
    for _ in 0..3 {
        bed.set("a", 7);
        bed.later(MINUTE);
        assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Error, 0));
    }
    bed.set("a", 7);
    bed.later(MINUTE);
    assert!(bed.said("Enforced") && bed.said("Contended"), "{:?}", bed.reasons);
    assert_eq!(bed.replicas("a"), 7, "and not for ever");
    bed.broken.clear();
    bed.morning();
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 3));
}

#[test]
fn a_point_lost_in_a_night_that_has_failed_elsewhere_is_missed_at_once() {
    let mut bed = one_failed();
    bed.plan.intent.targets[0].parameters = serde_json::json!({ "edited": true });
    let lost = bed
        .shards
        .get_mut(&1)
        .unwrap()
        .data
        .remove("noop_db.json")
        .unwrap();
    bed.set("a", 7);
    bed.later(MINUTE);
    assert!(bed.said("NoRestorePoint") && !bed.said("Enforced"));
    assert!(bed.said("SpecDiffers"), "{:?}", bed.reasons);
    assert!(bed.decision().watched);
    assert_eq!(bed.replicas("a"), 7, "nobody could say later what it was");
    // Also of the one that failed, which nobody tries again by itself.
    let shard = bed.shards.get_mut(&1).unwrap();
    shard.data.insert("noop_db.json".to_owned(), lost);
    shard.data.insert("noop_web.json".to_owned(), "{".to_owned());
    bed.reasons.clear();
    bed.later(MINUTE);
    assert!(bed.said("RestorePointCorrupt") && !bed.said("NoRestorePoint"));
    assert_eq!(bed.replicas("a"), 0, "put back, it is enforced");
}

#[test]
fn s79_the_next_night_of_the_same_cycle_has_its_own_patience() {
    let mut bed = two();
    bed.plan.intent.behaviour.mode = Mode::BestEffort;
    bed.plan.intent.targets[1].drift = Drift::Enforce;
    bed.settle();
    for _ in 0..2 {
        bed.night();
        bed.reasons.clear();
        for _ in 0..3 {
            bed.set("b", 7);
            bed.later(MINUTE);
            assert_eq!(bed.replicas("b"), 0);
        }
        bed.set("b", 7);
        bed.later(MINUTE);
        assert!(bed.said("Contended"));
        // `db` does not wake, and the cycle has another night.
        bed.broken.insert(id("a"), Severity::Permanent);
        bed.morning();
        assert_eq!(bed.state.as_ref().unwrap().cycle.0, 1);
    }
}

/// A point that an older version wrote: it names no resources.
fn old(bed: &mut Bed, key: &str) {
    let executor = key.split('_').next().unwrap();
    let text = format!(r#"{{"type":"{executor}","data":{{"replicas":3}},"isLive":true}}"#);
    let shard = bed.shards.entry(1).or_insert_with(|| Shard {
        number: 1,
        version: Some(Version("given".to_owned())),
        data: [].into(),
        annotations: [].into(),
    });
    shard.data.insert(key.to_owned(), text);
}

#[test]
fn s41_an_old_point_that_nobody_can_look_at_waits_for_a_human_and_the_others_go_on() {
    let mut bed = two();
    bed.settle();
    bed.night();
    // The plan is made anew, and beside its own points there is one of an executor that is not here.
    bed.state = None;
    old(&mut bed, "ec2_vms.json");
    bed.blind.insert(name("vms"), Severity::Permanent);
    bed.later(MINUTE);
    assert!(bed.said("RestorePointOld"), "{:?}", bed.reasons);
    bed.morning();
    assert_eq!((bed.replicas("a"), bed.replicas("b")), (3, 2));
    assert_eq!((bed.phase(), stand(&bed, "vms")), (Phase::Error, Stand::Lost));
    // It is said as long as it is so, and nothing is done about it.
    bed.reasons.clear();
    bed.calls.clear();
    bed.later(HOUR);
    assert!(bed.said("Failed") && bed.calls.is_empty());
    bed.give_up("vms");
    bed.later(MINUTE);
    assert_eq!(bed.phase(), Phase::Active);
}

#[test]
fn s41_an_old_point_that_is_refused_for_now_is_waited_for_and_that_is_said() {
    let mut bed = Bed::simple();
    old(&mut bed, "noop_web.json");
    bed.blind.insert(name("web"), Severity::Transient);
    bed.settle();
    assert!(bed.said("LookFailed") && bed.said("WaitForLook") && bed.state.is_none());
    assert!(bed.decision().wake.is_some(), "soon again");
    bed.blind.clear();
    bed.later(MINUTE);
    assert_eq!(bed.phase(), Phase::Active, "something of it runs: it was used");
}

#[test]
fn s41_an_old_point_that_names_no_resources_is_tried_once_and_then_waits_for_a_human() {
    let mut bed = two();
    bed.set("a", 0);
    old(&mut bed, "noop_db.json");
    bed.settle();
    assert_eq!((bed.phase(), stand(&bed, "db")), (Phase::Error, Stand::Lost));
    assert_eq!(bed.times("Starting"), 1, "{:?}", bed.reasons);
    assert_eq!(stand(&bed, "web"), Stand::Done, "the others need not wait");
    bed.later(HOUR * 2);
    assert_eq!(bed.times("Starting"), 1, "it does not get better by itself");
    bed.wishes.retry = Some("now".to_owned());
    bed.later(MINUTE);
    assert_eq!(bed.times("Starting"), 2, "it does when somebody asks");
    bed.give_up("db");
    bed.later(MINUTE);
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 0));
}

#[test]
fn a_plan_may_go_although_nobody_can_replay_an_old_point() {
    // It was never taken over, or it was and is all that is left; or its executor has refused it.
    for (taken_over, blind) in [(false, true), (true, true), (true, false)] {
        let mut bed = two();
        if taken_over {
            bed.settle();
            bed.night();
            bed.state = None;
        } else {
            bed.finalizer = true;
        }
        old(&mut bed, "ec2_vms.json");
        if blind {
            bed.blind.insert(name("vms"), Severity::Permanent);
        }
        bed.deleting = true;
        bed.later(MINUTE);
        assert!(
            bed.gone && bed.said("PointsStay"),
            "{taken_over}: {:?}",
            bed.reasons
        );
        assert_eq!((bed.replicas("a"), bed.replicas("b")), (3, 2), "the others first");
        assert!(bed.shards[&1].data.contains_key("ec2_vms.json"));
    }
}

#[test]
fn h6_a_plan_does_not_go_while_something_else_of_it_sleeps() {
    let mut bed = two();
    bed.settle();
    bed.night();
    bed.state = None;
    old(&mut bed, "ec2_vms.json");
    bed.blind.insert(name("vms"), Severity::Permanent);
    bed.broken.insert(id("a"), Severity::Permanent);
    bed.deleting = true;
    bed.later(MINUTE);
    assert!(!bed.gone, "`db` sleeps");
    let stored = Stored {
        state: bed.state.clone(),
        store: bed.store(),
    };
    let wrong = Decision {
        steps: vec![Step::RemoveFinalizer],
        ..bed.decision()
    };
    let found = check(&bed.plan, &stored, &bed.observed(), &wrong, bed.now);
    assert_eq!(found[0].invariant, Invariant::NoSilentEdit);
    bed.broken.clear();
    bed.later(HOUR);
    assert!(bed.gone);
}

#[test]
fn s40_a_wish_of_an_earlier_leg_does_not_make_a_failure_well() {
    let mut bed = two();
    bed.plan.intent.behaviour.mode = Mode::BestEffort;
    bed.plan.intent.strategy = Strategy::Parallel { max: None };
    bed.settle();
    bed.night();
    bed.give_up("web");
    bed.later(MINUTE);
    assert!(!bed.point("web").is_open(), "given up");
    // `db` keeps the cycle open, and in its next night nothing of `web` can be seen.
    bed.broken.insert(id("a"), Severity::Permanent);
    bed.morning();
    bed.blind.insert(name("web"), Severity::Permanent);
    bed.night();
    assert_eq!(bed.state.as_ref().unwrap().cycle.0, 1, "the same cycle");
    assert_eq!(bed.phase(), Phase::Hibernated, "all but `web`");
    bed.reasons.clear();
    bed.later(HOUR);
    assert_eq!(stand(&bed, "web"), Stand::Failed { retry_at: None });
    assert!(!bed.point("web").is_open(), "and its point is still the old one");
    assert!(bed.said("Failed") && !bed.said("LeftAsItIs"), "{:?}", bed.reasons);
}

#[test]
fn many_that_are_left_alone_for_one_reason_are_one_sentence() {
    let names: Vec<String> = (10..90).map(|n| format!("r{n}")).collect();
    let things: Vec<_> = names.iter().map(|n| ("web", n.as_str(), 1)).collect();
    let mut bed = Bed::new(plan(intent(vec![target("web")], Strategy::Sequential)), &things);
    for name in names.iter().skip(1) {
        bed.things.get_mut(&id(name)).unwrap().skip = Some(Skip::Protected);
    }
    bed.things.get_mut(&id("r10")).unwrap().settled = false;
    bed.settle();
    bed.now = bed.now + HOUR * 9;
    for _ in 0..5 {
        bed.reasons.clear();
        bed.turn();
    }
    let said: Vec<String> = bed.reasons.iter().map(ToString::to_string).collect();
    let line = "`web`: `r11`, `r12`, `r13` and 76 more are left alone, it is protected";
    assert!(said.iter().any(|s| s == line) && said.len() < 4, "{said:?}");
}

#[test]
fn s35_one_resource_that_cannot_be_looked_at_keeps_only_itself_asleep() {
    for severity in [Severity::Transient, Severity::Permanent] {
        let plan = plan(intent(vec![target("web")], Strategy::Sequential));
        let mut bed = Bed::new(plan, &[("web", "a", 3), ("web", "b", 2), ("web", "off", 0)]);
        bed.settle();
        bed.night();
        bed.hidden.insert(id("b"), severity);
        bed.hidden.insert(id("off"), severity);
        bed.morning();
        assert_eq!((bed.replicas("a"), bed.replicas("b")), (3, 0), "{severity:?}");
        assert!(bed.said("Unseen"));
        assert!(!bed.said("Usable") && !bed.said("AllRestored"));
        assert_ne!(bed.phase(), Phase::Active);
        let point = bed.point("web");
        assert!(point.entries[&id("a")].consumed && !point.entries[&id("b")].consumed);
        assert!(
            point.entries[&id("off")].consumed,
            "what did not run is nobody's business"
        );
        bed.later(HOUR);
        assert_eq!((bed.replicas("a"), bed.replicas("b")), (3, 0));
        bed.hidden.clear();
        bed.later(HOUR);
        assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Active, 2));
        let starts: Vec<&String> = bed.calls.iter().filter(|c| c.starts_with("start")).collect();
        assert_eq!(starts, ["start a", "start b"]);
    }
}

#[test]
fn s35_what_was_started_and_cannot_be_seen_for_a_while_is_not_started_twice() {
    let plan = plan(intent(vec![target("web")], Strategy::Sequential));
    let mut bed = Bed::new(plan, &[("web", "a", 3), ("web", "b", 2)]);
    bed.settle();
    bed.night();
    bed.now = bed.now + HOUR * 10;
    while !bed.calls.contains(&"start b".to_owned()) {
        bed.turn();
    }
    bed.hidden.insert(id("b"), Severity::Transient);
    bed.settle();
    assert!(
        !bed.point("web").entries[&id("b")].consumed,
        "nobody has seen it run"
    );
    // An autoscaler makes something of it meanwhile.
    bed.set("b", 7);
    bed.hidden.clear();
    bed.later(HOUR);
    assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Active, 7));
    assert_eq!(bed.calls.iter().filter(|c| *c == "start b").count(), 1);
}

#[test]
fn s35_what_is_back_and_cannot_be_seen_is_not_called_usable() {
    let plan = plan(intent(vec![target("web")], Strategy::Sequential));
    let mut bed = Bed::new(plan, &[("web", "a", 3), ("web", "b", 2)]);
    bed.settle();
    bed.night();
    bed.things.get_mut(&id("b")).unwrap().settled = false;
    bed.morning();
    assert!(bed.point("web").entries[&id("b")].consumed && bed.said("WaitUntilUsable"));
    bed.hidden.insert(id("b"), Severity::Transient);
    bed.later(Duration::from_mins(1));
    assert_ne!(bed.phase(), Phase::Active);
    bed.hidden.clear();
    bed.things.get_mut(&id("b")).unwrap().settled = true;
    bed.later(HOUR);
    assert_eq!(bed.phase(), Phase::Active);
}
