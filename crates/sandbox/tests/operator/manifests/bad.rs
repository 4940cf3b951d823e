//! Specs that cannot be followed, and what is said of each: what to write instead, and not only which field it is.

use serde_json::{Value, json};

/// What is wrong, and a part of what is said.
pub(super) fn all() -> Vec<(Value, &'static str)> {
    [
        pods(),
        flags(),
        policies(),
        gateway_policies(),
        gateways(),
        reads(),
        wishes(),
    ]
    .concat()
}

fn pods() -> Vec<(Value, &'static str)> {
    vec![
        (json!({ "replicas": 0 }), "2 to 9"),
        (json!({ "replicas": 1 }), "2 to 9"),
        (json!({ "replicas": 10 }), "2 to 9"),
        (json!({ "replicas": -1 }), "2 to 9"),
        (json!({ "replicas": 300 }), "2 to 9"),
        (
            json!({ "replicas": "three" }),
            "spec.replicas in body must be of type integer",
        ),
        (
            json!({ "replicas": 2.5 }),
            "spec.replicas in body must be of type integer",
        ),
        (
            json!({ "image": "" }),
            "write for example memgraph/memgraph:3.12.0",
        ),
        (json!({ "image": "memgraph/memgraph" }), "tag or a digest"),
        (json!({ "image": "registry:5000/memgraph" }), "tag or a digest"),
        (
            json!({ "image": "memgraph/memgraph:latest" }),
            "must not be `latest`",
        ),
        (
            json!({ "image": "memgraph memgraph:3.12.0" }),
            "is empty or has blanks",
        ),
        (json!({ "image": 3 }), "spec.image in body must be of type string"),
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
        (
            json!({ "storage": "10Gi" }),
            "spec.storage in body must be of type object",
        ),
        (
            json!({ "credentials": {} }),
            "spec.credentials.secretName: Required value",
        ),
        (json!({ "credentials": { "secretName": "" } }), "name a Secret"),
        (
            json!({ "credentials": { "secretName": "My_Secret" } }),
            "name a Secret",
        ),
        (
            json!({ "credentials": { "secretName": "s", "usernameKey": "" } }),
            "the default is `username`",
        ),
        (
            json!({ "credentials": { "secretName": "s", "passwordKey": "" } }),
            "the default is `password`",
        ),
    ]
}

fn policies() -> Vec<(Value, &'static str)> {
    vec![
        (
            json!({ "failover": { "writesWithoutSync": "Sometimes" } }),
            r#"supported values: "AfterFailover", "Always", "Never""#,
        ),
        (
            json!({ "failover": { "writesWithoutSync": "always" } }),
            r#"supported values: "AfterFailover", "Always", "Never""#,
        ),
        (
            json!({ "failover": { "fenceTimeout": "Never" } }),
            r#"supported values: "Proceed", "Wait""#,
        ),
        (json!({ "failover": { "silentProbes": 0 } }), "2 to 60"),
        (json!({ "failover": { "silentProbes": 1 } }), "2 to 60"),
        (json!({ "failover": { "silentProbes": 61 } }), "2 to 60"),
        (json!({ "failover": { "syncGrace": "0s" } }), "1s to 1h"),
        (json!({ "failover": { "syncGrace": "2h" } }), "1s to 1h"),
        (json!({ "failover": { "syncGrace": "500ms" } }), "1s to 1h"),
        (json!({ "failover": { "syncGrace": "soon" } }), "such as 5s"),
        (
            json!({ "failover": { "syncGrace": 5 } }),
            "spec.failover.syncGrace in body must be of type string",
        ),
        (json!({ "failover": { "drain": "0s" } }), "1s to 45s"),
        (json!({ "failover": { "drain": "46s" } }), "1s to 45s"),
        (json!({ "failover": { "drain": "" } }), "1s to 45s, such as 10s"),
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
        (
            json!({ "durability": "Maybe" }),
            r#"supported values: "Strict", "Relaxed""#,
        ),
        (
            json!({ "durability": "Relaxed", "failover": { "writesWithoutSync": "Never" } }),
            "durability: Strict",
        ),
    ]
}

