//! `cargo xtask memgraph-conformance`: one list, asked of the stand-in or of a real server.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::Verdict;
use crate::workspace::{Workspace, display, stream};

/// Whom to ask.
#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// A real `memgraph` program; the stand-in if not given
    #[arg(long, value_name = "PATH", requires = "profile")]
    binary: Option<PathBuf>,
    /// Only this release: 3.6, 3.9, 3.12 or next
    #[arg(long)]
    profile: Option<String>,
    /// Only items whose text contains this
    #[arg(long)]
    only: Option<String>,
}

/// Prints the table; different answers are a failure.
pub(crate) fn conformance(workspace: &Workspace, args: &ConformanceArgs) -> Result<Verdict> {
    let ConformanceArgs {
        binary,
        profile,
        only,
    } = args;
    let mut options: Vec<String> = Vec::new();
    let values = [
        ("--binary", binary.as_ref().map(|path| path.display().to_string())),
        ("--profile", profile.clone()),
        ("--only", only.clone()),
    ];
    for (name, value) in values {
        if let Some(value) = value {
            options.extend([name.to_owned(), value]);
        }
    }
    run(workspace, &options)?;
    Ok(Verdict::Good)
}

/// The stage: every item, every release that the stand-in imitates.
pub(crate) fn stand_in(workspace: &Workspace) -> Result<()> {
    run(workspace, &[])
}

fn run(workspace: &Workspace, options: &[String]) -> Result<()> {
    // The list starts the stand-in as a process of its own, so both are needed.
    let mut build = workspace.cargo();
    // As the tests are built, so that it is done once.
    build.args([
        "build",
        "--locked",
        "--workspace",
        "--all-features",
        "--profile",
        "test",
        "--bin",
        "memgraph-conformance",
        "--bin",
        "standin",
    ]);
    println!("$ {}", display(&build));
    stream(&mut build)?;
    let mut list = workspace.command(workspace.target().join("debug/memgraph-conformance"));
    list.args(options);
    println!("$ {}", display(&list));
    stream(&mut list)
}
