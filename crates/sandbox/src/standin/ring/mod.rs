//! A stand-in for ScyllaDB: its REST interface on one port, gossip between stand-ins on another, its identity in a data
//! folder, faults on an admin port.
//!
//! What it does is decided by [`sim::ring::model`], the model that the simulation uses too. A process holds one node of
//! it; the others are places of the same model that hold what they last told. `docs/stand-ins.md` says how to run it and
//! where it differs from a real server.
//!
//! | file | concern |
//! |---|---|
//! | `config` | command line and file, spelt as the version obeys them |
//! | `folder` | what is kept, and how it is read while nothing runs |
//! | `wire` | what stand-ins tell each other |
//! | `node` | the node, and the others as it knows them |
//! | `rest`, `admin` | what is answered, and what can be broken |
//! | `server` | sockets, clock, signals |

mod admin;
mod config;
mod folder;
mod node;
mod rest;
mod server;
mod wire;

pub use config::{Config, ConfigError};
pub use server::{Server, StartError};
pub use sim::ring::model::Profile;

use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Runs a stand-in until SIGTERM or SIGINT, with the command line of the real server. `sstable query` prints what is in
/// a data folder, as the real program does.
pub fn run(args: impl IntoIterator<Item = String>) -> ExitCode {
    let args: Vec<String> = args.into_iter().collect();
    if args.first().map(String::as_str) == Some("sstable") {
        return folder::query(&args);
    }
    let conf = std::env::var("SCYLLA_CONF").ok();
    let config = match Config::read(args, conf.as_deref(), |path| std::fs::read_to_string(path)) {
        Ok((config, warnings)) => {
            for warning in warnings {
                eprintln!("WARN init - {warning}");
            }
            config
        }
        Err(error) => {
            eprintln!("ERROR init - {error}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(until_told(config)),
        Err(error) => {
            eprintln!("standin: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn until_told(config: Config) -> ExitCode {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return ExitCode::FAILURE;
    };
    let started = tokio::select! {
        started = Server::start(config) => started,
        _ = terminate.recv() => return ExitCode::SUCCESS,
        _ = interrupt.recv() => return ExitCode::SUCCESS,
    };
    let mut server = match started {
        Ok(server) => server,
        Err(error) => {
            eprintln!("ERROR init - Startup failed: std::runtime_error ({error})");
            return ExitCode::FAILURE;
        }
    };
    println!("standin: API on {}", server.api());
    let told = tokio::select! {
        ended = server.ended() => {
            if let Some(refusal) = ended {
                eprintln!("ERROR init - Startup failed: std::runtime_error ({refusal})");
                return ExitCode::FAILURE;
            }
            println!("standin: DECOMMISSIONED");
            return ExitCode::SUCCESS;
        },
        told = terminate.recv() => told,
        told = interrupt.recv() => told,
    };
    if told.is_some() {
        server.terminate().await;
    }
    ExitCode::SUCCESS
}
