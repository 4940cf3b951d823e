use super::carried::{exported, imported, left_alone, merged, overwritten, reopened, without};
use super::*;
use mainstay_core::hibernation::ids::{CycleId, ExecutorName, ResourceId};
use mainstay_core::hibernation::save::Capture;
use std::collections::BTreeMap;

fn store(replicas: u32) -> Store {
    let id = |text: &str| ResourceId::parse(text).unwrap();
    let capture = |replicas: u32| Capture {
        state: json!({ "replicas": replicas }),
        live: replicas > 0,
        settled: true,
    };
    let seen = BTreeMap::from([
        (id("apps/v1/deployments/web"), capture(replicas)),
        (id("apps/v1/deployments/off"), capture(0)),
    ]);
    let executor = ExecutorName::parse("workloads").unwrap();
    let empty = Point::empty(executor, TargetName::parse("apps").unwrap());
    let (point, _) = empty.save_or_preserve(CycleId(7), 0, "2026-11-16T20:00:00Z", &seen);
    Store::new(plan_name("staging").unwrap(), Vec::new())
        .put(point)
        .unwrap()
}

#[test]
fn points_are_listed_with_what_is_wrong_with_them() {
    let good = store(3);
    let spoilt = good.shards().cloned().map(|mut shard| {
        let text = shard.data["workloads_apps.json"].replace("\"replicas\":3", "\"replicas\":9");
        shard.data.insert("workloads_db.json".to_owned(), text);
        shard
    });
    let spoilt = Store::new(plan_name("staging").unwrap(), spoilt.collect());
    insta::assert_snapshot!(format!("{}\n{}", listed(&lines(&good)), listed(&lines(&spoilt))));
}

fn with(store: &Store, target: &str, shard: u16) -> Store {
    let executor = ExecutorName::parse("workloads").unwrap();
    let empty = Point::empty(executor, TargetName::parse(target).unwrap());
    let seen = Capture {
        state: json!({ "replicas": 4 }),
        live: true,
        settled: true,
    };
    let seen = BTreeMap::from([(ResourceId::parse("apps/v1/deployments/db").unwrap(), seen)]);
    let (mut point, _) = empty.save_or_preserve(CycleId(7), 0, "2026-11-16T20:00:00Z", &seen);
    point.entries.values_mut().for_each(|e| e.shard = Some(shard));
    store.put(point).unwrap()
}

#[test]
fn an_import_keeps_what_the_file_does_not_speak_of_and_sees_every_point_that_would_go() {
    let plan = plan_name("staging").unwrap();
    // Only `apps` is in the file; `db` was captured since, and shares its ConfigMap.
    let file = imported(&exported(&store(3), &plan).to_string(), &plan).unwrap();
    let now = with(&store(3), "db", 1).mark_target_restored(&TargetName::parse("db").unwrap());
    let then = merged(&now, &file, &plan);
    assert_eq!(then, now);
    assert!(then.changed_from(&now).is_empty());
    // A file in which `db` has only the part that is in the second ConfigMap takes the first one away.
    let (one, two) = (with(&store(3), "db", 1), with(&store(3), "db", 2));
    let file = imported(&exported(&two, &plan).to_string(), &plan).unwrap();
    let then = merged(&one, &file, &plan);
    assert_eq!(lines(&then), lines(&two));
    assert_eq!(then.shards().map(|s| s.data.len()).collect::<Vec<_>>(), [1, 1]);
    // What would be lost is named, whoever the file speaks of.
    let none = Store::new(plan.clone(), Vec::new());
    assert_eq!(overwritten(&one, &none), ["apps", "db"]);
}

#[test]
fn an_older_backup_is_brought_back_by_day_only_if_that_is_meant() {
    use mainstay_core::time::Time;
    let plan = plan_name("staging").unwrap();
    let open = store(3);
    let executor = ExecutorName::parse("workloads").unwrap();
    let point = open.load(&executor, &TargetName::parse("apps").unwrap());
    let used = open.put(point.unwrap().unwrap().given_up()).unwrap();
    let none = Store::new(plan.clone(), Vec::new());
    let awake = State::first(CycleId(7), Time(0));
    for now in [&used, &none] {
        let then = merged(now, &open, &plan);
        assert_eq!(reopened(now, &then, Some(&awake)), ["apps"]);
        // A plan that is not there, or remembers nothing, closed nothing.
        assert_eq!(reopened(now, &then, None), Vec::<String>::new());
    }
    // What was used is brought back without asking, and so is what is there already.
    assert_eq!(reopened(&used, &used, Some(&awake)), Vec::<String>::new());
    assert_eq!(reopened(&open, &open, Some(&awake)), Vec::<String>::new());
    let mut asleep = awake.clone();
    let intent = mainstay_core::hibernation::plan::Intent {
        targets: Vec::new(),
        strategy: mainstay_core::hibernation::plan::Strategy::Sequential,
        behaviour: mainstay_core::hibernation::plan::Behaviour::default(),
    };
    asleep.open = Some(Cycle::begin(CycleId(7), intent, Time(0)));
    assert_eq!(reopened(&none, &open, Some(&asleep)), Vec::<String>::new());
}

