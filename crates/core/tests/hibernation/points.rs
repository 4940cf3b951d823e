//! The document, and the ConfigMaps it is kept in: scenarios 41, 42, 48, and what the debug commands read.

use super::bed::{Bed, HOUR, NOON, id, intent, name, plan, target};
use mainstay_core::hibernation::ids::{CycleId, ExecutorName, PlanName, Version};
use mainstay_core::hibernation::plan::Strategy;
use mainstay_core::hibernation::point::{Point, PointError};
use mainstay_core::hibernation::save::Capture;
use mainstay_core::hibernation::state::{Phase, Stand};
use mainstay_core::hibernation::store::{BUDGET, Shard, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

fn noop() -> ExecutorName {
    ExecutorName::parse("noop").unwrap()
}

fn empty_store() -> Store {
    Store::new(PlanName::parse("staging").unwrap(), Vec::new())
}

fn captured(states: impl IntoIterator<Item = (String, Value)>) -> Point {
    let seen: BTreeMap<_, _> = states
        .into_iter()
        .map(|(resource, state)| {
            (
                id(&resource),
                Capture {
                    state,
                    live: true,
                    settled: true,
                },
            )
        })
        .collect();
    let empty = Point::empty(noop(), name("web"));
    empty
        .save_or_preserve(CycleId(1), 0, "2026-11-16T20:05:00Z", &seen)
        .0
}

/// A ConfigMap as the operator before this one wrote it.
fn old(document: &str) -> Shard {
    Shard {
        number: 1,
        version: Some(Version("7".to_owned())),
        data: [("noop_web.json".to_owned(), document.to_owned())].into(),
        annotations: BTreeMap::new(),
    }
}

#[test]
fn the_document_has_the_fields_that_people_know_where_they_look_for_them() {
    let store = empty_store()
        .put(captured([("a".to_owned(), json!({"replicas": 3}))]))
        .unwrap();
    let shard = store.shards().next().unwrap();
    assert_eq!(
        Store::name(&PlanName::parse("my-plan").unwrap(), 1),
        "hibernator-restore-my-plan"
    );
    let text = &shard.data["noop_web.json"];
    let document: Value = serde_json::from_str(text).unwrap();
    assert_eq!(document["type"], "noop");
    assert_eq!(document["isLive"], true);
    assert_eq!(document["capturedAt"], "2026-11-16T20:05:00Z");
    assert_eq!(document["data"]["a"]["replicas"], 3);
    assert_eq!(
        document["resources"]["a"],
        json!({"live": true, "consumed": false})
    );
    assert_eq!(
        (&document["cycle"], &document["consumed"]),
        (&json!(1), &json!(false))
    );
    let marked = store.mark_target_restored(&name("web"));
    let marks = &marked.shards().next().unwrap().annotations;
    assert_eq!(marks["hibernator.ardikabs.com/restored-web"], "true");
}

#[test]
fn the_restore_managers_operations() {
    let (web, db) = (name("web"), name("db"));
    let none = empty_store();
    assert!(!none.has_restore_data() && !none.exists(&web));
    assert!(!none.all_targets_restored([&web]), "no ConfigMap is not restored");
    let store = none.put(captured([("a".to_owned(), json!(1))])).unwrap();
    assert!(store.has_restore_data() && store.exists(&web) && !store.exists(&db));
    assert!(!store.all_targets_restored([]), "nobody is not everybody");
    let one = store.mark_target_restored(&web);
    assert!(one.all_targets_restored([&web]) && !one.all_targets_restored([&web, &db]));
    let unlocked = one.unlock_restore_data();
    assert!(one.is_locked() && !unlocked.is_locked());
    assert_eq!(unlocked, store, "the marks go, the data stays");
    assert_eq!(store.changed_from(&none).len(), 1);
    assert!(store.changed_from(&store).is_empty());
}

#[test]
fn s41_a_point_without_a_quality_counts_as_good_and_a_stopped_capture_does_not_replace_it() {
    let store = Store::new(
        PlanName::parse("staging").unwrap(),
        vec![old(r#"{"type":"noop","data":{"replicas":3}}"#)],
    );
    let point = store.load(&noop(), &name("web")).unwrap().unwrap();
    assert!(point.is_live() && point.is_open() && point.is_old());
    let seen = [(
        id("a"),
        Capture {
            state: json!({"replicas": 0}),
            live: false,
            settled: true,
        },
    )]
    .into();
    let (kept, tally) = point.save_or_preserve(CycleId(9), 0, "later", &seen);
    assert_eq!((kept, tally.preserved), (point, 1));
    let low = Store::new(
        PlanName::parse("staging").unwrap(),
        vec![old(
            r#"{"type":"noop","data":"x","isLive":false,"capturedAt":"2026-02-06T10:00:00Z"}"#,
        )],
    );
    assert!(!low.load(&noop(), &name("web")).unwrap().unwrap().is_live());
}

#[test]
fn s41_an_old_point_of_something_that_runs_was_used_and_a_new_night_takes_new_truth() {
    let mut bed = Bed::simple();
    bed.shards
        .insert(1, old(r#"{"type":"noop","data":{"replicas":9},"isLive":true}"#));
    bed.settle();
    assert_eq!(bed.phase(), Phase::Active, "nothing sleeps");
    bed.night();
    bed.morning();
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 3));
}

#[test]
fn s42_a_spoiled_point_is_neither_used_nor_overwritten_and_the_others_go_on() {
    for spoil in [|t: &str| t.replace(":3", ":1"), |t: &str| t.replace('}', "")] {
        let two = vec![target("one"), target("two")];
        let strategy = Strategy::Sequential;
        let mut bed = Bed::new(plan(intent(two, strategy)), &[("one", "a", 1), ("two", "b", 3)]);
        bed.settle();
        bed.night();
        let shard = bed.shards.get_mut(&1).unwrap();
        let good = shard.data["noop_two.json"].clone();
        let bad = spoil(&good);
        assert_ne!(good, bad);
        shard.data.insert("noop_two.json".to_owned(), bad.clone());
        bed.morning();
        assert!(bed.said("RestorePointCorrupt"));
        assert_eq!(
            (bed.phase(), bed.replicas("a"), bed.replicas("b")),
            (Phase::Error, 1, 0)
        );
        assert_eq!(
            bed.shards[&1].data["noop_two.json"], bad,
            "nothing is overwritten"
        );
        bed.shards
            .get_mut(&1)
            .unwrap()
            .data
            .insert("noop_two.json".to_owned(), good);
        bed.later(HOUR);
        assert_eq!(
            (bed.phase(), bed.replicas("b")),
            (Phase::Active, 3),
            "repaired, it goes on by itself"
        );
    }
}

const TWO: &str = "noop_two.json";

/// In the morning `two` is awake as recorded, and `one` is not usable yet: the cycle is still open. With the document
/// of `two` as it was in the night.
fn two_is_awake() -> (Bed, String) {
    let both = vec![target("one"), target("two")];
    let plan = plan(intent(both, Strategy::Sequential));
    let mut bed = Bed::new(plan, &[("one", "a", 1), ("two", "b", 3)]);
    bed.settle();
    bed.night();
    let asleep = bed.shards[&1].data[TWO].clone();
    bed.things.get_mut(&id("a")).unwrap().settled = false;
    bed.morning();
    let cycle = bed.state.as_ref().unwrap().open.as_ref().unwrap();
    assert_eq!(cycle.targets[&name("two")].stand, Stand::Done);
    assert_eq!((bed.phase(), bed.replicas("b")), (Phase::WakingUp, 3));
    bed.things.get_mut(&id("a")).unwrap().settled = true;
    (bed, asleep)
}

fn write_two(bed: &mut Bed, text: &str) {
    let data = &mut bed.shards.get_mut(&1).unwrap().data;
    data.insert(TWO.to_owned(), text.to_owned());
}

fn starts_of_b(bed: &Bed) -> usize {
    bed.calls.iter().filter(|c| *c == "start b").count()
}

#[test]
fn s42_a_point_spoiled_after_its_target_woke_keeps_the_cycle_open_until_it_is_repaired() {
    for spoil in [|t: &str| t.replace(":3", ":1"), |t: &str| t.replace('}', "")] {
        let (mut bed, _) = two_is_awake();
        let good = bed.shards[&1].data[TWO].clone();
        let bad = spoil(&good);
        assert_ne!(good, bad);
        write_two(&mut bed, &bad);
        bed.later(Duration::from_mins(1));
        assert!(bed.said("RestorePointCorrupt"));
        assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Error, 1));
        assert_eq!(bed.shards[&1].data[TWO], bad, "nothing is overwritten");
        write_two(&mut bed, &good);
        bed.later(HOUR);
        assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Active, 3));
        assert_eq!(starts_of_b(&bed), 1, "what is awake is not started again");
    }
}

