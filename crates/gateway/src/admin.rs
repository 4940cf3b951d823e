//! Pushes, state, health and metrics over HTTP.

use crate::session::Shared;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use mainstay_core::memgraph::document::{Document, DocumentError, Parsed};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// A ConfigMap has at most a MiB.
const LARGEST: usize = 1024 * 1024;
/// For a request to arrive.
const PATIENCE: Duration = Duration::from_secs(5);
/// For what a push cuts to be over: longer than transactions are ever given to end.
const LONGEST_PUSH: Duration = Duration::from_mins(1);
/// After the system refused to accept.
const BREATH: Duration = Duration::from_millis(50);

type Answer = Response<Full<Bytes>>;

/// Why a push was not obeyed.
#[derive(Debug, Error)]
enum PushError {
    #[error("a push carries `Authorization: Bearer` and the token of the cluster")]
    Token,
    #[error("the body is too large, or did not arrive")]
    Body,
    #[error("the body is not the data of a ConfigMap: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("an index alone is not a record")]
    SeedOnly,
}

impl PushError {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Token => StatusCode::UNAUTHORIZED,
            Self::Body => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Json(_) => StatusCode::BAD_REQUEST,
            Self::Document(_) | Self::SeedOnly => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Token => "no_token",
            Self::Body | Self::Json(_) => "malformed",
            Self::Document(_) | Self::SeedOnly => "no_record",
        }
    }
}

/// Who is connected, the oldest first. Anybody may connect and say nothing; whoever pushes must get in nevertheless.
#[derive(Debug)]
struct Guests {
    most: usize,
    here: VecDeque<(AbortHandle, Known)>,
}

/// Has shown the token.
type Known = Arc<AtomicBool>;

impl Guests {
    /// Makes room for one more: the oldest who has not shown the token leaves. `false` if all have.
    fn make_room(&mut self) -> bool {
        self.here.retain(|(guest, _)| !guest.is_finished());
        if self.here.len() < self.most {
            return true;
        }
        let stranger = self
            .here
            .iter()
            .position(|(_, known)| !known.load(Ordering::Relaxed));
        let left = stranger.and_then(|stranger| self.here.remove(stranger));
        left.map(|(guest, _)| guest.abort()).is_some()
    }
}

/// Serves until told to stop.
pub(crate) async fn run(
    shared: Arc<Shared>,
    listener: TcpListener,
    leaving: CancellationToken,
    stop: CancellationToken,
) {
    let mut guests = Guests {
        most: shared.config.limits.admin_connections,
        here: VecDeque::new(),
    };
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                if !guests.make_room() {
                    continue;
                }
                let known = Known::default();
                let (shared, leaving) = (Arc::clone(&shared), leaving.clone());
                let guest = connections.spawn(connection(shared, stream, leaving, Arc::clone(&known)));
                guests.here.push_back((guest, known));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept on the admin port");
                sleep(BREATH).await;
            }
        }
    }
    connections.shutdown().await;
}

/// One connection, which is not for ever, however slowly it asks or reads. A push that is being obeyed may end.
async fn connection(shared: Arc<Shared>, stream: TcpStream, leaving: CancellationToken, known: Known) {
    let bound = shared.config.timeouts.admin;
    let pushes = Arc::clone(&known);
    let service = service_fn(move |request| {
        let (shared, leaving, known) = (Arc::clone(&shared), leaving.clone(), Arc::clone(&known));
        async move { Ok::<_, Infallible>(answer(&shared, request, &leaving, &known).await) }
    });
    let mut served = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut ended = timeout(bound, served.as_mut()).await;
    if ended.is_err() && pushes.load(Ordering::Relaxed) {
        served.as_mut().graceful_shutdown();
        ended = timeout(LONGEST_PUSH, served).await;
    }
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection to the admin port broke"),
        Err(_) => tracing::debug!("a connection to the admin port took too long"),
    }
}

