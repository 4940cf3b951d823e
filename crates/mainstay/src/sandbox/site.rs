//! A whole cluster on this machine: Kubernetes in this process, everything else as processes of its own.

use super::control::Control;
use super::diagnosis::Diagnosis;
use super::found::{Description, home};
use super::manifests::{CLUSTER, Databases, NAMESPACE, Wanted, objects};
use super::ports::Block;
use api::{MemgraphCluster, MemgraphClusterStatus};
use jiff::SignedDuration;
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::{Api, Client};
use mainstay_core::memgraph::objects::BOLT_PORT;
use operator::memgraph::resources::READS_PORT;
use sandbox::kube::{Kubernetes, ListenError};
use sandbox::node::{BackOff, Config, Images, Nodes, Program, StartError};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// How a sandbox is to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// A real Memgraph to run instead of the stand-in.
    pub(crate) memgraph: Option<PathBuf>,
    /// How many databases.
    pub(crate) replicas: u8,
    /// Where clients connect; any free port, if the usual one is taken or zero is asked for.
    pub(crate) port: Option<u16>,
    /// Arguments for the stand-in alone.
    pub(crate) stand_in: Vec<String>,
    /// Nobody is promoted before the old MAIN is fenced, however long that takes.
    pub(crate) waits_for_the_fence: bool,
    /// Arguments for the operators alone.
    pub(crate) operator: Vec<String>,
    /// Whether other commands of this user find it.
    pub(crate) announced: bool,
}

