//! A real Kubernetes with nodes on this machine, the image on it, and the charts in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::look::Node;
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
/// The same program by another name: what an upgrade brings.
const NEXT: &str = "e2e-next";
const OWN: &str = "localhost/mainstay";
const STAND_IN: &str = "localhost/memgraph-stand-in";
/// As many pods as any suite wants; each node has a volume for all of them, wherever they are scheduled.
const PODS: u8 = 4;

pub(crate) struct Place<'a> {
    workspace: &'a Workspace,
    folder: PathBuf,
    programs: PathBuf,
    helm: PathBuf,
    images: Vec<PathBuf>,
    pause: PathBuf,
    /// Statically linked: what runs in the pods is also what a person calls here.
    program: PathBuf,
    nodes: u8,
}

impl<'a> Place<'a> {
    pub(crate) const OPERATORS: &'static str = "mainstay";
    pub(crate) const DATABASES: &'static str = "db";
    pub(crate) const CLUSTER: &'static str = "memgraph-ha";

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
            images: vec![
                made(OWN, TAG, &program, &[])?,
                made(OWN, NEXT, &program, &[])?,
                made(STAND_IN, TAG, &program, image::STAND_IN)?,
            ],
            pause: made("localhost/pause", "1", &programs.join("pause"), &[])?,
            programs,
            program,
            nodes,
        })
    }

    /// What an earlier run left running: nothing is built but what is missing, and no image is loaded.
    pub(crate) fn found(workspace: &'a Workspace, nodes: u8, program: Option<&Path>) -> Result<Self> {
        let mut build = workspace.command("bash");
        let programs = capture(build.arg("e2e/kube/build.sh").args(PROGRAMS))?;
        Ok(Self {
            workspace,
            folder: tools::home(workspace).join("real-nodes"),
            helm: helm::ensure(workspace)?,
            images: Vec::new(),
            pause: PathBuf::new(),
            programs: PathBuf::from(String::from_utf8(programs)?.trim()),
            program: match program {
                Some(path) => path.to_path_buf(),
                None => image::build(workspace)?,
            },
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

    /// An object that is no kind of its own; what the API server said against it.
    pub(crate) fn create_raw(&self, path: &str, object: &Value) -> Result<Result<(), String>> {
        let file = self.folder.join("log/raw.json");
        fs::write(&file, object.to_string()).with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = self.kubectl_command(&["create", "--raw", path, "-f"]);
        let output = command.arg(&file).output().context("kubectl cannot be started")?;
        if output.status.success() {
            return Ok(Ok(()));
        }
        Ok(Err(String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    /// `mainstay`, as a person would call it.
    pub(crate) fn mainstay(&self, args: &[&str]) -> Result<()> {
        let mut command = self.workspace.command(&self.program);
        command.env("KUBECONFIG", self.kubeconfig()).args(args);
        println!("$ {}", display(&command));
        stream(&mut command)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> {
        (1..=self.nodes).map(Node)
    }

    /// Something happens to a node: `off`, `on`, `freeze`, `thaw`, `cut` or `heal`.
    pub(crate) fn node(&self, what: &str, node: Node) -> Result<()> {
        println!("$ nodes.sh {what} {node}");
        stream(self.script(what).arg(node.0.to_string()))
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
        self.helm("install", "mainstay", Self::OPERATORS, &values)?;
        self.helm(
            "install",
            Self::CLUSTER,
            Self::DATABASES,
            &[
                ("spec.image", &format!("{STAND_IN}:{TAG}")),
                ("spec.storage.size", "1Gi"),
                ("spec.storage.storageClass", "local"),
                // Otherwise a replica that really diverged keeps everybody waiting for two minutes.
                ("spec.hardReset.quiet", "5s"),
                ("spec.hardReset.perHour", "60"),
            ],
        )
    }

    /// As a person would, with the settings of the first time.
    pub(crate) fn upgrade(&self) -> Result<()> {
        self.helm("upgrade", "mainstay", Self::OPERATORS, &[("image.tag", NEXT)])
    }

    fn helm(&self, what: &str, chart: &str, namespace: &str, values: &[(&str, &str)]) -> Result<()> {
        let mut command = self.workspace.command(&self.helm);
        if what == "upgrade" {
            command.arg("--reset-then-reuse-values");
        }
        command
            .args([what, chart, &format!("charts/{chart}"), "--namespace", namespace])
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

    /// Python with the driver of applications.
    pub(crate) fn python(&self) -> Result<PathBuf> {
        drills::python(self.workspace)
    }

    /// A program on this machine; it reaches pods, and no Service.
    pub(crate) fn command(&self, program: &Path) -> Command {
        self.workspace.command(program)
    }

    /// The same, in the network of a node: it reaches what a pod with the host's network there would reach.
    pub(crate) fn command_on(&self, node: Node, program: &Path) -> Command {
        let mut command = self.workspace.command("nsenter");
        command
            .arg(format!("--net=/run/netns/mainstay{}", node.0))
            .arg(program);
        command
    }

    /// After a failure: what there is to see. What cannot be had is left out.
    pub(crate) fn tell(&self) {
        let questions: [&[&str]; 4] = [
            &["get", "nodes,pods,pvc,mgc", "-A", "-o", "wide"],
            &["get", "events", "-A", "--sort-by=.lastTimestamp"],
            &["-n", Self::DATABASES, "describe", "mgc", Self::CLUSTER],
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
