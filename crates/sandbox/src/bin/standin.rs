//! The stand-ins as a program of their own, for tests that start and kill processes.

use std::process::ExitCode;

fn main() -> ExitCode {
    sandbox::standin::command(std::env::args().skip(1))
}
