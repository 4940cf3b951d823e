//! The private replication protocol: a length, then JSON, both ways.

use super::graph::Graph;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sim::memgraph::instance::Rpc;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What a MAIN asks.
pub(super) type Request = Rpc<Graph>;

/// Nothing that a test writes is larger; a length that is comes from somebody
/// who speaks something else.
const LARGEST: u32 = 256 * 1024 * 1024;

pub(super) async fn send<T: Serialize>(stream: &mut TcpStream, value: &T) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    let length = u32::try_from(bytes.len())
        .ok()
        .filter(|length| *length <= LARGEST)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "message too large"))?;
    let mut frame = Vec::with_capacity(bytes.len() + 4);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&bytes);
    stream.write_all(&frame).await
}

pub(super) async fn receive<T: DeserializeOwned>(stream: &mut TcpStream) -> io::Result<T> {
    let length = stream.read_u32().await?;
    if length > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "message too large"));
    }
    // Grows with what really comes: a length alone costs nothing.
    let mut bytes = Vec::new();
    let read = AsyncReadExt::take(&mut *stream, u64::from(length))
        .read_to_end(&mut bytes)
        .await?;
    if read < usize::try_from(length).unwrap_or(usize::MAX) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}
