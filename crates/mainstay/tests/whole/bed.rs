//! `mainstay sandbox` as a process of its own: operators, gateways, databases and init containers are processes too.

use anyhow::{Context, Result, bail, ensure};
use api::MemgraphCluster;
use api::memgraph::MemgraphClusterStatus;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::document::{Document, Parsed};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::record::State;
use sandbox::standin::memgraph::client::{Client as Bolt, Outcome};
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// The machine is shared and slow at times.
const PATIENCE: Duration = Duration::from_mins(4);
pub(crate) const NAME: &str = "memgraph-ha";

#[derive(Deserialize)]
struct Description {
    kubeconfig: PathBuf,
    bolt: SocketAddr,
    reads: SocketAddr,
    control: PathBuf,
}

pub(crate) struct Whole {
    child: Child,
    pub(crate) client: Client,
    /// Where clients connect.
    pub(crate) bolt: SocketAddr,
    /// Where clients connect that only read.
    pub(crate) reads: SocketAddr,
    /// For other programs.
    pub(crate) kubeconfig: PathBuf,
    control: PathBuf,
}

impl Whole {
    /// A sandbox that serves and is protected.
    pub(crate) async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// The same, with more arguments.
    pub(crate) async fn start_with(more: &[&str]) -> Result<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mainstay"))
            .args(["sandbox", "--json", "--port=0"])
            .args(more)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let out = child.stdout.take().context("no output")?;
        let mut line = String::new();
        timeout(PATIENCE, BufReader::new(out).read_line(&mut line)).await??;
        let Description {
            kubeconfig,
            bolt,
            reads,
            control,
        } = serde_json::from_str(&line).context("it did not start")?;
        rustls::crypto::aws_lc_rs::default_provider()
            .install_default()
            .ok();
        let file = Kubeconfig::read_from(&kubeconfig)?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        Ok(Self {
            child,
            client,
            bolt,
            reads,
            kubeconfig,
            control,
        })
    }

    /// Everything ends, and nothing is left.
    pub(crate) async fn end(mut self) -> Result<()> {
        let pid = self.child.id().context("it ended by itself")?;
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid)?).context("no process")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = timeout(PATIENCE, self.child.wait()).await??;
        ensure!(status.success(), "{status}");
        Ok(())
    }

    /// Breaks or mends something; see `control.rs` for what there is.
    pub(crate) async fn control(&self, request: Value) -> Result<()> {
        let stream = UnixStream::connect(&self.control).await?;
        let (answers, mut requests) = stream.into_split();
        requests.write_all(format!("{request}\n").as_bytes()).await?;
        let mut answer = String::new();
        timeout(PATIENCE, BufReader::new(answers).read_line(&mut answer)).await??;
        let answer: Value = serde_json::from_str(&answer)?;
        let error = answer.get("error").filter(|error| !error.is_null());
        ensure!(error.is_none(), "{request}: {answer}");
        Ok(())
    }

    /// The names of the pods that begin like this.
    pub(crate) async fn named(&self, prefix: &str) -> Result<Vec<String>> {
        let pods = self.pods().list(&kube::api::ListParams::default()).await?;
        let names = pods.iter().map(ResourceExt::name_any);
        Ok(names.filter(|name| name.starts_with(prefix)).collect())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn document(&self) -> Result<Document> {
        let map = self.maps().get(&format!("{NAME}-topology")).await?;
        match Document::parse(&map.data.unwrap_or_default())? {
            Parsed::Full { document, .. } => Ok(*document),
            Parsed::SeedOnly { .. } => bail!("no record"),
        }
    }

    /// Waits until the record is as it should be.
    pub(crate) async fn until(&self, what: &str, fits: impl Fn(&Record) -> bool) -> Result<Record> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let record = self.document().await?.record;
            if fits(&record) {
                return Ok(record);
            }
            ensure!(
                Instant::now() < deadline,
                "the cluster is not {what}: {record:#?}"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// How many operators there are. With none of them nobody interferes.
    pub(crate) async fn operators(&self, replicas: u8) -> Result<()> {
        let all: Api<Deployment> = Api::namespaced(self.client.clone(), "default");
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        all.patch("mainstay-operator", &PatchParams::default(), &patch)
            .await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if self.named("mainstay-operator").await?.len() == usize::from(replicas) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the operators are not {replicas}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn pod(&self, pod: u8) -> Result<Pod> {
        Ok(self.pods().get(&format!("{NAME}-{pod}")).await?)
    }

    pub(crate) async fn uid(&self, pod: u8) -> Result<String> {
        self.pod(pod).await?.uid().context("no uid")
    }

    /// Waits until another pod of this number answers.
    pub(crate) async fn until_another(&self, pod: u8, before: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(now) = self.uid(pod).await
                && now != before
                && self.ask(pod, "RETURN 1").await.is_ok()
            {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "pod {pod} is not made anew: {:#?}",
                self.pod(pod).await.ok().and_then(|pod| pod.status)
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// A client reads.
    pub(crate) async fn read_through_gateway(&self) -> Result<()> {
        Self::read_at(self.bolt).await
    }

    /// A client reads from a replica.
    pub(crate) async fn read_from_replica(&self) -> Result<()> {
        Self::read_at(self.reads).await
    }

    /// As an application does: what is told to try again, tries again, a few times.
    async fn read_at(address: SocketAddr) -> Result<()> {
        for tries in 0.. {
            let auth = bolt::message::Auth::None;
            let mut client = match Bolt::connect_within(address, auth, Duration::from_secs(20)).await {
                Ok(client) => client,
                // On a busy machine a database may take longer to answer a new connection than a gateway holds it.
                Err(error) if error.to_string().contains("TransientError") && tries < 5 => continue,
                Err(error) => return Err(error.into()),
            };
            match client.query("MATCH (n:Numbered) RETURN count(n)").await? {
                Outcome::Done(_) => break,
                Outcome::Refused { failure, .. } if failure.code.contains("TransientError") && tries < 5 => {}
                Outcome::Refused { failure, .. } => bail!("a read was refused: {failure}"),
            }
        }
        Ok(())
    }

    /// What the database of a pod calls itself.
    pub(crate) async fn role(&self, pod: u8) -> Result<String> {
        let rows = self.ask(pod, "SHOW REPLICATION ROLE").await?;
        let role = rows.first().and_then(|row| row.first()?.as_str());
        Ok(role.context("no role")?.to_owned())
    }

    /// What the database of a pod answers to a query, asked behind the gateways' back.
    pub(crate) async fn ask(&self, pod: u8, query: &str) -> Result<Vec<Vec<bolt::packstream::OwnedValue>>> {
        let status = self.pod(pod).await?.status.context("no status")?;
        let ip: IpAddr = status.pod_ip.context("no address")?.parse()?;
        let auth = bolt::message::Auth::None;
        let mut client =
            Bolt::connect_within(SocketAddr::new(ip, 7687), auth, Duration::from_secs(5)).await?;
        match client.query(query).await? {
            Outcome::Done(table) => Ok(table.rows),
            Outcome::Refused { failure, .. } => bail!("{query}: {failure}"),
        }
    }

    /// How many vertices with this label the pod has.
    pub(crate) async fn count(&self, pod: u8, label: &str) -> Result<i64> {
        let rows = self
            .ask(pod, &format!("MATCH (n:{label}) RETURN count(n) AS n"))
            .await?;
        rows.first()
            .and_then(|row| row.first())
            .and_then(bolt::packstream::Value::as_int)
            .context("no number")
    }

    /// The folder of a pod's volume.
    pub(crate) async fn volume(&self, pod: u8) -> Result<PathBuf> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), "default");
        let claim = claims.get(&format!("lib-storage-{NAME}-{pod}")).await?;
        let name = claim
            .spec
            .and_then(|spec| spec.volume_name)
            .context("not bound")?;
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let volume: Value = serde_json::to_value(volumes.get(&name).await?)?;
        let path = volume.pointer("/spec/hostPath/path").and_then(Value::as_str);
        Ok(path.context("no folder")?.into())
    }

    /// Lets a replica take a write of its own, as nobody but a fault would. An operator may demote it in between.
    pub(crate) async fn diverge(&self, pod: u8) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let made = self.ask(pod, "SET REPLICATION ROLE TO MAIN").await;
            let wrote = self.ask(pod, "CREATE (:Stray)").await;
            self.ask(pod, "SET REPLICATION ROLE TO REPLICA WITH PORT 10000")
                .await
                .ok();
            if made.is_ok() && wrote.is_ok() {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "pod {pod}: {made:?}, {wrote:?}");
        }
    }

    /// Waits until a replica has exactly what MAIN has of this label.
    pub(crate) async fn until_level(&self, main: u8, pod: u8, label: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let wanted = self.count(main, label).await?;
            let has = self.count(pod, label).await.unwrap_or(-1);
            if has == wanted {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "pod {pod} has {has} of {wanted} :{label}"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// What the operator reports.
    pub(crate) async fn status(&self) -> Result<MemgraphClusterStatus> {
        let clusters: Api<MemgraphCluster> = Api::namespaced(self.client.clone(), "default");
        Ok(clusters.get(NAME).await?.status.unwrap_or_default())
    }

    /// Waits until the operator says something like this.
    pub(crate) async fn until_said(&self, part: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let reasons = self.status().await?.reasons;
            if reasons.iter().any(|reason| reason.contains(part)) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "nobody says `{part}`: {reasons:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The messages of all Events.
    pub(crate) async fn events(&self) -> Result<Vec<String>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let all = events.list(&kube::api::ListParams::default()).await?;
        Ok(all.items.into_iter().filter_map(|event| event.message).collect())
    }

    /// The program, as a person would run it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
        command.args(args).arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    /// Runs the program as a person would; what it printed.
    pub(crate) async fn mainstay(&self, args: &[&str]) -> Result<String> {
        let output = self.command(args).output().await?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{args:?}: {output:?}");
        Ok(said)
    }

    /// The lines that an operator logged and that have this text.
    pub(crate) async fn logged(&self, text: &str) -> Result<usize> {
        let mut count = 0;
        for operator in self.named("mainstay-operator").await? {
            let log = self
                .pods()
                .logs(&operator, &kube::api::LogParams::default())
                .await?;
            count += log.lines().filter(|line| line.contains(text)).count();
        }
        Ok(count)
    }

    /// What a database was told to change: roles and registrations.
    pub(crate) async fn commands(&self, pod: u8) -> Result<Vec<String>> {
        let params = kube::api::LogParams {
            container: Some("memgraph".to_owned()),
            ..Default::default()
        };
        let log = self.pods().logs(&format!("{NAME}-{pod}"), &params).await?;
        let changes = ["SET REPLICATION", "REGISTER REPLICA", "DROP REPLICA"];
        let lines = log.lines().map(str::to_owned);
        Ok(lines
            .filter(|line| changes.iter().any(|change| line.contains(change)))
            .collect())
    }

    /// What the init container of a pod said.
    pub(crate) async fn init_log(&self, pod: u8) -> Result<String> {
        let params = kube::api::LogParams {
            container: Some("data-cleanup".to_owned()),
            ..Default::default()
        };
        Ok(self.pods().logs(&format!("{NAME}-{pod}"), &params).await?)
    }
}

/// Somebody serves, and a proven replica protects it.
pub(crate) fn protected(record: &Record) -> bool {
    record.state == State::Serving && record.sync.is_some()
}

pub(crate) fn serves(record: &Record, pod: u8) -> bool {
    record.state == State::Serving && record.main.as_ref().is_some_and(|main| main.pod == Ordinal(pod))
}
