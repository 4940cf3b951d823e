//! One client: login, check, hold, forward, refuse; and what becomes of it when its database goes.
//!
//! A session is with a database ([`forward`]) or without one ([`parked`]). It is *let in* ([`admit`]) each time that it
//! gets one, in the same way: nothing that a client says reaches a database before that very connection showed role
//! and term.

mod admit;
pub(crate) mod allowance;
mod answers;
pub(crate) mod arrive;
mod backend;
mod client;
mod course;
mod forward;
#[cfg(test)]
mod oracle;
mod parked;
mod passport;
#[cfg(test)]
mod properties;
mod read_only;
mod reading;
mod requests;
mod route;
mod secured;
mod slices;
mod sockets;
mod statement;
mod stream;
mod talk;
mod wire;

use crate::buffers::Buffers;
use crate::config::Config;
use crate::control::{Control, Epoch};
use crate::front::Sampler;
use crate::metrics::Metrics;
use crate::reads::{Reading, Seat};
use crate::resolve::Resolver;
use crate::secure::Secure;
use crate::signal::Signal;
pub(crate) use admit::dial;
use admit::{Attached, NotAdmitted, admit};
use allowance::Allowance;
use arrive::Ends;
pub(crate) use backend::{Backend, BackendError, Checked};
use bolt::message::Failure;
use bolt::version::Version;
use client::Client;
use course::{Course, Now};
use forward::{End, Forward, Inbox, Refusing};
use mainstay_core::memgraph::ids::Ordinal;
use parked::{Next, Parked};
use passport::Passport;
use prometheus_client::metrics::gauge::Gauge;
use requests::Requests;
pub(crate) use sockets::{client_lost, tune};
use std::mem;
use std::sync::Arc;
use talk::Alone;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

/// What every session of a port of a gateway shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) control: Control,
    pub(crate) resolve: Resolver,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) buffers: Buffers,
    pub(crate) secure: Arc<Secure>,
    /// Which sessions are logged.
    pub(crate) access: Arc<Sampler>,
    /// One for each connection of this port that may wait.
    pub(crate) waiting: Arc<Semaphore>,
    /// The gateway is told to stop.
    pub(crate) ending: Signal,
    /// The time is over that sessions had to end by themselves after that.
    pub(crate) closing: Signal,
    /// On the port for reads: who takes them.
    pub(crate) reading: Option<Arc<Reading>>,
}

impl Shared {
    /// The same gateway, for its port for reads.
    pub(crate) fn for_reads(&self, reading: Arc<Reading>, metrics: Arc<Metrics>) -> Self {
        let Self {
            config,
            control,
            resolve,
            metrics: _,
            buffers,
            secure,
            access,
            waiting: _,
            ending,
            closing,
            reading: _,
        } = self;
        Self {
            config: config.clone(),
            control: control.clone(),
            resolve: resolve.clone(),
            metrics,
            buffers: buffers.clone(),
            secure: Arc::clone(secure),
            access: Arc::clone(access),
            // Of its own: readers that wait for a replica take no place from writers that wait for MAIN.
            waiting: config.limits.places_to_wait(),
            ending: ending.clone(),
            closing: closing.clone(),
            reading: Some(reading),
        }
    }

    /// The epochs that its sessions obey.
    fn epochs(&self) -> watch::Receiver<Arc<Epoch>> {
        match &self.reading {
            None => self.control.epochs(),
            Some(_) => self.control.reading(),
        }
    }
}

/// Serves one client until it goes, or is sent away.
///
/// A session is idle for most of its life, and what it does else is boxed: the task is as large as the largest thing
/// that it holds in itself.
pub(crate) fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    ends: Ends,
    allowance: Allowance,
) -> impl Future<Output = ()> + Send {
    // Not in the task: where the client is from is in its passport, if anybody wants to know.
    let passport = Passport::wanted(&shared.config, shared.access.choose(), ends);
    go_through(shared, stream, passport, allowance)
}

