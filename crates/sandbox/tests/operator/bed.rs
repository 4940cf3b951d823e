//! A small Kubernetes with stand-ins as processes, and operators in this process.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::MemgraphCluster;
use gateway::{Config as GatewayConfig, Gateway, Plane, PushToken, Resolve};
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, PostParams};
use mainstay_core::lease::LeaseTiming;
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::document::{Document, Parsed};
use mainstay_core::memgraph::record::State;
use mainstay_core::memgraph::rules::Rules;
use operator::engine::queue::Limits;
use operator::engine::turns::Pace;
use operator::engine::watch::Scope;
use operator::memgraph::{ReplicaAddress, Settings};
use operator::tap::Tap;
use operator::{Config as OperatorConfig, Operator};
use sandbox::kube::Kubernetes;
use sandbox::node::{BackOff, Config, Images, Nodes, Party};
use sandbox::standin::memgraph::client::{Client as Bolt, Outcome};
use serde_json::{Value, json};
use sim::kube::User;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The machine is shared and slow at times.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
pub(crate) const NAME: &str = "memgraph-ha";
/// How long a database may take to answer the operator.
pub(crate) const PROBE: Duration = Duration::from_millis(500);
/// `pod prepare` ends at once, everything else goes on.
const IDLE: &str = "test \"$2\" = prepare || exec sleep 100000";

pub(crate) struct Bed {
    pub(crate) kubernetes: Kubernetes,
    pub(crate) nodes: Nodes,
    pub(crate) client: Client,
    folder: PathBuf,
}

/// An operator in this process.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
    pub(crate) http: SocketAddr,
}

impl Running {
    /// It is told to stop, and frees its lease.
    pub(crate) async fn stop(self) -> Result<()> {
        self.stop.cancel();
        self.task.await.context("the operator panicked")
    }

