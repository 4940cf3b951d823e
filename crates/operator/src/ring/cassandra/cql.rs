//! Four tables of one node. Virtual tables answer for whoever coordinates, so the session knows this node and no other.

use mainstay_core::ring::ids::{Address, HostId, Location, Name};
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{ExecutionError, IntoRowsResultError, NewSessionError, RowsError};
use scylla::policies::host_filter::AllowListHostFilter;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::response::query_result::QueryRowsResult;
use scylla::statement::Consistency;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;

/// Where clients are let in.
const PORT: u16 = 9042;

/// Why a node's tables cannot be read.
#[derive(Debug, Error)]
pub enum CqlError {
    /// No session.
    #[error("cql: {0}")]
    Session(#[from] NewSessionError),
    /// The filter.
    #[error("cql: {0}")]
    Filter(#[from] std::io::Error),
    /// A statement.
    #[error("cql: {0}")]
    Statement(#[from] ExecutionError),
    /// No rows.
    #[error("cql: {0}")]
    NoRows(#[from] IntoRowsResultError),
    /// Rows of another shape.
    #[error("cql: {0}")]
    Rows(#[from] RowsError),
    /// A row that cannot be read.
    #[error("cql: a row is not understood: {0}")]
    Row(String),
    /// All of it took too long.
    #[error("cql: not everything was answered in {0:?}")]
    Slow(Duration),
}

/// A row of `system_views.gossip_info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gossiped {
    /// Whose.
    pub address: Address,
    /// Rises with each start.
    pub generation: i32,
    /// Rises each second.
    pub heartbeat: i32,
    /// What it is doing.
    pub status: Option<String>,
    /// Who it is.
    pub host: Option<HostId>,
    /// Where it lives.
    pub location: Option<Location>,
    /// The version of its schema.
    pub schema: Option<String>,
}

/// What the tables say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Everybody, as this node has heard.
    pub gossip: Vec<Gossiped>,
    /// Where members live, from disk: also of those that were not heard of since.
    pub peers: BTreeMap<Address, Location>,
    /// Replication by keyspace.
    pub keyspaces: Vec<(Name, BTreeMap<String, String>)>,
}

impl Tables {
    /// Reads them. The session ends with the reading.
    pub async fn read(at: IpAddr, patience: Duration) -> Result<Self, CqlError> {
        timeout(patience, async {
            let session = session(at, patience).await?;
            Ok(Self {
                gossip: gossip(&session).await?,
                peers: peers(&session).await?,
                keyspaces: keyspaces(&session).await?,
            })
        })
        .await
        .unwrap_or(Err(CqlError::Slow(patience)))
    }
}

async fn session(at: IpAddr, patience: Duration) -> Result<Session, CqlError> {
    let node = SocketAddr::new(at, PORT);
    let only = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::NodeAddress(node), None);
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::One)
        .request_timeout(Some(patience))
        .load_balancing_policy(only)
        .build();
    Ok(SessionBuilder::new()
        .known_node_addr(node)
        .host_filter(Arc::new(AllowListHostFilter::new([node])?))
        .pool_size(PoolSize::PerHost(NonZeroUsize::MIN))
        .connection_timeout(patience)
        .fetch_schema_metadata(false)
        .default_execution_profile_handle(profile.into_handle())
        .build()
        .await?)
}

async fn select(session: &Session, statement: &str) -> Result<QueryRowsResult, CqlError> {
    Ok(session.query_unpaged(statement, ()).await?.into_rows_result()?)
}

fn row<T, E: std::fmt::Display>(row: Result<T, E>) -> Result<T, CqlError> {
    row.map_err(|error| CqlError::Row(error.to_string()))
}

fn location(dc: Option<String>, rack: Option<String>) -> Option<Location> {
    Some(Location {
        dc: dc?.parse().ok()?,
        rack: rack?.parse().ok()?,
    })
}

type GossipColumns = (
    IpAddr,
    i32,
    i32,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
);

async fn gossip(session: &Session) -> Result<Vec<Gossiped>, CqlError> {
    // Without ports in it before all nodes speak of them.
    let statement = "SELECT address, generation, heartbeat, status_with_port, host_id, dc, rack, \"schema\" \
                     FROM system_views.gossip_info";
    let found = select(session, statement).await?;
    let mut rows = Vec::new();
    for columns in found.rows::<GossipColumns>()? {
        let (address, generation, heartbeat, status, host, dc, rack, schema) = row(columns)?;
        rows.push(Gossiped {
            address: Address(address),
            generation,
            heartbeat,
            status,
            host: host.and_then(|text| text.parse().ok()),
            location: location(dc, rack),
            schema,
        });
    }
    Ok(rows)
}

async fn peers(session: &Session) -> Result<BTreeMap<Address, Location>, CqlError> {
    let mut places = BTreeMap::new();
    let found = select(session, "SELECT peer, data_center, rack FROM system.peers_v2").await?;
    for columns in found.rows::<(IpAddr, Option<String>, Option<String>)>()? {
        let (peer, dc, rack) = row(columns)?;
        places.extend(location(dc, rack).map(|l| (Address(peer), l)));
    }
    let statement = "SELECT broadcast_address, data_center, rack FROM system.local";
    let found = select(session, statement).await?;
    for columns in found.rows::<(Option<IpAddr>, Option<String>, Option<String>)>()? {
        let (own, dc, rack) = row(columns)?;
        places.extend(own.zip(location(dc, rack)).map(|(own, l)| (Address(own), l)));
    }
    Ok(places)
}

async fn keyspaces(session: &Session) -> Result<Vec<(Name, BTreeMap<String, String>)>, CqlError> {
    let statement = "SELECT keyspace_name, replication FROM system_schema.keyspaces";
    let found = select(session, statement).await?;
    let mut all = Vec::new();
    for columns in found.rows::<(String, BTreeMap<String, String>)>()? {
        let (name, replication) = row(columns)?;
        let name = name
            .parse()
            .map_err(|error| CqlError::Row(format!("{name}: {error}")))?;
        all.push((name, replication));
    }
    Ok(all)
}
