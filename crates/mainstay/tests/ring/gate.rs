//! The gate by itself, before a small Kubernetes that fails it: what it says, and what it does not start.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use kube::api::{Api, PostParams};
use kube::{Resource, ResourceExt};
use mainstay_core::ring::Ledger;
use mainstay_core::ring::ids::{HostId, Location};
use mainstay_core::ring::ledger::KEY;
use mainstay_core::ring::stamp::{Found, REPORT_ANNOTATION, Report};
use operator::pod::{Database, Launch, RingTask, ScyllaHome, ring_gate};
use sandbox::kube::Kubernetes;
use sandbox::kube::faults::{Fault, On};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

const MEMBER: &str = "ring-a-0";
const HOST: HostId = HostId(7);

/// One pod of a ring, as its gate finds it.
struct Place {
    kubernetes: Kubernetes,
    folder: PathBuf,
    task: RingTask,
}

/// A gate that waits, and everything that it has said.
struct Waiting {
    task: JoinHandle<Result<Launch>>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Waiting {
    async fn says(&self, part: &str) -> Result<()> {
        for _ in 0..200 {
            let said = self.said.lock().unwrap().join("\n");
            if said.contains(part) {
                return Ok(());
            }
            ensure!(!self.task.is_finished(), "it went on: {said}");
            sleep(Duration::from_millis(50)).await;
        }
        anyhow::bail!("`{part}` is not said: {:?}", self.said.lock().unwrap())
    }

    async fn launch(self) -> Result<Launch> {
        timeout(Duration::from_secs(20), self.task).await??
    }
}

async fn create<K>(place: &Kubernetes, object: Value) -> Result<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::default_namespaced(place.client());
    Ok(api
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?)
}

impl Place {
    async fn new(name: &str) -> Result<Self> {
        let kubernetes = Kubernetes::new(7);
        let folder = std::env::temp_dir().join(format!("mainstay-gate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("state"))?;
        let labels = json!({ "mainstay.dev/ring": "ring" });
        let ports = json!([{ "port": 9042 }]);
        create::<Service>(
            &kubernetes,
            json!({ "metadata": { "name": MEMBER, "labels": labels }, "spec": { "ports": ports } }),
        )
        .await?;
        let size = json!({ "requests": { "storage": "1Gi" } });
        create::<PersistentVolumeClaim>(
            &kubernetes,
            json!({
                "metadata": { "name": format!("data-{MEMBER}") },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": size },
            }),
        )
        .await?;
        let containers = json!([{ "name": "scylla", "image": "scylladb/scylla:2025.2.0" }]);
        let pod: Pod = create(
            &kubernetes,
            json!({ "metadata": { "name": MEMBER }, "spec": { "containers": containers } }),
        )
        .await?;
        let uid = "11111111-1111-4111-8111-111111111111".parse()?;
        let ledger = Ledger::new(uid).print()?;
        create::<ConfigMap>(
            &kubernetes,
            json!({ "metadata": { "name": "ring-ring" }, "data": { KEY: ledger } }),
        )
        .await?;
        let program = folder.join("scylla");
        let task = RingTask {
            cluster: "ring".to_owned(),
            uid,
            database: Database::Scylla(ScyllaHome {
                version: "2025.2".parse()?,
                config: folder.join("etc"),
                location: Location {
                    dc: "dc1".parse()?,
                    rack: "a".parse()?,
                },
            }),
            namespace: "default".to_owned(),
            member: MEMBER.parse()?,
            pod: pod.uid().context("no uid")?.parse()?,
            data: folder.join("volume"),
            state: folder.join("state"),
            command: vec![program.display().to_string()],
            pause: Duration::from_millis(50),
            patience: Duration::from_secs(2),
        };
        std::fs::create_dir_all(&task.data)?;
        Ok(Self {
            kubernetes,
            folder,
            task,
        })
    }

    /// A disk with tables, of which the tool says this.
    fn tables(&self, script: &str) -> Result<()> {
        let local = self.task.data.join("data/system/local-1");
        std::fs::create_dir_all(&local)?;
        std::fs::write(local.join("me-1-big-Data.db"), "x")?;
        // Replaced as a whole: a program that runs cannot be written to.
        let (program, new) = (self.folder.join("scylla"), self.folder.join("new"));
        std::fs::write(&new, format!("#!/bin/sh\n{script}\n"))?;
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755))?;
        Ok(std::fs::rename(&new, &program)?)
    }

