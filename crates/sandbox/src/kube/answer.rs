//! From an HTTP request to an HTTP response.

use std::io;

use bytes::Bytes;
use futures::TryStreamExt as _;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use serde_json::Value;
use sim::kube::{Answer, ApiRequest, Failure, Method, StreamKind, StreamRequest, User};
use tokio_util::io::ReaderStream;

use super::Kubernetes;
use super::faults::Fault;
use super::sockets;
use super::streams::{LogRequest, PodRef, StreamError};
use super::watching;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// Larger than what etcd takes.
const MAX_BODY: usize = 3 << 20;

/// The connection breaks; the client cannot know what was done.
#[derive(Debug, thiserror::Error)]
#[error("the connection was closed")]
pub(super) struct Lost;

/// Bytes as a body.
pub(super) fn full(bytes: impl Into<Bytes>) -> AnswerBody {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn json(code: u16, body: &Value) -> Response<AnswerBody> {
    let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let (kind, bytes) = match body {
        Value::String(text) => ("text/plain", text.clone().into_bytes()),
        _ if body.get("kind").and_then(Value::as_str) == Some("APIGroupDiscoveryList") => {
            (discovery, body.to_string().into_bytes())
        }
        _ => ("application/json", body.to_string().into_bytes()),
    };
    let mut response = Response::new(full(bytes));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Ok(kind) = kind.parse() {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response
}

pub(super) fn failed(failure: &Failure) -> Response<AnswerBody> {
    json(failure.code, &failure.status())
}

/// Why no stream was opened.
pub(super) fn refused(error: &StreamError) -> Response<AnswerBody> {
    let (code, reason) = match error {
        StreamError::BadRequest(_) => (400, "BadRequest"),
        StreamError::NotFound(_) => (404, "NotFound"),
        StreamError::Unavailable(_) | StreamError::Io(_) => (500, "InternalError"),
    };
    failed(&Failure {
        code,
        reason,
        message: error.to_string(),
        details: Value::Null,
    })
}

impl Kubernetes {
    /// Answer, with all faults. `known` is the user of a client in this process;
    /// others show a token.
    pub(super) async fn respond<B>(
        &self,
        known: Option<User>,
        request: Request<B>,
    ) -> Result<Response<AnswerBody>, Lost>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        let upgrade = parts.extensions.remove::<hyper::upgrade::OnUpgrade>();
        let header = |name: http::HeaderName| {
            let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
            value.map(str::to_owned)
        };
        let Some(user) = known.or_else(|| self.user(header(AUTHORIZATION).as_deref())) else {
            return Ok(failed(&Failure {
                code: 401,
                reason: "Unauthorized",
                message: "Unauthorized".to_owned(),
                details: Value::Null,
            }));
        };
        let Some(method) = method(&parts.method) else {
            return Ok(failed(&Failure {
                code: 405,
                reason: "MethodNotAllowed",
                message: "the server does not allow this method on the requested resource".to_owned(),
                details: Value::Null,
            }));
        };
        let Ok(body) = Limited::new(body, MAX_BODY).collect().await else {
            return Ok(failed(&Failure {
                code: 413,
                reason: "RequestEntityTooLarge",
                message: format!("limit is {MAX_BODY}"),
                details: Value::Null,
            }));
        };
        let mut request = ApiRequest {
            method,
            path: parts.uri.path().to_owned(),
            query: query(parts.uri.query().unwrap_or_default()),
            content_type: header(CONTENT_TYPE),
            accept: header(ACCEPT),
            user,
            body: body.to_bytes().to_vec(),
        };
        if let Some(response) = self.before(&mut request).await? {
            return Ok(response);
        }
        let answer = self.handle(&request);
        if self.hit(&request, |fault| *fault == Fault::LoseAnswer).is_some() {
            return Err(Lost);
        }
        Ok(match answer {
            Answer::Done { code, body } => json(code, &body),
            Answer::Watch(watch) => watching::response(self.clone(), request, watch),
            Answer::Stream(stream) if stream.kind == StreamKind::Log => self.logs(&stream).await,
            Answer::Stream(stream) => sockets::open(self, &parts, upgrade, &stream),
        })
    }

    /// Whom a request comes from; nobody if it shows a token that is not good.
    fn user(&self, authorization: Option<&str>) -> Option<User> {
        let Some(authorization) = authorization else {
            return Some(User::anonymous());
        };
        let token = authorization.strip_prefix("Bearer ")?;
        if token == self.inner.admin_token {
            return Some(User::admin());
        }
        self.store().authenticate(self.now(), token)
    }

    fn hit(&self, request: &ApiRequest, of: impl Fn(&Fault) -> bool) -> Option<Fault> {
        self.inner.faults.hit(self.now(), request, of)
    }

    /// The faults that come before anything is done.
    async fn before(&self, request: &mut ApiRequest) -> Result<Option<Response<AnswerBody>>, Lost> {
        if let Some(Fault::Delay(time)) = self.hit(request, |fault| matches!(fault, Fault::Delay(_))) {
            tokio::time::sleep(time).await;
        }
        let refusals = |fault: &Fault| {
            matches!(
                fault,
                Fault::Refuse | Fault::TooManyRequests(_) | Fault::ServerError | Fault::Denied(..)
            )
        };
        match self.hit(request, refusals) {
            Some(Fault::Refuse) => return Err(Lost),
            Some(Fault::TooManyRequests(seconds)) => {
                let mut response = failed(&Failure {
                    code: 429,
                    reason: "TooManyRequests",
                    message: "the server has received too many requests and has asked us to try again later"
                        .to_owned(),
                    details: serde_json::json!({"retryAfterSeconds": seconds}),
                });
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
                return Ok(Some(response));
            }
            Some(Fault::Denied(code, message)) => {
                return Ok(Some(failed(&Failure {
                    code,
                    reason: if code == 422 { "Invalid" } else { "Forbidden" },
                    message,
                    details: Value::Null,
                })));
            }
            Some(_) => {
                return Ok(Some(failed(&Failure {
                    code: 500,
                    reason: "InternalError",
                    message: "Internal error occurred: injected".to_owned(),
                    details: Value::Null,
                })));
            }
            None => {}
        }
        let is_list = request.method == Method::Get
            && request.query("watch").is_none()
            && request.query("continue").is_none();
        let stale = |fault: &Fault| matches!(fault, Fault::StaleList(_));
        let hit = is_list.then(|| self.hit(request, stale)).flatten();
        if let Some(Fault::StaleList(behind)) = hit {
            let revision = self.store().revision().0.saturating_sub(behind).to_string();
            request
                .query
                .retain(|(name, _)| !name.starts_with("resourceVersion"));
            request.query.push(("resourceVersion".to_owned(), revision));
            request
                .query
                .push(("resourceVersionMatch".to_owned(), "Exact".to_owned()));
        }
        Ok(None)
    }

    async fn logs(&self, stream: &StreamRequest) -> Response<AnswerBody> {
        let query = |name: &str| {
            let found = stream.query.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.as_str())
        };
        let request = LogRequest {
            pod: pod(stream),
            container: stream.container.clone(),
            follow: query("follow") == Some("true"),
            previous: query("previous") == Some("true"),
            tail_lines: query("tailLines").and_then(|text| text.parse().ok()),
            since_seconds: query("sinceSeconds").and_then(|text| text.parse().ok()),
            timestamps: query("timestamps") == Some("true"),
            limit_bytes: query("limitBytes").and_then(|text| text.parse().ok()),
        };
        match self.streams().logs(request).await {
            Err(error) => refused(&error),
            Ok(reader) => {
                let frames = ReaderStream::new(reader)
                    .map_ok(Frame::data)
                    .map_err(|error: io::Error| error.into());
                let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
                response
                    .headers_mut()
                    .insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
                response
            }
        }
    }
}

/// The pod of a stream.
pub(super) fn pod(stream: &StreamRequest) -> PodRef {
    let text = |at: &str| {
        stream
            .pod
            .pointer(at)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    PodRef {
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
        uid: text("/metadata/uid"),
        node: text("/spec/nodeName"),
    }
}

fn method(method: &http::Method) -> Option<Method> {
    match *method {
        http::Method::GET => Some(Method::Get),
        http::Method::POST => Some(Method::Post),
        http::Method::PUT => Some(Method::Put),
        http::Method::PATCH => Some(Method::Patch),
        http::Method::DELETE => Some(Method::Delete),
        _ => None,
    }
}

fn query(text: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}
