//! The session itself.

use super::pending::{Pending, Step, Work};
use super::{
    ClientConfig, ClientError, ClientInput, ClientOutput, CommandError, ProtocolError, RequestId, ServerInfo,
};
use crate::frame::Assembler;
use crate::handshake::ClientHandshake;
use crate::message::{Extra, Fetch, Hello, Request, Response, Run};
use crate::packstream::{Dict, own_dict};
use crate::time::Moment;
use crate::version::Version;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

/// A conversation with a server.
#[derive(Debug)]
pub struct ClientSession {
    assembler: Assembler,
    core: Core,
}

/// Everything but the bytes of a half received message.
#[derive(Debug)]
struct Core {
    config: ClientConfig,
    state: State,
    login_deadline: Moment,
    /// Only ever set in [`State::Open`].
    pending: Option<Pending>,
    next_id: u64,
    outbox: Vec<u8>,
    events: VecDeque<ClientOutput>,
}

#[derive(Debug)]
enum State {
    Handshake(ClientHandshake),
    /// HELLO was sent.
    Hello(Version),
    /// LOGON was sent.
    Logon(Version, ServerInfo),
    Open {
        version: Version,
        in_transaction: bool,
    },
    Closed,
}

/// What a session can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// Nothing yet: it is not logged in.
    Connecting,
    /// A query or a transaction.
    Ready,
    /// A query, or the end of the transaction.
    InTransaction,
    /// Nothing: a request is under way.
    Busy,
    /// Nothing any more.
    Closed,
}

impl ClientSession {
    /// A session on a connection that was just opened.
    pub fn new(config: ClientConfig, now: Moment) -> Self {
        let handshake = ClientHandshake::new(config.proposals);
        let core = Core {
            login_deadline: now.after(config.login_timeout),
            outbox: handshake.request().to_vec(),
            state: State::Handshake(handshake),
            pending: None,
            next_id: 0,
            events: VecDeque::new(),
            config,
        };
        Self {
            assembler: Assembler::new(core.config.max_message),
            core,
        }
    }

