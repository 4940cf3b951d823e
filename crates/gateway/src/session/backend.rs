//! The database's side of a login, and the check on that very connection (G1).

use super::secured::Secured;
use super::stream::{Stream, forget};
use super::tune;
use super::wire::{Wire, WireError};
use crate::config::Timeouts;
use bolt::handshake::{ClientHandshake, HandshakeError, Proposals};
use bolt::message::{Failure, Fetch, MessageError, Request, Response, Run};
use bolt::packstream::{Limits, Value};
use bolt::version::Version;
use mainstay_core::memgraph::ids::Term;
use mainstay_core::memgraph::observed::Role;
use mainstay_core::memgraph::read_gate::NotRead;
use rustls::ClientConfig;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use socket2::SockRef;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// How long a database may leave what it was sent without a sign of its machine. It is as long as keepalive takes for a
/// silent connection, which counts for nothing while something is on its way.
const LOST: Duration = Duration::from_mins(2);

/// Answered from memory, also while a commit hangs.
const ROLE: &str = "SHOW REPLICATION ROLE";
/// The term that the data belongs to.
const MARK: &str = "MATCH (m:__mainstay) RETURN m.term";

/// Why a database cannot be used for now.
#[derive(Debug, Error)]
pub(crate) enum BackendError {
    #[error("no address: {0}")]
    Resolve(#[source] io::Error),
    #[error("cannot connect: {0}")]
    Connect(#[source] io::Error),
    #[error("no TLS: {0}")]
    Tls(#[source] io::Error),
    #[error("its name is none that a certificate could have: {0}")]
    Name(#[from] InvalidDnsNameError),
    #[error("no answer in time")]
    Silent,
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error("an answer cannot be read: {0}")]
    Message(#[from] MessageError),
    #[error("the check was refused: {0}")]
    Refused(Failure<'static>),
    #[error("an answer has no place here")]
    Unexpected,
    #[error("it is {role:?} and its data shows {mark:?}")]
    NotAdmitted { role: Role, mark: Option<Term> },
    #[error("it is {0:?}, and another role was expected of who takes reads")]
    OtherRole(Role),
    #[error("its data shows no term: it has nothing of MAIN's")]
    Empty,
    #[error("nobody takes reads: {0}")]
    NoReader(NotRead),
}

impl BackendError {
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Resolve(_) => "no_address",
            Self::Connect(_) => "unreachable",
            Self::Tls(_) | Self::Name(_) => "tls",
            Self::Silent => "silent",
            Self::Wire(_) => "lost",
            Self::Handshake(_) | Self::Message(_) | Self::Unexpected => "protocol",
            Self::Refused(_) => "refused",
            Self::NotAdmitted {
                role: Role::Replica, ..
            } => "replica",
            Self::OtherRole(_) => "other_role",
            Self::NoReader(_) => "no_reader",
            Self::NotAdmitted { mark: None, .. } | Self::Empty => "no_mark",
            Self::NotAdmitted { .. } => "other_term",
        }
    }
}

/// What comes before the first word of Bolt.
#[derive(Debug, Default)]
pub(crate) struct Prelude {
    /// A header of the PROXY protocol.
    pub(crate) header: Option<Vec<u8>>,
    /// How it is encrypted, and what the database must be called.
    pub(crate) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Prelude {
    async fn say(&self, mut tcp: TcpStream) -> Result<Stream, BackendError> {
        if let Some(header) = &self.header {
            tcp.write_all(header).await.map_err(BackendError::Connect)?;
        }
        match self.tls.clone() {
            None => Ok(tcp.into()),
            Some((config, name)) => {
                let secured = Box::pin(Secured::connect(tcp, config, name)).await;
                Ok(Stream::Tls(Box::new(secured.map_err(BackendError::Tls)?)))
            }
        }
    }
}

/// What a connection showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) role: Role,
    pub(crate) mark: Option<Term>,
    pub(crate) run_id: Option<String>,
}

/// How long is waited for a database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For each step.
    pub(crate) timeouts: Timeouts,
    /// For all of them, if somebody waits who is not to wait for longer.
    pub(crate) until: Option<Instant>,
}

impl Patience {
    /// For it to be reached.
    pub(crate) async fn connect<T>(&self, step: impl Future<Output = T>) -> Result<T, BackendError> {
        self.within(self.timeouts.connect, step).await
    }

    /// For one of its answers.
    async fn answer<T>(&self, step: impl Future<Output = T>) -> Result<T, BackendError> {
        self.within(self.timeouts.check, step).await
    }

    async fn within<T>(&self, bound: Duration, step: impl Future<Output = T>) -> Result<T, BackendError> {
        let end = Instant::now() + bound;
        let end = self.until.map_or(end, |until| until.min(end));
        timeout_at(end, step).await.map_err(|_| BackendError::Silent)
    }
}

/// A connection to a database.
#[derive(Debug)]
pub(crate) struct Backend {
    wire: Wire,
    patience: Patience,
}

impl Backend {
    /// Connects to the first address that answers.
    pub(crate) async fn dial(
        addresses: &[SocketAddr],
        prelude: &Prelude,
        patience: Patience,
        limit: usize,
    ) -> Result<Self, BackendError> {
        let mut last = BackendError::Silent;
        for address in addresses {
            match patience.connect(TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    tune(&SockRef::from(&stream), Some(LOST));
                    // However this ends, also where nobody comes to say so: after a cut is confirmed the system must not
                    // deliver what was said before. Who leaves in the middle of nothing takes it back.
                    forget(&stream);
                    let stream = patience.answer(prelude.say(stream)).await??;
                    let wire = Wire::new(stream, limit);
                    return Ok(Self { wire, patience });
                }
                Ok(Err(error)) => last = BackendError::Connect(error),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Which version it wants to speak with the client.
    pub(crate) async fn handshake(&mut self, proposals: Proposals) -> Result<Version, BackendError> {
        let mut handshake = ClientHandshake::new(proposals);
        self.wire.send(&handshake.request()).await?;
        let read = self
            .wire
            .read(|_, input| handshake.read(input).map_err(BackendError::from));
        self.patience.answer(read).await?
    }

    /// Waits for somebody else, whose time is not this database's.
    pub(crate) async fn excuse<T>(&mut self, other: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let done = other.await;
        self.patience.until = self.patience.until.map(|until| until + began.elapsed());
        done
    }

    /// Sends a message of the client on, and gives what the database said.
    pub(crate) async fn ask(&mut self, payload: &[u8]) -> Result<Vec<u8>, BackendError> {
        self.wire.send_message(payload).await?;
        self.message().await
    }

    async fn message(&mut self) -> Result<Vec<u8>, BackendError> {
        Ok(self.patience.answer(self.wire.message()).await??)
    }

    /// Asks for role and mark, with the client's own identity, on its own connection.
    pub(crate) async fn check(&mut self, version: Version) -> Result<Checked, BackendError> {
        let mut bytes = Vec::new();
        for query in [ROLE, MARK] {
            Request::Run(Run::new(query)).frame(version, &mut bytes)?;
            Request::Pull(Fetch::ALL).frame(version, &mut bytes)?;
        }
        self.wire.send(&bytes).await?;
        let role = self.rows().await?;
        let mark = self.rows().await?;
        Ok(Checked {
            role: read_role(&role.rows).ok_or(BackendError::Unexpected)?,
            mark: read_mark(&mark.rows),
            run_id: mark.run_id.or(role.run_id),
        })
    }

    /// Asks one question of our own.
    pub(crate) async fn query(&mut self, version: Version, query: &str) -> Result<Table, BackendError> {
        let mut bytes = Vec::new();
        Request::Run(Run::new(query)).frame(version, &mut bytes)?;
        Request::Pull(Fetch::ALL).frame(version, &mut bytes)?;
        self.wire.send(&bytes).await?;
        self.rows().await
    }

    /// The answer to RUN and PULL.
    async fn rows(&mut self) -> Result<Table, BackendError> {
        let mut rows = Table::default();
        let mut began = false;
        loop {
            let payload = self.message().await?;
            match Response::parse(&payload, Limits::DEFAULT)? {
                Response::Success(summary) if !began => {
                    began = true;
                    let fields = summary.get("fields").and_then(Value::as_list).unwrap_or_default();
                    let names = fields.iter().filter_map(Value::as_str);
                    rows.fields = names.map(str::to_owned).collect();
                }
                Response::Success(summary) => {
                    let run_id = summary.get("run_id").and_then(Value::as_str);
                    rows.run_id = run_id.map(str::to_owned);
                    return Ok(rows);
                }
                Response::Record(values) if began && rows.rows.len() < MOST_ROWS => {
                    rows.rows
                        .push(values.into_iter().map(Value::into_owned).collect());
                }
                Response::Failure(failure) => return Err(BackendError::Refused(failure.into_owned())),
                Response::Record(_) | Response::Ignored => return Err(BackendError::Unexpected),
            }
        }
    }

    /// Closes it after its last answer: nothing is on its way.
    pub(crate) fn close(self) {
        self.wire.stream().close_in_peace();
    }

    /// The connection, and what it said beyond the last answer.
    pub(crate) fn into_parts(self) -> (Stream, Vec<u8>) {
        self.wire.into_parts()
    }
}

/// More marks than this are a graph that somebody filled with them.
const MOST_ROWS: usize = 16;

/// An answer.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) fields: Vec<String>,
    pub(crate) rows: Vec<Vec<Value<'static>>>,
    run_id: Option<String>,
}

fn read_role(rows: &[Vec<Value<'static>>]) -> Option<Role> {
    match rows {
        [row] => match row.first().and_then(Value::as_str) {
            Some("main") => Some(Role::Main),
            Some("replica") => Some(Role::Replica),
            _ => None,
        },
        _ => None,
    }
}

/// Two marks are none: nobody can say which one counts.
fn read_mark(rows: &[Vec<Value<'static>>]) -> Option<Term> {
    match rows {
        [row] => {
            let term = row.first().and_then(Value::as_int)?;
            u64::try_from(term).ok().map(Term)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_and_marks_are_read_or_are_none() {
        assert_eq!(read_role(&[vec![Value::from("main")]]), Some(Role::Main));
        assert_eq!(read_role(&[vec![Value::from("replica")]]), Some(Role::Replica));
        for odd in [vec![], vec![vec![]], vec![vec![Value::from("coordinator")]]] {
            assert_eq!(read_role(&odd), None, "{odd:?}");
        }
        assert_eq!(read_mark(&[vec![Value::Int(4)]]), Some(Term(4)));
        for odd in [
            vec![],
            vec![vec![Value::Int(4)], vec![Value::Int(4)]],
            vec![vec![Value::Int(-4)]],
            vec![vec![Value::Null]],
        ] {
            assert_eq!(read_mark(&odd), None, "{odd:?}");
        }
    }
}
