//! The explorer: exhausts small worlds, finds what a missing rule breaks, and always the same.

use mainstay_core::memgraph::Rule;
use sim::memgraph::explore::{Found, Options, explore};
use sim::memgraph::world::{State, Violation, transcript};
use sim::memgraph::worlds;

fn search(name: &str, without: Option<Rule>, max_states: u64, liveness: bool) -> Option<Found> {
    let entry = worlds::named(name)?;
    let config = match without {
        Some(rule) => entry.config.without(rule),
        None => entry.config,
    };
    let options = Options {
        max_states,
        liveness,
        progress: 0,
    };
    Some(explore(&config, options, |_, _| {}))
}

#[test]
fn worlds_have_names_of_their_own() {
    let mut names: Vec<_> = worlds::all().into_iter().map(|e| e.config.name).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(worlds::named("nowhere").is_none());
}

#[test]
fn a_world_without_faults_is_exhausted_clean_and_every_state_heals() {
    let found = search("K1", None, u64::MAX, true).unwrap();
    assert!(found.exhausted && found.violation.is_none());
    let heal = found.heal.unwrap();
    assert!(heal.whole > 0);
    assert_eq!((heal.stuck, heal.human), (0, 0));
}

#[test]
fn the_same_search_gives_the_same_numbers() {
    let (a, b) = (
        search("S3", None, 30_000, false).unwrap(),
        search("S3", None, 30_000, false).unwrap(),
    );
    assert_eq!(
        (a.states, a.transitions, a.depth),
        (b.states, b.transitions, b.depth)
    );
    assert!(!a.exhausted, "the bound on states is obeyed");
}

#[test]
fn without_the_fence_the_shortest_way_to_lose_a_write_is_found_and_told() {
    let found = search("F6", Some(Rule::R1), 200_000, false).unwrap();
    let (violation, trace) = found.violation.expect("R1 is needed");
    assert!(matches!(violation, Violation::Lost { .. }), "{violation}");
    assert_eq!(trace.len(), 9);
    let config = worlds::named("F6").unwrap().config.without(Rule::R1);
    let told = transcript(&config, &State::first(&config), &trace);
    assert!(told.contains("=> acknowledged write w0 is lost"), "{told}");
}

#[test]
fn without_r14_an_ordinary_crash_ends_in_states_that_wait_for_a_human() {
    // An ex-MAIN with one unacknowledged transaction is diverged; without the rule nobody may reset it.
    let mut config = worlds::named("L1").unwrap().config.without(Rule::R14);
    config.bounds.terms = 3;
    config.bounds.writes = 7;
    let options = Options {
        max_states: u64::MAX,
        liveness: true,
        progress: 0,
    };
    let heal = explore(&config, options, |_, _| {}).heal.unwrap();
    assert!(
        heal.stuck > 0 && heal.human > 0,
        "{} stuck, {} human",
        heal.stuck,
        heal.human
    );
}
