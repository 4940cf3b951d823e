//! Forwarding bytes both ways.
//!
//! Bytes pass as they are. Only frame headers are followed, and the first words of a RUN (G7); a buffer is borrowed
//! while there is something to move, so an idle session owns none.

use super::Shared;
use super::answers::Answers;
use super::requests::{Requests, Seen};
use crate::heard::Voice;
use bolt::frame::frame_into;
use bolt::message::{Failure, Request, Response, tag};
use bolt::packstream::Dict;
use bolt::version::Version;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{io, mem};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::time::timeout;

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The record changed.
    Cut,
    /// The client left.
    Client,
    /// The database is gone.
    Backend,
    /// The database said that it is not MAIN.
    NotMain,
    /// The gateway refused to go on.
    Refused,
}

/// A session that is forwarded.
#[derive(Debug)]
pub(crate) struct Forward<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) client: TcpStream,
    pub(crate) backend: TcpStream,
    pub(crate) version: Version,
    pub(crate) voice: Option<Arc<Voice>>,
    /// What the client said after its login.
    pub(crate) early: Vec<u8>,
    /// What the database said after its last answer.
    pub(crate) late: Vec<u8>,
}

/// How many requests were sent on and how many were answered: a refusal of ours must not overtake an answer.
#[derive(Debug, Default)]
struct Tally {
    asked: AtomicU64,
    answered: AtomicU64,
    moved: Notify,
    /// The client said goodbye: that the database closes then is no reason to doubt it.
    left: AtomicBool,
}

impl Tally {
    async fn level(&self) {
        loop {
            let moved = self.moved.notified();
            if self.answered.load(Ordering::Acquire) >= self.asked.load(Ordering::Acquire) {
                return;
            }
            moved.await;
        }
    }
}

impl Forward<'_> {
    /// Answers the login, then forwards until somebody ends.
    pub(crate) async fn run(&mut self, answer: &[u8]) -> End {
        let mut bytes = Vec::with_capacity(answer.len().saturating_add(8));
        frame_into(&mut bytes, answer);
        if write_all(&self.client, &bytes).await.is_err() {
            return End::Client;
        }
        let tally = Tally::default();
        let (early, late) = (mem::take(&mut self.early), mem::take(&mut self.late));
        let (from_client, to_client) = self.client.split();
        let (from_backend, to_backend) = self.backend.split();
        let mut up = Up {
            shared: self.shared,
            client: from_client,
            backend: to_backend,
            version: self.version,
            tally: &tally,
            requests: Requests::new(),
            kept: Vec::new(),
            refusing: Refusing::No,
        };
        let down = Down {
            shared: self.shared,
            backend: from_backend,
            client: to_client,
            tally: &tally,
            voice: self.voice.as_deref(),
        };
        let half_closed = self.shared.config.timeouts.half_closed;
        tokio::select! {
            end = down.run(&late) => end,
            end = async {
                let end = up.run(&early).await;
                // The client will say nothing more, but may still be waiting for an answer.
                tally.left.store(true, Ordering::Relaxed);
                if end == End::Client && up.backend.shutdown().await.is_ok() {
                    timeout(half_closed, pending::<()>()).await.ok();
                }
                end
            } => end,
        }
    }
}

/// From the client to the database.
struct Up<'a> {
    shared: &'a Shared,
    client: ReadHalf<'a>,
    backend: WriteHalf<'a>,
    version: Version,
    tally: &'a Tally,
    requests: Requests,
    /// The begin of a RUN that may be forbidden.
    kept: Vec<u8>,
    refusing: Refusing,
}

/// What became of the last statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusing {
    /// It passed.
    No,
    /// It was refused and answered, and the rest of it is still to come.
    Rest,
    /// Everything is ignored until RESET.
    Until,
}

