//! Order, gates, failures: scenarios 63 to 66, 72 and 73 as far as an executor's word goes, 85.

use super::bed::{Bed, HOUR, id, intent, name, plan, target};
use mainstay_core::hibernation::Why;
use mainstay_core::hibernation::observed::Severity;
use mainstay_core::hibernation::plan::{Behaviour, Drift, Edge, Intent, Mode, PlanError, Stage, Strategy};
use mainstay_core::hibernation::state::{Phase, Stand};
use std::time::Duration;

fn bed(strategy: Strategy, mode: Mode, names: &[&str]) -> Bed {
    let targets = names.iter().map(|n| target(n)).collect();
    let behaviour = Behaviour { mode, retries: 1 };
    let intent = Intent::new(targets, strategy, behaviour).unwrap();
    let things: Vec<(&str, &str, u64)> = names.iter().map(|n| (*n, *n, 1)).collect();
    Bed::new(plan(intent), &things)
}

fn edges(pairs: &[(&str, &str)]) -> Strategy {
    let edges = pairs.iter().map(|(from, to)| Edge {
        from: name(from),
        to: name(to),
    });
    Strategy::Dag {
        edges: edges.collect(),
        max: None,
    }
}

#[test]
fn s63_a_dag_goes_down_in_order_comes_up_reversed_and_a_slow_branch_delays_only_itself() {
    let strategy = edges(&[("web", "app"), ("app", "db"), ("slow", "last")]);
    let mut bed = bed(strategy, Mode::Strict, &["web", "app", "db", "slow", "last"]);
    bed.things.get_mut(&id("slow")).unwrap().settled = false;
    bed.settle_until_still();
    assert_eq!(bed.replicas("db"), 0, "the other branch is down");
    assert_eq!(bed.replicas("last"), 1, "it waits for the slow one");
    bed.things.get_mut(&id("slow")).unwrap().settled = true;
    bed.settle();
    let chain = |bed: &Bed, verb: &str| -> Vec<String> {
        let mine = bed
            .calls
            .iter()
            .filter(|c| c.starts_with(verb) && !c.contains("slow") && !c.contains("last"));
        mine.map(|c| c.split(' ').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(chain(&bed, "stop"), ["web", "app", "db"]);
    bed.morning();
    assert_eq!(chain(&bed, "start"), ["db", "app", "web"]);
    assert_eq!(bed.phase(), Phase::Active);
}

impl Bed {
    /// The night begins; turns until only something that does not settle is left.
    fn settle_until_still(&mut self) {
        self.settle();
        self.now = self.now + HOUR * 9;
        for _ in 0..15 {
            self.turn();
            self.now = self.now + Duration::from_secs(1);
        }
    }
}

#[test]
fn s64_a_gate_that_does_not_open_in_time_fails_the_stage() {
    let mut bed = bed(Strategy::Sequential, Mode::Strict, &["app", "db"]);
    bed.settle();
    bed.night();
    bed.things.get_mut(&id("db")).unwrap().settled = false;
    bed.now = bed.now + HOUR * 11;
    for _ in 0..10 {
        bed.turn();
        bed.now = bed.now + Duration::from_secs(1);
    }
    assert_eq!(
        (bed.replicas("db"), bed.replicas("app")),
        (1, 0),
        "the app waits for a usable database"
    );
    bed.now = bed.now + Duration::from_mins(11);
    bed.turn();
    assert!(bed.said("GateTimedOut"));
    assert_eq!((bed.phase(), bed.replicas("app")), (Phase::Error, 0));
    bed.things.get_mut(&id("db")).unwrap().settled = true;
    bed.later(Duration::from_mins(3));
    assert_eq!((bed.phase(), bed.replicas("app")), (Phase::Active, 1));
}

#[test]
fn s65_best_effort_leaves_out_only_what_depends_on_the_failed_one() {
    let strategy = edges(&[("app", "db"), ("web", "cache")]);
    let mut bed = bed(strategy, Mode::BestEffort, &["app", "db", "web", "cache"]);
    bed.settle();
    bed.night();
    bed.broken.insert(id("db"), Severity::Permanent);
    bed.morning();
    assert_eq!((bed.replicas("db"), bed.replicas("app")), (0, 0));
    assert_eq!((bed.replicas("cache"), bed.replicas("web")), (1, 1));
    assert_eq!(
        bed.phase(),
        Phase::Error,
        "Active is only said when everything is back"
    );
    bed.broken.clear();
    bed.wishes.retry = Some("1".to_owned());
    bed.later(HOUR);
    assert_eq!((bed.phase(), bed.replicas("app")), (Phase::Active, 1));
}

#[test]
fn s65_what_was_left_out_of_a_night_is_not_stopped_out_of_order() {
    let strategy = || edges(&[("web", "api"), ("api", "store")]);
    for drift in [Drift::Ignore, Drift::Report, Drift::Enforce] {
        let mut bed = bed(strategy(), Mode::BestEffort, &["web", "api", "store"]);
        for target in bed.plan.intent.targets.iter_mut().skip(1) {
            target.drift = drift;
        }
        bed.settle();
        bed.broken.insert(id("web"), Severity::Permanent);
        bed.night();
        bed.later(HOUR);
        assert_eq!((bed.replicas("api"), bed.replicas("store")), (1, 1), "{drift:?}");
        let about_store = bed.reasons.iter().map(ToString::to_string);
        let blamed: Vec<String> = about_store
            .filter(|r| r.contains("`store`") && !r.contains("waits"))
            .collect();
        assert!(blamed.is_empty(), "{drift:?}: {blamed:?}");
    }
}

#[test]
fn s65_what_is_left_out_of_a_night_is_said_all_night_with_what_failed() {
    let strategy = edges(&[("web", "api"), ("api", "store")]);
    let mut bed = bed(strategy, Mode::BestEffort, &["web", "api", "store"]);
    bed.settle();
    bed.broken.insert(id("web"), Severity::Permanent);
    bed.night();
    assert_eq!(bed.phase(), Phase::Hibernated);
    bed.reasons.clear();
    bed.later(HOUR);
    for target in ["api", "store"] {
        let why = Why::Blocked {
            target: name(target),
            by: name("web"),
        };
        assert!(bed.reasons.contains(&why), "{:?}", bed.reasons);
    }
    // Whoever gives up what failed has nothing against the others: they go down, and it stays as it is.
    bed.give_up("web");
    bed.later(HOUR);
    assert_eq!(bed.phase(), Phase::Hibernated);
    let all = ["web", "api", "store"].map(|r| bed.replicas(r));
    assert_eq!(all, [1, 0, 0]);
    bed.broken.clear();
    bed.morning();
    assert_eq!(bed.phase(), Phase::Active);
    assert_eq!(["web", "api", "store"].map(|r| bed.replicas(r)), [1, 1, 1]);
}

/// A night in which `web` is lost, because its point of the night before was spoiled by day; with what it was.
fn lost_in_the_evening() -> (Bed, String) {
    let mut bed = bed(Strategy::Parallel { max: None }, Mode::BestEffort, &["web", "db"]);
    bed.settle();
    bed.night();
    bed.morning();
    let key = "noop_web.json".to_owned();
    let good = bed.shards.get_mut(&1).unwrap().data.insert(key, "{".to_owned());
    bed.night();
    assert_eq!(bed.phase(), Phase::Hibernated);
    assert_eq!((bed.replicas("web"), bed.replicas("db")), (1, 0));
    (bed, good.unwrap())
}

#[test]
fn s42_what_was_lost_in_the_evening_goes_down_as_soon_as_it_is_repaired() {
    let (mut bed, good) = lost_in_the_evening();
    bed.later(HOUR);
    assert_eq!(bed.replicas("web"), 1);
    let shard = bed.shards.get_mut(&1).unwrap();
    shard.data.insert("noop_web.json".to_owned(), good);
    bed.later(HOUR);
    assert_eq!((bed.phase(), bed.replicas("web")), (Phase::Hibernated, 0));
    bed.morning();
    assert_eq!((bed.phase(), bed.replicas("web")), (Phase::Active, 1));
}

#[test]
fn s42_a_retry_at_night_is_granted_also_if_what_was_lost_still_is() {
    let (mut bed, _) = lost_in_the_evening();
    bed.wishes.retry = Some("1".to_owned());
    bed.later(HOUR);
    let state = bed.state.as_ref().unwrap();
    assert_eq!(state.retried.as_deref(), Some("1"));
    assert_eq!((bed.phase(), bed.replicas("web")), (Phase::Hibernated, 1));
    // Whoever deletes what cannot be read of an earlier night has repaired it, too.
    bed.shards.get_mut(&1).unwrap().data.remove("noop_web.json");
    bed.wishes.retry = Some("2".to_owned());
    bed.later(HOUR);
    assert_eq!((bed.phase(), bed.replicas("web")), (Phase::Hibernated, 0));
}

/// The second night of `app` and `db`, in which `app` fails and the turn of `db` never comes.
fn never_reached(point: Option<&str>) -> Bed {
    let mut bed = bed(Strategy::Sequential, Mode::Strict, &["app", "db"]);
    bed.settle();
    bed.night();
    bed.morning();
    assert_eq!(bed.phase(), Phase::Active);
    if let Some(text) = point {
        let shard = bed.shards.get_mut(&1).unwrap();
        shard.data.insert("noop_db.json".to_owned(), text.to_owned());
    }
    bed.broken.insert(id("app"), Severity::Permanent);
    bed.night();
    assert_eq!((bed.phase(), bed.replicas("db")), (Phase::Error, 1));
    bed.broken.clear();
    bed.reasons.clear();
    bed
}

#[test]
fn what_was_never_reached_is_not_judged_by_the_point_of_another_night() {
    let mut bed = never_reached(None);
    bed.blind.insert(name("db"), Severity::Permanent);
    bed.morning();
    assert_eq!(bed.phase(), Phase::Active, "{:?}", bed.reasons);
    assert!(bed.said("NothingCaptured") && !bed.said("LookFailed"));
}

#[test]
fn s41_an_old_point_of_what_was_never_reached_keeps_no_cycle_open() {
    let old = r#"{"type":"noop","data":{"x":1},"isLive":true}"#;
    let mut bed = never_reached(Some(old));
    bed.morning();
    assert_eq!(bed.phase(), Phase::Active, "{:?}", bed.reasons);
    assert!(bed.said("NothingCaptured") && !bed.said("RestorePointOld"));
    assert_eq!(bed.shards[&1].data["noop_db.json"], old, "it stays as it is");
}

#[test]
fn s57_a_plan_goes_with_its_namespace_and_waits_for_nothing_in_it() {
    let mut bed = bed(Strategy::Sequential, Mode::Strict, &["app", "db"]);
    bed.settle();
    bed.night();
    // The namespace takes the ConfigMap first, and nobody can make another one in it.
    bed.deleting = true;
    bed.shards.clear();
    bed.later(HOUR);
    assert!(!bed.gone && bed.said("NoRestorePoint"));
    let why = Why::WakeBeforeDeletion.to_string();
    assert!(why.contains("`deletionPolicy: Abandon`"), "{why}");
    bed.namespace_ends = true;
    bed.later(HOUR);
    assert!(bed.gone && bed.said("NamespaceEnds"));
}

#[test]
fn s65_taking_one_target_out_of_a_plan_that_is_made_again_leaves_the_others_their_order() {
    let mut bed = bed(Strategy::Sequential, Mode::Strict, &["app", "old", "db"]);
    bed.settle();
    bed.night();
    assert_eq!(bed.phase(), Phase::Hibernated);
    bed.state = None;
    bed.plan.intent.targets.retain(|t| t.name != name("old"));
    bed.turn();
    assert!(bed.said("Adopted"));
    bed.things.get_mut(&id("db")).unwrap().settled = false;
    bed.now = bed.now + HOUR * 11;
    for _ in 0..10 {
        bed.turn();
        bed.now = bed.now + Duration::from_secs(1);
    }
    assert_eq!(
        (bed.replicas("old"), bed.replicas("db")),
        (1, 1),
        "nobody waits for the old one"
    );
    assert_eq!(bed.replicas("app"), 0, "it waits for its database");
    bed.things.get_mut(&id("db")).unwrap().settled = true;
    bed.later(HOUR);
    assert_eq!((bed.phase(), bed.replicas("app")), (Phase::Active, 1));
}

#[test]
fn s66_two_at_once_are_never_three_and_a_serial_stage_wakes_in_reverse() {
    let stage = |name_: &str, targets: &[&str], parallel, max| Stage {
        name: name_.to_owned(),
        targets: targets.iter().map(|t| name(t)).collect(),
        parallel,
        max,
    };
    let strategy = Strategy::Staged(vec![
        stage("wide", &["a", "b", "c", "d"], true, Some(2)),
        stage("serial", &["x", "y"], false, None),
    ]);
    let mut bed = bed(strategy, Mode::Strict, &["a", "b", "c", "d", "x", "y"]);
    bed.settle();
    bed.now = bed.now + HOUR * 9;
    let mut most = 0;
    while bed.turn() {
        let open = bed.state.as_ref().unwrap().open.as_ref().unwrap();
        let running = open
            .targets
            .values()
            .filter(|p| matches!(p.stand, Stand::Running { .. }));
        most = most.max(running.count());
        bed.now = bed.now + Duration::from_secs(1);
    }
    assert_eq!((most, bed.phase()), (2, Phase::Hibernated));
    bed.calls.clear();
    bed.morning();
    assert_eq!(bed.calls[..2], ["start y", "start x"]);
}

#[test]
fn s73_what_is_pointless_is_not_tried_again_until_somebody_asks() {
    let mut bed = bed(Strategy::Sequential, Mode::Strict, &["web"]);
    bed.settle();
    bed.broken.insert(id("web"), Severity::Permanent);
    bed.night();
    assert!(bed.said("GivenUp"));
    let decision = bed.decision();
    assert!(decision.steps.is_empty(), "no retry loop");
    bed.broken.clear();
    bed.wishes.retry = Some("1".to_owned());
    bed.later(Duration::from_mins(1));
    assert_eq!((bed.phase(), bed.replicas("web")), (Phase::Hibernated, 0));
}

#[test]
fn s85_every_turn_of_a_whole_day_has_a_reason() {
    let mut bed = bed(Strategy::Sequential, Mode::Strict, &["web", "db"]);
    for _ in 0..24 * 4 {
        assert!(!bed.decision().reasons.is_empty());
        bed.later(Duration::from_mins(15));
    }
    assert!(
        bed.reasons
            .iter()
            .all(|w| !w.id().is_empty() && w.to_string().len() > 10)
    );
}

#[test]
fn what_cannot_be_an_order_is_refused_with_what_to_change() {
    let intent = |strategy| Intent::new(vec![target("a"), target("b")], strategy, Behaviour::default());
    let circle = intent(edges(&[("a", "b"), ("b", "a")]));
    assert_eq!(circle, Err(PlanError::Circle(name("a"))));
    assert_eq!(
        intent(edges(&[("a", "c")])),
        Err(PlanError::UnknownTarget(name("c")))
    );
    assert_eq!(
        intent(Strategy::Parallel { max: Some(0) }),
        Err(PlanError::NoConcurrency)
    );
    let stage = |targets: &[&str]| Stage {
        name: targets.concat(),
        targets: targets.iter().map(|t| name(t)).collect(),
        parallel: true,
        max: None,
    };
    assert_eq!(
        intent(Strategy::Staged(vec![stage(&["a"])])),
        Err(PlanError::NoStage(name("b")))
    );
    let twice = Strategy::Staged(vec![stage(&["a", "b"]), stage(&["a"])]);
    assert_eq!(intent(twice), Err(PlanError::TwoStages(name("a"))));
    let same = Intent::new(
        vec![target("a"), target("a")],
        Strategy::Sequential,
        Behaviour::default(),
    );
    assert_eq!(same, Err(PlanError::Twice(name("a"))));
    let none = Intent::new(Vec::new(), Strategy::Sequential, Behaviour::default());
    assert_eq!(none, Err(PlanError::NoTargets));
}

#[test]
fn s64_what_was_not_usable_in_the_evening_is_started_and_blocks_nobody_in_the_morning() {
    let both = vec![target("web"), target("db")];
    let mut bed = Bed::new(
        plan(intent(both, Strategy::Sequential)),
        &[("web", "a", 3), ("db", "b", 1), ("db", "c", 1)],
    );
    bed.settle();
    // `b` crashes for days already.
    bed.things.get_mut(&id("b")).unwrap().settled = false;
    bed.night();
    bed.things.get_mut(&id("b")).unwrap().settled = true;
    bed.later(Duration::from_mins(1));
    assert_eq!((bed.phase(), bed.replicas("b")), (Phase::Hibernated, 0));
    bed.things.get_mut(&id("b")).unwrap().settled = false;
    bed.things.get_mut(&id("c")).unwrap().settled = false;
    bed.morning();
    assert_eq!(bed.phase(), Phase::WakingUp, "`c` was usable, and is waited for");
    assert_eq!(
        (bed.replicas("a"), bed.replicas("b"), bed.replicas("c")),
        (0, 1, 1)
    );
    bed.things.get_mut(&id("c")).unwrap().settled = true;
    bed.later(Duration::from_mins(1));
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 3));
}
