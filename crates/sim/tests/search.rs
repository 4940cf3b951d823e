//! The explorer: exhausts small worlds, finds what a missing rule breaks, and always the same.

use mainstay_core::memgraph::Rule;
use sim::memgraph::explore::{Found, Options, explore};
use sim::memgraph::world::{Action, State, Violation, transcript};
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

#[test]
fn a_look_that_takes_time_registers_nobody_who_died_meanwhile() {
    let found = search("K3", None, u64::MAX, false).unwrap();
    assert!(found.exhausted && found.violation.is_none());
    let (violation, _) = search("K3", Some(Rule::R28), u64::MAX, false)
        .unwrap()
        .violation
        .expect("R28 is needed");
    assert!(matches!(violation, Violation::RegisterDead { .. }), "{violation}");
}

#[test]
fn without_r30_a_replica_that_hangs_is_never_replaced() {
    let heal = search("G1", Some(Rule::R30), u64::MAX, true)
        .unwrap()
        .heal
        .unwrap();
    assert!(heal.stuck > 0 && heal.human == 0, "{} stuck", heal.stuck);
}

#[test]
fn a_mark_that_a_client_deleted_is_written_again() {
    let config = worlds::named("U1").unwrap().config;
    let mut state = State::first(&config);
    let marks = |s: &State| -> Vec<_> { s.pods.iter().map(|p| p.db.store().mark).collect() };
    let before = marks(&state);
    assert!(state.enabled(&config).contains(&Action::Unmark(0)));
    state.apply(&config, Action::Unmark(0), false);
    assert_eq!(
        marks(&state),
        [None, None],
        "the deletion is replicated like any write"
    );
    assert!(
        !state.enabled(&config).contains(&Action::Unmark(0)),
        "the budget is spent"
    );
    for _ in 0..20 {
        if let Some(action) = state.next_fair(&config) {
            state.apply(&config, action, false);
        }
    }
    assert_eq!(marks(&state), before);
}
