//! A member that is not declared any more: what keeps it from leaving is told, and it is not cleared away while it lives.

use super::situation::{NOW, Situation, address, host, known, member, whole, whole_of};
use mainstay_core::ring::ids::{GrantNumber, PodUid};
use mainstay_core::ring::invariants::{Invariant, check};
use mainstay_core::ring::ledger::{Phase, Task, Work};
use mainstay_core::ring::observed::Liveness;
use mainstay_core::ring::reason::{Condition, Why};
use mainstay_core::ring::stamp::Found;
use mainstay_core::ring::{Plan, Step, asks};
use std::time::Duration;

/// Member 2 is not declared any more, and the keyspace can do without it.
fn smaller() -> Situation {
    let mut smaller = whole();
    smaller.seen.spec.members.pop();
    copies(&mut smaller, 2);
    smaller
}

fn copies(situation: &mut Situation, copies: u32) {
    for answer in &mut situation.seen.answers {
        let all = answer.keyspaces[0].copies.as_mut().unwrap();
        for c in all.values_mut() {
            *c = copies;
        }
    }
}

/// Its disk is gone: its gate waits in a new pod, and the others see it down.
fn lose(situation: &mut Situation, n: u8) {
    situation.report(usize::from(n), Found::Empty);
    let pod = situation.seen.members[usize::from(n)].pod.as_mut().unwrap();
    (pod.uid, pod.runs) = (PodUid(0x22), false);
    situation.seen.answers.retain(|a| a.by != member(n));
    situation.down(n);
}

/// The one thing that is told to a human, and the condition it speaks for.
fn told(situation: &Situation) -> Option<(&'static str, Option<Condition>)> {
    let plan = situation.plan();
    let why = plan.reasons.iter().find(|w| w.needs_human())?;
    Some((why.id(), why.condition()))
}

fn leaves(situation: &Situation) -> bool {
    let plan = situation.plan();
    plan.steps.iter().any(|s| matches!(s, Step::Decommission { .. }))
}

/// Two members, and one copy of each row: member 1 is not declared any more.
fn down_to_one() -> Situation {
    let mut two = whole_of(2);
    two.seen.spec.members.pop();
    copies(&mut two, 1);
    two
}

#[test]
fn the_second_of_two_leaves_and_the_last_one_is_asked_nothing() {
    let two = down_to_one();
    assert!(
        asks(Some(&two.ledger), &two.seen),
        "who leaves is known to the other"
    );
    assert!(leaves(&two), "{}", two.text());
    let mut gone = down_to_one();
    gone.ledger.known.remove(&member(1));
    for answer in &mut gone.seen.answers {
        answer.nodes.retain(|n| n.host != host(1));
    }
    assert!(asks(Some(&gone.ledger), &gone.seen), "has it left?");
    let clears = |s: &Step| matches!(s, Step::Retire { member: m } if *m == member(1));
    gone.seen.members[1].record = None;
    assert!(gone.plan().steps.iter().any(clears), "{}", gone.text());
    gone.seen.members.pop();
    assert!(!asks(Some(&gone.ledger), &gone.seen), "a single node");
    gone.report(0, Found::Empty);
    gone.seen.answers.clear();
    assert!(
        !asks(Some(&gone.ledger), &gone.seen),
        "nobody is left to be asked"
    );
    let held = Some(("HeldForHuman", Some(Condition::ReplacementHeld)));
    gone.seen.members[0]
        .pod
        .as_mut()
        .unwrap()
        .report
        .as_mut()
        .unwrap()
        .ran = false;
    assert_eq!(told(&gone), held, "{}", gone.text());
}

