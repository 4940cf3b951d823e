//! Restore data that is lost or given up: nothing is captured in its place, nobody is silent about it, and a wish to give
//! up counts for one leg only.

use super::bed::{Bed, HOUR, id, intent, name, plan, target};
use mainstay_core::hibernation::invariants::{Invariant, check};
use mainstay_core::hibernation::observed::{Severity, Stored};
use mainstay_core::hibernation::plan::{Behaviour, Drift, Intent, Mode, Strategy};
use mainstay_core::hibernation::state::{Phase, Stand};
use mainstay_core::hibernation::step::{Decision, Purpose, Step};
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

/// `web` with two resources, enforced, asleep.
fn enforced() -> Bed {
    let mut web = target("web");
    web.drift = Drift::Enforce;
    let plan = plan(intent(vec![web], Strategy::Sequential));
    let mut bed = Bed::new(plan, &[("web", "a", 3), ("web", "b", 2)]);
    bed.settle();
    bed.night();
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Hibernated, 0));
    bed
}

#[test]
fn s43_a_point_lost_at_night_is_named_and_nothing_is_captured_in_its_place() {
    for whole_map in [true, false] {
        let mut bed = enforced();
        let lost = bed.shards[&1].clone();
        if whole_map {
            bed.shards.clear();
        } else {
            bed.shards.get_mut(&1).unwrap().data.clear();
        }
        bed.reasons.clear();
        // Somebody starts one of them by hand, at another size: it is enforced no longer, because nobody could say later
        // what the other one was.
        bed.set("a", 7);
        bed.later(MINUTE);
        assert!(bed.said("NoRestorePoint") && !bed.said("Enforced"));
        assert_eq!(bed.replicas("a"), 7);
        assert!(!bed.store().has_restore_data(), "nothing looks like its point");
        bed.morning();
        assert_eq!(bed.phase(), Phase::Error, "a human must know");
        // Put back, everything is as it was.
        bed.shards.insert(1, lost);
        bed.later(HOUR);
        assert_eq!((bed.replicas("a"), bed.replicas("b")), (3, 2));
        assert_eq!(bed.phase(), Phase::Active);
    }
}

#[test]
fn h2_a_point_in_the_place_of_one_that_was_lost() {
    let mut bed = enforced();
    let point = bed.point("web");
    bed.shards.get_mut(&1).unwrap().data.clear();
    let mut other = point.clone();
    other.entries.remove(&id("b"));
    let shard = bed
        .store()
        .put(other)
        .unwrap()
        .changed_from(&bed.store())
        .remove(0);
    let wrong = Decision {
        steps: vec![Step::WriteShard {
            shard: Box::new(shard),
            purpose: Purpose::Save,
        }],
        ..bed.decision()
    };
    let judged = |bed: &Bed| {
        let stored = Stored {
            state: bed.state.clone(),
            store: bed.store(),
        };
        let found = check(&bed.plan, &stored, &bed.observed(), &wrong, bed.now);
        found.into_iter().map(|v| v.invariant).collect::<Vec<_>>()
    };
    assert_eq!(judged(&bed), [Invariant::NeverDowngraded]);
    bed.give_up("web");
    assert_eq!(judged(&bed), [], "a human said so");
    // A part of it is missing, and something else is captured.
    bed.wishes.discard.clear();
    let mut rest = point;
    rest.entries.remove(&id("b"));
    rest.missing = [2].into();
    let store = bed.store().put(rest).unwrap();
    bed.shards = store.shards().map(|s| (s.number, s.clone())).collect();
    bed.shards.get_mut(&1).unwrap().version = wrong_version(&wrong);
    let mut more = bed.point("web");
    let entry = more.entries[&id("a")].clone();
    more.entries.insert(id("c"), entry);
    let shard = bed
        .store()
        .put(more)
        .unwrap()
        .changed_from(&bed.store())
        .remove(0);
    let wrong = Decision {
        steps: vec![Step::WriteShard {
            shard: Box::new(shard),
            purpose: Purpose::Save,
        }],
        ..wrong.clone()
    };
    let stored = Stored {
        state: bed.state.clone(),
        store: bed.store(),
    };
    let found = check(&bed.plan, &stored, &bed.observed(), &wrong, bed.now);
    assert_eq!(found[0].invariant, Invariant::NeverDowngraded);
}

fn wrong_version(decision: &Decision) -> Option<mainstay_core::hibernation::ids::Version> {
    match &decision.steps[0] {
        Step::WriteShard { shard, .. } => shard.version.clone(),
        _ => None,
    }
}

