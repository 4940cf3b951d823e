//! A small HTTP client for pushes: one request, one connection, one time-out.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The largest answer that is read.
const LARGEST: usize = 64 * 1024;

/// Why a request has no answer.
#[derive(Debug, Error)]
pub enum PostError {
    /// The connection.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// HTTP.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// The request itself.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// An answer that says no.
    #[error("answered {0}")]
    Status(u16),
    /// The body.
    #[error("the answer cannot be read: {0}")]
    Body(String),
    /// Not what was expected.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// No answer in time.
    #[error("no answer in {0:?}")]
    Silent(Duration),
}

/// GETs; the answer is the body of a 200.
pub async fn get(
    address: &str,
    path: &str,
    token: Option<&str>,
    patience: Duration,
) -> Result<String, PostError> {
    timeout(
        patience,
        send(http::Method::GET, address, path, token, String::new()),
    )
    .await
    .unwrap_or(Err(PostError::Silent(patience)))
}

/// POSTs JSON; the answer is the body of a 200.
pub async fn post(
    address: &str,
    path: &str,
    token: Option<&str>,
    body: String,
    patience: Duration,
) -> Result<String, PostError> {
    timeout(patience, send(http::Method::POST, address, path, token, body))
        .await
        .unwrap_or(Err(PostError::Silent(patience)))
}

async fn send(
    method: http::Method,
    address: &str,
    path: &str,
    token: Option<&str>,
    body: String,
) -> Result<String, PostError> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::HOST, address)
        .header(http::header::CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from(body)))?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(PostError::Status(status.as_u16()));
        }
        let collected = Limited::new(response.into_body(), LARGEST).collect().await;
        let bytes = collected
            .map_err(|error| PostError::Body(error.to_string()))?
            .to_bytes();
        String::from_utf8(bytes.to_vec()).map_err(|error| PostError::Body(error.to_string()))
    };
    // The connection moves the bytes; it has no life of its own.
    tokio::pin!(exchange);
    tokio::pin!(connection);
    tokio::select! {
        answer = &mut exchange => answer,
        ended = &mut connection => match ended {
            Ok(()) => exchange.await,
            Err(error) => Err(error.into()),
        },
    }
}
