//! `mainstay pod`: what runs inside a database pod.

use crate::kubernetes::{client, install_tls};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use mainstay_core::memgraph::ids::PodUid;
use mainstay_core::memgraph::objects::ClusterName;
use operator::pod::{AskError, DataVolume, RealDisk, Task, prepare, record};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How long the API may take to say what is in the record.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two questions while it does not.
const PAUSE: Duration = Duration::from_secs(2);

#[derive(Subcommand)]
pub(crate) enum Command {
    /// The init container `data-cleanup`: carries out a hard reset if one was requested, and never deletes data.
    ///
    /// Without a marker on the volume it asks nobody and ends at once. With one it does what the cluster's record
    /// asks for: the data is moved to quarantine/ID on the same volume, or the marker is set aside.
    Prepare(Box<Arguments>),
}

/// Which pod, and where its volume is.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Which cluster: the name of its StatefulSet.
    #[arg(long, env = "MAINSTAY_CLUSTER")]
    cluster: ClusterName,
    /// In which namespace.
    #[arg(long, env = "POD_NAMESPACE", default_value = "default")]
    namespace: String,
    /// The name of this pod.
    #[arg(long, env = "POD_NAME")]
    pod: String,
    /// The uid of this pod.
    #[arg(long, env = "POD_UID")]
    pod_uid: Option<PodUid>,
    /// Where the volume is mounted.
    #[arg(long, default_value = "/var/lib/memgraph")]
    data: PathBuf,
    /// A kubeconfig; without it the pod's service account.
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
}

/// Runs to its end.
pub(crate) fn command(command: Command) -> ExitCode {
    match command {
        Command::Prepare(arguments) => crate::run_to_end("pod prepare", run(*arguments)),
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    install_tls();
    let Arguments {
        cluster,
        namespace,
        pod,
        pod_uid,
        data,
        kubeconfig,
    } = arguments;
    let ordinal = cluster
        .ordinal(&pod)
        .with_context(|| format!("`{pod}` is no pod of the cluster `{cluster}`"))?;
    let task = Task {
        pod,
        ordinal,
        uid: pod_uid,
        pause: PAUSE,
    };
    // The first process of a container does not die of SIGTERM by itself.
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut volume = DataVolume::new(data, RealDisk);
    let ask = async || {
        let client = client(kubeconfig.as_deref())
            .await
            .map_err(|error| AskError::Client(format!("{error:#}")))?;
        record(client, &namespace, &cluster, PATIENCE).await
    };
    tokio::select! {
        done = prepare(&mut volume, &task, ask, |line| println!("{line}")) => Ok(done?),
        _ = terminate.recv() => anyhow::bail!("told to end before the pod was prepared"),
    }
}
