//! A Kubernetes API for unit tests: a function answers every request, and may take its time.

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// What was asked.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// The HTTP status and the object.
pub(crate) type Answer = (u16, Value);

/// A client whose requests are answered so.
pub(crate) fn client<F, A>(answer: F) -> Client
where
    F: Fn(Asked) -> A + Clone + Send + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let asked = Asked {
                method: head.method,
                path: head.uri.path().to_owned(),
                body: serde_json::from_slice(&body).unwrap_or_default(),
            };
            let (code, object) = answer(asked).await;
            let response = Response::builder().status(code);
            let response = response.body(Full::new(Bytes::from(object.to_string())));
            Ok::<_, kube::Error>(response.unwrap())
        }
    });
    Client::new(service, "db")
}

/// There is no such object.
pub(crate) fn not_found(path: &str) -> Answer {
    let name = path.rsplit('/').next().unwrap_or_default();
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
        "message": format!("{name} not found"), "details": { "name": name },
    });
    (404, status)
}