#[test]
fn s43_a_point_lost_after_its_target_woke_keeps_the_cycle_open_until_it_is_given_up() {
    let (mut bed, _) = two_is_awake();
    bed.shards.get_mut(&1).unwrap().data.remove(TWO);
    bed.later(Duration::from_mins(1));
    assert!(bed.said("NoRestorePoint"));
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Error, 1));
    bed.give_up("two");
    bed.later(HOUR);
    assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Active, 3));
    assert_eq!(starts_of_b(&bed), 1);
}

/// Asleep, abandoned, and applied again without `two`, whose point was spoiled meanwhile.
#[test]
fn s42_a_plan_made_anew_does_not_forget_a_point_that_it_cannot_read() {
    let both = vec![target("one"), target("two")];
    let whole = plan(intent(both, Strategy::Sequential));
    let mut bed = Bed::new(whole, &[("one", "a", 1), ("two", "b", 3)]);
    bed.settle();
    bed.night();
    let good = bed.shards[&1].data[TWO].clone();
    write_two(&mut bed, "{");
    bed.state = None;
    bed.plan.intent = intent(vec![target("one")], Strategy::Sequential);
    bed.morning();
    assert!(bed.said("RestorePointCorrupt"));
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Error, 1));
    bed.deleting = true;
    bed.later(HOUR);
    assert!(!bed.gone, "something of it still sleeps");
    write_two(&mut bed, &good);
    bed.later(HOUR);
    assert_eq!((bed.gone, bed.replicas("b")), (true, 3));
}

