//! The whole operator: watches, HTTP, leader election, turns, in the order of the seeds.

use crate::engine::lease::{Election, Permit};
use crate::engine::queue::{Limits, Urgency};
use crate::engine::turns::{Key, Loop, Pace, Turns};
use crate::engine::watch::{Scope, belongings, objects};
use crate::hibernation;
use crate::http::board::Board;
use crate::http::server::{Served, serve};
use crate::memgraph::{Keeper, Settings};
use crate::ring::{RING_LABEL, RingBoard, RingKeeper, RingSettings};
use api::{MemgraphCluster, RingCluster};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::Client;
use mainstay_core::lease::{EmptyHolder, LeaseTiming};
use mainstay_core::memgraph::objects::CLUSTER_LABEL;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// How an operator runs.
pub struct Config {
    /// For everything but the lease.
    pub client: Client,
    /// For the lease alone: it must not retry.
    pub lease_client: Client,
    /// Which namespaces.
    pub scope: Scope,
    /// Where the lease is.
    pub lease_namespace: String,
    /// Its name.
    pub lease_name: String,
    /// What this operator is called; the run is added.
    pub identity: String,
    /// How the lease is kept.
    pub timing: LeaseTiming,
    /// How large queues are.
    pub limits: Limits,
    /// How turns are run.
    pub pace: Pace,
    /// How long things take.
    pub settings: Settings,
    /// The same of rings; without it that kind is not served.
    pub ring: Option<RingSettings>,
    /// The same, of plans that sleep.
    pub hibernation: hibernation::Settings,
    /// Where HTTP is served.
    pub http: SocketAddr,
}

/// Why an operator could not start.
#[derive(Debug, Error)]
pub enum RunError {
    /// The port for HTTP.
    #[error("cannot listen on {address}")]
    Http {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// It has no name.
    #[error(transparent)]
    Identity(#[from] EmptyHolder),
}

/// An operator that is ready to run.
pub struct Operator {
    config: Config,
    listener: TcpListener,
}

impl Operator {
    /// Takes the port.
    pub async fn bind(config: Config) -> Result<Self, RunError> {
        let address = config.http;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| RunError::Http { address, source })?;
        Ok(Self { config, listener })
    }

    /// Where HTTP is served.
    pub fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Runs until told to stop; then ends what is under way, and frees the lease last.
    pub async fn run(self, stop: CancellationToken) -> Result<(), RunError> {
        let Self { config, listener } = self;
        let Config {
            client,
            lease_client,
            scope,
            lease_namespace,
            lease_name,
            identity,
            timing,
            limits,
            pace,
            settings,
            ring,
            hibernation,
            http: _,
        } = config;
        // The clock of the plans, so that a test in which nights pass at once has a lease that lives as fast; but
        // whoever puts the plans' clock forward does not mean the lease.
        let clock = hibernation.clock.steady();
        let (election, permit) = Election::new(
            lease_client,
            &lease_namespace,
            &lease_name,
            &identity,
            timing,
            clock,
        )?;
        let plans = hibernation::Controller::new(client.clone(), scope.clone(), hibernation, limits, pace);
        let rings = ring.map(|settings| Rings::new(client.clone(), scope.clone(), settings, limits, pace));
        let memgraph = Memgraph::new(client, scope, settings, limits, pace);
        let mut served = Served {
            pages: vec![memgraph.board.clone(), plans.board()],
            loops: vec![Arc::new(memgraph.turns.clone()), Arc::new(plans.turns())],
            permit: permit.clone(),
            standing: election.standing(),
            election: election.pulse(),
        };
        if let Some(rings) = &rings {
            served.pages.push(rings.board.clone());
            served.loops.push(Arc::new(rings.turns.clone()));
        }
        let loops = served.loops.clone();
        let (idle, is_idle) = oneshot::channel();
        let working = Box::pin(async {
            tokio::join!(
                memgraph.work(permit.clone(), stop.clone()),
                plans.work(permit.clone(), stop.clone()),
                async {
                    if let Some(rings) = &rings {
                        rings.work(permit.clone(), stop.clone()).await;
                    }
                }
            );
            idle.send(()).ok();
        });
        let leading = Box::pin(async {
            listed(&loops, &stop).await;
            let idle = async {
                is_idle.await.ok();
            };
            election.run(stop.clone(), idle).await;
        });
        let watching = Box::pin(async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = memgraph.watch() => {}
                () = plans.watch() => {}
                () = watch_rings(rings.as_ref()) => {}
            }
        });
        tokio::join!(watching, serve(listener, served, stop.clone()), leading, working);
        Ok(())
    }
}

