//! The session: from bytes to events.

use super::inbox::Inbox;
use super::reply::Pending;
use super::{Event, Login, LogoffReply, RouteRule, ServerConfig, ServerInput, ServerOutput};
use crate::frame::Assembler;
use crate::handshake::{ServerHandshake, choose};
use crate::message::{Auth, Failure, Hello, Request, Response, Route, RouteTarget, open};
use crate::packstream::{Limits, OwnedDict, Value, own_dict};
use crate::time::Moment;
use crate::version::Version;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::mem;

/// A conversation with a client.
#[derive(Debug)]
pub struct ServerSession {
    assembler: Assembler,
    inbox: Inbox,
    pub(super) core: Core,
}

/// Everything but the bytes that were not understood yet.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: ServerConfig,
    pub(super) state: State,
    pub(super) pending: Option<Pending>,
    /// The name of the client and what else it said in HELLO.
    hello: Option<(String, OwnedDict)>,
    pub(super) in_transaction: bool,
    /// How many queries the current transaction has seen.
    pub(super) queries: i64,
    pub(super) outbox: Vec<u8>,
    events: VecDeque<Event>,
    close: bool,
    last_input: Moment,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Handshake(ServerHandshake),
    /// The client has not logged in.
    Init(Version),
    /// Nothing is open but perhaps a transaction.
    Idle(Version),
    /// A query was prepared and has records to give.
    Streaming(Version),
    /// Something failed: everything is ignored until RESET.
    Failed(Version),
    Closed,
}

/// The client broke the rules: answer [`Failure::UNEXPECTED`] and close.
#[derive(Debug)]
struct Unexpected;

impl ServerSession {
    /// A session on a connection that was just accepted.
    pub fn new(config: ServerConfig, now: Moment) -> Self {
        Self {
            assembler: Assembler::new(config.max_message),
            inbox: Inbox::default(),
            core: Core {
                config,
                state: State::Handshake(ServerHandshake::new()),
                pending: None,
                hello: None,
                in_transaction: false,
                queries: 0,
                outbox: Vec::new(),
                events: VecDeque::new(),
                close: false,
                last_input: now,
            },
        }
    }

    /// Takes in what happened to the connection.
    pub fn handle(&mut self, now: Moment, input: ServerInput<'_>) {
        match input {
            ServerInput::Bytes(bytes) => {
                self.core.last_input = now;
                self.receive(bytes);
            }
            ServerInput::Tick => {}
            ServerInput::Closed => self.core.leave(),
        }
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.core.leave();
        }
    }

    /// What to do next, until there is nothing left.
    pub fn poll(&mut self) -> Option<ServerOutput> {
        if !self.core.outbox.is_empty() {
            return Some(ServerOutput::Transmit(mem::take(&mut self.core.outbox)));
        }
        if let Some(event) = self.core.events.pop_front() {
            return Some(ServerOutput::Event(event));
        }
        mem::take(&mut self.core.close).then_some(ServerOutput::Close)
    }

    /// When to call [`ServerSession::handle`] even if nothing happens. A client
    /// that waits for us is not idle, however long it takes.
    pub fn next_deadline(&self) -> Option<Moment> {
        if self.core.pending.is_some() || matches!(self.core.state, State::Closed) {
            return None;
        }
        self.core
            .config
            .idle_timeout
            .map(|timeout| self.core.last_input.after(timeout))
    }

    /// Whether it makes sense to read from the connection. While a request is
    /// carried out a little is taken in, so that pipelining works.
    pub fn wants_input(&self) -> bool {
        match self.core.state {
            State::Closed => false,
            _ => self.core.pending.is_none() || self.inbox.len() < self.core.config.max_inbox / 2,
        }
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.core.in_transaction
    }

    /// Says that a transaction was opened or ended by a query: `BEGIN`,
    /// `COMMIT` and `ROLLBACK` are queries too.
    pub fn set_in_transaction(&mut self, in_transaction: bool) {
        self.core.in_transaction = in_transaction;
    }

    /// Ends the session.
    pub fn close(&mut self) {
        self.core.leave();
    }

    fn receive(&mut self, bytes: &[u8]) {
        if matches!(self.core.state, State::Closed) {
            return;
        }
        if self.core.pending.is_none() && self.inbox.len() == 0 {
            let left = self.read_from(bytes);
            self.inbox
                .push(bytes.get(bytes.len().saturating_sub(left)..).unwrap_or_default());
        } else {
            self.inbox.push(bytes);
            self.resume();
        }
        if self.inbox.len() > self.core.config.max_inbox {
            self.core.leave();
        }
    }

    /// Reads on after a reply.
    pub(super) fn resume(&mut self) {
        let mut inbox = mem::take(&mut self.inbox);
        let left = self.read_from(inbox.unread());
        inbox.keep(left);
        self.inbox = inbox;
    }

    /// Reads messages until one has to be carried out; returns how many bytes are left.
    fn read_from(&mut self, bytes: &[u8]) -> usize {
        let mut input = bytes;
        if self.try_read(&mut input).is_err() {
            self.core.refuse();
        }
        match self.core.state {
            State::Closed => 0,
            _ => input.len(),
        }
    }

    fn try_read(&mut self, input: &mut &[u8]) -> Result<(), Unexpected> {
        if let State::Handshake(handshake) = &mut self.core.state {
            let Some(proposals) = handshake.read(input).map_err(|_| Unexpected)? else {
                return Ok(());
            };
            let version = choose(&proposals, self.core.config.profile.versions).ok_or(Unexpected)?;
            self.core
                .outbox
                .extend_from_slice(&ServerHandshake::answer(version));
            self.core.state = State::Init(version);
            self.core.events.push_back(Event::Connected(version));
        }
        while self.core.pending.is_none()
            && !matches!(self.core.state, State::Closed)
            && let Some(message) = self.assembler.next(input).map_err(|_| Unexpected)?
        {
            self.core.message(message)?;
        }
        Ok(())
    }
}

