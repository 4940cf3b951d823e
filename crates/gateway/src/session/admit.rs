//! Letting a client in: only on a connection to the recorded MAIN that was checked (G1). Until there is one, the
//! client is held.

use super::backend::{Backend, BackendError, Checked, Patience, Prelude};
use super::client::{Client, ClientError};
use super::passport::Passport;
use super::stream::Stream;
use super::wire::WireError;
use super::{Counted, Shared, reading};
use crate::control::{Epoch, Stay};
use crate::heard::Voice;
use crate::proxy_header;
use crate::reads::{News, Seat};
use bolt::handshake::HandshakeError;
use bolt::message::{Response, tag};
use bolt::packstream::Limits;
use bolt::version::Version;
use mainstay_core::memgraph::gate::Route;
use mainstay_core::memgraph::ids::Ordinal;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

/// Between two tries of a MAIN that cannot be used although the record names it; doubled each time, up to the second.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A client whose connection to a database was checked. Its login is not answered yet.
#[derive(Debug)]
pub(crate) struct Attached {
    // In this order they are dropped: first the connection, then what holds the confirmation back.
    pub(crate) backend: Stream,
    pub(crate) epoch: Arc<Epoch>,
    pub(crate) version: Version,
    pub(crate) voice: Option<Arc<Voice>>,
    pub(crate) owed: Owed,
    /// On the port for reads: with whom.
    pub(crate) seat: Option<Seat>,
    pub(crate) stay: Stay,
}

impl Attached {
    /// When this returns, nothing reaches that database any more, and nothing comes from it. If it was in the middle of
    /// something, nor does what the system has not delivered: the database may do it after somebody else became MAIN.
    pub(crate) fn leave(self, quiet: bool) {
        let Self {
            backend,
            epoch: _,
            version: _,
            voice: _,
            owed: _,
            seat,
            stay,
        } = self;
        if quiet {
            backend.close_in_peace();
        }
        drop(backend);
        drop(seat);
        // From here on the next record may be confirmed.
        drop(stay);
    }
}

/// What the database said already and the client has not got.
#[derive(Debug)]
pub(crate) struct Owed {
    /// To the login.
    pub(crate) answer: Option<Vec<u8>>,
    /// After its last answer.
    pub(crate) late: Vec<u8>,
}

/// Why a client is not let in.
#[derive(Debug, Error)]
pub(crate) enum NotAdmitted {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the database refused the login")]
    Login(Vec<u8>),
    #[error("the database speaks no version that the client proposed")]
    NoCommonVersion,
    #[error("No {whom} takes this connection ({why}); it was held for {} ms. Try again.", held.as_millis())]
    HeldTooLong {
        whom: &'static str,
        why: String,
        held: Duration,
    },
    #[error("No database takes this connection, and too many others wait already. Try again.")]
    TooManyWait,
    #[error("This gateway is shutting down. Try again.")]
    Ending,
}

impl NotAdmitted {
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Client(error) => error.kind(),
            Self::Login(_) => "login",
            Self::NoCommonVersion => "no_common_version",
            Self::HeldTooLong { .. } => "held_too_long",
            Self::TooManyWait => "too_many_wait",
            Self::Ending => "ending",
        }
    }
}

/// Why one try failed: for good, or for now.
pub(super) enum Failed {
    ForGood(NotAdmitted),
    ForNow(BackendError),
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        Self::ForGood(error.into())
    }
}

impl From<BackendError> for Failed {
    fn from(error: BackendError) -> Self {
        Self::ForNow(error)
    }
}

