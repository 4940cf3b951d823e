//! The first bytes of a connection, before it is a client: who it is from, and its encryption.

use super::Shared;
use super::allowance::Allowance;
use super::secured::Secured;
use super::stream::{Stream, read_what_is_there};
use crate::proxy_header::{self, HeaderError, Origin};
use std::io;
use std::net::SocketAddr;
use thiserror::Error;
use tokio::net::TcpStream;

/// Why a connection does not become a client.
#[derive(Debug, Error)]
pub(crate) enum ArriveError {
    #[error("it broke: {0}")]
    Io(#[from] io::Error),
    #[error("no header of the PROXY protocol: {0}")]
    Header(#[from] HeaderError),
    #[error("no TLS: {0}")]
    Tls(io::Error),
    #[error("it was silent for too long")]
    Silent,
}

impl ArriveError {
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Io(_) => "client_gone",
            Self::Header(_) => "client_no_proxy_header",
            Self::Tls(_) => "client_no_tls",
            Self::Silent => "client_silent",
        }
    }
}

/// The two ends of a connection, as the client sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
}

/// Who a connection is from, as the load balancer says, where there is one.
pub(crate) async fn ends(
    shared: &Shared,
    tcp: &TcpStream,
    peer: SocketAddr,
    allowance: &mut Allowance,
) -> Result<Ends, ArriveError> {
    let here = Ends {
        source: peer,
        destination: tcp.local_addr()?,
    };
    if !shared.config.front.proxy_protocol {
        return Ok(here);
    }
    let said = allowance.spend(header(tcp)).await;
    Ok(match said.ok_or(ArriveError::Silent)?? {
        Origin::Unknown => here,
        Origin::Carried { source, destination } => Ends { source, destination },
    })
}

/// Reads a header and not a byte more: what comes after it is for somebody else.
async fn header(tcp: &TcpStream) -> Result<Origin, ArriveError> {
    let mut bytes = Vec::new();
    loop {
        if let Some(origin) = proxy_header::read(&mut bytes.as_slice())? {
            return Ok(origin);
        }
        tcp.readable().await?;
        let before = bytes.len();
        let missing = proxy_header::missing(&bytes);
        bytes.resize(before.saturating_add(missing), 0);
        let read = read_what_is_there(tcp, bytes.get_mut(before..).unwrap_or_default());
        bytes.truncate(before.saturating_add(*read.as_ref().unwrap_or(&0)));
        match read {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The connection, encrypted where that is wanted.
pub(crate) async fn secure(
    shared: &Shared,
    tcp: TcpStream,
    allowance: &mut Allowance,
) -> Result<Stream, ArriveError> {
    let Some(config) = shared.secure.front() else {
        return Ok(tcp.into());
    };
    let accepted = Box::pin(allowance.spend(Secured::accept(tcp, config))).await;
    let accepted = accepted.ok_or(ArriveError::Silent)?;
    Ok(Stream::Tls(Box::new(accepted.map_err(ArriveError::Tls)?)))
}
