//! `mainstay pod`: what runs inside a database pod.

use crate::kubernetes::client;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use mainstay_core::memgraph::helper::{HELPER_PORT, Me, PreStop, PreStopLimits};
use mainstay_core::memgraph::ids::{Ordinal, PodUid, ResetId};
use mainstay_core::memgraph::objects::ClusterName;
use mainstay_core::ring::ids::{ClusterUid, Location, Member, Name, PodUid as RingPodUid};
use mainstay_core::ring::spec::ScyllaVersion;
use operator::pod::{
    Ask, AskError, CassandraHome, DataVolume, Database, Helper, Launch, RealDisk, RingAskError, RingTask,
    ScyllaHome, SeedsTask, Task, prepare, record, ring_gate, ring_seeds, send, until_free,
};
use operator::ring::cassandra::Jolokia;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long the API may take to say what is in the record.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same, of a helper whom the operator waits for.
const HELPER_PATIENCE: Duration = Duration::from_secs(2);
/// Between two questions while it does not.
const PAUSE: Duration = Duration::from_secs(2);

#[derive(Subcommand)]
pub(crate) enum Command {
    /// The init container `data-cleanup`: carries out a hard reset if one was requested, and never deletes data.
    ///
    /// Without a marker on the volume it asks nobody and ends at once. With one it does what the cluster's record
    /// asks for: the data is moved to quarantine/ID on the same volume, or the marker is set aside.
    Prepare(Box<Arguments>),
    /// The container `helper` beside the database: writes the marker of a hard reset that the record asks for, and
    /// says what is on the volume.
    Serve(Box<ServeArguments>),
    /// Wait until this pod's database may end: a MAIN waits for its successor, for 40 s at most.
    ///
    /// For a preStop hook that runs a command. Pods that the operator makes ask their helper instead.
    PreStop(Box<Arguments>),
    /// Put this program where the container of another image can run it.
    Install {
        /// The file to be.
        #[arg(long)]
        to: PathBuf,
    },
    /// Before every start of a ring's database: it starts, or waits and says why.
    ///
    /// A bootstrapped disk starts. An empty one starts only with the operator's permission, which names this pod, this
    /// claim and this disk, and is used once. docs/ring.md says more.
    RingGate(Box<GateArguments>),
    /// Beside a Cassandra of a ring: once it is a member, its configuration lists every member as a seed.
    ///
    /// The operator makes the database read it. docs/ring.md says why.
    RingSeeds(SeedsArguments),
    /// Write what a hard reset set aside to standard output, for `mainstay quarantine restore`.
    Export(ExportArguments),
}

/// What is to be written.
#[derive(Args)]
pub(crate) struct ExportArguments {
    /// Where the volume is mounted.
    #[arg(long, default_value = "/var/lib/memgraph")]
    data: PathBuf,
    /// The number of the request.
    id: u64,
}

