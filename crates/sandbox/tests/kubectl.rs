//! A current `kubectl` against the port of the small Kubernetes.
//!
//! The program is built once by `e2e/kube/build.sh` into the cache of tools.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::tools::{text, world};

#[cfg(test)]
mod tools {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output, Stdio};
    use std::sync::Arc;

    use futures::future::BoxFuture;
    use sandbox::kube::Kubernetes;
    use sandbox::kube::streams::{
        BoxRead, Duplex, ExecRequest, ExecStreams, LogRequest, PodRef, PodStreams, StreamError,
    };
    use serde_json::Value;
    use tokio::io::AsyncWriteExt as _;

    /// Answers as a node would.
    struct Node;

    impl PodStreams for Node {
        fn logs(&self, request: LogRequest) -> BoxFuture<'static, Result<BoxRead, StreamError>> {
            let text = format!("log of {}\n", request.container);
            Box::pin(async move { Ok(Box::new(std::io::Cursor::new(text.into_bytes())) as BoxRead) })
        }

        fn exec(
            &self,
            request: ExecRequest,
            mut streams: ExecStreams,
        ) -> BoxFuture<'static, Result<i32, StreamError>> {
            Box::pin(async move {
                streams
                    .stdout
                    .write_all(request.command.join(" ").as_bytes())
                    .await?;
                Ok(if request.command.iter().any(|word| word == "fail") {
                    3
                } else {
                    0
                })
            })
        }

        fn forward(&self, _: PodRef, _: u16) -> BoxFuture<'static, Result<Box<dyn Duplex>, StreamError>> {
            Box::pin(async { Err(StreamError::Unavailable("nothing listens".to_owned())) })
        }
    }

    pub(crate) struct Kubectl {
        program: PathBuf,
        folder: PathBuf,
    }

    impl Kubectl {
        pub(crate) fn command(&self, args: &[&str]) -> Command {
            let mut command = Command::new(&self.program);
            command
                .args(args)
                .env("KUBECONFIG", self.folder.join("config"))
                // Discovery is cached by address, and ports are used again.
                .env("KUBECACHEDIR", self.folder.join("cache"))
                .env("HOME", &self.folder)
                .stdin(Stdio::null());
            command
        }

        pub(crate) fn run(&self, args: &[&str]) -> Output {
            self.command(args).output().unwrap()
        }

        /// What it prints; it must end well.
        pub(crate) fn ok(&self, args: &[&str]) -> String {
            let output = self.run(args);
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success(), "kubectl {args:?}\n{out}\n{err}");
            out
        }

        /// What it complains; it must fail.
        pub(crate) fn fails(&self, args: &[&str]) -> String {
            let output = self.run(args);
            assert!(
                !output.status.success(),
                "kubectl {args:?}\n{}",
                text(&output.stdout)
            );
            text(&output.stderr)
        }

        pub(crate) fn file(&self, name: &str, content: &Value) -> String {
            let path = self.folder.join(name);
            std::fs::write(&path, content.to_string()).unwrap();
            path.to_string_lossy().into_owned()
        }
    }

    pub(crate) fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    fn program() -> PathBuf {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/kube/build.sh");
        let output = Command::new("bash")
            .arg(script)
            .arg("kubectl")
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        assert!(output.status.success(), "kubectl could not be built");
        PathBuf::from(text(&output.stdout).trim()).join("kubectl")
    }

    pub(crate) async fn world(name: &str) -> (Kubernetes, Kubectl) {
        let kubernetes = Kubernetes::new(11);
        kubernetes.set_streams(Arc::new(Node));
        let listening = kubernetes
            .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .await
            .unwrap();
        let folder = std::env::temp_dir().join(format!("mainstay-kubectl-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config"), listening.kubeconfig()).unwrap();
        let program = tokio::task::spawn_blocking(program).await.unwrap();
        (kubernetes, Kubectl { program, folder })
    }

    impl Drop for Kubectl {
        fn drop(&mut self) {
            // A folder in the temporary place: if it stays, it does no harm.
            let _: std::io::Result<()> = std::fs::remove_dir_all(&self.folder);
        }
    }
}