impl Core {
    fn message(&mut self, message: &[u8]) -> Result<(), Unexpected> {
        let limits = self.config.limits;
        let parse = |version| Request::parse(version, message, limits).map_err(|_| Unexpected);
        match self.state {
            State::Handshake(_) | State::Closed => Err(Unexpected),
            State::Init(version) => self.in_init(parse(version)?),
            State::Idle(version) => self.in_idle(version, parse(version)?),
            State::Streaming(version) => self.in_streaming(version, parse(version)?),
            State::Failed(version) => match parse(version) {
                Ok(Request::Reset) => {
                    self.ask(Pending::Reset, Event::Reset);
                    Ok(())
                }
                Ok(Request::AckFailure) => {
                    self.state = State::Idle(version);
                    self.send(&Response::Success(OwnedDict::new()))
                }
                // What is ignored need not be known, only readable.
                Ok(_) => self.send(&Response::Ignored),
                Err(Unexpected) if is_readable(message, limits) => self.send(&Response::Ignored),
                Err(Unexpected) => Err(Unexpected),
            },
        }
    }

    fn in_init(&mut self, request: Request<'_>) -> Result<(), Unexpected> {
        match request {
            Request::Hello(Hello {
                user_agent,
                auth,
                extra,
            }) => {
                self.hello = Some((user_agent.into_owned(), own_dict(extra)));
                match auth {
                    Some(auth) => self.login(auth),
                    // From 5.1 on HELLO only says hello; LOGON has to follow.
                    None => return self.send(&Response::Success(self.greeting())),
                }
                Ok(())
            }
            Request::Logon(auth) => {
                self.login(auth);
                Ok(())
            }
            Request::Goodbye => {
                self.leave();
                Ok(())
            }
            _ => Err(Unexpected),
        }
    }

    fn in_idle(&mut self, version: Version, request: Request<'_>) -> Result<(), Unexpected> {
        match request {
            Request::Run(run) => {
                let in_transaction = self.in_transaction;
                if !in_transaction {
                    self.queries = 0;
                }
                self.ask(
                    Pending::Run,
                    Event::Run {
                        run: run.into_owned(),
                        in_transaction,
                    },
                );
            }
            Request::Begin(_) if self.in_transaction => {
                return self.fail(version, Failure::NESTED_TRANSACTION);
            }
            Request::Begin(extra) => {
                self.queries = 0;
                self.ask(Pending::Begin, Event::Begin(extra.into_owned()));
            }
            Request::Commit if !self.in_transaction => return self.fail(version, Failure::NOTHING_TO_COMMIT),
            Request::Commit => self.ask(Pending::EndTransaction, Event::Commit),
            Request::Rollback if !self.in_transaction => {
                return self.fail(version, Failure::NOTHING_TO_ROLL_BACK);
            }
            Request::Rollback => self.ask(Pending::EndTransaction, Event::Rollback),
            other => return self.in_any(version, other),
        }
        Ok(())
    }