#[test]
fn s42_a_point_that_was_used_and_is_spoiled_by_day_keeps_nobody_awake_or_in_error() {
    let (mut bed, _) = two_is_awake();
    bed.settle();
    assert_eq!(bed.phase(), Phase::Active);
    write_two(&mut bed, "{");
    bed.later(HOUR);
    assert_eq!(bed.phase(), Phase::Active, "it closed when all were used");
}

#[test]
fn s42_a_point_of_the_night_put_back_after_its_target_woke_is_restored_again() {
    let (mut bed, asleep) = two_is_awake();
    write_two(&mut bed, &asleep);
    bed.later(Duration::from_mins(1));
    assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Active, 3));
    assert_eq!(starts_of_b(&bed), 2);
    assert!(!bed.point("two").is_open());
}

#[test]
fn s48_two_thousand_resources_are_split_and_what_cannot_fit_is_known_before_anything_stops() {
    let big = "x".repeat(1500);
    let point = captured((0..2000).map(|n| (format!("deployment/{n:05}"), json!({ "spec": big }))));
    let store = empty_store().put(point.clone()).unwrap();
    let sizes: Vec<usize> = store
        .shards()
        .map(|s| s.data.values().map(String::len).sum())
        .collect();
    assert!(sizes.len() > 3 && sizes.iter().all(|s| *s <= BUDGET), "{sizes:?}");
    assert!(
        store.shards().all(|s| s.annotations.is_empty()),
        "no annotation grows with data"
    );
    let read = store.load(&noop(), &name("web")).unwrap().unwrap();
    assert_eq!(read.entries.len(), 2000);
    assert!(!read.is_incomplete());
    // A missing part is noticed.
    let but_one: Vec<Shard> = store.shards().filter(|s| s.number != 2).cloned().collect();
    let cut = Store::new(PlanName::parse("staging").unwrap(), but_one);
    assert!(cut.load(&noop(), &name("web")).unwrap().unwrap().is_incomplete());
    // One resource that is larger than a ConfigMap, and more of them than there may be.
    let huge = captured([("a".to_owned(), json!("x".repeat(BUDGET)))]);
    assert!(matches!(
        empty_store().put(huge),
        Err(PointError::ResourceTooLarge { .. })
    ));
    let many = captured((0..40).map(|n| (format!("r{n}"), json!("x".repeat(800_000)))));
    assert_eq!(empty_store().put(many), Err(PointError::TooLarge(32)));
}

