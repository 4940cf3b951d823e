//! What stand-ins tell each other: one line of JSON there, one back.

use mainstay_core::ring::ids::{Address, HostId, Location};
use serde::{Deserialize, Serialize};
use sim::ring::model::node::Process;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::node::{HOSTS_VARIABLE, lookup};

/// The longest line that is read.
const LONGEST: u64 = 1024 * 1024;

/// Everything that one node tells of itself and of what it knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Snapshot {
    pub(super) address: Address,
    pub(super) location: Location,
    pub(super) process: Option<Process>,
    pub(super) rows: BTreeSet<u16>,
    pub(super) left: BTreeSet<HostId>,
    pub(super) excluded: BTreeSet<HostId>,
    pub(super) joining: Option<(HostId, Option<HostId>)>,
}

/// What is said.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// Gossip, both ways. A node that starts has nothing to tell yet, and only asks.
    Gossip(Option<Box<Snapshot>>),
    /// A node stops on purpose.
    Goodbye(HostId),
    /// A node has left, or was removed.
    Gone(HostId),
    /// May this node become a member now? Whoever agrees does not take it back any more.
    Consent(HostId),
    /// Keep this row.
    Store(u16),
}

/// What comes back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// To gossip.
    Snapshot(Box<Snapshot>),
    /// Done.
    Ok,
    /// Not agreed: a majority has taken back what this node began.
    Banned,
}

/// Says something to whoever is known under this address, and hears the answer.
pub(super) async fn say(to: Address, port: u16, message: &Message, patience: Duration) -> io::Result<Reply> {
    let exchange = async {
        let mut stream = connect(to, port).await?;
        stream.set_nodelay(true)?;
        let line = serde_json::to_string(message)?;
        stream.write_all(format!("{line}\n").as_bytes()).await?;
        let mut answer = String::new();
        BufReader::new(stream)
            .take(LONGEST)
            .read_line(&mut answer)
            .await?;
        Ok(serde_json::from_str(&answer)?)
    };
    timeout(patience, exchange)
        .await
        .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)))
}

/// Reads what somebody says.
pub(super) async fn hear(stream: &mut BufReader<TcpStream>) -> io::Result<Message> {
    let mut line = String::new();
    stream.take(LONGEST).read_line(&mut line).await?;
    Ok(serde_json::from_str(&line)?)
}

/// On the sandbox nobody routes the address of a Service: it is looked up like a name.
async fn connect(to: Address, port: u16) -> io::Result<TcpStream> {
    let file = std::env::var_os(HOSTS_VARIABLE).and_then(|path| std::fs::read_to_string(path).ok());
    let known = file.as_deref().map(|file| lookup(file, &to.to_string()));
    let routed = known
        .unwrap_or_default()
        .first()
        .and_then(|text| text.parse::<IpAddr>().ok());
    TcpStream::connect((routed.unwrap_or(to.0), port)).await
}
