//! Where records come from and confirmations go.

mod channel;
mod follow;
mod register;
mod wake;

use crate::session::Shared;
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::objects::Confirmation;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often it is said whom the gateway hears, while it hears somebody.
const HEARD_EVERY: Duration = Duration::from_secs(1);

/// Where records come from and confirmations go.
#[derive(Clone)]
pub enum Plane {
    /// The cluster's ConfigMap, and a Lease of the gateway's own.
    Kubernetes(kube::Client),
    /// Channels: for tests, and for a gateway inside another program.
    Channel {
        /// The record, as it changes.
        records: watch::Receiver<Option<Record>>,
        /// What the gateway says of itself; `None` until it is registered, and when it is gone.
        told: watch::Sender<Option<Confirmation>>,
    },
}

impl Plane {
    /// Registers, follows the record and confirms until told to stop; then the registration is taken back.
    pub(crate) async fn run(self, shared: Arc<Shared>, push: String, stop: CancellationToken) {
        match self {
            Self::Channel { records, told } => channel::run(&shared.control, records, &told, &stop).await,
            Self::Kubernetes(client) => {
                let follow = follow::run(&shared, client.clone());
                let wake = wake::run(&shared, client.clone());
                let register = register::Registration::new(&shared, client, push);
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = follow => {}
                    () = wake => {}
                    () = register.keep() => {}
                }
                register.take_back().await;
            }
        }
    }
}
