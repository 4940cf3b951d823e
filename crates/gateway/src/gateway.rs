//! Starting and stopping a gateway.

use crate::config::Config;
use crate::control::{self, Control};
use crate::doors::Doors;
use crate::front::Sampler;
use crate::metrics::Metrics;
use crate::parts::{Broken, Part, Parts};
use crate::plane::Plane;
use crate::reads::{self, Reading};
use crate::resolve::{Resolve, Resolver};
use crate::secure::{Secure, SecureError};
use crate::session::Shared;
use crate::signal::Signal;
use crate::{accept, admin};
use mainstay_core::memgraph::objects::Confirmation;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::time::sleep;
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
    reads: Option<SocketAddr>,
    admin: SocketAddr,
    control: Control,
    /// How long it goes on as before when it is told to stop.
    leaving: Duration,
    /// It is not to be sent clients any more.
    leave: CancellationToken,
    /// Stops accepting, and lets sessions end.
    drain: CancellationToken,
    /// Tells sessions that it is time.
    ending: Signal,
    /// Stops the rest.
    stop: CancellationToken,
    accept: Parts,
    rest: Parts,
}

impl Gateway {
    /// Starts one inside this process. It forwards as soon as it is registered and has read the record.
    pub async fn start(mut config: Config, plane: Plane, resolve: Resolve) -> Result<Self, StartError> {
        let secure = Arc::new(Secure::read(&config.front, &config.back).await?);
        let (listener, bolt) = bind(config.listen).await?;
        let reads_listener = match &mut config.reads {
            None => None,
            Some(reads) => {
                let (listener, address) = bind(reads.listen).await?;
                // What clients are sent to.
                reads.listen = address;
                Some(listener)
            }
        };
        let reads = config.reads.as_ref().map(|reads| reads.listen);
        let (admin_listener, admin) = bind(config.admin).await?;
        let push = config.advertise.clone().unwrap_or_else(|| admin.to_string());
        let (metrics, read_metrics) = Metrics::of_both_ports();
        let (control, keeper) = control::new(Arc::clone(&metrics), config.timeouts.transactions);
        let leaving = config.timeouts.leaving;
        let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
        let leave = CancellationToken::new();
        let ending = Signal::default();
        let reading = config
            .reads
            .clone()
            .map(|reads| Reading::new(reads, control.clone()));
        let shared = Shared {
            ending: ending.clone(),
            closing: Signal::default(),
            waiting: config.limits.places_to_wait(),
            control: control.clone(),
            access: Arc::new(Sampler::new(config.front.access_log)),
            secure,
            config,
            resolve: Resolver::new(resolve),
            metrics,
            buffers: crate::buffers::Buffers::default(),
            reading: None,
        };
        let doors = Arc::new(Mutex::new(Doors::new(shared.config.limits)));
        let began = Instant::now();
        let mut sessions = Parts::new(leave.clone());
        let mut rest = Parts::new(leave.clone());
        if let (Some(listener), Some(reading)) = (reads_listener, reading) {
            let reading = Arc::new(reading);
            let shared = Arc::new(shared.for_reads(Arc::clone(&reading), read_metrics));
            let accept = accept::run(
                Arc::clone(&shared),
                listener,
                Arc::clone(&doors),
                began,
                drain.clone(),
            );
            sessions.spawn(Part::ReadClients, accept);
            rest.spawn(Part::Replicas, reads::run(shared, reading, stop.clone()));
        }
        let shared = Arc::new(shared);
        let accept = accept::run(Arc::clone(&shared), listener, doors, began, drain.clone());
        sessions.spawn(Part::Clients, accept);
        rest.spawn(Part::Keeper, keeper.run());
        let admin_task = admin::run(Arc::clone(&shared), admin_listener, leave.clone(), stop.clone());
        rest.spawn(Part::Admin, admin_task);
        let (followed, end) = (Arc::clone(&shared), stop.clone());
        rest.spawn(Part::Certificates, async move {
            end.run_until_cancelled(followed.secure.follow(&followed.metrics))
                .await;
        });
        rest.spawn(Part::Plane, plane.run(shared, push, stop.clone()));
        Ok(Self {
            bolt,
            reads,
            admin,
            control,
            leaving,
            leave,
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

    /// Where clients connect that only read.
    pub const fn reads(&self) -> Option<SocketAddr> {
        self.reads
    }

    /// Where pushes, health and metrics are served.
    pub const fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// What it says of itself.
    pub fn confirmation(&self) -> Confirmation {
        self.control.confirmation()
    }

    /// Ends when something of it did that should not before [`Gateway::shutdown`]; it is not ready from then on. Whoever
    /// runs it should end, and be started anew.
    pub async fn broken(&mut self) -> Broken {
        tokio::select! {
            broken = self.rest.broken() => broken,
            broken = self.accept.broken() => broken,
        }
    }

    /// Says that it is not ready, and goes on until nobody is sent to it any more; then stops accepting, lets sessions end
    /// for the time of the drain, tells those that are left what became of what they asked for, ends them, and takes the
    /// registration back when nothing is forwarded any more.
    pub async fn shutdown(self) {
        let Self {
            bolt: _,
            reads: _,
            admin: _,
            control,
            leaving,
            leave,
            drain,
            ending,
            stop,
            accept,
            rest,
        } = self;
        leave.cancel();
        sleep(leaving).await;
        drain.cancel();
        ending.give();
        accept.end().await;
        stop.cancel();
        // The keeper of the record ends with the last who could ask it.
        drop(control);
        rest.end().await;
    }
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let wrong = |source| StartError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    Ok((listener, address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::memgraph::Record;
    use mainstay_core::memgraph::ids::{Ordinal, ProcessId, Term, VolumeId};
    use mainstay_core::memgraph::record::Candidate;
    use mainstay_core::time::Time;
    use std::collections::BTreeMap;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::watch;
    use tokio::time::timeout;

    async fn is_ready(admin: SocketAddr) -> bool {
        let mut stream = TcpStream::connect(admin).await.unwrap();
        let request = "GET /readyz HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.starts_with("HTTP/1.1 200")
    }

    #[tokio::test]
    async fn a_gateway_without_one_of_its_parts_is_not_ready_and_says_so() {
        for (part, name) in [(Part::Keeper, "obeys"), (Part::Plane, "follows the record")] {
            let candidate = Candidate {
                pod: Ordinal(0),
                process: ProcessId(1),
                volume: VolumeId(1),
                peers: vec![],
                suspect: false,
                forced: None,
                claim: None,
            };
            let record = Record::initialising(Term(4), candidate, Time::ZERO);
            let (_records, seen) = watch::channel(Some(record));
            let plane = Plane::Channel {
                records: seen,
                told: watch::channel(None).0,
            };
            let config = Config::new("db".parse().unwrap(), "default", "gw");
            let table = Resolve::Table(BTreeMap::new());
            let mut gateway = Gateway::start(config, plane, table).await.unwrap();
            let soon = Duration::from_secs(30);
            let ready = async {
                while !is_ready(gateway.admin()).await {
                    sleep(Duration::from_millis(10)).await;
                }
            };
            timeout(soon, ready).await.unwrap();
            let whole = timeout(Duration::from_millis(50), gateway.broken()).await;
            assert!(whole.is_err(), "{whole:?}");
            gateway.rest.lose(part);
            let broken = timeout(soon, gateway.broken()).await.unwrap().to_string();
            assert!(broken.contains(name), "{broken}");
            assert!(!is_ready(gateway.admin()).await);
        }
    }
}