/// `one` never wakes, so that the cycle has a second night; `two` does.
fn two_nights() -> Bed {
    let mut both = intent(
        vec![target("one"), target("two")],
        Strategy::Parallel { max: None },
    );
    both.behaviour.mode = Mode::BestEffort;
    let mut bed = Bed::new(plan(both), &[("one", "a", 1), ("two", "b", 3)]);
    bed.settle();
    bed.night();
    bed.broken.insert(id("a"), Severity::Permanent);
    bed
}

#[test]
fn s40_a_wish_to_give_up_does_not_count_for_a_later_night_of_the_same_cycle() {
    let mut bed = two_nights();
    bed.shards.get_mut(&1).unwrap().data.remove("noop_two.json");
    bed.morning();
    assert!(bed.said("NoRestorePoint"));
    bed.give_up("two");
    bed.later(HOUR);
    assert_eq!(bed.phase(), Phase::Error, "`one` keeps the cycle open");
    let cycle = bed.state.as_ref().unwrap().open.as_ref().unwrap();
    assert_eq!(cycle.targets[&name("two")].stand, Stand::Done);
    // They start it by hand; it sleeps in the evening, and the wish is still there.
    bed.set("b", 5);
    bed.broken.clear();
    bed.broken.insert(id("a"), Severity::Permanent);
    bed.night();
    assert_eq!(bed.replicas("b"), 0);
    let again = bed.state.as_ref().unwrap().open.as_ref().unwrap();
    assert_eq!((again.id.0, again.leg), (1, 2), "the same cycle");
    bed.broken.clear();
    // It is waited for like any other.
    bed.things.get_mut(&id("b")).unwrap().settled = false;
    bed.morning();
    assert_eq!((bed.phase(), bed.replicas("b")), (Phase::WakingUp, 5));
    bed.things.get_mut(&id("b")).unwrap().settled = true;
    bed.later(MINUTE);
    assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Active, 5));
    assert_eq!(bed.replicas("a"), 1);
}

#[test]
fn s40_a_point_can_be_given_up_at_night_and_a_fresh_cycle_may_begin() {
    for drift in [Drift::Ignore, Drift::Enforce] {
        let mut bed = Bed::simple();
        bed.plan.intent.targets[0].drift = drift;
        bed.settle();
        bed.night();
        bed.give_up("web");
        bed.later(MINUTE);
        assert!(bed.said("Discarded"));
        assert!(!bed.point("web").is_open());
        // Whoever gave it up starts it: it is theirs until the schedule turns, and the wish finds nothing new.
        bed.set("a", 5);
        bed.later(MINUTE);
        assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Hibernated, 5));
        // A fresh cycle is forced: nothing is left that forbids it.
        let state = bed.state.as_ref().unwrap();
        bed.state = Some(state.closed(bed.now));
        bed.settle();
        assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Hibernated, 0));
        assert_eq!(bed.state.as_ref().unwrap().cycle.0, 2);
        bed.morning();
        assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 5));
    }
}

#[test]
fn h6_what_was_given_up_is_not_touched() {
    let mut bed = enforced();
    bed.set("a", 7);
    bed.now = bed.now + MINUTE;
    let stops = bed.decision();
    assert!(stops.steps.iter().any(|s| matches!(s, Step::Stop(_))));
    bed.give_up("web");
    let stored = Stored {
        state: bed.state.clone(),
        store: bed.store(),
    };
    let found = check(&bed.plan, &stored, &bed.observed(), &stops, bed.now);
    assert!(
        found.iter().any(|v| v.invariant == Invariant::NoSilentEdit),
        "{found:?}"
    );
}

#[test]
fn a_failure_is_said_all_night_and_not_only_when_it_happens() {
    let mut both = intent(
        vec![target("one"), target("two")],
        Strategy::Parallel { max: None },
    );
    both.behaviour.mode = Mode::BestEffort;
    let mut bed = Bed::new(plan(both), &[("one", "a", 1), ("two", "b", 3)]);
    bed.settle();
    bed.broken.insert(id("a"), Severity::Permanent);
    bed.night();
    assert_eq!(
        (bed.phase(), bed.replicas("a"), bed.replicas("b")),
        (Phase::Hibernated, 1, 0)
    );
    bed.reasons.clear();
    bed.later(HOUR);
    assert!(
        bed.said("AlreadyHibernated") && bed.said("Failed"),
        "{:?}",
        bed.reasons
    );
    // Its point is spoiled at 23:00: nobody has to wait for the morning to hear of it.
    bed.shards
        .get_mut(&1)
        .unwrap()
        .data
        .insert("noop_two.json".to_owned(), "{".to_owned());
    bed.later(MINUTE);
    assert!(bed.said("RestorePointCorrupt"));
}

