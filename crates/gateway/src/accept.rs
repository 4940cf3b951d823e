//! The port that clients connect to.

use crate::session::{Shared, serve};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// After the system refused to accept, usually because files have run out.
const BREATH: Duration = Duration::from_millis(50);

/// Accepts until told to stop, then waits for sessions to end, then ends them.
pub(crate) async fn run(shared: Arc<Shared>, listener: TcpListener, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(shared.config.limits.connections));
    let mut sessions = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = sessions.join_next(), if !sessions.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                shared.metrics.accepted.inc();
                let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
                    shared.metrics.refused("too_many_connections");
                    continue;
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
