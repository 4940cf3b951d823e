//! Work that could wait for ever for somebody who is lost, or begin what must happen once: the way out of each.

use super::situation::{NOW, Situation, address, known, member, ready, whole};
use mainstay_core::ring::ids::{DiskId, GrantNumber, PodUid, VolumeUid};
use mainstay_core::ring::invariants::{Invariant, check};
use mainstay_core::ring::ledger::{Known, Ledger, Phase, Task, Work};
use mainstay_core::ring::observed::{Liveness, NodeState};
use mainstay_core::ring::reason::Why;
use mainstay_core::ring::record::RecordMap;
use mainstay_core::ring::spec::ReplaceBy;
use mainstay_core::ring::stamp::Found;
use mainstay_core::ring::{Plan, Step};
use std::time::Duration;

fn written(situation: &Situation) -> Option<Ledger> {
    situation.plan().steps.iter().find_map(Step::ledger).cloned()
}

/// Member 2 was told to leave, and nobody who answers lists it any more.
fn left() -> Situation {
    let mut left = whole();
    left.seen.spec.members.pop();
    left.ledger.work = Some(Work {
        member: member(2),
        task: Task::Leave { left: known(2) },
        phase: Phase::Leaving,
        since: NOW - Duration::from_mins(1),
        failed: 0,
    });
    left.seen.answers.retain(|a| a.by != member(2));
    for answer in &mut left.seen.answers {
        answer.nodes.retain(|n| n.host != known(2).host);
    }
    left
}

#[test]
fn a_member_has_left_also_when_another_one_lost_its_disk_meanwhile() {
    let gone = |s: &Situation| written(s).is_some_and(|l| !l.known.contains_key(&member(2)));
    assert!(gone(&left()));
    let mut lost = left();
    lost.seen.answers.retain(|a| a.by != member(1));
    lost.node(0, 1).liveness = Liveness::Down(Duration::from_mins(10));
    assert!(!gone(&lost), "one that is only away is waited for");
    lost.report(1, Found::Empty);
    assert!(
        gone(&lost),
        "it cannot answer before it is replaced: {}",
        lost.text()
    );
    let mut partly = lost;
    let nodes = &mut partly.seen.answers[0].nodes;
    nodes.retain(|n| n.host != known(1).host);
    assert!(!gone(&partly), "a view that is not complete proves nothing");
}

#[test]
fn a_leaving_that_has_not_begun_gives_way_to_a_loss() {
    let asked = |who: &[u8], minutes: u64| {
        let mut still = left();
        still.seen.answers = whole().seen.answers;
        for answer in &mut still.seen.answers {
            answer.keyspaces[0]
                .copies
                .as_mut()
                .unwrap()
                .values_mut()
                .for_each(|copies| *copies = 2);
            let lost = answer
                .nodes
                .iter_mut()
                .filter(|n| who.iter().any(|w| n.host == known(*w).host));
            lost.for_each(|n| n.liveness = Liveness::Down(Duration::from_mins(10)));
        }
        for n in who {
            still.report(usize::from(*n), Found::Empty);
            still.seen.answers.retain(|a| a.by != member(*n));
        }
        still.ledger.work.as_mut().unwrap().since = NOW - Duration::from_mins(minutes);
        let freed = written(&still).is_some_and(|l| l.work.is_none());
        let told = still
            .plan()
            .steps
            .iter()
            .any(|s| matches!(s, Step::Decommission { .. }));
        (freed, told)
    };
    assert_eq!(asked(&[], 5), (false, true), "it is told once more");
    assert_eq!(
        asked(&[1], 5),
        (true, false),
        "that one cannot be replaced before"
    );
    assert_eq!(asked(&[1], 0), (false, false), "somebody may be about to tell it");
    assert_eq!(asked(&[0, 1], 5), (true, false), "nobody else is left");
    assert_eq!(asked(&[0, 1, 2], 5), (true, false), "nor itself");
}

#[test]
fn one_that_lost_its_disk_while_it_was_leaving_is_for_a_human_to_remove() {
    let mut halfway = left();
    halfway.seen.answers = whole().seen.answers;
    halfway.seen.answers.retain(|a| a.by != member(2));
    halfway.report(2, Found::Empty);
    for by in [0, 1] {
        let node = halfway.node(by, 2);
        (node.state, node.liveness) = (NodeState::Leaving, Liveness::Down(Duration::from_mins(5)));
    }
    assert!(
        halfway.plan().reasons.iter().any(Why::needs_human),
        "{}",
        halfway.text()
    );
    halfway.report(2, Found::Started(known(2).host));
    assert!(
        !halfway.plan().reasons.iter().any(Why::needs_human),
        "it goes on when it is back"
    );
}

