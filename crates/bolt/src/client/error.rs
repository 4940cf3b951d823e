//! What can go wrong for a client.

use crate::frame::FrameError;
use crate::handshake::HandshakeError;
use crate::message::{Failure, MessageError};
use crate::version::Version;
use thiserror::Error;

/// Why a request failed or a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// The server said no.
    #[error("the server refused: {0}")]
    ServerFailure(Failure<'static>),
    /// The server says things that make no sense. The session is closed.
    #[error("the server broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// No answer in time. The session is closed; whether the request was carried out is unknown.
    #[error("no answer in time")]
    TimedOut,
    /// The connection ended. Whether the request was carried out is unknown.
    #[error("the connection was closed")]
    Closed,
}

impl ClientError {
    /// Whether the request may or may not have been carried out.
    ///
    /// A refusal is an answer; everything else is none. (That a refused commit
    /// may still have happened on one side of a replicated database is for the
    /// reader of the failure to know.)
    pub const fn leaves_outcome_unknown(&self) -> bool {
        match self {
            Self::ServerFailure(_) => false,
            Self::Protocol(_) | Self::TimedOut | Self::Closed => true,
        }
    }
}

/// How a server broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// In the handshake.
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    /// In the framing.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// In a message.
    #[error("{0}")]
    Message(#[from] MessageError),
    /// A message that has no place here.
    #[error("a message came that nobody waits for")]
    Unexpected,
    /// A version was agreed that this client cannot speak.
    #[error("Bolt {0} is too old")]
    VersionTooOld(Version),
    /// A result is larger than allowed.
    #[error("a result is larger than {limit} bytes")]
    ResultTooLarge {
        /// The most that was allowed.
        limit: usize,
    },
}

/// Why a request was not accepted. Nothing was sent and nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// The session is not logged in yet, busy with another request, or closed.
    #[error("the session is not ready")]
    NotReady,
    /// A transaction is already open.
    #[error("a transaction is already open")]
    InTransaction,
    /// No transaction is open.
    #[error("no transaction is open")]
    NotInTransaction,
    /// The request does not fit the protocol.
    #[error("{0}")]
    Message(#[from] MessageError),
}
