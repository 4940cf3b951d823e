//! Searches and simulates worlds, replays seeds, runs scenarios.

mod command;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
use command::{explore, hibernation, ring, run, scenario};
use mainstay_core::memgraph::Rule;
use std::io::{ErrorKind, Write, stdout};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum World {
    /// A Memgraph cluster: MAIN, SYNC, ASYNC, gateways, operators.
    Memgraph,
    /// A hibernation plan: restore points, resources, operators, people.
    Hibernation,
    /// A ring of Scylla or Cassandra nodes: disks, pods with their gates, operators.
    Ring,
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
        #[arg(long, default_value_t = 200_000_000, value_parser = clap::value_parser!(u64).range(1..))]
        max_states: u64,
        /// A world that is not searched to its end is a failure, too: exit code 1.
        #[arg(long, visible_alias = "must-finish")]
        require_exhausted: bool,
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
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// How many at once.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
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
        /// One JSON object, with the trace as an array of lines.
        #[arg(long)]
        json: bool,
    },
    /// Run scenario files and print their transcripts.
    Scenario {
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Which promise; scenarios are written for Memgraph.
        #[arg(long, value_enum, default_value_t = World::Memgraph)]
        world: World,
        /// One JSON object for each file, with the transcript as an array of lines.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let mut out = std::io::LineWriter::new(stdout().lock());
    let clean = obey(Arguments::parse().command, &mut out);
    match clean {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever reads has read enough (`| head`).
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sim: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
}

/// `true` if everything is as it should be.
fn obey(command: Command, out: &mut impl Write) -> anyhow::Result<bool> {
    match command {
        Command::Explore {
            world: World::Memgraph,
            only,
            without,
            max_states,
            require_exhausted,
            total_states,
            json,
            list,
            save,
        } => {
            if list {
                explore::list(out)?;
                return Ok(true);
            }
            let request = explore::Request {
                only,
                without,
                max_states,
                require_exhausted,
                total_states,
                json,
                save,
            };
            explore::run(&request, out)
        }
        Command::Explore {
            world: World::Hibernation,
            ..
        } => anyhow::bail!(
            "the world of hibernation is simulated, not searched: `sim run --world hibernation`"
        ),
        Command::Explore {
            world: World::Ring, ..
        } => anyhow::bail!("the ring is simulated, not searched: `sim run --world ring`"),
        Command::Run {
            world,
            seeds,
            seed,
            jobs,
            without,
            json,
        } => {
            let end = seed
                .checked_add(seeds)
                .context("there is no such seed: --seed plus --seeds is too large")?;
            let seeds = seed..end;
            match world {
                World::Memgraph => {
                    let request = run::Request {
                        seeds,
                        jobs,
                        without,
                        json,
                    };
                    run::run(&request, out)
                }
                World::Hibernation => {
                    no_switches(&without)?;
                    hibernation::run(&seeds, jobs, json, out)
                }
                World::Ring => {
                    no_switches(&without)?;
                    ring::run(&seeds, jobs, json, out)
                }
            }
        }
        Command::Replay {
            world,
            seed,
            without,
            json,
        } => match world {
            World::Memgraph => run::replay(seed, &without, json, out),
            World::Hibernation => {
                no_switches(&without)?;
                hibernation::replay(seed, json, out)
            }
            World::Ring => {
                no_switches(&without)?;
                ring::replay(seed, json, out)
            }
        },
        Command::Scenario { files, world, json } => {
            anyhow::ensure!(
                world == World::Memgraph,
                "scenarios are written in the world of Memgraph; replay a seed with `sim replay`"
            );
            scenario::run(&files, json, out)
        }
    }
}

fn no_switches(without: &[Rule]) -> anyhow::Result<()> {
    anyhow::ensure!(
        without.is_empty(),
        "rules can only be switched off in the world of Memgraph"
    );
    Ok(())
}
