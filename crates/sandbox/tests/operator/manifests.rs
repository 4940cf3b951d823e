//! Manifests that cannot be followed, each refused with a message that says what to write instead.

use anyhow::{Context, Result, bail, ensure};
use api::MemgraphCluster;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, PostParams};
use kube::{CustomResourceExt, ResourceExt};
use sandbox::kube::Kubernetes;
use serde_json::{Value, json};

/// What is wrong, and a part of what is said.
fn bad() -> Vec<(Value, &'static str)> {
    [
        bad_pods(),
        bad_flags(),
        bad_policies(),
        bad_gateways(),
        bad_reads(),
        bad_wishes(),
    ]
    .concat()
}

fn bad_pods() -> Vec<(Value, &'static str)> {
    vec![
        (json!({ "replicas": 0 }), "2 to 9"),
        (json!({ "replicas": 1 }), "2 to 9"),
        (json!({ "replicas": 10 }), "2 to 9"),
        (json!({ "replicas": -1 }), "replicas"),
        (json!({ "replicas": 300 }), "replicas"),
        (json!({ "replicas": "three" }), "replicas"),
        (json!({ "replicas": 2.5 }), "replicas"),
        (json!({ "image": "" }), "spec.image"),
        (json!({ "image": "memgraph/memgraph" }), "tag or a digest"),
        (json!({ "image": "registry:5000/memgraph" }), "tag or a digest"),
        (
            json!({ "image": "memgraph/memgraph:latest" }),
            "must not be `latest`",
        ),
        (json!({ "image": "memgraph memgraph:3.12.0" }), "blanks"),
        (json!({ "image": 3 }), "image"),
        (json!({ "image": "memgraph/memgraph:3.5.1" }), "before 3.6"),
        (json!({ "image": "memgraph/memgraph:v3.0" }), "before 3.6"),
        (
            json!({ "image": "memgraph/memgraph:2.22.1-malloc" }),
            "before 3.6",
        ),
        (
            json!({ "image": format!("memgraph/memgraph:2.22@sha256:{}", "0".repeat(64)) }),
            "before 3.6",
        ),
        (json!({ "version": "3.5" }), "3.6 or later"),
        (json!({ "version": "2.22.1" }), "3.6 or later"),
        (json!({ "version": "newest" }), "3.6 or later"),
        (json!({ "version": "3" }), "3.6 or later"),
        (json!({ "version": "3.6" }), "different versions"),
        (
            json!({ "image": "memgraph/memgraph:3.10.0", "version": "3.1" }),
            "3.6 or later",
        ),
        (
            json!({ "image": "memgraph/memgraph:3.12.0", "version": "3.12.1" }),
            "different versions",
        ),
        (json!({ "storage": { "size": "0Gi" } }), "such as 10Gi"),
        (json!({ "storage": { "size": "large" } }), "such as 10Gi"),
        (json!({ "storage": { "size": "-1Gi" } }), "such as 10Gi"),
        (json!({ "storage": { "size": "10 Gi" } }), "such as 10Gi"),
        (json!({ "storage": { "size": "" } }), "such as 10Gi"),
        (json!({ "storage": { "storageClass": "" } }), "leave it out"),
        (json!({ "storage": "10Gi" }), "storage"),
        (json!({ "credentials": {} }), "secretName"),
        (json!({ "credentials": { "secretName": "" } }), "name a Secret"),
        (
            json!({ "credentials": { "secretName": "My_Secret" } }),
            "name a Secret",
        ),
        (
            json!({ "credentials": { "secretName": "s", "usernameKey": "" } }),
            "`username`",
        ),
        (
            json!({ "credentials": { "secretName": "s", "passwordKey": "" } }),
            "`password`",
        ),
    ]
}

