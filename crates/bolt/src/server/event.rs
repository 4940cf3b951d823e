//! What goes into a server session and what comes out.

use crate::message::{Auth, Extra, Fetch, Route, Run};
use crate::packstream::OwnedDict;
use crate::version::Version;

/// What happened to the connection.
#[derive(Clone, Copy, Debug)]
pub enum ServerInput<'a> {
    /// Bytes came.
    Bytes(&'a [u8]),
    /// Time passed.
    Tick,
    /// The connection was closed by the peer or broke.
    Closed,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerOutput {
    /// Send these bytes.
    Transmit(Vec<u8>),
    /// Carry this out. It is named which reply it waits for.
    Event(Event),
    /// Close the connection. Nothing comes after this.
    Close,
}

/// What a client wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The handshake is done. No reply.
    Connected(Version),
    /// Check who the client is. Reply: `accept`, `refuse` or `turn_away`.
    Login(Login),
    /// The client is nobody again; its transaction, if it has one, is to be rolled back. No reply.
    LoggedOff,
    /// Prepare a query. Reply: `run_started` or `fail`.
    Run {
        /// The query.
        run: Run<'static>,
        /// Whether it belongs to an open transaction.
        in_transaction: bool,
    },
    /// Send records. Reply: any number of `record`, then `fetched` or `fail`.
    Pull(Fetch),
    /// Drop records. Reply: `fetched` or `fail`.
    Discard(Fetch),
    /// Begin a transaction. Reply: `done` or `fail`.
    Begin(Extra<'static>),
    /// Commit the transaction. Reply: `done` or `fail`.
    Commit,
    /// Roll the transaction back. Reply: `done` or `fail`.
    Rollback,
    /// Drop results and transaction, if there are any. Reply: `done` or `fail`.
    Reset,
    /// Say who serves what. Reply: `done` or `fail`.
    Route(Route<'static>),
    /// The client is gone, or was sent away; its transaction, if it has one, is
    /// to be rolled back. A pending event needs no reply any more.
    Left,
}

/// A login.
#[derive(Clone, Debug, PartialEq)]
pub struct Login {
    /// The name the client gave in HELLO; none if it came without one.
    pub user_agent: Option<String>,
    /// What else it said in HELLO. Who connects it to another server has to repeat it there.
    pub hello: OwnedDict,
    /// Who the client says it is.
    pub auth: Auth<'static>,
}
