//! What decides whether a change is good, as code.
//!
//! `cargo xtask test` is the whole of it; `cargo xtask mutants` asks the
//! harder question whether the tests would notice a wrong protocol.

mod bench;
mod beside;
mod charts;
mod checks;
mod conformance;
mod drills;
mod drivers;
mod e2e;
mod fuzz;
mod helm;
mod image;
mod kube;
mod lanes;
mod mutants;
mod packages;
mod said;
mod several;
mod stages;
mod summary;
mod tools;
mod watch;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Tasks of the Mainstay workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run every stage that decides whether a change is good; stop at the first failure
    Test(stages::TestArgs),
    /// Break the protocol code on purpose, one small change at a time, and count what the tests notice
    Mutants(mutants::MutantsArgs),
    /// A real Kubernetes control plane on this machine
    #[command(subcommand)]
    Kube(kube::KubeTask),
    /// Assert against a cluster what Mainstay relies on of Kubernetes
    Conformance(kube::ConformanceArgs),
    /// Lint and render the charts, compare with what is committed, and try values that must be refused
    Charts(charts::ChartArgs),
    /// An OCI image of the program, without a daemon, and what is in it
    Image(image::ImageArgs),
    /// Install image and charts on a real Kubernetes with nodes, break things while clients write, and count
    E2e(e2e::E2eArgs),
    /// Measure what has a limit
    #[command(subcommand)]
    Bench(bench::BenchTask),
    /// Feed garbage to every parser of what strangers send, and see that nothing crashes, hangs or grows
    Fuzz(fuzz::FuzzArgs),
    /// Break a cluster in every way under load, with the drivers of applications, and count what is lost
    Drills(drills::DrillArgs),
    /// Ask the stand-in, or a real server, for everything that the operator relies on
    MemgraphConformance(conformance::ConformanceArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<Verdict> {
    let workspace = Workspace::locate()?;
    match cli.task {
        Task::Test(args) => stages::test(&workspace, &args),
        Task::Mutants(args) => mutants::mutants(&workspace, &args),
        Task::Kube(task) => kube::kube(&workspace, &task),
        Task::Conformance(args) => kube::conformance(&workspace, &args),
        Task::Charts(args) => charts::charts(&workspace, &args),
        Task::Image(args) => image::image(&workspace, &args),
        Task::E2e(args) => e2e::e2e(&workspace, &args),
        Task::Bench(task) => bench::bench(&workspace, &task),
        Task::Fuzz(args) => fuzz::fuzz(&workspace, &args),
        Task::Drills(args) => drills::drills(&workspace, &args),
        Task::MemgraphConformance(args) => conformance::conformance(&workspace, &args),
    }
}

/// The task ran to its end; this is what it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    Bad,
}
