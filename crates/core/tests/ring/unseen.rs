//! Nobody was left who could have seen a start finish: who waits for its place, and for whom it waits.

use super::situation::{CLUSTER, NOW, Situation, host, known, member, ready};
use mainstay_core::ring::ids::{DiskId, HostId, PodUid};
use mainstay_core::ring::invariants::{Invariant, check};
use mainstay_core::ring::ledger::{Known, Ledger, Phase, Task, Work};
use mainstay_core::ring::record::RecordMap;
use mainstay_core::ring::spec::{Engine, ReplaceBy};
use mainstay_core::ring::stamp::Found;
use mainstay_core::ring::{Plan, Step};

const NEW: HostId = HostId(0xb1);

fn written(situation: &Situation) -> Option<Ledger> {
    situation.plan().steps.iter().find_map(Step::ledger).cloned()
}

fn frees(situation: &Situation) -> bool {
    written(situation).is_some_and(|l| l.work.is_none())
}

/// Its gate holds an empty disk in a new pod.
fn lose(situation: &mut Situation, n: u8) {
    situation.report(usize::from(n), Found::Empty);
    let pod = situation.seen.members[usize::from(n)].pod.as_mut().unwrap();
    pod.uid = PodUid(0x20 + u128::from(n));
    let report = pod.report.as_mut().unwrap();
    (report.disk, report.ran) = (DiskId(0xe0 + u128::from(n)), false);
    situation.seen.answers.retain(|a| a.by != member(n));
}

/// Member 1 was permitted, its disk says that it has started, and nobody else is on record: each of them came back
/// unseen before, and answers no more.
fn alone() -> Situation {
    let mut alone = ready();
    alone.ledger = written(&alone).unwrap();
    alone.report(1, Found::Started(NEW));
    alone.seen.answers.clear();
    for n in [0, 2] {
        alone.ledger.known.remove(&member(n));
        alone.seen.members[usize::from(n)].record = None;
    }
    alone
}

#[test]
fn one_that_is_not_on_record_and_lost_its_disk_again_is_not_waited_for() {
    let mut alone = alone();
    assert!(!frees(&alone), "the others run, and may still see it");
    lose(&mut alone, 0);
    assert!(!frees(&alone), "one of them runs: {}", alone.text());
    lose(&mut alone, 2);
    assert!(frees(&alone), "each would wait for the other: {}", alone.text());
    let next = written(&alone).unwrap();
    assert!(!next.known.contains_key(&member(1)) && next.founded);
    // What it says of the others puts them on record, without a disk: they are lost, and can be replaced.
    alone.ledger = next;
    alone.seen.members[1].record = None;
    let answer = ready().seen.answers.into_iter().find(|a| a.by == member(0));
    let mut answer = answer.unwrap();
    answer.by = member(1);
    for node in answer.nodes.iter_mut().filter(|n| n.host == host(1)) {
        node.host = NEW;
    }
    alone.seen.answers = vec![answer];
    let learnt = written(&alone).unwrap();
    assert_eq!(learnt.known[&member(0)].disk, None);
    assert_eq!(learnt.known.keys().collect::<Vec<_>>(), [&member(0), &member(2)]);
}

#[test]
fn a_place_that_nobody_waits_for_is_kept_and_a_plan_that_frees_it_is_refused() {
    let mut nobody = alone();
    for n in [0, 2] {
        nobody.seen.members[n].pod = None;
    }
    assert!(!frees(&nobody), "{}", nobody.text());
    // Nor is it freed while one runs who may see it.
    let mut early = alone();
    lose(&mut early, 0);
    let freed = early.ledger.with(|l| {
        l.known.clear();
        l.work = None;
    });
    let found = check(
        Some(&early.ledger),
        &early.seen,
        &Plan::default().write(freed),
        NOW,
    );
    let broken = found.iter().any(|v| v.invariant == Invariant::KnownByOthers);
    assert!(broken, "{found:?}");
}

/// The second member joins: nobody is on record yet, because nobody else could speak of the founder.
fn second() -> Situation {
    let mut second = alone();
    second.ledger.known.clear();
    second.seen.members[1].record = None;
    second.ledger.work.as_mut().unwrap().task = Task::Join;
    lose(&mut second, 2);
    second
}

#[test]
fn the_founder_is_waited_for_while_it_is_only_away_although_nobody_is_on_record() {
    let mut away = second();
    assert!(!frees(&away), "its gate let it run: {}", away.text());
    away.seen.members[0].pod = None;
    assert!(!frees(&away), "its pod is made anew: {}", away.text());
    let mut lost = second();
    lose(&mut lost, 0);
    assert!(frees(&lost), "it waits for this place: {}", lost.text());
}

/// Member 1 was put on record while it was down, so without a disk; it was to be replaced on another one, and then its
/// own disk is mounted again.
fn back(phase: &str, found: Found) -> Situation {
    let mut back = ready();
    let lost = Known {
        volume: None,
        disk: None,
        ..known(1)
    };
    back.ledger.known.insert(member(1), lost.clone());
    back.seen.members[1].record.as_mut().unwrap().map = RecordMap::print(&lost, ReplaceBy::Host, CLUSTER);
    let manual = false;
    back.ledger.work.as_mut().unwrap().task = Task::Replace { lost, manual };
    back.ledger = written(&back).unwrap();
    let work = back.ledger.work.as_mut().unwrap();
    assert!(work.grant().is_some());
    work.phase = match phase {
        "resting" => Phase::Resting { until: NOW },
        "given up" => Phase::GivenUp { pod: PodUid(0x11) },
        _ => work.phase.clone(),
    };
    work.failed = u32::from(phase != "permitted");
    back.report(1, found);
    let pod = back.seen.members[1].pod.as_mut().unwrap();
    pod.report.as_mut().unwrap().disk = DiskId(0xd1);
    back
}

#[test]
fn a_disk_that_is_not_on_record_keeps_its_place_when_it_comes_back() {
    for phase in ["permitted", "resting", "given up"] {
        for found in [Found::Started(host(1)), Found::Retired(host(1))] {
            let own = back(phase, found);
            assert!(frees(&own), "{phase}: it would wait for ever: {}", own.text());
            assert_eq!(written(&own).unwrap().known, own.ledger.known);
        }
        let other = back(phase, Found::Retired(NEW));
        assert!(!frees(&other), "{phase}: the node of another life");
    }
}

#[test]
fn the_disk_that_was_permitted_is_not_taken_for_the_old_one() {
    let mut own = back("permitted", Found::Started(host(1)));
    own.seen.spec.engine = Engine::Scylla("4.6".parse().unwrap());
    for (n, view) in (0..3).zip(&mut own.seen.members) {
        let known = &own.ledger.known[&member(n)];
        view.record.as_mut().unwrap().map = RecordMap::print(known, ReplaceBy::Address, CLUSTER);
    }
    let granted = own.ledger.work.as_ref().and_then(Work::grant).unwrap().disk;
    let pod = own.seen.members[1].pod.as_mut().unwrap();
    pod.report.as_mut().unwrap().disk = granted;
    // The others still tell of its former life.
    assert!(!frees(&own), "{}", own.text());
}
