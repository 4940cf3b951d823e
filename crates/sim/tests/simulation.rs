//! The simulation: the same seed gives the same trace, a bounded number of seeds is clean, and it can fail.

use mainstay_core::memgraph::Rule;
use sim::memgraph::simulate::{config, run, run_with};

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    for seed in [3, 4, 77] {
        let (first, second) = (run(seed, true), run(seed, true));
        assert!(first.trace.len() > 10_000, "seed {seed} hardly did anything");
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_ne!(first.trace, run(seed + 100, true).trace);
    }
}

#[test]
fn tracing_does_not_change_what_happens() {
    let (traced, silent) = (run(5, true), run(5, false));
    assert_eq!(
        (traced.simulated, traced.acknowledged, traced.terms, traced.faults),
        (silent.simulated, silent.acknowledged, silent.terms, silent.faults)
    );
    assert!(silent.trace.is_empty());
}

#[test]
fn l8_random_faults_never_lose_a_write_and_the_cluster_comes_back_or_asks_for_a_human() {
    for seed in 0..150 {
        let report = run(seed, false);
        assert_eq!(report.violation, None, "sim replay --seed {seed}");
        assert!(
            report.faults > 0 && report.acknowledged > 0,
            "seed {seed} put nothing to the test"
        );
    }
}

/// What a long run once found, each with the decision that was wrong.
#[test]
fn seeds_that_did_not_heal_once_do() {
    for (seed, what) in [
        (
            48_524,
            "MAIN died in a move, and the candidate could not be promoted (R37)",
        ),
        (60_689, "the same"),
        (
            185_089,
            "a human was waited for, and every other look said something else (R26)",
        ),
        (
            305_229,
            "a replica under a retired name was behind, and writes were closed (R33)",
        ),
        (620_309, "the same"),
        (
            503_207,
            "a turn that woke the cluster wrote its term after another had put the pods to sleep",
        ),
    ] {
        let report = run(seed, false);
        assert_eq!(report.violation, None, "{what}: sim replay --seed {seed}");
    }
}

#[test]
fn without_a_rule_the_simulation_notices() {
    // Without R1 about two seeds in a hundred go wrong.
    for (rule, seeds) in [(Rule::R1, 0..300), (Rule::R2, 0..100), (Rule::R6, 0..100)] {
        let found = seeds.into_iter().any(|seed| {
            let config = config(seed).without(rule);
            run_with(seed, &config, false).violation.is_some()
        });
        assert!(found, "{rule} off, and nothing went wrong");
    }
}
