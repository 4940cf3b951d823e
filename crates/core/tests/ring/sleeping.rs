//! S84: a ring falls asleep drained, sleeps without an alarm, and wakes with its seeds first.

use super::situation::{CLUSTER, NOW, Situation, host, known, location, member, ready, whole};
use mainstay_core::ring::ids::PodUid;
use mainstay_core::ring::invariants::{Invariant, check};
use mainstay_core::ring::ledger::{Grant, Ledger, Phase, Sleep, Stage, Task, Work};
use mainstay_core::ring::observed::{Pod, Wishes};
use mainstay_core::ring::sleeping::{Running, is_seed, running};
use mainstay_core::ring::spec::{Engine, PERMISSION};
use mainstay_core::ring::stamp::Found;
use mainstay_core::ring::{Plan, Step, asks, decide};
use mainstay_core::time::Time;
use std::time::Duration;

fn to_sleep() -> Situation {
    let mut wished = whole();
    wished.seen.wishes.hibernated = true;
    wished
}

fn at(stage: Stage, ago: Duration) -> Situation {
    let mut situation = to_sleep();
    let since = NOW - ago;
    situation.ledger.sleep = Some(Sleep { stage, since });
    situation
}

fn without_pods(mut situation: Situation) -> Situation {
    for m in &mut situation.seen.members {
        m.pod = None;
    }
    situation
}

fn awake(mut situation: Situation) -> Situation {
    situation.seen.wishes.hibernated = false;
    situation
}

fn enters(situation: &Situation) -> Option<Stage> {
    let plan = situation.plan();
    let next = plan.steps.iter().find_map(Step::ledger)?;
    assert_eq!(next.known, situation.ledger.known, "records stay as they are");
    next.sleep.map(|s| s.stage)
}

fn pods(situation: &Situation) -> Running {
    running(Some(&situation.ledger), &situation.seen.wishes)
}

#[test]
fn s84_members_are_drained_one_by_one_the_first_one_last_and_only_then_stopped() {
    let wished = to_sleep();
    assert_eq!(enters(&wished), Some(Stage::Draining), "{}", wished.text());
    assert_eq!(pods(&wished), Running::Everybody, "it is not in the ledger yet");
    let mut draining = at(Stage::Draining, Duration::from_secs(1));
    assert!(
        !asks(Some(&draining.ledger), &draining.seen),
        "nobody is suspected"
    );
    for n in [2, 1, 0] {
        assert_eq!(pods(&draining), Running::AsTheyAre);
        let drain = Step::Drain {
            member: member(n),
            pod: PodUid(u128::from(n)),
            host: Some(host(n)),
        };
        assert_eq!(draining.plan().steps, [drain], "{}", draining.text());
        draining.seen.drained.insert(member(n));
    }
    assert_eq!(enters(&draining), Some(Stage::Stopped));
}

#[test]
fn s84_members_that_are_not_seeds_are_drained_before_those_that_are() {
    let mut two_in_a_rack = at(Stage::Draining, Duration::from_secs(1));
    two_in_a_rack.seen.spec.members[1].location = location(0);
    assert!(is_seed(&two_in_a_rack.seen.spec, &member(0)) && !is_seed(&two_in_a_rack.seen.spec, &member(1)));
    let steps = two_in_a_rack.plan().steps;
    assert!(matches!(steps.as_slice(), [Step::Drain { member: m, .. }] if *m == member(1)));
}

#[test]
fn s84_who_cannot_be_drained_is_stopped_when_the_time_is_up_and_who_does_not_run_is_not_waited_for() {
    let late = at(Stage::Draining, Duration::from_mins(5));
    assert_eq!(enters(&late), Some(Stage::Stopped));
    assert!(late.text().contains("was not drained in time"), "{}", late.text());
    let mut down = at(Stage::Draining, Duration::from_secs(1));
    down.report(1, Found::Empty);
    down.seen.members[2].pod = None;
    down.seen.drained.insert(member(0));
    assert_eq!(enters(&down), Some(Stage::Stopped), "{}", down.text());
}

#[test]
fn s84_a_start_that_is_under_way_is_not_cut_off_and_nothing_new_is_begun() {
    let grant = Grant {
        number: mainstay_core::ring::ids::GrantNumber(1),
        pod: PodUid(0x11),
        volume: mainstay_core::ring::ids::VolumeUid(1),
        disk: mainstay_core::ring::ids::DiskId(0xe1),
        wipe: false,
        seeds: Vec::new(),
        generation: 7,
        at: NOW,
        lasts: PERMISSION,
        retires: false,
    };
    let mut running = ready();
    running.seen.wishes.hibernated = true;
    let work = running.ledger.work.clone().unwrap();
    running.ledger.work = Some(Work {
        phase: Phase::Granted(grant),
        ..work.clone()
    });
    running.report(1, Found::StartedWith(mainstay_core::ring::ids::GrantNumber(1)));
    assert_eq!(enters(&running), None);
    assert!(running.text().contains("not cut off"), "{}", running.text());
    // What does not run yet is not begun: it waits for the morning.
    let mut confirming = ready();
    confirming.seen.wishes.hibernated = true;
    assert_eq!(enters(&confirming), Some(Stage::Draining));
    assert!(!confirming.permits());
    let next = confirming.plan().steps[0].ledger().unwrap().clone();
    assert_eq!(next.work, Some(work), "it goes on in the morning");
    let leaving = Work {
        task: Task::Leave { left: known(1) },
        phase: Phase::Leaving,
        ..next.work.unwrap()
    };
    confirming.ledger.work = Some(leaving);
    assert_eq!(enters(&confirming), None);
}

