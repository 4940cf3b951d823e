//! A search that takes states for one which differ only in how large their numbers are finds what one finds that
//! does not: the same verdict, by traces of the same length, and fewer states.

use mainstay_core::memgraph::Rule;
use sim::memgraph::explore::{Found, Options, explore};
use sim::memgraph::world::{Config, State};
use sim::memgraph::worlds;

fn search(config: &Config, max_states: u64, liveness: bool) -> Found {
    let options = Options {
        max_states,
        liveness,
        progress: 0,
    };
    explore(config, options, |_, _| {})
}

/// The same search without renumbering, and with it.
fn both(config: &Config, max_states: u64, liveness: bool) -> [Found; 2] {
    [false, true].map(|renumber| {
        let config = Config {
            renumber,
            ..config.clone()
        };
        search(&config, max_states, liveness)
    })
}

/// Plays a trace with the numbers as they are: does it end in this?
fn replays(config: &Config, found: &Found) -> bool {
    let Some((violation, trace)) = &found.violation else {
        return true;
    };
    let config = Config {
        renumber: false,
        sort_operators: false,
        ..config.clone()
    };
    let mut state = State::first(&config);
    let mut last = None;
    for action in trace {
        assert_eq!(last, None, "only the last step may go wrong");
        last = state.apply(&config, *action, false).violation;
        state.canonical(&config);
    }
    last.as_ref() == Some(violation)
}

/// Worlds with a rule off in which something goes wrong soon, and how long the shortest way to it is.
const WRONG: &[(&str, Rule, usize)] = &[
    ("F6", Rule::R1, 9),
    ("F5", Rule::R2, 12),
    ("F5", Rule::R5, 13),
    ("X1", Rule::R12, 12),
    ("S1b", Rule::R25, 15),
    ("K3", Rule::R28, 7),
    ("K1", Rule::R33, 15),
    ("S3", Rule::R34, 37),
];

#[test]
fn without_a_rule_the_same_is_found_by_traces_of_the_same_length() {
    for (name, rule, length) in WRONG {
        let config = worlds::named(name).unwrap().config.without(*rule);
        let [plain, renumbered] = both(&config, 250_000, false);
        for found in [&plain, &renumbered] {
            let trace = found.violation.as_ref().map(|(_, trace)| trace.len());
            assert_eq!(trace, Some(*length), "{name} {rule}");
            assert!(replays(&config, found), "{name} {rule}");
        }
    }
}

#[test]
fn a_world_that_is_searched_to_its_end_gets_the_same_verdict_with_fewer_states() {
    for (name, liveness) in [("K1", true), ("K2", false), ("K3", false)] {
        let config = worlds::named(name).unwrap().config;
        let [plain, renumbered] = both(&config, u64::MAX, liveness);
        assert!(plain.exhausted && renumbered.exhausted, "{name}");
        assert!(
            plain.violation.is_none() && renumbered.violation.is_none(),
            "{name}"
        );
        assert!(renumbered.states <= plain.states, "{name}");
        let stuck = |f: &Found| f.heal.as_ref().map(|h| (h.stuck > 0, h.stuck > h.human));
        assert_eq!(stuck(&plain), stuck(&renumbered), "{name}");
    }
}

#[test]
fn what_cannot_heal_is_found_in_both() {
    for rule in [Rule::R14, Rule::R30, Rule::R34, Rule::R25] {
        let name = if rule == Rule::R30 { "G1" } else { "L1" };
        let mut config = worlds::named(name).unwrap().config.without(rule);
        config.bounds.terms = 3;
        config.bounds.writes = 7;
        let [plain, renumbered] = both(&config, u64::MAX, true).map(|f| {
            let heal = f.heal.unwrap_or_default();
            (
                heal.stuck > 0,
                heal.stuck > heal.human,
                f.violation.map(|(_, t)| t.len()),
            )
        });
        assert_eq!(plain, renumbered, "{name} {rule}");
    }
}