/// Lets a client in, and holds it as long as nobody can serve it, up to the bound.
pub(crate) async fn admit(shared: &Shared, client: &mut Client) -> Result<Box<Attached>, NotAdmitted> {
    let timeouts = shared.config.timeouts;
    let began = Instant::now();
    let mut deadline = began + timeouts.hold;
    // Who is not to be held at all is tried nevertheless, once.
    let one_try = began + timeouts.connect + timeouts.check;
    let mut epochs = shared.epochs();
    let mut news = shared.reading.as_ref().map(|reading| reading.news());
    let mut waiting = None;
    let mut awaiting = None;
    let mut pause = PAUSE;
    loop {
        let epoch = Arc::clone(&epochs.borrow_and_update());
        if let Some(news) = &mut news {
            news.mark_unchanged();
        }
        let (why, again) = match epoch.route() {
            None => {
                if let Some(patience) = timeouts.wake
                    && shared.control.is_asleep()
                {
                    drop(awaiting.replace(shared.control.wake()));
                    deadline = deadline.max(began + patience);
                }
                (epoch.headline().to_owned(), deadline)
            }
            Some(route) => {
                // The order matters: whoever cuts waits for this before it confirms.
                let stay = epoch.stay();
                let until = deadline.max(one_try);
                let tried = tokio::select! {
                    biased;
                    () = epoch.draining() => continue,
                    tried = try_once(shared, client, &epoch, stay, route, until) => tried,
                };
                match tried {
                    Ok(admitted) => {
                        shared.metrics.checked("admitted");
                        return Ok(admitted);
                    }
                    Err(Failed::ForGood(refusal)) => return Err(refusal),
                    Err(Failed::ForNow(error)) => {
                        shared.metrics.checked(error.kind());
                        // The record may have moved on without us (G5).
                        if !matches!(error, BackendError::NoReader(_)) {
                            shared.control.doubt();
                        }
                        let again = Instant::now() + pause;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                        let why = match shared.reading {
                            None => format!("{}: {error}", route.pod),
                            // It may be about MAIN, or about any replica.
                            Some(_) => error.to_string(),
                        };
                        (why, again)
                    }
                }
            }
        };
        let too_long = || NotAdmitted::HeldTooLong {
            whom: if shared.reading.is_some() {
                "replica"
            } else {
                "MAIN"
            },
            why,
            held: began.elapsed(),
        };
        if Instant::now() >= deadline {
            return Err(too_long());
        }
        if waiting.is_none() {
            waiting = Some(Waiting::begin(shared)?);
        }
        tokio::select! {
            changed = epochs.changed() => changed.map_err(|_| NotAdmitted::Ending)?,
            () = sleep_until(again.min(deadline)) => if again >= deadline {
                // A try that begins at the end would have no time.
                return Err(too_long());
            },
            () = changed(&mut news) => {}
            () = shared.closing.given() => return Err(NotAdmitted::Ending),
            () = client.gone() => return Err(ClientError::from(WireError::Closed).into()),
        }
    }
}

/// Ends when there is news of replicas; never, where nobody waits for them.
async fn changed(news: &mut Option<watch::Receiver<News>>) {
    if let Some(news) = news
        && news.changed().await.is_ok()
    {
        return;
    }
    pending::<()>().await;
}

/// One try with one database, which may keep the client waiting until then.
async fn try_once(
    shared: &Shared,
    client: &mut Client,
    epoch: &Arc<Epoch>,
    stay: Stay,
    route: Route,
    until: Instant,
) -> Result<Box<Attached>, Failed> {
    if let Some(reading) = &shared.reading {
        let reading::Seated {
            seat,
            stay,
            backend,
            version,
            answer,
            voice,
        } = reading::try_once(shared, reading, client, epoch, route, until).await?;
        let (backend, late) = backend.into_parts();
        return Ok(Box::new(Attached {
            backend,
            epoch: Arc::clone(&seat.epoch),
            version,
            voice,
            owed: Owed {
                answer: Some(answer),
                late,
            },
            seat: Some(seat),
            stay,
        }));
    }
    let (backend, version, answer, voice) = let_in_by_main(shared, client, epoch, route, until).await?;
    let (backend, late) = backend.into_parts();
    Ok(Box::new(Attached {
        backend,
        epoch: Arc::clone(epoch),
        version,
        voice,
        owed: Owed {
            answer: Some(answer),
            late,
        },
        seat: None,
        stay,
    }))
}

