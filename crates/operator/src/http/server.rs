//! Health, metrics and state, read-only.

use super::metrics::{Metrics, of_loops};
use super::page::Page;
use crate::clock::{rfc3339, wall};
use crate::engine::lease::{Permit, Standing};
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
use tokio::sync::watch;
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
    /// May this one act?
    pub permit: Permit,
    /// Who leads.
    pub standing: watch::Receiver<Standing>,
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
            "/health" => value(&health()),
            "/api/v1/leadership" => value(&self.leadership()),
            "/" => value(&self.contents()),
            _ => match self.pages.iter().find_map(|page| page.answer(path)) {
                Some(found) => value(&found),
                None => text(StatusCode::NOT_FOUND, "not found\n".to_owned()),
            },
        }
    }

    fn leadership(&self) -> serde_json::Value {
        let leads = self.permit.leads();
        let Standing {
            namespace,
            lease,
            me,
            holder,
            changes: _,
            won: _,
        } = self.standing.borrow().clone();
        let named = holder.as_ref() == Some(&me);
        json!({
            "current_leader": holder, "my_identity": me, "i_am_leader": leads, "leader_match": named == leads,
            "timestamp": rfc3339(wall()), "lease_name": lease, "namespace": namespace,
        })
    }

    fn contents(&self) -> serde_json::Value {
        let mut endpoints = vec!["/health", "/livez", "/readyz", "/metrics"];
        endpoints.extend(self.pages.iter().flat_map(|page| page.paths()));
        endpoints.push("/api/v1/leadership");
        json!({
            "service": "mainstay-operator",
            "version": env!("CARGO_PKG_VERSION"),
            "endpoints": endpoints,
            "timestamp": rfc3339(wall()),
        })
    }

    fn metrics(&self) -> String {
        let mut text = Metrics::default();
        text.gauge(
            "memgraph_controller_is_leader",
            "Whether this operator leads.",
            u64::from(self.permit.leads()),
        );
        let Standing { changes, won, .. } = *self.standing.borrow();
        text.counter(
            "memgraph_controller_leadership_changes_total",
            "Changes of who leads that this operator saw.",
            changes,
        );
        text.counter(
            "memgraph_controller_elections_total",
            "How often this operator began to lead.",
            won,
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

fn health() -> serde_json::Value {
    json!({ "status": "ok", "timestamp": rfc3339(wall()), "service": "mainstay-operator" })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::queue::Depth;
    use crate::http::board::Board;

    /// A loop that turned this long ago.
    struct Turned(Duration);

    impl Loop for Turned {
        fn kind(&self) -> &'static str {
            "memgraph"
        }
        fn is_synced(&self) -> bool {
            true
        }
        fn is_absent(&self) -> bool {
            false
        }
        fn silence(&self) -> Duration {
            self.0
        }
        fn depth(&self) -> Depth {
            Depth::default()
        }
    }

    fn served(silence: Duration) -> Served {
        let standing = Standing {
            namespace: "db".to_owned(),
            lease: "mainstay-operator".to_owned(),
            me: "op-1_a".to_owned(),
            holder: Some("op-2_b".to_owned()),
            changes: 3,
            won: 2,
        };
        Served {
            pages: vec![Arc::new(Board::default())],
            loops: vec![Arc::new(Turned(Duration::ZERO)), Arc::new(Turned(silence))],
            permit: Permit::never(),
            standing: watch::channel(standing).1,
        }
    }

    #[test]
    fn a_loop_that_is_stuck_fails_the_probe_of_liveness() {
        assert_eq!(served(Duration::from_secs(29)).livez().status(), StatusCode::OK);
        let stuck = served(Duration::from_secs(30)).livez();
        assert_eq!(stuck.status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    /// The list of memgraph-controller: dashboards and scripts of its users go on working.
    #[test]
    fn everything_that_memgraph_controller_tells_of_itself_is_told() {
        let served = served(Duration::ZERO);
        let leadership = served.leadership();
        for key in [
            "current_leader",
            "my_identity",
            "i_am_leader",
            "leader_match",
            "timestamp",
            "lease_name",
            "namespace",
        ] {
            assert!(
                leadership.get(key).is_some_and(|v| !v.is_null()),
                "{key}: {leadership}"
            );
        }
        assert_eq!(
            (&leadership["i_am_leader"], &leadership["leader_match"]),
            (&json!(false), &json!(true))
        );
        for key in ["status", "timestamp", "service"] {
            assert!(health().get(key).is_some(), "{key}");
        }
        let contents = served.contents();
        for key in ["service", "version", "endpoints", "timestamp"] {
            assert!(contents.get(key).is_some(), "{key}: {contents}");
        }
        for path in [
            "/health",
            "/livez",
            "/readyz",
            "/metrics",
            "/api/v1/status",
            "/api/v1/leadership",
        ] {
            let listed = contents["endpoints"].as_array().unwrap();
            assert!(listed.iter().any(|one| one == path), "{path}: {contents}");
        }
        let text = served.metrics();
        for line in [
            "memgraph_controller_is_leader 0",
            "memgraph_controller_leadership_changes_total 3",
            "memgraph_controller_elections_total 2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
    }
}