impl Up<'_> {
    async fn run(&mut self, early: &[u8]) -> End {
        let mut done = self.take(early).await;
        while done.is_ok() {
            if let Err(error) = self.client.readable().await {
                tracing::trace!(%error, "client");
                return End::Client;
            }
            let mut buffer = self.shared.buffers.take();
            done = match self.client.try_read(&mut buffer) {
                Ok(0) => return End::Client,
                Ok(read) => self.take(buffer.get(..read).unwrap_or_default()).await,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                Err(_) => return End::Client,
            };
        }
        done.err().unwrap_or(End::Client)
    }

    /// Sends bytes on, as far as they may pass.
    async fn take(&mut self, bytes: &[u8]) -> Result<(), End> {
        if self.kept.is_empty() {
            return self.pass(bytes, 0).await;
        }
        let mut all = mem::take(&mut self.kept);
        let known = all.len();
        all.extend_from_slice(bytes);
        self.pass(&all, known).await
    }

    /// The first `known` bytes were looked at before.
    async fn pass(&mut self, bytes: &[u8], known: usize) -> Result<(), End> {
        let mut rest = bytes.get(known..).unwrap_or_default();
        let mut from = 0;
        while let Some(seen) = self.requests.next(&mut rest).map_err(|_| End::Refused)? {
            let here = bytes.len().saturating_sub(rest.len());
            match seen {
                Seen::RoleStatement { .. } if self.refusing != Refusing::No => {}
                Seen::RoleStatement { wire } => {
                    let begin = here.saturating_sub(wire);
                    self.send(bytes.get(from..begin).unwrap_or_default()).await?;
                    self.refuse().await?;
                }
                Seen::Ended { tag } if self.refusing != Refusing::No => {
                    from = here;
                    self.ignore(tag).await?;
                }
                Seen::Ended { tag } => {
                    if tag == tag::GOODBYE {
                        self.tally.left.store(true, Ordering::Relaxed);
                    } else {
                        self.tally.asked.fetch_add(1, Ordering::Release);
                    }
                }
            }
        }
        if self.refusing != Refusing::No {
            return Ok(());
        }
        let to = bytes.len().saturating_sub(self.requests.undecided());
        let kept = bytes.get(to..).unwrap_or_default();
        if kept.len() > self.shared.config.limits.undecided {
            self.shared.metrics.refused("undecided");
            return Err(End::Refused);
        }
        self.kept.extend_from_slice(kept);
        self.send(bytes.get(from..to).unwrap_or_default()).await
    }

    async fn send(&self, bytes: &[u8]) -> Result<(), End> {
        self.shared.metrics.up.inc_by(count(bytes));
        write_all(self.backend.as_ref(), bytes)
            .await
            .map_err(|_| End::Backend)
    }

    /// Refuses a statement when everything before it is answered.
    async fn refuse(&mut self) -> Result<(), End> {
        self.shared.metrics.refused("role_statement");
        // A database that does not answer what came before is somebody else's fault; this session ends with it.
        let wait = timeout(self.shared.config.timeouts.check, self.tally.level());
        wait.await.map_err(|_| End::Refused)?;
        self.refusing = Refusing::Rest;
        self.answer(&Response::Failure(Failure::client(
            "Roles and replicas are Mainstay's: this statement is not sent on to the database.",
        )))
        .await
    }

    /// What a server does after a failure.
    async fn ignore(&mut self, tag: u8) -> Result<(), End> {
        match tag {
            _ if self.refusing == Refusing::Rest => {
                self.refusing = Refusing::Until;
                Ok(())
            }
            tag::RESET => {
                self.refusing = Refusing::No;
                self.tally.asked.fetch_add(1, Ordering::Release);
                let mut bytes = Vec::new();
                Request::Reset
                    .frame(self.version, &mut bytes)
                    .map_err(|_| End::Refused)?;
                self.send(&bytes).await
            }
            tag::ACK_FAILURE => {
                self.refusing = Refusing::No;
                self.answer(&Response::Success(Dict::new())).await
            }
            tag::GOODBYE => Err(End::Client),
            _ => self.answer(&Response::Ignored).await,
        }
    }

    async fn answer(&self, response: &Response<'_>) -> Result<(), End> {
        let mut bytes = Vec::new();
        response.frame(&mut bytes).map_err(|_| End::Refused)?;
        write_all(self.client.as_ref(), &bytes)
            .await
            .map_err(|_| End::Client)
    }
}

/// From the database to the client.
struct Down<'a> {
    shared: &'a Shared,
    backend: ReadHalf<'a>,
    client: WriteHalf<'a>,
    tally: &'a Tally,
    voice: Option<&'a Voice>,
}

impl Down<'_> {
    async fn run(self, late: &[u8]) -> End {
        let mut answers = Answers::new();
        let mut done = self.give(&mut answers, late).await;
        while done.is_ok() {
            if self.backend.readable().await.is_err() {
                return self.lost();
            }
            let mut buffer = self.shared.buffers.take();
            done = match self.backend.try_read(&mut buffer) {
                Ok(0) => return self.lost(),
                Ok(read) => {
                    if let Some(voice) = self.voice {
                        voice.heard();
                    }
                    self.give(&mut answers, buffer.get(..read).unwrap_or_default())
                        .await
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                Err(_) => return self.lost(),
            };
        }
        done.err().unwrap_or(End::Backend)
    }

    fn lost(&self) -> End {
        if self.tally.left.load(Ordering::Relaxed) {
            End::Client
        } else {
            End::Backend
        }
    }

    /// Sends bytes on, and notes what they mean.
    async fn give(&self, answers: &mut Answers, bytes: &[u8]) -> Result<(), End> {
        let said = answers.read(bytes).map_err(|_| End::Backend)?;
        self.shared.metrics.down.inc_by(count(bytes));
        write_all(self.client.as_ref(), bytes)
            .await
            .map_err(|_| End::Client)?;
        // After they were written: a refusal of ours may go out now.
        self.tally.answered.fetch_add(said.answered, Ordering::Release);
        self.tally.moved.notify_one();
        if said.doubtful {
            self.shared.control.doubt();
        }
        if said.not_main {
            return Err(End::NotMain);
        }
        Ok(())
    }
}

async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
