//! What `decide` plans, on anything that can be observed, breaks nothing; and what it plans with a rule
//! switched off is noticed.

use super::samples::{Sample, sample};
use crate::memgraph::invariants::{Invariant, Violation, check};
use crate::memgraph::rules::{Rule, Rules};
use crate::memgraph::{Plan, decide};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::BTreeSet;

/// The same bytes for the same number (splitmix64).
fn tape(number: u64) -> Vec<u8> {
    let mut state = number;
    let word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    };
    std::iter::repeat_with(word).take(40).flatten().collect()
}

fn judged(case: &Sample) -> (Plan, Vec<Violation>) {
    let plan = decide(case.record.as_ref(), &case.seen, case.now);
    let found = check(case.record.as_ref(), &case.seen, &plan, case.now);
    (plan, found)
}

fn told(found: &[Violation], plan: &Plan) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for violation in found {
        let _ = writeln!(text, "{violation}");
    }
    for (i, planned) in plan.steps.iter().enumerate() {
        let _ = writeln!(text, "  {i} {}", planned.step);
    }
    for reason in &plan.reasons {
        let _ = writeln!(text, "  because {reason}");
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn what_decide_plans_breaks_nothing(bytes in prop::collection::vec(any::<u8>(), 320)) {
        let case = sample(&bytes);
        let (plan, found) = judged(&case);
        prop_assert!(found.is_empty(), "{}{case:#?}", told(&found, &plan));
    }
}

/// Decided with one rule off; the judge is told the same, or that all rules are in force.
fn without(rule: Rule, number: u64, judge_knows: bool) -> Vec<Violation> {
    let mut case = sample(&tape(number));
    case.seen.spec.rules = Rules::ALL.without(rule);
    let plan = decide(case.record.as_ref(), &case.seen, case.now);
    if !judge_knows {
        case.seen.spec.rules = Rules::ALL;
    }
    check(case.record.as_ref(), &case.seen, &plan, case.now)
}

#[test]
fn a_rule_that_is_off_is_not_held_against_the_plans_it_leads_to() {
    // Without R5 a term is finished by anybody with no write of the record at all: the judge sees a plan of
    // another protocol, and rightly finds much to say.
    for rule in Rule::ALL.iter().filter(|r| **r != Rule::R5) {
        for number in 0..4_000 {
            let found = without(*rule, number, true);
            assert!(found.is_empty(), "without {rule}, tape {number}: {found:?}");
        }
    }
}

#[test]
fn every_rule_that_decide_follows_is_noticed_when_it_does_not() {
    let claimed: BTreeSet<Rule> = Invariant::ALL.iter().flat_map(|i| i.rules()).copied().collect();
    for rule in claimed {
        let noticed = |n| {
            without(rule, n, false)
                .iter()
                .any(|v| v.invariant.rules().contains(&rule))
        };
        assert!((0..1_000_000).any(noticed), "{rule} is off and nobody notices");
    }
}
