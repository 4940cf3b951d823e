//! A permitted replacement comes to its end: who must have seen it.

use super::situation::{CLUSTER, NOW, Situation, host, known, member, ready};
use mainstay_core::ring::ids::{DiskId, HostId, PodUid};
use mainstay_core::ring::invariants::{Invariant, check};
use mainstay_core::ring::ledger::Task;
use mainstay_core::ring::observed::{Liveness, NodeState};
use mainstay_core::ring::record::RecordMap;
use mainstay_core::ring::spec::{Engine, ReplaceBy};
use mainstay_core::ring::stamp::Found;
use mainstay_core::ring::{Ledger, Plan, Step};
use std::time::Duration;

const NEW: HostId = HostId(0xb1);

/// Member 1 was permitted and runs; both others see it Normal under its new host id, and the old one nowhere.
fn done() -> Situation {
    let mut done = ready();
    done.ledger = done.plan().steps[0].ledger().unwrap().clone();
    let grant = done.ledger.grants;
    done.report(1, Found::StartedWith(grant));
    for by in [0, 2] {
        let node = done.node(by, 1);
        (node.host, node.liveness, node.generation) = (NEW, Liveness::Up, 9);
    }
    done
}

/// The disk of member 2 is gone as well: its gate waits, and nobody answers there.
fn other_lost(mut situation: Situation) -> Situation {
    situation.report(2, Found::Empty);
    let pod = situation.seen.members[2].pod.as_mut().unwrap();
    pod.uid = PodUid(0x22);
    let report = pod.report.as_mut().unwrap();
    (report.disk, report.ran) = (DiskId(0xe2), false);
    situation.seen.answers.retain(|a| a.by != member(2));
    situation.node(0, 2).liveness = Liveness::Down(Duration::from_mins(10));
    situation
}

fn written(situation: &Situation) -> Option<Ledger> {
    situation.plan().steps.iter().find_map(Step::ledger).cloned()
}

/// The replacement is over, and the new node is on record.
fn ends(situation: &Situation) -> bool {
    written(situation).is_some_and(|l| l.work.is_none() && l.known[&member(1)].host == NEW)
}

#[test]
fn a_majority_of_the_others_sees_it_normal() {
    assert!(ends(&done()), "{}", done().text());
}

#[test]
fn another_member_that_lost_its_disk_meanwhile_is_not_waited_for() {
    let two = other_lost(done());
    assert!(ends(&two), "each would wait for the other: {}", two.text());
}

#[test]
fn another_member_that_is_only_away_is_waited_for() {
    let mut away = done();
    away.seen.answers.retain(|a| a.by != member(2));
    assert!(written(&away).is_none(), "{}", away.text());
}

#[test]
fn with_another_one_lost_all_that_are_left_must_see_it_normal() {
    for state in [NodeState::Replacing, NodeState::Joining, NodeState::Unknown] {
        let mut early = other_lost(done());
        let node = early.seen.answers[0].nodes.iter_mut().find(|n| n.host == NEW);
        node.unwrap().state = state;
        assert!(written(&early).is_none(), "{state:?}: {}", early.text());
    }
    let mut silent = other_lost(done());
    silent.seen.answers.clear();
    assert!(written(&silent).is_none(), "nobody is left to see it");
}

#[test]
fn the_end_of_one_does_not_permit_the_next() {
    let mut two = other_lost(done());
    two.ledger = written(&two).unwrap();
    assert_eq!(two.ledger.known[&member(2)].host, host(2));
    assert!(
        !two.permits(),
        "member 1 does not answer yet: one of three is no majority"
    );
}

/// Both others lost their disks before they could say that member 1 is back; its own disk says so.
fn nobody_left(found: Found) -> Situation {
    let mut alone = other_lost(done());
    alone.report(0, Found::Empty);
    let pod = alone.seen.members[0].pod.as_mut().unwrap();
    pod.uid = PodUid(0x20);
    let report = pod.report.as_mut().unwrap();
    (report.disk, report.ran) = (DiskId(0xe0), false);
    alone.seen.answers.clear();
    alone.report(1, found);
    alone
}

#[test]
fn a_disk_that_is_complete_frees_its_place_when_nobody_is_left_to_see_it() {
    let alone = nobody_left(Found::Started(NEW));
    let next = written(&alone).expect("each would wait for the other");
    assert!(next.work.is_none(), "{}", alone.text());
    assert!(
        !next.known.contains_key(&member(1)),
        "nothing is put on record from what it says of itself"
    );
    assert!(next.retired.contains(&DiskId(0xd1)), "the old disk stays fenced");
    assert!(
        alone.text().contains("when one of them sees it"),
        "{}",
        alone.text()
    );
}

#[test]
fn the_label_of_a_human_goes_before_the_work_does() {
    let mut labelled = nobody_left(Found::Started(NEW));
    labelled.seen.members[1].replace_label = true;
    if let Some(Task::Replace { manual, .. }) = labelled.ledger.work.as_mut().map(|w| &mut w.task) {
        *manual = true;
    }
    let plan = labelled.plan();
    assert!(
        matches!(
            plan.steps.as_slice(),
            [Step::RemoveReplaceLabel { .. }, Step::WriteLedger(l)] if l.work.is_none()
        ),
        "with the label and without the work another replacement would begin: {:?}",
        plan.steps
    );
}

#[test]
fn a_start_that_is_not_complete_keeps_its_place_whoever_is_lost() {
    let grant = nobody_left(Found::Empty).ledger.grants;
    let early = nobody_left(Found::StartedWith(grant));
    assert!(written(&early).is_none(), "{}", early.text());
    // Nor does another disk than the one that was permitted.
    let mut other = nobody_left(Found::Started(NEW));
    let pod = other.seen.members[1].pod.as_mut().unwrap();
    pod.report.as_mut().unwrap().disk = DiskId(0xee);
    assert!(written(&other).is_none(), "{}", other.text());
}

