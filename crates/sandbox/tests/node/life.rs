//! The whole life of a StatefulSet: created, scaled, rolled, drained, killed,
//! its node lost.

use anyhow::{Context, Result};
use jiff::SignedDuration;
use kube::api::{Api, EvictParams, Patch, PatchParams};
use sandbox::node::{Fault, Loss, lookup};
use serde_json::{Value, json};

use crate::bed::{Bed, condition, eventually, is_deleting, is_ready, lives, party};

/// Says when it starts and ends; is ready once it said so.
const SERVER: &str = r#"
    echo "$GREETING from $POD_NAME" >> /data/starts
    trap 'echo term >> /data/ends; exit 0' TERM
    touch ready
    while :; do sleep 0.05; done
"#;

fn set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": "db", "namespace": "default" },
        "spec": {
            "replicas": 3,
            "serviceName": "db",
            "selector": { "matchLabels": { "app": "db" } },
            "template": {
                "metadata": { "labels": { "app": "db" } },
                "spec": {
                    "terminationGracePeriodSeconds": 20,
                    "tolerations": [{
                        "key": "node.kubernetes.io/unreachable", "operator": "Exists",
                        "effect": "NoExecute", "tolerationSeconds": 1,
                    }],
                    "initContainers": [{
                        "name": "init", "image": "busybox:1",
                        "command": ["/bin/sh"], "args": ["-c", "echo init >> /data/inits"],
                        "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                    }],
                    "containers": [{
                        "name": "main", "image": "busybox:1", "args": ["-c", SERVER],
                        "env": [
                            { "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                            { "name": "GREETING", "valueFrom": { "configMapKeyRef": { "name": "words", "key": "greeting" } } },
                        ],
                        "readinessProbe": { "exec": { "command": ["test", "-f", "ready"] }, "periodSeconds": 1 },
                        "lifecycle": { "preStop": { "exec": { "command": ["/bin/sh", "-c", "echo stop >> /data/ends"] } } },
                        "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
                    }],
                },
            },
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            }],
        },
    })
}

async fn created() -> Result<Bed> {
    on(Bed::new()?).await
}