#[test]
fn a_keyspace_that_needs_every_member_holds_a_leaving_and_a_human_is_told_what_helps() {
    assert!(leaves(&smaller()), "{}", smaller().text());
    let mut crowded = smaller();
    copies(&mut crowded, 3);
    assert!(!leaves(&crowded));
    let held = Some(("LeaveHeld", Some(Condition::ReplacementHeld)));
    assert_eq!(told(&crowded), held, "{}", crowded.text());
    let text = crowded.text();
    assert!(
        text.contains("keeps 3 copies, and 2 members would be left"),
        "{text}"
    );
    assert!(
        text.contains("lower its replication factor") && !text.contains("acceptLoss"),
        "{text}"
    );
}

#[test]
fn a_member_that_is_to_leave_and_lost_its_storage_is_for_a_human_to_remove() {
    let lost = Some(("LeaveLost", Some(Condition::StorageLost)));
    let mut empty = smaller();
    lose(&mut empty, 2);
    assert_eq!(told(&empty), lost, "{}", empty.text());
    let text = empty.text();
    assert!(
        text.contains(&format!("nodetool removenode {}", host(2))),
        "{text}"
    );
    let mut early = smaller();
    early.report(2, Found::Empty);
    assert!(
        !leaves(&early),
        "the others have not noticed yet, and nobody is there to be told"
    );
    assert_eq!(told(&early), lost);
    let mut node = smaller();
    let claim = node.seen.members[2].claim.as_mut().unwrap();
    claim.node_gone_since = Some(NOW - Duration::from_mins(20));
    node.down(2);
    assert_eq!(told(&node), lost, "{}", node.text());
}

#[test]
fn one_that_is_only_down_leaves_when_it_is_back_and_is_not_called_another_member() {
    let mut down = smaller();
    down.seen.members[2].pod = None;
    down.seen.answers.retain(|a| a.by != member(2));
    down.down(2);
    assert_eq!(told(&down), None);
    let text = down.text();
    assert!(text.contains("its own node, down"), "{text}");
    let mut other = whole_of(4);
    other.seen.spec.members.pop();
    other.node(0, 1).liveness = Liveness::Down(Duration::from_mins(1));
    assert!(other.text().contains("another member"), "{}", other.text());
}

#[test]
fn one_that_lost_its_storage_before_it_began_to_leave_gives_its_place_back() {
    let mut told_to = smaller();
    told_to.ledger.work = Some(Work {
        member: member(2),
        task: Task::Leave { left: known(2) },
        phase: Phase::Leaving,
        since: NOW - Duration::from_mins(5),
        failed: 0,
    });
    lose(&mut told_to, 2);
    let plan = told_to.plan();
    let freed = plan.steps.iter().find_map(Step::ledger);
    assert!(freed.is_some_and(|l| l.work.is_none()), "{}", told_to.text());
    assert!(plan.reasons.iter().any(Why::needs_human), "{}", told_to.text());
}

/// Member 2 is in the ring, neither declared nor on record: the ledger was lost, or it was taken away before it was seen.
fn unrecorded() -> Situation {
    let mut unrecorded = smaller();
    unrecorded.ledger.known.remove(&member(2));
    unrecorded.seen.members[2].record = None;
    unrecorded
}

fn clears(situation: &Situation) -> bool {
    let plan = situation.plan();
    let claim = |s: &Step| matches!(s, Step::DeleteClaim { .. });
    plan.steps.iter().any(claim)
}

#[test]
fn one_that_is_in_the_ring_and_not_on_record_is_put_there_so_that_it_can_leave() {
    let mut unrecorded = unrecorded();
    let plan = unrecorded.plan();
    let next = plan.steps.iter().find_map(Step::ledger).cloned().unwrap();
    assert_eq!(next.known[&member(2)].host, host(2), "{}", unrecorded.text());
    unrecorded.ledger = next;
    unrecorded.seen.members[2].record = whole().seen.members[2].record.clone();
    assert!(leaves(&unrecorded), "{}", unrecorded.text());
}