/// A connection to a pod, for this client, or for the gateway itself. Nothing is waited for beyond `until`, if there is
/// such an end.
pub(crate) async fn dial(
    shared: &Shared,
    pod: Ordinal,
    passport: Option<&Passport>,
    until: Option<Instant>,
) -> Result<Backend, BackendError> {
    let config = &shared.config;
    let host = config.cluster.pod_host(pod, &config.namespace);
    let patience = Patience {
        timeouts: config.timeouts,
        until,
    };
    let addresses = patience
        .connect(shared.resolve.addresses(&host, config.backend_port))
        .await?
        .map_err(BackendError::Resolve)?;
    let prelude = Prelude {
        header: config
            .back
            .proxy_protocol
            .then(|| passport.map_or_else(proxy_header::own, Passport::header)),
        tls: shared.secure.back(&host).map_err(BackendError::Name)?,
    };
    Backend::dial(&addresses, &prelude, patience, config.limits.login_message).await
}

/// Has MAIN answer the client's login, and checks that it is the MAIN of the epoch on that very connection.
///
/// MAIN is dialled before the client has said HELLO: which version is spoken is MAIN's to say, and a client says nothing
/// before it knows. Whoever wants to keep a connection of MAIN for nothing could say HELLO and no LOGON, and so keep it as
/// long; the client's time is bounded as a whole instead.
pub(super) async fn let_in_by_main(
    shared: &Shared,
    client: &mut Client,
    epoch: &Epoch,
    route: Route,
    until: Instant,
) -> Result<(Backend, Version, Vec<u8>, Option<Arc<Voice>>), Failed> {
    let mut backend = dial(shared, route.pod, client.passport(), Some(until)).await?;
    let version = match backend.handshake(client.proposals()).await {
        Ok(version) => version,
        Err(BackendError::Handshake(HandshakeError::NoCommonVersion)) => {
            return Err(Failed::ForGood(NotAdmitted::NoCommonVersion));
        }
        Err(error) => return Err(error.into()),
    };
    client.agree(version).await?;
    let hello = backend.excuse(client.hello()).await?;
    let mut answer = log_in(backend.ask(hello).await?)?;
    if version.has_logon() {
        client.answer_hello(&answer).await?;
        let logon = backend.excuse(client.logon()).await?;
        answer = log_in(backend.ask(logon).await?)?;
    }
    let Checked { role, mark, run_id } = backend.check(version).await?;
    let voice = run_id.map(|run_id| shared.control.hearing().answered(&run_id));
    if !epoch.admits(role, mark) {
        return Err(BackendError::NotAdmitted { role, mark }.into());
    }
    Ok((backend, version, answer, voice))
}

/// The answer to a login, if it was let in.
fn log_in(payload: Vec<u8>) -> Result<Vec<u8>, Failed> {
    match payload.get(1) {
        Some(&tag::SUCCESS) => Ok(payload),
        Some(&tag::FAILURE) => Err(Failed::ForGood(NotAdmitted::Login(payload))),
        _ => {
            // Says what is wrong with it, if anything is.
            Response::parse(&payload, Limits::DEFAULT).map_err(BackendError::Message)?;
            Err(BackendError::Unexpected.into())
        }
    }
}

/// A connection that is held. There are only so many.
struct Waiting<'a> {
    _permit: OwnedSemaphorePermit,
    _counted: Counted<'a>,
}

impl<'a> Waiting<'a> {
    fn begin(shared: &'a Shared) -> Result<Self, NotAdmitted> {
        let permit = Arc::clone(&shared.waiting).try_acquire_owned();
        let permit = permit.map_err(|_| NotAdmitted::TooManyWait)?;
        shared.metrics.holds.inc();
        Ok(Self {
            _permit: permit,
            _counted: Counted::new(&shared.metrics.waiting),
        })
    }
}