/// Which member of which ring, and how its database is started.
#[derive(Args)]
pub(crate) struct GateArguments {
    /// Which ring.
    #[arg(long)]
    cluster: String,
    /// The uid of the object that declares it.
    #[arg(long)]
    cluster_uid: ClusterUid,
    /// The version of ScyllaDB.
    #[arg(
        long,
        required_unless_present = "cassandra_dump",
        conflicts_with = "cassandra_dump"
    )]
    scylla: Option<ScyllaVersion>,
    /// The folder of its configuration in the image.
    #[arg(long, default_value = "/etc/scylla")]
    scylla_config: PathBuf,
    #[command(flatten)]
    cassandra: CassandraArguments,
    /// In which namespace.
    #[arg(long, env = "POD_NAMESPACE", default_value = "default")]
    namespace: String,
    /// The name of this pod.
    #[arg(long, env = "POD_NAME")]
    pod: Member,
    /// The uid of this pod.
    #[arg(long, env = "POD_UID")]
    pod_uid: RingPodUid,
    /// Where the volume is mounted.
    #[arg(long, default_value = "/var/lib/scylla")]
    data: PathBuf,
    /// A folder that lives as long as the pod.
    #[arg(long, default_value = "/opt/mainstay")]
    state: PathBuf,
    /// A kubeconfig; without it the pod's service account.
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The database: its program and arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// How Cassandra is found in its image.
#[derive(Args)]
pub(crate) struct CassandraArguments {
    /// The path of sstabledump: then it is a Cassandra.
    #[arg(long, requires = "cassandra_jolokia")]
    cassandra_dump: Option<PathBuf>,
    /// The configuration to begin with.
    #[arg(long, default_value = "/etc/cassandra/cassandra.yaml")]
    cassandra_config: PathBuf,
    /// The jar of the Jolokia agent.
    #[arg(long)]
    cassandra_jolokia: Option<PathBuf>,
    #[command(flatten)]
    listen: ListenArguments,
    /// Its datacenter.
    #[arg(long, env = "DATACENTER", default_value = "datacenter1")]
    datacenter: Name,
    /// Its rack.
    #[arg(long, env = "RACK", default_value = "rack1")]
    rack: Name,
    /// Options of Java.
    #[arg(long, env = "JVM_EXTRA_OPTS", default_value = "", allow_hyphen_values = true)]
    java: String,
}

/// Where a database listens that takes one address only.
#[derive(Args)]
pub(crate) struct ListenArguments {
    /// An address; 0.0.0.0 is that of the pod.
    #[arg(long, default_value_t = IpAddr::from(Ipv4Addr::UNSPECIFIED))]
    listen: IpAddr,
    /// The address of the pod.
    #[arg(long, env = "POD_IP")]
    pod_ip: Option<IpAddr>,
}

impl ListenArguments {
    fn address(&self) -> Result<IpAddr> {
        if !self.listen.is_unspecified() {
            return Ok(self.listen);
        }
        self.pod_ip
            .context("where to listen is not known: set POD_IP, or --listen")
    }
}

/// Whose seeds are kept, and where.
#[derive(Args)]
pub(crate) struct SeedsArguments {
    /// Which ring.
    #[arg(long)]
    cluster: String,
    /// In which namespace.
    #[arg(long, env = "POD_NAMESPACE", default_value = "default")]
    namespace: String,
    /// The folder in which the gate keeps the configuration.
    #[arg(long, default_value = "/opt/mainstay")]
    state: PathBuf,
    #[command(flatten)]
    listen: ListenArguments,
    /// A kubeconfig; without it the pod's service account.
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
}

/// Which pod, and where its volume is.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Which cluster: the name of its StatefulSet.
    #[arg(long, env = "MAINSTAY_CLUSTER")]
    cluster: ClusterName,
    /// In which namespace.
    #[arg(long, env = "POD_NAMESPACE", default_value = "default")]
    namespace: String,
    /// The name of this pod.
    #[arg(long, env = "POD_NAME")]
    pod: String,
    /// The uid of this pod.
    #[arg(long, env = "POD_UID")]
    pod_uid: Option<PodUid>,
    /// Where the volume is mounted.
    #[arg(long, default_value = "/var/lib/memgraph")]
    data: PathBuf,
    /// A kubeconfig; without it the pod's service account.
    #[arg(long, env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
}

/// The same, and where to listen.
#[derive(Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    pod: Arguments,
    /// Where to listen for the operator and the kubelet.
    #[arg(long, default_value_t = SocketAddr::from((Ipv4Addr::UNSPECIFIED, HELPER_PORT)))]
    listen: SocketAddr,
    /// The file with the token that a request must carry.
    #[arg(long)]
    token_file: Option<PathBuf>,
}

