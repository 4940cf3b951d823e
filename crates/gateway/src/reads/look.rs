//! Asking MAIN for its replicas, on a connection of the gateway's own, while there is somebody who reads.
//!
//! A replica does not know how far behind it is; only MAIN says so.

use super::Reading;
use super::known::{Known, News};
use crate::cells::cell;
use crate::control::Epoch;
use crate::session::{Backend, BackendError, Checked, Shared, dial};
use bolt::handshake::Proposals;
use bolt::message::{Auth, Hello, Request, tag};
use bolt::packstream::Dict;
use bolt::version::Version;
use mainstay_core::memgraph::gate::Route;
use mainstay_core::memgraph::ids::RegistrationName;
use mainstay_core::memgraph::observed::Registration;
use mainstay_core::memgraph::rows::{Cell, Replica, RowError};
use mainstay_core::time::Time;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Between the first ones: whether a replica is being fed is seen only by looking again, and somebody waits.
const AT_FIRST: Duration = Duration::from_millis(200);
const FIRST: u32 = 5;
/// After a look that failed.
const PAUSE: Duration = Duration::from_millis(200);
/// How long it is gone on after the last reader left: the next one usually comes soon.
const LINGER: Duration = Duration::from_secs(10);
const QUESTION: &str = "SHOW REPLICAS";

