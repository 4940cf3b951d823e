//! The client's side of a login.
//!
//! It may be spoken with more than one database, one after the other: what the client said is kept until somebody
//! admitted it, and what it was answered is remembered.

use super::allowance::Allowance;
use super::passport::Passport;
use super::reading::Login;
use super::stream::Stream;
use super::wire::{Wire, WireError, close_gently};
use bolt::frame::frame_into;
use bolt::handshake::{HandshakeError, Proposals, ServerHandshake, choose};
use bolt::message::{Auth, Failure, Request, Response, tag};
use bolt::packstream::Limits;
use bolt::server::ServerProfile;
use bolt::version::Version;
use std::fmt;
use thiserror::Error;

/// Why a client does not get further. It is told nothing: it is gone, or speaks something else.
#[derive(Debug, Error)]
pub(crate) enum ClientError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error("the client was silent for too long")]
    Silent,
    #[error("the client began with message {0:#04x}")]
    NotALogin(u8),
}

impl ClientError {
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Wire(WireError::Frame(_)) => "client_too_large",
            Self::Wire(_) => "client_gone",
            Self::Handshake(_) => "client_not_bolt",
            Self::Silent => "client_silent",
            Self::NotALogin(_) => "client_no_login",
        }
    }
}

/// A client that wants to log in.
#[derive(Debug)]
pub(crate) struct Client {
    wire: Wire,
    allowance: Allowance,
    proposals: Proposals,
    version: Option<Version>,
    hello: Option<Secret>,
    hello_answered: bool,
    logon: Option<Secret>,
    passport: Option<Box<Passport>>,
    /// On the port for reads: MAIN let it in.
    pub(crate) login: Option<Box<Login>>,
}

/// What a client said to log in, kept as long as its session lives: it is said again to the next database. It is in
/// memory only, and never shown.
struct Secret(Box<[u8]>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

impl Client {
    /// Reads what the client proposes.
    pub(crate) async fn greet(
        stream: Stream,
        passport: Option<Box<Passport>>,
        limit: usize,
        mut allowance: Allowance,
    ) -> Result<Self, ClientError> {
        let mut wire = Wire::new(stream, limit);
        let mut handshake = ServerHandshake::new();
        let read = wire.read(|_, input| handshake.read(input).map_err(ClientError::from));
        let proposals = allowance.spend(read).await.ok_or(ClientError::Silent)??;
        Ok(Self {
            wire,
            allowance,
            proposals,
            version: None,
            hello: None,
            hello_answered: false,
            logon: None,
            passport,
            login: None,
        })
    }

    /// What may be spoken with a database: what the client proposed, or what it was already told.
    pub(crate) fn proposals(&self) -> Proposals {
        self.version.map_or(self.proposals, Proposals::only)
    }

    /// The version is agreed.
    pub(crate) async fn agree(&mut self, version: Version) -> Result<(), ClientError> {
        if self.version.is_none() {
            self.version = Some(version);
            self.wire.send(&ServerHandshake::answer(version)).await?;
        }
        Ok(())
    }

    /// The client's HELLO.
    pub(crate) async fn hello(&mut self) -> Result<&[u8], ClientError> {
        if self.hello.is_none() {
            self.hello = Some(self.message(tag::HELLO).await?);
        }
        Ok(self.hello.as_ref().map_or(&[], |hello| &hello.0))
    }

    /// What a database said to HELLO, when LOGON is still to come.
    pub(crate) async fn answer_hello(&mut self, payload: &[u8]) -> Result<(), ClientError> {
        if !self.hello_answered {
            self.hello_answered = true;
            self.wire.send_message(payload).await?;
        }
        Ok(())
    }

    /// The client's LOGON.
    pub(crate) async fn logon(&mut self) -> Result<&[u8], ClientError> {
        if self.logon.is_none() {
            self.logon = Some(self.message(tag::LOGON).await?);
        }
        Ok(self.logon.as_ref().map_or(&[], |logon| &logon.0))
    }

    async fn message(&mut self, expected: u8) -> Result<Secret, ClientError> {
        let message = self.allowance.spend(self.wire.message()).await;
        let payload = message.ok_or(ClientError::Silent)??;
        match payload.get(1) {
            Some(tag) if *tag == expected => Ok(Secret(payload.into_boxed_slice())),
            tag => Err(ClientError::NotALogin(tag.copied().unwrap_or_default())),
        }
    }

    /// Sends the client away with a failure in place of the answer that it waits for.
    pub(crate) async fn refuse(mut self, failure: &Failure<'_>) -> Result<(), ClientError> {
        let version = match self.version {
            Some(version) => Some(version),
            // Nobody else is there to choose. These are all the versions that any database of ours speaks.
            None => choose(&self.proposals, ServerProfile::MEMGRAPH_3_12.versions),
        };
        let Some(version) = version else {
            return self.turn_away(&Failure::UNEXPECTED).await;
        };
        self.agree(version).await?;
        self.hello().await?;
        if self.hello_answered {
            self.logon().await?;
        }
        self.turn_away(failure).await
    }

    /// Says why, and closes.
    pub(crate) async fn turn_away(self, failure: &Failure<'_>) -> Result<(), ClientError> {
        let mut bytes = Vec::new();
        // A failure of ours always fits.
        Response::Failure(failure.clone()).frame(&mut bytes).ok();
        self.wire.send(&bytes).await?;
        close_gently(self.wire.into_parts().0).await;
        Ok(())
    }

    /// Passes on what a database said instead of letting the client in, and closes.
    pub(crate) async fn pass_on(self, payload: &[u8]) -> Result<(), ClientError> {
        let mut bytes = Vec::new();
        frame_into(&mut bytes, payload);
        self.wire.send(&bytes).await?;
        close_gently(self.wire.into_parts().0).await;
        Ok(())
    }

    /// Ends when the client leaves while it is held.
    pub(crate) async fn gone(&self) {
        self.wire.gone().await;
    }

    /// The connection. What is sent on it goes between two messages, or not at all.
    pub(crate) const fn stream(&self) -> &Stream {
        self.wire.stream()
    }

    /// What is known of it beyond that, if somebody wants to know.
    pub(crate) fn passport(&self) -> Option<&Passport> {
        self.passport.as_deref()
    }

    /// Writes the line of the access log, if there is to be one.
    pub(crate) fn log(&self, end: &str) {
        if let Some(passport) = &self.passport {
            passport.log(self.user().as_deref(), end);
        }
    }

    /// The name that it logged in with.
    fn user(&self) -> Option<String> {
        let version = self.version?;
        let said = self.logon.as_ref().or(self.hello.as_ref())?;
        let auth = match Request::parse(version, &said.0, Limits::DEFAULT).ok()? {
            Request::Logon(auth) => auth,
            Request::Hello(hello) => hello.auth?,
            _ => return None,
        };
        match auth {
            Auth::Basic { principal, .. } => Some(principal.into_owned()),
            _ => None,
        }
    }

    /// What the client said beyond its login.
    pub(crate) fn take_unread(&mut self) -> Vec<u8> {
        self.wire.take_unread()
    }

    /// Says what a database said.
    pub(crate) async fn tell(&mut self, payload: &[u8]) -> Result<(), ClientError> {
        Ok(self.wire.send_message(payload).await?)
    }

    /// Closes so that the last words arrive.
    pub(crate) async fn close(self) {
        close_gently(self.wire.into_parts().0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_logs_in_with_is_not_shown() {
        let secret = Secret(Box::from(*b"principal admin credentials hunter2"));
        assert_eq!(format!("{secret:?}"), "(35 bytes)");
    }
}
