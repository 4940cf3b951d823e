//! Forwarding bytes both ways, as long as the session has a database.
//!
//! Bytes pass as they are. Only frame headers are followed, and the first words of a RUN; a buffer is borrowed while
//! there is something to move, so an idle session owns none.

use super::admit::Owed;
use super::answers::{Answers, Hearer};
use super::course::Course;
use super::passport::Passport;
use super::requests::Requests;
use super::route::Routes;
use super::slices::{Slices, Step, given};
use super::statement::Judgement;
use super::stream::Stream;
use super::talk::{Answer, Asked, NotMain, binds};
use super::{Shared, With};
use crate::buffers::is_busy;
use crate::control::Epoch;
use crate::heard::Voice;
use bolt::frame::frame_into;
use bolt::message::{Failure, Request, Response};
use bolt::packstream::Dict;
use bolt::version::Version;
use std::future::pending;
use std::time::Duration;
use std::{io, mem};
use tokio::time::timeout;

/// How a stay with a database ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The record changed.
    Cut,
    /// The record is about to change, and nothing was under way.
    Drained,
    /// The gateway is told to stop, and nothing was under way.
    Ending,
    /// The gateway stops, and something was.
    Closing,
    /// The client left.
    Client,
    /// The database is gone.
    Backend,
    /// The database said that it is not MAIN.
    NotMain,
    /// The gateway refused to go on.
    Refused,
    /// The client takes nothing of what it is sent.
    NotReading,
}

const NO_ROLES: &str = "Roles and replicas are Mainstay's: this statement is not sent on to the database.";
/// A replica would have said something like it.
const NO_WRITES: &str =
    "No replica takes reads now, so MAIN does, and this statement may write: send it to the port for writes.";
/// It says so itself, as long as it is a replica; of its promotion this gateway may hear late.
const NO_WRITES_NEXT: &str =
    "This replica may be the next MAIN, and this statement may write: send it to the port for writes.";

/// What a client has said that is not settled yet. It outlives the database.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Not looked at yet.
    pub(crate) early: Vec<u8>,
    pub(crate) requests: Requests,
    /// The begin of a message that was not sent on: what it is, is not known yet.
    pub(crate) kept: Vec<u8>,
    pub(crate) refusing: Refusing,
}

impl Inbox {
    pub(crate) const fn new(early: Vec<u8>) -> Self {
        Self {
            early,
            requests: Requests::new(),
            kept: Vec::new(),
            refusing: Refusing::No,
        }
    }
}

/// What became of the last statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusing {
    /// It passed.
    No,
    /// It was refused and answered, and the rest of it is still to come.
    Rest,
    /// Everything is ignored until RESET.
    Until,
}

/// A session that is forwarded.
#[derive(Debug)]
pub(crate) struct Forward<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) client: &'a Stream,
    pub(crate) backend: &'a Stream,
    pub(crate) version: Version,
    pub(crate) voice: Option<&'a Voice>,
    pub(crate) with: With,
    pub(crate) epoch: &'a Epoch,
    pub(crate) course: &'a Course,
    pub(crate) passport: Option<&'a Passport>,
}