#[test]
fn what_woke_in_a_cycle_that_is_still_open_is_not_brought_back_once_more() {
    use mainstay_core::time::Time;
    let plan = plan_name("staging").unwrap();
    let executor = ExecutorName::parse("workloads").unwrap();
    let apps = TargetName::parse("apps").unwrap();
    // Exported at night. In the morning `apps` wakes, and the key of `db` is gone: the cycle stays open.
    let file = with(&store(3), "db", 1);
    let point = store(3).load(&executor, &apps).unwrap().unwrap();
    let now = store(3).put(point.clone().given_up()).unwrap();
    let now = now.mark_target_restored(&apps);
    let mut state = State::first(CycleId(7), Time(0));
    let intent = mainstay_core::hibernation::plan::Intent {
        targets: Vec::new(),
        strategy: mainstay_core::hibernation::plan::Strategy::Sequential,
        behaviour: mainstay_core::hibernation::plan::Behaviour::default(),
    };
    assert!(
        left_alone(&now, &file, Some(&state)).is_empty(),
        "no cycle is open"
    );
    state.open = Some(Cycle::begin(CycleId(7), intent, Time(0)));
    let left = left_alone(&now, &file, Some(&state));
    assert_eq!(left, [(executor.clone(), apps.clone())].into());
    let then = merged(&now, &without(&file, &left, &plan), &plan);
    assert_eq!(then.load(&executor, &apps), now.load(&executor, &apps));
    let db = TargetName::parse("db").unwrap();
    assert_eq!(then.load(&executor, &db), file.load(&executor, &db));
    // What was never used, is gone, or is known only of an earlier night comes back.
    assert!(left_alone(&store(3), &file, Some(&state)).is_empty());
    assert!(left_alone(&Store::new(plan, Vec::new()), &file, Some(&state)).is_empty());
    let older = Point {
        cycle: Some(CycleId(6)),
        ..point.given_up()
    };
    let older = store(3).put(older).unwrap();
    assert!(left_alone(&older, &file, Some(&state)).is_empty());
}

#[test]
fn a_point_that_is_gone_is_missed_while_its_cycle_is_open() {
    let target = |name: &str| json!({ "name": name, "executor": "workloads", "parameters": null });
    let fresh = |captured: bool| json!({ "stand": "Done", "captured": captured, "attempts": 0, "enforced": 0, "message": null });
    let cycle: Cycle = serde_json::from_value(json!({
        "id": 7, "operation": "Shutdown", "leg": 0, "began": 0,
        "intent": {
            "targets": [target("apps"), target("db"), target("off")],
            "strategy": "sequential", "behaviour": { "mode": "Strict", "retries": 3 },
        },
        "targets": { "apps": fresh(true), "db": fresh(true), "off": fresh(false) },
    }))
    .unwrap();
    let missed = lost(&lines(&store(3)), &cycle);
    let names: Vec<&str> = missed.iter().map(|l| l.target.as_str()).collect();
    assert_eq!(names, ["db"], "`apps` is there, and `off` was never captured");
    assert!(missed[0].problem.as_ref().unwrap().contains("is gone"));
}

#[test]
fn a_wish_takes_the_place_of_an_older_one_for_the_same_target() {
    let web = TargetName::parse("web").unwrap();
    assert_eq!(with_wish(None, &web, "7.1"), "web=7.1");
    assert_eq!(with_wish(Some("web=6.1, db=6.1"), &web, "7.3"), "db=6.1,web=7.3");
}

#[test]
fn what_is_exported_can_be_imported_and_nothing_unused_is_overwritten() {
    let plan = plan_name("staging").unwrap();
    let (three, five) = (store(3), store(5));
    let text = exported(&three, &plan).to_string();
    let read = imported(&text, &plan).unwrap();
    assert_eq!(lines(&read), lines(&three));
    assert_eq!(overwritten(&three, &read), Vec::<String>::new());
    assert_eq!(overwritten(&five, &read), ["apps"]);
    assert!(imported(&text, &plan_name("other").unwrap()).is_err());
    let spoilt = text.replace("replicas\\\":3", "replicas\\\":9");
    assert_ne!(spoilt, text);
    let error = imported(&spoilt, &plan).unwrap_err().to_string();
    assert!(error.contains("hash"), "{error}");
}
