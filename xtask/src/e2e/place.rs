//! A real Kubernetes with nodes on this machine, the image on it, and the charts in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::drills;
use crate::helm;
use crate::image;
use crate::tools;
use crate::workspace::{Workspace, capture, display, stream};

/// Everything but what the distribution brings: containerd, runc, iptables and the CNI plugins.
const PROGRAMS: &[&str] = &[
    "kubectl",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
];
const TAG: &str = "e2e";
const OWN: &str = "localhost/mainstay";
const STAND_IN: &str = "localhost/memgraph-stand-in";
const CLUSTER: &str = "memgraph-ha";
/// Pods of the cluster; each node has a volume for all of them, wherever they are scheduled.
const PODS: u8 = 3;

pub(crate) struct Place<'a> {
    workspace: &'a Workspace,
    folder: PathBuf,
    programs: PathBuf,
    helm: PathBuf,
    images: [PathBuf; 2],
    pause: PathBuf,
    nodes: u8,
}

impl<'a> Place<'a> {
    pub(crate) const OPERATORS: &'static str = "mainstay";
    pub(crate) const DATABASES: &'static str = "db";

    /// Builds what is missing; nothing runs yet.
    pub(crate) fn prepare(workspace: &'a Workspace, nodes: u8, program: Option<&Path>) -> Result<Self> {
        let mut build = workspace.command("bash");
        build.arg("e2e/kube/build.sh").args(PROGRAMS).arg("pause");
        let programs = String::from_utf8(capture(&mut build)?)?;
        let programs = PathBuf::from(programs.trim());
        let out = workspace.root().join("target").join("e2e");
        fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        let program = match program {
            Some(path) => path.to_path_buf(),
            None => image::build(workspace)?,
        };
        let made = |name: &str, tag: &str, program: &Path, entrypoint: &[&str]| {
            image::pack(workspace, &out, name, tag, program, entrypoint).map(|packed| packed.archive)
        };
        Ok(Self {
            workspace,
            // The cluster without nodes of `cargo xtask kube` uses the same ports, and its own folder.
            folder: tools::home(workspace).join("real-nodes"),
            helm: helm::ensure(workspace)?,
            images: [
                made(OWN, TAG, &program, &[])?,
                made(STAND_IN, TAG, &program, image::STAND_IN)?,
            ],
            pause: made("localhost/pause", "1", &programs.join("pause"), &[])?,
            programs,
            nodes,
        })
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.kubeconfig")
    }

    /// What the operators asked the API server for.
    pub(crate) fn audit(&self) -> PathBuf {
        self.folder.join("log/audit")
    }

