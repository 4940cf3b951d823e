//! The server's end of a conversation, with the manners of a real Memgraph.
//!
//! Bytes go in through [`ServerSession::handle`], and [`ServerSession::poll`]
//! gives bytes to send and [`Event`]s to carry out. Every event except
//! [`Event::Connected`], [`Event::LoggedOff`] and [`Event::Left`] waits for
//! its reply; until it came the session reads no further message, as Memgraph
//! does not: RESET does not interrupt a query.
//!
//! # What a client sees
//!
//! - After a FAILURE everything is IGNORED until RESET, GOODBYE included.
//! - A message that is malformed, unknown to the version or out of place gets
//!   [`crate::message::Failure::UNEXPECTED`] and the connection is closed. The
//!   same answers a handshake that leads nowhere.
//! - COMMIT or ROLLBACK without BEGIN, and BEGIN in a transaction, are plain
//!   failures: the session is usable after RESET.
//!
//! Recorded from real servers and played back in `tests/memgraph.rs`; the few
//! things that are only known from reading their source are marked there.

mod config;
mod event;
mod inbox;
mod reply;
mod session;
#[cfg(test)]
mod tests;

pub use config::{LogoffReply, RouteRule, ServerConfig, ServerProfile};
pub use event::{Event, Login, ServerInput, ServerOutput};
pub use reply::ReplyError;
pub use session::ServerSession;