/// Runs to its end.
pub(crate) fn command(command: Command) -> ExitCode {
    match command {
        Command::Prepare(arguments) => crate::run_to_end("pod prepare", run(*arguments)),
        Command::Serve(arguments) => {
            crate::serve_to_end(&mut Builder::new_current_thread(), "pod serve", serve(*arguments))
        }
        Command::PreStop(arguments) => crate::run_to_end("pod pre-stop", pre_stop(*arguments)),
        Command::Install { to } => crate::run_to_end("pod install", async move { install(&to) }),
        Command::RingGate(arguments) => gate(*arguments),
        Command::RingSeeds(arguments) => crate::serve_to_end(
            &mut Builder::new_current_thread(),
            "pod ring-seeds",
            seeds(arguments),
        ),
        Command::Export(arguments) => crate::run_to_end("pod export", export(arguments)),
    }
}

impl Arguments {
    fn ordinal(&self) -> Result<Ordinal> {
        let Self { cluster, pod, .. } = self;
        cluster
            .ordinal(pod)
            .with_context(|| format!("`{pod}` is no pod of the cluster `{cluster}`"))
    }

    /// How the record is read. A client for each question: a token may have been renewed meanwhile.
    fn ask(&self, patience: Duration) -> Ask {
        let (namespace, cluster) = (self.namespace.clone(), self.cluster.clone());
        let kubeconfig = self.kubeconfig.clone();
        Arc::new(move || {
            let (namespace, cluster) = (namespace.clone(), cluster.clone());
            let kubeconfig = kubeconfig.clone();
            Box::pin(async move {
                let client = client(kubeconfig.as_deref())
                    .await
                    .map_err(|error| AskError::Client(format!("{error:#}")))?;
                record(client, &namespace, &cluster, patience).await
            })
        })
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    crate::kubernetes::install_tls();
    let (ordinal, ask) = (arguments.ordinal()?, arguments.ask(PATIENCE));
    let task = Task {
        pod: arguments.pod,
        ordinal,
        uid: arguments.pod_uid,
        pause: PAUSE,
    };
    // The first process of a container does not die of SIGTERM by itself.
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut volume = DataVolume::new(arguments.data, RealDisk);
    tokio::select! {
        done = prepare(&mut volume, &task, async || ask().await, |line| println!("{line}")) => Ok(done?),
        _ = terminate.recv() => anyhow::bail!("told to end before the pod was prepared"),
    }
}

async fn serve(arguments: ServeArguments) -> Result<()> {
    let ServeArguments {
        pod,
        listen,
        token_file,
    } = arguments;
    let me = Me {
        ordinal: pod.ordinal()?,
        uid: pod
            .pod_uid
            .context("which pod this is, is not known: set POD_UID")?,
        cluster: pod.cluster.clone(),
    };
    let helper = Helper {
        me,
        ask: pod.ask(HELPER_PATIENCE),
        volume: Arc::new(DataVolume::new(pod.data, RealDisk).into()),
        token: token_file.map_or(gateway::PushToken::None, gateway::PushToken::File),
        limits: PreStopLimits::default(),
        ending: 0.into(),
    };
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    let stop = CancellationToken::new();
    let serving = Arc::new(helper).serve(listener, stop.clone());
    let told = async {
        terminate.recv().await;
        stop.cancel();
    };
    tokio::join!(serving, told);
    Ok(())
}

async fn export(arguments: ExportArguments) -> Result<()> {
    let ExportArguments { data, id } = arguments;
    let folder = DataVolume::new(data, RealDisk).quarantine(ResetId(id));
    // Large files and a slow reader: not on the thread that everything else runs on.
    let sent = tokio::task::spawn_blocking(move || send(&folder, &mut std::io::stdout().lock()));
    sent.await??;
    Ok(())
}

async fn pre_stop(arguments: Arguments) -> Result<()> {
    crate::kubernetes::install_tls();
    let (ordinal, ask) = (arguments.ordinal()?, arguments.ask(HELPER_PATIENCE));
    let ended = until_free(ordinal, PreStopLimits::default(), &ask).await;
    anyhow::ensure!(ended != PreStop::TooLong, "nobody took over in time");
    Ok(())
}

/// A copy, or a second name for the same file where that can be had.
fn install(to: &Path) -> Result<()> {
    let own = std::env::current_exe().context("which file this is, is not known")?;
    let new = to.with_extension("new");
    let _left = std::fs::remove_file(&new);
    if std::fs::hard_link(&own, &new).is_err() {
        std::fs::copy(&own, &new).with_context(|| format!("cannot write {}", new.display()))?;
    }
    std::fs::rename(&new, to).with_context(|| format!("cannot write {}", to.display()))
}

impl CassandraArguments {
    fn location(&self) -> Location {
        let (dc, rack) = (self.datacenter.clone(), self.rack.clone());
        Location { dc, rack }
    }