fn bad_policies() -> Vec<(Value, &'static str)> {
    vec![
        (
            json!({ "failover": { "writesWithoutSync": "Sometimes" } }),
            "writesWithoutSync",
        ),
        (
            json!({ "failover": { "writesWithoutSync": "always" } }),
            "writesWithoutSync",
        ),
        (json!({ "failover": { "fenceTimeout": "Never" } }), "fenceTimeout"),
        (json!({ "failover": { "silentProbes": 0 } }), "2 to 60"),
        (json!({ "failover": { "silentProbes": 1 } }), "2 to 60"),
        (json!({ "failover": { "silentProbes": 61 } }), "2 to 60"),
        (json!({ "failover": { "syncGrace": "0s" } }), "syncGrace"),
        (json!({ "failover": { "syncGrace": "2h" } }), "1s to 1h"),
        (json!({ "failover": { "syncGrace": "500ms" } }), "1s to 1h"),
        (json!({ "failover": { "syncGrace": "soon" } }), "syncGrace"),
        (json!({ "failover": { "syncGrace": 5 } }), "syncGrace"),
        (json!({ "failover": { "drain": "0s" } }), "1s to 45s"),
        (json!({ "failover": { "drain": "46s" } }), "1s to 45s"),
        (json!({ "failover": { "drain": "" } }), "drain"),
        // What `duration()` takes and whole numbers do not.
        (json!({ "failover": { "drain": "1.5s" } }), "such as 10s"),
        (json!({ "failover": { "syncGrace": "1.5s" } }), "such as 5s"),
        (json!({ "hardReset": { "quiet": "0.5h" } }), "such as 2m"),
        (json!({ "hardReset": { "quiet": "+2m" } }), "such as 2m"),
        (json!({ "gateway": { "hold": "1.5s" } }), "such as 10s"),
        (json!({ "gateway": { "drain": "1.5s" } }), "such as 20s"),
        (json!({ "gateway": { "idle": "1.5m" } }), "such as 30m"),
        (
            json!({ "gateway": { "connectTimeout": "1s500us" } }),
            "such as 1s",
        ),
        (json!({ "gateway": { "loginTimeout": "1.5s" } }), "such as 10s"),
        (json!({ "durability": "Maybe" }), "durability"),
        (
            json!({ "durability": "Relaxed", "failover": { "writesWithoutSync": "Never" } }),
            "durability: Strict",
        ),
        (json!({ "gateway": { "replicas": 0 } }), "enabled: false"),
        (json!({ "gateway": { "replicas": 17 } }), "1 to 16"),
        (json!({ "gateway": { "image": "" } }), "leave it out"),
        (
            json!({ "gateway": { "enabled": false, "image": "x:1" } }),
            "remove one of them",
        ),
        (json!({ "gateway": { "enabled": "yes" } }), "enabled"),
        (json!({ "gateway": { "hold": "11m" } }), "0s to 10m"),
        (json!({ "gateway": { "hold": "soon" } }), "hold"),
        (json!({ "gateway": { "drain": "2h" } }), "0s to 1h"),
        (json!({ "gateway": { "idle": "0s" } }), "leave it out"),
        (json!({ "gateway": { "connectTimeout": "1ms" } }), "10ms to 1m"),
        (json!({ "gateway": { "loginTimeout": "10m" } }), "100ms to 5m"),
        (json!({ "gateway": { "maxConnections": 0 } }), "1 to 100000"),
        (json!({ "gateway": { "maxConnectionsPerSource": 0 } }), "no limit"),
        (json!({ "gateway": { "maxWaiting": 100_001 } }), "0 to 100000"),
        (json!({ "gateway": { "newPerSecond": 0 } }), "no limit"),
        (json!({ "gateway": { "newPerSecondPerSource": 0 } }), "no limit"),
        (json!({ "gateway": { "routeWriter": "no port" } }), "HOST:PORT"),
        (json!({ "gateway": { "routeReader": "reads" } }), "HOST:PORT"),
        (json!({ "gateway": { "tls": {} } }), "secretName"),
        (
            json!({ "gateway": { "tls": { "secretName": "" } } }),
            "leave spec.gateway.tls out",
        ),
        (
            json!({ "gateway": { "tls": { "secretName": "x", "clientCaSecretName": "" } } }),
            "clients need no certificate",
        ),
        (
            json!({ "gateway": { "backendTls": { "serverName": "x" } } }),
            "caSecretName",
        ),
        (
            json!({ "gateway": { "backendTls": { "caSecretName": "" } } }),
            "leave spec.gateway.backendTls out",
        ),
        (
            json!({ "gateway": { "backendTls": { "caSecretName": "x", "serverName": "no name" } } }),
            "DNS name",
        ),
        (
            json!({ "gateway": { "proxyProtocol": { "accept": "v2" } } }),
            "accept",
        ),
        (json!({ "gateway": { "accessLogPercent": 101 } }), "0 to 100"),
        (
            json!({ "gateway": { "accessLogPercent": -1 } }),
            "should be greater than or equal to 0",
        ),
    ]
}

