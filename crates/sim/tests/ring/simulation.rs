//! The simulation: the same seed gives the same trace, a bounded number of seeds is clean, and it can fail.

use sim::ring::simulate::{config, run};
use std::collections::BTreeSet;

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    for seed in [3, 4, 77] {
        let (first, second) = (run(seed, true), run(seed, true));
        assert!(first.trace.len() > 2_000, "seed {seed} hardly did anything");
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_ne!(first.trace, run(seed + 100, true).trace);
    }
}

#[test]
fn tracing_does_not_change_what_happens() {
    let (traced, silent) = (run(5, true), run(5, false));
    assert_eq!(
        (traced.simulated, traced.faults, traced.grants, traced.rows),
        (silent.simulated, silent.faults, silent.grants, silent.rows)
    );
    assert!(silent.trace.is_empty());
}

#[test]
fn random_faults_replace_no_living_node_and_the_ring_heals_or_asks_for_a_human() {
    let (mut replaced, mut healed, mut profiles) = (0, 0, BTreeSet::new());
    for seed in 0..300 {
        let report = run(seed, false);
        assert_eq!(report.violation, None, "sim replay --world ring --seed {seed}");
        replaced += report.replaced;
        healed += u32::from(report.human.is_none());
        profiles.insert(config(seed).profile);
    }
    assert_eq!(profiles.len(), 5);
    assert!(
        replaced > 50,
        "only {replaced} nodes took a place: nothing was put to the test"
    );
    assert!(healed > 100, "only {healed} rings healed by themselves");
}
