//! Health, metrics and state, read-only.

use super::board::Board;
use crate::engine::lease::Permit;
use crate::engine::turns::Turns;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A loop that has not turned for this long is stuck.
const STUCK: Duration = Duration::from_secs(30);
/// For a request to arrive, and for a connection in all.
const PATIENCE: Duration = Duration::from_secs(30);

/// What requests are answered from.
#[derive(Clone)]
pub struct Served {
    /// What is known.
    pub board: Arc<Board>,
    /// What waits.
    pub turns: Turns,
    /// Who leads.
    pub permit: Permit,
}

/// Serves until told to stop.
pub async fn serve(listener: TcpListener, served: Served, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let served = served.clone();
                    connections.spawn(async move {
                        let service = service_fn(move |request| {
                            let served = served.clone();
                            async move { Ok::<_, Infallible>(served.answer(&request)) }
                        });
                        let connection = hyper::server::conn::http1::Builder::new()
                            .timer(TokioTimer::new())
                            .header_read_timeout(PATIENCE)
                            .serve_connection(TokioIo::new(stream), service);
                        // A client that goes away is no fault of ours.
                        let _ = tokio::time::timeout(PATIENCE * 4, connection).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
    connections.shutdown().await;
}

type Answer = Response<Full<Bytes>>;

impl Served {
    fn answer(&self, request: &Request<Incoming>) -> Answer {
        if request.method() != Method::GET {
            return text(StatusCode::METHOD_NOT_ALLOWED, "read only\n".to_owned());
        }
        let path = request.uri().path();
        match path {
            "/livez" => self.livez(),
            "/readyz" => self.readyz(),
            "/metrics" => text(
                StatusCode::OK,
                self.board.metrics(self.permit.leads(), self.turns.depth()),
            ),
            "/api/v1/clusters" | "/api/v1/status" => value(&self.board.clusters()),
            "/api/v1/leadership" => value(&json!({ "i_am_leader": self.permit.leads() })),
            "/" => value(&json!({
                "service": "mainstay-operator",
                "version": env!("CARGO_PKG_VERSION"),
                "endpoints": ["/livez", "/readyz", "/metrics", "/api/v1/clusters", "/api/v1/clusters/NAMESPACE/NAME", "/api/v1/leadership"],
            })),
            _ => self.one(path),
        }
    }

    fn one(&self, path: &str) -> Answer {
        let found = path
            .strip_prefix("/api/v1/clusters/")
            .and_then(|rest| rest.split_once('/'))
            .and_then(|(namespace, name)| self.board.cluster(namespace, name));
        match found {
            Some(found) => value(&found),
            None => text(StatusCode::NOT_FOUND, "not found\n".to_owned()),
        }
    }

    fn livez(&self) -> Answer {
        let silence = self.board.silence();
        if silence < STUCK {
            text(StatusCode::OK, "ok\n".to_owned())
        } else {
            let why = format!("the loop has not turned for {} s\n", silence.as_secs());
            text(StatusCode::SERVICE_UNAVAILABLE, why)
        }
    }

    /// Ready to lead or to take over, not "leads": a Service in front of this must reach every operator.
    fn readyz(&self) -> Answer {
        if self.turns.is_synced() {
            text(StatusCode::OK, "ok\n".to_owned())
        } else {
            text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the clusters are not listed yet\n".to_owned(),
            )
        }
    }
}

fn text(status: StatusCode, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    let kind = http::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    answer
}

fn value(body: &serde_json::Value) -> Answer {
    let mut answer = text(StatusCode::OK, format!("{body:#}\n"));
    let kind = http::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    answer
}
