//! N26: what a replacement that did not finish leaves behind in Cassandra.

use super::situation::{CLUSTER, NOW, Situation, address, host, known, ready};
use mainstay_core::ring::ids::GrantNumber;
use mainstay_core::ring::ledger::Phase;
use mainstay_core::ring::observed::{Liveness, NodeState};
use mainstay_core::ring::reason::Condition;
use mainstay_core::ring::record::RecordMap;
use mainstay_core::ring::spec::{Engine, ReplaceBy};
use mainstay_core::ring::stamp::Found;
use std::time::Duration;

/// A try of a Cassandra node failed; the others call it `hibernate` and have seen its heart like this.
fn failed(failed: u32, liveness: Liveness) -> Situation {
    let mut left = ready();
    left.seen.spec.engine = Engine::Cassandra;
    for (n, view) in (0..3).zip(&mut left.seen.members) {
        view.record.as_mut().unwrap().map = RecordMap::print(&known(n), ReplaceBy::Address, CLUSTER);
    }
    for answer in &mut left.seen.answers {
        answer.seeds = Some([0, 1, 2].map(address).to_vec());
    }
    for by in [0, 2] {
        let node = left.node(by, 1);
        (node.state, node.liveness) = (NodeState::Replacing, liveness);
    }
    left.ledger.grants = GrantNumber(4);
    left.report(1, Found::Unfinished(GrantNumber(4)));
    let work = left.ledger.work.as_mut().unwrap();
    (work.phase, work.failed) = (Phase::Resting { until: NOW }, failed);
    left
}

const STILL: Liveness = Liveness::Down(Duration::from_mins(10));

/// It is said in the condition that tells of a try that failed, by whom, and of which node.
fn is_named(situation: &Situation) {
    let plan = situation.plan();
    let mut said = plan.reasons.iter();
    let why = said.find(|w| w.id() == "Hibernate").expect("nobody says it");
    assert_eq!(why.condition(), Some(Condition::ReplacementFailed));
    let named = format!("ring-r0-0 calls {} of ring-r1-0 `hibernate`", host(1));
    assert!(why.to_string().starts_with(&named), "{why}");
}

#[test]
fn n26_after_a_try_that_failed_hibernate_is_named_and_nothing_is_tried_blindly() {
    let good = failed(1, STILL);
    assert!(good.permits(), "all checks hold: {}", good.text());

    for (what, liveness) in [
        ("its heart beats", Liveness::Up),
        ("it stopped just now", Liveness::Down(Duration::from_secs(30))),
    ] {
        let early = failed(1, liveness);
        assert!(early.plan().steps.is_empty(), "{what}: {}", early.text());
        is_named(&early);
        let held = format!("ring-r0-0 calls {} `hibernate`", host(1));
        let findings = early.plan().findings;
        let down = findings.iter().find(|f| f.letter.name() == "Down").unwrap();
        assert!(
            down.check.to_string().starts_with(&held),
            "{what}: {}",
            down.check
        );
    }

    let mut tired = failed(1, STILL);
    let later = NOW + Duration::from_mins(1);
    tired.ledger.work.as_mut().unwrap().phase = Phase::Resting { until: later };
    assert!(tired.plan().steps.is_empty(), "it rests first");
    assert_eq!(tired.plan().wake, Some(later));
    is_named(&tired);

    let mut held = failed(1, STILL);
    held.seen.answers.retain(|a| a.by == good.seen.answers[0].by);
    assert!(held.plan().steps.is_empty(), "the checks are asked again");
    is_named(&held);

    let mut unheard = failed(1, STILL);
    unheard.seen.answers[1].seeds = Some(vec![address(0)]);
    assert!(
        !unheard.permits(),
        "one that does not list it as a seed is told first"
    );
}

#[test]
fn n26_the_last_try_that_failed_is_the_last() {
    let mut last = failed(3, STILL);
    let pod = last.seen.members[1].pod.as_ref().unwrap().uid;
    last.ledger.work.as_mut().unwrap().phase = Phase::GivenUp { pod };
    assert!(last.plan().steps.is_empty(), "{}", last.text());
    is_named(&last);
}