/// Why nothing new is known.
#[derive(Debug, Error)]
enum LookError {
    #[error("the credentials of the cluster cannot be read: {0}")]
    Credentials(#[source] io::Error),
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error("the gateway's own login was refused")]
    Login,
    #[error(transparent)]
    Row(#[from] RowError),
}

/// Looks, and has sessions leave where they may not stay, until told to stop.
pub(crate) async fn run(shared: Arc<Shared>, reading: Arc<Reading>, stop: CancellationToken) {
    let look = look(&shared, &reading);
    tokio::select! {
        () = stop.cancelled() => {}
        () = look => {}
        () = tidy(&reading) => {}
    }
}

/// Each time that something changes, and when what is known becomes too old.
async fn tidy(reading: &Reading) {
    let mut news = reading.news();
    let mut record = reading.control.record();
    loop {
        reading.tidy();
        let ends = news.borrow_and_update().known.as_ref().map(Known::ends);
        let old = async {
            match ends.filter(|ends| *ends >= Instant::now()) {
                Some(ends) => sleep_until(ends + Duration::from_millis(1)).await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = news.changed() => {}
            changed = record.changed() => if changed.is_err() { return },
            () = old => {}
        }
    }
}

async fn look(shared: &Shared, reading: &Reading) {
    let mut epochs = reading.control.reading();
    let mut readers = reading.readers.subscribe();
    loop {
        if readers.wait_for(|count| *count > 0).await.is_err() {
            return;
        }
        let epoch = Arc::clone(&epochs.borrow_and_update());
        // As for a session: whoever cuts waits for this before it confirms, and what was cut before is seen below.
        let stay = epoch.stay();
        let looked = async {
            let Some(route) = epoch.route() else {
                return pending().await;
            };
            let looked = look_at(shared, reading, &epoch, route).await;
            drop(stay);
            (route, looked)
        };
        tokio::select! {
            biased;
            changed = epochs.changed() => if changed.is_err() { return },
            (route, looked) = looked => match looked {
                Ok(()) => {
                    reading.news.send_if_modified(News::rest);
                }
                Err(error) => {
                    tracing::info!(%error, "MAIN was not asked for its replicas");
                    if let LookError::Backend(error) = &error {
                        shared.metrics.checked(error.kind());
                        shared.control.doubt();
                    }
                    reading.news.send_if_modified(|news| news.failed(route));
                    sleep(PAUSE).await;
                }
            },
        }
    }
}

/// Asks one MAIN again and again, until nobody reads any more.
async fn look_at(shared: &Shared, reading: &Reading, epoch: &Epoch, by: Route) -> Result<(), LookError> {
    let (mut main, version) = open(shared, reading, epoch, by).await?;
    let mut wanted = Instant::now();
    let mut fed = Fed::default();
    let mut looks = 0_u32;
    loop {
        let at = Instant::now();
        let rows = ask(shared, &mut main, version, &mut fed, reading.now()).await?;
        reading.news.send_modify(|news| news.told(Known { by, at, rows }));
        if *reading.readers.borrow() > 0 {
            wanted = at;
        }
        if at.saturating_duration_since(wanted) > LINGER {
            main.close();
            return Ok(());
        }
        looks = looks.saturating_add(1);
        sleep_until(at + if looks < FIRST { AT_FIRST } else { EVERY }).await;
    }
}

/// How far each replica was, and when it was last seen to get further.
#[derive(Debug, Default)]
struct Fed(BTreeMap<RegistrationName, (i64, Option<Time>)>);

impl Fed {
    /// It is as far as this now. When did it last get further?
    fn note(&mut self, name: RegistrationName, ts: Option<i64>, now: Time) -> Option<Time> {
        let Some(ts) = ts else {
            self.0.remove(&name);
            return None;
        };
        let (last, moved) = self.0.entry(name).or_insert((ts, None));
        match ts.cmp(last) {
            Ordering::Greater => *moved = Some(now),
            Ordering::Equal => {}
            // It is another one, that has lost what the last one had.
            Ordering::Less => *moved = None,
        }
        *last = ts;
        *moved
    }
}

/// A connection to MAIN that showed role and term, as for a client.
async fn open(
    shared: &Shared,
    reading: &Reading,
    epoch: &Epoch,
    by: Route,
) -> Result<(Backend, Version), LookError> {
    let auth = reading.config.credentials.read().await;
    let auth = auth.map_err(LookError::Credentials)?;
    let mut main = dial(shared, by.pod, None, None).await?;
    let version = main.handshake(Proposals::MEMGRAPH).await?;
    log_in(&mut main, version, auth).await?;
    let Checked {
        role,
        mark,
        run_id: _,
    } = main.check(version).await?;
    if !epoch.admits(role, mark) {
        return Err(BackendError::NotAdmitted { role, mark }.into());
    }
    Ok((main, version))
}

async fn log_in(main: &mut Backend, version: Version, auth: Auth<'static>) -> Result<(), LookError> {
    let (early, late) = if version.has_logon() {
        (None, Some(auth))
    } else {
        (Some(auth), None)
    };
    let hello = Request::Hello(Hello {
        user_agent: "mainstay-gateway".into(),
        auth: early,
        extra: Dict::new(),
    });
    for request in std::iter::once(hello).chain(late.map(Request::Logon)) {
        let mut payload = Vec::new();
        request
            .encode(version, &mut payload)
            .map_err(BackendError::from)?;
        if main.ask(&payload).await?.get(1) != Some(&tag::SUCCESS) {
            return Err(LookError::Login);
        }
    }
    Ok(())
}

async fn ask(
    shared: &Shared,
    main: &mut Backend,
    version: Version,
    fed: &mut Fed,
    now: Time,
) -> Result<Vec<Registration>, LookError> {
    let answer = main.query(version, QUESTION).await?;
    let columns: Vec<&str> = answer.fields.iter().map(String::as_str).collect();
    let prefix = shared.config.cluster.to_string().replace('-', "_");
    let mut found = Vec::new();
    for row in &answer.rows {
        let cells: Vec<Cell> = row.iter().map(cell).collect();
        match Replica::read(&prefix, &columns, &cells) {
            Ok(replica) => {
                let means = means(shared, &replica).await;
                let moved = fed.note(replica.name, replica.ts(), now);
                // Since when it has had its status is the operator's affair.
                found.push(replica.registration(means, Time::ZERO, moved));
            }
            // Somebody else's replica: none of ours to read from.
            Err(RowError::Name(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Does the address mean the pod that the name means? It is a name, or an address where nobody resolves names.
async fn means(shared: &Shared, replica: &Replica) -> bool {
    let config = &shared.config;
    let pod = config.cluster.pod_host(replica.name.pod(), &config.namespace);
    let host = replica
        .address
        .rsplit_once(':')
        .map_or(&*replica.address, |(host, _)| host);
    if host == pod {
        return true;
    }
    let Ok(address) = host.parse::<std::net::IpAddr>() else {
        return false;
    };
    let known = shared.resolve.addresses(&pod, config.backend_port).await;
    known.is_ok_and(|all| all.iter().any(|one| one.ip() == address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_core::memgraph::ids::Ordinal;

    #[test]
    fn a_replica_is_fed_when_it_is_seen_to_get_further() {
        let name = RegistrationName::Async(Ordinal(2));
        let mut fed = Fed::default();
        let mut at = |ms, ts| fed.note(name, ts, Time(ms));
        assert_eq!(at(1, Some(7)), None, "seen once");
        assert_eq!(at(2, Some(7)), None);
        assert_eq!(at(3, Some(9)), Some(Time(3)));
        assert_eq!(at(4, Some(9)), Some(Time(3)));
        assert_eq!(at(5, Some(4)), None, "it was set back");
        assert_eq!(at(6, Some(5)), Some(Time(6)));
        assert_eq!(at(7, None), None, "it is not attached");
        assert_eq!(at(8, Some(9)), None);
    }
}
