//! `cargo xtask bench`: what has a figure, measured in release.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Subcommand;

use crate::Verdict;
use crate::packages::{self, Needed};
use crate::workspace::{Workspace, display, stream};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchTask {
    /// The small Kubernetes: 1,000 objects and 10,000 watch events in under 1 s of CPU and 64 MiB
    Kube,
    /// Instructions per Bolt message, counted by callgrind; needs valgrind
    Bolt,
    /// The gateway beside HAProxy and nginx: CPU, memory, and how long a switch takes; installs Debian's packages if
    /// it may
    Gateway {
        /// What `bench-gateway run` takes, such as `--rounds 3`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
}

/// Measure; a limit that is exceeded fails.
pub(crate) fn bench(workspace: &Workspace, task: &BenchTask) -> Result<Verdict> {
    match task {
        BenchTask::Kube => kube(workspace)?,
        BenchTask::Bolt => bolt(workspace)?,
        BenchTask::Gateway { arguments } => gateway(workspace, arguments)?,
    }
    Ok(Verdict::Good)
}

fn kube(workspace: &Workspace) -> Result<()> {
    let mut command = workspace.cargo();
    command.args(["run", "--locked", "--release", "--package", "sandbox"]);
    command.args(["--example", "bench_kube"]);
    println!("$ {}", display(&command));
    stream(&mut command)
}

/// Each case, as `bench-bolt` names it.
const CASES: &[(&str, &str)] = &[
    ("scan", "follow a message of 128 bytes by its headers"),
    ("frame", "put a message of 128 bytes into chunks"),
    ("unframe", "take a message of 128 bytes out of its chunks"),
    ("decode-run", "read a RUN with one parameter"),
    ("encode-run", "write a RUN with one parameter"),
    ("decode-record", "read a RECORD of three values"),
    ("encode-record", "write a RECORD of three values"),
];
const FEW: u64 = 1_000;
const MANY: u64 = 11_000;

/// Two counts of one case: the difference is the messages', without start-up and set-up.
fn bolt(workspace: &Workspace) -> Result<()> {
    let mut build = workspace.cargo();
    build.args(["build", "--locked", "--release", "--package", "bench-bolt"]);
    println!("$ {}", display(&build));
    stream(&mut build)?;
    let program = workspace.target().join("release/bench-bolt");
    println!("instructions per message");
    for (case, what) in CASES {
        let few = instructions(workspace, &program, case, FEW)?;
        let many = instructions(workspace, &program, case, MANY)?;
        ensure!(many > few, "{case} does nothing: {few} instructions, then {many}");
        println!("{:>8}  {case:14} {what}", (many - few) / (MANY - FEW));
    }
    Ok(())
}

/// What the gateway is measured beside, and the package it comes in.
const PROXIES: &[Needed] = &[
    (&["/usr/sbin/haproxy"], "haproxy"),
    (&["/usr/sbin/nginx"], "nginx"),
    (
        &["/usr/lib/nginx/modules/ngx_stream_module.so"],
        "libnginx-mod-stream",
    ),
];

/// Clients and database on one core, the proxy on another: with fewer than two the figures say little.
fn gateway(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    packages::ensure(workspace, PROXIES)?;
    let mut build = workspace.cargo();
    build.args(["build", "--locked", "--release", "--package", "bench-gateway"]);
    println!("$ {}", display(&build));
    stream(&mut build)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ensure!(cores > 1, "this needs two cores");
    let mut run = workspace.command("taskset");
    run.args(["-c", "0"])
        .arg(workspace.target().join("release/bench-gateway"));
    run.args(["run", "--proxy-core", "1", "--json"]);
    run.arg(workspace.target().join("bench-gateway.json"));
    run.args(arguments);
    println!("$ {}", display(&run));
    stream(&mut run)
}

fn instructions(workspace: &Workspace, program: &Path, case: &str, count: u64) -> Result<u64> {
    let mut command = workspace.command("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program).arg(case).arg(count.to_string());
    let output = command
        .output()
        .with_context(|| format!("cannot start {}: is valgrind installed?", display(&command)))?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {text}", display(&command));
    collected(&text).with_context(|| format!("{} counted nothing: {text}", display(&command)))
}

/// The number after `Collected :`.
fn collected(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("Collected :")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_what_callgrind_says() {
        let text = "==7== Events    : Ir\n==7== Collected : 1234567\n==7==\n==7== I   refs:      1,234,567\n";
        assert_eq!(collected(text), Some(1_234_567));
        assert_eq!(collected("==7== error"), None);
    }
}
