//! `SET REPLICATION ROLE`.

use super::clock::random_id;
use super::node::Node;
use super::replica;
use bolt::message::Failure;
use sim::memgraph::instance::{EpochId, MainId};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

impl Node {
    /// `SET REPLICATION ROLE TO MAIN`.
    pub(super) async fn promote(self: &Arc<Self>) -> Result<(), Failure<'static>> {
        let refused = || Failure::client("Couldn't set replication role to main!");
        let patience = self.config.timing.state_lock();
        let _state = timeout(patience, self.state.write())
            .await
            .map_err(|_| refused())?;
        let saved = {
            let mut core = self.core();
            core.model
                .promote(EpochId(random_id()), MainId(random_id()))
                .map_err(|_| refused())?;
            core.prepared = None;
            core.port = None;
            core.next_vertex = core.model.store().0.next_id();
            if let Some(listener) = core.listener.take() {
                listener.abort();
            }
            core.save_replication()
        };
        self.written(saved).await;
        let asked = self.faults.active().slow_promotion_ms;
        sleep(asked.map_or_else(|| self.config.timing.promotion(), Duration::from_millis)).await;
        Ok(())
    }

    /// `SET REPLICATION ROLE TO REPLICA WITH PORT …`.
    pub(super) async fn demote(self: &Arc<Self>, port: i64) -> Result<(), Failure<'static>> {
        let port = u16::try_from(port).map_err(|_| Failure::client("Port number invalid!"))?;
        let refused = || Failure::client("Couldn't set role to replica!");
        let patience = self.config.timing.state_lock();
        let _state = timeout(patience, self.state.write())
            .await
            .map_err(|_| refused())?;
        let saved = {
            let mut core = self.core();
            core.model.demote(MainId(random_id())).map_err(|_| refused())?;
            core.port = Some(port);
            core.to_introduce.clear();
            core.save_replication()
        };
        self.written(saved).await;
        self.links.close_all();
        // Too late to go back: the role stays even if the port does not open.
        let taken = std::mem::take(&mut self.faults.active().bind_fail);
        if taken || self.listen(port).await.is_err() {
            return Err(refused());
        }
        Ok(())
    }

    /// Opens the replication port.
    pub(super) async fn listen(self: &Arc<Self>, port: u16) -> std::io::Result<()> {
        let address = SocketAddr::new(self.config.replication_address, port);
        let listener = TcpListener::bind(address).await?;
        let task = self.spawn(replica::serve(Arc::downgrade(self), listener));
        if let Some(before) = self.core().listener.replace(task) {
            before.abort();
        }
        Ok(())
    }
}