/// How long the first lists are waited for: a kind that cannot be listed must not leave the others without a leader.
const LISTED: Duration = Duration::from_secs(5);

/// Watches and HTTP come before the election, as the seeds have it: who knows no object has nothing to lead for.
async fn listed(loops: &[Arc<dyn Loop>], stop: &CancellationToken) {
    let all = async {
        while !loops.iter().all(|one| one.is_synced() || one.is_absent()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = all => {}
        () = tokio::time::sleep(LISTED) => tracing::warn!("not every kind is listed yet; campaigning all the same"),
    }
}

/// The kind `MemgraphCluster`.
struct Memgraph {
    client: Client,
    scope: Scope,
    settings: Arc<Settings>,
    board: Arc<Board>,
    turns: Turns<Keeper>,
}

impl Memgraph {
    fn new(client: Client, scope: Scope, settings: Settings, limits: Limits, pace: Pace) -> Self {
        let board = Arc::new(Board::default());
        Self {
            client,
            scope,
            settings: Arc::new(settings),
            turns: Turns::new("memgraph", limits, pace, board.clone()),
            board,
        }
    }

    async fn work(&self, permit: Permit, stop: CancellationToken) {
        let make = |Key { namespace, name }: &Key| {
            Keeper::new(self.client.clone(), namespace, name, Arc::clone(&self.settings))
        };
        self.turns.run(make, permit, stop).await;
    }

    /// Clusters, and their pods and records. Ends if one of the watches does.
    async fn watch(&self) {
        let given = || (self.client.clone(), self.scope.clone(), self.turns.clone());
        let (client, scope, turns) = given();
        let clusters = objects::<MemgraphCluster, _>(client, scope, turns);
        let (client, scope, turns) = given();
        let pods = belongings::<Pod, _>(client, scope, turns, CLUSTER_LABEL, Urgency::Failover);
        let (client, scope, turns) = given();
        let records = belongings::<ConfigMap, _>(client, scope, turns, CLUSTER_LABEL, Urgency::Reconcile);
        tokio::select! {
            () = clusters => {}
            () = pods => {}
            () = records => {}
        }
    }
}

/// The kind `RingCluster`.
struct Rings {
    client: Client,
    scope: Scope,
    settings: Arc<RingSettings>,
    board: Arc<RingBoard>,
    turns: Turns<RingKeeper>,
}

impl Rings {
    fn new(client: Client, scope: Scope, settings: RingSettings, limits: Limits, pace: Pace) -> Self {
        let board = Arc::new(RingBoard::default());
        Self {
            client,
            scope,
            settings: Arc::new(settings),
            turns: Turns::new("ring", limits, pace, board.clone()),
            board,
        }
    }

    async fn work(&self, permit: Permit, stop: CancellationToken) {
        let make = |Key { namespace, name }: &Key| {
            RingKeeper::new(self.client.clone(), namespace, name, Arc::clone(&self.settings))
        };
        self.turns.run(make, permit, stop).await;
    }

    /// Rings, and their pods, Services and ConfigMaps. Ends if one of the watches does.
    async fn watch(&self) {
        let given = || (self.client.clone(), self.scope.clone(), self.turns.clone());
        let (client, scope, turns) = given();
        let rings = objects::<RingCluster, _>(client, scope, turns);
        let (client, scope, turns) = given();
        let pods = belongings::<Pod, _>(client, scope, turns, RING_LABEL, Urgency::Reconcile);
        let (client, scope, turns) = given();
        let services = belongings::<Service, _>(client, scope, turns, RING_LABEL, Urgency::Reconcile);
        let (client, scope, turns) = given();
        let records = belongings::<ConfigMap, _>(client, scope, turns, RING_LABEL, Urgency::Reconcile);
        tokio::select! {
            () = rings => {}
            () = pods => {}
            () = services => {}
            () = records => {}
        }
    }
}

/// Ends never if rings are not served.
async fn watch_rings(rings: Option<&Rings>) {
    match rings {
        Some(rings) => rings.watch().await,
        None => std::future::pending().await,
    }
}
