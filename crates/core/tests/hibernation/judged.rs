//! The judge notices every kind of wrong decision: each is made by spoiling a right one.

use super::bed::{Bed, HOUR, id};
use mainstay_core::hibernation::ids::CycleId;
use mainstay_core::hibernation::invariants::{Invariant, check};
use mainstay_core::hibernation::observed::{Observed, Stored};
use mainstay_core::hibernation::step::{Decision, Step};
use serde_json::json;

/// What is wrong with this decision.
fn judged(bed: &Bed, decision: &Decision) -> Vec<Invariant> {
    let stored = Stored {
        state: bed.state.clone(),
        store: bed.store(),
    };
    let seen: Observed = bed.observed();
    let found = check(&bed.plan, &stored, &seen, decision, bed.now);
    found.into_iter().map(|v| v.invariant).collect()
}

/// Just before something is stopped: the decision has the capture, the status and the stop.
fn before_stop() -> (Bed, Decision) {
    let mut bed = Bed::simple();
    bed.settle();
    bed.now = bed.now + HOUR * 9;
    loop {
        let decision = bed.decision();
        if decision.steps.iter().any(|s| matches!(s, Step::Stop(_))) {
            return (bed, decision);
        }
        bed.turn();
    }
}

/// Just before something is started.
fn before_start() -> (Bed, Decision) {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    bed.now = bed.now + HOUR * 10;
    loop {
        let decision = bed.decision();
        if decision.steps.iter().any(|s| matches!(s, Step::Start { .. })) {
            return (bed, decision);
        }
        bed.turn();
    }
}

#[test]
fn h1_a_stop_without_its_capture() {
    let (bed, mut decision) = before_stop();
    decision.steps.retain(|s| !matches!(s, Step::WriteShard { .. }));
    assert_eq!(judged(&bed, &decision), [Invariant::WriteAhead]);
    let (bed, mut decision) = before_stop();
    decision.steps.reverse();
    assert!(
        judged(&bed, &decision).contains(&Invariant::WriteAhead),
        "a capture after the stop is too late"
    );
}

#[test]
fn h2_a_point_that_is_lost_or_made_worse() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    let mut shard = bed.shards[&1].clone();
    shard.data.clear();
    let wrong = |shard| Decision {
        steps: vec![Step::WriteShard {
            shard: Box::new(shard),
            purpose: mainstay_core::hibernation::step::Purpose::Save,
        }],
        ..bed.decision()
    };
    assert_eq!(judged(&bed, &wrong(shard)), [Invariant::NeverDowngraded]);
    let mut point = bed.point("web");
    point.entries.get_mut(&id("a")).unwrap().state = json!({"replicas": 0});
    point.entries.get_mut(&id("a")).unwrap().live = false;
    let store = bed.store().put(point).unwrap();
    let worse = store.changed_from(&bed.store()).remove(0);
    assert_eq!(judged(&bed, &wrong(worse)), [Invariant::NeverDowngraded]);
}

#[test]
fn h3_a_call_before_its_cycle_and_a_cycle_over_another() {
    let (mut bed, decision) = before_stop();
    let state = bed.state.take().unwrap();
    bed.state = Some(state.closed(bed.now));
    assert!(judged(&bed, &decision).contains(&Invariant::CycleFirst));
    bed.state = Some(state.clone());
    let mut other = state.clone();
    other.cycle = CycleId(99);
    other.open.as_mut().unwrap().id = CycleId(99);
    let wrong = Decision {
        steps: vec![Step::WriteState(Box::new(other))],
        ..decision
    };
    assert_eq!(judged(&bed, &wrong), [Invariant::CycleFirst]);
}

#[test]
fn h4_consumed_although_nobody_restored_it_and_closed_although_something_sleeps() {
    let (bed, decision) = before_start();
    let mut point = bed.point("web");
    point.entries.get_mut(&id("a")).unwrap().consumed = true;
    let store = bed.store().put(point).unwrap();
    let shard = store.changed_from(&bed.store()).remove(0);
    let wrong = Decision {
        steps: vec![Step::WriteShard {
            shard: Box::new(shard),
            purpose: mainstay_core::hibernation::step::Purpose::MarkRestored,
        }],
        ..decision.clone()
    };
    assert_eq!(judged(&bed, &wrong), [Invariant::ConsumedWhenDone]);
    let closed = bed.state.as_ref().unwrap().closed(bed.now);
    let wrong = Decision {
        steps: vec![Step::WriteState(Box::new(closed))],
        ..decision
    };
    assert_eq!(judged(&bed, &wrong), [Invariant::ConsumedWhenDone]);
}

#[test]
fn h5_started_otherwise_than_recorded() {
    let (bed, mut decision) = before_start();
    for step in &mut decision.steps {
        if let Step::Start { state, .. } = step {
            *state = json!({"replicas": 1});
        }
    }
    assert_eq!(judged(&bed, &decision), [Invariant::RecordedSet]);
}

#[test]
fn h6_touched_while_suspended_edited_while_open_gone_while_asleep() {
    let (mut bed, decision) = before_stop();
    bed.plan.suspend = true;
    assert_eq!(judged(&bed, &decision), [Invariant::NoSilentEdit]);
    bed.plan.suspend = false;
    let mut edited = bed.state.clone().unwrap();
    edited.open.as_mut().unwrap().intent.targets[0].parameters = json!("other");
    let with = |step| Decision {
        steps: vec![step],
        ..decision.clone()
    };
    assert_eq!(
        judged(&bed, &with(Step::WriteState(Box::new(edited)))),
        [Invariant::NoSilentEdit]
    );
    assert_eq!(
        judged(&bed, &with(Step::RemoveFinalizer)),
        [Invariant::NoSilentEdit]
    );
}

#[test]
fn h7_a_decision_without_a_reason() {
    let (bed, mut decision) = before_stop();
    assert_eq!(judged(&bed, &decision), []);
    decision.reasons.clear();
    assert_eq!(judged(&bed, &decision), [Invariant::Reasoned]);
}
