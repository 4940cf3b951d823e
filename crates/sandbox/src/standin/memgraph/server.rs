//! Starting and stopping a stand-in.

use super::admin;
use super::config::Config;
use super::disk::DiskError;
use super::faults::Fault;
use super::health;
use super::node::{Ending, Node};
use super::perform::Client;
use super::session;
use bolt::message::Run;
use sim::memgraph::instance::{Registration, Role};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

/// For sessions to say their last words.
const GOODBYE: Duration = Duration::from_millis(20);

/// Why a stand-in did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The data folder cannot be used.
    #[error("{0}")]
    Disk(String),
    /// A port cannot be opened.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A REPLICA cannot open its replication port: a real server dies of it.
    #[error("Replica recovery failure! The replication port {port} cannot be opened: {error}")]
    Replica {
        /// Which.
        port: u16,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A log needs snapshots; a real server aborts.
    #[error("the log is on and snapshots are off")]
    LogWithoutSnapshots,
    /// The init file cannot be read.
    #[error("cannot read the init file {}: {error}", path.display())]
    InitFile {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}

impl From<DiskError> for StartError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error.to_string())
    }
}

/// A stand-in that runs.
#[derive(Debug)]
pub struct Server {
    node: Arc<Node>,
    bolt: SocketAddr,
    admin: Option<SocketAddr>,
}

impl Server {
    /// Starts one inside this process. Dropping it is like killing it.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Self::start_as(config, false).await
    }

    /// Starts the one that this process is for: a crash ends the process.
    pub(super) async fn start_process(config: Config) -> Result<Self, StartError> {
        Self::start_as(config, true).await
    }

    async fn start_as(config: Config, own_process: bool) -> Result<Self, StartError> {
        if config.wal_enabled && config.snapshot_interval.is_zero() {
            return Err(StartError::LogWithoutSnapshots);
        }
        let node = Node::new(config, own_process).await?;
        let mut server = Self {
            bolt: SocketAddr::new(node.config.bolt_address, node.config.bolt_port),
            admin: None,
            node,
        };
        server.restore().await?;
        server.run_init_file().await?;
        server.open().await?;
        Ok(server)
    }

    /// What the role needs: a port, or somebody who looks after the replicas.
    async fn restore(&self) -> Result<(), StartError> {
        let (role, port, names): (_, _, Vec<_>) = {
            let core = self.node.core();
            let names = core.model.registrations().iter().map(Registration::name);
            (core.model.role(), core.port, names.collect())
        };
        if let (Role::Replica, Some(port)) = (role, port) {
            self.node
                .listen(port)
                .await
                .map_err(|error| StartError::Replica { port, error })?;
        }
        for name in names {
            self.node.greet(name).await;
            health::tend(&self.node, name);
        }
        Ok(())
    }

    /// One query per line, before anybody can connect. A line that fails is
    /// reported and nothing more.
    async fn run_init_file(&self) -> Result<(), StartError> {
        let Some(path) = self.node.config.init_file.clone() else {
            return Ok(());
        };
        let lines = std::fs::read_to_string(&path).map_err(|error| StartError::InitFile { path, error })?;
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Err(error) = self.run(line).await {
                eprintln!(
                    "standin: an exception occurred while executing one line of the init file, the rest will be run: {error}"
                );
            }
        }
        Ok(())
    }

    async fn run(&self, line: &str) -> Result<(), String> {
        let mut client = Client::new(&self.node);
        let prepared = client.prepare(&Run::new(line), false);
        prepared.map_err(|failure| failure.to_string())?;
        let page = client.fetch(bolt::message::Amount::All).await;
        page.outcome.map(drop).map_err(|failure| failure.to_string())
    }

    /// Opens the admin port and Bolt, in this order: whoever finds Bolt open may give orders.
    async fn open(&mut self) -> Result<(), StartError> {
        if let Some(port) = self.node.config.admin_port {
            let (listener, address) = bind(SocketAddr::from(([127, 0, 0, 1], port))).await?;
            self.admin = Some(address);
            self.node.spawn(admin::serve(Arc::clone(&self.node), listener));
        }
        let (listener, address) = bind(self.bolt).await?;
        self.bolt = address;
        let node = Arc::clone(&self.node);
        self.node.spawn(accept(node, listener));
        let every = self.node.config.snapshot_interval;
        if !every.is_zero() {
            self.node.spawn(snapshots(Arc::clone(&self.node), every));
        }
        Ok(())
    }

    /// Where Bolt listens.
    pub const fn bolt(&self) -> SocketAddr {
        self.bolt
    }

    /// Where the admin port is, if there is one.
    pub const fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Where replication listens, if this is a REPLICA.
    pub fn replication(&self) -> Option<SocketAddr> {
        let port = self.node.core().port?;
        Some(SocketAddr::new(self.node.config.replication_address, port))
    }

    /// Makes something go wrong.
    pub fn inject(&self, fault: &Fault) -> Result<(), String> {
        admin::inject(&self.node, fault)
    }

    /// Everything that a real server does not show, as JSON.
    pub fn dump(&self) -> serde_json::Value {
        admin::dump(&self.node)
    }

    /// SIGTERM: running queries are told, a snapshot is written.
    pub async fn terminate(self) {
        self.node.ending.send_replace(Ending::Graceful);
        // Sessions say goodbye and go; whoever hangs is cut off. A commit that has begun is waited for, though not as long
        // as a kubelet waits.
        sleep(GOODBYE).await;
        let commit = timeout(self.node.config.timing.short(), self.node.engine.lock()).await;
        if commit.is_ok() {
            sleep(GOODBYE).await;
        }
        drop(commit);
        if self.node.config.snapshot_on_exit && self.node.config.wal_enabled {
            let mut core = self.node.core();
            let taken = core.model.take_snapshot().is_ok();
            if taken && let Err(error) = core.save_snapshot() {
                eprintln!("standin: {error}");
            }
        }
        let synced = self.node.core().disk.log.sync();
        if let Err(error) = synced {
            eprintln!("standin: {error}");
        }
    }

    /// Ends when the stand-in does by itself: a crash inside this process.
    pub async fn crashed(&self) {
        let mut ending = self.node.ending.subscribe();
        let _ = ending.wait_for(|ending| *ending == Ending::Killed).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nobody may wait for what is about to be aborted.
        self.node.ending.send_if_modified(|ending| {
            let running = *ending == Ending::No;
            if running {
                *ending = Ending::Killed;
            }
            running
        });
        self.node.stop();
    }
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let listen = |error| StartError::Listen { address, error };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    Ok((listener, address))
}

async fn accept(node: Arc<Node>, listener: TcpListener) {
    let mut sessions = JoinSet::new();
    let mut ending = node.ending.subscribe();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    sessions.spawn(session::serve(Arc::clone(&node), stream));
                }
            }
            Some(_) = sessions.join_next(), if !sessions.is_empty() => {}
            _ = ending.wait_for(|ending| *ending != Ending::No) => break,
        }
    }
    // Refuses new clients at once, lets the old ones hear of it.
    drop(listener);
    while sessions.join_next().await.is_some() {}
}

/// The periodic snapshot.
async fn snapshots(node: Arc<Node>, every: Duration) {
    let mut clock = interval(every);
    clock.tick().await;
    loop {
        clock.tick().await;
        let _engine = node.engine.lock().await;
        let saved = {
            let mut core = node.core();
            if core.model.take_snapshot().is_err() {
                continue;
            }
            core.save_snapshot().map(drop)
        };
        node.written(saved).await;
    }
}