fn bad_gateways() -> Vec<(Value, &'static str)> {
    let gateway = |field: &str, value: Value| json!({ "gateway": { field: value } });
    let mut all = vec![
        (gateway("checkTimeout", json!("1ms")), "10ms to 1m"),
        (gateway("checkTimeout", json!("2m")), "10ms to 1m"),
        (gateway("checkTimeout", json!("1.5s")), "such as 2s"),
        (gateway("stallTimeout", json!("0s")), "1s to 24h"),
        (gateway("stallTimeout", json!("25h")), "1s to 24h"),
        (gateway("stallTimeout", json!("1.5m")), "such as 5m"),
        (gateway("stallTimeout", json!(300)), "stallTimeout"),
        (gateway("routeTtl", json!("0s")), "1s to 24h"),
        (gateway("routeTtl", json!("25h")), "1s to 24h"),
        (gateway("routeTtl", json!("1.5s")), "such as 30s"),
        (gateway("maxWaiting", json!(-1)), "maxWaiting"),
    ];
    for to in [
        "memgraph:0",
        "memgraph:65536",
        "memgraph:99999",
        "memgraph:07687",
        ":7687",
        "a:b:7687",
        "memgraph:",
    ] {
        all.push((gateway("routeWriter", json!(to)), "1 to 65535"));
        all.push((gateway("routeReader", json!(to)), "1 to 65535"));
    }
    for name in ["My_Secret", "a secret", "-a", "a-", "a..b", ".a", "a."] {
        all.push((
            gateway("tls", json!({ "secretName": name })),
            "spec.gateway.tls.secretName is the name of a Secret",
        ));
        all.push((
            gateway("tls", json!({ "secretName": "x", "clientCaSecretName": name })),
            "clientCaSecretName is the name of a Secret",
        ));
        all.push((
            gateway("backendTls", json!({ "caSecretName": name })),
            "caSecretName is the name of a Secret",
        ));
    }
    for name in ["a..b", "a.", ".a", "-a.b", "a-.b", "a_b"] {
        let backend = json!({ "caSecretName": "x", "serverName": name });
        all.push((gateway("backendTls", backend), "DNS name"));
    }
    all
}

fn bad_reads() -> Vec<(Value, &'static str)> {
    let reads = |reads: Value| json!({ "gateway": { "reads": reads } });
    vec![
        (reads(json!({ "enabled": "yes" })), "enabled"),
        (reads(json!({ "maxLag": -1 })), "maxLag"),
        (reads(json!({ "maxLag": 1_000_000_001 })), "0 to 1000000000"),
        (reads(json!({ "maxLag": "10s" })), "maxLag"),
        (reads(json!({ "includeSync": 1 })), "includeSync"),
        (reads(json!({ "fallbackToMain": "never" })), "fallbackToMain"),
        (
            json!({ "gateway": { "enabled": false, "reads": { "enabled": true } } }),
            "enable them, or remove spec.gateway.reads",
        ),
        (
            json!({ "replicas": 2, "gateway": { "reads": { "enabled": true } } }),
            "nobody would take reads",
        ),
        (json!({ "gateway": { "wakeOnConnect": "yes" } }), "wakeOnConnect"),
        (json!({ "gateway": { "wakeTimeout": "0s" } }), "1s to 30m"),
        (json!({ "gateway": { "wakeTimeout": "1h" } }), "1s to 30m"),
        (json!({ "gateway": { "wakeTimeout": "soon" } }), "wakeTimeout"),
        (
            json!({ "gateway": { "enabled": false, "wakeOnConnect": true } }),
            "remove one of them",
        ),
    ]
}

