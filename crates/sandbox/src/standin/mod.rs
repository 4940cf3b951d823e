//! Stand-ins for the databases: real servers around the models of `sim`.

pub mod memgraph;
pub mod ring;

use std::process::ExitCode;

/// Runs the stand-in that the first argument names, with the command line of
/// the real server after it.
pub fn command(args: impl IntoIterator<Item = String>) -> ExitCode {
    let mut args = args.into_iter();
    match args.next().as_deref() {
        Some("memgraph") => memgraph::run(args),
        Some("ring") => ring::run(args),
        Some(other) => {
            eprintln!("standin: there is no stand-in for `{other}`; known: memgraph, ring");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("standin: which one? Known: memgraph, ring");
            ExitCode::FAILURE
        }
    }
}
