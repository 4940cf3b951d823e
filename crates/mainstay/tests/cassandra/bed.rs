//! A small Kubernetes whose pods run a real Cassandra behind the real gate, and an operator in this process.
//!
//! Nobody routes the addresses of Services here, and a real database cannot look them up in a file. So they are loopback
//! addresses, and a door stands at each: whoever connects to port 7000 of a Service is led to its pod.

use super::rows::Rows;
use anyhow::{Context, Result, bail, ensure};
use api::RingCluster;
use api::ring::{CassandraImage, RingClusterStatus};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, ResourceExt};
use mainstay_core::lease::LeaseTiming;
use mainstay_core::ring::Ledger;
use mainstay_core::ring::ids::Address;
use mainstay_core::ring::ledger::Known;
use mainstay_core::ring::spec::Timing;
use operator::engine::queue::Limits;
use operator::engine::turns::Pace;
use operator::engine::watch::Scope;
use operator::memgraph::Settings;
use operator::ring::RingSettings;
use operator::ring::cassandra::{Jolokia, Ring, Tables};
use operator::{Config as OperatorConfig, Operator};
use sandbox::kube::Kubernetes;
use sandbox::node::{BackOff, Config, Images, Nodes, Party};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Three Java machines on two cores that are not theirs alone.
pub(crate) const PATIENCE: Duration = Duration::from_mins(6);
const NAME: &str = "ring";
pub(crate) const MEMBERS: [&str; 3] = ["ring-a-0", "ring-b-0", "ring-c-0"];
const GOSSIP: u16 = 7000;
/// What users are shown is what is tried.
const EXAMPLE: &str = include_str!("../../../../examples/ring-cassandra.yaml");
/// Cassandra waits half a minute for gossip at each start. Here nobody is far away.
const FLAGS: [&str; 7] = [
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
    "-Dcassandra.shutdown_announce_in_ms=500",
    "-Dcassandra.migration_delay_ms=1000",
    "-Dcassandra.gossip_quarantine_delay_ms=4000",
    "-Dcassandra.ring_delay_ms=3000",
    "-Dcassandra.broadcast_interval_ms=3000",
];

pub(crate) struct Bed {
    kubernetes: Kubernetes,
    nodes: Arc<Nodes>,
    client: Client,
    folder: PathBuf,
    doors: JoinHandle<()>,
    operator: Option<(CancellationToken, JoinHandle<()>)>,
    pub(crate) rows: Rows,
}

impl Bed {
    /// A ring of three that is whole, with rows in it, and an operator that keeps it.
    pub(crate) async fn whole(cassandra: &Path) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("mainstay-cassandra-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .ok();
        let kubernetes = Kubernetes::new(7);
        kubernetes.services_in([127, 10]);
        let listening = kubernetes
            .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await?;
        let own = env!("CARGO_BIN_EXE_mainstay");
        let images =
            Images::new()
                .with("mainstay:*", own, &[])
                .with("registry.example/cassandra-jolokia:*", own, &[]);
        let mut config = Config::new(&folder, images);
        config.api = Some(listening);
        config.back_off = BackOff {
            first: SignedDuration::from_secs(1),
            longest: SignedDuration::from_secs(3),
            ..BackOff::UPSTREAM
        };
        let nodes = Arc::new(Nodes::start(&kubernetes, config)?);
        let client = kubernetes.client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in api::kinds() {
            definitions.create(&PostParams::default(), &definition).await?;
        }
        let doors = tokio::spawn(keep_doors(client.clone(), Arc::clone(&nodes)));
        let mut bed = Self {
            kubernetes,
            nodes,
            client,
            folder,
            doors,
            operator: None,
            rows: Rows::default(),
        };
        bed.create(cassandra).await?;
        bed.operator = Some(bed.operator().await?);
        bed.until("whole", is_whole).await?;
        let at = bed.address(MEMBERS[0]).await?;
        bed.rows.begin(at).await?;
        Ok(bed)
    }

    pub(crate) async fn end(mut self) -> Result<()> {
        if let Some((stop, task)) = self.operator.take() {
            stop.cancel();
            task.await.context("the operator panicked")?;
        }
        self.doors.abort();
        let _ = self.doors.await;
        let nodes = Arc::into_inner(self.nodes).context("somebody holds the nodes")?;
        nodes.stop().await;
        self.kubernetes.shutdown().await;
        std::fs::remove_dir_all(&self.folder).context("the folder is left")
    }

    async fn create(&self, cassandra: &Path) -> Result<()> {
        let mut ring: RingCluster = serde_saphyr::from_str(EXAMPLE)?;
        ring.metadata.namespace = Some("default".to_owned());
        let at = |file: &str| cassandra.join(file).display().to_string();
        ring.spec.command = Some(at("bin/cassandra"));
        ring.spec.cassandra = Some(CassandraImage {
            jolokia: at("lib/jolokia-agent-jvm-2.2.9-javaagent.jar"),
            dump: at("tools/bin/sstabledump"),
            config: at("cassandra.yaml"),
        });
        ring.spec.flags = FLAGS.map(str::to_owned).to_vec();
        self.rings().create(&PostParams::default(), &ring).await?;
        Ok(())
    }