/// Why there is no sandbox.
#[derive(Debug, Error)]
pub(crate) enum SiteError {
    /// The folder.
    #[error("the folder {path} cannot be used")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The real database is not there.
    #[error("{path} is no program that can be run")]
    Memgraph {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Who we are.
    #[error("this program's own file cannot be found")]
    OwnFile(#[source] io::Error),
    /// Kubernetes has no port.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There are no nodes.
    #[error(transparent)]
    Nodes(#[from] StartError),
    /// Clients have no port.
    #[error("clients cannot be given port {port}")]
    Port {
        /// Which.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// An object was refused.
    #[error("{kind} `{name}` was refused")]
    Object {
        /// Of what kind.
        kind: String,
        /// Which.
        name: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// An object cannot be read: ours to build, and built wrongly.
    #[error("an object of the sandbox cannot be read")]
    Build(#[from] serde_json::Error),
    /// Real servers have no ports.
    #[error("no ports are free on which real servers could listen for their MAIN")]
    NoReplicationPorts,
    /// It took too long.
    #[error("the cluster is not serving and protected after {waited:?}; it says: {says}\n{diagnosis}")]
    NotReady {
        /// So long.
        waited: Duration,
        /// The operator.
        says: String,
        /// What is wrong with the databases.
        diagnosis: Diagnosis,
    },
    /// A database does not start, or is none that we know.
    #[error("a database cannot be used\n{0}")]
    Unusable(Diagnosis),
}

/// How often the databases are looked at while they start, and how often those that run are asked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const ASK_EVERY: Duration = Duration::from_secs(10);

/// What is told when only the gateways are missing.
const NO_GATEWAY: &str = "a MAIN serves and is protected; no gateway is ready yet";

/// What a real server may need to find its libraries and its Python. Other processes of pods get nothing of ours but
/// `PATH`.
const PASSED_ON: [&str; 3] = ["LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH"];

/// Here pods are killed on purpose, again and again: they come back as on a kubelet whose
/// `crashLoopBackOff.maxContainerRestartPeriod` is two seconds, and not after minutes.
const OFTEN_KILLED: BackOff = BackOff {
    first: SignedDuration::from_secs(1),
    longest: SignedDuration::from_secs(2),
    ..BackOff::UPSTREAM
};

/// A running sandbox. All of it ends when it is dropped; [`Site::end`] waits for that and removes the folder, unless
/// somebody has to look into it.
pub(crate) struct Site {
    kubernetes: Kubernetes,
    nodes: Arc<Nodes>,
    control: Control,
    /// It is controlled until then.
    controlled: CancellationToken,
    controls: JoinSet<()>,
    description: Description,
    tasks: JoinSet<()>,
    ports: Option<Block>,
    folder: Folder,
}

/// A folder of this sandbox alone, which only its owner can look into. It goes with this, unless it is kept.
struct Folder {
    path: PathBuf,
    kept: AtomicBool,
}

impl Folder {
    fn new() -> Result<Self, SiteError> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = home().join(format!("sandbox-{}", std::process::id()));
        let unusable = |source| SiteError::Folder {
            path: path.clone(),
            source,
        };
        // The number of a process comes again: what is there is of one that is gone.
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(error)),
            _ => {}
        }
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(unusable)?;
        Ok(Self {
            path,
            kept: AtomicBool::new(false),
        })
    }

    fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }

    fn remove(&self) -> Result<(), SiteError> {
        if self.kept.load(Ordering::Relaxed) {
            return Ok(());
        }
        std::fs::remove_dir_all(&self.path).map_err(|source| SiteError::Folder {
            path: self.path.clone(),
            source,
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is gone already, unless something failed; then there is nobody to tell.
        self.remove().ok();
    }
}

impl Site {
    /// Starts everything. Databases come up after it returns: see [`Site::until_protected`].
    pub(crate) async fn start(options: Options) -> Result<Self, SiteError> {
        let Options {
            memgraph,
            replicas,
            port,
            stand_in,
            waits_for_the_fence,
            operator,
            announced,
        } = options;
        let images = images(memgraph.as_deref(), &stand_in)?;
        if let Some(port) = port {
            // Whoever names a port means that one, and is told before there is anything to clean up.
            let taken = |source| SiteError::Port { port, source };
            drop(TcpListener::bind(at(port)).await.map_err(taken)?);
        }
        let ports = match &memgraph {
            Some(_) => Some(Block::find().ok_or(SiteError::NoReplicationPorts)?),
            None => None,
        };
        let replication_port = ports.as_ref().map(Block::base);
        let own = Folder::new()?;
        let folder = own.path.clone();
        let kubernetes = Kubernetes::new(u64::from(std::process::id()));
        let listening = kubernetes
            .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await?;
        let kubeconfig = folder.join("kubeconfig");
        write_private(&kubeconfig, &listening.kubeconfig())?;
        let mut config = Config::new(folder.join("nodes"), images);
        config.api = Some(listening);
        config.back_off = OFTEN_KILLED;
        let nodes = Arc::new(Nodes::start(&kubernetes, config)?);
        let wanted = Wanted {
            replicas,
            databases: replication_port.map_or(Databases::StandIns, |replication_port| Databases::Real {
                replication_port,
            }),
            waits_for_the_fence,
            operator,
        };
        let client = kubernetes.client();
        for object in objects(wanted) {
            create(&client, object).await?;
        }
        let door = door(&nodes, port).await?;
        let reads = nodes.door(at(0), NAMESPACE, &gateways(), READS_PORT).await;
        let reads = reads.map_err(|source| SiteError::Port { port: 0, source })?;
        let control = Control::new(kubernetes.clone(), Arc::clone(&nodes), NAMESPACE);
        let socket = folder.join("control");
        let unusable = |source| SiteError::Folder {
            path: socket.clone(),
            source,
        };
        let listener = UnixListener::bind(&socket).map_err(unusable)?;
        let description = Description {
            pid: std::process::id(),
            bolt: door.address().map_err(unusable)?,
            reads: reads.address().map_err(unusable)?,
            kubeconfig,
            control: socket.clone(),
            namespace: NAMESPACE.to_owned(),
            cluster: CLUSTER.to_owned(),
            stand_ins: memgraph.is_none(),
            replication_port,
            folder,
        };
        if announced {
            description.write().map_err(unusable)?;
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(door.run());
        tasks.spawn(reads.run());
        let controlled = CancellationToken::new();
        let mut controls = JoinSet::new();
        controls.spawn(control.clone().serve(listener, controlled.clone()));
        Ok(Self {
            kubernetes,
            nodes,
            control,
            controlled,
            controls,
            description,
            tasks,
            ports,
            folder: own,
        })
    }

    /// What it says of itself.
    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    /// Whoever may do everything.
    pub(crate) fn client(&self) -> Client {
        self.kubernetes.client()
    }

    /// Waits until a MAIN serves and is protected. `told` gets each new sentence of the operator on the way. Whoever
    /// waits in vain finds the folder as it was.
    pub(crate) async fn until_protected(
        &self,
        patience: Duration,
        told: impl FnMut(&str),
    ) -> Result<(), SiteError> {
        let waited = self.wait(patience, told).await;
        if waited.is_err() {
            self.folder.keep();
        }
        waited
    }

    async fn wait(&self, patience: Duration, mut told: impl FnMut(&str)) -> Result<(), SiteError> {
        let clusters: Api<MemgraphCluster> = Api::namespaced(self.client(), NAMESPACE);
        let began = Instant::now();
        let deadline = began + patience;
        let (mut look_at, mut ask_at) = (began + LOOK_EVERY, began + ASK_EVERY);
        let mut last = String::from("nothing yet");
        loop {
            // Nobody else uses this client, and it cannot be cut off: an error is a moment, not a state.
            let status = clusters
                .get(CLUSTER)
                .await
                .ok()
                .and_then(|cluster| cluster.status);
            if let Some(status) = status {
                let protected = is_true(&status, "Ready") && is_true(&status, "Protected");
                // The cluster does not wait for its gateways, but whoever is told their address does.
                if protected && self.nodes.is_served(NAMESPACE, &gateways()) {
                    return Ok(());
                }
                let unserved = protected.then_some(NO_GATEWAY);
                let says = unserved.or_else(|| status.reasons.first().map(String::as_str));
                if let Some(reason) = says.filter(|reason| *reason != last) {
                    told(reason);
                    reason.clone_into(&mut last);
                }
            }
            let now = Instant::now();
            let late = now > deadline;
            if late || now >= look_at {
                let ask = late || now >= ask_at;
                let diagnosis = Diagnosis::make(self.client(), &self.folder.path, ask).await;
                if late {
                    return Err(SiteError::NotReady {
                        waited: patience,
                        says: last,
                        diagnosis,
                    });
                }
                if diagnosis.is_hopeless() {
                    return Err(SiteError::Unusable(diagnosis));
                }
                look_at = Instant::now() + LOOK_EVERY;
                if ask {
                    ask_at = Instant::now() + ASK_EVERY;
                }
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends every process and removes the folder, unless it is kept.
    pub(crate) async fn end(self) -> Result<(), SiteError> {
        let Self {
            kubernetes,
            nodes,
            control,
            controlled,
            mut controls,
            description: _,
            mut tasks,
            ports,
            folder,
        } = self;
        // Somebody may still be connected to the control, and hold the nodes by it.
        controlled.cancel();
        while controls.join_next().await.is_some() {}
        drop(control);
        tasks.shutdown().await;
        // Nobody else holds them now.
        if let Some(nodes) = Arc::into_inner(nodes) {
            nodes.stop().await;
        }
        kubernetes.shutdown().await;
        // Nobody listens on them any more.
        drop(ports);
        folder.remove()
    }
}

fn is_true(status: &MemgraphClusterStatus, kind: &str) -> bool {
    let found = status.conditions.iter().find(|condition| condition.kind == kind);
    found.is_some_and(|condition| condition.status == "True")
}

/// The Service of the gateways.
fn gateways() -> String {
    format!("{CLUSTER}-gateway")
}

fn write_private(path: &Path, text: &str) -> Result<(), SiteError> {
    std::fs::write(path, text).map_err(|source| SiteError::Folder {
        path: path.to_owned(),
        source,
    })
}

/// This very program is operator, gateway and stand-in.
fn images(memgraph: Option<&Path>, stand_in: &[String]) -> Result<Images, SiteError> {
    let own = std::env::current_exe().map_err(SiteError::OwnFile)?;
    let images = Images::new().with("mainstay:*", &own, &[]);
    Ok(if let Some(path) = memgraph {
        let unusable = |source| SiteError::Memgraph {
            path: path.to_owned(),
            source,
        };
        let path = path.canonicalize().map_err(unusable)?;
        rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).map_err(|e| unusable(e.into()))?;
        let env = PASSED_ON
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        let program = Program {
            path,
            args: vec![],
            env: env.collect(),
        };
        images.with_program("memgraph/memgraph:*", program)
    } else {
        let mut args = vec!["standin", "memgraph", "--replication-address=0.0.0.0"];
        args.extend(stand_in.iter().map(String::as_str));
        images.with("memgraph/memgraph:*", own, &args)
    })
}

async fn create(client: &Client, object: serde_json::Value) -> Result<(), SiteError> {
    let types: TypeMeta = serde_json::from_value(object.clone())?;
    let object: DynamicObject = serde_json::from_value(object)?;
    let (group, version) = types
        .api_version
        .split_once('/')
        .unwrap_or(("", &types.api_version));
    let kind = GroupVersionKind::gvk(group, version, &types.kind);
    let resource = ApiResource::from_gvk(&kind);
    let api = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let created = api.create(&PostParams::default(), &object).await;
    created.map(drop).map_err(|source| SiteError::Object {
        kind: kind.kind,
        name: object.metadata.name.unwrap_or_default(),
        source: Box::new(source),
    })
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// The usual port of Bolt, or any if that one is taken: a second sandbox gets another.
async fn door(nodes: &Nodes, port: Option<u16>) -> Result<sandbox::node::Door, SiteError> {
    let service = gateways();
    let usual = port.unwrap_or(BOLT_PORT);
    match nodes.door(at(usual), NAMESPACE, &service, BOLT_PORT).await {
        Err(error) if port.is_none() && error.kind() == io::ErrorKind::AddrInUse => {
            nodes.door(at(0), NAMESPACE, &service, BOLT_PORT).await
        }
        other => other,
    }
    .map_err(|source| SiteError::Port { port: usual, source })
}
