//! Searches and simulates worlds, replays seeds, runs scenarios.

mod command;

use clap::{Parser, Subcommand, ValueEnum};
use command::{explore, run, scenario};
use mainstay_core::memgraph::Rule;
use std::path::PathBuf;
use std::process::ExitCode;

/// Drives Mainstay's decisions against models of the databases they are about.
#[derive(Parser)]
#[command(name = "sim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// Which promise is put to the test.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum World {
    /// A Memgraph cluster: MAIN, SYNC, ASYNC, gateways, operators.
    Memgraph,
}

#[derive(Subcommand)]
enum Command {
    /// Try every interleaving of small worlds; exit code 1 and the shortest trace on a violation.
    Explore {
        /// Which promise.
        #[arg(long, value_enum, default_value_t = World::Memgraph)]
        world: World,
        /// Only the worlds of these names; all of them without it.
        #[arg(long)]
        only: Vec<String>,
        /// Switch a rule off, to see what notices.
        #[arg(long)]
        without: Vec<Rule>,
        /// Stop a world after this many states.
        #[arg(long, default_value_t = 200_000_000)]
        max_states: u64,
        /// Stop beginning new worlds after this many states in all.
        #[arg(long)]
        total_states: Option<u64>,
        /// One JSON object per world.
        #[arg(long)]
        json: bool,
        /// List the worlds and what they are made of.
        #[arg(long)]
        list: bool,
        /// Write the trace of a violation as a scenario file.
        #[arg(long)]
        save: Option<PathBuf>,
    },
    /// Simulate random large worlds; exit code 1 and the seed on a violation.
    Run {
        /// Which promise.
        #[arg(long, value_enum, default_value_t = World::Memgraph)]
        world: World,
        /// How many seeds.
        #[arg(long, default_value_t = 100)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// How many at once.
        #[arg(long, default_value_t = 1)]
        jobs: u64,
        /// Switch a rule off, to see what notices.
        #[arg(long)]
        without: Vec<Rule>,
        /// One JSON object at the end.
        #[arg(long)]
        json: bool,
    },
    /// Simulate one seed and print everything that happens.
    Replay {
        /// Which promise.
        #[arg(long, value_enum, default_value_t = World::Memgraph)]
        world: World,
        /// The seed.
        #[arg(long)]
        seed: u64,
        /// Switch a rule off, to see what notices.
        #[arg(long)]
        without: Vec<Rule>,
    },
    /// Run scenario files and print their transcripts.
    Scenario {
        /// The files.
        files: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    let clean = match Arguments::parse().command {
        Command::Explore {
            world: World::Memgraph,
            only,
            without,
            max_states,
            total_states,
            json,
            list,
            save,
        } => {
            if list {
                explore::list();
                Ok(true)
            } else {
                explore::run(&explore::Request {
                    only,
                    without,
                    max_states,
                    total_states,
                    json,
                    save,
                })
            }
        }
        Command::Run {
            world: World::Memgraph,
            seeds,
            seed,
            jobs,
            without,
            json,
        } => Ok(run::run(&run::Request {
            seeds,
            first: seed,
            jobs,
            without,
            json,
        })),
        Command::Replay {
            world: World::Memgraph,
            seed,
            without,
        } => Ok(run::replay(seed, &without)),
        Command::Scenario { files } => scenario::run(&files),
    };
    match clean {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sim: {error:#}");
            ExitCode::from(2)
        }
    }
}