async fn on(bed: Bed) -> Result<Bed> {
    bed.create(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "words", "namespace": "default" },
        "data": { "greeting": "hello" },
    }))
    .await?;
    bed.create(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "db", "namespace": "default" },
        "spec": { "clusterIP": "None", "selector": { "app": "db" }, "ports": [{ "port": 7687 }] },
    }))
    .await?;
    bed.create(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "db", "namespace": "default" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "db" } } },
    }))
    .await?;
    bed.create(set()).await?;
    bed.until_replicas(3).await?;
    Ok(bed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_created_scaled_and_rolled() -> Result<()> {
    let bed = created().await?;

    // Created: one after the other, each with its own address, data and name.
    let mut addresses = Vec::new();
    for name in ["db-0", "db-1", "db-2"] {
        let pod = bed.pod(name).await?;
        assert_eq!(
            pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"],
            "Completed"
        );
        assert_eq!(
            bed.data(&format!("data-{name}"), "starts")?,
            format!("hello from {name}\n")
        );
        assert_eq!(bed.data(&format!("data-{name}"), "inits")?, "init\n");
        addresses.push(pod["status"]["podIP"].as_str().context("an address")?.to_owned());
    }
    let hosts = std::fs::read_to_string(bed.nodes.hosts_file("default"))?;
    assert_eq!(
        lookup(&hosts, "db-1.db.default.svc.cluster.local"),
        [addresses[1].as_str()]
    );
    assert_eq!(lookup(&hosts, "db-2.db"), [addresses[2].as_str()]);
    assert_eq!(lookup(&hosts, "db").len(), 3);
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 3);

    // Scaled: the last one leaves with its hook, its data stays, and it comes back to it.
    bed.patch_set(json!({ "spec": { "replicas": 2 } })).await?;
    bed.until_replicas(2).await?;
    assert_eq!(bed.data("data-db-2", "ends")?, "stop\nterm\n");
    assert!(bed.pod("db-2").await?.is_null());
    bed.patch_set(json!({ "spec": { "replicas": 3 } })).await?;
    bed.until_replicas(3).await?;
    assert_eq!(bed.data("data-db-2", "starts")?.lines().count(), 2);

    // Rolled: every pod once, and ends as asked.
    let before = bed.pod("db-0").await?["metadata"]["uid"].clone();
    bed.patch_set(
        json!({ "spec": { "template": { "metadata": { "annotations": { "restarted": "now" } } } } }),
    )
    .await?;
    bed.until_set("rolling", |set| {
        set["status"]["currentRevision"] != set["status"]["updateRevision"]
    })
    .await?;
    bed.until_replicas(3).await?;
    assert_ne!(bed.pod("db-0").await?["metadata"]["uid"], before);
    assert_eq!(bed.data("data-db-0", "starts")?.lines().count(), 2);
    assert_eq!(bed.data("data-db-0", "ends")?, "stop\nterm\n");
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_drained_as_far_as_the_budget_allows() -> Result<()> {
    let bed = created().await?;
    let home = bed.pod("db-1").await?["spec"]["nodeName"]
        .as_str()
        .context("a node")?
        .to_owned();
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(bed.client.clone());
    let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    nodes.patch(&home, &PatchParams::default(), &cordon).await?;
    bed.pods().evict("db-1", &EvictParams::default()).await?;
    let refused = bed.pods().evict("db-2", &EvictParams::default()).await;
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 429),
        "{refused:?}"
    );
    let moved = bed
        .until("db-1", "on another node", |pod| {
            is_ready(pod) && pod["spec"]["nodeName"] != home
        })
        .await?;
    assert_eq!(bed.data("data-db-1", "starts")?.lines().count(), 2, "{moved}");
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_is_another_one_in_the_same_pod() -> Result<()> {
    let bed = created().await?;
    let before = bed.pod("db-0").await?;
    bed.nodes.kill(&party("db-0"), None)?;
    let after = bed
        .until("db-0", "restarted", |pod| {
            is_ready(pod) && pod["status"]["containerStatuses"][0]["restartCount"] == 1
        })
        .await?;
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
    assert_eq!(before["status"]["podIP"], after["status"]["podIP"]);
    let (before, after) = (
        &before["status"]["containerStatuses"][0],
        &after["status"]["containerStatuses"][0],
    );
    assert_ne!(before["containerID"], after["containerID"]);
    assert_eq!(after["lastState"]["terminated"]["exitCode"], 137);
    assert_eq!(
        after["lastState"]["terminated"]["containerID"],
        before["containerID"]
    );
    assert_eq!(
        bed.data("data-db-0", "inits")?,
        "init\n",
        "init containers run once per pod"
    );
    let happened = bed.nodes.happened();
    assert!(
        matches!(happened.as_slice(), [one] if one.fault == Fault::Kill(party("db-0"))),
        "{happened:?}"
    );
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_node_keeps_its_pod_until_it_comes_back() -> Result<()> {
    let bed = created().await?;
    let before = bed.pod("db-2").await?;
    let home = before["spec"]["nodeName"].as_str().context("a node")?.to_owned();
    let processes = bed.nodes.processes(&party("db-2"));
    assert!(!processes.is_empty());
    bed.nodes.lose(&home, Loss::Agent)?;
    bed.until("db-2", "not ready", |pod| !is_ready(pod)).await?;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(bed.client.clone());
    assert_eq!(
        condition(&serde_json::to_value(nodes.get(&home).await?)?, "Ready"),
        "Unknown"
    );
    let deleted = bed.until("db-2", "being deleted", is_deleting).await?;
    assert_eq!(deleted["metadata"]["uid"], before["metadata"]["uid"]);
    // Its processes live on: nobody there saw the deletion.
    assert!(processes.iter().all(|group| lives(*group)));
    assert!(bed.data("data-db-2", "ends").is_err());

    bed.nodes.revive(&home)?;
    let uid = before["metadata"]["uid"].clone();
    bed.until("db-2", "another pod", |pod| {
        is_ready(pod) && pod["metadata"]["uid"] != uid
    })
    .await?;
    eventually("the old processes ended", || {
        processes.iter().all(|group| !lives(*group))
    })
    .await?;
    assert_eq!(bed.data("data-db-2", "ends")?, "stop\nterm\n");
    bed.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_ends_processes_without_a_word() -> Result<()> {
    // Long enough that the node is not missed before it is back, also on a busy machine.
    let bed = Bed::with(|config| config.node_grace = SignedDuration::from_mins(2))?;
    let bed = on(bed).await?;
    let pod = bed.pod("db-0").await?;
    let home = pod["spec"]["nodeName"].as_str().context("a node")?.to_owned();
    let processes = bed.nodes.processes(&party("db-0"));
    bed.nodes.lose(&home, Loss::Power)?;
    eventually("the processes are gone", || {
        processes.iter().all(|group| !lives(*group))
    })
    .await?;
    assert!(bed.data("data-db-0", "ends").is_err(), "no hook, no signal");
    assert!(is_ready(&bed.pod("db-0").await?), "nobody knows it yet");
    bed.nodes.revive(&home)?;
    let after = bed
        .until("db-0", "restarted", |pod| {
            is_ready(pod) && pod["status"]["containerStatuses"][0]["restartCount"] == 1
        })
        .await?;
    assert_eq!(after["metadata"]["uid"], pod["metadata"]["uid"]);
    bed.end().await
}
