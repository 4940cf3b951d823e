//! A small Kubernetes whose pods run this very program as gate and stand-ins as databases, and operators in this
//! process, so that they can be stopped anywhere.

use anyhow::{Context, Result, bail, ensure};
use api::RingCluster;
use api::ring::{Rack, RingClusterStatus};
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use mainstay_core::lease::LeaseTiming;
use mainstay_core::ring::Ledger;
use mainstay_core::ring::spec::Timing;
use operator::engine::queue::Limits;
use operator::engine::turns::Pace;
use operator::engine::watch::Scope;
use operator::http::client;
use operator::memgraph::Settings;
use operator::ring::RingSettings;
use operator::tap::Tap;
use operator::{Config as OperatorConfig, Operator};
use sandbox::kube::Kubernetes;
use sandbox::node::{BackOff, Config, Images, Nodes, Party};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The machine is shared and slow at times.
const PATIENCE: Duration = Duration::from_mins(3);
pub(crate) const NAME: &str = "ring";
/// The members of the ring of three, one in each rack.
pub(crate) const MEMBERS: [&str; 3] = ["ring-a-0", "ring-b-0", "ring-c-0"];
/// The same of the largest ring.
const ALL: [&str; 5] = ["ring-a-0", "ring-b-0", "ring-c-0", "ring-d-0", "ring-e-0"];
const ADMIN: u16 = 9999;
/// What users are shown is what is tried.
const EXAMPLE: &str = include_str!("../../../../examples/ring.yaml");

pub(crate) struct Bed {
    kubernetes: Kubernetes,
    pub(crate) nodes: Nodes,
    pub(crate) client: Client,
    pub(crate) folder: PathBuf,
    watching: JoinHandle<()>,
    most: Arc<AtomicUsize>,
    pub(crate) members: Vec<&'static str>,
}

/// What ring is made.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) version: &'static str,
    pub(crate) profile: &'static str,
    pub(crate) members: usize,
    pub(crate) copies: u8,
    /// So many seconds of the database in one of the clock.
    pub(crate) scale: u8,
}

impl Kind {
    /// Three of a version in which a majority decides.
    pub(crate) const THREE: Self = Self {
        version: "2025.2.0",
        profile: "raft-2025",
        members: 3,
        copies: 3,
        scale: 4,
    };
    /// The same, twice as fast: for a scenario that is long in itself.
    pub(crate) const QUICK: Self = Self {
        scale: 8,
        ..Self::THREE
    };
    /// The seed's own: two, of a version in which no majority decides.
    pub(crate) const PAIR: Self = Self {
        version: "5.4.1",
        profile: "gossip-5.2",
        members: 2,
        copies: 2,
        scale: 4,
    };
}

/// An operator in this process.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
    http: Option<SocketAddr>,
}

impl Running {
    /// What its metrics say.
    pub(crate) async fn metrics(&self) -> Result<String> {
        let at = self.http.context("it does not listen")?.to_string();
        Ok(client::get(&at, "/metrics", None, Duration::from_secs(5)).await?)
    }

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
    /// Nothing but Kubernetes and the kind.
    pub(crate) async fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("mainstay-ring-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .ok();
        let kubernetes = Kubernetes::new(u64::from(number) + 41);
        let listening = kubernetes
            .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await?;
        std::fs::write(folder.join("config"), listening.kubeconfig())?;
        let own = env!("CARGO_BIN_EXE_mainstay");
        // What the image of the database would have in /usr/bin.
        let database = folder.join("scylla");
        std::fs::write(&database, format!("#!/bin/sh\nexec {own} standin ring \"$@\"\n"))?;
        std::fs::set_permissions(&database, std::fs::Permissions::from_mode(0o755))?;
        let images = Images::new()
            .with("mainstay:*", own, &[])
            .with("scylladb/scylla:*", own, &[]);
        let mut config = Config::new(&folder, images);
        config.api = Some(listening);
        config.back_off = BackOff {
            first: SignedDuration::from_millis(300),
            longest: SignedDuration::from_secs(1),
            ..BackOff::UPSTREAM
        };
        let nodes = Nodes::start(&kubernetes, config)?;
        let client = kubernetes.client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in api::kinds() {
            definitions.create(&PostParams::default(), &definition).await?;
        }
        let most = Arc::new(AtomicUsize::new(0));
        let watching = tokio::spawn(count_members(client.clone(), Arc::clone(&most)));
        Ok(Self {
            kubernetes,
            nodes,
            client,
            folder,
            watching,
            most,
            members: MEMBERS.to_vec(),
        })
    }

