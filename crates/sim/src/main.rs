//! Searches and simulates worlds.

use sim::memgraph::explore::{Options, explore};
use sim::memgraph::world::{Budget, Config, State, describe, transcript};

fn main() {
    let config = Config {
        operators: 1,
        budget: Budget { crashes: 1, ..Budget::default() },
        ..Config::small("try")
    };
    let first = State::first(&config);
    println!("{}", describe(&first));
    let found = explore(&config, Options { liveness: true, progress: 100_000, ..Options::default() }, |f, q| {
        eprintln!("{} states, queue {q}, depth {}", f.states, f.depth);
    });
    println!("{} states {} transitions depth {} exhausted {} beyond {}", found.states, found.transitions, found.depth, found.exhausted, found.beyond);
    if let Some((v, trace)) = &found.violation {
        println!("{v}\n{}", transcript(&config, &first, trace));
    }
    if let Some(h) = &found.heal {
        println!("whole {} stuck {} human {}", h.whole, h.stuck, h.human);
        if let Some(t) = &h.example {
            println!("{}", transcript(&config, &first, t));
        }
    }
}
