//! Beside a Cassandra: once it is a member, its configuration lists every member as a seed, itself included. Whoever
//! takes over an address of the ring is then gossiped with (CASSANDRA-19580), and a ring that was stopped as a whole
//! starts again. The operator makes the database read it (`reloadSeeds`).
//!
//! Never before: a node that is its own seed does not stream, it begins with nothing.

use super::ring_gate::cassandra::{current, reseed};
use super::{GateError, RingAskError};
use crate::call::bounded;
use crate::ring::RING_LABEL;
use crate::ring::cassandra::Jolokia;
use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;
use kube::{Api, Client};
use mainstay_core::ring::ids::Address;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::sleep;

/// Whose seeds are kept.
#[derive(Clone, Debug)]
pub struct SeedsTask {
    /// Of which ring.
    pub cluster: String,
    /// In which namespace.
    pub namespace: String,
    /// Where the gate put the configuration.
    pub state: PathBuf,
    /// The database beside.
    pub database: Jolokia,
    /// Between two looks.
    pub pause: Duration,
    /// How long a call may take.
    pub patience: Duration,
}

/// Looks for ever.
pub async fn ring_seeds(
    task: &SeedsTask,
    mut client: impl AsyncFnMut() -> Result<Client, RingAskError>,
    mut say: impl FnMut(&str),
) {
    let mut told = None;
    loop {
        let looked = match client().await {
            Ok(client) => look(task, client).await,
            Err(error) => Err(error.to_string()),
        };
        let line = match looked {
            Ok(true) => Some("the seeds are all members now".to_owned()),
            Ok(false) => None,
            Err(error) => Some(error),
        };
        if let Some(line) = line.filter(|line| told.as_ref() != Some(line)) {
            say(&line);
            told = Some(line);
        }
        sleep(task.pause).await;
    }
}

/// `true` if other seeds were written.
async fn look(task: &SeedsTask, client: Client) -> Result<bool, String> {
    // Which start is meant, first: whoever answers next was started with this file, or with a later one.
    let named = current(&task.state).map_err(|error: GateError| error.to_string())?;
    let Some(config) = named else {
        return Ok(false);
    };
    match task.database.is_bootstrapped().await {
        Ok(true) => {}
        // It waits at its gate, or starts.
        Ok(false) | Err(_) => return Ok(false),
    }
    let services: Api<Service> = Api::namespaced(client, &task.namespace);
    let params = ListParams::default().labels(&format!("{RING_LABEL}={}", task.cluster));
    let all = bounded(task.patience, services.list(&params))
        .await
        .map_err(|error| error.to_string())?;
    let address = |s: &Service| s.spec.as_ref()?.cluster_ip.as_ref()?.parse::<Address>().ok();
    let mut seeds: Vec<Address> = all.items.iter().filter_map(address).collect();
    seeds.sort_unstable();
    if seeds.is_empty() {
        return Ok(false);
    }
    reseed(&config, &seeds).map_err(|error| error.to_string())
}