    /// A ring of three that is whole, with twenty rows in it, and an operator that keeps it.
    pub(crate) async fn whole() -> Result<(Self, Running)> {
        Self::whole_of(Kind::THREE).await
    }

    /// The same, with so many copies of each row.
    pub(crate) async fn whole_with(copies: u8) -> Result<(Self, Running)> {
        Self::whole_of(Kind {
            copies,
            ..Kind::THREE
        })
        .await
    }

    /// A ring of this kind is declared, and nobody keeps it yet.
    pub(crate) async fn of(kind: Kind) -> Result<Self> {
        let mut bed = Self::new().await?;
        bed.members = ALL.into_iter().take(kind.members).collect();
        bed.create(kind).await?;
        Ok(bed)
    }

    /// One row.
    pub(crate) async fn write_first(&self) -> Result<()> {
        self.write(0).await
    }

    /// A ring of this kind.
    pub(crate) async fn whole_of(kind: Kind) -> Result<(Self, Running)> {
        let bed = Self::of(kind).await?;
        let operator = bed.operator(Tap::default()).await?;
        bed.until("whole", |s| is_whole(s, kind.members)).await?;
        for row in 0..20 {
            bed.write(row).await?;
        }
        Ok((bed, operator))
    }

    /// As a client does: what was not acknowledged is written again.
    async fn write(&self, row: u16) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let written = self.admin(MEMBERS[0], "POST", &format!("/write?row={row}")).await;
            if written.is_ok() || Instant::now() > deadline {
                return written.map(drop);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    pub(crate) async fn end(self) -> Result<()> {
        self.watching.abort();
        let (most, declared) = (self.most.load(Ordering::Relaxed), self.members.len());
        self.nodes.stop().await;
        self.kubernetes.shutdown().await;
        std::fs::remove_dir_all(&self.folder).context("the folder is left")?;
        ensure!(
            most <= declared,
            "a member saw {most} members, and {declared} were declared"
        );
        Ok(())
    }

    /// The ring of `examples/`, with stand-ins for databases.
    pub(crate) async fn create(&self, kind: Kind) -> Result<()> {
        let mut ring: RingCluster = serde_saphyr::from_str(EXAMPLE)?;
        ring.metadata.namespace = Some("default".to_owned());
        ring.spec.command = Some(self.folder.join("scylla").display().to_string());
        ring.spec.image = format!("scylladb/scylla:{}", kind.version);
        let one = ring.spec.racks[0].clone();
        let rack = |member: &&str| Rack {
            name: member.replace("ring-", "").replace("-0", ""),
            ..one.clone()
        };
        ring.spec.racks = ALL.iter().take(kind.members).map(rack).collect();
        ring.spec.flags = vec!["--stream-seconds=4".to_owned()];
        ring.spec.flags.push(format!("--time-scale={}", kind.scale));
        ring.spec.flags.push(format!("--admin-port={ADMIN}"));
        ring.spec.flags.push(format!("--copies={}", kind.copies));
        ring.spec.flags.push(format!("--profile={}", kind.profile));
        let generic = self.configure("")?;
        ring.spec
            .flags
            .push(format!("--options-file={}", generic.display()));
        self.rings().create(&PostParams::default(), &ring).await?;
        Ok(())
    }

    /// The generic configuration, which an image would have in /etc/scylla: every start reads it.
    pub(crate) fn configure(&self, more: &str) -> Result<PathBuf> {
        let path = self.folder.join("scylla.yaml");
        std::fs::write(&path, format!("cluster_name: ring\n{more}"))?;
        Ok(path)
    }

    /// Another number of members in the last rack.
    pub(crate) async fn members_in_c(&self, members: u8) -> Result<()> {
        let mut ring = self.rings().get(NAME).await?;
        ring.spec.racks[2].members = members;
        self.rings().replace(NAME, &PostParams::default(), &ring).await?;
        Ok(())
    }

    pub(crate) fn rings(&self) -> Api<RingCluster> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    /// An operator with times for tests.
    pub(crate) async fn operator(&self, tap: Tap) -> Result<Running> {
        self.operator_whose_permissions_last(Duration::from_secs(20), tap)
            .await
    }

    /// The same, with this one.
    pub(crate) async fn operator_whose_permissions_last(
        &self,
        permission: Duration,
        tap: Tap,
    ) -> Result<Running> {
        let ring = RingSettings {
            call: Duration::from_millis(1_500),
            probe: Duration::from_secs(1),
            interval: Duration::from_millis(500),
            busy_interval: Duration::from_millis(200),
            timing: Timing {
                grace: Duration::from_secs(3),
                confirm: Duration::from_secs(2),
                permission,
                limit: Duration::from_mins(1),
                rest: Duration::from_secs(2),
                node_gone: Duration::from_secs(5),
                barrier: Duration::from_mins(15),
                drain: Duration::from_secs(20),
            },
            tap,
            ..RingSettings::default()
        };
        let config = OperatorConfig {
            client: self.client.clone(),
            lease_client: self.kubernetes.client(),
            scope: Scope::All,
            lease_namespace: "default".to_owned(),
            lease_name: "mainstay-operator".to_owned(),
            identity: "op".to_owned(),
            timing: LeaseTiming::new(
                Duration::from_secs(4),
                Duration::from_millis(3_500),
                Duration::from_millis(300),
                Duration::from_millis(1_500),
            )?,
            limits: Limits::default(),
            pace: Pace::default(),
            settings: Settings::default(),
            ring: Some(ring),
            hibernation: operator::hibernation::Settings {
                // Less than what is left of the lease, or nothing is ever sent.
                call: Duration::from_secs(1),
                ..operator::hibernation::Settings::default()
            },
            http: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let operator = Operator::bind(config).await?;
        let (stop, http) = (CancellationToken::new(), operator.address());
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

    /// The lease of an operator that was killed need not be waited for.
    pub(crate) async fn free_the_lease(&self) -> Result<()> {
        let leases: Api<Lease> = Api::default_namespaced(self.client.clone());
        let free = Patch::Merge(json!({ "spec": { "holderIdentity": "" } }));
        leases
            .patch("mainstay-operator", &PatchParams::default(), &free)
            .await?;
        Ok(())
    }

    pub(crate) async fn status(&self) -> Result<RingClusterStatus> {
        Ok(self.rings().get(NAME).await?.status.unwrap_or_default())
    }

    /// Waits until the status is as it should be.
    pub(crate) async fn until(
        &self,
        what: &str,
        fits: impl Fn(&RingClusterStatus) -> bool,
    ) -> Result<RingClusterStatus> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status().await?;
            if fits(&status) {
                return Ok(status);
            }
            if Instant::now() > deadline {
                let ledger = self.ledger().await.ok().map(|l| l.headline());
                bail!("the ring is not {what}: {ledger:?}\n{status:#?}");
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    pub(crate) async fn ledger(&self) -> Result<Ledger> {
        let map = self.maps().get(&format!("{NAME}-ring")).await?;
        let text = map.data.and_then(|mut data| data.remove("ledger"));
        Ok(Ledger::parse(&text.context("no ledger")?)?)
    }

    pub(crate) async fn host_of(&self, member: &str) -> Result<String> {
        let ledger = self.ledger().await?;
        let known = ledger.known.get(&member.parse()?).context("not on record")?;
        Ok(known.host.to_string())
    }

    /// What a member's REST interface answers.
    pub(crate) async fn rest(&self, member: &str, path: &str) -> Result<Value> {
        Ok(serde_json::from_str(
            &ask(&self.client, member, 10_000, "GET", path).await?,
        )?)
    }

    /// What a human orders there.
    pub(crate) async fn order(&self, member: &str, path: &str) -> Result<()> {
        ask(&self.client, member, 10_000, "POST", path).await.map(drop)
    }

    pub(crate) async fn admin(&self, member: &str, method: &str, path: &str) -> Result<Value> {
        Ok(serde_json::from_str(
            &ask(&self.client, member, ADMIN, method, path).await?,
        )?)
    }

    /// Its disk and its pod go, as in the seed's own test.
    pub(crate) async fn lose(&self, member: &str) -> Result<()> {
        let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(self.client.clone());
        claims
            .delete(&format!("data-{member}"), &DeleteParams::default())
            .await?;
        self.pods()
            .delete(member, &DeleteParams::default().grace_period(1))
            .await?;
        Ok(())
    }

    pub(crate) async fn label(&self, member: &str) -> Result<()> {
        self.set_label(member, "scylla/replace", true).await
    }

    /// Sets a label of a member's Service, or takes it off.
    pub(crate) async fn set_label(&self, member: &str, label: &str, on: bool) -> Result<()> {
        let services: Api<Service> = Api::default_namespaced(self.client.clone());
        let value = on.then_some("");
        let patch = Patch::Merge(json!({ "metadata": { "labels": { label: value } } }));
        services.patch(member, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// What a human changes in the spec of the ring.
    pub(crate) async fn change(&self, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.rings().patch(NAME, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    pub(crate) async fn labels(&self, member: &str) -> Result<Vec<String>> {
        let services: Api<Service> = Api::default_namespaced(self.client.clone());
        Ok(services.get(member).await?.labels().keys().cloned().collect())
    }

    pub(crate) async fn uid(&self, member: &str) -> Result<String> {
        self.pods().get(member).await?.uid().context("no uid")
    }

    pub(crate) fn party(member: &str) -> Party {
        Party::pod("default", member)
    }
}

/// Every member is on record and runs, and nothing is under way.
pub(crate) fn is_whole(status: &RingClusterStatus, members: usize) -> bool {
    let holds = |kind: &str| {
        let found = status.conditions.iter().find(|c| c.kind == kind);
        found.is_some_and(|c| c.status == "True")
    };
    let calm = !holds("StorageLost") && !holds("ReplacementHeld") && !holds("Progressing");
    status.summary == format!("{members}/{members}") && status.work.is_empty() && holds("Ready") && calm
}

/// Asks a pod.
async fn ask(client: &Client, member: &str, port: u16, method: &str, path: &str) -> Result<String> {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = pods.get(member).await?;
    let ip = pod
        .status
        .and_then(|status| status.pod_ip)
        .context("no address")?;
    let (at, patience) = (format!("{ip}:{port}"), Duration::from_secs(5));
    let asked = match method {
        "GET" => client::get(&at, path, None, patience).await,
        _ => client::post(&at, path, None, String::new(), patience).await,
    };
    asked.with_context(|| format!("{member}: {path}"))
}

/// Counts, all the time, how many members anybody sees at most.
async fn count_members(client: Client, most: Arc<AtomicUsize>) {
    loop {
        for member in MEMBERS {
            let listed = ask(&client, member, 10_000, "GET", "/storage_service/tokens").await;
            let tokens: Vec<String> = listed
                .ok()
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default();
            most.fetch_max(tokens.len(), Ordering::Relaxed);
        }
        sleep(Duration::from_millis(300)).await;
    }
}