    fn in_streaming(&mut self, version: Version, request: Request<'_>) -> Result<(), Unexpected> {
        match request {
            Request::Pull(fetch) => self.ask(Pending::Pull, Event::Pull(fetch)),
            Request::Discard(fetch) => self.ask(Pending::Discard, Event::Discard(fetch)),
            other => return self.in_any(version, other),
        }
        Ok(())
    }

    /// What is possible with and without an open result.
    fn in_any(&mut self, version: Version, request: Request<'_>) -> Result<(), Unexpected> {
        match request {
            Request::Reset => self.ask(Pending::Reset, Event::Reset),
            Request::Route(route) => self.route(version, route),
            Request::Goodbye => self.leave(),
            Request::Logoff => {
                self.state = State::Init(version);
                self.in_transaction = false;
                self.events.push_back(Event::LoggedOff);
                return match self.config.profile.logoff {
                    LogoffReply::Silence => Ok(()),
                    LogoffReply::Success => self.send(&Response::Success(OwnedDict::new())),
                };
            }
            // TELEMETRY has no meaning to Memgraph: none of its versions knows it.
            Request::Telemetry(_)
            | Request::Hello(_)
            | Request::Logon(_)
            | Request::AckFailure
            | Request::Run(_)
            | Request::Begin(_)
            | Request::Commit
            | Request::Rollback
            | Request::Discard(_)
            | Request::Pull(_) => return Err(Unexpected),
        }
        Ok(())
    }

    fn route(&mut self, version: Version, route: Route<'_>) {
        let understood = match (self.config.profile.route, &route.target) {
            (RouteRule::Any, _) | (RouteRule::NameOnly, RouteTarget::Database(_)) => true,
            (RouteRule::NameOnly, RouteTarget::Default | RouteTarget::Extra(_)) => version >= Version::V4_4,
        };
        if understood {
            self.ask(Pending::Route, Event::Route(route.into_owned()));
        } else {
            self.leave();
        }
    }

    fn login(&mut self, auth: Auth<'_>) {
        let (user_agent, hello) = self.hello.clone().unzip();
        let hello = hello.unwrap_or_default();
        let auth = auth.into_owned();
        let login = Login {
            user_agent,
            hello,
            auth,
        };
        self.ask(Pending::Login, Event::Login(login));
    }

    fn ask(&mut self, pending: Pending, event: Event) {
        self.pending = Some(pending);
        self.events.push_back(event);
    }

    /// What HELLO and LOGON are answered with.
    pub(super) fn greeting(&self) -> OwnedDict {
        let mut metadata = OwnedDict::new();
        let entries = [
            ("connection_id", Some(&self.config.connection_id)),
            ("server", self.config.server_name.as_ref()),
        ];
        for (key, text) in entries {
            if let Some(text) = text {
                metadata.insert(Cow::Borrowed(key), Value::from(text.clone()));
            }
        }
        metadata
    }

    fn fail(&mut self, version: Version, failure: Failure<'_>) -> Result<(), Unexpected> {
        self.state = State::Failed(version);
        self.send(&Response::Failure(failure))
    }

    fn send(&mut self, response: &Response<'_>) -> Result<(), Unexpected> {
        response.frame(&mut self.outbox).map_err(|_| Unexpected)
    }

    /// Says that something unexpected happened, and closes.
    fn refuse(&mut self) {
        if !matches!(self.state, State::Closed) {
            // This failure always fits; and if it did not, closing says enough.
            Response::Failure(Failure::UNEXPECTED)
                .frame(&mut self.outbox)
                .ok();
        }
        self.leave();
    }

    /// Ends the session, once.
    pub(super) fn leave(&mut self) {
        if matches!(self.state, State::Closed) {
            return;
        }
        self.state = State::Closed;
        self.pending = None;
        self.in_transaction = false;
        self.events.push_back(Event::Left);
        self.close = true;
    }
}

/// Whether a message is a structure of readable values, known or not.
fn is_readable(message: &[u8], limits: Limits) -> bool {
    let Ok((mut decoder, _tag, fields)) = open(message, limits) else {
        return false;
    };
    (0..fields).all(|_| decoder.value().is_ok()) && decoder.finish().is_ok()
}