#[test]
fn s79_a_stop_that_is_refused_is_not_somebody_who_starts_it() {
    let mut bed = enforced();
    bed.broken.insert(id("a"), Severity::Permanent);
    bed.set("a", 7);
    for _ in 0..5 {
        bed.now = bed.now + MINUTE;
        bed.turn();
    }
    assert!(
        bed.said("CallFailed") && !bed.said("Contended"),
        "{:?}",
        bed.reasons
    );
    bed.broken.clear();
    bed.later(MINUTE);
    assert_eq!(bed.replicas("a"), 0, "it was never given up");
}

#[test]
fn s48_what_an_interrupted_write_never_wrote_is_not_missed_after_something_was_stopped_again() {
    let mut only = intent(vec![target("web")], Strategy::Sequential);
    only.behaviour.mode = Mode::BestEffort;
    let mut bed = Bed::new(plan(only), &[("web", "a", 3)]);
    bed.settle();
    // The shutdown of the evening came to nothing; only the second half of its point was written.
    bed.broken.insert(id("a"), Severity::Permanent);
    bed.night();
    let mut point = bed.point("web");
    point.entries.values_mut().for_each(|e| e.shard = Some(2));
    point.missing = [1].into();
    bed.shards.clear();
    let half = bed.store().put(point).unwrap();
    bed.shards = half.shards().map(|s| (s.number, s.clone())).collect();
    let cycle = bed.state.as_mut().unwrap().open.as_mut().unwrap();
    cycle.targets.get_mut(&name("web")).unwrap().captured = false;
    cycle.intent.targets[0].drift = Drift::Enforce;
    bed.broken.clear();
    for shard in bed.shards.values_mut() {
        shard.version = Some(mainstay_core::hibernation::ids::Version("half".to_owned()));
    }
    bed.later(MINUTE);
    assert_eq!(bed.replicas("a"), 0, "it is enforced");
    assert!(!bed.point("web").is_incomplete(), "and nothing is missed");
    bed.morning();
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 3));
}

/// Found by the simulation: the point was given up, the plan did not say so yet, and the turn was over.
#[test]
fn what_was_given_up_holds_nobody_up_whenever_the_operator_dies() {
    let targets = vec![target("db"), target("web")];
    let things = [("db", "a", 3), ("web", "b", 2)];
    for after_the_point in [false, true] {
        let mut bed = Bed::new(plan(intent(targets.clone(), Strategy::Sequential)), &things);
        bed.settle();
        bed.broken.insert(id("a"), Severity::Permanent);
        bed.night();
        assert_eq!(bed.replicas("b"), 2, "it waits for `db`, which failed");
        bed.give_up("db");
        if after_the_point {
            bed.die_after = Some(|step| matches!(step, Step::WriteShard { .. }));
            bed.turn();
            assert!(!bed.point("db").is_open(), "the point is given up");
        }
        bed.settle();
        assert_eq!((bed.replicas("a"), bed.replicas("b")), (3, 0));
        assert_eq!(bed.phase(), Phase::Hibernated);
        bed.morning();
        assert_eq!((bed.replicas("a"), bed.replicas("b")), (3, 2));
        assert_eq!(bed.phase(), Phase::Active);
    }
}

#[test]
fn what_was_given_up_asleep_is_not_called_failed_whenever_the_operator_dies() {
    let behaviour = Behaviour {
        mode: Mode::BestEffort,
        retries: 0,
    };
    let targets = vec![target("db"), target("web")];
    let intent = Intent::new(targets, Strategy::Parallel { max: None }, behaviour).unwrap();
    let mut bed = Bed::new(plan(intent), &[("db", "a", 3), ("web", "b", 2)]);
    bed.settle();
    bed.broken.insert(id("a"), Severity::Permanent);
    bed.night();
    assert_eq!(bed.phase(), Phase::Hibernated, "all but `db`");
    let db = |bed: &Bed| bed.state.as_ref().unwrap().open.as_ref().unwrap().targets[&name("db")].clone();
    assert!(matches!(db(&bed).stand, Stand::Failed { .. }));
    bed.give_up("db");
    bed.die_after = Some(|step| matches!(step, Step::WriteShard { .. }));
    bed.turn();
    assert!(
        matches!(db(&bed).stand, Stand::Failed { .. }),
        "it could not say so"
    );
    bed.settle();
    assert_eq!((db(&bed).stand, db(&bed).message), (Stand::Done, None));
}