#[test]
fn s84_asleep_nothing_is_replaced_and_nobody_is_alarmed_whatever_is_seen() {
    let asleep = without_pods(at(Stage::Stopped, Duration::from_hours(3)));
    assert_eq!(pods(&asleep), Running::Nobody);
    let plan = asleep.plan();
    assert!(plan.steps.is_empty() && plan.findings.is_empty());
    assert_eq!(asleep.text(), "asleep: nothing is replaced");
    // A volume whose Node is gone, an empty disk, an edited record: all of that is looked at in the morning.
    let mut strange = at(Stage::Stopped, Duration::from_hours(3));
    strange.report(1, Found::Empty);
    strange.seen.members[2].claim.as_mut().unwrap().node_gone_since = Some(Time(0));
    strange.seen.members[0].record = None;
    let plan = strange.plan();
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
    assert!(plan.reasons.iter().all(|why| !why.needs_human()));
}

#[test]
fn s84_it_wakes_when_all_pods_are_gone_with_the_seeds_first() {
    let still = awake(at(Stage::Stopped, Duration::from_hours(8)));
    assert_eq!(
        enters(&still),
        None,
        "a drained database serves nobody: its pod goes first"
    );
    let woken = awake(without_pods(at(Stage::Stopped, Duration::from_hours(8))));
    assert_eq!(enters(&woken), Some(Stage::Seeds));

    let mut seeds = awake(without_pods(at(Stage::Seeds, Duration::from_secs(1))));
    assert_eq!(pods(&seeds), Running::Seeds);
    assert_eq!(enters(&seeds), None);
    assert!(seeds.text().contains("waiting for ring-r0-0"), "{}", seeds.text());
    // Started is enough where a majority decides: a seed is not usable before the others are there.
    seeds = awake(at(Stage::Seeds, Duration::from_secs(1)));
    for m in &mut seeds.seen.members {
        m.pod.as_mut().unwrap().runs = false;
    }
    assert_eq!(enters(&seeds), Some(Stage::Woken));
    seeds.seen.spec.engine = Engine::Cassandra;
    assert_eq!(enters(&seeds), None, "elsewhere it has to be usable");
    // A seed that lost its storage does not keep the others asleep, nor one that does not come.
    for n in 0..3 {
        seeds.report(n, Found::Empty);
    }
    assert_eq!(enters(&seeds), Some(Stage::Woken));
    let never = awake(without_pods(at(Stage::Seeds, Duration::from_mins(2))));
    assert_eq!(enters(&never), Some(Stage::Woken));
    let again = at(Stage::Seeds, Duration::from_secs(1));
    assert_eq!(enters(&again), Some(Stage::Draining), "it is to sleep after all");
}

/// All pods are told to go; the one of member 2 should have been gone so long ago.
fn ending(mut situation: Situation, ago: Duration) -> Situation {
    let mut pod = situation.seen.members[2].pod.take().unwrap();
    pod.ends_by = Some(NOW - ago);
    let mut ending = without_pods(situation);
    ending.seen.members[2].pod = Some(pod);
    ending
}

fn says(situation: &Situation, id: &str) -> bool {
    situation.plan().reasons.iter().any(|w| w.id() == id)
}

#[test]
fn s84_a_pod_that_does_not_end_keeps_nobody_else_asleep_and_a_human_is_told() {
    let night = Duration::from_hours(8);
    let woken = awake(ending(at(Stage::Stopped, night), Duration::ZERO));
    assert_eq!(enters(&woken), Some(Stage::Seeds), "{}", woken.text());
    // One that was not told to go yet would stay, drained.
    let mut early = woken.clone();
    early.seen.members[1].pod = at(Stage::Stopped, night).seen.members[1].pod.clone();
    assert_eq!(enters(&early), None);
    assert!(says(&early, "WakeLater"), "{}", early.text());
    assert!(early.text().contains("ring-r1-0"), "{}", early.text());
    // At night, and once the others run, it is told when it should have been gone for long.
    let stages: [fn(Duration) -> Situation; 2] = [
        |ago| ending(at(Stage::Stopped, Duration::from_hours(8)), ago),
        |ago| {
            let mut woken = awake(at(Stage::Woken, Duration::from_hours(1)));
            woken.seen.members[2].pod.as_mut().unwrap().ends_by = Some(NOW - ago);
            woken
        },
    ];
    for stage in stages {
        let soon = stage(Duration::from_mins(14));
        assert!(!says(&soon, "Unended"), "{}", soon.text());
        let late = stage(Duration::from_mins(15));
        let told = late.plan().reasons;
        let why = told.iter().find(|w| w.id() == "Unended").expect("nobody is told");
        assert!(
            why.needs_human() && why.to_string().contains("ring-r2-0"),
            "{why}"
        );
    }
    let mut gone = stages[1](Duration::from_mins(15));
    gone.seen.members[2].claim.as_mut().unwrap().node_gone_since = Some(NOW - Duration::from_mins(20));
    assert!(
        !says(&gone, "Unended"),
        "what becomes of it is decided: {}",
        gone.text()
    );
}

