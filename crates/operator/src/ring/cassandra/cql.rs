//! Four tables of one node. Virtual tables answer for whoever coordinates, so what is asked goes over one connection to this
//! node, and to no other.

mod frame;

pub use frame::{Consistency, FrameError, Row};

use mainstay_core::ring::ids::{Address, HostId, Location, Name};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Where clients are let in.
const PORT: u16 = 9042;

/// Why a node's tables cannot be read.
#[derive(Debug, Error)]
pub enum CqlError {
    /// The connection.
    #[error("cql: {0}")]
    Io(#[from] io::Error),
    /// An answer.
    #[error("cql: {0}")]
    Frame(#[from] FrameError),
    /// A row without what it must have, or with a name that is none.
    #[error("cql: {0} is not there, or is not one")]
    Missing(&'static str),
    /// It took too long.
    #[error("cql: not everything was answered in {0:?}")]
    Slow(Duration),
}

/// A connection to one node.
#[derive(Debug)]
pub struct Cql {
    stream: TcpStream,
    patience: Duration,
}

impl Cql {
    /// Connects to the node of this pod.
    pub async fn connect(at: IpAddr, patience: Duration) -> Result<Self, CqlError> {
        let connecting = TcpStream::connect(SocketAddr::new(at, PORT));
        let stream = timeout(patience, connecting)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        stream.set_nodelay(true)?;
        let mut cql = Self { stream, patience };
        let (opcode, body) = cql.exchange(&frame::startup()).await?;
        frame::ready(opcode, &body)?;
        Ok(cql)
    }

    /// Runs one statement.
    pub async fn run(&mut self, statement: &str, consistency: Consistency) -> Result<Vec<Row>, CqlError> {
        let (opcode, body) = self.exchange(&frame::query(statement, consistency)).await?;
        Ok(frame::rows(opcode, &body)?)
    }

    /// One question, one answer. A connection on which one was left unanswered is not used again: it goes with its error.
    async fn exchange(&mut self, request: &[u8]) -> Result<(u8, Vec<u8>), CqlError> {
        let patience = self.patience;
        let stream = &mut self.stream;
        timeout(patience, async {
            stream.write_all(request).await?;
            let mut header = [0; frame::HEADER];
            stream.read_exact(&mut header).await?;
            let (opcode, length) = frame::header(header)?;
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await?;
            Ok((opcode, body))
        })
        .await
        .unwrap_or(Err(CqlError::Slow(patience)))
    }

    async fn select(&mut self, statement: &str) -> Result<Vec<Row>, CqlError> {
        self.run(statement, Consistency::One).await
    }
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
    /// Reads them. The connection ends with the reading.
    pub async fn read(at: IpAddr, patience: Duration) -> Result<Self, CqlError> {
        timeout(patience, async {
            let mut cql = Cql::connect(at, patience).await?;
            Ok(Self {
                gossip: gossip(&mut cql).await?,
                peers: peers(&mut cql).await?,
                keyspaces: keyspaces(&mut cql).await?,
            })
        })
        .await
        .unwrap_or(Err(CqlError::Slow(patience)))
    }
}

fn location(row: &Row, dc: usize, rack: usize) -> Result<Option<Location>, CqlError> {
    let both = row.text(dc)?.zip(row.text(rack)?);
    Ok(both.and_then(|(dc, rack)| {
        Some(Location {
            dc: dc.parse().ok()?,
            rack: rack.parse().ok()?,
        })
    }))
}

async fn gossip(cql: &mut Cql) -> Result<Vec<Gossiped>, CqlError> {
    let statement = "SELECT address, generation, heartbeat, status_with_port, host_id, dc, rack, \"schema\" \
                     FROM system_views.gossip_info";
    let gossiped = |row: &Row| -> Result<Gossiped, CqlError> {
        Ok(Gossiped {
            address: Address(row.inet(0)?.ok_or(CqlError::Missing("address"))?),
            generation: row.int(1)?.ok_or(CqlError::Missing("generation"))?,
            heartbeat: row.int(2)?.ok_or(CqlError::Missing("heartbeat"))?,
            status: row.text(3)?,
            host: row.text(4)?.and_then(|text| text.parse().ok()),
            location: location(row, 5, 6)?,
            schema: row.text(7)?,
        })
    };
    cql.select(statement).await?.iter().map(gossiped).collect()
}

async fn peers(cql: &mut Cql) -> Result<BTreeMap<Address, Location>, CqlError> {
    let mut places = BTreeMap::new();
    for statement in [
        "SELECT peer, data_center, rack FROM system.peers_v2",
        "SELECT broadcast_address, data_center, rack FROM system.local",
    ] {
        for row in cql.select(statement).await? {
            let place = row.inet(0)?.zip(location(&row, 1, 2)?);
            places.extend(place.map(|(at, place)| (Address(at), place)));
        }
    }
    Ok(places)
}

async fn keyspaces(cql: &mut Cql) -> Result<Vec<(Name, BTreeMap<String, String>)>, CqlError> {
    let statement = "SELECT keyspace_name, replication FROM system_schema.keyspaces";
    let keyspace = |row: &Row| -> Result<_, CqlError> {
        let name = row.text(0)?.and_then(|name| name.parse().ok());
        Ok((name.ok_or(CqlError::Missing("keyspace_name"))?, row.map(1)?))
    };
    cql.select(statement).await?.iter().map(keyspace).collect()
}
