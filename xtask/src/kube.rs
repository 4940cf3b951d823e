//! A real Kubernetes, the suite that keeps the small one honest, and what the
//! small one costs.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::Verdict;
use crate::tools;
use crate::workspace::{Workspace, capture, display, stream};

/// The programs of a control plane without nodes, and what looks at it.
const PROGRAMS: &[&str] = &["kubectl", "etcd", "kube-apiserver", "kube-controller-manager"];

/// Start or end it.
#[derive(Debug, Subcommand)]
pub(crate) enum KubeTask {
    /// Build a real control plane once, outside the checkout, and start it on loopback ports
    Up,
    /// End it and remove its data
    Down,
}

/// Which cluster is judged.
#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// The cluster; without it, the real one of `cargo xtask kube up`
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Only checks whose name contains this
    #[arg(long, default_value = "")]
    only: String,
}

/// Where the one real cluster of this machine keeps its data.
fn folder(workspace: &Workspace) -> PathBuf {
    tools::home(workspace).join("real-kubernetes")
}

/// Start or end the real control plane.
pub(crate) fn kube(workspace: &Workspace, task: &KubeTask) -> Result<Verdict> {
    let what = match task {
        KubeTask::Up => "up",
        KubeTask::Down => "down",
    };
    let mut cluster = workspace.command("bash");
    if matches!(task, KubeTask::Up) {
        let mut build = workspace.command("bash");
        build.arg("e2e/kube/build.sh").args(PROGRAMS);
        let bin = String::from_utf8(capture(&mut build)?).context("the path of the programs is no text")?;
        cluster.env("BIN", bin.trim());
    }
    cluster.args(["e2e/kube/cluster.sh", what]).arg(folder(workspace));
    stream(&mut cluster)?;
    Ok(Verdict::Good)
}

/// Run the suite against a cluster.
pub(crate) fn conformance(workspace: &Workspace, args: &ConformanceArgs) -> Result<Verdict> {
    let own = || folder(workspace).join("admin.kubeconfig");
    let kubeconfig = args.kubeconfig.clone().unwrap_or_else(own);
    let mut command = workspace.cargo();
    command
        .args(["run", "--locked", "--package", "conformance", "--", "--only"])
        .arg(&args.only)
        .arg("--kubeconfig")
        .arg(kubeconfig);
    println!("$ {}", display(&command));
    stream(&mut command)?;
    Ok(Verdict::Good)
}