#[test]
fn one_that_is_only_away_may_still_see_it() {
    let mut away = nobody_left(Found::Started(NEW));
    away.report(0, Found::Started(host(0)));
    assert!(written(&away).is_none(), "{}", away.text());
    // A plan that frees the place all the same is refused.
    let freed = away.ledger.with(|l| {
        l.known.remove(&member(1));
        l.work = None;
    });
    let found = check(Some(&away.ledger), &away.seen, &Plan::default().write(freed), NOW);
    assert!(
        found.iter().any(|v| v.invariant == Invariant::KnownByOthers),
        "{found:?}"
    );
}

/// The same, where the one that takes the place keeps the host id; the old disk is mounted again.
fn old_disk_back(generation: u64) -> Situation {
    let mut back = ready();
    back.seen.spec.engine = Engine::Scylla("4.6".parse().unwrap());
    for (n, view) in (0..3).zip(&mut back.seen.members) {
        view.record.as_mut().unwrap().map = RecordMap::print(&known(n), ReplaceBy::Address, CLUSTER);
    }
    back.ledger = back.plan().steps[0].ledger().unwrap().clone();
    back.report(1, Found::Retired(host(1)));
    let pod = back.seen.members[1].pod.as_mut().unwrap();
    pod.report.as_mut().unwrap().disk = DiskId(0xd1);
    for by in [0, 2] {
        back.node(by, 1).generation = generation;
    }
    back
}

#[test]
fn an_old_disk_is_believed_only_while_nobody_has_lived_in_its_place_since() {
    let again = |s: &Situation| written(s).is_some_and(|l| l.retired.is_empty());
    assert!(again(&old_disk_back(7)), "nothing was taken from it yet");
    let cold = old_disk_back(0);
    assert!(
        !again(&cold),
        "known from disk only, nobody can tell: {}",
        cold.text()
    );
    let taken = old_disk_back(8);
    assert!(!again(&taken), "it would take its tokens back: {}", taken.text());
    // A plan that does it all the same is refused.
    let freed = taken.ledger.with(|l| {
        l.retired.clear();
        l.work = None;
    });
    let plan = Plan::default().write(freed);
    let found = check(Some(&taken.ledger), &taken.seen, &plan, NOW);
    assert!(
        found.iter().any(|v| v.invariant == Invariant::RetiredStays),
        "{found:?}"
    );
}

#[test]
fn a_replacement_ends_also_if_its_member_is_not_declared_any_more() {
    let mut fewer = done();
    fewer.seen.spec.members.remove(1);
    assert!(
        ends(&fewer),
        "its old disk would be all that is on record: {}",
        fewer.text()
    );
}

/// Member 1 was permitted after a cold start of the others, who knew it from disk only, and its new node streams. Then the
/// old one is heard again: it was only cut off.
fn heard_again(version: &str, by: ReplaceBy) -> Situation {
    let mut again = ready();
    again.seen.spec.engine = Engine::Scylla(version.parse().unwrap());
    for (n, view) in (0..3).zip(&mut again.seen.members) {
        view.record.as_mut().unwrap().map = RecordMap::print(&known(n), by, CLUSTER);
    }
    for by in [0, 2] {
        again.node(by, 1).generation = 0;
    }
    again.ledger = written(&again).unwrap();
    let grant = again.ledger.grants;
    again.report(1, Found::StartedWith(grant));
    for by in [0, 2] {
        let node = again.node(by, 1);
        (node.liveness, node.generation) = (Liveness::Up, 7);
    }
    again
}

/// What the node in the pod of member 1 says of itself.
fn with_own_word(mut situation: Situation, generation: u64, state: NodeState) -> Situation {
    let mut own = situation.seen.answers[0].clone();
    own.by = member(1);
    for node in own.nodes.iter_mut().filter(|n| n.host == host(1)) {
        (node.generation, node.state) = (generation, state);
    }
    situation.seen.answers.push(own);
    situation
}

#[test]
fn whoever_is_heard_again_under_the_lost_host_id_is_not_the_new_one_where_each_start_has_its_own() {
    for version in ["5.4", "2025.2"] {
        let again = heard_again(version, ReplaceBy::Host);
        assert!(written(&again).is_none(), "{version}: {}", again.text());
        let told = with_own_word(again, 7, NodeState::Normal);
        assert!(written(&told).is_none(), "{version}: {}", told.text());
    }
}

#[test]
fn a_life_that_nobody_can_tell_from_the_lost_one_is_believed_by_the_word_of_the_node_in_the_pod() {
    let again = || heard_again("4.6", ReplaceBy::Address);
    assert!(written(&again()).is_none(), "{}", again().text());
    let other = with_own_word(again(), 9, NodeState::Normal);
    assert!(written(&other).is_none(), "another life: {}", other.text());
    let early = with_own_word(again(), 7, NodeState::Replacing);
    assert!(written(&early).is_none(), "it still streams: {}", early.text());
    let done = with_own_word(again(), 7, NodeState::Normal);
    let next = written(&done).expect("it is the one that all see");
    assert_eq!(
        (next.work, next.known[&member(1)].disk),
        (None, Some(DiskId(0xe1)))
    );
    // So does its disk, if it was started once more.
    let mut complete = again();
    complete.report(1, Found::Started(host(1)));
    assert!(
        written(&complete).is_some_and(|l| l.work.is_none()),
        "{}",
        complete.text()
    );
}
