//! A small cluster of its own for each test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, AttachParams, LogParams, Patch, PatchParams, PostParams};
use sandbox::kube::Kubernetes;
use sandbox::node::{BackOff, Config, Images, Nodes, Party};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

/// The machine is shared and slow at times; nothing here should need it.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Bed {
    pub(crate) kubernetes: Kubernetes,
    pub(crate) nodes: Nodes,
    pub(crate) client: kube::Client,
    pub(crate) folder: PathBuf,
}

pub(crate) fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("mainstay-node-{}-{number}", std::process::id()))
}

impl Bed {
    pub(crate) fn new() -> Result<Self> {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Result<Self> {
        Self::on(Kubernetes::new(7), change)
    }

    /// With the API on a port.
    pub(crate) async fn listening() -> Result<Self> {
        let kubernetes = Kubernetes::new(7);
        let listening = kubernetes.listen(([127, 0, 0, 1], 0).into()).await?;
        Self::on(kubernetes, |config| config.api = Some(listening))
    }

    fn on(kubernetes: Kubernetes, change: impl FnOnce(&mut Config)) -> Result<Self> {
        let folder = folder();
        let images = Images::new().with("busybox:*", "/bin/sh", &[]).with(
            "helper",
            std::env::current_exe()?,
            &["--ignored", "--exact", "--nocapture"],
        );
        let mut config = Config::new(&folder, images);
        config.heartbeat = SignedDuration::from_millis(500);
        config.node_grace = SignedDuration::from_secs(4);
        config.back_off = BackOff {
            first: SignedDuration::from_millis(200),
            ..BackOff::UPSTREAM
        };
        change(&mut config);
        let nodes = Nodes::start(&kubernetes, config)?;
        let client = kubernetes.client();
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

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) fn sets(&self) -> Api<StatefulSet> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) async fn create(&self, object: Value) -> Result<()> {
        let kind = object
            .pointer("/kind")
            .and_then(Value::as_str)
            .context("kind")?
            .to_owned();
        let version = object
            .pointer("/apiVersion")
            .and_then(Value::as_str)
            .context("apiVersion")?;
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = kube::core::GroupVersionKind::gvk(group, version, &kind);
        let resource = kube::core::ApiResource::from_gvk(&resource);
        let api: Api<kube::core::DynamicObject> = if kind == "Node" {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::default_namespaced_with(self.client.clone(), &resource)
        };
        api.create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        Ok(())
    }

    pub(crate) async fn patch_set(&self, patch: Value) -> Result<()> {
        self.sets()
            .patch("db", &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// A pod as JSON; null if there is none.
    pub(crate) async fn pod(&self, name: &str) -> Result<Value> {
        Ok(serde_json::to_value(self.pods().get_opt(name).await?)?)
    }

    /// Wait until a pod looks as it should.
    pub(crate) async fn until(&self, name: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Result<Value> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let pod = self.pod(name).await?;
            if fits(&pod) {
                return Ok(pod);
            }
            if tokio::time::Instant::now() > deadline {
                bail!("{name} is not {what}: {pod:#}");
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    pub(crate) async fn until_ready(&self, name: &str) -> Result<Value> {
        self.until(name, "ready", |pod| is_ready(pod) && !is_deleting(pod))
            .await
    }

    pub(crate) async fn until_set(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Result<Value> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let set = serde_json::to_value(self.sets().get("db").await?)?;
            if fits(&set) {
                return Ok(set);
            }
            if tokio::time::Instant::now() > deadline {
                let pods = self.pods().list(&kube::api::ListParams::default()).await?;
                bail!(
                    "the set is not {what}: {:#}\n{}",
                    at(&set, "/status"),
                    serde_json::to_string_pretty(&pods.items)?
                );
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    pub(crate) async fn until_replicas(&self, replicas: i64) -> Result<Value> {
        self.until_set("as large as asked", |set| {
            let of = |field: &str| at(set, &format!("/status/{field}"));
            ["replicas", "readyReplicas", "updatedReplicas"]
                .iter()
                .all(|field| *of(field) == replicas)
                && of("observedGeneration") == at(set, "/metadata/generation")
                && of("currentRevision") == of("updateRevision")
        })
        .await
    }

    /// Output, errors and exit code of a command in a pod.
    pub(crate) async fn exec(
        &self,
        pod: &str,
        command: &[&str],
        input: &str,
    ) -> Result<(String, String, i32)> {
        let params = AttachParams::default()
            .stdin(!input.is_empty())
            .stdout(true)
            .stderr(true);
        let mut process = self.pods().exec(pod, command.iter().copied(), &params).await?;
        if let Some(mut stdin) = process.stdin() {
            stdin.write_all(input.as_bytes()).await?;
            stdin.shutdown().await?;
        }
        let status = process.take_status().context("a status")?;
        // Together: the pipes are small.
        let (out, err) = tokio::try_join!(read_all(process.stdout()), read_all(process.stderr()))?;
        let status = serde_json::to_value(status.await)?;
        let causes = at(&status, "/details/causes")
            .as_array()
            .cloned()
            .unwrap_or_default();
        let code = causes.iter().find(|cause| *at(cause, "/reason") == "ExitCode");
        let code = code.and_then(|cause| at(cause, "/message").as_str()?.parse().ok());
        anyhow::ensure!(
            code.is_some() || *at(&status, "/status") == "Success",
            "exec failed: {status}"
        );
        Ok((out, err, code.unwrap_or_default()))
    }

    pub(crate) async fn log(&self, pod: &str, previous: bool) -> Result<String> {
        Ok(self
            .pods()
            .logs(
                pod,
                &LogParams {
                    previous,
                    ..LogParams::default()
                },
            )
            .await?)
    }

    pub(crate) fn data(&self, claim: &str, file: &str) -> Result<String> {
        let folder = self
            .nodes
            .volume("default", claim)
            .context("the claim has no folder")?;
        std::fs::read_to_string(folder.join(file)).with_context(|| format!("{claim}/{file}"))
    }
}

async fn read_all(from: Option<impl AsyncRead + Unpin>) -> Result<String> {
    let mut text = String::new();
    if let Some(mut from) = from {
        from.read_to_string(&mut text).await?;
    }
    Ok(text)
}

/// What is at a JSON pointer; null if nothing is.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        if tokio::time::Instant::now() > deadline {
            bail!("not: {what}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

pub(crate) fn party(name: &str) -> Party {
    Party::pod("default", name)
}

pub(crate) fn is_deleting(pod: &Value) -> bool {
    at(pod, "/metadata/deletionTimestamp").is_string()
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let conditions = at(object, "/status/conditions")
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let found = conditions
        .iter()
        .find(|condition| *at(condition, "/type") == kind);
    found
        .and_then(|condition| at(condition, "/status").as_str())
        .unwrap_or_default()
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready") == "True"
}

/// Whether anything of a process group is alive.
pub(crate) fn lives(group: i32) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .map(|entry| entry.path().join("stat"))
        .any(|stat| in_group(&stat, group))
}

fn in_group(stat: &Path, group: i32) -> bool {
    let stat = std::fs::read_to_string(stat).unwrap_or_default();
    let mut fields = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace())
        .into_iter()
        .flatten();
    let state = fields.next().unwrap_or_default();
    fields.nth(1) == Some(group.to_string().as_str()) && !matches!(state, "Z" | "X")
}

/// A pod with one shell script.
pub(crate) fn pod(name: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
        "spec": {
            "terminationGracePeriodSeconds": 20,
            "containers": [{ "name": "main", "image": "busybox:1", "args": ["-c", script] }],
        },
    })
}
