//! A watch as a body that goes on.

use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use sim::kube::{ApiRequest, Watch, WatchEvent};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::Kubernetes;
use super::answer::{AnswerBody, BoxError, Lost};
use super::faults::Fault;

/// How often a client learns how far it has seen, as upstream: about a minute.
const BOOKMARK: Duration = Duration::from_mins(1);
/// Longer than anybody needs, and short enough to be added to now.
const LONGEST: Duration = Duration::from_hours(24);
/// How long a watch lives if the client does not say: upstream takes 30 to 60 minutes.
const LIFE: Duration = Duration::from_mins(45);

struct Open {
    kubernetes: Kubernetes,
    request: ApiRequest,
    watch: Watch,
    changes: Receiver<u64>,
    faults: Receiver<u64>,
    end: Instant,
    bookmark: Instant,
    frozen: bool,
    over: bool,
}

/// Answer with a stream of events, one JSON object a line.
pub(super) fn response(kubernetes: Kubernetes, request: ApiRequest, watch: Watch) -> Response<AnswerBody> {
    let now = Instant::now();
    let life = watch
        .timeout_seconds
        .filter(|seconds| *seconds > 0)
        .map_or(LIFE, Duration::from_secs)
        .min(LONGEST);
    let open = Open {
        changes: kubernetes.changes(),
        faults: kubernetes.inner.faults.changes(),
        end: now + life,
        bookmark: now + BOOKMARK,
        frozen: false,
        over: false,
        kubernetes,
        request,
        watch,
    };
    let frames = stream::unfold(open, |mut open| async move {
        let next = open.next().await?;
        Some((next.map(Frame::data), open))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn lines(events: &[WatchEvent]) -> Bytes {
    let mut text = String::new();
    for event in events {
        text.push_str(&event.to_json());
        text.push('\n');
    }
    text.into()
}

impl Open {
    fn freeze_or_thaw(&mut self) {
        let faults = &self.kubernetes.inner.faults;
        let frozen = faults.is_frozen(&self.request);
        if frozen && !self.frozen {
            let request = format!("{:?} {}", self.request.method, self.request.path);
            faults.record(self.kubernetes.now(), Fault::FreezeWatch, request);
        }
        self.frozen = frozen;
    }

    /// The next lines; an error breaks the connection; nothing ends it in peace.
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if self.over {
                return None;
            }
            self.changes.borrow_and_update();
            self.faults.borrow_and_update();
            if self.kubernetes.hit_watch(&self.request) {
                self.over = true;
                return Some(Err(Lost.into()));
            }
            self.freeze_or_thaw();
            if !self.frozen {
                let events = self.kubernetes.store().poll(&mut self.watch);
                self.over = self.watch.is_over();
                if !events.is_empty() {
                    return Some(Ok(lines(&events)));
                }
            }
            let wanted = if self.watch.bookmarks {
                self.bookmark.min(self.end)
            } else {
                self.end
            };
            tokio::select! {
                _ = self.changes.changed() => {}
                _ = self.faults.changed() => {}
                () = self.kubernetes.inner.end.cancelled() => return None,
                () = tokio::time::sleep_until(wanted) => {
                    if wanted == self.end {
                        return None;
                    }
                    self.bookmark += BOOKMARK;
                    if !self.frozen {
                        let bookmark = self.kubernetes.store().bookmark(&self.watch);
                        return Some(Ok(lines(&[bookmark])));
                    }
                }
            }
        }
    }
}

impl Kubernetes {
    fn hit_watch(&self, request: &ApiRequest) -> bool {
        let cut = |fault: &Fault| *fault == Fault::CutWatch;
        self.inner.faults.hit(self.now(), request, cut).is_some()
    }
}
