//! Single pods: probes, images, files, logs, exec, and nothing left behind.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use sandbox::node::{Fault, Loss};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bed::{Bed, eventually, is_deleting, is_ready, lives, party, pod};

const FOREVER: &str = "while :; do sleep 0.05; done";

fn with(mut pod: Value, container: &Value) -> Value {
    if let (Some(target), Some(change)) = (
        pod.pointer_mut("/spec/containers/0")
            .and_then(Value::as_object_mut),
        container.as_object(),
    ) {
        target.extend(change.clone());
    }
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_image_says_so_and_starts_when_nothing_else_is_wrong() -> Result<()> {
    let bed = Bed::new()?;
    bed.create(with(pod("one", FOREVER), &json!({ "image": "redis:7" })))
        .await?;
    let waiting = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["waiting"].clone();
    let stuck = bed
        .until("one", "backing off", |pod| {
            waiting(pod)["reason"] == "ImagePullBackOff"
        })
        .await?;
    let message = waiting(&stuck)["message"].to_string();
    assert!(
        message.contains("redis:7") && message.contains("busybox:*"),
        "{message}"
    );
    assert_eq!(stuck["status"]["phase"], "Pending");
    // The image of a pod may be changed; its node tries again.
    let image = json!({ "spec": { "containers": [{ "name": "main", "image": "busybox:2" }] } });
    bed.pods()
        .patch("one", &PatchParams::default(), &Patch::Strategic(image))
        .await?;
    bed.until_ready("one").await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_fails_its_liveness_is_restarted_and_keeps_its_last_log() -> Result<()> {
    let bed = Bed::new()?;
    let script = "echo run at `cat /proc/uptime`; while :; do sleep 0.05; done";
    let probe = json!({ "exec": { "command": ["test", "!", "-f", "dead"] }, "periodSeconds": 1, "failureThreshold": 1 });
    bed.create(with(pod("one", script), &json!({ "livenessProbe": probe })))
        .await?;
    bed.until_ready("one").await?;
    let first = bed.log("one", false).await?;
    let (_, _, code) = bed.exec("one", &["touch", "dead"], "").await?;
    assert_eq!(code, 0);
    let pod = bed
        .until("one", "restarted", |pod| {
            is_ready(pod) && pod["status"]["containerStatuses"][0]["restartCount"] == 1
        })
        .await?;
    assert_eq!(
        pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 143,
        "by SIGTERM"
    );
    assert_eq!(bed.log("one", true).await?, first);
    let second = bed.log("one", false).await?;
    assert!(second.starts_with("run at") && second != first, "{second}");
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_ignores_sigterm_is_killed_after_its_grace() -> Result<()> {
    let bed = Bed::new()?;
    let mut stubborn = pod("one", "trap '' TERM; while :; do sleep 0.05; done");
    stubborn["spec"]["terminationGracePeriodSeconds"] = json!(1);
    bed.create(stubborn).await?;
    bed.until_ready("one").await?;
    let groups = bed.nodes.processes(&party("one"));
    bed.pods().delete("one", &DeleteParams::default()).await?;
    bed.until("one", "gone", Value::is_null).await?;
    assert!(groups.iter().all(|group| !lives(*group)));
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn files_from_the_api_follow_it_while_the_process_runs() -> Result<()> {
    let bed = Bed::new()?;
    bed.create(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "words", "namespace": "default" },
        "data": { "word": "old" },
    }))
    .await?;
    let mut reader = with(
        pod("one", FOREVER),
        &json!({ "volumeMounts": [{ "name": "words", "mountPath": "/etc/words" }, { "name": "api", "mountPath": "/api" }] }),
    );
    reader["spec"]["volumes"] = json!([
        { "name": "words", "configMap": { "name": "words" } },
        { "name": "api", "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } },
    ]);
    bed.create(reader).await?;
    bed.until_ready("one").await?;
    assert_eq!(bed.exec("one", &["cat", "/etc/words/word"], "").await?.0, "old");
    let (token, _, _) = bed.exec("one", &["cat", "/api/token"], "").await?;
    let user = bed
        .kubernetes
        .with_store(|store| store.authenticate(bed.kubernetes.now(), &token));
    assert_eq!(
        user.context("a good token")?.name,
        "system:serviceaccount:default:default"
    );
    let maps: Api<ConfigMap> = Api::default_namespaced(bed.client.clone());
    maps.patch(
        "words",
        &PatchParams::default(),
        &Patch::Merge(json!({ "data": { "word": "new" } })),
    )
    .await?;
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
    while bed.exec("one", &["cat", "/etc/words/word"], "").await?.0 != "new" {
        anyhow::ensure!(tokio::time::Instant::now() < deadline, "the file does not follow");
    }
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_waits_for_what_it_needs_and_says_what_that_is() -> Result<()> {
    let bed = Bed::new()?;
    let env = json!([{ "name": "X", "valueFrom": { "secretKeyRef": { "name": "keys", "key": "k" } } }]);
    bed.create(with(pod("one", FOREVER), &json!({ "env": env })))
        .await?;
    let reason = "CreateContainerConfigError";
    bed.until("one", reason, |pod| {
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
    })
    .await?;
    bed.create(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys", "namespace": "default" },
        "stringData": { "k": "v" },
    }))
    .await?;
    bed.until_ready("one").await?;
    assert_eq!(bed.exec("one", &["/bin/sh", "-c", "echo $X"], "").await?.0, "v\n");
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_has_input_output_errors_and_an_exit_code() -> Result<()> {
    let bed = Bed::new()?;
    bed.create(pod("one", FOREVER)).await?;
    bed.until_ready("one").await?;
    let script = "read line; echo out $line; echo err >&2; exit 7";
    let (out, err, code) = bed.exec("one", &["/bin/sh", "-c", script], "typed\n").await?;
    assert_eq!((out.as_str(), err.as_str(), code), ("out typed\n", "err\n", 7));
    let (_, err, code) = bed.exec("one", &["/no/such/program"], "").await?;
    assert!(code == 127 && err.contains("/no/such/program"), "{code} {err}");
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_followed_log_ends_with_its_container() -> Result<()> {
    let bed = Bed::new()?;
    let mut task = pod(
        "one",
        "for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done; echo last",
    );
    task["spec"]["restartPolicy"] = json!("Never");
    bed.create(task).await?;
    bed.until("one", "running", |pod| pod["status"]["phase"] == "Running")
        .await?;
    let follow = kube::api::LogParams {
        follow: true,
        ..Default::default()
    };
    let mut stream = bed.pods().log_stream("one", &follow).await?;
    let mut text = String::new();
    futures::AsyncReadExt::read_to_string(&mut stream, &mut text).await?;
    assert_eq!(text, "line 1\nline 2\nline 3\nline 4\nline 5\nlast\n");
    bed.until("one", "done", |pod| pod["status"]["phase"] == "Succeeded")
        .await?;
    let tail = kube::api::LogParams {
        tail_lines: Some(1),
        ..Default::default()
    };
    assert_eq!(bed.pods().logs("one", &tail).await?, "last\n");
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_forwarded_to_the_pod() -> Result<()> {
    let bed = Bed::new()?;
    let helper = json!({
        "image": "helper", "args": ["helper::serve"], "env": [{ "name": "LISTEN", "value": "0.0.0.0:7687" }],
        "readinessProbe": { "tcpSocket": { "port": 7687 }, "periodSeconds": 1 },
    });
    bed.create(with(pod("one", ""), &helper)).await?;
    bed.until_ready("one").await?;
    let mut forward = bed.pods().portforward("one", &[7687]).await?;
    let mut stream = forward.take_stream(7687).context("a stream")?;
    stream.write_all(b"hello\n").await?;
    let mut begin = [0; 6];
    stream.read_exact(&mut begin).await?;
    assert_eq!(&begin, b"tick 0");
    drop(stream);
    bed.end().await
}

/// Whoever comes before anybody is ready is sent away, so that somebody has to be asked for first.
#[tokio::test(flavor = "multi_thread")]
async fn a_door_leads_to_a_service_once_a_pod_of_it_is_ready() -> Result<()> {
    let bed = Bed::new()?;
    bed.create(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "front", "namespace": "default" },
        "spec": { "selector": { "app": "front" }, "ports": [{ "port": 7687 }] },
    }))
    .await?;
    let door = bed
        .nodes
        .door(([127, 0, 0, 1], 0).into(), "default", "front", 7687);
    let door = door.await?;
    let address = door.address()?;
    let open = tokio::spawn(door.run());
    assert!(!bed.nodes.is_served("default", "front"));
    let mut early = TcpStream::connect(address).await?;
    let answer = early.read(&mut [0; 1]).await;
    assert!(!matches!(answer, Ok(1..)), "{answer:?}");

    let helper = json!({
        "image": "helper", "args": ["helper::serve"], "env": [{ "name": "LISTEN", "value": "0.0.0.0:7687" }],
        "readinessProbe": { "tcpSocket": { "port": 7687 }, "periodSeconds": 1 },
    });
    let mut one = with(pod("one", ""), &helper);
    one["metadata"]["labels"] = json!({ "app": "front" });
    bed.create(one).await?;
    eventually("served", || bed.nodes.is_served("default", "front")).await?;
    assert!(is_ready(&bed.pod("one").await?));
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"hello\n").await?;
    let mut begin = [0; 6];
    stream.read_exact(&mut begin).await?;
    assert_eq!(&begin, b"tick 0");
    open.abort();
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_node_goes_on_as_if_nothing_had_happened() -> Result<()> {
    let bed = Bed::new()?;
    bed.create(pod("one", FOREVER)).await?;
    let before = bed.until_ready("one").await?;
    let home = before["spec"]["nodeName"].as_str().context("a node")?.to_owned();
    bed.nodes.lose(&home, Loss::Freeze)?;
    bed.until("one", "not ready", |pod| !is_ready(pod)).await?;
    let refused = bed.exec("one", &["true"], "").await;
    assert!(refused.is_err(), "its node does not answer: {refused:?}");
    bed.nodes.revive(&home)?;
    let after = bed.until_ready("one").await?;
    let run = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    assert_eq!(run(&after), run(&before), "the same process");
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_volume_is_empty_under_its_process() -> Result<()> {
    let bed = Bed::new()?;
    bed.create(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "disk", "namespace": "default" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }))
    .await?;
    let mut writer = with(
        pod(
            "one",
            "mkdir -p /disk/a; echo x > /disk/a/b; while :; do sleep 0.05; done",
        ),
        &json!({ "volumeMounts": [{ "name": "disk", "mountPath": "/disk" }] }),
    );
    writer["spec"]["volumes"] = json!([{ "name": "disk", "persistentVolumeClaim": { "claimName": "disk" } }]);
    bed.create(writer).await?;
    bed.until_ready("one").await?;
    eventually("written", || bed.data("disk", "a/b").is_ok()).await?;
    bed.nodes.wipe("default", "disk")?;
    assert_eq!(bed.exec("one", &["ls", "/disk"], "").await?.0, "");
    assert!(
        matches!(bed.nodes.happened().as_slice(), [one] if one.fault == Fault::Wipe("default".into(), "disk".into()))
    );
    assert!(bed.nodes.wipe("default", "other").is_err());

    // A claim that is deleted waits for its pod, then takes its folder along.
    let folder = bed.nodes.volume("default", "disk").context("a folder")?;
    let claims: Api<k8s_openapi::api::core::v1::PersistentVolumeClaim> =
        Api::default_namespaced(bed.client.clone());
    claims.delete("disk", &DeleteParams::default()).await?;
    assert!(is_deleting(&serde_json::to_value(claims.get("disk").await?)?));
    bed.pods()
        .delete("one", &DeleteParams::default().grace_period(1))
        .await?;
    eventually("the folder is gone", || !folder.exists()).await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_deleted_by_force_leaves_no_process() -> Result<()> {
    let bed = Bed::new()?;
    bed.create(pod("one", FOREVER)).await?;
    bed.until_ready("one").await?;
    let groups = bed.nodes.processes(&party("one"));
    bed.pods()
        .delete("one", &DeleteParams::default().grace_period(0))
        .await?;
    assert!(bed.pod("one").await?.is_null());
    eventually("ended", || groups.iter().all(|group| !lives(*group))).await?;
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_nodes_stop_nothing_is_left() -> Result<()> {
    let bed = Bed::new()?;
    // A child of the pod's process, which only its group reaches.
    bed.create(pod("one", "trap '' TERM; sleep 1000 & wait")).await?;
    bed.until_ready("one").await?;
    let groups = bed.nodes.processes(&party("one"));
    assert!(!groups.is_empty() && groups.iter().all(|group| lives(*group)));
    bed.end().await?;
    eventually("ended", || groups.iter().all(|group| !lives(*group))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_sandbox_itself_is_killed_nothing_is_left() -> Result<()> {
    let mut victim = Command::new(std::env::current_exe()?)
        .args(["--ignored", "--exact", "--nocapture", "helper::victim"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(victim.stdout.take().context("its output")?).lines();
    let mut word = |name: &str| -> Result<String> {
        for line in lines.by_ref() {
            // The harness writes the name of the test before the first line.
            if let Some((_, rest)) = line?.split_once(&format!("{name} ")) {
                return Ok(rest.to_owned());
            }
        }
        anyhow::bail!("no {name}")
    };
    let folder = word("folder")?;
    let groups: Vec<i32> = serde_json::from_str(&word("groups")?)?;
    assert!(!groups.is_empty() && groups.iter().all(|group| lives(*group)));
    victim.kill()?;
    victim.wait()?;
    eventually("ended", || groups.iter().all(|group| !lives(*group))).await?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
