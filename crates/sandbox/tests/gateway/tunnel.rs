//! TLS on either side of something that speaks none, certificates for it, and headers before it.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, TlsConnector};

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Somebody who signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn sign(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        Pair {
            certificate: params.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// Trusts this authority, and shows a certificate if it has one.
    pub(crate) fn client(&self, own: Option<&Pair>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap())
            .unwrap();
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let (chain, key) = pair.read();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }
}

impl Pair {
    fn read(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes());
        (
            chain.map(Result::unwrap).collect(),
            PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap(),
        )
    }
}

/// A folder that goes with this.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mainstay-certificates-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port that leads elsewhere, as long as this lives.
pub(crate) struct Tunnel {
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Tunnel {
    async fn start<F>(through: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = std::io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let through = through(stream);
                connections.spawn(async move {
                    // What breaks is closed; the test sees that.
                    let _ = through.await;
                });
            }
        });
        Self {
            address,
            _tasks: tasks,
        }
    }

    /// For a client without TLS, to a server with it.
    pub(crate) async fn into_tls(to: SocketAddr, config: Arc<ClientConfig>, name: &str) -> Self {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        Self::start(move |mut near| {
            let (config, name) = (Arc::clone(&config), name.clone());
            async move {
                let far = TcpStream::connect(to).await?;
                let mut far = TlsConnector::from(config).connect(name, far).await?;
                copy_bidirectional(&mut near, &mut far).await.map(drop)
            }
        })
        .await
    }

    /// For a client with TLS, to a server without it.
    pub(crate) async fn out_of_tls(to: SocketAddr, pair: &Pair) -> Self {
        let (chain, key) = pair.read();
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let config = Arc::new(config);
        Self::start(move |near| {
            let config = Arc::clone(&config);
            async move {
                let mut near = TlsAcceptor::from(config).accept(near).await?;
                let mut far = TcpStream::connect(to).await?;
                copy_bidirectional(&mut near, &mut far).await.map(drop)
            }
        })
        .await
    }

    /// A load balancer that says these bytes first.
    pub(crate) async fn saying(to: SocketAddr, header: Vec<u8>) -> Self {
        Self::start(move |mut near| {
            let header = header.clone();
            async move {
                let mut far = TcpStream::connect(to).await?;
                far.write_all(&header).await?;
                copy_bidirectional(&mut near, &mut far).await.map(drop)
            }
        })
        .await
    }

    /// A proxy that is told something of `size` bytes first, and tells the test.
    pub(crate) async fn told(
        to: SocketAddr,
        size: usize,
        told: tokio::sync::mpsc::UnboundedSender<Vec<u8>>,
    ) -> Self {
        Self::start(move |mut near| {
            let told = told.clone();
            async move {
                let mut header = vec![0; size];
                near.read_exact(&mut header).await?;
                told.send(header).ok();
                let mut far = TcpStream::connect(to).await?;
                copy_bidirectional(&mut near, &mut far).await.map(drop)
            }
        })
        .await
    }
}