impl Forward<'_> {
    /// Gives what is still owed, then forwards until somebody ends.
    pub(crate) async fn run(&self, inbox: &mut Inbox, owed: &mut Owed) -> End {
        if let Some(answer) = owed.answer.take() {
            self.course.now().giving = true;
            let mut bytes = Vec::with_capacity(answer.len().saturating_add(8));
            frame_into(&mut bytes, &answer);
            drop(answer);
            if let Err(end) = self.say(&bytes).await {
                return end;
            }
            self.course.now().giving = false;
        }
        let mut up = Up { to: self, inbox };
        tokio::select! {
            biased;
            end = self.down(owed) => end,
            end = async {
                let end = up.run().await;
                // The client will say nothing more, but may still be waiting for an answer.
                self.course.now().gone = true;
                if end == End::Client && self.backend.shutdown().is_ok() {
                    let bound = self.shared.config.timeouts.half_closed;
                    Box::pin(self.course.still(bound)).await;
                }
                end
            } => end,
        }
    }

    /// From the database to the client.
    async fn down(&self, owed: &mut Owed) -> End {
        let mut answers = Answers::new();
        // A failure of which the client knows nothing yet.
        let mut kept = Vec::new();
        let late = mem::take(&mut owed.late);
        let mut done = self.give(&mut answers, &mut kept, &late).await;
        drop(late);
        let mut busy = false;
        while done.is_ok() {
            if self.backend.readable().await.is_err() {
                return self.lost();
            }
            let mut buffer = self.shared.buffers.take(busy);
            done = match self.backend.try_read(&mut buffer) {
                Ok(0) => return self.lost(),
                Ok(read) => {
                    busy = is_busy(read);
                    if let Some(voice) = self.voice {
                        voice.heard();
                    }
                    let bytes = buffer.get(..read).unwrap_or_default();
                    self.give(&mut answers, &mut kept, bytes).await
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                Err(_) => return self.lost(),
            };
        }
        done.err().unwrap_or(End::Backend)
    }

    /// Sends the client something. One that takes nothing of it is not waited for without end: its buffer and its query
    /// would stay as long as it likes.
    async fn say(&self, bytes: &[u8]) -> Result<(), End> {
        let stall = self.shared.config.timeouts.stall;
        self.client.write_within(bytes, stall).await.map_err(|error| {
            if error.kind() != io::ErrorKind::TimedOut {
                return End::Client;
            }
            self.shared.metrics.refused("client_not_reading");
            End::NotReading
        })
    }

    fn lost(&self) -> End {
        if self.course.now().gone {
            End::Client
        } else {
            End::Backend
        }
    }

    /// Sends bytes on, and notes what they mean. A failure is sent when it is complete: what a MAIN says that has just
    /// lost its office is not what drivers retry.
    async fn give(&self, answers: &mut Answers, kept: &mut Vec<u8>, bytes: &[u8]) -> Result<(), End> {
        self.course.now().giving = true;
        let said = answers.read(bytes, &mut Told(self)).map_err(|_| End::Backend)?;
        // That a replica takes no writes is what it should say.
        let keeps = if self.with == With::Main { said.kept } else { 0 };
        self.shared.metrics.down.inc_by(count(bytes));
        if let Some(passport) = self.passport {
            passport.went_down(count(bytes));
        }
        let given = given(kept, bytes, keeps);
        let sent = given.is_some();
        if let Some((before, now)) = given {
            if !before.is_empty() {
                self.say(&before).await?;
            }
            drop(before);
            self.say(now).await?;
        }
        // After they were written: something of ours may go out now, if no message is cut in two.
        let mut now = self.course.now();
        now.giving = !answers.is_between() && kept.is_empty();
        now.sent |= sent;
        now.gone |= said.closes;
        now.closes |= said.closes;
        drop(now);
        self.course.stir();
        if self.with != With::Main {
            return Ok(());
        }
        if said.doubtful {
            self.shared.control.doubt();
        }
        if said.not_main {
            return Err(End::NotMain);
        }
        Ok(())
    }
}

/// Notes what the database answers.
struct Told<'a>(&'a Forward<'a>);

impl Hearer for Told<'_> {
    fn answered(&mut self, answer: Answer) {
        self.0.course.answered(answer);
    }

    fn refused(&mut self, by: NotMain) -> bool {
        self.0.with == With::Main && self.0.course.refused(by)
    }
}

/// From the client to the database.
struct Up<'a> {
    to: &'a Forward<'a>,
    inbox: &'a mut Inbox,
}