    fn rings(&self) -> Api<RingCluster> {
        Api::default_namespaced(self.client.clone())
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    async fn operator(&self) -> Result<(CancellationToken, JoinHandle<()>)> {
        let ring = RingSettings {
            call: Duration::from_millis(2_500),
            probe: Duration::from_secs(5),
            interval: Duration::from_secs(1),
            busy_interval: Duration::from_secs(1),
            timing: Timing {
                // A heart must stand still for 25 s anyway.
                grace: Duration::from_secs(25),
                confirm: Duration::from_secs(5),
                permission: Duration::from_secs(20),
                limit: Duration::from_mins(4),
                rest: Duration::from_secs(5),
                node_gone: Duration::from_secs(20),
                barrier: Duration::from_mins(15),
                drain: Duration::from_mins(1),
            },
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
                Duration::from_secs(15),
                Duration::from_secs(10),
                Duration::from_secs(2),
                Duration::from_secs(5),
            )?,
            limits: Limits::default(),
            pace: Pace::default(),
            settings: Settings::default(),
            ring: Some(ring),
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
        Ok((stop, task))
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
        let mut told = Vec::new();
        loop {
            let status = self.status().await?;
            if fits(&status) {
                return Ok(status);
            }
            if status.reasons != told {
                println!("      {}", status.reasons.join("; "));
                told.clone_from(&status.reasons);
            }
            if Instant::now() > deadline {
                let ledger = self.ledger().await.ok().map(|l| l.headline());
                bail!("the ring is not {what}: {ledger:?}\n{status:#?}");
            }
            sleep(Duration::from_millis(300)).await;
        }
    }

    /// Looks for so long, and finds it so each time.
    pub(crate) async fn stays(
        &self,
        what: &str,
        long: Duration,
        fits: impl Fn(&RingClusterStatus) -> bool,
    ) -> Result<()> {
        let until = Instant::now() + long;
        while Instant::now() < until {
            let status = self.status().await?;
            ensure!(fits(&status), "it did not stay {what}: {status:#?}");
            sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    }

    pub(crate) async fn ledger(&self) -> Result<Ledger> {
        let maps: Api<ConfigMap> = Api::default_namespaced(self.client.clone());
        let map = maps.get(&format!("{NAME}-ring")).await?;
        let text = map.data.and_then(|mut data| data.remove("ledger"));
        Ok(Ledger::parse(&text.context("no ledger")?)?)
    }

    pub(crate) async fn known(&self, member: &str) -> Result<Known> {
        let ledger = self.ledger().await?;
        ledger
            .known
            .get(&member.parse()?)
            .cloned()
            .context("not on record")
    }

    /// Where its pod is.
    pub(crate) async fn address(&self, member: &str) -> Result<IpAddr> {
        let pod = self.pods().get(member).await?;
        let ip = pod
            .status
            .and_then(|status| status.pod_ip)
            .context("no address")?;
        Ok(ip.parse()?)
    }

    /// What a member says of the ring.
    pub(crate) async fn ring_by(&self, member: &str) -> Result<Ring> {
        let patience = Duration::from_secs(10);
        let at = self.address(member).await?;
        Ok(Jolokia { at, patience }.ring().await?)
    }

    /// Its disk and its pod go, as in the seed's own test.
    pub(crate) async fn lose(&self, member: &str) -> Result<()> {
        let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(self.client.clone());
        claims
            .delete(&format!("data-{member}"), &DeleteParams::default())
            .await?;
        self.kill(member)?;
        self.pods()
            .delete(member, &DeleteParams::default().grace_period(1))
            .await?;
        Ok(())
    }

    /// Its Service goes: the next one has another address.
    pub(crate) async fn lose_address(&self, member: &str) -> Result<()> {
        let services: Api<Service> = Api::default_namespaced(self.client.clone());
        services.delete(member, &DeleteParams::default()).await?;
        Ok(())
    }

    /// As by a power cut.
    pub(crate) fn kill(&self, member: &str) -> Result<()> {
        self.nodes
            .kill(&Party::pod("default", member), Some("cassandra"))?;
        Ok(())
    }

    /// Puts what is in `disk` behind a member's claim, and what was there into `aside`; then its process is killed. It
    /// stands still meanwhile: a process goes on with files that are only moved.
    pub(crate) fn swap_disk(&self, member: &str, disk: Option<&str>, aside: &str) -> Result<()> {
        let pod = Party::pod("default", member);
        self.nodes.stop_processes(&pod, Some("cassandra"))?;
        let volume = self
            .nodes
            .volume("default", &format!("data-{member}"))
            .context("no volume")?;
        move_all(&volume, &self.folder.join(aside))?;
        if let Some(disk) = disk {
            move_all(&self.folder.join(disk), &volume)?;
        }
        self.nodes.kill(&pod, Some("cassandra"))?;
        Ok(())
    }

    /// Puts a disk behind the claim of a member whose gate waits.
    pub(crate) fn put_disk(&self, member: &str, disk: &str, aside: &str) -> Result<()> {
        let volume = self
            .nodes
            .volume("default", &format!("data-{member}"))
            .context("no volume")?;
        let pod = Party::pod("default", member);
        // It must not see half of a disk.
        self.nodes.stop_processes(&pod, Some("cassandra"))?;
        move_all(&volume, &self.folder.join(aside))?;
        move_all(&self.folder.join(disk), &volume)?;
        self.nodes.continue_processes(&pod, Some("cassandra"))?;
        Ok(())
    }

    /// What a member says that another one is doing.
    pub(crate) async fn gossip_status(&self, by: &str, of: Address) -> Result<Option<String>> {
        let at = self.address(by).await?;
        let tables = Tables::read(at, Duration::from_secs(10)).await?;
        let row = tables.gossip.into_iter().find(|row| row.address == of);
        Ok(row.and_then(|row| row.status))
    }

    /// Every member says the same of the ring: three owners, all alive, each host on record.
    pub(crate) async fn is_sound(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let looked = self.look().await;
            if looked.is_ok() || Instant::now() > deadline {
                return looked;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    async fn look(&self) -> Result<()> {
        let ledger = self.ledger().await?;
        for by in MEMBERS {
            let Ring {
                live,
                hosts,
                owners,
                seeds: _,
            } = self.ring_by(by).await?;
            ensure!(
                live.len() == 3 && owners.len() == 3,
                "{by}: {live:?} live, {owners:?} own"
            );
            for (member, known) in &ledger.known {
                let is = hosts.get(&known.address);
                ensure!(
                    is == Some(&known.host),
                    "{by} sees {is:?} at {member}, on record is {}",
                    known.host
                );
            }
        }
        Ok(())
    }

    /// Written while a member is away, at QUORUM.
    pub(crate) async fn write_some(&mut self, through: &str) -> Result<()> {
        let at = self.address(through).await?;
        self.rows.write_some(at).await
    }

    /// Every row that was ever acknowledged is read at ALL, through every member.
    pub(crate) async fn has_every_row(&self) -> Result<()> {
        for member in MEMBERS {
            let at = self.address(member).await?;
            self.rows
                .read_all(at)
                .await
                .with_context(|| format!("through {member}"))?;
        }
        Ok(())
    }
}

fn move_all(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::rename(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// A door for each Service of a member, as long as it has this address.
async fn keep_doors(client: Client, nodes: Arc<Nodes>) {
    let services: Api<Service> = Api::default_namespaced(client);
    let mut open: BTreeMap<(String, String), JoinHandle<()>> = BTreeMap::new();
    loop {
        let params = ListParams::default().labels("mainstay.dev/rack");
        let listed = services.list(&params).await.map(|l| l.items).unwrap_or_default();
        let wanted: Vec<(String, String)> = listed
            .iter()
            .filter_map(|s| Some((s.name_any(), s.spec.as_ref()?.cluster_ip.clone()?)))
            .collect();
        open.retain(|key, door| {
            let keep = wanted.contains(key);
            if !keep {
                door.abort();
            }
            keep
        });
        for key in wanted {
            let Ok(ip) = key.1.parse::<IpAddr>() else { continue };
            if open.contains_key(&key) {
                continue;
            }
            match nodes
                .door(SocketAddr::new(ip, GOSSIP), "default", &key.0, GOSSIP)
                .await
            {
                Ok(door) => drop(open.insert(key, tokio::spawn(door.run()))),
                Err(error) => eprintln!("no door at {ip}: {error}"),
            }
        }
        sleep(Duration::from_millis(200)).await;
    }
}

fn holds(status: &RingClusterStatus, kind: &str) -> bool {
    status
        .conditions
        .iter()
        .any(|c| c.kind == kind && c.status == "True")
}

/// Every member is on record and runs, and nothing is under way.
pub(crate) fn is_whole(status: &RingClusterStatus) -> bool {
    let calm = ["StorageLost", "ReplacementHeld", "Progressing"]
        .iter()
        .all(|kind| !holds(status, kind));
    status.summary == "3/3" && status.work.is_empty() && holds(status, "Ready") && calm
}

pub(crate) fn is_lost(status: &RingClusterStatus) -> bool {
    holds(status, "StorageLost")
}

/// What the gate of this member said last.
pub(crate) fn gate<'a>(status: &'a RingClusterStatus, member: &str) -> &'a str {
    let found = status.members.iter().find(|m| m.name == member);
    found.map_or("", |m| m.gate.as_str())
}
