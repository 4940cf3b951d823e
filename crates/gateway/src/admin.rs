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
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// A ConfigMap has at most a MiB.
const LARGEST: usize = 1024 * 1024;
/// For a request to arrive.
const PATIENCE: Duration = Duration::from_secs(5);
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

/// Serves until told to stop.
pub(crate) async fn run(
    shared: Arc<Shared>,
    listener: TcpListener,
    draining: CancellationToken,
    stop: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(shared.config.limits.admin_connections));
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
                let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
                    continue;
                };
                let (shared, draining) = (Arc::clone(&shared), draining.clone());
                connections.spawn(async move {
                    connection(shared, stream, draining).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept on the admin port");
                sleep(BREATH).await;
            }
        }
    }
    connections.shutdown().await;
}

async fn connection(shared: Arc<Shared>, stream: TcpStream, draining: CancellationToken) {
    let service = service_fn(move |request| {
        let (shared, draining) = (Arc::clone(&shared), draining.clone());
        async move { Ok::<_, Infallible>(answer(&shared, request, &draining).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the admin port broke");
    }
}

async fn answer(shared: &Shared, request: Request<Incoming>, draining: &CancellationToken) -> Answer {
    let get = request.method() == Method::GET;
    match request.uri().path() {
        "/v1/record" if request.method() == Method::POST => match push(shared, request).await {
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
        "/readyz" if get => ready(shared, draining),
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
async fn push(shared: &Shared, request: Request<Incoming>) -> Result<(), PushError> {
    let shown = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    if !shared.config.token.admits(shown).await {
        return Err(PushError::Token);
    }
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
fn ready(shared: &Shared, draining: &CancellationToken) -> Answer {
    if draining.is_cancelled() {
        text(StatusCode::SERVICE_UNAVAILABLE, "shutting down\n")
    } else if shared.control.is_open() {
        text(StatusCode::OK, "ok\n")
    } else {
        text(
            StatusCode::SERVICE_UNAVAILABLE,
            "not registered, or the record was not read\n",
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
