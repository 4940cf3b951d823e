//! Work whose pod says nothing keeps its place, and is told when that takes too long.

use super::situation::{NOW, Situation, known, member, ready};
use mainstay_core::ring::Step;
use mainstay_core::ring::ids::VolumeUid;
use mainstay_core::ring::ledger::{Phase, Task, Work};
use mainstay_core::ring::observed::MemberView;
use mainstay_core::ring::reason::{Condition, Why};
use std::time::Duration;

/// How a pod can be unheard, and what is said of it.
type Change = fn(&mut MemberView);

const WAYS: [(&str, Change); 3] = [
    ("its pod is gone", |m| m.pod = None),
    ("its pod is ending", |m| {
        m.pod.as_mut().unwrap().ends_by = Some(NOW);
    }),
    ("its pod is not scheduled", |m| {
        m.pod.as_mut().unwrap().report = None;
    }),
];

const LIMIT: Duration = Duration::from_hours(1);

/// All checks hold for member 1, and a start may take so long.
fn lost() -> Situation {
    let mut lost = ready();
    lost.seen.spec.timing.limit = LIMIT;
    lost
}

/// The permission was given so long ago.
fn granted(ago: Duration) -> Situation {
    let mut granted = lost();
    granted.ledger = granted.plan().steps[0].ledger().unwrap().clone();
    let work = granted.ledger.work.as_mut().unwrap();
    if let Phase::Granted(grant) = &mut work.phase {
        grant.at = NOW - ago;
    }
    granted
}

/// Its volume was given up so long ago, and another claim is there.
fn evicting(ago: Duration) -> Situation {
    let mut evicting = lost();
    evicting.ledger.work = Some(Work {
        member: member(1),
        task: Task::Replace {
            lost: known(1),
            manual: false,
        },
        phase: Phase::Evicting,
        since: NOW - ago,
        failed: 0,
    });
    evicting.seen.members[1].claim.as_mut().unwrap().uid = VolumeUid(0x77);
    evicting
}

/// The rest after a try that failed was over so long ago.
fn resting(ago: Duration) -> Situation {
    let mut resting = lost();
    let work = resting.ledger.work.as_mut().unwrap();
    (work.phase, work.failed) = (Phase::Resting { until: NOW - ago }, 1);
    resting
}

fn told(situation: &Situation) -> Option<Why> {
    let plan = situation.plan();
    assert!(
        !plan
            .steps
            .iter()
            .any(|s| s.ledger().is_some_and(|l| l.work.is_none())),
        "the place is kept"
    );
    plan.reasons.into_iter().find(Why::needs_human)
}

#[test]
fn work_of_whose_pod_nothing_is_heard_for_too_long_is_told_and_keeps_its_place() {
    for begun in [granted, evicting, resting] {
        for (part, change) in WAYS {
            let mut late = begun(LIMIT);
            change(&mut late.seen.members[1]);
            let why = told(&late).unwrap();
            assert_eq!(why.condition(), Some(Condition::ReplacementFailed));
            assert!(why.to_string().contains(part), "{part}: {why}");
            let mut early = begun(Duration::from_mins(59));
            change(&mut early.seen.members[1]);
            assert_eq!(told(&early), None, "{part}");
        }
    }
}

#[test]
fn a_claim_that_does_not_go_is_told_as_well() {
    let mut stuck = evicting(LIMIT);
    let m = &mut stuck.seen.members[1];
    let claim = m.claim.as_mut().unwrap();
    (claim.uid, claim.terminating) = (known(1).volume.unwrap(), true);
    claim.node_gone_since = Some(NOW - LIMIT);
    m.pod.as_mut().unwrap().ends_by = Some(NOW);
    assert!(told(&stuck).is_some(), "{}", stuck.text());
    assert!(
        stuck
            .plan()
            .steps
            .iter()
            .all(|s| !matches!(s, Step::DeletePod { .. }))
    );
}