#[test]
fn s84_a_node_that_went_at_night_is_given_its_time_in_the_morning() {
    let gone = |awake_for: Duration| {
        let mut woken = awake(at(Stage::Woken, awake_for));
        woken.seen.members[2].claim.as_mut().unwrap().node_gone_since = Some(NOW - Duration::from_hours(9));
        for by in [0, 1] {
            let down = mainstay_core::ring::observed::Liveness::Down(Duration::from_mins(20));
            woken.node(by, 2).liveness = down;
        }
        woken.seen.answers.retain(|a| a.by != member(2));
        woken.seen.members[2].pod = None;
        woken
    };
    let early = gone(Duration::from_mins(3));
    assert!(early.plan().steps.is_empty(), "{}", early.text());
    let later = gone(Duration::from_mins(16));
    assert!(!later.plan().steps.is_empty(), "{}", later.text());
}

#[test]
fn s84_a_ring_that_is_declared_asleep_or_lost_its_ledger_at_night_begins_there() {
    let wishes = Wishes {
        hibernated: true,
        ..Wishes::default()
    };
    assert_eq!(
        running(None, &wishes),
        Running::AsTheyAre,
        "nobody is founded to sleep"
    );
    for (pods, stage) in [(false, Stage::Stopped), (true, Stage::Draining)] {
        let situation = if pods {
            to_sleep()
        } else {
            without_pods(to_sleep())
        };
        let plan = decide(None, &situation.seen, NOW);
        assert!(check(None, &situation.seen, &plan, NOW).is_empty());
        let made = plan.steps[0].ledger().unwrap();
        assert_eq!(made.sleep.map(|s| s.stage), Some(stage));
    }
    let text = whole().ledger.print().unwrap();
    assert!(!text.contains("sleep"), "a ledger from before is read as it is");
    assert_eq!(Ledger::parse(&text).unwrap().sleep, None);
}

#[test]
fn i6_18_no_plan_stops_wakes_or_drains_a_ring_out_of_turn() {
    let breaks = |situation: &Situation, steps: Vec<Step>| {
        let plan = Plan {
            steps,
            ..Plan::because(mainstay_core::ring::reason::Why::Asleep)
        };
        let found = check(Some(&situation.ledger), &situation.seen, &plan, NOW);
        found.into_iter().map(|v| v.invariant).collect::<Vec<_>>()
    };
    let enter = |situation: &Situation, stage: Stage| {
        let next = situation
            .ledger
            .with(|l| l.sleep = Some(Sleep { stage, since: NOW }));
        vec![Step::WriteLedger(Box::new(next))]
    };
    let drain = Step::Drain {
        member: member(1),
        pod: PodUid(1),
        host: Some(host(1)),
    };
    assert_eq!(breaks(&whole(), vec![drain]), [Invariant::Off]);
    assert_eq!(
        breaks(&whole(), enter(&whole(), Stage::Draining)),
        [Invariant::Slept],
        "nobody asked"
    );
    let draining = at(Stage::Draining, Duration::from_secs(1));
    assert_eq!(
        breaks(&draining, enter(&draining, Stage::Stopped)),
        [Invariant::Slept],
        "not drained"
    );
    let stopped = at(Stage::Stopped, Duration::from_hours(1));
    assert_eq!(
        breaks(&awake(stopped.clone()), enter(&stopped, Stage::Seeds)),
        [Invariant::Slept],
        "pods are left"
    );
    let told_to_go = awake(ending(stopped.clone(), Duration::ZERO));
    assert_eq!(breaks(&told_to_go, enter(&stopped, Stage::Seeds)), []);
    assert_eq!(
        breaks(&awake(stopped.clone()), enter(&stopped, Stage::Woken)),
        [Invariant::Slept],
        "seeds first"
    );
    assert!(
        breaks(
            &stopped,
            vec![Step::WriteLedger(Box::new(
                stopped.ledger.idle().with(|l| l.founded = false)
            ))]
        )
        .contains(&Invariant::Off)
    );
    let delete = Step::DeletePod {
        member: member(1),
        uid: PodUid(1),
    };
    assert!(breaks(&stopped, vec![delete]).contains(&Invariant::Off));
    assert_eq!(stopped.ledger.cluster, CLUSTER);
    let _: Option<Pod> = stopped.seen.members[0].pod.clone();
}
