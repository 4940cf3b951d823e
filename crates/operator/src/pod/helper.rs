//! The helper beside the database: it writes the marker of a reset, says what is on the volume, deletes what was set
//! aside, and answers the kubelet when the database may end.
//!
//! It acts on what the operator asks and the record confirms; see `mainstay_core::memgraph::helper`.

use super::disk::Disk;
use super::pre_stop::until_free;
use super::prepare::AskError;
use super::volume::{ChangeError, DataVolume};
use crate::clock::{rfc3339, wall};
use bytes::Bytes;
use futures::future::BoxFuture;
use gateway::PushToken;
use http::header::AUTHORIZATION;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::helper::{
    MARKER_PATH, Me, NotMarked, PRE_STOP_PATH, PURGE_PATH, PreStop, PreStopLimits, Purge, VOLUME_PATH, mark,
};
use mainstay_core::memgraph::marker::Meant;
use mainstay_core::memgraph::prepare::Asked;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// For a request to arrive.
const PATIENCE: Duration = Duration::from_secs(5);
/// A request names a few numbers.
const LARGEST: usize = 64 * 1024;
/// All containers of a pod are told to end at once: the question whether the database may is still to come.
const LINGER: Duration = Duration::from_secs(2);

/// Reads the record.
pub type Ask = Arc<dyn Fn() -> BoxFuture<'static, Result<Option<Record>, AskError>> + Send + Sync>;
type Answer = Response<Full<Bytes>>;

/// The helper of one pod.
pub struct Helper<D> {
    /// Which pod.
    pub me: Me,
    /// Its volume; one change at a time.
    pub volume: Arc<Mutex<DataVolume<D>>>,
    /// Reads the record.
    pub ask: Ask,
    /// What whoever asks for something must show.
    pub token: PushToken,
    /// How long MAIN waits for its successor.
    pub limits: PreStopLimits,
    /// How many databases wait to end: one, or none.
    pub ending: AtomicUsize,
}