async fn go_through(
    shared: Arc<Shared>,
    stream: TcpStream,
    passport: Option<Box<Passport>>,
    mut allowance: Allowance,
) {
    let _reader = shared.reading.as_ref().map(Reading::reader);
    let stream = match arrive::secure(&shared, stream, &mut allowance).await {
        Ok(stream) => stream,
        Err(error) => return shared.metrics.refused(error.kind()),
    };
    let limit = shared.config.limits.login_message;
    let greeted = Client::greet(stream, passport, limit, allowance);
    let mut client = match Box::pin(greeted).await {
        Ok(client) => client,
        Err(error) => return shared.metrics.refused(error.kind()),
    };
    match Box::pin(admit(&shared, &mut client)).await {
        Ok(admitted) => {
            let end = go_on(&shared, &mut client, admitted).await;
            client.log(end.name());
            match end {
                // Who left, or closed its half, reads no last words; everybody else may have some on the way.
                Over::Client => {}
                // Nor does the system keep what it has not taken.
                Over::NotReading => client.stream().forget(),
                Over::Refused | Over::Closed | Over::Parked => Box::pin(client.close()).await,
            }
        }
        Err(refusal) => {
            shared.metrics.refused(refusal.kind());
            tracing::debug!(%refusal, "a client was not let in");
            client.log(refusal.kind());
            Box::pin(send_away(client, refusal)).await;
        }
    }
}

/// Counts itself as long as it lives, also when its session is aborted.
struct Counted<'a>(&'a Gauge);

impl<'a> Counted<'a> {
    fn new(gauge: &'a Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

async fn send_away(client: Client, refusal: NotAdmitted) {
    let said = match refusal {
        NotAdmitted::Client(_) => return,
        NotAdmitted::Login(payload) => client.pass_on(&payload).await,
        NotAdmitted::NoCommonVersion => client.turn_away(&Failure::UNEXPECTED).await,
        refusal @ (NotAdmitted::HeldTooLong { .. } | NotAdmitted::TooManyWait | NotAdmitted::Ending) => {
            client.refuse(&Failure::transient(refusal.to_string())).await
        }
    };
    if let Err(error) = said {
        tracing::debug!(%error, "a client left before it was told why");
    }
}

/// What a client is told by a gateway that is told to stop.
const ENDING: &str = "This gateway is shutting down.";

/// Whom a session is with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum With {
    /// What is said here may be committed.
    Main,
    /// Nothing that is said here can be.
    Replica(Ordinal),
}

impl With {
    fn of(seat: Option<&Seat>) -> Self {
        match seat {
            Some(seat) if !seat.is_main => Self::Replica(seat.pod),
            Some(_) | None => Self::Main,
        }
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// The client left.
    Client,
    /// The gateway refused to go on.
    Refused,
    /// The client did not read.
    NotReading,
    /// Its database was lost in the middle of something, or closed because of what the client said.
    Closed,
    /// Without a database: the client left, or none was found.
    Parked,
}

impl Over {
    const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Refused => "refused",
            Self::NotReading => "not_reading",
            Self::Closed => "closed",
            Self::Parked => "parked",
        }
    }
}

/// From the first database to the end of the session; says what that was.
async fn go_on(shared: &Shared, client: &mut Client, mut attached: Box<Attached>) -> Over {
    let mut inbox = Inbox::new(client.take_unread());
    let version = attached.version;
    loop {
        let with = With::of(attached.seat.as_ref());
        if let Some(passport) = client.passport() {
            let route = attached.epoch.route().map(|route| route.pod);
            if let Some(pod) = attached.seat.as_ref().map(|seat| seat.pod).or(route) {
                passport.with(pod);
            }
        }
        let (end, now) = stay(shared, client, &mut inbox, &mut attached).await;
        if end == End::Cut {
            shared.metrics.cut_sessions.inc();
        }
        // A goodbye has no answer that says that it arrived.
        attached.leave(now.is_quiet() && !now.gone);
        let why = match (end, with) {
            (End::Client, _) if now.closes => return Over::Closed,
            (End::Client, _) => return Over::Client,
            (End::Refused, _) => return Over::Refused,
            (End::NotReading, _) => return Over::NotReading,
            (End::Cut | End::Drained, With::Main) => "The MAIN was changed.",
            (End::Cut | End::Drained, With::Replica(_)) => "The replica takes no reads any more.",
            (End::Ending | End::Closing, _) => ENDING,
            (End::NotMain, _) => "The database is not MAIN any more.",
            (End::Backend, With::Main) => {
                shared.control.doubt();
                "The connection to the MAIN was lost."
            }
            (End::Backend, With::Replica(pod)) => {
                if let Some(reading) = &shared.reading {
                    reading.shun(pod);
                }
                "The connection to the replica was lost."
            }
        };
        let Some(alone) = Box::pin(part(shared, client, version, &mut inbox, now, why, with)).await else {
            shared.metrics.lost("closed");
            return Over::Closed;
        };
        match Box::pin(again(shared, client, version, &mut inbox, alone, why)).await {
            Some(next) => {
                attached = next;
                // The client has its answer to the login, from the first one.
                attached.owed.answer = None;
            }
            None => return Over::Parked,
        }
    }
}

