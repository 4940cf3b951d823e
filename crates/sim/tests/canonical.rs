//! The form in which a search knows a state.

use sim::memgraph::frontier::Frontier;
use sim::memgraph::world::{Config, State};
use sim::memgraph::worlds;
use std::collections::{BTreeSet, VecDeque};

/// Visits states of a world, breadth first, in the form that a search gives them.
fn walk(config: &Config, many: usize, mut visit: impl FnMut(&State)) {
    let mut first = State::first(config);
    first.canonical(config);
    let mut seen = BTreeSet::from([first.fingerprint()]);
    let mut queue = VecDeque::from([first]);
    while let Some(state) = queue.pop_front().filter(|_| seen.len() < many) {
        for action in state.enabled(config) {
            let mut next = state.clone();
            if next.apply(config, action, false).idle {
                continue;
            }
            next.canonical(config);
            visit(&next);
            if seen.insert(next.fingerprint()) && !next.is_beyond(config) {
                queue.push_back(next);
            }
        }
    }
}

const WORLDS: &[&str] = &[
    "L1", "S3", "S4", "F2", "B2", "C1", "H1", "D1", "O1", "G1", "U1", "F1",
];

#[test]
fn the_canonical_form_of_a_canonical_state_is_the_state_itself() {
    for name in WORLDS {
        let config = worlds::named(name).unwrap().config;
        walk(&config, 8_000, |state| {
            let mut again = state.clone();
            for pod in &mut again.pods {
                // Whatever is remembered of a pod is forgotten when somebody may have changed it.
                let _ = &mut **pod;
            }
            again.canonical(&config);
            assert_eq!(&again, state, "{name}");
            assert_eq!(again.fingerprint(), state.fingerprint(), "{name}");
        });
    }
}

#[test]
fn a_state_that_waited_is_the_same_afterwards() {
    for name in WORLDS {
        let config = worlds::named(name).unwrap().config;
        let (mut frontier, mut pushed) = (Frontier::default(), VecDeque::new());
        walk(&config, 4_000, |state| {
            frontier.push(7, 3, state.clone());
            pushed.push_back(state.clone());
        });
        assert_eq!(frontier.len(), pushed.len());
        while let Some((id, depth, state)) = frontier.pop() {
            let before = pushed.pop_front().unwrap();
            assert_eq!((id, depth), (7, 3));
            assert_eq!(state, before, "{name}");
            assert_eq!(state.fingerprint(), before.fingerprint(), "{name}");
        }
        assert!(pushed.is_empty() && frontier.is_empty());
    }
}
