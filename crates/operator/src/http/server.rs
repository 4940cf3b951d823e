//! Health, metrics and state, read-only.

use super::metrics::{Metrics, of_loops};
use super::page::Page;
use crate::engine::lease::Permit;
use crate::engine::turns::Loop;
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
    /// What is known, of each kind.
    pub pages: Vec<Arc<dyn Page>>,
    /// The loops of turns, one for each kind.
    pub loops: Vec<Arc<dyn Loop>>,
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
            "/metrics" => text(StatusCode::OK, self.metrics()),
            "/api/v1/leadership" => value(&json!({ "i_am_leader": self.permit.leads() })),
            "/" => value(&self.contents()),
            _ => match self.pages.iter().find_map(|page| page.answer(path)) {
                Some(found) => value(&found),
                None => text(StatusCode::NOT_FOUND, "not found\n".to_owned()),
            },
        }
    }

    fn contents(&self) -> serde_json::Value {
        let mut endpoints = vec!["/livez", "/readyz", "/metrics"];
        endpoints.extend(self.pages.iter().flat_map(|page| page.paths()));
        endpoints.push("/api/v1/leadership");
        json!({
            "service": "mainstay-operator",
            "version": env!("CARGO_PKG_VERSION"),
            "endpoints": endpoints,
        })
    }

    fn metrics(&self) -> String {
        let mut text = Metrics::default();
        text.gauge(
            "memgraph_controller_is_leader",
            "Whether this operator leads.",
            u64::from(self.permit.leads()),
        );
        let loops: Vec<&dyn Loop> = self.loops.iter().map(AsRef::as_ref).collect();
        of_loops(&mut text, &loops);
        for page in &self.pages {
            page.metrics(&mut text);
        }
        text.into_text()
    }

    fn livez(&self) -> Answer {
        let stuck = self.loops.iter().find(|one| one.silence() >= STUCK);
        let Some(stuck) = stuck else {
            return text(StatusCode::OK, "ok\n".to_owned());
        };
        let (kind, silence) = (stuck.kind(), stuck.silence().as_secs());
        let why = format!("the loop of {kind} has not turned for {silence} s\n");
        text(StatusCode::SERVICE_UNAVAILABLE, why)
    }

    /// Ready to lead or to take over, not "leads": a Service in front of this must reach every operator.
    fn readyz(&self) -> Answer {
        let absent: Vec<&str> = self
            .loops
            .iter()
            .filter(|one| one.is_absent())
            .map(|one| one.kind())
            .collect();
        if absent.len() == self.loops.len() {
            let why = "no kind is installed: apply the definitions\n".to_owned();
            return text(StatusCode::SERVICE_UNAVAILABLE, why);
        }
        let unlisted = |one: &&Arc<dyn Loop>| !one.is_synced() && !one.is_absent();
        match self.loops.iter().find(unlisted) {
            None if absent.is_empty() => text(StatusCode::OK, "ok\n".to_owned()),
            None => {
                let what = absent.join(", ");
                let told =
                    format!("ok\nnot installed, and served as soon as their definitions are there: {what}\n");
                text(StatusCode::OK, told)
            }
            Some(one) => {
                let why = format!("the objects of {} are not listed yet\n", one.kind());
                text(StatusCode::SERVICE_UNAVAILABLE, why)
            }
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