/// Two resources of one target, asleep, each in a ConfigMap of its own; the second ConfigMap is lost.
fn second_part_is_lost() -> (Bed, Shard) {
    let plan = plan(intent(vec![target("web")], Strategy::Sequential));
    let mut bed = Bed::new(plan, &[("web", "a", 3), ("web", "b", 2)]);
    bed.settle();
    // There is room for one of them only.
    let first = Shard {
        number: 1,
        version: Some(Version("0".to_owned())),
        data: [("notes".to_owned(), "x".repeat(BUDGET - 600))].into(),
        annotations: BTreeMap::new(),
    };
    bed.shards.insert(1, first);
    bed.night();
    assert_eq!((bed.replicas("a"), bed.replicas("b")), (0, 0));
    let lost = bed.shards.remove(&2).unwrap();
    (bed, lost)
}

#[test]
fn s48_a_part_that_is_lost_is_not_forgotten_when_the_rest_is_woken() {
    let (mut bed, lost) = second_part_is_lost();
    bed.morning();
    assert!(bed.said("RestorePointIncomplete"));
    assert_eq!((bed.replicas("a"), bed.replicas("b")), (3, 0));
    assert_eq!(bed.phase(), Phase::Error, "a human must know");
    for _ in 0..3 {
        bed.later(HOUR);
        assert!(bed.point("web").is_incomplete());
        assert_eq!(bed.phase(), Phase::Error, "and goes on knowing");
    }
    // Put back, it is used.
    bed.shards.insert(2, lost);
    bed.later(HOUR);
    assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Active, 2));
}

#[test]
fn s48_a_part_that_is_lost_can_be_given_up() {
    let (mut bed, _) = second_part_is_lost();
    bed.morning();
    bed.give_up("web");
    bed.later(HOUR);
    assert!(bed.said("Discarded"));
    assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Active, 0));
}

#[test]
fn s48_a_point_that_does_not_fit_stops_nothing() {
    let mut bed = Bed::simple();
    bed.settle();
    // Whatever else is in the ConfigMaps leaves no room.
    for number in 1..=32 {
        bed.shards.insert(
            number,
            Shard {
                number,
                version: Some(Version("1".to_owned())),
                data: [("notes".to_owned(), "x".repeat(BUDGET))].into(),
                annotations: BTreeMap::new(),
            },
        );
    }
    bed.night();
    assert!(bed.said("PointTooLarge"));
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Error, 3));
    assert!(bed.calls.is_empty());
    assert!(bed.now > NOON);
}

#[test]
fn s48_an_empty_rest_of_a_point_does_not_take_the_place_of_a_part_that_is_lost() {
    let mut rest = Point::empty(noop(), name("web"));
    (rest.cycle, rest.missing) = (Some(CycleId(1)), [1].into());
    let store = empty_store().put(rest).unwrap();
    let read = store.load(&noop(), &name("web")).unwrap().unwrap();
    assert_eq!(read.missing, [1].into(), "it is still known to be lost");
}

#[test]
fn s48_a_part_of_an_older_night_that_is_put_back_does_not_hide_what_was_captured_since() {
    let seen = |replicas: u32| {
        let capture = Capture {
            state: json!({ "replicas": replicas }),
            live: true,
            settled: true,
        };
        [(id("a"), capture)].into()
    };
    let empty = Point::empty(noop(), name("web"));
    let (mut old, _) = empty.save_or_preserve(CycleId(1), 0, "before", &seen(2));
    old.entries.get_mut(&id("a")).unwrap().shard = Some(3);
    let put_back = empty_store().put(old).unwrap().shards().next().unwrap().clone();
    let (new, _) = empty.save_or_preserve(CycleId(2), 1, "now", &seen(5));
    let mut shards: Vec<Shard> = empty_store().put(new).unwrap().shards().cloned().collect();
    assert_eq!((shards[0].number, put_back.number), (1, 3));
    shards.push(put_back);
    let store = Store::new(PlanName::parse("staging").unwrap(), shards);
    let read = store.load(&noop(), &name("web")).unwrap().unwrap();
    assert_eq!((read.cycle, read.leg), (Some(CycleId(2)), 1));
    assert_eq!(read.captured_at, "now");
    assert_eq!(read.entries[&id("a")].state, json!({ "replicas": 5 }));
}