    /// Takes in what happened to the connection.
    pub fn handle(&mut self, now: Moment, input: ClientInput<'_>) {
        match input {
            ClientInput::Bytes(bytes) => {
                if let Err(error) = self.receive(now, bytes) {
                    self.core.end(Err(error));
                }
            }
            ClientInput::Tick => {}
            ClientInput::Closed => self.core.end(Err(ClientError::Closed)),
        }
        // After the bytes: an answer that came late is still an answer.
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.core.end(Err(ClientError::TimedOut));
        }
    }

    /// What to do next, until there is nothing left.
    pub fn poll(&mut self) -> Option<ClientOutput> {
        if self.core.outbox.is_empty() {
            self.core.events.pop_front()
        } else {
            Some(ClientOutput::Transmit(mem::take(&mut self.core.outbox)))
        }
    }

    /// When to call [`ClientSession::handle`] even if nothing happens.
    pub fn next_deadline(&self) -> Option<Moment> {
        match &self.core.state {
            State::Handshake(_) | State::Hello(_) | State::Logon(..) => Some(self.core.login_deadline),
            State::Open { .. } => self.core.pending.as_ref().map(|pending| pending.deadline),
            State::Closed => None,
        }
    }

    /// What the session can be asked for.
    pub fn state(&self) -> ClientState {
        match &self.core.state {
            State::Handshake(_) | State::Hello(_) | State::Logon(..) => ClientState::Connecting,
            State::Open { .. } if self.core.pending.is_some() => ClientState::Busy,
            State::Open {
                in_transaction: true, ..
            } => ClientState::InTransaction,
            State::Open {
                in_transaction: false,
                ..
            } => ClientState::Ready,
            State::Closed => ClientState::Closed,
        }
    }

    /// Runs a query and collects its result: in the open transaction, or in one of its own.
    pub fn run(&mut self, now: Moment, run: &Run<'_>, timeout: Duration) -> Result<RequestId, CommandError> {
        let requests = [Request::Run(run.clone()), Request::Pull(Fetch::ALL)];
        self.core.start(&requests, Work::Header, None, now, timeout)
    }

    /// Begins a transaction.
    pub fn begin(
        &mut self,
        now: Moment,
        extra: Extra<'_>,
        timeout: Duration,
    ) -> Result<RequestId, CommandError> {
        self.core
            .start(&[Request::Begin(extra)], Work::Begin, Some(false), now, timeout)
    }

    /// Commits the transaction.
    pub fn commit(&mut self, now: Moment, timeout: Duration) -> Result<RequestId, CommandError> {
        self.core
            .start(&[Request::Commit], Work::Commit, Some(true), now, timeout)
    }

    /// Rolls the transaction back.
    pub fn rollback(&mut self, now: Moment, timeout: Duration) -> Result<RequestId, CommandError> {
        self.core
            .start(&[Request::Rollback], Work::Rollback, Some(true), now, timeout)
    }

    /// Drops whatever is open. Also a cheap way to ask whether the server still answers.
    pub fn reset(&mut self, now: Moment, timeout: Duration) -> Result<RequestId, CommandError> {
        self.core
            .start(&[Request::Reset], Work::Reset, None, now, timeout)
    }

    /// Says goodbye and ends the session.
    pub fn goodbye(&mut self) {
        if let State::Open { version, .. } = self.core.state {
            // GOODBYE always fits; and if it did not, closing says the same.
            Request::Goodbye.frame(version, &mut self.core.outbox).ok();
        }
        self.core.end(Ok(()));
    }

    fn receive(&mut self, now: Moment, bytes: &[u8]) -> Result<(), ClientError> {
        let mut input = bytes;
        if let State::Handshake(handshake) = &mut self.core.state {
            let Some(version) = handshake.read(&mut input).map_err(ProtocolError::Handshake)? else {
                return Ok(());
            };
            self.core.hello(version)?;
        }
        while !matches!(self.core.state, State::Closed)
            && let Some(message) = self.assembler.next(&mut input).map_err(ProtocolError::Frame)?
        {
            self.core.receive(now, message)?;
        }
        Ok(())
    }
}

impl Core {
    fn hello(&mut self, version: Version) -> Result<(), ClientError> {
        if version < Version::V4_0 {
            return Err(ProtocolError::VersionTooOld(version).into());
        }
        let hello = Request::Hello(Hello {
            user_agent: Cow::Borrowed(&self.config.user_agent),
            auth: (!version.has_logon()).then(|| self.config.auth.clone()),
            extra: self.config.hello.clone(),
        });
        hello
            .frame(version, &mut self.outbox)
            .map_err(ProtocolError::Message)?;
        self.state = State::Hello(version);
        Ok(())
    }

    fn receive(&mut self, now: Moment, message: &[u8]) -> Result<(), ClientError> {
        let response = Response::parse(message, self.config.limits).map_err(ProtocolError::Message)?;
        match &self.state {
            State::Hello(version) => {
                let version = *version;
                let server = ServerInfo(own_dict(login_metadata(response)?));
                if version.has_logon() {
                    let logon = Request::Logon(self.config.auth.clone());
                    logon
                        .frame(version, &mut self.outbox)
                        .map_err(ProtocolError::Message)?;
                    self.state = State::Logon(version, server);
                } else {
                    self.open(version, server);
                }
                Ok(())
            }
            State::Logon(version, server) => {
                let (version, server) = (*version, server.clone());
                login_metadata(response)?;
                self.open(version, server);
                Ok(())
            }
            State::Open {
                version,
                in_transaction: _,
            } => {
                let version = *version;
                self.answer(now, version, response, message.len())
            }
            State::Handshake(_) | State::Closed => Err(ProtocolError::Unexpected.into()),
        }
    }

    fn open(&mut self, version: Version, server: ServerInfo) {
        self.state = State::Open {
            version,
            in_transaction: false,
        };
        self.events.push_back(ClientOutput::Ready { version, server });
    }