#[test]
fn a_new_member_whose_disk_says_it_has_joined_frees_its_place_for_those_who_should_have_seen_it() {
    let mut joined = whole();
    joined.ledger.known.remove(&member(1));
    let mut work = ready().plan().steps[0].ledger().unwrap().work.clone().unwrap();
    work.task = Task::Join;
    if let Phase::Granted(grant) = &mut work.phase {
        grant.disk = known(1).disk.unwrap();
    }
    joined.ledger.work = Some(work);
    joined.seen.members[1].record = None;
    joined.seen.answers.retain(|a| a.by == member(1));
    let frees = |s: &Situation| written(s).is_some_and(|l| l.work.is_none());
    assert!(
        !frees(&joined),
        "those who are only away are waited for: {}",
        joined.text()
    );
    for n in [0, 2] {
        joined.report(n, Found::Empty);
    }
    assert!(frees(&joined), "{}", joined.text());
    let next = written(&joined).unwrap();
    assert!(
        !next.known.contains_key(&member(1)),
        "on record by the word of others only"
    );
}

#[test]
fn n18_automation_that_rests_withdraws_for_the_label_of_a_human() {
    for phase in [
        Phase::Resting { until: NOW },
        Phase::GivenUp { pod: PodUid(0x11) },
    ] {
        let mut resting = ready();
        resting.ledger.work.as_mut().unwrap().phase = phase;
        resting.seen.members[1].replace_label = true;
        resting.ledger = written(&resting).unwrap();
        assert_eq!(resting.ledger.work, None);
        let next = written(&resting).unwrap().work.unwrap();
        assert!(matches!(next.task, Task::Replace { manual: true, .. }));
    }
}

#[test]
fn a_permission_has_a_number_that_no_disk_remembers_also_after_the_ledger_was_lost() {
    let mut forgotten = ready();
    assert_eq!(written(&forgotten).unwrap().grants, GrantNumber(1));
    forgotten.report(1, Found::Unfinished(GrantNumber(5)));
    let next = written(&forgotten).unwrap();
    assert_eq!(next.grants, GrantNumber(6), "its gate would use no lower one");
    let low = next.with(|l| {
        (l.grants, l.revision) = (GrantNumber(5), l.revision - 1);
        if let Some(Phase::Granted(grant)) = l.work.as_mut().map(|w| &mut w.phase) {
            grant.number = GrantNumber(5);
        }
    });
    let plan = Plan::default().write(low);
    let found = check(Some(&forgotten.ledger), &forgotten.seen, &plan, NOW);
    assert!(
        found.iter().any(|v| v.invariant == Invariant::GrantNames),
        "{found:?}"
    );
}

#[test]
fn a_labelled_volume_is_given_up_also_when_its_disk_came_back_behind_another_claim() {
    let mut moved = whole();
    moved.ledger.work = Some(Work {
        member: member(1),
        task: Task::Replace {
            lost: known(1),
            manual: true,
        },
        phase: Phase::Evicting,
        since: NOW,
        failed: 0,
    });
    moved.seen.members[1].replace_label = true;
    moved.seen.members[1].claim.as_mut().unwrap().uid = VolumeUid(0x77);
    let gives_up = |s: &Situation| {
        s.plan()
            .steps
            .iter()
            .any(|s| matches!(s, Step::DeleteClaim { .. }))
    };
    assert!(gives_up(&moved), "{}", moved.text());
    let pod = moved.seen.members[1].pod.as_mut().unwrap();
    pod.report = None;
    assert!(
        !gives_up(&moved),
        "the new one is not deleted before its gate has looked"
    );
}

#[test]
fn a_labelled_volume_that_is_not_on_record_is_given_up_once() {
    let mut unknown = whole();
    let lost = Known {
        volume: None,
        disk: None,
        ..known(1)
    };
    unknown.ledger.known.insert(member(1), lost.clone());
    unknown.ledger.work = Some(Work {
        member: member(1),
        task: Task::Replace { lost, manual: true },
        phase: Phase::Evicting,
        since: NOW,
        failed: 0,
    });
    let view = &mut unknown.seen.members[1];
    view.replace_label = true;
    view.record.as_mut().unwrap().map = RecordMap::print(
        &unknown.ledger.known[&member(1)],
        ReplaceBy::Host,
        unknown.ledger.cluster,
    );
    view.pod.as_mut().unwrap().report = None;
    let gives_up = |s: &Situation| {
        let plan = s.plan();
        plan.steps.iter().any(|s| matches!(s, Step::DeleteClaim { .. }))
    };
    // Nobody answers for it, and its pod is one without a gate.
    unknown.seen.answers.retain(|a| a.by != member(1));
    assert!(gives_up(&unknown), "it runs: {}", unknown.text());
    unknown.seen.members[1].pod.as_mut().unwrap().runs = false;
    assert!(
        !gives_up(&unknown),
        "it may be the new one, whose gate has not looked yet: {}",
        unknown.text()
    );
}

