//! A small Bolt client that shows everything a server says, also which
//! message it refused. For tests and for the conformance list.

use bolt::frame::{Assembler, DEFAULT_MAX_MESSAGE};
use bolt::message::{Auth, Extra, Failure, Fetch, Hello, Request, Response, Run};
use bolt::packstream::{Dict, Limits, OwnedDict, OwnedValue, Value};
use bolt::version::Version;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The connection did not come about, or broke.
    #[error("connection: {0}")]
    Connection(#[from] io::Error),
    /// No answer in time.
    #[error("no answer in {0:?}")]
    TimedOut(Duration),
    /// The server refused the login.
    #[error("login: {0}")]
    Login(Failure<'static>),
    /// The server broke the protocol.
    #[error("protocol: {0}")]
    Protocol(String),
}

/// A message of the server that borrows nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// It worked.
    Success(OwnedDict),
    /// One row.
    Record(Vec<OwnedValue>),
    /// Not done.
    Ignored,
    /// It did not work.
    Failure(Failure<'static>),
}

/// What a query led to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It ran.
    Done(Table),
    /// It was refused.
    Refused {
        /// Why.
        failure: Failure<'static>,
        /// Which message was.
        on: &'static str,
    },
}

/// The result of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<OwnedValue>>,
    /// What the server says about it.
    pub summary: OwnedDict,
}

impl Outcome {
    /// The rows, if it ran.
    pub fn rows(&self) -> Option<&[Vec<OwnedValue>]> {
        match self {
            Self::Done(result) => Some(&result.rows),
            Self::Refused { .. } => None,
        }
    }

    /// The failure, if it was refused.
    pub fn failure(&self) -> Option<&Failure<'static>> {
        match self {
            Self::Done(_) => None,
            Self::Refused { failure, .. } => Some(failure),
        }
    }
}

/// A connection that is logged in.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    assembler: Assembler,
    unread: Vec<u8>,
    version: Version,
    /// How long to wait for one message.
    pub patience: Duration,
}

impl Client {
    /// Connects and logs in with Bolt 5.2.
    pub async fn connect(address: SocketAddr, auth: Auth<'static>) -> Result<Self, ClientError> {
        Self::connect_within(address, auth, Duration::from_mins(1)).await
    }

    /// The same, with less patience for the connection and for every message.
    pub async fn connect_within(
        address: SocketAddr,
        auth: Auth<'static>,
        patience: Duration,
    ) -> Result<Self, ClientError> {
        // A kernel tries for minutes to reach an address that does not answer.
        let mut stream = timeout(patience, TcpStream::connect(address))
            .await
            .map_err(|_| ClientError::TimedOut(patience))??;
        stream.set_nodelay(true)?;
        let mut hello = [0; 20];
        for (slot, byte) in hello.iter_mut().zip([0x60, 0x60, 0xB0, 0x17, 0, 0, 2, 5].iter()) {
            *slot = *byte;
        }
        stream.write_all(&hello).await?;
        let mut answer = [0; 4];
        timeout(patience, stream.read_exact(&mut answer))
            .await
            .map_err(|_| ClientError::TimedOut(patience))??;
        if answer != [0, 0, 2, 5] {
            return Err(ClientError::Protocol(format!("handshake answered {answer:02x?}")));
        }
        let mut client = Self {
            stream,
            assembler: Assembler::new(DEFAULT_MAX_MESSAGE),
            unread: Vec::new(),
            version: Version::V5_2,
            patience,
        };
        let hello = Hello {
            user_agent: "mainstay-test/1".into(),
            auth: None,
            extra: Dict::new(),
        };
        for request in [Request::Hello(hello), Request::Logon(auth)] {
            client.send(&request).await?;
            match client.receive().await? {
                Message::Success(_) => {}
                Message::Failure(failure) => return Err(ClientError::Login(failure)),
                other => return Err(ClientError::Protocol(format!("login answered {other:?}"))),
            }
        }
        Ok(client)
    }

    /// Sends one message.
    pub async fn send(&mut self, request: &Request<'_>) -> Result<(), ClientError> {
        let mut bytes = Vec::new();
        request
            .frame(self.version, &mut bytes)
            .map_err(|error| ClientError::Protocol(error.to_string()))?;
        self.send_bytes(&bytes).await
    }

