//! Stand-ins for the databases: real servers around the models of `sim`.

pub mod memgraph;

use std::process::ExitCode;

/// Runs the stand-in that the first argument names, with the command line of
/// the real server after it.
pub fn command(args: impl IntoIterator<Item = String>) -> ExitCode {
    let mut args = args.into_iter();
    match args.next().as_deref() {
        Some("memgraph") => memgraph::run(args),
        Some(other) => {
            eprintln!("standin: there is no stand-in for `{other}`; known: memgraph");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("standin: which one? Known: memgraph");
            ExitCode::FAILURE
        }
    }
}
