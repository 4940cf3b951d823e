//! Health, metrics and state, read-only.

use super::metrics::{Metrics, of_loops};
use super::page::Page;
use crate::clock::{rfc3339, wall};
use crate::engine::lease::{Permit, Standing};
use crate::engine::pulse::Pulse;
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

/// A loop that has not turned for this long is stuck, and so is a turn that is under way for so much longer than it may.
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
    /// Whether the election still comes round.
    pub election: Pulse,
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
            "/livez" => self.livez(STUCK),
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

    fn livez(&self, patience: Duration) -> Answer {
        match self.stuck(patience) {
            None => text(StatusCode::OK, "ok\n".to_owned()),
            Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        }
    }

    /// What stands still for longer than this, and would stand still until this program is started anew.
    fn stuck(&self, patience: Duration) -> Option<String> {
        let silence = self.election.silence();
        if silence >= patience {
            let silence = silence.as_secs();
            return Some(format!("the election has not come round for {silence} s"));
        }
        self.loops.iter().find_map(|one| {
            let (kind, silence) = (one.kind(), one.silence());
            if silence >= patience {
                let silence = silence.as_secs();
                return Some(format!("the loop of {kind} has not turned for {silence} s"));
            }
            // The loop goes on without a turn that never yields; its object is not looked after any more.
            let (key, age) = one.oldest()?;
            let age = (age >= one.longest() + patience).then_some(age.as_secs())?;
            Some(format!(
                "the turn of {kind} {key} is under way for {age} s and cannot be given up"
            ))
        })
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
    use crate::clock::Clock;
    use crate::engine::keeper::{Audience, Keeper, Turned};
    use crate::engine::lease::Election;
    use crate::engine::queue::{Limits, Urgency};
    use crate::engine::turns::{Key, Pace, Turns};
    use crate::http::board::Board;
    use mainstay_core::lease::LeaseTiming;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A turn that blocks its thread and never yields: no time-out can end it.
    struct Blocking(Arc<AtomicBool>);

    impl Keeper for Blocking {
        type Told = ();
        type Error = Infallible;

        async fn turn(&mut self, _permit: &Permit) -> Result<Turned<()>, Infallible> {
            while !self.0.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(Turned {
                again: Duration::from_hours(1),
                told: Some(()),
            })
        }
    }

    /// Lets blocking turns end, also when an assertion fails: the runtime waits for them.
    struct Release(Arc<AtomicBool>);

    impl Drop for Release {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    struct Nobody;

    impl Audience<()> for Nobody {
        fn told(&self, _key: &Key, _told: Option<()>) {}
        fn failed(&self, _key: &Key, _why: &str) {}
        fn forget(&self, _key: &Key) {}
        fn forget_all(&self) {}
    }

    fn turns() -> Turns<Blocking> {
        let pace = Pace {
            longest: Duration::from_millis(50),
            ..Pace::default()
        };
        Turns::new("memgraph", Limits::default(), pace, Arc::new(Nobody))
    }

    /// What is said to be stuck, as soon as something is; nothing if the answer is to be nothing.
    async fn until_stuck(served: &Served, patience: Duration, stuck: bool) -> Option<String> {
        for _ in 0..3_000 {
            let found = served.stuck(patience);
            if found.is_some() == stuck {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it does not come");
    }

    fn served(loops: Vec<Arc<dyn Loop>>) -> Served {
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
            loops,
            permit: Permit::never(),
            standing: watch::channel(standing).1,
            election: Pulse::default(),
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 3)]
    async fn a_turn_that_never_yields_fails_the_probe_of_liveness_although_its_loop_goes_on() {
        let patience = Duration::from_secs(3);
        let release = Release(Arc::default());
        let turns = turns();
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let (turns, go, stop) = (turns.clone(), release.0.clone(), stop.clone());
            async move { turns.run(|_| Blocking(go.clone()), Permit::ALWAYS, stop).await }
        });
        let served = served(vec![Arc::new(turns.clone())]);
        turns.know(
            Key {
                namespace: "db".to_owned(),
                name: "memgraph-ha".to_owned(),
            },
            Urgency::Reconcile,
        );
        assert_eq!(served.stuck(patience), None);
        let alive = tokio::spawn({
            let election = served.election.clone();
            async move {
                loop {
                    election.beat();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        });
        let why = until_stuck(&served, patience, true).await.unwrap();
        assert!(why.contains("the turn of memgraph db/memgraph-ha"), "{why}");
        let answer = served.livez(patience);
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(turns.silence() < patience, "the loop itself goes on");
        drop(release);
        until_stuck(&served, patience, false).await;
        alive.abort();
        stop.cancel();
        running.await.unwrap();
    }

    #[tokio::test]
    async fn a_loop_that_stands_still_fails_the_probe_of_liveness() {
        // Nobody runs it.
        let served = served(vec![Arc::new(turns())]);
        assert_eq!(served.livez(STUCK).status(), StatusCode::OK);
        tokio::time::sleep(Duration::from_millis(50)).await;
        served.election.beat();
        let why = served.stuck(Duration::from_millis(50)).unwrap();
        assert!(why.contains("the loop of memgraph"), "{why}");
    }

    #[tokio::test]
    async fn an_election_that_stands_still_fails_the_probe_of_liveness_and_one_without_answers_does_not() {
        let patience = Duration::from_secs(2);
        let nowhere = kube::Config::new("http://127.0.0.1:9".parse().unwrap());
        let timing = LeaseTiming::new(
            Duration::from_secs(2),
            Duration::from_secs(1),
            Duration::from_millis(50),
            Duration::from_millis(200),
        );
        let (election, _permit) = Election::new(
            kube::Client::try_from(nowhere).unwrap(),
            "db",
            "mainstay-operator",
            "op-1",
            timing.unwrap(),
            Clock::default(),
        )
        .unwrap();
        let served = Served {
            election: election.pulse(),
            ..served(vec![])
        };
        let running = tokio::spawn(election.run(CancellationToken::new(), async {}));
        for _ in 0..30 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(served.stuck(patience), None);
        }
        running.abort();
        let why = until_stuck(&served, patience, true).await.unwrap();
        assert!(why.contains("the election has not come round"), "{why}");
    }

    /// The list of memgraph-controller: dashboards and scripts of its users go on working.
    #[test]
    fn everything_that_memgraph_controller_tells_of_itself_is_told() {
        let served = served(vec![]);
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
