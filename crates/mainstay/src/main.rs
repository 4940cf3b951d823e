//! Mainstay keeps stateful databases standing on Kubernetes.

use clap::{Parser, Subcommand};
use sim::memgraph::show::{Line, play};
use std::process::ExitCode;

/// Keeps stateful databases standing on Kubernetes.
#[derive(Parser)]
#[command(name = "mainstay", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Play a simulated Memgraph cluster: it starts, loses its MAIN, recovers, and says why it did what.
    ///
    /// The decisions are the real ones; databases, Kubernetes and network are models inside this process.
    Sandbox {
        /// Only the story, without reasons and steps.
        #[arg(long)]
        brief: bool,
    },
}

fn main() -> ExitCode {
    let Command::Sandbox { brief } = Arguments::parse().command;
    println!(
        "A simulated cluster: Mainstay's own decisions, on models of Memgraph, Kubernetes and the network."
    );
    println!("Nothing outside this process is started or touched.");
    let well = play(|line| tell(&line, brief));
    if well {
        println!(
            "\nNext: `cargo run --release -p sim -- explore --list`, `… -p sim -- run --seeds 1000`, docs/protocol.md"
        );
        ExitCode::SUCCESS
    } else {
        eprintln!("mainstay: the simulated cluster did not come back as it should; this is a bug");
        ExitCode::FAILURE
    }
}

fn tell(line: &Line, brief: bool) {
    match line {
        Line::Chapter(text) => println!("\n== {text}"),
        Line::Event(text) if !brief => println!("   {text}"),
        Line::Detail(text) if !brief => println!("       {text}"),
        Line::State(text) => println!("   {text}"),
        Line::Event(_) | Line::Detail(_) => {}
    }
}
