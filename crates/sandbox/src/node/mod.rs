//! The node agent: a pod is real processes on its own loopback address.
//!
//! Read `lifecycle` first: it decides, without processes, what happens to a
//! pod. `pod` carries it out, `agent` is the loop of one node, `network` makes
//! the addresses and can cut them, `paths` says what a container path means
//! here, `hosts` how names are resolved, `faults` what can be broken.

mod agent;
mod container;
mod controllers;
mod door;
mod env;
mod faults;
mod hosts;
mod images;
mod lifecycle;
mod machine;
mod network;
mod paths;
mod pod;
mod process;
mod runner;
mod spec;
mod status;
mod streams;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::SignedDuration;
use sim::kube::controllers::Settings;
use tokio::sync::watch;

pub use self::container::{Exit, Stage};
pub use self::door::Door;
pub use self::faults::{Direction, Fault, FaultError, Happened, Loss};
pub use self::hosts::{VARIABLE as HOSTS_VARIABLE, lookup};
pub use self::images::{Images, Program};
pub use self::lifecycle::{Action, BackOff, ContainerId, Event, Lifecycle};
pub use self::network::{Addresses, Network, Party};
pub use self::paths::Paths;
pub use self::process::{Group, Guard, Launch, Process};
pub use self::spec::{ContainerSpec, PodSpec, ProbeKind, ProbeTimes, RestartPolicy};

use self::machine::{ApiAddress, Machine};
use crate::kube::{Kubernetes, Listening};

/// How a machine plays nodes.
#[derive(Debug, Clone)]
pub struct Config {
    /// Everything is below it: volumes, pods, logs, names. Must be one's own.
    pub folder: PathBuf,
    /// The programs that images stand for.
    pub images: Images,
    /// The names of the nodes.
    pub nodes: Vec<String>,
    /// Where the API listens, for pods that use it.
    pub api: Option<Listening>,
    /// How often a node says that it lives.
    pub heartbeat: SignedDuration,
    /// How long a node may be silent before its pods are called not ready.
    pub node_grace: SignedDuration,
    /// How long a container that fails waits.
    pub back_off: BackOff,
}

impl Config {
    /// Three nodes with upstream's times.
    pub fn new(folder: impl Into<PathBuf>, images: Images) -> Self {
        Self {
            folder: folder.into(),
            images,
            nodes: ["node-1", "node-2", "node-3"].map(str::to_owned).to_vec(),
            api: None,
            heartbeat: SignedDuration::from_secs(10),
            node_grace: SignedDuration::from_secs(50),
            back_off: BackOff::UPSTREAM,
        }
    }
}

/// Why nodes could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The folder is not usable.
    #[error("the folder {folder} cannot be used")]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No loopback addresses are free, or the kernel says nothing about sockets.
    #[error("no network of loopback addresses can be had")]
    Network(#[source] std::io::Error),
    /// The API must be on an IPv4 address.
    #[error("the API listens on {0}, which is no IPv4 address")]
    Api(SocketAddr),
}

/// Nodes that run pods, and the controllers that make them.
///
/// Dropping it or stopping it ends every process that it started; so does the
/// end of this process, whatever ended it.
pub struct Nodes {
    machine: Arc<Machine>,
    modes: BTreeMap<String, watch::Sender<Option<Loss>>>,
}

impl Nodes {
    /// Start them. Needs a running tokio.
    pub fn start(kubernetes: &Kubernetes, config: Config) -> Result<Self, StartError> {
        let Config {
            folder,
            images,
            nodes,
            api,
            heartbeat,
            node_grace,
            back_off,
        } = config;
        let unusable = |source| StartError::Folder {
            folder: folder.clone(),
            source,
        };
        std::fs::create_dir_all(&folder).map_err(unusable)?;
        let folder = folder.canonicalize().map_err(unusable)?;
        let network = Network::open().map_err(StartError::Network)?;
        let api = match api {
            Some(listening) => {
                let SocketAddr::V4(address) = listening.address else {
                    return Err(StartError::Api(listening.address));
                };
                Some(ApiAddress {
                    relay: network.relay_to(Party::Api, address),
                    listening,
                })
            }
            None => None,
        };
        let settings = Settings {
            node_grace,
            volumes: folder.join("volumes").display().to_string(),
        };
        let machine = Machine::new(kubernetes.clone(), network, images, folder.clone(), back_off, api)
            .map_err(|source| StartError::Folder { folder, source })?;
        let machine = Arc::new(machine);
        let mut modes = BTreeMap::new();
        for node in nodes {
            let (sender, mode) = watch::channel(None);
            machine.tasks.spawn(agent::Agent::run(
                node.clone(),
                Arc::clone(&machine),
                heartbeat,
                mode,
            ));
            modes.insert(node, sender);
        }
        machine
            .tasks
            .spawn(controllers::run(Arc::clone(&machine), settings));
        kubernetes.set_streams(Arc::new(streams::Streams(Arc::clone(&machine))));
        Ok(Self { machine, modes })
    }

    /// The network between the pods.
    pub fn network(&self) -> &Network {
        &self.machine.network
    }

    /// The file with the names of a namespace.
    pub fn hosts_file(&self, namespace: &str) -> PathBuf {
        self.machine.hosts_file(namespace)
    }

    /// Where pods reach the API, if it listens.
    pub fn api(&self) -> Option<std::net::SocketAddrV4> {
        self.machine.api.as_ref().map(|api| api.relay)
    }

    /// The process groups of a pod, one per container that runs.
    pub fn processes(&self, pod: &Party) -> Vec<i32> {
        let entries = self.machine.entries_of(pod);
        let running = entries.iter().flat_map(|entry| entry.containers.values());
        running
            .filter_map(|running| running.group.as_ref().map(|group| group.id()))
            .collect()
    }

    /// End all processes and wait until nothing of this is left.
    pub async fn stop(self) {
        self.machine.tasks.stop().await;
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.machine.tasks.end.cancel();
        self.machine.kill_all();
        self.machine
            .kubernetes
            .set_streams(Arc::new(crate::kube::streams::NoPods));
    }
}
