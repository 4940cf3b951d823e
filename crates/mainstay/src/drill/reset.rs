//! Drills of the hard reset: a replica that really diverges, and a marker that nobody asks for any more.

use super::cluster::{Cluster, ClusterError, Grace};
use super::faults::FaultError;
use bolt::message::Auth;
use mainstay_core::memgraph::ids::{Ordinal, ProcessId, ResetId, Term};
use mainstay_core::memgraph::marker::{DATA_FOLDER_NAME, MARKER_FILE, MarkerFile, Meant};
use operator::memgraph::database::demote;
use sandbox::standin::memgraph::client::{Client, Outcome};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;
use tokio::time::{Instant, sleep};

/// How long a pod may take for one of these.
const PATIENCE: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(50);

/// Why a replica could not be made to diverge, or a marker not be put there.
#[derive(Debug, Error)]
pub(crate) enum ResetDrillError {
    /// The database said no.
    #[error("{pod} could not be made to diverge: {why}")]
    Database {
        /// Which.
        pod: String,
        /// What it said last.
        why: String,
    },
    /// The volume.
    #[error("the volume of {pod} cannot be used")]
    Volume {
        /// Whose.
        pod: String,
        /// Why.
        source: std::io::Error,
    },
    /// It did not become MAIN.
    #[error("{0} did not become MAIN")]
    NotMain(String),
    /// What must never happen.
    #[error("{0} was wiped for a marker that nobody asks for")]
    Wiped(String),
    /// The marker cannot be written: ours to build, and built wrongly.
    #[error(transparent)]
    Marker(#[from] serde_json::Error),
}

/// Makes a replica MAIN for a moment, on which it takes a write of its own. The operator may demote it in between:
/// then it is tried again.
pub(crate) async fn diverge(cluster: &Cluster, pod: &str, ordinal: u8) -> Result<(), FaultError> {
    let deadline = Instant::now() + PATIENCE;
    let port = cluster.ports.of(Ordinal(ordinal));
    loop {
        let ip = cluster.ip(pod).await?;
        let why = match try_diverge(ip, port).await {
            Ok(()) => return Ok(()),
            Err(why) => why,
        };
        if Instant::now() > deadline {
            let pod = pod.to_owned();
            return Err(ResetDrillError::Database { pod, why }.into());
        }
        sleep(PAUSE).await;
    }
}

async fn try_diverge(ip: Option<IpAddr>, port: u16) -> Result<(), String> {
    let ip = ip.ok_or("it has no address")?;
    let at = SocketAddr::new(ip, mainstay_core::memgraph::objects::BOLT_PORT);
    let connected = Client::connect_within(at, Auth::None, Duration::from_secs(5)).await;
    let mut client = connected.map_err(|error| error.to_string())?;
    for query in ["SET REPLICATION ROLE TO MAIN", "CREATE (:Stray)"] {
        match client.query(query).await.map_err(|error| error.to_string())? {
            Outcome::Done(_) => {}
            Outcome::Refused { failure, .. } => return Err(failure.message.to_string()),
        }
    }
    // If the operator was quicker it is a REPLICA already.
    client.query(&demote(port)).await.ok();
    Ok(())
}

/// Puts a marker on a replica that asks for its reset in this very term, makes it MAIN, and lets its pod be made anew
/// from one moment to the next: the trace T7, but for the operator that wrote the marker.
pub(crate) async fn stale_marker(cluster: &Cluster, pod: &str, ordinal: u8) -> Result<(), FaultError> {
    let volume = volume(cluster, pod).await?;
    let unusable = |source| ResetDrillError::Volume {
        pod: pod.to_owned(),
        source,
    };
    let text = marker(cluster, pod).await?;
    std::fs::write(volume.join(MARKER_FILE), text).map_err(unusable)?;
    cluster.wish_main(Some(ordinal)).await?;
    let deadline = Instant::now() + PATIENCE;
    while cluster.look().await?.main.as_deref() != Some(pod) {
        if Instant::now() > deadline {
            return Err(ResetDrillError::NotMain(pod.to_owned()).into());
        }
        sleep(PAUSE).await;
    }
    cluster.wish_main(None).await?;
    Ok(cluster.delete(&cluster.namespace, pod, Grace::None).await?)
}

async fn marker(cluster: &Cluster, pod: &str) -> Result<String, FaultError> {
    let look = cluster.look().await?;
    let uid = cluster.uid(pod).await?.and_then(|uid| uid.parse().ok());
    let meant = Meant {
        // No request of this cluster has it: numbers begin at one.
        id: ResetId(0),
        term: Term(look.term),
        process: ProcessId(0),
        pod_uid: uid.ok_or(FaultError::Nobody("pod of that name"))?,
    };
    let file = MarkerFile::new(pod, look.main.as_deref(), String::new(), meant);
    file.render().map_err(|error| ResetDrillError::from(error).into())
}

/// Has the marker had no effect? Its file is set aside, the data is where it was, and nothing is in quarantine for it.
pub(crate) async fn marker_is_stale(cluster: &Cluster, pod: &str) -> Result<bool, FaultError> {
    let volume = volume(cluster, pod).await?;
    if volume.join("quarantine").join("0").exists() {
        return Err(ResetDrillError::Wiped(pod.to_owned()).into());
    }
    let aside = volume.join(format!("{MARKER_FILE}.stale"));
    Ok(aside.exists() && !volume.join(MARKER_FILE).exists() && volume.join(DATA_FOLDER_NAME).exists())
}

/// The folder of a pod's volume: only a sandbox has one that can be looked into.
async fn volume(cluster: &Cluster, pod: &str) -> Result<PathBuf, ClusterError> {
    let path = cluster.volume(&format!("lib-storage-{pod}")).await?;
    Ok(Path::new(&path).to_owned())
}
