//! What the gateway costs, beside HAProxy and nginx.
//!
//! One process is database and clients, pinned to one core by `cargo xtask bench gateway`; each proxy is a process of
//! its own with one worker, pinned to another. All of them carry the same Bolt traffic, one after the other in each
//! round. What counts is the CPU time and the memory of the proxy's process, and for the switch the clock on the wall.

mod contest;
mod database;
mod load;
mod proxy;
mod record;
mod report;
mod rounds;
mod sample;
mod switch;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::runtime::Builder;

/// What the gateway costs, beside HAProxy and nginx.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure everything.
    Run(Run),
    /// Be the gateway that is measured.
    Proxy(Proxy),
}

/// How much is measured.
#[derive(Args, Clone, Debug)]
pub(crate) struct Run {
    /// Rounds; in each every proxy has its turn.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The core that proxies are pinned to; none: wherever there is room.
    #[arg(long)]
    proxy_core: Option<usize>,
    /// Requests of each of 64 connections.
    #[arg(long, default_value_t = 500)]
    requests: usize,
    /// Connections that log in and leave.
    #[arg(long, default_value_t = 3_000)]
    connections: usize,
    /// MiB in bulk, over 4 connections.
    #[arg(long, default_value_t = 1_024)]
    mebibytes: usize,
    /// Connections that are idle.
    #[arg(long, default_value_t = 4_000)]
    idle: usize,
    /// Switches to another MAIN.
    #[arg(long, default_value_t = 1_000)]
    switches: usize,
    /// Only these proxies.
    #[arg(long, value_delimiter = ',')]
    only: Vec<contest::Kind>,
    /// Where the figures go as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// How the measured gateway runs.
#[derive(Args)]
pub(crate) struct Proxy {
    /// Where clients connect.
    #[arg(long)]
    listen: SocketAddr,
    /// Where records are pushed to.
    #[arg(long)]
    admin: SocketAddr,
    /// Where the databases are.
    #[arg(long, value_delimiter = ',')]
    databases: Vec<SocketAddr>,
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Proxy(arguments) => {
            many_files()?;
            proxy::run(arguments)
        }
        Task::Run(arguments) => {
            many_files()?;
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(rounds::run(&arguments))
        }
    }
}

/// Every connection here is two files in each of two processes.
fn many_files() -> Result<()> {
    let Rlimit { current: _, maximum } = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, all).context("cannot raise the limit of open files")
}
