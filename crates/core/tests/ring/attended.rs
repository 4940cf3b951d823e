//! A cluster that scylla-operator runs: only its label, under the same checks.

use super::situation::{NOW, Situation, host, member, whole_of};
use mainstay_core::ring::Step;
use mainstay_core::ring::observed::Liveness;
use mainstay_core::ring::reason::{Condition, Why};
use mainstay_core::ring::spec::Managed;
use std::time::Duration;

fn attended() -> Situation {
    attended_of(3)
}

fn attended_of(members: u8) -> Situation {
    let mut situation = whole_of(members).lost();
    situation.seen.spec.managed = Managed::ByScyllaOperator;
    for m in &mut situation.seen.members {
        m.record = None;
        m.pod.as_mut().unwrap().report = None;
    }
    situation.seen.members[1].waits_unbootstrapped_since = Some(NOW - Duration::from_mins(20));
    situation
}

/// The place was taken two minutes ago.
fn confirmed() -> Situation {
    let mut situation = attended();
    let plan = situation.plan();
    let mut next = plan.steps[0].ledger().unwrap().clone();
    next.work.as_mut().unwrap().since = NOW - Duration::from_mins(2);
    situation.ledger = next;
    situation
}

#[test]
fn it_takes_the_place_and_then_sets_the_label_and_nothing_else() {
    assert!(matches!(
        attended().plan().steps.as_slice(),
        [Step::WriteLedger(_)]
    ));
    let plan = confirmed().plan();
    assert!(matches!(
        plan.steps.as_slice(),
        [Step::WriteLedger(_), Step::SetReplaceLabel { member: m, .. }] if *m == member(1)
    ));
}

#[test]
fn a_living_node_a_label_of_a_human_and_a_foreign_host_id_are_left_alone() {
    let mut alive = confirmed();
    alive.node(0, 1).liveness = Liveness::Up;
    let labels = |s: &Situation| {
        s.plan()
            .steps
            .iter()
            .any(|s| matches!(s, Step::SetReplaceLabel { .. }))
    };
    assert!(!labels(&alive));
    let mut labelled = attended();
    labelled.seen.members[1].replace_label = true;
    assert!(labelled.plan().steps.is_empty());
}

#[test]
fn a_note_that_is_missing_or_names_another_node_is_told_with_both_ids_and_nobody_is_labelled() {
    for (note, id) in [(None, "NotedNothing"), (Some(host(7)), "NotedOther")] {
        let mut noted = attended();
        noted.seen.members[1].noted_host = note;
        let plan = noted.plan();
        assert!(plan.steps.is_empty(), "that operator would replace somebody else");
        let why = plan
            .reasons
            .iter()
            .find(|w| w.id() == id)
            .expect("nobody is told");
        assert!(why.needs_human() && why.condition() == Some(Condition::ReplacementHeld));
        let named = [Some(host(1)), note];
        let text = why.to_string();
        assert!(
            named.iter().flatten().all(|h| text.contains(&h.to_string())),
            "{text}"
        );
        // It changed after the place was taken.
        let mut late = confirmed();
        late.seen.members[1].noted_host = note;
        let plan = late.plan();
        assert!(matches!(plan.steps.as_slice(), [Step::WriteLedger(l)] if l.work.is_none()));
        assert!(plan.reasons.iter().any(|w| w.id() == id), "{}", late.text());
        // Nobody asks for a note while nothing is lost.
        let mut whole = noted.clone();
        whole.seen.members[1].waits_unbootstrapped_since = None;
        assert!(
            !whole.plan().reasons.iter().any(Why::needs_human),
            "{}",
            whole.text()
        );
    }
}

#[test]
fn n17_a_label_on_another_member_is_a_replacement_under_way_there() {
    let mut other = attended();
    other.seen.members[2].replace_label = true;
    let plan = other.plan();
    assert!(plan.steps.is_empty(), "{}", other.text());
    assert!(other.text().contains("ring-r2-0 carries `scylla/replace`"));
}

#[test]
fn a_barrier_that_is_only_slow_is_no_loss() {
    let mut slow = attended();
    slow.seen.members[1].waits_unbootstrapped_since = Some(NOW - Duration::from_mins(14));
    assert!(slow.plan().steps.is_empty(), "{}", slow.text());
    let mut late = confirmed();
    late.seen.members[1].waits_unbootstrapped_since = Some(NOW - Duration::from_mins(14));
    let plan = late.plan();
    let ledger = plan.steps[0].ledger().unwrap();
    assert_eq!(ledger.work, None, "the place is free: {}", late.text());
}

#[test]
fn a_label_that_nobody_obeys_is_told_and_stays() {
    let mut labelled = confirmed();
    labelled.seen.members[1].replace_label = true;
    let says = |s: &Situation, id: &str| s.plan().reasons.iter().any(|w| w.id() == id);
    assert!(says(&labelled, "LabelSet"), "{}", labelled.text());
    labelled.seen.spec.timing.limit = Duration::from_hours(1);
    labelled.ledger.work.as_mut().unwrap().since = NOW - Duration::from_hours(1);
    let plan = labelled.plan();
    assert!(plan.steps.is_empty() && plan.reasons.iter().any(Why::needs_human));
    assert_eq!(
        plan.reasons.first().and_then(Why::condition),
        Some(Condition::ReplacementFailed)
    );
    assert!(labelled.text().contains("autoreplacement.enabled: false"));
}

#[test]
fn a_label_that_a_human_took_off_is_not_set_again_once_automation_is_off() {
    let mut off = confirmed();
    off.seen.spec.automatic = false;
    let plan = off.plan();
    assert!(
        matches!(plan.steps.as_slice(), [Step::WriteLedger(l)] if l.work.is_none()),
        "the place is free: {:?}",
        plan.steps
    );
    assert!(
        off.text().contains("autoreplacement was switched off"),
        "{}",
        off.text()
    );
    off.ledger = plan.steps[0].ledger().unwrap().clone();
    assert!(off.plan().steps.is_empty() && off.text().contains("autoreplacement is off"));
}

#[test]
fn n9_another_one_that_waits_at_the_barrier_counts_as_lost() {
    let mut five = attended_of(5);
    assert!(!five.plan().steps.is_empty(), "{}", five.text());
    for n in [2, 3] {
        five.seen.members[n].waits_unbootstrapped_since = Some(NOW);
    }
    assert!(five.plan().steps.is_empty(), "{}", five.text());
    assert!(
        five.text().contains("3 copies and 3 members are lost"),
        "{}",
        five.text()
    );
}