    fn home(self) -> Result<CassandraHome> {
        let listen = self.listen.address()?;
        let Self {
            cassandra_dump,
            cassandra_config,
            cassandra_jolokia,
            listen: _,
            datacenter,
            rack,
            java,
        } = self;
        Ok(CassandraHome {
            dump: cassandra_dump.context("--cassandra-dump is needed")?,
            config: cassandra_config,
            jolokia: cassandra_jolokia.context("--cassandra-jolokia is needed")?,
            listen,
            location: Location { dc: datacenter, rack },
            java,
        })
    }
}

async fn seeds(arguments: SeedsArguments) -> Result<()> {
    crate::kubernetes::install_tls();
    let SeedsArguments {
        cluster,
        namespace,
        state,
        listen,
        kubeconfig,
    } = arguments;
    let task = SeedsTask {
        cluster,
        namespace,
        state,
        database: Jolokia {
            at: listen.address()?,
            patience: PATIENCE,
        },
        pause: PAUSE,
        patience: PATIENCE,
    };
    let ask = async || {
        client(kubeconfig.as_deref())
            .await
            .map_err(|error| RingAskError::Client(format!("{error:#}")))
    };
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    tokio::select! {
        () = ring_seeds(&task, ask, |line| println!("{line}")) => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

/// Waits for its turn, and becomes the database.
fn gate(arguments: GateArguments) -> ExitCode {
    use std::os::unix::process::CommandExt as _;
    let runtime = Builder::new_current_thread().enable_all().build();
    let launch = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(wait_for_turn(arguments)));
    let error = match launch {
        // Comes back only if it could not.
        Ok(Launch { program, args, env }) => {
            let failed = std::process::Command::new(&program).args(args).envs(env).exec();
            anyhow::Error::from(failed).context(program)
        }
        Err(error) => error,
    };
    eprintln!("mainstay pod ring-gate: {error:#}");
    ExitCode::FAILURE
}

async fn wait_for_turn(arguments: GateArguments) -> Result<Launch> {
    crate::kubernetes::install_tls();
    let GateArguments {
        cluster,
        cluster_uid,
        scylla,
        scylla_config,
        cassandra,
        namespace,
        pod,
        pod_uid,
        data,
        state,
        kubeconfig,
        command,
    } = arguments;
    let database = match scylla {
        Some(version) => Database::Scylla(ScyllaHome {
            version,
            config: scylla_config,
            location: cassandra.location(),
        }),
        None => Database::Cassandra(Box::new(cassandra.home()?)),
    };
    let task = RingTask {
        cluster,
        uid: cluster_uid,
        database,
        namespace,
        member: pod,
        pod: pod_uid,
        data,
        state,
        command,
        pause: PAUSE,
        patience: PATIENCE,
    };
    // A client for each question: a token may have been renewed meanwhile.
    let ask = async || {
        client(kubeconfig.as_deref())
            .await
            .map_err(|error| RingAskError::Client(format!("{error:#}")))
    };
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    tokio::select! {
        launch = ring_gate(&task, ask, |line| println!("{line}")) => Ok(launch?),
        _ = terminate.recv() => anyhow::bail!("told to end before the database was started"),
    }
}