    /// A file of the checkout.
    pub(crate) fn file(&self, path: &str) -> Result<String> {
        let path = self.workspace.root().join(path);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    fn script(&self, what: &str) -> Command {
        let mut command = self.workspace.command("bash");
        command.args(["e2e/kube/nodes.sh", what]).arg(&self.folder);
        command.env("BIN", &self.programs).env("PAUSE", &self.pause);
        command
    }

    /// Kubernetes runs, and has the images.
    pub(crate) fn up(&self) -> Result<()> {
        let began = Instant::now();
        stream(self.script("up").arg(self.nodes.to_string()))?;
        stream(self.script("load").args(&self.images))?;
        println!(
            "{} nodes after {:.1} s",
            self.nodes,
            began.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Nothing of it is left.
    pub(crate) fn down(&self) -> Result<()> {
        stream(&mut self.script("down"))
    }

    fn kubectl_command(&self, args: &[&str]) -> Command {
        let mut command = self.workspace.command(self.programs.join("kubectl"));
        command.env("KUBECONFIG", self.kubeconfig()).args(args);
        command
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> Result<()> {
        let mut command = self.kubectl_command(args);
        println!("$ {}", display(&command));
        stream(&mut command)
    }

    /// One object, or all of a kind.
    pub(crate) fn object(&self, namespace: &str, what: &str) -> Result<Value> {
        let mut command = self.kubectl_command(&["-n", namespace, "get", what, "-o", "json"]);
        serde_json::from_slice(&capture(&mut command)?).context("kubectl did not print an object")
    }

    pub(crate) fn cluster(&self) -> Result<Value> {
        self.object(Self::DATABASES, &format!("mgc/{CLUSTER}"))
    }

    /// The namespaces enforce `restricted`; then the charts, as a person would install them.
    pub(crate) fn install(&self, one_namespace: bool) -> Result<()> {
        for namespace in [Self::OPERATORS, Self::DATABASES] {
            self.kubectl(&["create", "namespace", namespace])?;
            let level = "pod-security.kubernetes.io/enforce=restricted";
            self.kubectl(&["label", "namespace", namespace, level])?;
        }
        let file = self.folder.join("log/volumes.json");
        fs::write(&file, self.volumes()?.to_string()).context("the volumes cannot be written")?;
        self.kubectl(&["apply", "-f", &file.to_string_lossy()])?;
        let mut values = vec![("image.repository", OWN), ("image.tag", TAG)];
        if one_namespace {
            values.extend([("scope", "Namespace"), ("watchNamespace", Self::DATABASES)]);
        }
        self.helm("mainstay", Self::OPERATORS, &values)?;
        self.helm(
            CLUSTER,
            Self::DATABASES,
            &[
                ("spec.image", &format!("{STAND_IN}:{TAG}")),
                ("spec.storage.size", "1Gi"),
                ("spec.storage.storageClass", "local"),
            ],
        )
    }

    fn helm(&self, chart: &str, namespace: &str, values: &[(&str, &str)]) -> Result<()> {
        let mut command = self.workspace.command(&self.helm);
        command
            .args([
                "install",
                chart,
                &format!("charts/{chart}"),
                "--namespace",
                namespace,
            ])
            .env("KUBECONFIG", self.kubeconfig());
        for (name, value) in values {
            command.arg("--set").arg(format!("{name}={value}"));
        }
        println!("$ {}", display(&command));
        stream(&mut command)
    }

    /// A folder on each node for each pod.
    fn volumes(&self) -> Result<Value> {
        let mut items = vec![json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "local" },
            "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
        })];
        for node in 1..=self.nodes {
            for pod in 0..PODS {
                let path = self.folder.join(format!("node{node}/volumes/{pod}"));
                fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
                let here = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [format!("node{node}")] });
                items.push(json!({
                    "apiVersion": "v1", "kind": "PersistentVolume",
                    "metadata": { "name": format!("node{node}-{pod}") },
                    "spec": {
                        "capacity": { "storage": "1Gi" },
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": "local",
                        "local": { "path": path },
                        "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [here] }] } },
                    },
                }));
            }
        }
        Ok(json!({ "apiVersion": "v1", "kind": "List", "items": items }))
    }

    /// Looks at the cluster until this holds.
    pub(crate) fn until(&self, patience: Duration, what: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
        let began = Instant::now();
        loop {
            let cluster = self.cluster()?;
            if holds(&cluster) {
                return Ok(());
            }
            if began.elapsed() > patience {
                let reasons = cluster.pointer("/status/reasons").cloned().unwrap_or_default();
                bail!("no {what} after {patience:?}; the operator says: {reasons}");
            }
            sleep(Duration::from_millis(200));
        }
    }

    pub(crate) fn until_protected(&self, patience: Duration) -> Result<()> {
        self.until(patience, "serving and protected cluster", |cluster| {
            let conditions = cluster.pointer("/status/conditions").and_then(Value::as_array);
            let is = |kind: &str| {
                let mut all = conditions.into_iter().flatten();
                all.any(|condition| condition["type"] == kind && condition["status"] == "True")
            };
            is("Ready") && is("Protected")
        })
    }

    /// Every database pod is of the newest revision, which is not the first, and ready.
    pub(crate) fn until_all_new(&self, patience: Duration) -> Result<()> {
        let began = Instant::now();
        loop {
            let set = self.object(Self::DATABASES, &format!("sts/{CLUSTER}"))?;
            let number = |at: &str| set.pointer(at).and_then(Value::as_u64);
            let pods = Some(u64::from(PODS));
            let seen = number("/status/observedGeneration") == number("/metadata/generation");
            let changed = number("/metadata/generation") > Some(1);
            let new = number("/status/updatedReplicas") == pods && number("/status/readyReplicas") == pods;
            if seen && changed && new {
                return Ok(());
            }
            if began.elapsed() > patience {
                let status = set.pointer("/status").cloned().unwrap_or_default();
                bail!("not every pod is new after {patience:?}: {status}");
            }
            sleep(Duration::from_millis(200));
        }
    }

    /// The address of a gateway: the machine reaches pods, and no Service.
    pub(crate) fn gateway(&self) -> Result<String> {
        let pods = self.object(Self::DATABASES, "pods")?;
        let all = pods.pointer("/items").and_then(Value::as_array);
        all.into_iter()
            .flatten()
            .filter(|pod| pod.pointer("/metadata/labels/mainstay.dev~1role") == Some(&json!("gateway")))
            .find_map(|pod| pod.pointer("/status/podIP").and_then(Value::as_str))
            .map(str::to_owned)
            .context("there is no gateway")
    }

    /// Python with the driver of applications.
    pub(crate) fn python(&self) -> Result<Command> {
        Ok(self.workspace.command(drills::python(self.workspace)?))
    }

    /// After a failure: what there is to see. What cannot be had is left out.
    pub(crate) fn tell(&self) {
        let questions: [&[&str]; 4] = [
            &["get", "nodes,pods,pvc,mgc", "-A", "-o", "wide"],
            &["get", "events", "-A", "--sort-by=.lastTimestamp"],
            &["-n", Self::DATABASES, "describe", "mgc", CLUSTER],
            &[
                "-n",
                Self::OPERATORS,
                "logs",
                "-l",
                "app.kubernetes.io/name=mainstay-operator",
                "--tail=40",
            ],
        ];
        for question in questions {
            println!("\n$ kubectl {}", question.join(" "));
            stream(&mut self.kubectl_command(question)).ok();
        }
    }
}
