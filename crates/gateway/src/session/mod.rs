//! One client: login, check, hold, forward, refuse.
//!
//! The full gateway, which knows of each session whether it is idle and moves those that are, grows here: it
//! replaces [`forward`], and keeps [`admit`].

mod admit;
mod answers;
mod backend;
mod client;
mod forward;
mod requests;
mod statement;
mod wire;

use crate::buffers::Buffers;
use crate::config::Config;
use crate::control::Control;
use crate::metrics::Metrics;
use crate::resolve::Resolve;
use admit::{Admitted, NotAdmitted, admit};
use bolt::message::Failure;
use client::Client;
use forward::{End, Forward};
use prometheus_client::metrics::gauge::Gauge;
use socket2::{SockRef, TcpKeepalive};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use wire::close_gently;

/// What every session of a gateway shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) control: Control,
    pub(crate) resolve: Resolve,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) buffers: Buffers,
    /// One for each connection that may wait.
    pub(crate) waiting: Arc<Semaphore>,
}

/// Serves one client until it goes, is cut, or is sent away.
pub(crate) async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    tune(&stream);
    let (limits, timeouts) = (shared.config.limits, shared.config.timeouts);
    let mut client = match Client::greet(stream, limits.login_message, timeouts.client).await {
        Ok(client) => client,
        Err(error) => return shared.metrics.refused(error.kind()),
    };
    match admit(&shared, &mut client).await {
        Ok(admitted) => forward(&shared, client, admitted).await,
        Err(refusal) => {
            shared.metrics.refused(refusal.kind());
            tracing::debug!(%refusal, "a client was not let in");
            send_away(client, refusal).await;
        }
    }
}

/// Small messages go at once, and a peer whose machine is gone is noticed within minutes. Without either it only
/// takes longer.
fn tune(stream: &TcpStream) {
    stream.set_nodelay(true).ok();
    let alive = TcpKeepalive::new()
        .with_time(Duration::from_mins(1))
        .with_interval(Duration::from_secs(15))
        .with_retries(4);
    SockRef::from(stream).set_tcp_keepalive(&alive).ok();
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

async fn forward(shared: &Shared, client: Client, admitted: Admitted) {
    let Admitted {
        epoch,
        stay,
        backend,
        version,
        answer,
        voice,
    } = admitted;
    let (client, early) = client.into_parts();
    let (backend, late) = backend.into_parts();
    let mut forward = Forward {
        shared,
        client,
        backend,
        version,
        voice,
        early,
        late,
    };
    shared.metrics.admitted.inc();
    let counted = Counted::new(&shared.metrics.sessions);
    let end = tokio::select! {
        biased;
        () = epoch.cut() => End::Cut,
        end = forward.run(&answer) => end,
    };
    drop(counted);
    let Forward { client, backend, .. } = forward;
    drop(backend);
    match end {
        // At once: whatever the old MAIN says from now on must not reach anybody.
        End::Cut => {
            shared.metrics.cut_sessions.inc();
            drop(client);
            drop(stay);
        }
        End::Client => drop(client),
        End::NotMain | End::Backend | End::Refused => {
            // Nothing is forwarded any more: closing may take its time without holding a confirmation back.
            drop(stay);
            if end == End::Backend {
                shared.control.doubt();
            }
            close_gently(client).await;
        }
    }
}