#[test]
fn a_member_that_speaks_is_not_dropped_on_the_word_of_the_few_that_are_left() {
    let mut one = whole().lost();
    one.seen.answers[0].nodes.retain(|n| n.host != known(2).host);
    let dropped = |s: &Situation| written(s).is_some_and(|l| !l.known.contains_key(&member(2)));
    assert!(!dropped(&one), "{}", one.text());
    one.seen.answers.retain(|a| a.by != member(2));
    assert!(dropped(&one), "it was removed: {}", one.text());
}

#[test]
fn a_rest_ends_when_the_node_of_the_volume_is_gone() {
    let mut resting = ready();
    let work = resting.ledger.work.as_mut().unwrap();
    work.phase = Phase::Resting { until: NOW };
    work.failed = 1;
    let claim = resting.seen.members[1].claim.as_mut().unwrap();
    claim.node_gone_since = Some(NOW - Duration::from_mins(20));
    let next = written(&resting).expect("nobody would ever wait there empty again");
    assert!(matches!(next.work.unwrap().phase, Phase::Confirming));
}

/// Nothing is there yet; the first member was permitted to found the ring.
fn founding() -> Situation {
    let mut new = whole();
    new.ledger = Ledger::new(super::situation::CLUSTER);
    new.seen.answers.clear();
    for n in 0..3 {
        new.report(n, Found::Empty);
        let view = &mut new.seen.members[n];
        view.record = None;
        let pod = view.pod.as_mut().unwrap();
        pod.report.as_mut().unwrap().ran = false;
    }
    new.ledger = written(&new).unwrap();
    let grant = new.ledger.work.as_ref().and_then(Work::grant).unwrap();
    assert_eq!(grant.seeds, [address(0)]);
    new
}

fn founder(situation: &mut Situation) -> &mut mainstay_core::ring::stamp::Report {
    let pod = situation.seen.members[0].pod.as_mut().unwrap();
    pod.report.as_mut().unwrap()
}

/// What can become of the founder before anybody has heard of the ring, and whether another ring may be founded.
type Change = fn(&mut Situation);

const FATES: [(&str, bool, Change); 5] = [
    ("its pod was made anew before it started", true, |s| {
        s.seen.members[0].pod.as_mut().unwrap().uid = PodUid(0x99);
    }),
    ("its start was refused", true, |s| {
        let number = s.ledger.grants;
        founder(s).found = Found::Unfinished(number);
    }),
    ("another disk is there", false, |s| founder(s).disk = DiskId(0xe0)),
    ("a database ran on it, and it is empty again", false, |s| {
        let number = s.ledger.grants;
        (founder(s).found, founder(s).ran) = (Found::Unfinished(number), true);
    }),
    ("its Node is gone", false, |s| {
        let claim = s.seen.members[0].claim.as_mut().unwrap();
        claim.node_gone_since = Some(NOW - Duration::from_mins(20));
    }),
];

#[test]
fn n6_a_ring_that_may_have_been_founded_is_not_founded_again_without_a_human() {
    for (fate, again, change) in FATES {
        let mut situation = founding();
        change(&mut situation);
        let plan = situation.plan();
        assert_eq!(!plan.steps.is_empty(), again, "{fate}: {}", situation.text());
        let asked = plan.reasons.iter().any(|w| w.id() == "FoundingUnknown");
        assert_eq!(asked, !again, "{fate}: {}", situation.text());
    }
}

#[test]
fn i6_3_to_free_the_place_of_such_a_founding_is_refused() {
    for (fate, again, change) in FATES {
        let mut situation = founding();
        change(&mut situation);
        let plan = Plan::default().write(situation.ledger.idle());
        let found = check(Some(&situation.ledger), &situation.seen, &plan, NOW);
        let broken = found.iter().any(|v| v.invariant == Invariant::Declared);
        assert_eq!(broken, !again, "{fate}: {found:?}");
    }
}

#[test]
fn the_founder_is_believed_when_its_own_disk_comes_back() {
    let mut back = founding();
    founder(&mut back).found = Found::Started(known(0).host);
    // First that there is a ring, then that the work is done.
    back.ledger = written(&back).unwrap();
    assert!(back.ledger.founded);
    assert!(written(&back).is_some_and(|l| l.work.is_none()));
}

#[test]
fn automation_that_is_switched_off_halfway_frees_its_place_instead_of_being_refused_for_ever() {
    let mut off = ready();
    off.seen.spec.automatic = false;
    let next = written(&off).expect("the place is free for others");
    assert_eq!(next.work, None, "{}", off.text());
    let mut resting = ready();
    resting.seen.spec.automatic = false;
    resting.ledger.work.as_mut().unwrap().phase = Phase::Resting { until: NOW };
    assert!(!resting.permits(), "{}", resting.text());
    assert!(resting.plan().reasons.iter().any(Why::needs_human));
    // A human who labels it goes on from there.
    resting.seen.members[1].replace_label = true;
    assert_eq!(written(&resting).unwrap().work, None);
}
