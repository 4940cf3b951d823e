//! The session: from replies to bytes.

use super::ServerSession;
use super::session::{Core, State};
use crate::message::{Failure, MessageError, Response, frame_record};
use crate::packstream::{Dict, OwnedDict, Value};
use crate::version::Version;
use std::borrow::Cow;
use thiserror::Error;

/// The event that waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Login,
    Run,
    Pull,
    Discard,
    Begin,
    EndTransaction,
    Reset,
    Route,
}

/// Why a reply was not accepted. Nothing was sent and nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReplyError {
    /// No event waits for this reply. That is normal if the client left meanwhile.
    #[error("no event waits for this reply")]
    NotAsked,
    /// The reply does not fit the protocol.
    #[error("{0}")]
    Message(#[from] MessageError),
}

impl ServerSession {
    /// The client is who it says it is.
    pub fn accept(&mut self) -> Result<(), ReplyError> {
        let version = self.core.asked(&[Pending::Login])?;
        let greeting = self.core.greeting();
        self.core
            .reply(&Response::Success(greeting), State::Idle(version))?;
        self.resume();
        Ok(())
    }

    /// The client is not who it says it is. Ends the session.
    pub fn refuse(&mut self) -> Result<(), ReplyError> {
        self.turn_away(&Failure::UNAUTHENTICATED)
    }

    /// The client cannot be served, whoever it is. Ends the session.
    pub fn turn_away(&mut self, failure: &Failure<'_>) -> Result<(), ReplyError> {
        self.core.asked(&[Pending::Login])?;
        Response::Failure(failure.clone()).frame(&mut self.core.outbox)?;
        self.core.leave();
        Ok(())
    }

    /// The query is prepared; these are its columns.
    pub fn run_started(&mut self, fields: &[&str]) -> Result<(), ReplyError> {
        let version = self.core.asked(&[Pending::Run])?;
        let fields = fields.iter().map(|field| Value::from(*field)).collect();
        let mut metadata = Dict::from([(Cow::Borrowed("fields"), Value::List(fields))]);
        // Memgraph numbers all queries, but tells the number only inside a transaction.
        if self.core.in_transaction && version.has_pages() {
            metadata.insert(Cow::Borrowed("qid"), Value::Int(self.core.queries));
        }
        self.core
            .reply(&Response::Success(metadata), State::Streaming(version))?;
        self.core.queries = self.core.queries.saturating_add(1);
        self.resume();
        Ok(())
    }

    /// One row. More may follow.
    pub fn record(&mut self, values: &[Value<'_>]) -> Result<(), ReplyError> {
        self.core.asked(&[Pending::Pull])?;
        Ok(frame_record(values, &mut self.core.outbox)?)
    }

    /// So many records as were asked for have been sent or dropped. `metadata`
    /// is what else there is to say, such as `run_id`, and on the last page
    /// `type` and `stats`.
    pub fn fetched(&mut self, has_more: bool, metadata: OwnedDict) -> Result<(), ReplyError> {
        let version = self.core.asked(&[Pending::Pull, Pending::Discard])?;
        let mut metadata = metadata;
        metadata.insert(Cow::Borrowed("has_more"), Value::Bool(has_more));
        let next = if has_more {
            State::Streaming(version)
        } else {
            State::Idle(version)
        };
        self.core.reply(&Response::Success(metadata), next)?;
        self.resume();
        Ok(())
    }

    /// BEGIN, COMMIT, ROLLBACK, RESET or ROUTE was carried out.
    pub fn done(&mut self, metadata: OwnedDict) -> Result<(), ReplyError> {
        let accepted = [
            Pending::Begin,
            Pending::EndTransaction,
            Pending::Reset,
            Pending::Route,
        ];
        let version = self.core.asked(&accepted)?;
        let pending = self.core.pending;
        let next = match (pending, &self.core.state) {
            // ROUTE is the only one that may come while a result is open.
            (Some(Pending::Route), state) => state.clone(),
            _ => State::Idle(version),
        };
        self.core.reply(&Response::Success(metadata), next)?;
        match pending {
            Some(Pending::Begin) => self.core.in_transaction = true,
            Some(Pending::EndTransaction | Pending::Reset) => self.core.in_transaction = false,
            _ => {}
        }
        self.resume();
        Ok(())
    }

    /// It did not work. Everything is ignored until the client resets.
    pub fn fail(&mut self, failure: &Failure<'_>) -> Result<(), ReplyError> {
        let accepted = [
            Pending::Run,
            Pending::Pull,
            Pending::Discard,
            Pending::Begin,
            Pending::EndTransaction,
            Pending::Reset,
            Pending::Route,
        ];
        let version = self.core.asked(&accepted)?;
        self.core
            .reply(&Response::Failure(failure.clone()), State::Failed(version))?;
        self.resume();
        Ok(())
    }
}

impl Core {
    /// The version, if one of `accepted` waits for a reply.
    fn asked(&self, accepted: &[Pending]) -> Result<Version, ReplyError> {
        let pending = self.pending.ok_or(ReplyError::NotAsked)?;
        match self.state {
            State::Init(version)
            | State::Idle(version)
            | State::Streaming(version)
            | State::Failed(version)
                if accepted.contains(&pending) =>
            {
                Ok(version)
            }
            _ => Err(ReplyError::NotAsked),
        }
    }

    fn reply(&mut self, response: &Response<'_>, next: State) -> Result<(), ReplyError> {
        response.frame(&mut self.outbox)?;
        self.pending = None;
        self.state = next;
        Ok(())
    }
}
