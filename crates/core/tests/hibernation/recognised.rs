//! A plan that is made anew finds several points of one target, because that changed its executor, and can read none of
//! them. One of them may say how it went to sleep.

use super::bed::{Bed, HOUR, id, name};
use mainstay_core::hibernation::ids::ExecutorName;
use mainstay_core::hibernation::invariants::{Invariant, check};
use mainstay_core::hibernation::observed::Stored;
use mainstay_core::hibernation::state::{Operation, Phase, State};
use mainstay_core::hibernation::step::{Decision, Step};
use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);
/// The one by which it sleeps.
const ASLEEP: &str = "noop_web.json";

/// Two points of one target that cannot be read, and what they were.
struct Two {
    bed: Bed,
    asleep: String,
    /// The key and the document of the one that was used, by an executor of this name.
    used: (String, String),
}

/// Asleep by `noop`. The other executor, whose night was an earlier one, has a point that was used.
fn two(executor: &str) -> Two {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    let mut point = bed.point("web").given_up();
    point.executor = ExecutorName::parse(executor).unwrap();
    let store = bed.store().put(point).unwrap();
    let key = format!("{executor}_web.json");
    let document = store.shards().next().unwrap().data[&key].clone();
    let asleep = bed.shards[&1].data[ASLEEP].clone();
    let mut two = Two {
        bed,
        asleep,
        used: (key, document),
    };
    two.write(ASLEEP, "{");
    let key = two.used.0.clone();
    two.write(&key, "{");
    two.bed.state = None;
    two
}

impl Two {
    fn write(&mut self, key: &str, text: &str) {
        let data = &mut self.bed.shards.get_mut(&1).unwrap().data;
        data.insert(key.to_owned(), text.to_owned());
    }

    fn repair_asleep(&mut self) {
        let text = self.asleep.clone();
        self.write(ASLEEP, &text);
    }

    fn repair_used(&mut self) {
        let (key, text) = self.used.clone();
        self.write(&key, &text);
    }

    fn stands(&self) -> (Phase, u64) {
        (self.bed.phase(), self.bed.replicas("a"))
    }
}

/// Found by the simulation: the point that had been used was repaired, was called restored, and the plan was `Active`
/// while everything slept that the other one knew.
#[test]
fn s42_of_two_points_that_could_not_be_read_the_one_that_was_used_does_not_call_the_target_awake() {
    for executor in ["aa", "other"] {
        let mut two = two(executor);
        two.bed.morning();
        assert_eq!(two.stands(), (Phase::Error, 0), "{executor}");
        two.repair_used();
        two.bed.reasons.clear();
        two.bed.later(HOUR);
        assert_eq!(two.stands(), (Phase::Error, 0), "{executor}");
        assert!(two.bed.said("Failed") && !two.bed.said("StoppedByHand"));
        two.repair_asleep();
        two.bed.later(HOUR);
        assert_eq!(two.stands(), (Phase::Active, 3), "{executor}");
        assert!(!two.bed.said("StoppedByHand"));
    }
}

#[test]
fn s42_of_two_points_that_could_not_be_read_the_one_that_was_not_used_wakes_the_target_at_once() {
    for executor in ["aa", "other"] {
        let mut two = two(executor);
        two.bed.morning();
        two.repair_asleep();
        two.bed.later(HOUR);
        assert_eq!(
            two.stands(),
            (Phase::Active, 3),
            "{executor}: the other one was used"
        );
        // And both at once.
        let mut two = self::two(executor);
        two.bed.morning();
        two.repair_used();
        two.repair_asleep();
        two.bed.later(HOUR);
        assert_eq!(two.stands(), (Phase::Active, 3), "{executor}");
        let starts = two.bed.calls.iter().filter(|c| *c == "start a").count();
        assert_eq!(starts, 1);
    }
}

#[test]
fn s42_what_is_recognised_at_night_sleeps_on_and_wakes_in_the_morning() {
    for executor in ["aa", "other"] {
        let mut two = two(executor);
        two.bed.later(MINUTE);
        assert_eq!(two.stands(), (Phase::Hibernated, 0), "{executor}");
        two.repair_used();
        two.bed.later(MINUTE);
        two.repair_asleep();
        two.bed.later(MINUTE);
        assert_eq!(two.stands(), (Phase::Hibernated, 0), "{executor}");
        two.bed.morning();
        assert_eq!(two.stands(), (Phase::Active, 3), "{executor}");
    }
}

#[test]
fn s42_two_points_that_cannot_be_read_are_given_up_together() {
    for executor in ["aa", "other"] {
        let mut two = two(executor);
        two.bed.morning();
        two.bed.give_up("web");
        two.bed.later(HOUR);
        assert_eq!(two.stands(), (Phase::Active, 0), "{executor}: it stays as it is");
    }
}

/// What the judge says to a status that is written now.
fn judged(bed: &Bed, next: State) -> Vec<Invariant> {
    let stored = Stored {
        state: bed.state.clone(),
        store: bed.store(),
    };
    let decision = Decision {
        steps: vec![Step::WriteState(Box::new(next))],
        ..bed.decision()
    };
    let found = check(&bed.plan, &stored, &bed.observed(), &decision, bed.now);
    found.into_iter().map(|v| v.invariant).collect()
}

#[test]
fn h4_h6_a_target_is_neither_closed_nor_given_to_somebody_else_while_nobody_knows_whose_it_is() {
    let mut two = two("aa");
    two.bed.morning();
    two.repair_used();
    let bed = &two.bed;
    let state = bed.state.clone().unwrap();
    assert_eq!(state.open.as_ref().unwrap().operation, Operation::WakeUp);
    let closed = state.closed(bed.now);
    assert_eq!(judged(bed, closed), [Invariant::ConsumedWhenDone]);
    let to = |state: &State, executor: &str| {
        let mut next = state.clone();
        let cycle = next.open.as_mut().unwrap();
        cycle.intent.targets[0].executor = ExecutorName::parse(executor).unwrap();
        next
    };
    assert_eq!(judged(bed, to(&state, "noop")), [], "it may be this one's");
    let nobody = judged(bed, to(&state, "nobody"));
    assert_eq!(nobody, [Invariant::NoSilentEdit], "there is no such point");
    // As soon as it is known, it is as fixed as everything else.
    two.repair_asleep();
    two.bed.turn();
    let known = two.bed.state.clone().unwrap();
    let progress = &known.open.as_ref().unwrap().targets[&name("web")];
    assert!(progress.captured_in.is_some());
    assert!(two.bed.point("web").entries.contains_key(&id("a")));
    let back = judged(&two.bed, to(&known, "aa"));
    assert_eq!(back, [Invariant::NoSilentEdit]);
}