impl Up<'_> {
    async fn run(&mut self) -> End {
        let early = mem::take(&mut self.inbox.early);
        // Read clients do not write because they happen to be with MAIN, or with who becomes it under them.
        let may_write = match self.to.with {
            With::Main => true,
            With::Replica(pod) => pod.is_authority(),
        };
        let only_reads = may_write && self.to.shared.reading.is_some();
        self.inbox.requests.only_reads(only_reads);
        let mut done = self.take(&early).await;
        drop(early);
        let mut busy = false;
        while done.is_ok() {
            self.to.course.room().await;
            match idle(self.to.shared.config.timeouts.idle, self.to.client.readable()).await {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::trace!(%error, "client");
                    return End::Client;
                }
                // Whoever waits for an answer is not idle, however long it takes.
                None if self.to.course.is_waiting() => continue,
                None => {
                    self.to.shared.metrics.refused("idle");
                    return End::Refused;
                }
            }
            let over = self.to.epoch.is_draining() || self.to.shared.ending.is_given();
            if over && self.to.course.is_quiet() {
                // What the client says now is for the next database.
                pending::<()>().await;
            }
            let mut buffer = self.to.shared.buffers.take(busy);
            done = match self.to.client.try_read(&mut buffer) {
                Ok(0) => return End::Client,
                Ok(read) => {
                    busy = is_busy(read);
                    self.take(buffer.get(..read).unwrap_or_default()).await
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                Err(_) => return End::Client,
            };
        }
        done.err().unwrap_or(End::Client)
    }

    /// Sends bytes on, as far as they may pass.
    async fn take(&mut self, bytes: &[u8]) -> Result<(), End> {
        let mut all = mem::take(&mut self.inbox.kept);
        let known = all.len();
        let bytes = if known == 0 {
            bytes
        } else {
            all.extend_from_slice(bytes);
            &all
        };
        let passed = self.pass(Slices::new(bytes, known)).await;
        self.to.course.stir();
        passed
    }

    async fn pass(&mut self, mut slices: Slices<'_>) -> Result<(), End> {
        let keeps_login = self.to.shared.reading.is_some();
        loop {
            let refusing = self.inbox.refusing;
            let step = slices.next(&mut self.inbox.requests, refusing, keeps_login);
            match step.map_err(|_| End::Refused)? {
                Step::Asked { tag, words } => {
                    self.to.course.asked(Asked::of(tag, words), binds(tag, words));
                }
                Step::Refuse { before, write } => {
                    self.to.course.now().torn = true;
                    self.send(before).await?;
                    let (kind, why) = match self.to.with {
                        _ if !write => ("role_statement", NO_ROLES),
                        With::Main => ("write", NO_WRITES),
                        With::Replica(_) => ("write", NO_WRITES_NEXT),
                    };
                    Box::pin(self.refuse(kind, why)).await?;
                    self.to.course.now().torn = false;
                }
                Step::Ignore { tag, words } => {
                    self.to.course.now().torn = true;
                    Box::pin(self.ignore(tag, words)).await?;
                    self.to.course.now().torn = false;
                }
                Step::Route { before, message } => {
                    self.to.course.now().torn = true;
                    self.send(before).await?;
                    Box::pin(self.route(message)).await?;
                    self.to.course.now().torn = false;
                }
                Step::Login { before } => {
                    self.to.course.now().torn = true;
                    self.send(before).await?;
                    return Err(Box::pin(self.refuse_login()).await);
                }
                Step::Over { pass: _, kept: _ } if refusing != Refusing::No => return Ok(()),
                Step::Over { pass, kept } => {
                    if kept.len() > self.to.shared.config.limits.undecided {
                        self.to.shared.metrics.refused("undecided");
                        return Err(End::Refused);
                    }
                    self.inbox.kept.extend_from_slice(kept);
                    self.to.course.now().begun = kept.is_empty() && !self.inbox.requests.is_between();
                    return self.send(pass).await;
                }
            }
        }
    }

    async fn send(&self, bytes: &[u8]) -> Result<(), End> {
        self.to.shared.metrics.up.inc_by(count(bytes));
        if let Some(passport) = self.to.passport {
            passport.went_up(count(bytes));
        }
        let sent = self.to.backend.write_all(bytes).await;
        sent.map_err(|_| self.to.lost())
    }

    /// Waits until everything that was asked before is answered.
    async fn level(&self) -> Result<(), End> {
        // A database that does not answer what came before is somebody else's fault; this session ends with it.
        let wait = timeout(self.to.shared.config.timeouts.check, self.to.course.level());
        wait.await.map_err(|_| End::Refused)
    }

    /// Refuses a statement when everything before it is answered.
    async fn refuse(&mut self, kind: &'static str, why: &'static str) -> Result<(), End> {
        self.to.shared.metrics.refused(kind);
        self.level().await?;
        self.inbox.refusing = Refusing::Rest;
        self.answer(&Response::Failure(Failure::client(why))).await
    }

    /// A replica has no users and would take every login: whoever wants to be somebody else asks MAIN, by coming anew
    /// (R22).
    async fn refuse_login(&self) -> End {
        self.to.shared.metrics.refused("login_again");
        let told = async {
            self.level().await?;
            self.answer(&Response::Failure(Failure::client(
                "On the port for reads a connection keeps its login: open another one.",
            )))
            .await
        };
        told.await.err().unwrap_or(End::Refused)
    }

    /// Answers who serves what, in its place among the answers.
    async fn route(&mut self, message: &[u8]) -> Result<(), End> {
        self.level().await?;
        let response = if self.to.course.now().talk.is_failed() {
            Response::Ignored
        } else {
            Routes::of(self.to.shared)
                .answer(self.to.version, message)
                .ok_or(End::Refused)?
        };
        if matches!(response, Response::Failure(_)) {
            self.inbox.refusing = Refusing::Until;
        }
        self.answer(&response).await
    }

    /// What a server does after a failure.
    async fn ignore(&mut self, tag: u8, words: Judgement) -> Result<(), End> {
        match Asked::of(tag, words) {
            _ if self.inbox.refusing == Refusing::Rest => {
                self.inbox.refusing = Refusing::Until;
                Ok(())
            }
            Asked::Reset => {
                self.inbox.refusing = Refusing::No;
                self.to.course.asked(Asked::Reset, false);
                let mut bytes = Vec::new();
                Request::Reset
                    .frame(self.to.version, &mut bytes)
                    .map_err(|_| End::Refused)?;
                self.send(&bytes).await
            }
            Asked::AckFailure => {
                self.inbox.refusing = Refusing::No;
                self.answer(&Response::Success(Dict::new())).await
            }
            Asked::Goodbye => Err(End::Client),
            _ => self.answer(&Response::Ignored).await,
        }
    }

    async fn answer(&self, response: &Response<'_>) -> Result<(), End> {
        let mut bytes = Vec::new();
        response.frame(&mut bytes).map_err(|_| End::Refused)?;
        self.to.say(&bytes).await
    }
}

/// What comes of it, unless it takes longer than somebody may be idle.
pub(crate) async fn idle<T>(bound: Option<Duration>, what: impl Future<Output = T>) -> Option<T> {
    match bound {
        None => Some(what.await),
        // Boxed, so that who is idle without a bound does not carry a clock.
        Some(bound) => Box::pin(timeout(bound, what)).await.ok(),
    }
}

fn count(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