/// Why something is not done.
#[derive(Debug, Error)]
enum Refused {
    #[error("a request carries `Authorization: Bearer` and the token of the cluster")]
    Token,
    #[error("the body is too large, or did not arrive")]
    Body,
    #[error("not a request: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    NotMarked(#[from] NotMarked),
    #[error("another pod is meant")]
    OtherPod,
    #[error("{0:#}")]
    Volume(#[from] ChangeError),
    #[error("cut off")]
    CutOff,
}

impl Refused {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Token => StatusCode::UNAUTHORIZED,
            Self::Body => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Json(_) => StatusCode::BAD_REQUEST,
            // It may be wanted, and will be asked for again.
            Self::NotMarked(NotMarked::NoAnswer) => StatusCode::SERVICE_UNAVAILABLE,
            Self::NotMarked(NotMarked::OtherPod | NotMarked::NotAsked) | Self::OtherPod => {
                StatusCode::CONFLICT
            }
            Self::Volume(_) | Self::CutOff => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl<D: Disk + Send + 'static> Helper<D> {
    /// Serves until told to stop, and until a database that waits to end has ended.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        let over = self.over(stop);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let helper = Arc::clone(&self);
                        connections.spawn(async move {
                            let service = service_fn(move |request| {
                                let helper = Arc::clone(&helper);
                                async move { Ok::<_, Infallible>(helper.answer(request).await) }
                            });
                            let connection = hyper::server::conn::http1::Builder::new()
                                .timer(TokioTimer::new())
                                .header_read_timeout(PATIENCE)
                                .keep_alive(false)
                                .serve_connection(TokioIo::new(stream), service);
                            // A client that goes away is no fault of ours.
                            let _ = connection.await;
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

    async fn over(&self, stop: CancellationToken) {
        stop.cancelled().await;
        tokio::time::sleep(LINGER).await;
        while self.ending.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        let done = match (request.method(), path.as_str()) {
            (&Method::GET, "/livez") => return text(StatusCode::OK, "ok\n".to_owned()),
            (&Method::GET, PRE_STOP_PATH) => return self.pre_stop().await,
            (&Method::GET, VOLUME_PATH) => self.volume(&request).await,
            (&Method::POST, MARKER_PATH) => self.mark(request).await,
            (&Method::POST, PURGE_PATH) => self.purge(request).await,
            _ => return text(StatusCode::NOT_FOUND, "not found\n".to_owned()),
        };
        done.unwrap_or_else(|refused| {
            println!("{path}: {refused}");
            text(refused.status(), format!("{refused}\n"))
        })
    }

    async fn admit<B>(&self, request: &Request<B>) -> Result<(), Refused> {
        let shown = request
            .headers()
            .get(AUTHORIZATION)
            .map(http::HeaderValue::as_bytes);
        let admitted = self.token.admits(shown).await;
        admitted.then_some(()).ok_or(Refused::Token)
    }

    /// The marker of a reset that the record asks for. What is read here may be old by the time the pod starts again:
    /// the init container asks once more.
    async fn mark(&self, request: Request<Incoming>) -> Result<Answer, Refused> {
        self.admit(&request).await?;
        let meant: Meant = serde_json::from_slice(&body(request).await?)?;
        let answer = (self.ask)().await;
        let asked = match &answer {
            Ok(Some(record)) => Asked::Record(record),
            Ok(None) => Asked::NoRecord,
            Err(_) => Asked::NoAnswer,
        };
        let file = mark(&self.me, meant, asked, rfc3339(wall()))?;
        let marker = file.render()?;
        self.on_volume(move |volume| volume.mark(&marker)).await?;
        println!("Magic marker file created successfully: the next start of this pod is a hard reset");
        Ok(text(StatusCode::OK, "{}\n".to_owned()))
    }

    async fn volume(&self, request: &Request<Incoming>) -> Result<Answer, Refused> {
        self.admit(request).await?;
        let uid = self.me.uid;
        let report = self.on_volume(move |volume| volume.report(uid)).await?;
        Ok(text(StatusCode::OK, serde_json::to_string(&report)?))
    }

    async fn purge(&self, request: Request<Incoming>) -> Result<Answer, Refused> {
        self.admit(&request).await?;
        let Purge { pod_uid, ids } = serde_json::from_slice(&body(request).await?)?;
        if pod_uid != self.me.uid {
            return Err(Refused::OtherPod);
        }
        self.on_volume(move |volume| {
            for id in ids {
                volume.purge(id)?;
                println!("Deleted the data that was set aside by request {}", id.0);
            }
            Ok(())
        })
        .await?;
        Ok(text(StatusCode::OK, "{}\n".to_owned()))
    }

    /// Beside the one thread that answers: a disk may take minutes to delete a large copy, and the kubelet would end a
    /// pod whose helper does not answer meanwhile.
    async fn on_volume<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut DataVolume<D>) -> Result<T, ChangeError> + Send + 'static,
    ) -> Result<T, Refused> {
        let mut volume = Arc::clone(&self.volume).lock_owned().await;
        let done = tokio::task::spawn_blocking(move || work(&mut volume)).await;
        Ok(done.map_err(|_| Refused::CutOff)??)
    }

    async fn pre_stop(&self) -> Answer {
        self.ending.fetch_add(1, Ordering::SeqCst);
        let ended = until_free(self.me.ordinal, self.limits, &self.ask).await;
        self.ending.fetch_sub(1, Ordering::SeqCst);
        let said = match ended {
            PreStop::Free | PreStop::Wait => "the database may end: it holds no office",
            PreStop::TooLong => "the database ends although it is MAIN: nobody took over in time",
        };
        println!("{said}");
        text(StatusCode::OK, format!("{said}\n"))
    }
}

async fn body(request: Request<Incoming>) -> Result<Bytes, Refused> {
    let whole = Limited::new(request.into_body(), LARGEST).collect();
    let read = tokio::time::timeout(PATIENCE, whole).await;
    match read {
        Ok(Ok(read)) => Ok(read.to_bytes()),
        _ => Err(Refused::Body),
    }
}

fn text(status: StatusCode, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
mod tests;
