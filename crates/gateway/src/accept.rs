//! The port that clients connect to.

use crate::doors::{Doors, Refused};
use crate::session::allowance::Allowance;
use crate::session::arrive::{self, Ends};
use crate::session::{Shared, client_lost, serve, tune};
use socket2::SockRef;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// After the system refused to accept, usually because files have run out.
const BREATH: Duration = Duration::from_millis(50);

/// For those who are left after the drain to hear what became of what they asked for, also who asks in the second that a
/// session without a database stays.
const LAST_WORDS: Duration = Duration::from_millis(1500);

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

    /// The same; whoever gets none is counted.
    fn counted(shared: &Shared, doors: &Arc<Mutex<Doors>>, source: IpAddr, began: Instant) -> Option<Self> {
        Self::take(doors, source, began.elapsed())
            .map_err(|refused| shared.metrics.refused(refused.kind()))
            .ok()
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

/// Accepts until told to stop, then waits for sessions to end, then has them say their last words, then ends them.
pub(crate) async fn run(
    shared: Arc<Shared>,
    listener: TcpListener,
    doors: SharedDoors,
    began: Instant,
    stop: CancellationToken,
) {
    let lost = client_lost(shared.config.timeouts.stall);
    tune(&SockRef::from(&listener), lost);
    // Connections that have not said yet who they are from.
    let nameless = Arc::new(Semaphore::new(shared.config.limits.connections));
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
                let shared = Arc::clone(&shared);
                if shared.config.front.proxy_protocol {
                    let Ok(nameless) = Arc::clone(&nameless).try_acquire_owned() else {
                        shared.metrics.refused(Refused::Full.kind());
                        continue;
                    };
                    let doors = Arc::clone(&doors);
                    sessions.spawn(async move {
                        let mut allowance = Allowance::new(shared.config.timeouts.client);
                        let came = introduced(&shared, &doors, &stream, from, began, &mut allowance).await;
                        drop(nameless);
                        if let Some((ends, place)) = came {
                            serve(shared, stream, ends, allowance).await;
                            drop(place);
                        }
                    });
                    continue;
                }
                let Some((ends, place)) = here(&shared, &doors, &stream, from, began) else {
                    continue;
                };
                let allowance = Allowance::new(shared.config.timeouts.client);
                let session = serve(shared, stream, ends, allowance);
                sessions.spawn(async move {
                    session.await;
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
    if ended(&mut sessions, shared.config.timeouts.drain).await {
        return;
    }
    // A connection that is only closed would say to drivers that nothing happened, and some would ask again for what was
    // committed.
    shared.closing.give();
    if !ended(&mut sessions, LAST_WORDS).await {
        sessions.shutdown().await;
    }
}

/// Whether all of them end in that time.
async fn ended(sessions: &mut JoinSet<()>, within: Duration) -> bool {
    let all = async { while sessions.join_next().await.is_some() {} };
    timeout(within, all).await.is_ok()
}

/// A connection that is from whom it seems to be from.
fn here(
    shared: &Shared,
    doors: &Arc<Mutex<Doors>>,
    stream: &TcpStream,
    from: SocketAddr,
    began: Instant,
) -> Option<(Ends, Place)> {
    let place = Place::counted(shared, doors, from.ip(), began)?;
    // Only somebody behind us asks for it.
    let asked = shared.config.back.proxy_protocol;
    let destination = asked.then(|| stream.local_addr().ok()).flatten();
    let destination = destination.unwrap_or(shared.config.listen);
    let ends = Ends {
        source: from,
        destination,
    };
    Some((ends, place))
}

/// A connection that says first who it is from. The limits of a source are those of the one it names.
async fn introduced(
    shared: &Shared,
    doors: &Arc<Mutex<Doors>>,
    stream: &TcpStream,
    from: SocketAddr,
    began: Instant,
    allowance: &mut Allowance,
) -> Option<(Ends, Place)> {
    let ends = arrive::ends(shared, stream, from, allowance).await;
    let ends = ends.map_err(|error| shared.metrics.refused(error.kind())).ok()?;
    let place = Place::counted(shared, doors, ends.source.ip(), began)?;
    Some((ends, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_accepted_is_tuned_as_the_listener_was() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let lost = Duration::from_secs(330);
        tune(&SockRef::from(&listener), Some(lost));
        let address = listener.local_addr().unwrap();
        let (_client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (stream, _) = accepted.unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 4);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(lost));
    }
}
