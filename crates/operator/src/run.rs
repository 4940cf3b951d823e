//! The whole operator: watches, HTTP, leader election, turns, in the order of the seeds.

use crate::engine::lease::Election;
use crate::engine::queue::Limits;
use crate::engine::turns::{Pace, Turns};
use crate::engine::watch::{Scope, belongings, clusters};
use crate::http::board::Board;
use crate::http::server::{Served, serve};
use crate::memgraph::{Keeper, Settings};
use kube::Client;
use mainstay_core::lease::{EmptyHolder, LeaseTiming};
use std::net::SocketAddr;
use std::sync::Arc;
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
            http: _,
        } = config;
        let board = Arc::new(Board::default());
        let turns = Turns::new(limits, pace, Arc::clone(&board));
        board.beat();
        let (election, permit) =
            Election::new(lease_client, &lease_namespace, &lease_name, &identity, timing)?;
        let served = Served {
            board,
            turns: turns.clone(),
            permit: permit.clone(),
        };
        let settings = Arc::new(settings);
        let make = {
            let client = client.clone();
            move |key: &crate::engine::turns::Key| {
                Keeper::new(client.clone(), &key.namespace, &key.name, Arc::clone(&settings))
            }
        };
        let (idle, is_idle) = oneshot::channel();
        let working = Box::pin(async {
            turns.run(make, permit, stop.clone()).await;
            idle.send(()).ok();
        });
        let leading = Box::pin(election.run(stop.clone(), async {
            is_idle.await.ok();
        }));
        let watching = Box::pin(async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = clusters(client.clone(), scope.clone(), turns.clone()) => {}
                () = belongings(client.clone(), scope.clone(), turns.clone()) => {}
            }
        });
        tokio::join!(watching, serve(listener, served, stop.clone()), leading, working);
        Ok(())
    }
}
