//! Letting a read client in: MAIN says whether it may log in (R22), then a replica gets it (R29).

use super::admit::{Failed, let_in_by_main};
use super::backend::{Backend, BackendError, Checked};
use super::client::Client;
use super::{Shared, dial};
use crate::control::{Epoch, Stay};
use crate::heard::Voice;
use crate::reads::{Reading, Seat};
use bolt::handshake::Proposals;
use bolt::message::Response;
use bolt::packstream::Limits;
use bolt::version::Version;
use mainstay_core::memgraph::gate::Route;
use mainstay_core::memgraph::observed::Role;
use mainstay_core::memgraph::read_gate::{LetIn, NotRead};
use std::sync::Arc;
use tokio::time::Instant;

/// A client that MAIN let in. It is let in once for each term, not for each replica that it reads from.
#[derive(Debug)]
pub(crate) struct Login {
    by: LetIn,
    version: Version,
    /// What MAIN said to the login.
    answer: Vec<u8>,
}

/// A client that has a seat, and a connection to whom it sits with.
pub(super) struct Seated {
    pub(super) seat: Seat,
    pub(super) stay: Stay,
    pub(super) backend: Backend,
    pub(super) version: Version,
    pub(super) answer: Vec<u8>,
    pub(super) voice: Option<Arc<Voice>>,
}

/// One try.
pub(super) async fn try_once(
    shared: &Shared,
    reading: &Reading,
    client: &mut Client,
    epoch: &Arc<Epoch>,
    route: Route,
    until: Instant,
) -> Result<Seated, Failed> {
    let (by, version, answer) = log_in_once(shared, client, epoch, route, until).await?;
    let seat = reading.seat(epoch, by).map_err(BackendError::NoReader)?;
    // With MAIN it is a stay in the epoch of writers, and the order matters as much.
    let stay = seat.epoch.stay();
    let attached = tokio::select! {
        biased;
        () = seat.epoch.draining() => return Err(BackendError::NoReader(NotRead::NotFollowing).into()),
        attached = attach(shared, client, &seat, version, route, until) => attached,
    };
    match attached {
        Ok((backend, voice)) => Ok(Seated {
            seat,
            stay,
            backend,
            version,
            answer,
            voice,
        }),
        Err(failed) => {
            reading.shun(seat.pod);
            Err(failed)
        }
    }
}

/// MAIN is asked, unless it let this client in before, in this term.
async fn log_in_once(
    shared: &Shared,
    client: &mut Client,
    epoch: &Epoch,
    route: Route,
    until: Instant,
) -> Result<(LetIn, Version, Vec<u8>), Failed> {
    let now = LetIn {
        by: route.pod,
        term: route.term,
    };
    if let Some(Login { by, version, answer }) = client.login.as_deref()
        && *by == now
    {
        return Ok((now, *version, answer.clone()));
    }
    // The connection to MAIN has done its part when this returns.
    let (main, version, answer, _) = let_in_by_main(shared, client, epoch, route, until).await?;
    main.close();
    client.login = Some(Box::new(Login {
        by: now,
        version,
        answer: answer.clone(),
    }));
    Ok((now, version, answer))
}

async fn attach(
    shared: &Shared,
    client: &mut Client,
    seat: &Seat,
    version: Version,
    route: Route,
    until: Instant,
) -> Result<(Backend, Option<Arc<Voice>>), Failed> {
    if seat.is_main {
        // As a writer: MAIN is checked on this very connection, and the session obeys the record as writers do.
        let (backend, _, _, voice) = let_in_by_main(shared, client, &seat.epoch, route, until).await?;
        return Ok((backend, voice));
    }
    Ok((with_replica(shared, client, seat, version, until).await?, None))
}

/// Says handshake, HELLO and LOGON as the client said them. MAIN has let the client in: a replica has no users and takes
/// every login, and one that does not is not ready.
async fn with_replica(
    shared: &Shared,
    client: &mut Client,
    seat: &Seat,
    version: Version,
    until: Instant,
) -> Result<Backend, Failed> {
    let mut backend = dial(shared, seat.pod, client.passport(), Some(until)).await?;
    backend.handshake(Proposals::only(version)).await?;
    takes(&backend.ask(client.hello().await?).await?)?;
    if version.has_logon() {
        takes(&backend.ask(client.logon().await?).await?)?;
    }
    // What MAIN says of a replica is a cache: one that came back empty between two looks is called `ready`. Every term
    // writes its mark into the data, so who has none has nothing.
    match backend.check(version).await? {
        Checked {
            role: Role::Replica,
            mark: Some(_),
            run_id: _,
        } => Ok(backend),
        Checked {
            role: Role::Replica, ..
        } => Err(BackendError::Empty.into()),
        Checked { role, .. } => Err(BackendError::OtherRole(role).into()),
    }
}

fn takes(payload: &[u8]) -> Result<(), BackendError> {
    match Response::parse(payload, Limits::DEFAULT)? {
        Response::Success(_) => Ok(()),
        Response::Failure(failure) => Err(BackendError::Refused(failure.into_owned())),
        Response::Record(_) | Response::Ignored => Err(BackendError::Unexpected),
    }
}
