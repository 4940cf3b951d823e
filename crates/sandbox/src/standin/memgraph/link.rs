//! One connection to each replica, used by everything that MAIN says to it.
//! Like the real one it is found dead only by using it, which costs that use.

use super::address::Address;
use super::faults::{Effect, RpcKind};
use super::node::Node;
use super::wire::{self, Request};
use crate::node::{HOSTS_VARIABLE, lookup};
use sim::memgraph::instance::{Answer, Rpc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// No connection, or it broke.
    Broken,
    /// It did not come in time.
    TimedOut,
    /// Not asked: somebody else is asking.
    Busy,
}

/// The limit of a real server is a time without progress, and a large transaction makes progress for as long as it is
/// sent and applied.
fn at_work(request: &Request) -> Duration {
    const CHANGES_IN_A_MILLISECOND: usize = 5;
    match request {
        Rpc::Prepare { transaction, .. } => {
            let ms = transaction.delta.len() / CHANGES_IN_A_MILLISECOND;
            Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
        }
        _ => Duration::ZERO,
    }
}

type Connection = Arc<tokio::sync::Mutex<Option<TcpStream>>>;

/// All connections of one MAIN.
#[derive(Debug, Default)]
pub(super) struct Links(Mutex<BTreeMap<Address, Connection>>);

impl Links {
    fn of(&self, address: &Address) -> Connection {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(links.entry(address.clone()).or_default())
    }

    /// Forgets a connection: whoever uses it finishes, nobody else will.
    pub(super) fn close(&self, address: &Address) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(address);
    }

    /// Forgets all of them.
    pub(super) fn close_all(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Node {
    /// Asks a replica.
    pub(super) async fn ask(&self, address: &Address, request: &Request) -> Result<Answer, Lost> {
        let kind = RpcKind::of(request);
        let limit = self.limit(kind) + at_work(request);
        let connection = self.links.of(address);
        let mut connection = match kind {
            // Whoever is talking to the replica is proof enough; the next round will see.
            RpcKind::Ping => connection.try_lock().map_err(|_| Lost::Busy)?,
            _ => connection.lock().await,
        };
        match self.faults.effect(&address.host, kind) {
            None => {}
            Some(Effect::Refuse) => {
                *connection = None;
                return Err(Lost::Broken);
            }
            Some(Effect::Swallow) => {
                sleep(self.swallowed(kind, limit, connection.is_some())).await;
                *connection = None;
                // A partition is a broken connection to a real server; only a
                // peer whose kernel still takes the bytes is late.
                return Err(Lost::Broken);
            }
            Some(Effect::Delay(ms)) => sleep(Duration::from_millis(ms)).await,
            Some(Effect::DropAnswer) => {
                let _ = self.exchange(&mut connection, address, request, limit).await;
                sleep(limit).await;
                *connection = None;
                return Err(Lost::TimedOut);
            }
        }
        let answer = self.exchange(&mut connection, address, request, limit).await;
        if answer.is_err() {
            *connection = None;
        }
        answer
    }

    async fn exchange(
        &self,
        connection: &mut Option<TcpStream>,
        address: &Address,
        request: &Request,
        limit: Duration,
    ) -> Result<Answer, Lost> {
        if connection.is_none() {
            // A transaction does not wait for a new connection: a ping makes
            // one, and until then every write finds the replica gone.
            if matches!(request, Rpc::Prepare { .. }) {
                return Err(Lost::Broken);
            }
            let connecting = connect(address);
            let stream = timeout(self.config.timing.connect(), connecting)
                .await
                .map_err(|_| Lost::Broken)?
                .map_err(|_| Lost::Broken)?;
            let _ = stream.set_nodelay(true);
            *connection = Some(stream);
        }
        let stream = connection.as_mut().ok_or(Lost::Broken)?;
        let exchange = async {
            if matches!(request, Rpc::Prepare { .. }) {
                // A transaction is streamed to somebody who listens: one who
                // sleeps must not find it later in his kernel's buffers.
                wire::send(stream, &Request::Ping).await?;
                wire::receive::<Answer>(stream).await?;
            }
            wire::send(stream, request).await?;
            wire::receive::<Answer>(stream).await
        };
        timeout(limit, exchange)
            .await
            .map_err(|_| Lost::TimedOut)?
            .map_err(|_| Lost::Broken)
    }

    fn limit(&self, kind: RpcKind) -> Duration {
        let timing = self.config.timing;
        match kind {
            RpcKind::Ping => timing.ping(),
            RpcKind::SwapMain | RpcKind::Heartbeat | RpcKind::Finalize => timing.short(),
            RpcKind::SystemRecovery | RpcKind::Prepare | RpcKind::Clear | RpcKind::Files => timing.long(),
        }
    }

    /// How long it takes to notice that a request vanished: a new connection
    /// is given up sooner than an answer.
    fn swallowed(&self, kind: RpcKind, limit: Duration, connected: bool) -> Duration {
        let timing = self.config.timing;
        match kind {
            _ if !connected => timing.connect(),
            RpcKind::Prepare => timing.scaled(Duration::from_secs(u64::from(
                self.config.profile.partition_timeout_seconds(),
            ))),
            _ => limit,
        }
    }
}

/// By the file with the names of the sandbox, if there is one and it knows the name; by the system otherwise.
async fn connect(address: &Address) -> std::io::Result<TcpStream> {
    let Address { host, port } = address;
    let file = std::env::var_os(HOSTS_VARIABLE).and_then(|path| std::fs::read_to_string(path).ok());
    let known = file.as_deref().map(|file| lookup(file, host)).unwrap_or_default();
    match known.first() {
        Some(known) => TcpStream::connect((*known, *port)).await,
        None => TcpStream::connect((host.as_str(), *port)).await,
    }
}