    fn answer(
        &mut self,
        now: Moment,
        version: Version,
        response: Response<'_>,
        size: usize,
    ) -> Result<(), ClientError> {
        let Some(Pending { id, deadline, work }) = self.pending.take() else {
            // What a server says without being asked, it says before it closes.
            return Err(match response {
                Response::Failure(failure) => ClientError::ServerFailure(failure.into_owned()),
                Response::Success(_) | Response::Record(_) | Response::Ignored => {
                    ProtocolError::Unexpected.into()
                }
            });
        };
        let step = match work.advance(response, size, &self.config) {
            Ok(step) => step,
            Err(error) => {
                self.finish(id, Err(error.clone()));
                return Err(error);
            }
        };
        match step {
            Step::Wait(work) => self.pending = Some(Pending { id, deadline, work }),
            Step::PullMore(work) => {
                self.pending = Some(Pending { id, deadline, work });
                Request::Pull(Fetch::ALL)
                    .frame(version, &mut self.outbox)
                    .map_err(ProtocolError::Message)?;
            }
            Step::Recover { failure, ignored } => {
                let work = Work::Cleanup { failure, ignored };
                self.pending = Some(Pending {
                    id,
                    deadline: now.after(self.config.reset_timeout),
                    work,
                });
                Request::Reset
                    .frame(version, &mut self.outbox)
                    .map_err(ProtocolError::Message)?;
            }
            Step::Finish {
                outcome,
                in_transaction,
            } => {
                if let Some(in_transaction) = in_transaction {
                    self.state = State::Open {
                        version,
                        in_transaction,
                    };
                }
                self.finish(id, outcome);
            }
        }
        Ok(())
    }

    /// Sends requests that make up one piece of work. `transaction` says whether one has to be open.
    fn start(
        &mut self,
        requests: &[Request<'_>],
        work: Work,
        transaction: Option<bool>,
        now: Moment,
        timeout: Duration,
    ) -> Result<RequestId, CommandError> {
        let State::Open {
            version,
            in_transaction,
        } = self.state
        else {
            return Err(CommandError::NotReady);
        };
        if self.pending.is_some() {
            return Err(CommandError::NotReady);
        }
        match (transaction, in_transaction) {
            (Some(true), false) => return Err(CommandError::NotInTransaction),
            (Some(false), true) => return Err(CommandError::InTransaction),
            (None, _) | (Some(true), true) | (Some(false), false) => {}
        }
        let before = self.outbox.len();
        for request in requests {
            if let Err(error) = request.frame(version, &mut self.outbox) {
                self.outbox.truncate(before);
                return Err(error.into());
            }
        }
        let id = RequestId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.pending = Some(Pending {
            id,
            deadline: now.after(timeout),
            work,
        });
        Ok(id)
    }

    fn finish(&mut self, request: RequestId, outcome: Result<super::Answer, ClientError>) {
        self.events.push_back(ClientOutput::Finished { request, outcome });
    }

    /// Ends the session, once.
    fn end(&mut self, reason: Result<(), ClientError>) {
        if matches!(self.state, State::Closed) {
            return;
        }
        self.state = State::Closed;
        if let Some(Pending {
            id,
            deadline: _,
            work,
        }) = self.pending.take()
        {
            let error = reason.as_ref().err().unwrap_or(&ClientError::Closed);
            let epitaph = work.epitaph(error);
            self.finish(id, Err(epitaph));
        }
        self.events.push_back(ClientOutput::Closed(reason));
    }
}

/// What a server says to HELLO and LOGON. Anything but SUCCESS ends the session.
fn login_metadata(response: Response<'_>) -> Result<Dict<'_>, ClientError> {
    match response {
        Response::Success(metadata) => Ok(metadata),
        Response::Failure(failure) => Err(ClientError::ServerFailure(failure.into_owned())),
        Response::Record(_) | Response::Ignored => Err(ProtocolError::Unexpected.into()),
    }
}