fn bad_wishes() -> Vec<(Value, &'static str)> {
    vec![
        (json!({ "onPromotion": [""] }), "empty statement"),
        (json!({ "onPromotion": vec!["RETURN 1"; 101] }), "more than 100"),
        (
            json!({ "onPromotion": ["SET REPLICATION ROLE TO MAIN"] }),
            "what the operator does",
        ),
        (
            json!({ "onPromotion": ["set replication  role to main"] }),
            "what the operator does",
        ),
        (
            json!({ "onPromotion": ["REGISTER REPLICA r SYNC TO 'x'"] }),
            "what the operator does",
        ),
        (
            json!({ "onPromotion": ["drop replica r"] }),
            "what the operator does",
        ),
        (
            json!({ "onPromotion": ["MATCH (n:__mainstay) DELETE n"] }),
            "the mark",
        ),
        (json!({ "onPromotion": "RETURN 1" }), "onPromotion"),
        (json!({ "hibernated": "true" }), "hibernated"),
        (json!({ "paused": {} }), "until"),
        (
            json!({ "paused": { "until": "tomorrow" } }),
            "such as 2026-11-16T04:00:00Z",
        ),
        (
            json!({ "paused": { "until": "2026-11-16" } }),
            "such as 2026-11-16T04:00:00Z",
        ),
        (
            json!({ "paused": { "until": "2026-11-16T04:00:00" } }),
            "such as 2026-11-16T04:00:00Z",
        ),
        (
            json!({ "paused": { "until": "2026-13-40T00:00:00Z" } }),
            "such as 2026-11-16T04:00:00Z",
        ),
        (
            json!({ "paused": { "until": "1969-01-01T00:00:00Z" } }),
            "such as 2026-11-16T04:00:00Z",
        ),
        (
            json!({ "paused": { "until": "2026-02-30T00:00:00Z" } }),
            "spec.paused.until",
        ),
        (
            json!({ "hibernated": true, "paused": { "until": "2026-11-16T04:00:00Z" } }),
            "remove spec.paused",
        ),
    ]
}

fn bad_flags() -> Vec<(Value, &'static str)> {
    let flag = |flag: &str| json!({ "flags": [flag] });
    let mut all = vec![
        (flag("log-level=WARNING"), "begins with `--`"),
        (flag(""), "begins with `--`"),
        (json!({ "flags": "--log-level=WARNING" }), "flags"),
        (json!({ "flags": vec!["--x"; 65] }), "more than 64"),
    ];
    for ours in [
        "--data-directory=/x",
        "--data_directory=/x",
        "--init-file=/x",
        "--bolt-port=1",
        "--storage-wal-enabled=false",
        "--storage-wal-file-flush-every-n-tx=5",
        "--storage-snapshot-on-exit=true",
        "--storage-snapshot-interval-sec=0",
        "--storage-snapshot-interval=1",
        "--replication-restore-state-on-startup=false",
        "--data-recovery-on-startup=false",
        "--storage-mode=ON_DISK_TRANSACTIONAL",
        "--coordinator-id=1",
        "--management-port=1",
        "--nostorage-wal-enabled",
        "--nodata-recovery-on-startup",
        "--noreplication_restore_state_on_startup",
        "--flag-file=/x",
        "--flag_file=/x",
        "--flagfile=/x",
        "--fromenv=storage_wal_enabled",
        "--tryfromenv=storage_wal_enabled",
    ] {
        all.push((flag(ours), "remove it"));
    }
    all
}

struct Bench {
    kubernetes: Kubernetes,
    api: Api<DynamicObject>,
}

impl Bench {
    async fn new() -> Result<Self> {
        let kubernetes = Kubernetes::new(3);
        let client = kubernetes.client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        definitions
            .create(&PostParams::default(), &MemgraphCluster::crd())
            .await?;
        let resource = MemgraphCluster::api_resource();
        Ok(Self {
            api: Api::default_namespaced_with(client, &resource),
            kubernetes,
        })
    }

    async fn create(&self, name: &str, spec: &Value) -> Result<DynamicObject, kube::Error> {
        let object = json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
            "metadata": { "name": name }, "spec": spec,
        });
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        self.api.create(&PostParams::default(), &object).await
    }
}

