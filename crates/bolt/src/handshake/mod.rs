//! The handshake: 20 bytes from the client, 4 from the server.
//!
//! A client sends the magic number and four proposals in order of preference.
//! Memgraph takes the first proposal it can serve, and of a range the newest
//! minor version. If it can serve none it does not answer `00 00 00 00` as the
//! specification says: it sends a chunked FAILURE and closes.

mod client;
mod proposal;
mod server;
#[cfg(test)]
mod tests;

pub use client::ClientHandshake;
pub use proposal::{Proposal, Proposals, VersionRange};
pub use server::{ServerHandshake, choose};

use crate::version::Version;
use thiserror::Error;

/// The first four bytes of every Bolt connection.
pub const MAGIC: [u8; 4] = [0x60, 0x60, 0xB0, 0x17];

/// How many bytes a client sends: the magic number and four proposals.
pub const REQUEST_SIZE: usize = 20;

/// How many bytes a server answers.
pub const ANSWER_SIZE: usize = 4;

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// The peer speaks something else.
    #[error("the peer does not speak Bolt: {0}")]
    NotBolt(Stranger),
    /// The peer speaks Bolt, but no version we know.
    #[error("no common protocol version")]
    NoCommonVersion,
    /// The server chose a version that was not proposed.
    #[error("the server chose {0}, which was not proposed")]
    NotProposed(Version),
}

/// What a peer that does not speak Bolt seems to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Stranger {
    /// A request or an answer in HTTP; also how a WebSocket begins.
    #[error("it speaks HTTP")]
    Http,
    /// A TLS record: one side has TLS switched on, the other not.
    #[error("it speaks TLS")]
    Tls,
    /// Anything else.
    #[error("it began with {0:02x?}")]
    Unknown([u8; 4]),
}

impl Stranger {
    fn recognise(start: [u8; 4]) -> Self {
        match &start {
            b"GET " | b"POST" | b"HEAD" | b"PUT " | b"OPTI" | b"DELE" | b"PATC" | b"CONN" | b"TRAC"
            | b"PRI " | b"HTTP" => Self::Http,
            // Handshake or alert record, any version from SSL 3 on.
            [0x15 | 0x16, 0x03, _, _] => Self::Tls,
            _ => Self::Unknown(start),
        }
    }
}

/// Collects a fixed number of bytes that may come in any number of pieces.
#[derive(Clone, Debug)]
struct Collect<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Collect<N> {
    const fn new() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }

    /// Takes what it still needs from the front of `input`.
    fn take(&mut self, input: &mut &[u8]) {
        while self.len < N
            && let Some((&first, rest)) = input.split_first()
            && let Some(slot) = self.bytes.get_mut(self.len)
        {
            *slot = first;
            self.len += 1;
            *input = rest;
        }
    }

    fn is_full(&self) -> bool {
        self.len == N
    }
}