fn gateway_policies() -> Vec<(Value, &'static str)> {
    vec![
        (json!({ "gateway": { "replicas": 0 } }), "enabled: false"),
        (json!({ "gateway": { "replicas": 17 } }), "1 to 16"),
        (json!({ "gateway": { "replicas": 300 } }), "1 to 16"),
        (json!({ "hardReset": { "keep": 300 } }), "0 to 20"),
        (json!({ "hardReset": { "perHour": -1 } }), "0 to 60"),
        (json!({ "gateway": { "image": "" } }), "leave it out"),
        (
            json!({ "gateway": { "enabled": false, "image": "x:1" } }),
            "remove one of them",
        ),
        (
            json!({ "gateway": { "enabled": "yes" } }),
            "spec.gateway.enabled in body must be of type boolean",
        ),
        (json!({ "gateway": { "hold": "11m" } }), "0s to 10m"),
        (json!({ "gateway": { "hold": "soon" } }), "0s to 10m, such as 10s"),
        (json!({ "gateway": { "drain": "2h" } }), "0s to 1h"),
        (json!({ "gateway": { "idle": "0s" } }), "leave it out"),
        (json!({ "gateway": { "connectTimeout": "1ms" } }), "10ms to 1m"),
        (json!({ "gateway": { "loginTimeout": "10m" } }), "100ms to 5m"),
        (json!({ "gateway": { "maxConnections": 0 } }), "1 to 100000"),
        (json!({ "gateway": { "maxConnectionsPerSource": 0 } }), "no limit"),
        (json!({ "gateway": { "maxWaiting": 100_001 } }), "0 to 100000"),
        (json!({ "gateway": { "newPerSecond": 0 } }), "no limit"),
        (json!({ "gateway": { "newPerSecondPerSource": 0 } }), "no limit"),
        (
            json!({ "gateway": { "routeWriter": "no port" } }),
            "is HOST:PORT with a port of 1 to 65535",
        ),
        (
            json!({ "gateway": { "routeReader": "reads" } }),
            "is HOST:PORT with a port of 1 to 65535",
        ),
        (
            json!({ "gateway": { "tls": {} } }),
            "spec.gateway.tls.secretName: Required value",
        ),
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
            "spec.gateway.backendTls.caSecretName: Required value",
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
            "spec.gateway.proxyProtocol.accept in body must be of type boolean",
        ),
        (json!({ "gateway": { "accessLogPercent": 101 } }), "0 to 100"),
        (json!({ "gateway": { "accessLogPercent": -1 } }), "0 to 100"),
    ]
}

fn gateways() -> Vec<(Value, &'static str)> {
    let gateway = |field: &str, value: Value| json!({ "gateway": { field: value } });
    let mut all = vec![
        (gateway("checkTimeout", json!("1ms")), "10ms to 1m"),
        (gateway("checkTimeout", json!("2m")), "10ms to 1m"),
        (gateway("checkTimeout", json!("1.5s")), "such as 2s"),
        (gateway("stallTimeout", json!("0s")), "1s to 24h"),
        (gateway("stallTimeout", json!("25h")), "1s to 24h"),
        (gateway("stallTimeout", json!("1.5m")), "such as 5m"),
        (
            gateway("stallTimeout", json!(300)),
            "spec.gateway.stallTimeout in body must be of type string",
        ),
        (gateway("routeTtl", json!("0s")), "1s to 24h"),
        (gateway("routeTtl", json!("25h")), "1s to 24h"),
        (gateway("routeTtl", json!("1.5s")), "such as 30s"),
        (gateway("maxWaiting", json!(-1)), "0 to 100000; leave it out"),
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

fn reads() -> Vec<(Value, &'static str)> {
    let reads = |reads: Value| json!({ "gateway": { "reads": reads } });
    vec![
        (
            reads(json!({ "enabled": "yes" })),
            "spec.gateway.reads.enabled in body must be of type boolean",
        ),
        (reads(json!({ "maxLag": -1 })), "0 to 1000000000"),
        (reads(json!({ "maxLag": 1_000_000_001 })), "0 to 1000000000"),
        (
            reads(json!({ "maxLag": "10s" })),
            "spec.gateway.reads.maxLag in body must be of type integer",
        ),
        (
            reads(json!({ "includeSync": 1 })),
            "spec.gateway.reads.includeSync in body must be of type boolean",
        ),
        (
            reads(json!({ "fallbackToMain": "never" })),
            "spec.gateway.reads.fallbackToMain in body must be of type boolean",
        ),
        (
            json!({ "gateway": { "enabled": false, "reads": { "enabled": true } } }),
            "enable them, or remove spec.gateway.reads",
        ),
        (
            json!({ "replicas": 2, "gateway": { "reads": { "enabled": true } } }),
            "nobody would take reads",
        ),
        (
            json!({ "gateway": { "wakeOnConnect": "yes" } }),
            "spec.gateway.wakeOnConnect in body must be of type boolean",
        ),
        (json!({ "gateway": { "wakeTimeout": "0s" } }), "1s to 30m"),
        (json!({ "gateway": { "wakeTimeout": "1h" } }), "1s to 30m"),
        (
            json!({ "gateway": { "wakeTimeout": "soon" } }),
            "1s to 30m, such as 2m",
        ),
        (
            json!({ "gateway": { "enabled": false, "wakeOnConnect": true } }),
            "remove one of them",
        ),
    ]
}

fn wishes() -> Vec<(Value, &'static str)> {
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
        (
            json!({ "onPromotion": "RETURN 1" }),
            "spec.onPromotion in body must be of type array",
        ),
        (
            json!({ "hibernated": "true" }),
            "spec.hibernated in body must be of type boolean",
        ),
        (json!({ "paused": {} }), "spec.paused.until: Required value"),
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
            "such as 2026-11-16T04:00:00Z",
        ),
        (
            json!({ "hibernated": true, "paused": { "until": "2026-11-16T04:00:00Z" } }),
            "remove spec.paused",
        ),
    ]
}

fn flags() -> Vec<(Value, &'static str)> {
    let flag = |flag: &str| json!({ "flags": [flag] });
    let mut all = vec![
        (flag("log-level=WARNING"), "begins with `--`"),
        (flag(""), "begins with `--`"),
        (
            json!({ "flags": "--log-level=WARNING" }),
            "spec.flags in body must be of type array",
        ),
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