    fn bootstrapped(&self) -> Result<()> {
        self.tables(&format!(
            r#"echo '[{{"bootstrapped": "COMPLETED", "host_id": "{HOST}"}}]'"#
        ))
    }

    fn gate(&self) -> Waiting {
        let said = Arc::new(Mutex::new(Vec::new()));
        let (heard, task, client) = (Arc::clone(&said), self.task.clone(), self.kubernetes.client());
        let task = spawn_local(async move {
            let ask = async || Ok(client.clone());
            let say = |line: &str| heard.lock().unwrap().push(line.to_owned());
            Ok(ring_gate(&task, ask, say).await?)
        });
        Waiting { task, said }
    }

    async fn report(&self) -> Result<Option<Found>> {
        let pods: Api<Pod> = Api::default_namespaced(self.kubernetes.client());
        let pod = pods.get(MEMBER).await?;
        let text = pod.annotations().get(REPORT_ANNOTATION);
        Ok(text
            .map(|text| serde_json::from_str::<Report>(text))
            .transpose()?
            .map(|r| r.found))
    }

    async fn end(self) -> Result<()> {
        self.kubernetes.shutdown().await;
        Ok(std::fs::remove_dir_all(&self.folder)?)
    }
}

#[tokio::test]
async fn a_bootstrapped_disk_starts_when_it_is_told_and_untold_only_if_nobody_answers() -> Result<()> {
    LocalSet::new().run_until(told()).await
}

async fn told() -> Result<()> {
    let place = Place::new("told").await?;
    place.bootstrapped()?;
    let faults = place.kubernetes.faults();
    let refused = faults.inject(
        Fault::ServerError,
        On::path("/pods/").method(sim::kube::Method::Patch),
    );
    let gate = place.gate();
    gate.says("what was found cannot be told").await?;
    sleep(Duration::from_millis(500)).await;
    ensure!(
        !gate.task.is_finished(),
        "what stands on the pod may be an old word"
    );
    ensure!(place.report().await?.is_none());
    faults.lift(refused);
    gate.launch().await?;
    ensure!(place.report().await? == Some(Found::Started(HOST)));
    // In the pod that it ran in, it starts also when there is nobody to tell.
    faults.inject(Fault::Refuse, On::path("/"));
    place.gate().launch().await?;
    place.end().await
}

#[tokio::test]
async fn a_disk_that_cannot_be_read_is_told_with_what_the_tool_said_and_read_again() -> Result<()> {
    LocalSet::new().run_until(unreadable()).await
}

async fn unreadable() -> Result<()> {
    let place = Place::new("unreadable").await?;
    place.tables("echo 'the table is torn' >&2; exit 1")?;
    let gate = place.gate();
    gate.says("cannot read what is on this disk").await?;
    gate.says("the table is torn").await?;
    for _ in 0..100 {
        if place.report().await? == Some(Found::Unreadable) {
            break;
        }
        sleep(Duration::from_millis(50)).await;
    }
    ensure!(place.report().await? == Some(Found::Unreadable));
    ensure!(place.task.data.join("data").exists() && !gate.task.is_finished());
    place.bootstrapped()?;
    gate.launch().await?;
    ensure!(place.report().await? == Some(Found::Started(HOST)));
    place.end().await
}

#[tokio::test]
async fn a_gate_that_gets_no_answer_says_why() -> Result<()> {
    LocalSet::new().run_until(unanswered()).await
}

async fn unanswered() -> Result<()> {
    let place = Place::new("unanswered").await?;
    let gate = place.gate();
    gate.says("a new member").await?;
    // It knows who it is by now.
    let denied = Fault::Denied(403, "configmaps is forbidden".to_owned());
    place.kubernetes.faults().inject(denied, On::path("configmaps"));
    gate.says("the Kubernetes API does not answer").await?;
    gate.says("configmaps is forbidden").await?;
    gate.task.abort();
    place.end().await
}