fn said(result: Result<DynamicObject, kube::Error>) -> Result<String> {
    match result {
        Ok(object) => bail!("accepted: {}", object.data),
        Err(kube::Error::Api(status)) => Ok(status.message.clone()),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test]
async fn bad_manifests_are_refused_with_what_to_write_instead() -> Result<()> {
    let bench = Bench::new().await?;
    let all = bad();
    ensure!(all.len() >= 60, "only {}", all.len());
    let mut wrong = Vec::new();
    for (spec, part) in all {
        match said(bench.create("x", &spec).await) {
            Ok(message) if message.contains(part) => {}
            Ok(message) => wrong.push(format!("{spec}: {message}")),
            Err(error) => {
                wrong.push(format!("{spec}: {error}"));
                bench
                    .api
                    .delete("x", &kube::api::DeleteParams::default())
                    .await
                    .ok();
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    for name in ["with.a.dot", &"a".repeat(41)] {
        let message = said(bench.create(name, &json!({})).await)?;
        ensure!(message.contains("metadata.name"), "{message}");
    }
    bench.kubernetes.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn names_and_addresses_that_are_right_are_taken() -> Result<()> {
    let bench = Bench::new().await?;
    for (number, gateway) in [
        json!({ "routeWriter": "memgraph.example.com:7687", "routeReader": "[fd00::1]:65535", "routeTtl": "1m30s" }),
        json!({ "routeWriter": "m:1", "routeReader": "10.0.0.1:60000", "stallTimeout": "24h", "checkTimeout": "10ms" }),
        json!({ "tls": { "secretName": "memgraph.tls-1", "clientCaSecretName": "c" } }),
        json!({ "backendTls": { "caSecretName": "0", "serverName": "Memgraph-0.example.com" }, "maxWaiting": 0 }),
    ]
    .into_iter()
    .enumerate()
    {
        let made = bench.create(&format!("x{number}"), &json!({ "gateway": gateway })).await;
        let made = made.with_context(|| format!("{gateway}"))?;
        let object: MemgraphCluster = serde_json::from_value(serde_json::to_value(&made)?)?;
        object.spec.gateway.times().context("what is accepted can be read")?;
    }
    bench.kubernetes.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn what_cannot_change_later_is_refused_and_what_can_is_not() -> Result<()> {
    let bench = Bench::new().await?;
    let made = bench
        .create("x", &json!({ "storage": { "size": "5Gi" } }))
        .await?;
    ensure!(
        made.data.pointer("/spec/replicas") == Some(&json!(3)),
        "defaults: {}",
        made.data
    );
    let private = format!("private/db@sha256:{}", "0".repeat(64));
    for (number, (image, version)) in [
        ("memgraph/memgraph:3.12.0", "3.12"),
        ("memgraph/memgraph:v3.12.0-malloc", "3.12.0"),
        ("private/db:7", "3.6"),
        (private.as_str(), "4.0.1"),
    ]
    .into_iter()
    .enumerate()
    {
        let spec = json!({ "image": image, "version": version });
        let made = bench.create(&format!("v{number}"), &spec).await;
        made.with_context(|| format!("{image} as {version}"))?;
    }
    let change = |path: &'static str, value: Value| {
        let mut changed = made.clone();
        if let Some(field) = changed.data.pointer_mut(path) {
            *field = value;
        }
        changed
    };
    let params = PostParams::default();
    let larger = change("/spec/storage/size", json!("6Gi"));
    let message = said(bench.api.replace("x", &params, &larger).await)?;
    ensure!(message.contains("grow the claims"), "{message}");
    let more = change("/spec/replicas", json!(5));
    let now = bench.api.replace("x", &params, &more).await?;
    ensure!(now.name_any() == "x" && now.data.pointer("/spec/replicas") == Some(&json!(5)));
    let object: MemgraphCluster = serde_json::from_value(serde_json::to_value(&now)?)?;
    object.spec.parse().context("what is accepted can be followed")?;
    bench.kubernetes.shutdown().await;
    Ok(())
}
