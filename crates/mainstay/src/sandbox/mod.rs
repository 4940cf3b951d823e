//! `mainstay sandbox`: a cluster on this machine, from one command.

pub(crate) mod control;
mod diagnosis;
pub(crate) mod found;
pub(crate) mod manifests;
mod ports;
pub(crate) mod site;

use self::found::Description;
use self::site::{Options, Site};
use crate::terminal::{Ending, say};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a cluster may take to start, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// How to run a sandbox.
#[derive(Args)]
pub(crate) struct Arguments {
    /// A real memgraph binary to run in place of the stand-in.
    #[arg(long, value_name = "PATH")]
    memgraph: Option<PathBuf>,
    /// How many databases: 0 and 1 take turns as MAIN and SYNC, the others are ASYNC.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=9))]
    replicas: u8,
    /// Where clients connect; without it 7687, or any port if that one is taken.
    #[arg(long)]
    port: Option<u16>,
    /// Say nothing but errors and one line when it is ready.
    #[arg(long)]
    headless: bool,
    /// One line of JSON when it is ready, and nothing else on standard output.
    #[arg(long)]
    json: bool,
}

/// Runs until Ctrl-C, SIGTERM or the end of its terminal, and leaves nothing behind.
pub(crate) fn command(arguments: Arguments) -> ExitCode {
    crate::run_to_end("sandbox", run(arguments))
}

async fn run(arguments: Arguments) -> Result<()> {
    let Arguments {
        memgraph,
        replicas,
        port,
        headless,
        json,
    } = arguments;
    // Before anything is started: what comes meanwhile is obeyed as soon as there is something to end.
    let mut ending = Ending::listen()?;
    let quiet = headless || json;
    let began = Instant::now();
    let options = Options {
        memgraph,
        replicas,
        port,
        stand_in: vec![],
        waits_for_the_fence: false,
        operator: vec![],
        announced: true,
    };
    let site = Site::start(options).await?;
    let told = |reason: &str| {
        if !quiet {
            // Whoever does not read it any more has the sandbox all the same.
            say(format_args!(
                "  {:>5.1} s  {reason}",
                began.elapsed().as_secs_f64()
            ))
            .ok();
        }
    };
    if !quiet {
        say(format_args!(
            "Starting {replicas} databases, 2 operators and 2 gateways on this machine."
        ))
        .ok();
    }
    let served = async {
        site.until_protected(PATIENCE, told).await?;
        announce(site.description(), began.elapsed(), headless, json)
    };
    let ready = tokio::select! {
        _ = ending.told() => Ok(false),
        served = served => served.map(|()| true),
    };
    if matches!(ready, Ok(true)) {
        ending.told().await;
    }
    if !quiet {
        // It may be the terminal that is gone.
        say("\nEnding all processes.").ok();
    }
    let ended = site.end().await;
    ready?;
    Ok(ended?)
}

fn announce(site: &Description, took: Duration, headless: bool, json: bool) -> Result<()> {
    if json {
        return Ok(say(serde_json::to_string(site)?)?);
    }
    let Description {
        folder: _,
        pid: _,
        bolt,
        reads,
        kubeconfig,
        control: _,
        namespace: _,
        cluster,
        stand_ins: _,
        replication_port,
    } = site;
    if headless {
        return Ok(say(format_args!("ready: bolt://{bolt}"))?);
    }
    let databases = replication_port.map_or_else(
        || "stand-ins, which behave like Memgraph 3.12 on the wire and are not Memgraph".to_owned(),
        |port| format!("the real Memgraph that was given. For replication they listen on all addresses of this machine, from port {port} on"),
    );
    let kubeconfig = kubeconfig.display();
    // As it was called: after `cargo run` it is not on the path.
    let program =
        std::env::current_exe().map_or_else(|_| "mainstay".to_owned(), |path| path.display().to_string());
    Ok(say(format_args!(
        "\nServing and protected after {:.1} s. The databases are {databases}.\n\n\
         \x20 Bolt        bolt://{bolt}\n\
         \x20 reads       bolt://{reads}  (ASYNC replicas)\n\
         \x20 kubeconfig  {kubeconfig}\n\n\
         Next, from another terminal:\n\
         \x20 {program} drill kill-main\n\
         \x20     kill MAIN under load: what clients notice, what is lost\n\
         \x20 kubectl --kubeconfig {kubeconfig} get mgc -w\n\
         \x20     watch it\n\
         \x20 {program} why {cluster}\n\
         \x20     who is MAIN, since when, and which rule decided\n\n\
         Ctrl-C ends everything.",
        took.as_secs_f64()
    ))?)
}
