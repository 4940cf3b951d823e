//! The API as a service under a client in the same process.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::header::UPGRADE;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use sim::kube::User;
use tower::Service;

use super::Kubernetes;
use super::answer::{AnswerBody, BoxError};

#[derive(Clone)]
pub(super) struct InProcess {
    kubernetes: Kubernetes,
    user: User,
}

impl InProcess {
    pub(super) fn new(kubernetes: Kubernetes, user: User) -> Self {
        Self { kubernetes, user }
    }

    /// A connection that is upgraded needs a connection: hyper on both ends of
    /// a pipe, for exec, attach and port-forward only.
    async fn through_a_pipe(self, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let Self { kubernetes, user } = self;
        let server = kubernetes.clone();
        kubernetes.task(async move {
            let service = service_fn(move |request| {
                let (server, user) = (server.clone(), user.clone());
                async move { server.respond(Some(user), request).await }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(theirs), service)
                .with_upgrades();
            // A client that went away is no fault of the server.
            let _: Result<(), hyper::Error> = connection.await;
        });
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(ours)).await?;
        kubernetes.task(async move {
            let _: Result<(), hyper::Error> = connection.with_upgrades().await;
        });
        let response = sender.send_request(request).await?;
        Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
    }
}

impl Service<Request<Body>> for InProcess {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            if request.headers().contains_key(UPGRADE) {
                return this.through_a_pipe(request).await;
            }
            Ok(this.kubernetes.respond(Some(this.user), request).await?)
        })
    }
}
