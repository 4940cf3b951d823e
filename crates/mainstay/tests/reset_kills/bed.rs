//! A small Kubernetes whose database pods run this very program as init container and helper, and operators in this
//! process, so that they can be stopped anywhere.

use anyhow::{Context, Result, bail, ensure};
use api::MemgraphCluster;
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use mainstay_core::lease::LeaseTiming;
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::document::{Document, Parsed};
use mainstay_core::memgraph::record::State;
use operator::engine::queue::Limits;
use operator::engine::turns::Pace;
use operator::engine::watch::Scope;
use operator::memgraph::{ReplicaAddress, Settings};
use operator::tap::Tap;
use operator::{Config as OperatorConfig, Operator};
use sandbox::kube::Kubernetes;
use sandbox::node::{BackOff, Config, Images, Nodes, Party};
use sandbox::standin::memgraph::client::{Client as Bolt, Outcome};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_mins(2);
const NAME: &str = "memgraph-ha";

pub(crate) struct Bed {
    kubernetes: Kubernetes,
    nodes: Arc<Nodes>,
    client: Client,
    folder: PathBuf,
}

/// An operator in this process.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
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

impl Bed {
    /// A cluster of three that is protected, and nobody who looks after it.
    pub(crate) async fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("mainstay-rk-{}-{number}", std::process::id()));
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .ok();
        let kubernetes = Kubernetes::new(u64::from(number) + 21);
        let listening = kubernetes
            .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await?;
        let own = env!("CARGO_BIN_EXE_mainstay");
        let stand_in = [
            "standin",
            "memgraph",
            "--replication-address=0.0.0.0",
            "--profile=3.12",
        ];
        let images = Images::new()
            .with("mainstay:*", own, &[])
            .with("memgraph/memgraph:*", own, &stand_in);
        let mut config = Config::new(&folder, images);
        config.api = Some(listening);
        config.back_off = BackOff {
            first: SignedDuration::from_millis(300),
            longest: SignedDuration::from_secs(1),
            ..BackOff::UPSTREAM
        };
        let nodes = Arc::new(Nodes::start(&kubernetes, config)?);
        let client = kubernetes.client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for kind in api::kinds() {
            definitions.create(&PostParams::default(), &kind).await?;
        }
        let bed = Self {
            kubernetes,
            nodes,
            client,
            folder,
        };
        let cluster: MemgraphCluster = serde_json::from_value(json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
            "metadata": { "name": NAME, "namespace": "default" },
            "spec": {
                "gateway": { "enabled": false },
                "hardReset": { "quiet": "0s", "perHour": 60, "keep": 20 },
            },
        }))?;
        bed.clusters().create(&PostParams::default(), &cluster).await?;
        let first = bed.operator(Tap::default()).await?;
        let whole = |r: &Record| r.state == State::Serving && r.sync.is_some();
        let deadline = Instant::now() + PATIENCE;
        while !bed.record().await?.as_ref().is_some_and(whole) {
            ensure!(Instant::now() < deadline, "the cluster does not begin");
            sleep(Duration::from_millis(50)).await;
        }
        bed.write(0, "Written").await?;
        bed.until_level(1).await?;
        bed.until_level(2).await?;
        first.stop().await?;
        Ok(bed)
    }

    pub(crate) async fn end(self) -> Result<()> {
        let Self {
            kubernetes,
            nodes,
            client: _,
            folder,
        } = self;
        let nodes = Arc::into_inner(nodes).context("somebody holds the nodes")?;
        nodes.stop().await;
        kubernetes.shutdown().await;
        std::fs::remove_dir_all(&folder).context("the folder is left")
    }

    fn clusters(&self) -> Api<MemgraphCluster> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) fn nodes(&self) -> Arc<Nodes> {
        Arc::clone(&self.nodes)
    }

    pub(crate) fn party(pod: u8) -> Party {
        Party::pod("default", &format!("{NAME}-{pod}"))
    }

    pub(crate) async fn operator(&self, tap: Tap) -> Result<Running> {
        let settings = Settings {
            settle: Duration::from_millis(500),
            interval: Duration::from_millis(200),
            address: ReplicaAddress::Ip,
            tap,
            ..Settings::default()
        };
        let config = OperatorConfig {
            client: self.client.clone(),
            lease_client: self.kubernetes.client(),
            scope: Scope::All,
            lease_namespace: "default".to_owned(),
            lease_name: "mainstay-operator".to_owned(),
            identity: "op".to_owned(),
            timing: LeaseTiming::new(
                Duration::from_secs(6),
                Duration::from_millis(5_500),
                Duration::from_millis(300),
                Duration::from_millis(1_500),
            )?,
            limits: Limits::default(),
            pace: Pace::default(),
            settings,
            ring: None,
            hibernation: operator::hibernation::Settings::default(),
            http: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let operator = Operator::bind(config).await?;
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move {
                if let Err(error) = operator.run(stop).await {
                    eprintln!("operator: {error}");
                }
            }
        });
        Ok(Running { stop, task })
    }

    /// Whoever held the lease is dead, and this test knows it.
    pub(crate) async fn free_lease(&self) -> Result<()> {
        let leases: Api<Lease> = Api::default_namespaced(self.client.clone());
        if leases.get_opt("mainstay-operator").await?.is_some() {
            let patch = Patch::Merge(json!({ "spec": { "holderIdentity": null } }));
            leases
                .patch("mainstay-operator", &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    async fn record(&self) -> Result<Option<Record>> {
        let maps: Api<ConfigMap> = Api::default_namespaced(self.client.clone());
        let Some(map) = maps.get_opt(&format!("{NAME}-topology")).await? else {
            return Ok(None);
        };
        match Document::parse(&map.data.unwrap_or_default())? {
            Parsed::Full { document, .. } => Ok(Some(document.record)),
            Parsed::SeedOnly { .. } => Ok(None),
        }
    }

    /// The requests whose data is on the volume of this pod.
    pub(crate) fn set_aside(&self, pod: u8) -> Vec<u64> {
        let volume = self.nodes.volume("default", &format!("lib-storage-{NAME}-{pod}"));
        let entries = volume.and_then(|volume| std::fs::read_dir(volume.join("quarantine")).ok());
        let names = entries.into_iter().flatten().flatten();
        names
            .filter_map(|e| e.file_name().to_str()?.parse().ok())
            .collect()
    }

    /// Pod 2 takes a write of its own while nobody looks; then MAIN takes one. How many MAIN has.
    pub(crate) async fn diverged(&self) -> Result<i64> {
        for query in [
            "SET REPLICATION ROLE TO MAIN",
            "CREATE (:Stray)",
            "SET REPLICATION ROLE TO REPLICA WITH PORT 10000",
        ] {
            self.ask(2, query).await.context(query)?;
        }
        self.write(0, "Written").await?;
        self.count(0, "Written").await
    }

    /// Waits until the reset came to its end and the replica has what MAIN has.
    pub(crate) async fn until_reset(&self, before: usize, written: i64) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // A fault may hit these very calls.
            let record = self.record().await.ok().flatten();
            let over = record
                .as_ref()
                .is_some_and(|r| r.reset.is_none() && r.sync.is_some());
            let clean = self.count(2, "Stray").await.unwrap_or(-1) == 0;
            let level = self.count(2, "Written").await.unwrap_or(-1) == written;
            if over && clean && level && self.set_aside(2).len() > before {
                return Ok(());
            }
            if Instant::now() > deadline {
                let status = self.clusters().get(NAME).await.ok().and_then(|c| c.status);
                bail!(
                    "not reset (clean {clean}, level {level}): {record:#?} {:?}",
                    status.map(|s| s.reasons)
                );
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn until_level(&self, pod: u8) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let wanted = self.count(0, "Written").await?;
        while self.count(pod, "Written").await.unwrap_or(-1) != wanted {
            ensure!(Instant::now() < deadline, "pod {pod} is not level");
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn ask(&self, pod: u8, query: &str) -> Result<Vec<Vec<bolt::packstream::OwnedValue>>> {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let status = pods.get(&format!("{NAME}-{pod}")).await?.status;
        let ip: IpAddr = status.and_then(|s| s.pod_ip).context("no address")?.parse()?;
        let auth = bolt::message::Auth::None;
        let at = SocketAddr::new(ip, 7687);
        let mut client = Bolt::connect_within(at, auth, Duration::from_secs(5)).await?;
        match client.query(query).await? {
            Outcome::Done(table) => Ok(table.rows),
            Outcome::Refused { failure, .. } => bail!("{query}: {failure}"),
        }
    }

    async fn write(&self, pod: u8, label: &str) -> Result<()> {
        self.ask(pod, &format!("CREATE (:{label})")).await.map(drop)
    }

    pub(crate) async fn count(&self, pod: u8, label: &str) -> Result<i64> {
        let rows = self
            .ask(pod, &format!("MATCH (n:{label}) RETURN count(n) AS n"))
            .await?;
        let first = rows.first().and_then(|row| row.first());
        first
            .and_then(bolt::packstream::Value::as_int)
            .context("no number")
    }
}
