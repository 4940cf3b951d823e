//! The client's end of a conversation.
//!
//! One request at a time. Time and bytes go in through
//! [`ClientSession::handle`], requests through the methods named after them;
//! after every call take from [`ClientSession::poll`] until it is empty, and
//! call again with [`ClientInput::Tick`] when [`ClientSession::next_deadline`]
//! has come.
//!
//! # Guarantees
//!
//! Every request that was accepted gets exactly one [`ClientOutput::Finished`].
//! When it comes, the session is ready for the next request or closed: a
//! failure of the server is cleared with RESET before it is reported.
//! [`ClientError::TimedOut`] and [`ClientError::Closed`] mean that nobody knows
//! whether the request was carried out.

mod config;
mod error;
mod output;
mod pending;
mod session;
#[cfg(test)]
mod tests;

pub use config::ClientConfig;
pub use error::{ClientError, CommandError, ProtocolError};
pub use output::{Answer, ClientInput, ClientOutput, QueryResult, RequestId, ServerInfo, Summary};
pub use session::{ClientSession, ClientState};
