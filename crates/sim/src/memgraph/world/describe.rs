//! A world as a person reads it.

use super::action::Action;
use super::config::Config;
use super::observe::{pod_letter, short};
use super::state::State;
use std::fmt::Write as _;

/// One line about a state.
pub fn describe(state: &State) -> String {
    let mut line = String::new();
    match &state.record {
        Some(record) => {
            let _ = write!(line, "[{}]", record.headline());
        }
        None => line.push_str("[no record]"),
    }
    for (pod, n) in state.pods.iter().zip(0_u8..) {
        let letter = pod_letter(n);
        if !pod.alive {
            let _ = write!(line, " {letter}:down");
            continue;
        }
        let store = pod.db.store();
        let mark = store.mark.map_or_else(|| "-".to_owned(), |t| t.0.to_string());
        let _ = write!(
            line,
            " {}:{:?} mark={mark} w={}",
            short(pod.process(n)),
            pod.db.role(),
            store.writes.len()
        );
        if pod.hung {
            line.push_str(" hangs");
        }
        for r in pod.db.registrations() {
            let zombie = if r.is_attached() { "" } else { " zombie" };
            let _ = write!(
                line,
                " {{{} {:?}{zombie}}}",
                super::state::core_name(r.name()),
                r.status()
            );
        }
        if let Some(stage) = pod.db.stage() {
            let _ = write!(line, " <{stage:?}>");
        }
    }
    line
}

/// A run as text: each action, what it did, and the state after it.
pub fn transcript(config: &Config, first: &State, actions: &[Action]) -> String {
    // Operators have kept their numbers in the trace that is told, and a reader wants terms that only grow.
    let config = &Config {
        sort_operators: false,
        renumber: false,
        ..config.clone()
    };
    let mut state = first.clone();
    let mut text = format!("      {}\n", describe(&state));
    for (n, action) in actions.iter().enumerate() {
        let effect = state.apply(config, *action, true);
        let _ = writeln!(text, "{:>4}  {action}", n + 1);
        for note in effect.notes {
            let _ = writeln!(text, "        {note}");
        }
        let _ = writeln!(text, "      {}", describe(&state));
        if let Some(violation) = effect.violation {
            let _ = writeln!(text, "   => {violation}");
        }
        state.canonical(config);
    }
    text
}
