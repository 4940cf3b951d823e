//! Mainstay keeps stateful databases standing on Kubernetes.

mod gateway;
mod operator;

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
        /// Only what happened and where it ended, without reasons and steps.
        #[arg(long)]
        brief: bool,
    },
    /// Run a gateway: clients connect to it, and it forwards to the MAIN of one Memgraph cluster.
    ///
    /// It forwards only to the MAIN that the cluster's record names, after the connection itself showed that it is
    /// MAIN in that term. When there is none, new connections are held for a while. docs/gateway.md says more.
    Gateway(Box<gateway::Arguments>),
    /// Run an operator: it keeps every MemgraphCluster of its namespaces serving and protected.
    ///
    /// Several may run; one of them leads. docs/operator.md says more.
    Operator(Box<operator::Arguments>),
    /// Print the definition of the kind MemgraphCluster, for `kubectl apply -f -`.
    Crd,
    /// Run a stand-in for a database, with the command line of the real server.
    ///
    /// `mainstay standin memgraph --data-directory=DIR --bolt-port=7687 --profile=3.12 --admin-port=9999`;
    /// docs/stand-ins.md says what it can do.
    #[command(disable_help_flag = true)]
    Standin {
        /// Which one, and its flags.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Sandbox { brief } => sandbox(brief),
        Command::Gateway(arguments) => gateway::command(*arguments),
        Command::Operator(arguments) => operator::command(*arguments),
        Command::Crd => definition(),
        Command::Standin { args } => sandbox::standin::command(args),
    }
}

fn definition() -> ExitCode {
    match api::definition() {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("mainstay crd: {error}");
            ExitCode::FAILURE
        }
    }
}

fn sandbox(brief: bool) -> ExitCode {
    println!(
        "A simulated cluster: Mainstay's own decisions, on models of Memgraph, Kubernetes and the network."
    );
    println!("Nothing outside this process is started or touched.");
    let mut teller = Teller { brief, last: None };
    let well = play(|line| teller.tell(line));
    if well {
        println!(
            "\nNext: cargo run --release -p sim -- explore --list   (every interleaving of small worlds)"
        );
        println!("      cargo run --release -p sim -- run --seeds 1000   (random large ones)");
        println!("      docs/protocol.md                                 (the rules behind the reasons)");
        ExitCode::SUCCESS
    } else {
        eprintln!("mainstay: the simulated cluster did not come back as it should; this is a bug");
        ExitCode::FAILURE
    }
}

/// Prints the show; in brief only the chapters, each with the state it ends in.
struct Teller {
    brief: bool,
    last: Option<String>,
}

impl Teller {
    fn tell(&mut self, line: Line) {
        match line {
            Line::Chapter(text) => {
                if let Some(state) = self.last.take() {
                    println!("   {state}");
                }
                println!("\n== {text}");
            }
            Line::State(text) if self.brief => self.last = Some(text),
            Line::Event(text) if !self.brief => println!("   {text}"),
            Line::Detail(text) if !self.brief => println!("       {text}"),
            Line::State(text) => println!("   {text}"),
            Line::Event(_) | Line::Detail(_) => {}
        }
    }
}