/// With one database, until one of the two goes.
async fn stay(shared: &Shared, client: &Client, inbox: &mut Inbox, attached: &mut Attached) -> (End, Now) {
    let Attached {
        backend,
        epoch,
        version,
        voice,
        owed,
        seat,
        stay: _,
    } = attached;
    let course = Course::default();
    course.now().giving = owed.answer.is_some();
    let forward = Forward {
        shared,
        client: client.stream(),
        backend,
        version: *version,
        voice: voice.as_deref(),
        with: With::of(seat.as_ref()),
        epoch,
        course: &course,
        passport: client.passport(),
    };
    shared.metrics.admitted.inc();
    let counted = Counted::new(&shared.metrics.sessions);
    // No epoch is cut that does not drain first, if only for a moment.
    let over = async {
        epoch.draining().await;
        let end = async {
            tokio::select! {
                biased;
                () = epoch.cut() => End::Cut,
                () = course.quiet() => End::Drained,
            }
        };
        Box::pin(end).await
    };
    // Nor does the time of the sessions end before the gateway is told to stop.
    let ending = async {
        shared.ending.given().await;
        let end = async {
            tokio::select! {
                biased;
                () = course.quiet() => End::Ending,
                () = shared.closing.given() => End::Closing,
            }
        };
        Box::pin(end).await
    };
    let end = tokio::select! {
        biased;
        end = over => end,
        end = ending => end,
        end = forward.run(inbox, owed) => end,
    };
    drop(counted);
    (end, course.into_now())
}

/// Says what became of everything that was under way; `None` if the session cannot go on.
async fn part(
    shared: &Shared,
    client: &Client,
    version: Version,
    inbox: &mut Inbox,
    now: Now,
    why: &str,
    with: With,
) -> Option<Alone> {
    let Now {
        talk,
        giving,
        begun,
        torn,
        gone,
        closes: _,
        sent: _,
    } = now;
    if giving || torn || gone {
        return None;
    }
    let refused = inbox.refusing != Refusing::No;
    let mut left = talk.left(begun && !refused);
    // An ASYNC replica commits nothing of what it is told, and is never promoted. The SYNC one may have been, if this
    // gateway heard of it too late.
    if let With::Replica(pod) = with
        && !pod.is_authority()
    {
        left.nothing_was_committed();
    }
    let parked = Parked {
        shared,
        client: client.stream(),
        version,
        alone: Alone::default(),
        why,
    };
    let replies: Vec<_> = left
        .replies
        .into_iter()
        .map(|reply| parked.response(reply))
        .collect();
    parked.say(&replies).await.ok()?;
    if !inbox.kept.is_empty() {
        inbox.early = mem::take(&mut inbox.kept);
        inbox.requests = Requests::new();
    }
    left.alone
        .map(|alone| if refused { Alone::FAILED } else { alone })
}

/// Without a database, until the client needs one and there is one; `None` if the session is over.
async fn again(
    shared: &Shared,
    client: &mut Client,
    version: Version,
    inbox: &mut Inbox,
    mut alone: Alone,
    why: &str,
) -> Option<Box<Attached>> {
    let mut why = why.to_owned();
    loop {
        let parked = Parked {
            shared,
            client: client.stream(),
            version,
            alone,
            why: &why,
        };
        let counted = Counted::new(&shared.metrics.parked);
        let next = parked.run(inbox).await;
        drop(counted);
        if next == Next::Leave {
            return None;
        }
        inbox.refusing = Refusing::No;
        match admit(shared, client).await {
            Ok(admitted) => {
                shared.metrics.moved.inc();
                return Some(admitted);
            }
            Err(refusal) => {
                shared.metrics.refused(refusal.kind());
                tracing::debug!(%refusal, "a session found no database");
                match refusal {
                    // In place of the answer to what it asked; it could not log in again.
                    NotAdmitted::Login(payload) => {
                        client.tell(&payload).await.ok();
                        return None;
                    }
                    NotAdmitted::Client(_) | NotAdmitted::NoCommonVersion => return None,
                    NotAdmitted::HeldTooLong { .. } | NotAdmitted::TooManyWait | NotAdmitted::Ending => {
                        alone = Alone::LOST;
                        why = refusal.to_string();
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn size<A, B, C, D, F: Future>(_: fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_session_is_small() {
        // Every one of thousands of idle clients is one of these.
        let size = size(serve);
        assert!(size <= 2304, "{size} bytes");
    }
}
