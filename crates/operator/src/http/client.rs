//! A small HTTP client for pushes: one request, one connection, one time-out.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The largest answer that is read: every token of a ring is in one.
const LARGEST: usize = 1024 * 1024;

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

/// TLS to whoever answers: for servers that make their certificates themselves. What is said to them is not secret from
/// somebody in between; a token is what they are trusted for.
pub struct AnyCertificate(TlsConnector);

impl std::fmt::Debug for AnyCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnyCertificate")
    }
}

impl AnyCertificate {
    /// `None` if this program has no cryptography.
    pub fn new() -> Option<Self> {
        let provider = CryptoProvider::get_default()?;
        let config = rustls::ClientConfig::builder_with_provider(Arc::clone(provider))
            .with_safe_default_protocol_versions()
            .ok()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(Arc::clone(provider))))
            .with_no_client_auth();
        Some(Self(TlsConnector::from(Arc::new(config))))
    }
}

/// Whose certificate it is does not matter; that they have its key does.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// GETs over TLS.
pub async fn get_tls(
    tls: &AnyCertificate,
    address: SocketAddr,
    path: &str,
    token: &str,
    patience: Duration,
) -> Result<String, PostError> {
    let asked = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(address.ip().into());
        let stream = tls.0.connect(name, stream).await?;
        let host = address.to_string();
        exchange(stream, http::Method::GET, &host, path, Some(token), String::new()).await
    };
    timeout(patience, asked)
        .await
        .unwrap_or(Err(PostError::Silent(patience)))
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
    exchange(stream, method, address, path, token, body).await
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    method: http::Method,
    address: &str,
    path: &str,
    token: Option<&str>,
    body: String,
) -> Result<String, PostError> {
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
