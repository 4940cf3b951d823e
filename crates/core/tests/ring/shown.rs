//! What people are shown while nothing is done: the checks, the held ones first, and what a human must look at.

use super::situation::{host, member, ready, whole, whole_of};
use mainstay_core::ring::Plan;
use mainstay_core::ring::checks::Finding;
use mainstay_core::ring::reason::Why;
use mainstay_core::ring::stamp::Found;

#[test]
fn a_disk_that_cannot_be_read_is_for_a_human_and_is_not_taken_for_an_empty_one() {
    let mut unreadable = whole().lost();
    unreadable.report(1, Found::Unreadable);
    let plan = unreadable.plan();
    assert!(plan.steps.is_empty(), "{}", unreadable.text());
    let why = plan.reasons.iter().find(|w| w.id() == "UnreadableDisk");
    assert!(why.is_some_and(Why::needs_human), "{}", unreadable.text());
    // Nor is another member replaced meanwhile: rows may be on it that nobody else has.
    let mut other = ready();
    other.report(2, Found::Unreadable);
    assert!(!other.permits(), "{}", other.text());
    let mut labelled = unreadable;
    labelled.seen.members[1].replace_label = true;
    assert!(
        !labelled.plan().steps.is_empty(),
        "a human gives it up: {}",
        labelled.text()
    );
}

/// All of it, of whomever: what is held comes before what holds.
fn held_first(plan: &Plan) -> bool {
    let holds: Vec<bool> = plan.findings.iter().map(Finding::holds).collect();
    holds.is_sorted() && holds.first() == Some(&false)
}

#[test]
fn with_two_lost_the_held_checks_of_both_come_first() {
    let mut two = whole_of(5).lost();
    two.report(2, Found::Empty);
    two.seen.members[2]
        .pod
        .as_mut()
        .unwrap()
        .report
        .as_mut()
        .unwrap()
        .ran = false;
    two.seen.answers.retain(|a| a.by != member(2));
    two.down(2);
    let plan = two.plan();
    assert_eq!(plan.findings.len(), 22, "{}", two.text());
    assert!(held_first(&plan), "{:#?}", plan.findings);
}

#[test]
fn a_label_that_is_held_shows_its_checks_and_one_on_a_stranger_says_so() {
    let mut labelled = whole();
    labelled.seen.members[1].replace_label = true;
    labelled.seen.answers.retain(|a| a.by != member(2));
    labelled.down(2);
    let plan = labelled.plan();
    assert!(plan.steps.is_empty(), "{}", labelled.text());
    assert!(held_first(&plan), "{:#?}", plan.findings);
    let shown = |name: &str| plan.findings.iter().any(|f| f.letter.name() == name);
    assert!(
        shown("OthersUp") && !shown("Down"),
        "it may be alive until its volume goes"
    );

    let mut stranger = whole();
    stranger.seen.members[1].replace_label = true;
    stranger.ledger.known.remove(&member(1));
    stranger.seen.members[1].record = None;
    for answer in &mut stranger.seen.answers {
        answer.nodes.retain(|n| n.host != host(1));
    }
    let told = stranger.plan().reasons.iter().any(|w| w.id() == "LabelUnknown");
    assert!(told, "{}", stranger.text());
    assert!(stranger.text().contains("not on record"), "{}", stranger.text());
}
