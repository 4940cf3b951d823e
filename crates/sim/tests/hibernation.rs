//! The simulation of hibernation: the same seed gives the same trace, and a bounded number of seeds is clean.

use sim::hibernation::{run, run_with};

#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    for seed in [3, 77] {
        let (first, second) = (run(seed, true), run(seed, true));
        assert!(first.trace.len() > 10_000, "seed {seed} hardly did anything");
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_ne!(first.trace, run(seed + 100, true).trace);
        let silent = run(seed, false);
        assert_eq!((silent.moves, silent.cycles), (first.moves, first.cycles));
        assert!(silent.trace.is_empty());
    }
}

#[test]
fn whatever_fails_in_between_everything_is_back_as_recorded() {
    let (mut cycles, mut faults) = (0, 0);
    for seed in 0..150 {
        let report = run(seed, false);
        assert_eq!(
            report.violation, None,
            "sim replay --world hibernation --seed {seed}"
        );
        cycles += report.cycles;
        faults += report.faults;
    }
    assert!(
        cycles > 200 && faults > 3_000,
        "{cycles} cycles, {faults} faults: hardly a test"
    );
}

/// Each was a violation once, by the rules of its day.
#[test]
fn what_was_found_once_is_not_found_again() {
    for seed in [3_688, 5_849, 25_524, 26_192, 34_571, 38_358] {
        let violation = run(seed, false).violation;
        assert_eq!(violation, None, "sim replay --world hibernation --seed {seed}");
    }
}

#[test]
fn nothing_interferes_and_every_night_is_one_cycle() {
    for seed in 0..20 {
        let report = run_with(seed, false, 0);
        assert_eq!(report.violation, None, "seed {seed}");
        assert!(report.cycles >= 2, "seed {seed}: {} cycles", report.cycles);
    }
}
