//! Certificates and authorities: from files, and read again when those change. Connections that stand are not touched.

use crate::front::{Back, BackendTls, Front, ServerTls};
use crate::metrics::Metrics;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use thiserror::Error;
use tokio::time::sleep;

/// How often files are looked at. A kubelet takes about a minute to bring a changed Secret.
const EVERY: Duration = Duration::from_secs(2);

/// Why TLS cannot be spoken.
#[derive(Debug, Error)]
pub enum SecureError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is not PEM.
    #[error("not PEM: {0}")]
    Pem(#[from] pem::Error),
    /// A file has no certificate.
    #[error("there is no certificate in it")]
    Empty,
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The authorities of clients cannot be used.
    #[error(transparent)]
    Verifier(#[from] VerifierBuilderError),
    /// The name of databases is none.
    #[error("the server name: {0}")]
    Name(#[from] InvalidDnsNameError),
}

type Build<C> = fn(&[Vec<u8>]) -> Result<C, SecureError>;

/// What was made of some files.
#[derive(Debug)]
struct Kept<C> {
    files: Vec<PathBuf>,
    build: Build<C>,
    now: RwLock<(Vec<Vec<u8>>, Arc<C>)>,
}

impl<C> Kept<C> {
    async fn read(files: Vec<PathBuf>, build: Build<C>) -> Result<Self, SecureError> {
        let bytes = contents(&files).await?;
        let made = Arc::new(build(&bytes)?);
        Ok(Self {
            files,
            build,
            now: RwLock::new((bytes, made)),
        })
    }

    fn now(&self) -> Arc<C> {
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&now.1)
    }

    /// Reads again; `true` if something changed. What cannot be used changes nothing.
    async fn again(&self) -> Result<bool, SecureError> {
        let bytes = contents(&self.files).await?;
        if self.now.read().unwrap_or_else(PoisonError::into_inner).0 == bytes {
            return Ok(false);
        }
        let made = Arc::new((self.build)(&bytes)?);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = (bytes, made);
        Ok(true)
    }
}

async fn contents(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, SecureError> {
    let mut all = Vec::with_capacity(files.len());
    for path in files {
        let read = tokio::fs::read(path).await;
        all.push(read.map_err(|source| SecureError::File {
            path: path.clone(),
            source,
        })?);
    }
    Ok(all)
}

/// How TLS is spoken, on either side.
#[derive(Debug)]
pub(crate) struct Secure {
    front: Option<Kept<ServerConfig>>,
    back: Option<Kept<ClientConfig>>,
    name: Option<ServerName<'static>>,
}

impl Secure {
    pub(crate) async fn read(front: &Front, back: &Back) -> Result<Self, SecureError> {
        let server = match front.tls.clone() {
            None => None,
            Some(ServerTls {
                certificate,
                key,
                client_ca,
            }) => {
                let files = [certificate, key].into_iter().chain(client_ca).collect();
                Some(Kept::read(files, server).await?)
            }
        };
        let (client, name) = match back.tls.clone() {
            None => (None, None),
            Some(BackendTls { ca, server_name }) => {
                let name = server_name.map(ServerName::try_from).transpose()?;
                (Some(Kept::read(vec![ca], client).await?), name)
            }
        };
        Ok(Self {
            front: server,
            back: client,
            name,
        })
    }

    /// For a client that comes now.
    pub(crate) fn front(&self) -> Option<Arc<ServerConfig>> {
        self.front.as_ref().map(Kept::now)
    }

    /// For a database that is reached now, and what it must be called.
    pub(crate) fn back(
        &self,
        host: &str,
    ) -> Result<Option<(Arc<ClientConfig>, ServerName<'static>)>, InvalidDnsNameError> {
        let Some(kept) = &self.back else {
            return Ok(None);
        };
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned())?,
        };
        Ok(Some((kept.now(), name)))
    }

    /// Looks at the files for ever, if there are any.
    pub(crate) async fn follow(&self, metrics: &Metrics) {
        if self.front.is_none() && self.back.is_none() {
            // Not the end of it: a task that ends is taken for one that is lost.
            return pending().await;
        }
        loop {
            sleep(EVERY).await;
            if let Some(kept) = &self.front {
                told(metrics, "clients", kept.again().await);
            }
            if let Some(kept) = &self.back {
                told(metrics, "databases", kept.again().await);
            }
        }
    }
}

fn told(metrics: &Metrics, with: &str, changed: Result<bool, SecureError>) {
    match changed {
        Ok(false) => {}
        Ok(true) => {
            metrics.tls_reloads.inc();
            tracing::info!(with, "TLS goes on with what changed");
        }
        Err(error) => {
            metrics.tls_reload_errors.inc();
            tracing::warn!(with, %error, "TLS goes on with what was read before");
        }
    }
}

/// The only one that is built in; said so, because a process may have chosen none.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn roots(pem: &[u8]) -> Result<Arc<RootCertStore>, SecureError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate?)?;
    }
    if roots.is_empty() {
        return Err(SecureError::Empty);
    }
    Ok(Arc::new(roots))
}

/// From certificate, key, and perhaps the authorities of clients.
fn server(files: &[Vec<u8>]) -> Result<ServerConfig, SecureError> {
    let [certificate, key, ca @ ..] = files else {
        return Err(SecureError::Empty);
    };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key)?;
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match ca {
        [] => builder.with_no_client_auth(),
        [ca, ..] => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots(ca)?, provider()).build()?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    Ok(builder.with_single_cert(chain, key)?)
}

/// From the authorities of databases.
fn client(files: &[Vec<u8>]) -> Result<ClientConfig, SecureError> {
    let ca = files.first().ok_or(SecureError::Empty)?;
    Ok(ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(ca)?)
        .with_no_client_auth())
}
