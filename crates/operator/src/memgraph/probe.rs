//! One probe of one pod: bounded, over its own connection.

use super::cluster::Cluster;
use super::contacts::Miss;
use super::database;
use crate::bolt::{ConnectError, Connection};
use bolt::client::ClientError;
use mainstay_core::memgraph::objects::BOLT_PORT;
use mainstay_core::memgraph::observed::{Data, Role};
use mainstay_core::memgraph::rows::Replica;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What a database said.
#[derive(Debug)]
pub struct Said {
    /// Which run of the server.
    pub run: String,
    /// Its role.
    pub role: Role,
    /// What it lists, on a MAIN.
    pub replicas: Option<Vec<Replica>>,
    /// What needs a storage transaction.
    pub data: Option<Data>,
}

/// What came of a probe.
#[derive(Debug)]
pub enum Probed {
    /// It answered.
    Said(Said),
    /// It did not.
    Missed(Miss),
}

/// How much is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The role only.
    Role,
    /// Everything.
    Full,
}

/// Asks one database, if it is reached within this time. The connection is used again next time if it is still good.
pub async fn probe(
    cluster: &Cluster,
    ip: IpAddr,
    before: Option<Connection>,
    reach: Duration,
    depth: Depth,
) -> (Probed, Option<Connection>) {
    match ask(cluster, ip, before, reach, depth).await {
        Ok((said, connection)) => (Probed::Said(said), connection),
        Err(miss) => (Probed::Missed(miss), None),
    }
}

async fn ask(
    cluster: &Cluster,
    ip: IpAddr,
    before: Option<Connection>,
    reach: Duration,
    depth: Depth,
) -> Result<(Said, Option<Connection>), Miss> {
    let patience = cluster.settings.probe;
    let (mut connection, (role, run)) = greet(cluster, ip, before, reach).await?;
    let mut said = Said {
        run,
        role,
        replicas: None,
        data: None,
    };
    if depth == Depth::Role {
        return Ok((said, Some(connection)));
    }
    let mut alive = true;
    if role == Role::Main {
        // First what is answered while a commit hangs.
        match database::replicas(&mut connection, &cluster.prefix(), patience).await {
            Ok(replicas) => said.replicas = Some(replicas),
            Err(error) => {
                tracing::debug!(%ip, %error, "SHOW REPLICAS was not answered");
                alive = !error.is_silence();
            }
        }
    }
    if alive {
        match database::data(&mut connection, cluster.memgraph, patience).await {
            Ok(data) => said.data = Some(data),
            Err(error) => {
                tracing::debug!(%ip, %error, "the data could not be read");
                alive = !error.is_silence();
            }
        }
    }
    Ok((said, alive.then_some(connection)))
}

/// A connection whose server answered with its role. One from before may be to a process that is gone: then a new
/// one is tried at once, and only that one counts.
async fn greet(
    cluster: &Cluster,
    ip: IpAddr,
    before: Option<Connection>,
    reach: Duration,
) -> Result<(Connection, (Role, String)), Miss> {
    let patience = cluster.settings.probe;
    if let Some(mut connection) = before {
        match database::role(&mut connection, patience).await {
            Ok(said) => return Ok((connection, said)),
            Err(database::AskError::Client(ClientError::TimedOut)) => return Err(Miss::Silent),
            Err(_) => {}
        }
    }
    let address = SocketAddr::new(ip, BOLT_PORT);
    let mut connection = Connection::open(address, &cluster.dial(reach))
        .await
        .map_err(|error| {
            if let ConnectError::Login(error) = &error {
                tracing::warn!(%ip, %error, "the database does not let the operator in");
            }
            Miss::from(&error)
        })?;
    match database::role(&mut connection, patience).await {
        Ok(said) => Ok((connection, said)),
        Err(database::AskError::Client(ClientError::TimedOut)) => Err(Miss::Silent),
        Err(database::AskError::Client(ClientError::Closed)) => Err(Miss::Refused),
        Err(error) => {
            tracing::warn!(%ip, %error, "the role could not be read");
            Err(Miss::Useless)
        }
    }
}

/// Does something listen on the replication port (R28)?
pub async fn replication_port(ip: IpAddr, port: u16, patience: Duration) -> bool {
    let address = SocketAddr::new(ip, port);
    matches!(timeout(patience, TcpStream::connect(address)).await, Ok(Ok(_)))
}
