//! The port that clients connect to.

use crate::doors::{Doors, Refused};
use crate::session::{Shared, serve};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// After the system refused to accept, usually because files have run out.
const BREATH: Duration = Duration::from_millis(50);

/// The doors of all ports of a gateway.
pub(crate) type SharedDoors = Arc<Mutex<Doors>>;

/// A connection's place, given back with it.
struct Place {
    doors: Arc<Mutex<Doors>>,
    source: IpAddr,
}

impl Place {
    fn take(doors: &Arc<Mutex<Doors>>, source: IpAddr, now: Duration) -> Result<Self, Refused> {
        // An address of version 4 that came over a socket of version 6 is the same machine.
        let source = source.to_canonical();
        doors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .enter(source, now)?;
        Ok(Self {
            doors: Arc::clone(doors),
            source,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.doors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .leave(self.source);
    }
}

/// Accepts until told to stop, then waits for sessions to end, then ends them.
pub(crate) async fn run(
    shared: Arc<Shared>,
    listener: TcpListener,
    doors: SharedDoors,
    began: Instant,
    stop: CancellationToken,
) {
    let mut sessions = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = sessions.join_next(), if !sessions.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                shared.metrics.accepted.inc();
                let place = match Place::take(&doors, from.ip(), began.elapsed()) {
                    Ok(place) => place,
                    Err(refused) => {
                        shared.metrics.refused(refused.kind());
                        continue;
                    }
                };
                let shared = Arc::clone(&shared);
                sessions.spawn(async move {
                    serve(shared, stream).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                sleep(BREATH).await;
            }
        }
    }
    drop(listener);
    let ended = async { while sessions.join_next().await.is_some() {} };
    if timeout(shared.config.timeouts.drain, ended).await.is_err() {
        sessions.shutdown().await;
    }
}
