//! The process form.

use super::flags::Flags;
use super::server::{Server, StartError};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Runs a stand-in until SIGTERM or SIGINT, with the command line of the real server.
pub fn run(args: impl IntoIterator<Item = String>) -> ExitCode {
    let mut flags = match Flags::read(args) {
        Ok(flags) => flags,
        Err(error) => {
            eprintln!("standin: {error}");
            return ExitCode::FAILURE;
        }
    };
    if let (Ok(user), Ok(password)) = (std::env::var("MEMGRAPH_USER"), std::env::var("MEMGRAPH_PASSWORD")) {
        flags.config.user = Some((user, password));
    }
    if !flags.ignored.is_empty() {
        eprintln!("standin: ignored: {}", flags.ignored.join(", "));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(until_told(flags)),
        Err(error) => {
            eprintln!("standin: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn until_told(flags: Flags) -> ExitCode {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return ExitCode::FAILURE;
    };
    let server = match Server::start_process(flags.config).await {
        Ok(server) => server,
        Err(error) => {
            eprintln!("standin: {error}");
            // A real server aborts on these.
            if matches!(
                error,
                StartError::LogWithoutSnapshots | StartError::Replica { .. }
            ) {
                std::process::abort();
            }
            return ExitCode::FAILURE;
        }
    };
    println!("standin: bolt on {}", server.bolt());
    if let Some(admin) = server.admin() {
        println!("standin: admin on {admin}");
    }
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    server.terminate().await;
    ExitCode::SUCCESS
}
