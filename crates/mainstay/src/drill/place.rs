//! Where a drill is done: on the sandbox that runs, on one of its own, or on somebody's cluster.

use super::cluster::{ALLOW, Cluster};
use super::faults::{Injector, Means};
use super::writer::Target;
use crate::kubernetes::config;
use crate::sandbox::found::{Description, FindError, find};
use crate::sandbox::site::{Options, Site};
use anyhow::{Context, Result, bail, ensure};
use bolt::message::Auth;
use operator::memgraph::ReplicationPorts;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where to look for it.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// The sandbox in this folder; without one the newest that runs, or else a private one.
    Sandbox {
        folder: Option<PathBuf>,
        private: Options,
    },
    /// A private one, whatever runs: no other is as it was asked for.
    Private(Options),
    /// A cluster of a real Kubernetes.
    Cluster(Elsewhere),
}

/// A cluster of a real Kubernetes.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) namespace: String,
    pub(crate) cluster: String,
    pub(crate) operators: String,
    pub(crate) bolt: String,
    pub(crate) auth: Auth<'static>,
}

/// It was found.
pub(crate) struct Place {
    pub(crate) injector: Injector,
    pub(crate) target: Target,
    /// Not known of somebody else's cluster.
    pub(crate) stand_ins: Option<bool>,
    /// It is ours, and ends with the drill.
    pub(crate) site: Option<Site>,
}

impl Place {
    /// Finds or starts it.
    pub(crate) async fn open(wanted: Wanted) -> Result<Self> {
        match wanted {
            Wanted::Sandbox { folder, private } => Self::sandbox(folder.as_deref(), private).await,
            Wanted::Private(options) => Self::private(options).await,
            Wanted::Cluster(elsewhere) => Self::elsewhere(elsewhere).await,
        }
    }

    async fn sandbox(folder: Option<&Path>, private: Options) -> Result<Self> {
        match find(folder).await {
            Ok(found) => Self::described(&found, None).await,
            Err(FindError::None) => Self::private(private).await,
            Err(error) => Err(error.into()),
        }
    }

    async fn private(options: Options) -> Result<Self> {
        let site = Site::start(options).await?;
        let description = site.description().clone();
        Self::described(&description, Some(site)).await
    }

    async fn described(found: &Description, site: Option<Site>) -> Result<Self> {
        let Description {
            folder: _,
            pid: _,
            bolt,
            reads: _,
            kubeconfig,
            control,
            namespace,
            cluster,
            stand_ins,
            replication_port,
        } = found;
        let cluster = Cluster {
            client: client(kubeconfig).await?,
            namespace: namespace.clone(),
            name: cluster.clone(),
            operators: namespace.clone(),
            ports: replication_port.map_or(ReplicationPorts::Same, ReplicationPorts::From),
        };
        Ok(Self {
            injector: Injector::new(cluster, Means::Sandbox(control.clone())),
            target: Target {
                bolt: *bolt,
                auth: Auth::None,
                run: run(),
            },
            stand_ins: Some(*stand_ins),
            site,
        })
    }

    async fn elsewhere(elsewhere: Elsewhere) -> Result<Self> {
        let Elsewhere {
            kubeconfig,
            namespace,
            cluster,
            operators,
            bolt,
            auth,
        } = elsewhere;
        let cluster = Cluster {
            client: client(&kubeconfig).await?,
            namespace,
            name: cluster,
            operators,
            ports: ReplicationPorts::Same,
        };
        let look = cluster.look().await?;
        ensure!(
            look.allowed,
            "the cluster does not allow drills: they break it on purpose. Its owner allows them with `kubectl annotate mgc {} {ALLOW}=true`",
            cluster.name
        );
        let mut addresses = tokio::net::lookup_host(&bolt)
            .await
            .with_context(|| format!("{bolt} is no HOST:PORT that is known"))?;
        let Some(bolt) = addresses.next() else {
            bail!("{bolt} has no address");
        };
        Ok(Self {
            injector: Injector::new(cluster, Means::Api),
            target: Target {
                bolt,
                auth,
                run: run(),
            },
            stand_ins: None,
            site: None,
        })
    }

    /// Mends what the drill broke, and ends what it started.
    pub(crate) async fn close(self) -> Result<()> {
        let Self {
            injector,
            target: _,
            stand_ins: _,
            site,
        } = self;
        match site {
            Some(site) => Ok(site.end().await?),
            None => injector
                .undo()
                .await
                .context("not everything that the drill broke was mended"),
        }
    }
}

/// A number that no other drill has.
fn run() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let micros = now.unwrap_or_default().as_micros();
    i64::try_from(micros).unwrap_or(i64::MAX)
}

/// A drill breaks the API too: what fails is tried again.
async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    Ok(kube::Client::try_from(config(Some(kubeconfig)).await?)?)
}
