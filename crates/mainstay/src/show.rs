//! `mainstay show`: a simulated cluster.

use sim::memgraph::show::{Line, play};
use std::process::ExitCode;

/// Plays it.
pub(crate) fn command(brief: bool) -> ExitCode {
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
