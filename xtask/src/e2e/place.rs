//! A real Kubernetes with nodes on this machine, the image on it, and the charts in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::{Value, json};

use super::look::{Node, text};
use crate::drills;
use crate::helm;
use crate::image::{self, Borrowed, Placed, borrow};
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
const MEMGRAPH: &str = "localhost/memgraph";
/// Where the official image has it: from there it finds Python's library.
const MEMGRAPH_PROGRAM: &str = "usr/lib/memgraph/memgraph";
/// The tag says which version is imitated.
const RING: (&str, &str) = ("localhost/scylla-stand-in", "2025.2.0");
/// The gate starts one program by its path, as the real image has it.
const SCYLLA: (&str, &str) = (
    "usr/bin/scylla",
    "#!/bin/sh\nexec /mainstay standin ring \"$@\"\n",
);
/// As many claims as all suites make, wherever their pods are scheduled: a volume is used once.
const VOLUMES: u8 = 12;

/// Which Memgraph a stand-in imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    #[value(name = "3.12")]
    V3_12,
    #[value(name = "3.6")]
    V3_6,
}

impl Profile {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::V3_12 => "3.12",
            Self::V3_6 => "3.6",
        }
    }

    /// The operator asks by the version that the tag says, and takes one that says none for the newest.
    const fn tag(self) -> &'static str {
        match self {
            Self::V3_12 => TAG,
            Self::V3_6 => "3.6.0-e2e",
        }
    }
}

/// What the databases are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Databases<'a> {
    /// A program that was built elsewhere.
    Real(&'a Path),
    StandIn(Profile),
}

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
    /// Of the databases.
    image: String,
}

impl<'a> Place<'a> {
    pub(crate) const OPERATORS: &'static str = "mainstay";
    pub(crate) const DATABASES: &'static str = "db";
    pub(crate) const CLUSTER: &'static str = "memgraph-ha";

    /// Builds what is missing; nothing runs yet.
    pub(crate) fn prepare(
        workspace: &'a Workspace,
        nodes: u8,
        program: Option<&Path>,
        databases: Databases<'_>,
    ) -> Result<Self> {
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
        let (database, tag, archive) = match databases {
            Databases::Real(memgraph) => (MEMGRAPH, TAG, real(workspace, &out, memgraph)?),
            Databases::StandIn(profile) => {
                let flag = format!("--profile={}", profile.name());
                let entrypoint = [image::STAND_IN, &[&flag]].concat();
                let tag = profile.tag();
                (STAND_IN, tag, made(STAND_IN, tag, &program, &entrypoint)?)
            }
        };
        Ok(Self {
            workspace,
            // The cluster without nodes of `cargo xtask kube` uses the same ports, and its own folder.
            folder: tools::home(workspace).join("real-nodes"),
            helm: helm::ensure(workspace)?,
            images: vec![
                made(OWN, TAG, &program, &[])?,
                made(OWN, NEXT, &program, &[])?,
                archive,
                ring(workspace, &out, &program)?,
            ],
            pause: made("localhost/pause", "1", &programs.join("pause"), &[])?,
            programs,
            program,
            nodes,
            image: format!("{database}:{tag}"),
        })
    }

    /// What an earlier run left running: nothing is built but what is missing, and no image is loaded.
    pub(crate) fn found(workspace: &'a Workspace, nodes: u8, program: Option<&Path>) -> Result<Self> {
        let mut build = workspace.command("bash");
        let programs = capture(build.arg("e2e/kube/build.sh").args(PROGRAMS))?;
        let mut place = Self {
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
            image: String::new(),
        };
        text(&place.cluster()?, "/spec/image")?.clone_into(&mut place.image);
        Ok(place)
    }

    /// What the databases are, for people.
    pub(crate) fn databases(&self) -> &'static str {
        if self.image.starts_with(&format!("{MEMGRAPH}:")) {
            "a real Memgraph"
        } else if self.image.ends_with(Profile::V3_6.tag()) {
            "stand-ins of Memgraph 3.6"
        } else {
            "stand-ins of Memgraph 3.12"
        }
    }

    /// The image of a ring's members, which are always stand-ins.
    pub(crate) fn ring_image() -> String {
        let (name, tag) = RING;
        format!("{name}:{tag}")
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

    /// Objects as they are declared.
    pub(crate) fn apply(&self, namespace: &str, objects: &[Value]) -> Result<()> {
        let file = self.folder.join("log/objects.json");
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        fs::write(&file, list.to_string()).with_context(|| format!("cannot write {}", file.display()))?;
        self.kubectl(&["-n", namespace, "apply", "-f", &file.to_string_lossy()])
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
        self.apply(Self::DATABASES, &self.volumes()?)?;
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
                ("spec.image", &self.image),
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
        command
            .args([what, chart, &format!("charts/{chart}"), "--namespace", namespace])
            .env("KUBECONFIG", self.kubeconfig());
        // After its command: before it, helm takes the next word for the value of a flag that it does not know.
        if what == "upgrade" {
            command.arg("--reset-then-reuse-values");
        }
        for (name, value) in values {
            command.arg("--set").arg(format!("{name}={value}"));
        }
        println!("$ {}", display(&command));
        stream(&mut command)
    }

    /// Folders on each node.
    fn volumes(&self) -> Result<Vec<Value>> {
        let mut items = vec![json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "local" },
            "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
        })];
        for node in 1..=self.nodes {
            for volume in 0..VOLUMES {
                let path = self.folder.join(format!("node{node}/volumes/{volume}"));
                fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
                let here = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [format!("node{node}")] });
                items.push(json!({
                    "apiVersion": "v1", "kind": "PersistentVolume",
                    "metadata": { "name": format!("node{node}-{volume}") },
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
        Ok(items)
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
            &["get", "nodes,pods,pvc,mgc,ringclusters,hplan", "-A", "-o", "wide"],
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

/// The program of a real server, with what it is linked with.
fn real(workspace: &Workspace, out: &Path, memgraph: &Path) -> Result<PathBuf> {
    // Whoever looks at it does so from the top of the checkout.
    let memgraph =
        fs::canonicalize(memgraph).with_context(|| format!("there is no {}", memgraph.display()))?;
    borrow(
        workspace,
        out,
        &Borrowed {
            name: MEMGRAPH,
            tag: TAG,
            user: "101:103",
            programs: &[Placed {
                at: MEMGRAPH_PROGRAM,
                program: &memgraph,
            }],
            scripts: &[],
            entrypoint: &[&format!("/{MEMGRAPH_PROGRAM}")],
        },
    )
}

/// Stand-ins for a ring. As root, as the real image is: the operator does not say who runs a ring's database.
fn ring(workspace: &Workspace, out: &Path, program: &Path) -> Result<PathBuf> {
    let (name, tag) = RING;
    borrow(
        workspace,
        out,
        &Borrowed {
            name,
            tag,
            user: "0:0",
            programs: &[
                Placed {
                    at: "mainstay",
                    program,
                },
                Placed {
                    at: "bin/sh",
                    program: Path::new("/bin/sh"),
                },
            ],
            scripts: &[SCYLLA],
            entrypoint: &["/usr/bin/scylla"],
        },
    )
}
