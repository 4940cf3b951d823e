//! Searches and simulates worlds.

use clap::{Parser, Subcommand};
use mainstay_core::memgraph::Rule;
use sim::memgraph::explore::{Options, explore};
use sim::memgraph::world::{State, transcript};
use sim::memgraph::worlds;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Parser)]
#[command(about = "Searches and simulates worlds")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Try every interleaving of small worlds.
    Explore {
        #[arg(long)]
        only: Vec<String>,
        #[arg(long)]
        without: Vec<Rule>,
        #[arg(long, default_value_t = 60_000_000)]
        max_states: u64,
        #[arg(long)]
        liveness: bool,
    },
}

fn main() -> ExitCode {
    let Command::Explore { only, without, max_states, liveness } = Arguments::parse().command;
    let mut bad = false;
    for mut entry in worlds::all() {
        if !only.is_empty() && !only.contains(&entry.config.name) {
            continue;
        }
        for rule in &without {
            entry.config = entry.config.without(*rule);
        }
        #[allow(clippy::disallowed_methods)]
        let began = Instant::now();
        let options = Options { max_states, liveness: entry.liveness || liveness, progress: 0 };
        let found = explore(&entry.config, options, |_, _| {});
        println!(
            "{:4} {:>9} states {:>10} transitions depth {:>3} {} {:.1}s",
            entry.config.name, found.states, found.transitions, found.depth,
            if found.exhausted { "exhausted" } else { "NOT exhausted" }, began.elapsed().as_secs_f64()
        );
        if let Some((v, trace)) = &found.violation {
            bad = true;
            println!("{v}, {} steps\n{}", trace.len(), transcript(&entry.config, &State::first(&entry.config), trace));
        }
        if let Some(h) = &found.heal {
            println!("     whole {} stuck {} human {}", h.whole, h.stuck, h.human);
            if let Some(t) = &h.example {
                bad = true;
                println!("{}", transcript(&entry.config, &State::first(&entry.config), t));
            }
        }
    }
    if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