/// Found by the simulation: somebody put back a part of an earlier leg that was used then, beside the one that counts.
#[test]
fn s48_a_used_part_that_is_put_back_hides_nothing_between_two_writes() {
    let capture = |live| Capture {
        state: json!({ "replicas": 3 }),
        live,
        settled: true,
    };
    let one_in = |point: &mut Point, number: u16| {
        point.entries.values_mut().for_each(|e| e.shard = Some(number));
    };
    let shard_of = |point: Point| empty_store().put(point).unwrap().shards().next().unwrap().clone();
    let empty = Point::empty(noop(), name("web"));
    let (mut old, _) = empty.save_or_preserve(CycleId(1), 1, "before", &[(id("a"), capture(true))].into());
    old.entries.get_mut(&id("a")).unwrap().consumed = true;
    one_in(&mut old, 1);
    let both = [(id("a"), capture(true)), (id("b"), capture(false))].into();
    let (mut new, _) = empty.save_or_preserve(CycleId(1), 3, "now", &both);
    one_in(&mut new, 2);
    let shards = vec![shard_of(old), shard_of(new)];
    assert_eq!((shards[0].number, shards[1].number), (1, 2));
    let store = Store::new(PlanName::parse("staging").unwrap(), shards);
    let mut point = store.load(&noop(), &name("web")).unwrap().unwrap();
    assert!(!point.entries[&id("a")].consumed, "the newer part counts");
    // `b` needs no start. The operator says so, and dies after the first of two writes.
    point.entries.get_mut(&id("b")).unwrap().consumed = true;
    let after = store.put(point).unwrap();
    let writes = after.changed_from(&store);
    assert_eq!(writes.len(), 2);
    let between = store.after(&writes[0]);
    for store in [between, after] {
        let point = store.load(&noop(), &name("web")).unwrap().unwrap();
        assert!(!point.entries[&id("a")].consumed, "it is still to be woken");
    }
}

#[test]
fn s48_a_write_that_is_interrupted_between_two_configmaps_loses_nothing() {
    let small = |shards| Store::with_budget(PlanName::parse("staging").unwrap(), shards, 1200);
    let seen = |ids: &[&str]| -> BTreeMap<_, _> {
        let capture = |text: &str| Capture {
            state: json!({ "x": "x".repeat(200), "of": text }),
            live: true,
            settled: true,
        };
        ids.iter().map(|text| (id(text), capture(text))).collect()
    };
    let (mut used, _) = captured([]).save_or_preserve(CycleId(1), 0, "first", &seen(&["a", "b", "c", "d"]));
    used.entries.values_mut().for_each(|e| e.consumed = true);
    let before = small(Vec::new()).put(used).unwrap();
    assert!(before.shards().count() > 1);
    let point = before.load(&noop(), &name("web")).unwrap().unwrap();
    // The same night again, in another leg: other resources, more of them, in more ConfigMaps.
    let (next, _) = point.save_or_preserve(
        CycleId(1),
        2,
        "again",
        &seen(&["e", "f", "g", "h", "i", "j", "k"]),
    );
    let after = before.put(next).unwrap();
    assert!(after.shards().count() > before.shards().count());
    let mut now = before.clone();
    for shard in after.changed_from(&before) {
        now = now.after(&shard);
        let read = now.load(&noop(), &name("web")).unwrap().unwrap();
        assert!(
            !read.is_incomplete(),
            "{} is written, and {:?} missing",
            shard.number,
            read.missing
        );
    }
    assert_eq!(now, after);
    // One that is really lost is missed, the first one as well.
    for lost in after.shards().map(|s| s.number) {
        let rest = after.shards().filter(|s| s.number != lost).cloned().collect();
        let read = small(rest).load(&noop(), &name("web")).unwrap().unwrap();
        assert_eq!(read.missing, [lost].into());
    }
}

#[test]
fn a_target_that_changed_its_executor_is_woken_by_the_one_that_knows_it_sleeps() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    // What another executor once recorded of it is spoiled, and the plan is made anew.
    let data = &mut bed.shards.get_mut(&1).unwrap().data;
    data.insert("other_web.json".to_owned(), "{".to_owned());
    data.insert("aa_web.json".to_owned(), "{".to_owned());
    bed.state = None;
    bed.morning();
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 3));
}
