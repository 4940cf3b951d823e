//! Whoever still works for a night that is over saves nothing any more: what it captured would be brought back over
//! whatever people have made of it since.

use super::bed::{Bed, HOUR, intent, name, plan, target};
use mainstay_core::hibernation::observed::Severity;
use mainstay_core::hibernation::plan::Strategy;
use mainstay_core::hibernation::state::Phase;
use mainstay_core::hibernation::step::{Purpose, Step};
use mainstay_core::hibernation::store::Shard;
use std::collections::BTreeMap;

/// The evening after a whole night: what an operator is about to save when it hears nothing any more.
fn about_to_save(bed: &mut Bed) -> Vec<Shard> {
    bed.settle();
    bed.night();
    bed.morning();
    assert_eq!(bed.phase(), Phase::Active);
    bed.now = bed.now + HOUR * 14;
    loop {
        let decision = bed.decision();
        let saves = decision.steps.into_iter().filter_map(|step| match step {
            Step::WriteShard {
                shard,
                purpose: Purpose::Save,
            } => Some(*shard),
            _ => None,
        });
        let saves: Vec<Shard> = saves.collect();
        if !saves.is_empty() {
            return saves;
        }
        assert!(bed.turn());
    }
}

/// Would the server still take one of them? A ConfigMap that is not there yet can be made at any time.
fn comes_in_time(bed: &Bed, late: &[Shard]) -> bool {
    let found = |shard: &Shard| bed.shards.get(&shard.number).map(|s| s.version.clone());
    late.iter()
        .any(|shard| found(shard) == Some(shard.version.clone()))
}

fn web_and(things: &[(&str, &str, u64)], budget: Option<usize>) -> Bed {
    let mut bed = Bed::new(plan(intent(vec![target("web")], Strategy::Sequential)), things);
    bed.budget = budget.unwrap_or(bed.budget);
    bed
}

/// Found by the simulation: the save of an evening that had turned out to be none arrived in the morning, and what people
/// had resized by then was brought back as it had been.
#[test]
fn what_is_saved_for_a_night_that_is_over_comes_too_late() {
    let long = |n: u8| format!("{}-{n}", "x".repeat(120));
    let names: Vec<String> = (0..4).map(long).collect();
    let split: Vec<_> = names.iter().map(|name| ("web", name.as_str(), 2)).collect();
    for mut bed in [web_and(&[("web", "a", 3)], None), web_and(&split, Some(1200))] {
        let late = about_to_save(&mut bed);
        assert_eq!(late.len(), bed.shards.len());
        assert!(comes_in_time(&bed, &late));
        // A clock was wrong: it is time to be awake, and nothing was captured.
        bed.later(HOUR * 12);
        assert_eq!(bed.phase(), Phase::Active);
        assert!(bed.said("NothingCaptured"));
        for shard in &late {
            assert!(
                !comes_in_time(&bed, std::slice::from_ref(shard)),
                "ConfigMap {}",
                shard.number
            );
        }
        assert!(!bed.store().is_locked());
    }
}

/// It need not be closed for that: whatever is said to be awake is not captured behind people's backs, although another
/// target keeps the cycle open all day.
#[test]
fn what_is_saved_for_a_target_that_is_awake_comes_too_late_also_if_another_one_sleeps() {
    let targets = vec![target("app"), target("db")];
    let whole = plan(intent(targets, Strategy::Sequential));
    let mut bed = Bed::new(whole, &[("app", "a", 3), ("db", "b", 2)]);
    about_to_save(&mut bed);
    while bed.replicas("a") > 0 {
        assert!(bed.turn());
    }
    let late: Vec<Shard> = bed
        .decision()
        .steps
        .into_iter()
        .filter_map(|step| match step {
            Step::WriteShard { shard, .. } => Some(*shard),
            _ => None,
        })
        .collect();
    assert!(comes_in_time(&bed, &late), "`db` is about to be captured");
    bed.blind.insert(name("app"), Severity::Permanent);
    bed.later(HOUR * 12);
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Error, 0));
    assert!(bed.said("NothingCaptured"), "`db` was never reached");
    assert!(!comes_in_time(&bed, &late));
}

/// A ConfigMap of which the wake-up had nothing to say is no exception: what is captured late at night goes wherever
/// there is room.
#[test]
fn no_configmap_is_left_as_it_was_when_a_cycle_is_closed() {
    let mut bed = Bed::simple();
    bed.settle();
    bed.night();
    let mut second = bed.shards[&1].clone();
    (second.number, second.data) = (2, [("notes".to_owned(), "mine".to_owned())].into());
    bed.shards.insert(2, second);
    let versions = |bed: &Bed| -> BTreeMap<u16, _> {
        let all = bed.shards.iter();
        all.map(|(n, s)| (*n, s.version.clone())).collect()
    };
    let night = versions(&bed);
    bed.purposes.clear();
    bed.morning();
    assert_eq!((bed.phase(), bed.replicas("a")), (Phase::Active, 3));
    let day = versions(&bed);
    assert!(night.iter().all(|(n, version)| day[n] != *version), "{day:?}");
    assert_eq!(bed.shards[&2].data["notes"], "mine");
    assert!(bed.shards.values().all(|s| s.annotations.is_empty()));
    let marks = bed.purposes.iter().filter(|p| **p == Purpose::MarkRestored);
    assert_eq!(marks.count(), 2, "each is written once for it");
}