    /// It is gone from one moment to the next.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// What operators differ in.
struct Given {
    tap: Tap,
    user: User,
    rules: Rules,
    address: ReplicaAddress,
}

impl Default for Given {
    fn default() -> Self {
        Self {
            tap: Tap::default(),
            user: User::admin(),
            rules: Rules::ALL,
            address: ReplicaAddress::Ip,
        }
    }
}

impl Bed {
    pub(crate) async fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("mainstay-op-{}-{number}", std::process::id()));
        let kubernetes = Kubernetes::new(11);
        let standin = env!("CARGO_BIN_EXE_standin");
        let images = Images::new()
            .with("memgraph/memgraph:*", standin, &["memgraph"])
            // No marker is left on a volume here: the init container has nothing to do, and the helper only runs.
            .with("mainstay:*", "/bin/sh", &["-c", IDLE, "mainstay"]);
        let mut config = Config::new(&folder, images);
        config.heartbeat = SignedDuration::from_secs(1);
        config.back_off = BackOff {
            first: SignedDuration::from_millis(300),
            // Pods are killed again and again here, and a kubelet would make them wait for minutes.
            longest: SignedDuration::from_secs(1),
            ..BackOff::UPSTREAM
        };
        let nodes = Nodes::start(&kubernetes, config)?;
        let client = kubernetes.client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for kind in api::kinds() {
            definitions
                .create(&PostParams::default(), &kind)
                .await
                .context("the kind is refused")?;
        }
        Ok(Self {
            kubernetes,
            nodes,
            client,
            folder,
        })
    }

    pub(crate) async fn end(self) -> Result<()> {
        self.nodes.stop().await;
        self.kubernetes.shutdown().await;
        std::fs::remove_dir_all(&self.folder).context("the folder is left")
    }

    pub(crate) fn clusters(&self) -> Api<MemgraphCluster> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// A cluster of so many pods. The last flags are the stand-in's own.
    pub(crate) async fn create(&self, replicas: u8) -> Result<()> {
        self.create_with(json!({ "replicas": replicas })).await
    }

    /// The same, with gateways: their pods do nothing here.
    pub(crate) async fn create_with_gateway(&self, replicas: u8) -> Result<()> {
        self.create_with(json!({ "replicas": replicas, "gateway": { "enabled": true } }))
            .await
    }

    /// One that is declared like this.
    pub(crate) async fn create_with(&self, more: Value) -> Result<()> {
        let mut spec = json!({
            "gateway": { "enabled": false },
            "flags": ["--replication-address=0.0.0.0", "--profile=3.12"],
        });
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        let cluster: MemgraphCluster = serde_json::from_value(json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
            "metadata": { "name": NAME, "namespace": "default" },
            "spec": spec,
        }))?;
        self.clusters().create(&PostParams::default(), &cluster).await?;
        Ok(())
    }

    /// An operator with times for tests.
    pub(crate) async fn operator(&self) -> Result<Running> {
        self.operator_with(Tap::default()).await
    }

    /// The same, and somebody is told what it does.
    pub(crate) async fn operator_with(&self, tap: Tap) -> Result<Running> {
        let given = Given {
            tap,
            ..Given::default()
        };
        self.operator_given(given).await
    }

    /// One that forgets rules.
    pub(crate) async fn operator_without(&self, rules: Rules) -> Result<Running> {
        let given = Given {
            rules,
            ..Given::default()
        };
        self.operator_given(given).await
    }

    /// One that may do what this account may.
    pub(crate) async fn operator_as(&self, user: &User) -> Result<Running> {
        let user = user.clone();
        let given = Given {
            user,
            ..Given::default()
        };
        self.operator_given(given).await
    }

    /// One that registers replicas by their names, as it does in production.
    pub(crate) async fn operator_by_name(&self) -> Result<Running> {
        let given = Given {
            address: ReplicaAddress::Name,
            ..Given::default()
        };
        self.operator_given(given).await
    }

    async fn operator_given(&self, given: Given) -> Result<Running> {
        let Given {
            tap,
            user,
            rules,
            address,
        } = given;
        let settings = Settings {
            settle: Duration::from_millis(500),
            interval: Duration::from_millis(200),
            address,
            ..Settings::default()
        };
        let config = OperatorConfig {
            client: self.kubernetes.client_as(user.clone()),
            lease_client: self.kubernetes.client_as(user),
            scope: Scope::All,
            lease_namespace: "default".to_owned(),
            lease_name: "mainstay-operator".to_owned(),
            identity: "op".to_owned(),
            timing: LeaseTiming::new(
                Duration::from_secs(3),
                Duration::from_millis(2_800),
                Duration::from_millis(300),
                Duration::from_millis(1_500),
            )?,
            limits: Limits::default(),
            pace: Pace::default(),
            settings: Settings {
                call: Duration::from_millis(1_500),
                command: Duration::from_millis(1_500),
                probe: PROBE,
                tap,
                rules,
                ..settings
            },
            ring: None,
            hibernation: operator::hibernation::Settings::default(),
            http: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let operator = Operator::bind(config).await?;
        let http = operator.address().context("no address")?;
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move {
                if let Err(error) = operator.run(stop).await {
                    eprintln!("operator: {error}");
                }
            }
        });
        Ok(Running { stop, task, http })
    }

    /// A gateway in this process. The token of pushes comes to it as to one in a pod: from the Secret, as soon as the
    /// operator has made it.
    pub(crate) async fn gateway(&self, name: &str) -> Result<Gateway> {
        let file = self.folder.join(format!("push-token-{name}"));
        let mut config = GatewayConfig::new(NAME.parse()?, "default", name);
        config.token = PushToken::File(file.clone());
        let client = self.client.clone();
        tokio::spawn(async move {
            while mount_token(&client, &file).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let names = Resolve::HostsFile(self.nodes.hosts_file("default"));
        let plane = Plane::Kubernetes(self.kubernetes.client());
        Ok(Gateway::start(config, plane, names).await?)
    }

    pub(crate) async fn record(&self) -> Result<Option<Record>> {
        let maps: Api<ConfigMap> = Api::default_namespaced(self.client.clone());
        let Some(map) = maps.get_opt(&format!("{NAME}-topology")).await? else {
            return Ok(None);
        };
        match Document::parse(&map.data.unwrap_or_default())? {
            Parsed::Full { document, .. } => Ok(Some(document.record)),
            Parsed::SeedOnly { .. } => Ok(None),
        }
    }

    /// Waits until the record is as it should be.
    pub(crate) async fn until(&self, what: &str, fits: impl Fn(&Record) -> bool) -> Result<Record> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            // A fault may hit this very call.
            let record = self.record().await.unwrap_or_default();
            if let Some(record) = record.as_ref().filter(|record| fits(record)) {
                return Ok(record.clone());
            }
            if tokio::time::Instant::now() > deadline {
                let status = self.clusters().get(NAME).await.map(|c| c.status);
                bail!("the cluster is not {what}: {record:#?}\n{status:#?}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn until_protected(&self) -> Result<Record> {
        self.until("serving and protected", |r| {
            r.state == State::Serving && r.sync.is_some()
        })
        .await
    }

    /// Ends the process of MAIN without warning, and waits until the other pod serves: how long that took.
    pub(crate) async fn fail_over(&self) -> Result<(Record, Duration)> {
        let main = self.until_protected().await?.main.context("no MAIN")?.pod;
        let killed = tokio::time::Instant::now();
        self.nodes.kill(&Self::party(main.0), None)?;
        let record = self
            .until("served by the other pod", |r| {
                r.state == State::Serving && r.main.as_ref().is_some_and(|m| Some(m.pod) == main.partner())
            })
            .await?;
        Ok((record, killed.elapsed()))
    }

    pub(crate) fn party(pod: u8) -> Party {
        Party::pod("default", &format!("{NAME}-{pod}"))
    }

    pub(crate) async fn address(&self, pod: u8, port: u16) -> Result<SocketAddr> {
        let object = self.pods().get(&format!("{NAME}-{pod}")).await?;
        let ip: IpAddr = object
            .status
            .and_then(|status| status.pod_ip)
            .context("no address")?
            .parse()?;
        Ok(SocketAddr::new(ip, port))
    }

    pub(crate) async fn bolt(&self, pod: u8) -> Result<Bolt> {
        let address = self.address(pod, 7687).await?;
        let auth = bolt::message::Auth::None;
        Ok(Bolt::connect_within(address, auth, Duration::from_secs(5)).await?)
    }

    /// Waits until the database of a pod answers.
    pub(crate) async fn until_answers(&self, pod: u8) -> Result<()> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while self.bolt(pod).await.is_err() {
            if tokio::time::Instant::now() > deadline {
                bail!("pod {pod} does not answer");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// As another operator would have made it: no init file, no label of ours.
    pub(crate) async fn stateful_set_of_somebody_else(&self, replicas: u8) -> Result<()> {
        let labels = json!({ "app": "memgraph" });
        let set: StatefulSet = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": { "name": NAME, "namespace": "default" },
            "spec": {
                "serviceName": NAME, "replicas": replicas, "podManagementPolicy": "Parallel",
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{
                        "name": "memgraph", "image": "memgraph/memgraph:3.12.0",
                        "args": [
                            "--data-directory=/var/lib/memgraph/mg_data", "--bolt-address=0.0.0.0", "--bolt-port=7687",
                            "--replication-address=0.0.0.0", "--profile=3.12",
                        ],
                        "volumeMounts": [{ "name": "lib-storage", "mountPath": "/var/lib/memgraph" }],
                    }] },
                },
                "volumeClaimTemplates": [{
                    "metadata": { "name": "lib-storage" },
                    "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
                }],
            },
        }))?;
        let sets: Api<StatefulSet> = Api::default_namespaced(self.client.clone());
        sets.create(&PostParams::default(), &set).await?;
        Ok(())
    }

    /// One more vertex with this label on the pod; how many there are then.
    pub(crate) async fn write(&self, pod: u8, label: &str) -> Result<i64> {
        match self.bolt(pod).await?.query(&format!("CREATE (:{label})")).await? {
            Outcome::Done(_) => self.count(pod, label).await,
            Outcome::Refused { failure, .. } => bail!("{failure}"),
        }
    }

    /// How many vertices with this label the pod has.
    pub(crate) async fn count(&self, pod: u8, label: &str) -> Result<i64> {
        let mut bolt = self.bolt(pod).await?;
        let query = format!("MATCH (n:{label}) RETURN count(n) AS n");
        match bolt.query(&query).await? {
            Outcome::Done(table) => {
                let first = table.rows.first().and_then(|row| row.first());
                first
                    .and_then(bolt::packstream::Value::as_int)
                    .context("no number")
            }
            Outcome::Refused { failure, .. } => bail!("{failure}"),
        }
    }
}

/// Writes the token of pushes where a gateway reads it, if there is one.
async fn mount_token(client: &Client, file: &Path) -> Result<()> {
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let secret = secrets.get(&format!("{NAME}-gateway-token")).await?;
    let token = secret.data.unwrap_or_default();
    std::fs::write(file, &token.get("token").context("no token")?.0)?;
    Ok(())
}
