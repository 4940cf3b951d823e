//! Plans that nobody should make are recognised, whoever made them.

use super::situation::{NOW, Situation, member, ready, whole};
use mainstay_core::ring::invariants::{Invariant, check};
use mainstay_core::ring::ledger::{Ledger, Phase, Work};
use mainstay_core::ring::observed::Liveness;
use mainstay_core::ring::{Plan, Step};

/// The plan that permits the replacement.
fn permission() -> (Situation, Ledger) {
    let situation = ready();
    let plan = situation.plan();
    let next = plan.steps[0].ledger().unwrap().clone();
    (situation, next)
}

fn broken(situation: &Situation, next: Ledger) -> Vec<Invariant> {
    let plan = Plan::default().write(next);
    let found = check(Some(&situation.ledger), &situation.seen, &plan, NOW);
    found.into_iter().map(|v| v.invariant).collect()
}

fn grant(next: &mut Ledger) -> &mut mainstay_core::ring::ledger::Grant {
    match &mut next.work.as_mut().unwrap().phase {
        Phase::Granted(grant) => grant,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_good_permission_breaks_nothing() {
    let (situation, next) = permission();
    assert_eq!(broken(&situation, next), []);
}

#[test]
fn a_permission_in_another_world_breaks_what_it_should() {
    type Change = fn(&mut Situation, &mut Ledger);
    let table: [(Invariant, Change); 9] = [
        (Invariant::NeverAlive, |s, _| s.node(0, 1).liveness = Liveness::Up),
        (Invariant::NeverAlive, |s, _| s.seen.answers.clear()),
        (Invariant::GrantNames, |_, l| grant(l).pod.0 += 1),
        (Invariant::GrantNames, |_, l| grant(l).number.0 += 1),
        (Invariant::GrantSeeds, |_, l| grant(l).seeds.clear()),
        (Invariant::NeverWiped, |_, l| grant(l).wipe = true),
        (Invariant::RetiredStays, |_, l| l.retired.clear()),
        (Invariant::OneWrite, |_, l| l.revision += 1),
        (Invariant::HandsOff, |s, _| s.seen.members[1].maintenance = true),
    ];
    for (invariant, change) in table {
        let (mut situation, mut next) = permission();
        change(&mut situation, &mut next);
        let found = broken(&situation, next);
        assert!(found.contains(&invariant), "{invariant}: {found:?}");
    }
}

#[test]
fn another_work_while_one_is_under_way_is_refused() {
    let (_, granted) = permission();
    let mut running = ready();
    running.ledger = granted.clone();
    let next = granted.with(|l| {
        let work = l.work.take().unwrap();
        l.work = Some(Work {
            member: member(2),
            ..work
        });
    });
    assert!(broken(&running, next).contains(&Invariant::OneAtATime));
}

#[test]
fn claims_and_pods_of_healthy_members_are_never_deleted() {
    let whole = whole();
    let claim = whole.seen.members[1].claim.unwrap().uid;
    let pod = whole.seen.members[1].pod.as_ref().unwrap().uid;
    let delete = [
        Step::DeleteClaim {
            member: member(1),
            uid: claim,
        },
        Step::DeletePod {
            member: member(1),
            uid: pod,
        },
    ];
    for step in delete {
        let plan = Plan::default().then(step);
        assert!(!check(Some(&whole.ledger), &whole.seen, &plan, NOW).is_empty());
    }
    let mut asleep = ready();
    asleep.seen.wishes.hibernated = true;
    let (_, next) = permission();
    assert!(broken(&asleep, next).contains(&Invariant::Off));
}
