//! Starting and stopping a gateway.

use crate::config::Config;
use crate::control::{self, Control};
use crate::front::Sampler;
use crate::metrics::Metrics;
use crate::plane::Plane;
use crate::resolve::Resolve;
use crate::secure::{Secure, SecureError};
use crate::session::Shared;
use crate::signal::Signal;
use crate::{accept, admin};
use mainstay_core::memgraph::objects::Confirmation;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Why a gateway did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// A port is taken.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Certificates cannot be used.
    #[error("TLS")]
    Secure(#[from] SecureError),
}

/// A gateway that runs. Dropping it ends every session at once.
#[derive(Debug)]
pub struct Gateway {
    bolt: SocketAddr,
    admin: SocketAddr,
    control: Control,
    /// Stops accepting, and lets sessions end.
    drain: CancellationToken,
    /// Tells sessions that it is time.
    ending: Signal,
    /// Stops the rest.
    stop: CancellationToken,
    accept: JoinSet<()>,
    rest: JoinSet<()>,
}

impl Gateway {
    /// Starts one inside this process. It forwards as soon as it is registered and has read the record.
    pub async fn start(config: Config, plane: Plane, resolve: Resolve) -> Result<Self, StartError> {
        let secure = Secure::read(&config.front, &config.back).await?;
        let (listener, bolt) = bind(config.listen).await?;
        let (admin_listener, admin) = bind(config.admin).await?;
        let push = config.advertise.clone().unwrap_or_else(|| admin.to_string());
        let metrics = Arc::new(Metrics::default());
        let (control, keeper) = control::new(Arc::clone(&metrics), config.timeouts.transactions);
        let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
        let ending = Signal::default();
        let shared = Arc::new(Shared {
            ending: ending.clone(),
            waiting: Arc::new(Semaphore::new(config.limits.waiting)),
            control: control.clone(),
            access: Sampler::new(config.front.access_log),
            secure,
            config,
            resolve,
            metrics,
            buffers: crate::buffers::Buffers::default(),
        });
        let mut sessions = JoinSet::new();
        sessions.spawn(accept::run(Arc::clone(&shared), listener, drain.clone()));
        let mut rest = JoinSet::new();
        rest.spawn(keeper.run());
        rest.spawn(admin::run(
            Arc::clone(&shared),
            admin_listener,
            drain.clone(),
            stop.clone(),
        ));
        let (followed, end) = (Arc::clone(&shared), stop.clone());
        rest.spawn(async move {
            end.run_until_cancelled(followed.secure.follow(&followed.metrics))
                .await;
        });
        rest.spawn(plane.run(shared, push, stop.clone()));
        Ok(Self {
            bolt,
            admin,
            control,
            drain,
            ending,
            stop,
            accept: sessions,
            rest,
        })
    }

    /// Where clients connect.
    pub const fn bolt(&self) -> SocketAddr {
        self.bolt
    }

    /// Where pushes, health and metrics are served.
    pub const fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// What it says of itself.
    pub fn confirmation(&self) -> Confirmation {
        self.control.confirmation()
    }

    /// Stops accepting, lets sessions end for the time of the drain, ends those that are left, and takes the
    /// registration back when nothing is forwarded any more.
    pub async fn shutdown(self) {
        let Self {
            bolt: _,
            admin: _,
            control,
            drain,
            ending,
            stop,
            mut accept,
            mut rest,
        } = self;
        drain.cancel();
        ending.give();
        while accept.join_next().await.is_some() {}
        stop.cancel();
        // The keeper of the record ends with the last who could ask it.
        drop(control);
        while rest.join_next().await.is_some() {}
    }
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let wrong = |source| StartError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    Ok((listener, address))
}