async fn answer(
    shared: &Shared,
    request: Request<Incoming>,
    leaving: &CancellationToken,
    known: &AtomicBool,
) -> Answer {
    let get = request.method() == Method::GET;
    match request.uri().path() {
        "/v1/record" if request.method() == Method::POST => match push(shared, request, known).await {
            Ok(()) => {
                shared.metrics.pushed("obeyed");
                state(shared)
            }
            Err(error) => {
                shared.metrics.pushed(error.kind());
                let mut answer = text(error.status(), format!("{error}\n"));
                if matches!(error, PushError::Token) {
                    let challenge = HeaderValue::from_static("Bearer");
                    answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
                }
                answer
            }
        },
        "/v1/state" if get => state(shared),
        "/livez" if get => text(StatusCode::OK, "ok\n"),
        "/readyz" if get => ready(shared, leaving),
        "/metrics" if get => {
            let mut answer = text(StatusCode::OK, shared.metrics.text());
            let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
            answer.headers_mut().insert(CONTENT_TYPE, kind);
            answer
        }
        "/v1/record" | "/v1/state" | "/livez" | "/readyz" | "/metrics" => {
            text(StatusCode::METHOD_NOT_ALLOWED, "not this method\n")
        }
        _ => text(StatusCode::NOT_FOUND, "there is nothing here\n"),
    }
}

/// Obeys a pushed record like one that was read (G4): cuts first, answers then (G2).
async fn push(shared: &Shared, request: Request<Incoming>, known: &AtomicBool) -> Result<(), PushError> {
    let shown = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    if !shared.config.token.admits(shown).await {
        return Err(PushError::Token);
    }
    known.store(true, Ordering::Relaxed);
    let body = Limited::new(request.into_body(), LARGEST).collect();
    let body = timeout(PATIENCE, body).await.map_err(|_| PushError::Body)?;
    let body = body.map_err(|_| PushError::Body)?.to_bytes();
    let data: BTreeMap<String, String> = serde_json::from_slice(&body)?;
    match Document::parse(&data)? {
        Parsed::SeedOnly { .. } => Err(PushError::SeedOnly),
        Parsed::Full { document, warning: _ } => {
            shared.control.obey(document.record).await;
            Ok(())
        }
    }
}

fn state(shared: &Shared) -> Answer {
    match serde_json::to_vec(&shared.control.confirmation()) {
        Ok(body) => {
            let mut answer = Response::new(Full::from(body));
            let kind = HeaderValue::from_static("application/json");
            answer.headers_mut().insert(CONTENT_TYPE, kind);
            answer
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// A gateway that holds is ready: holding is what it is for.
fn ready(shared: &Shared, leaving: &CancellationToken) -> Answer {
    if leaving.is_cancelled() {
        text(StatusCode::SERVICE_UNAVAILABLE, "shutting down\n")
    } else if shared.control.is_ready() {
        text(StatusCode::OK, "ok\n")
    } else {
        text(
            StatusCode::SERVICE_UNAVAILABLE,
            "not registered, or no record was read\n",
        )
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn the_oldest_without_the_token_gives_way_and_nobody_with_it_does() {
        let mut tasks = JoinSet::new();
        let mut guests = Guests {
            most: 3,
            here: VecDeque::new(),
        };
        let mut all = Vec::new();
        for is_known in [true, false, false] {
            assert!(guests.make_room());
            let known = Arc::new(AtomicBool::new(is_known));
            let guest = tasks.spawn(pending::<()>());
            guests.here.push_back((guest.clone(), Arc::clone(&known)));
            all.push((guest, known));
        }
        assert!(guests.make_room());
        assert!(tasks.join_next().await.unwrap().is_err());
        let left: Vec<bool> = all.iter().map(|(guest, _)| guest.is_finished()).collect();
        assert_eq!(left, [false, true, false]);
        guests
            .here
            .push_back((tasks.spawn(pending::<()>()), Arc::new(AtomicBool::new(true))));
        for (_, known) in &all {
            known.store(true, Ordering::Relaxed);
        }
        assert!(!guests.make_room(), "all of them push");
    }
}