#[test]
fn the_claim_of_one_that_lives_is_not_deleted_because_its_service_was_made_anew() {
    // Its Service is gone, or has another address.
    for service in [None, Some(address(9))] {
        for found in [Found::Started(host(2)), Found::StartedWith(GrantNumber(3))] {
            let mut moved = unrecorded();
            moved.seen.members[2].address = service;
            moved.report(2, found);
            assert!(!clears(&moved), "{service:?} {found:?}: {}", moved.text());
            let held = Some(("LeaveUnplaced", Some(Condition::ReplacementHeld)));
            assert_eq!(told(&moved), held, "{}", moved.text());
            let delete = Step::DeleteClaim {
                member: member(2),
                uid: known(2).volume.unwrap(),
            };
            let plan = Plan::default().then(delete);
            let broken = check(Some(&moved.ledger), &moved.seen, &plan, NOW);
            let refused = broken.iter().any(|v| v.invariant == Invariant::NeverWiped);
            assert!(refused, "{service:?} {found:?}");
        }
    }
}

/// The others know a node that belongs to no member, and the Service of member 2 has another address since.
fn moved() -> Situation {
    let mut moved = unrecorded();
    moved.seen.members[2].address = Some(address(9));
    moved
}

fn refuses_to_delete(situation: &Situation) -> bool {
    let delete = Step::DeleteClaim {
        member: member(2),
        uid: known(2).volume.unwrap(),
    };
    let plan = Plan::default().then(delete);
    let broken = check(Some(&situation.ledger), &situation.seen, &plan, NOW);
    broken.iter().any(|v| v.invariant == Invariant::NeverWiped)
}

#[test]
fn the_claim_of_one_of_which_nobody_knows_which_node_it_is_stays_while_a_node_belongs_to_nobody() {
    type Change = fn(&mut Situation);
    let table: [(&str, Change); 5] = [
        ("a pod without a gate", |s| {
            s.seen.members[2].pod.as_mut().unwrap().report = None;
        }),
        ("a pod that has told nothing yet", |s| {
            let pod = s.seen.members[2].pod.as_mut().unwrap();
            (pod.report, pod.runs) = (None, false);
        }),
        ("no pod", |s| s.seen.members[2].pod = None),
        ("a damaged disk", |s| s.report(2, Found::Damaged)),
        ("the disk of another node", |s| {
            s.report(2, Found::Foreign(host(1)));
        }),
    ];
    for (what, change) in table {
        let mut unknown = moved();
        change(&mut unknown);
        assert!(!clears(&unknown), "{what}: {}", unknown.text());
        assert!(refuses_to_delete(&unknown), "{what}");
        let plan = unknown.plan();
        let told = plan.reasons.iter().any(|w| w.id() == "LeaveUnplaced");
        assert!(told, "{what}: {}", unknown.text());
    }
    let mut empty = moved();
    empty.report(2, Found::Empty);
    assert!(clears(&empty) && !refuses_to_delete(&empty), "{}", empty.text());
}

#[test]
fn one_that_has_left_is_cleared_away() {
    let mut left = unrecorded();
    for answer in &mut left.seen.answers {
        answer.nodes.retain(|n| n.host != host(2));
    }
    assert!(clears(&left), "{}", left.text());
    // On its way out its Service goes before its pod.
    let gone = &mut left.seen.members[2];
    gone.address = None;
    gone.claim.as_mut().unwrap().terminating = true;
    assert_eq!(told(&left), None, "{}", left.text());
}

/// An operator that dies between the claim and the Service leaves the Service, and somebody else's dead node may be listed.
#[test]
fn what_is_left_of_one_without_pod_and_claim_goes_whoever_is_listed() {
    let mut left = moved();
    (left.seen.members[2].pod, left.seen.members[2].claim) = (None, None);
    let plan = left.plan();
    let retires = matches!(plan.steps.as_slice(), [Step::Retire { member: m }] if *m == member(2));
    assert!(retires, "{}", left.text());
    let broken = check(Some(&left.ledger), &left.seen, &plan, NOW);
    assert!(broken.is_empty(), "{broken:?}");
}