    /// Sends bytes, whatever they are.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Waits for one message.
    pub async fn receive(&mut self) -> Result<Message, ClientError> {
        let patience = self.patience;
        timeout(patience, self.next_message())
            .await
            .map_err(|_| ClientError::TimedOut(patience))?
    }

    async fn next_message(&mut self) -> Result<Message, ClientError> {
        loop {
            let mut input = self.unread.as_slice();
            let message = self
                .assembler
                .next(&mut input)
                .map_err(|error| ClientError::Protocol(error.to_string()))?
                .map(|payload| {
                    Response::parse(payload, Limits::DEFAULT)
                        .map(owned)
                        .map_err(|error| ClientError::Protocol(error.to_string()))
                });
            let left = input.len();
            let read = self.unread.len() - left;
            self.unread.drain(..read);
            if let Some(message) = message {
                return message;
            }
            let mut buffer = vec![0; 16 * 1024];
            let length = self.stream.read(&mut buffer).await?;
            if length == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            self.unread
                .extend_from_slice(buffer.get(..length).unwrap_or_default());
        }
    }

    /// RUN and PULL of everything. After a refusal the session is reset.
    pub async fn run(&mut self, run: &Run<'_>) -> Result<Outcome, ClientError> {
        let outcome = self.run_without_reset(run).await?;
        if outcome.failure().is_some() {
            self.reset().await?;
        }
        Ok(outcome)
    }

    /// The same, but after a refusal the session is left as it is.
    pub async fn run_without_reset(&mut self, run: &Run<'_>) -> Result<Outcome, ClientError> {
        self.send(&Request::Run(run.clone())).await?;
        let metadata = match self.receive().await? {
            Message::Success(metadata) => metadata,
            Message::Failure(failure) => return Ok(Outcome::Refused { failure, on: "RUN" }),
            other => return Err(ClientError::Protocol(format!("RUN answered {other:?}"))),
        };
        let fields = metadata
            .get("fields")
            .and_then(Value::as_list)
            .unwrap_or_default();
        let mut result = Table {
            columns: fields
                .iter()
                .filter_map(|field| field.as_str().map(str::to_owned))
                .collect(),
            ..Table::default()
        };
        self.send(&Request::Pull(Fetch::ALL)).await?;
        loop {
            match self.receive().await? {
                Message::Record(row) => result.rows.push(row),
                Message::Success(summary) => {
                    result.summary = summary;
                    return Ok(Outcome::Done(result));
                }
                Message::Failure(failure) => return Ok(Outcome::Refused { failure, on: "PULL" }),
                Message::Ignored => return Err(ClientError::Protocol("PULL was ignored".to_owned())),
            }
        }
    }

    /// A query without parameters.
    pub async fn query(&mut self, query: &str) -> Result<Outcome, ClientError> {
        self.run(&Run::new(query)).await
    }

    /// BEGIN.
    pub async fn begin(&mut self) -> Result<Message, ClientError> {
        self.ask(&Request::Begin(Extra::default())).await
    }

    /// COMMIT.
    pub async fn commit(&mut self) -> Result<Message, ClientError> {
        self.ask(&Request::Commit).await
    }

    /// ROLLBACK.
    pub async fn rollback(&mut self) -> Result<Message, ClientError> {
        self.ask(&Request::Rollback).await
    }

    /// RESET.
    pub async fn reset(&mut self) -> Result<(), ClientError> {
        match self.ask(&Request::Reset).await? {
            Message::Success(_) => Ok(()),
            other => Err(ClientError::Protocol(format!("RESET answered {other:?}"))),
        }
    }

    /// One message, one answer.
    pub async fn ask(&mut self, request: &Request<'_>) -> Result<Message, ClientError> {
        self.send(request).await?;
        self.receive().await
    }
}

fn owned(response: Response<'_>) -> Message {
    let dict = |dict: Dict<'_>| match Value::Dict(dict).into_owned() {
        Value::Dict(dict) => dict,
        _ => OwnedDict::new(),
    };
    match response {
        Response::Success(metadata) => Message::Success(dict(metadata)),
        Response::Record(values) => Message::Record(values.into_iter().map(Value::into_owned).collect()),
        Response::Ignored => Message::Ignored,
        Response::Failure(failure) => Message::Failure(failure.into_owned()),
    }
}