/// Found by the simulation: nothing of `web` was captured tonight, and yet a document of another night kept the plan in
/// `Error` after somebody had deleted it.
#[test]
fn a_spoiled_point_of_another_night_is_repaired_by_deleting_it() {
    let targets = vec![target("db"), target("web")];
    let things = [("db", "a", 3), ("web", "b", 2)];
    let mut bed = Bed::new(plan(intent(targets, Strategy::Sequential)), &things);
    bed.settle();
    bed.night();
    bed.morning();
    assert_eq!(bed.phase(), Phase::Active);
    bed.broken.insert(id("a"), Severity::Permanent);
    bed.night();
    assert_eq!(bed.replicas("b"), 2, "`web` waits for `db`, which failed");
    let shard = bed.shards.get_mut(&1).unwrap();
    let key = shard.data.keys().find(|key| key.contains("web")).unwrap().clone();
    shard.data.insert(key.clone(), "{".to_owned());
    bed.broken.clear();
    bed.morning();
    assert_eq!(bed.phase(), Phase::Error);
    assert!(bed.said("RestorePointCorrupt"));
    bed.shards.get_mut(&1).unwrap().data.remove(&key);
    bed.later(MINUTE);
    assert_eq!(bed.phase(), Phase::Active);
    assert_eq!((bed.replicas("a"), bed.replicas("b")), (3, 2));
}

/// `web` with four resources, whose names are so long that no ConfigMap has room for all.
fn split() -> (Bed, Vec<String>) {
    let long = |n: u8| format!("{}-{n}", "x".repeat(120));
    let names: Vec<String> = (0..4).map(long).collect();
    let things: Vec<_> = names.iter().map(|name| ("web", name.as_str(), 2)).collect();
    let mut bed = Bed::new(plan(intent(vec![target("web")], Strategy::Sequential)), &things);
    bed.budget = 1200;
    bed.settle();
    (bed, names)
}

/// Found by the simulation: what a human gave up was captured anew in the same turn, the operator died between two
/// ConfigMaps, and the part that had never been written was asked for ever after.
#[test]
fn what_is_captured_after_it_was_given_up_is_captured_as_for_the_first_time() {
    let (mut bed, names) = split();
    let slow = |bed: &mut Bed, settled| bed.things.get_mut(&id(&names[0])).unwrap().settled = settled;
    slow(&mut bed, false);
    bed.night();
    assert!(bed.shards.len() > 1, "it is split");
    assert_eq!(bed.phase(), Phase::Hibernating, "on its way");
    bed.wishes.suspend = true;
    bed.later(MINUTE);
    bed.give_up("web");
    bed.shards.clear();
    for name in &names {
        bed.set(name, 3);
    }
    slow(&mut bed, true);
    bed.wishes.suspend = false;
    // It goes on in another leg, for which the wish does not count.
    bed.turn();
    for _ in 0..4 {
        // Whichever ConfigMap it is, in whichever turn.
        bed.die_after = Some(|step| matches!(step, Step::WriteShard { .. }));
        bed.turn();
    }
    bed.die_after = None;
    bed.settle();
    assert_eq!(bed.phase(), Phase::Hibernated);
    bed.morning();
    assert_eq!(bed.phase(), Phase::Active);
    assert!(names.iter().all(|name| bed.replicas(name) == 3));
}

/// Found by the simulation: a write was interrupted after the second ConfigMap, the point was whole all the same, and so
/// the first one kept the part of another night, which knew of no others and missed none.
#[test]
fn a_part_of_another_night_that_an_interrupted_write_left_is_written_anew() {
    let (mut bed, _) = split();
    // A night in which there was nothing: its part is in the first ConfigMap and speaks of no other.
    for thing in bed.things.values_mut() {
        thing.selected = false;
    }
    bed.night();
    bed.morning();
    assert_eq!(bed.shards.len(), 1);
    // Of the next night only what the second ConfigMap has room for is left to capture when the first was not written.
    let key = bed.shards[&1].data.keys().next().unwrap().clone();
    bed.shards
        .get_mut(&1)
        .unwrap()
        .data
        .insert("zz".to_owned(), "x".repeat(600));
    for thing in bed.things.values_mut().take(2) {
        thing.selected = true;
    }
    bed.die_after = Some(|step| matches!(step, Step::WriteShard { .. }));
    bed.night();
    assert_eq!(bed.phase(), Phase::Hibernated);
    assert!(bed.shards[&2].data.contains_key(&key), "it is there");
    bed.shards.remove(&2);
    bed.morning();
    assert_eq!(bed.phase(), Phase::Error, "what slept is missed");
    assert!(bed.said("RestorePointIncomplete"), "{:?}", bed.reasons.last());
}