fn workload(kind: &str, image: &str) -> Value {
    let template = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": image}]}});
    let selector = json!({"matchLabels": {"app": "db"}});
    let spec = match kind {
        "StatefulSet" => {
            json!({"replicas": 2, "selector": selector, "template": template, "serviceName": "db"})
        }
        _ => json!({"replicas": 2, "selector": selector, "template": template}),
    };
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "db", "namespace": "default"}, "spec": spec})
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_gets_applies_edits_patches_labels_and_deletes() {
    let (kubernetes, kubectl) = world("objects").await;
    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"k": value}});
    let file = kubectl.file("map.json", &map("1"));
    assert!(
        kubectl
            .ok(&["apply", "-f", &file])
            .contains("configmap/a created")
    );
    assert!(
        kubectl
            .ok(&["apply", "-f", &file])
            .contains("configmap/a unchanged")
    );
    let file = kubectl.file("map.json", &map("2"));
    assert!(
        kubectl
            .ok(&["apply", "-f", &file])
            .contains("configmap/a configured")
    );
    assert!(
        kubectl
            .ok(&["apply", "--server-side", "--force-conflicts", "-f", &file])
            .contains("serverside-applied")
    );
    let table = kubectl.ok(&["get", "configmaps"]);
    assert!(
        table.contains("NAME") && table.contains("DATA") && table.contains("AGE"),
        "{table}"
    );
    assert_eq!(kubectl.ok(&["get", "cm", "a", "-o", "jsonpath={.data.k}"]), "2");
    assert!(
        kubectl
            .ok(&["describe", "configmap", "a"])
            .contains("Name:         a")
    );
    kubectl.ok(&["annotate", "cm", "a", "example.com/x=y"]);
    kubectl.ok(&["label", "cm", "a", "app=db"]);
    assert!(
        kubectl
            .ok(&["get", "cm", "-l", "app=db", "-o", "name"])
            .contains("configmap/a")
    );
    assert!(
        kubectl
            .fails(&["label", "cm", "a", "app=other"])
            .contains("already has a value")
    );
    kubectl.ok(&[
        "patch",
        "cm",
        "a",
        "--type=merge",
        "-p",
        "{\"data\":{\"k\":\"3\"}}",
    ]);
    kubectl.ok(&[
        "patch",
        "cm",
        "a",
        "--type=json",
        "-p",
        "[{\"op\":\"add\",\"path\":\"/data/z\",\"value\":\"9\"}]",
    ]);
    let mut edit = kubectl.command(&["edit", "cm", "a"]);
    let edited = edit
        .env("EDITOR", "sed -i 's/k: \"3\"/k: \"4\"/'")
        .output()
        .unwrap();
    assert!(edited.status.success(), "{}", text(&edited.stderr));
    assert_eq!(
        kubectl.ok(&["get", "cm", "a", "-o", "jsonpath={.data.k}{.data.z}"]),
        "49"
    );
    let wrong = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "dta": {}});
    let file = kubectl.file("wrong.json", &wrong);
    assert!(kubectl.fails(&["apply", "-f", &file]).contains("unknown field"));
    assert!(
        kubectl
            .ok(&["wait", "--for=jsonpath={.data.k}=4", "cm/a", "--timeout=20s"])
            .contains("condition met")
    );
    assert!(kubectl.ok(&["delete", "cm", "a"]).contains("deleted"));
    assert!(kubectl.fails(&["get", "cm", "a"]).contains("NotFound"));
    assert!(kubectl.ok(&["api-resources"]).contains("statefulsets"));
    kubernetes.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_applies_every_kind_it_must_and_custom_ones() {
    let (kubernetes, kubectl) = world("apply").await;
    let meta = json!({"name": "db", "namespace": "default"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gears.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "gears", "kind": "Gear"}, "versions": [version]},
    });
    let file = kubectl.file("definition.json", &definition);
    kubectl.ok(&["apply", "-f", &file]);
    kubectl.ok(&[
        "wait",
        "--for=condition=Established",
        "crd/gears.example.com",
        "--timeout=20s",
    ]);
    let objects = |image: &str, size: u32| {
        vec![
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"password": image}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"clusterIP": "None", "ports": [{"name": "bolt", "port": 7687}], "selector": {"app": image.replace(':', "-")}}}),
            workload("Deployment", image),
            workload("StatefulSet", image),
            json!({"apiVersion": "example.com/v1", "kind": "Gear", "metadata": meta, "spec": {"size": size}}),
        ]
    };
    for (image, size, said) in [
        ("db:1", 1, "created"),
        ("db:2", 2, "configured"),
        ("db:2", 2, "unchanged"),
    ] {
        for object in objects(image, size) {
            let file = kubectl.file("object.json", &object);
            let answer = kubectl.ok(&["apply", "-f", &file]);
            // `stringData` comes back as `data`, so a secret always looks changed to kubectl.
            let secret = object["kind"] == "Secret";
            assert!(
                answer.contains(said) || (secret && answer.contains("configured")),
                "{answer} {said} {object}"
            );
        }
    }
    assert_eq!(
        kubectl.ok(&["get", "gear", "db", "-o", "jsonpath={.spec.size}"]),
        "2"
    );
    assert!(kubectl.ok(&["get", "gears"]).contains("db"));
    kubernetes.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_scales_and_follows_rollouts() {
    let (kubernetes, kubectl) = world("rollout").await;
    for kind in ["StatefulSet", "Deployment"] {
        let file = kubectl.file("workload.json", &workload(kind, "db:1"));
        kubectl.ok(&["apply", "-f", &file]);
    }
    kubectl.ok(&["scale", "statefulset/db", "--replicas=3"]);
    assert!(kubectl.ok(&["get", "sts", "db"]).contains("0/3"));
    kubectl.ok(&["rollout", "restart", "statefulset/db"]);
    let at = kubectl.ok(&[
        "get",
        "sts",
        "db",
        "-o",
        "jsonpath={.spec.template.metadata.annotations}",
    ]);
    assert!(at.contains("restartedAt"), "{at}");
    // What the controllers would write.
    let client = kubernetes.client();
    let finished = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let sets: Api<k8s_openapi::api::apps::v1::StatefulSet> = Api::default_namespaced(client.clone());
        let status = json!({"status": {"observedGeneration": 9, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "currentReplicas": 3, "availableReplicas": 3, "currentRevision": "r", "updateRevision": "r"}});
        sets.patch_status("db", &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
        let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::default_namespaced(client);
        let status = json!({"status": {"observedGeneration": 9, "replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 2}});
        deployments
            .patch_status("db", &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
    };
    let waiting = tokio::task::spawn_blocking(move || {
        let set = kubectl.ok(&["rollout", "status", "statefulset/db", "--timeout=30s"]);
        let deployment = kubectl.ok(&["rollout", "status", "deployment/db", "--timeout=30s"]);
        (set, deployment)
    });
    let ((set, deployment), ()) = tokio::join!(async { waiting.await.unwrap() }, finished);
    assert!(set.contains("complete"), "{set}");
    assert!(deployment.contains("successfully rolled out"), "{deployment}");
    kubernetes.shutdown().await;
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "db"}, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "1", "controller": true}]},
        "spec": {"nodeName": "node-1", "containers": [{"name": "db", "image": "db:1"}]},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_reads_logs_executes_watches_and_drains() {
    let (kubernetes, kubectl) = world("pods").await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}});
    let (node, first) = (
        kubectl.file("node.json", &node),
        kubectl.file("pod.json", &pod("db-0")),
    );
    kubectl.ok(&["create", "-f", &node]);
    kubectl.ok(&["create", "-f", &first]);
    assert_eq!(kubectl.ok(&["logs", "db-0"]), "log of db\n");
    assert_eq!(kubectl.ok(&["exec", "db-0", "--", "echo", "hello"]), "echo hello");
    let failed = kubectl.run(&["exec", "db-0", "--", "fail"]);
    assert_eq!(failed.status.code(), Some(3), "{}", text(&failed.stderr));
    assert!(kubectl.ok(&["describe", "pod", "db-0"]).contains("node-1"));
    assert!(kubectl.ok(&["describe", "node", "node-1"]).contains("db-0"));
    assert!(kubectl.ok(&["get", "pods", "-o", "wide"]).contains("node-1"));

    let mut watching = kubectl
        .command(&["get", "pods", "-w", "--request-timeout=20s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let listed = lines
        .by_ref()
        .map_while(Result::ok)
        .any(|line| line.contains("db-0"));
    assert!(listed, "what was there is listed first: what follows is watched");
    let file = kubectl.file("set.json", &workload("StatefulSet", "db:1"));
    kubectl.ok(&["apply", "-f", &file]);
    kubectl.ok(&["create", "-f", &kubectl.file("pod.json", &pod("db-1"))]);
    let seen = tokio::task::spawn_blocking(move || {
        let found = lines.map_while(Result::ok).any(|line| line.contains("db-1"));
        // Only this process, which this test started.
        watching.kill().unwrap();
        watching.wait().unwrap();
        found
    });
    assert!(seen.await.unwrap());

    // A budget without anything to spare stops a drain; without it the drain ends.
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "db", "namespace": "default"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "db"}}}});
    kubectl.ok(&["create", "-f", &kubectl.file("budget.json", &budget)]);
    let pods: Api<Pod> = Api::default_namespaced(kubernetes.client());
    for name in ["db-0", "db-1"] {
        let status =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
    }
    let blocked = kubectl.fails(&["drain", "node-1", "--force", "--timeout=3s"]);
    assert!(blocked.contains("disruption budget"), "{blocked}");
    assert!(
        kubectl
            .ok(&["get", "node", "node-1"])
            .contains("SchedulingDisabled")
    );
    kubectl.ok(&["delete", "pdb", "db"]);
    // What the node agent would do with a pod that is being deleted.
    let agent = async {
        loop {
            for pod in pods.list(&kube::api::ListParams::default()).await.unwrap() {
                if pod.metadata.deletion_timestamp.is_some() {
                    let now = DeleteParams::default().grace_period(0);
                    pods.delete(&pod.metadata.name.unwrap(), &now).await.unwrap();
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let draining = tokio::task::spawn_blocking(move || {
        let drained = kubectl.ok(&["drain", "node-1", "--force", "--timeout=30s"]);
        kubectl.ok(&["uncordon", "node-1"]);
        drained
    });
    let drained = tokio::select! {
        drained = draining => drained.unwrap(),
        () = agent => String::new(),
    };
    assert!(drained.contains("drained"), "{drained}");
    kubernetes.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_with_the_token_of_an_account_may_what_its_role_says() {
    let (kubernetes, kubectl) = world("roles").await;
    let rbac = "rbac.authorization.k8s.io";
    let meta = json!({"name": "robot", "namespace": "default"});
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]);
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": meta, "rules": rules}),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": meta,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "robot"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        }),
    ] {
        kubectl.ok(&["apply", "-f", &kubectl.file("object.json", &object)]);
    }
    let request = kubectl.file(
        "token.json",
        &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
    );
    let answer = kubectl.ok(&[
        "create",
        "--raw",
        "/api/v1/namespaces/default/serviceaccounts/robot/token",
        "-f",
        &request,
    ]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let token = format!("--token={}", answer["status"]["token"].as_str().unwrap());
    kubectl.ok(&[&token, "get", "configmaps"]);
    assert!(kubectl.fails(&[&token, "get", "secrets"]).contains("Forbidden"));
    assert!(
        kubectl
            .fails(&[&token, "delete", "configmap", "x"])
            .contains("Forbidden")
    );
    assert!(
        kubectl
            .fails(&["--token=nonsense", "get", "configmaps"])
            .contains("must be logged in")
    );
    // Commands that send protobuf are refused in words that help.
    assert!(
        kubectl
            .fails(&["create", "serviceaccount", "x"])
            .contains("kubectl create -f")
    );
    kubernetes.shutdown().await;
}
