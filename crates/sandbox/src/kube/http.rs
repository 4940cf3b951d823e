//! The API on a local port, with TLS: clients send a token only over TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::Kubernetes;

/// Why the API is not on a port.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The port cannot be had.
    #[error("cannot listen on {address}")]
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The certificate could not be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The certificate could not be used.
    #[error("cannot use the certificate")]
    Tls(#[from] rustls::Error),
}

/// An API on a port, until its cluster is shut down.
#[derive(Clone, Debug)]
pub struct Listening {
    /// Where.
    pub address: SocketAddr,
    /// The certificate of whoever signed the server's, as PEM.
    pub ca: String,
    /// The token of the user who may do everything.
    pub admin_token: String,
}

impl Listening {
    /// A kubeconfig for the user who may do everything.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_for(&self.admin_token)
    }

    /// A kubeconfig for whoever shows this token. JSON, which is YAML.
    pub fn kubeconfig_for(&self, token: &str) -> String {
        use base64::Engine as _;
        let ca = base64::engine::general_purpose::STANDARD.encode(&self.ca);
        let cluster =
            json!({"server": format!("https://{}", self.address), "certificate-authority-data": ca});
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "sandbox",
            "clusters": [{"name": "sandbox", "cluster": cluster}],
            "users": [{"name": "sandbox", "user": {"token": token}}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox", "namespace": "default"}}],
        });
        format!("{config:#}\n")
    }
}

/// A certificate for this address, by an authority that is forgotten at once.
fn certificate(address: SocketAddr) -> Result<(Arc<rustls::ServerConfig>, String), ListenError> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority
        .distinguished_name
        .push(rcgen::DnType::CommonName, "sandbox");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let names = vec![
        address.ip().to_string(),
        "localhost".to_owned(),
        "kubernetes.default.svc".to_owned(),
    ];
    let server = CertificateParams::new(names)?.signed_by(&key, &authority)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let chain: Vec<CertificateDer<'static>> = vec![server.der().clone()];
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok((Arc::new(config), authority.pem()))
}

impl Kubernetes {
    /// Serve the API on a port; port 0 takes any.
    pub async fn listen(&self, address: SocketAddr) -> Result<Listening, ListenError> {
        let bind = |source| ListenError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let (config, ca) = certificate(address)?;
        let acceptor = TlsAcceptor::from(config);
        let kubernetes = self.clone();
        self.task(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => kubernetes.task(kubernetes.clone().serve(acceptor.clone(), stream)),
                    // Out of file descriptors: others will close theirs.
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
                }
            }
        });
        Ok(Listening {
            address,
            ca,
            admin_token: self.inner.admin_token.clone(),
        })
    }

    async fn serve(self, acceptor: TlsAcceptor, stream: TcpStream) {
        // Small messages that somebody waits for.
        let _: io::Result<()> = stream.set_nodelay(true);
        let Ok(stream) = acceptor.accept(stream).await else {
            return;
        };
        let service = service_fn(move |request| {
            let kubernetes = self.clone();
            async move { kubernetes.respond(None, request).await }
        });
        // A client that went away, or an answer that was to be lost.
        let _: Result<(), hyper::Error> = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await;
    }
}
