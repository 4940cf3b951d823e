//! Manifests that cannot be followed, each refused with a message that says what to write instead.

use anyhow::{Result, bail, ensure};
use api::RingCluster;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{CustomResourceExt, Resource};
use sandbox::kube::Kubernetes;
use serde_json::{Value, json};

/// What is wrong, and a part of what is said.
fn bad() -> Vec<(Value, &'static str)> {
    let flag = |flag: &str| json!({ "flags": [flag] });
    let rack = |rack: Value| json!({ "racks": [rack] });
    vec![
        (json!({ "image": null }), "image"),
        (json!({ "image": "" }), "spec.image"),
        (json!({ "image": "scylladb/scylla" }), "tag or a digest"),
        (
            json!({ "image": "scylladb/scylla:latest" }),
            "must not be `latest`",
        ),
        (json!({ "image": "scylladb scylla:5.4" }), "blanks"),
        (json!({ "image": "scylla:mine" }), "spec.version"),
        (json!({ "image": "scylla@sha256:00" }), "spec.version"),
        (json!({ "version": "latest" }), "two numbers"),
        (json!({ "version": "5" }), "two numbers"),
        (json!({ "engine": "Mysql" }), "engine"),
        (
            json!({ "engine": "Cassandra", "flags": ["--smp=2"] }),
            "option of Java",
        ),
        (
            json!({ "engine": "Cassandra", "flags": ["-Dcassandra.replace_address=10.0.0.1"] }),
            "remove it",
        ),
        (
            json!({ "engine": "Cassandra", "flags": ["-Dcassandra.allow_unsafe_join=true"] }),
            "remove it",
        ),
        (
            json!({ "engine": "Cassandra", "attends": "simple" }),
            "engine is then Scylla",
        ),
        (json!({ "attends": "Simple!" }), "ScyllaCluster"),
        (json!({ "engine": "scylla" }), "engine"),
        (json!({ "racks": null }), "racks"),
        (json!({ "racks": [] }), "at least one rack"),
        (rack(json!({ "name": "a" })), "members"),
        (rack(json!({ "name": "A", "members": 1 })), "lower case"),
        (rack(json!({ "name": "a_b", "members": 1 })), "lower case"),
        (rack(json!({ "name": "sixteen-letters-", "members": 1 })), "rack"),
        (rack(json!({ "name": "a", "members": 33 })), "0 to 32"),
        (rack(json!({ "name": "a", "members": -1 })), "members"),
        (
            json!({ "racks": [{ "name": "a", "members": 1 }, { "name": "a", "members": 1 }] }),
            "same name",
        ),
        (json!({ "datacenter": "" }), "spec.datacenter"),
        (json!({ "datacenter": "a b" }), "spec.datacenter"),
        (json!({ "storage": { "size": "0Gi" } }), "such as 10Gi"),
        (json!({ "storage": { "storageClass": "" } }), "leave it out"),
        (json!({ "command": "scylla" }), "absolute path"),
        (flag("smp=2"), "begins with `--`"),
        (flag("--workdir=/x"), "remove it"),
        (flag("--seeds=10.0.0.1"), "remove it"),
        (flag("--seed-provider-parameters=x"), "remove it"),
        (flag("--replace-node-first-boot=x"), "remove it"),
        (flag("--replace_address_first_boot=x"), "remove it"),
        (flag("--ignore-dead-nodes-for-replace=x"), "remove it"),
        (flag("--api-port=1"), "remove it"),
        (flag("--broadcast-address=10.0.0.1"), "remove it"),
        (json!({ "autoreplacement": { "tries": 0 } }), "1 to 10"),
        (json!({ "autoreplacement": { "tries": 11 } }), "1 to 10"),
        (json!({ "autoreplacement": { "enabled": "yes" } }), "enabled"),
        (json!({ "paused": { "until": "tomorrow" } }), "spec.paused.until"),
        (
            json!({ "hibernated": true, "paused": { "until": "2026-11-16T04:00:00Z" } }),
            "exclude each other",
        ),
    ]
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
    let kubernetes = Kubernetes::new(3);
    let client = kubernetes.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &RingCluster::crd())
        .await?;
    let api: Api<DynamicObject> = Api::default_namespaced_with(client, &RingCluster::api_resource());
    let create = async |name: &str, change: &Value| {
        let mut spec =
            json!({ "image": "scylladb/scylla:2025.2.0", "racks": [{ "name": "a", "members": 1 }] });
        if let (Value::Object(spec), Value::Object(change)) = (&mut spec, change.clone()) {
            spec.extend(change);
            spec.retain(|_, value| !value.is_null());
        }
        let object = json!({
            "apiVersion": RingCluster::api_version(&()), "kind": RingCluster::kind(&()),
            "metadata": { "name": name }, "spec": spec,
        });
        let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        api.create(&PostParams::default(), &object).await
    };
    let mut wrong = Vec::new();
    for (change, part) in bad() {
        match said(create("x", &change).await) {
            Ok(message) if message.contains(part) => {}
            Ok(message) => wrong.push(format!("{change}: {message}")),
            Err(error) => {
                wrong.push(format!("{change}: {error}"));
                api.delete("x", &kube::api::DeleteParams::default()).await.ok();
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    for name in ["with.a.dot", &"a".repeat(31)] {
        let message = said(create(name, &json!({})).await)?;
        ensure!(message.contains("metadata.name"), "{message}");
    }
    create("good", &json!({})).await?;
    kubernetes.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_rack_with_members_is_not_taken_away_before_they_were_told_to_leave() -> Result<()> {
    let kubernetes = Kubernetes::new(4);
    let client = kubernetes.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .create(&PostParams::default(), &RingCluster::crd())
        .await?;
    let api: Api<RingCluster> = Api::default_namespaced(client);
    let ring = |name: &str, more: Value| -> Result<RingCluster> {
        let mut spec = json!({ "image": "scylladb/scylla:2025.2.0" });
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        let object = json!({
            "apiVersion": RingCluster::api_version(&()), "kind": RingCluster::kind(&()),
            "metadata": { "name": name }, "spec": spec,
        });
        Ok(serde_json::from_value(object)?)
    };
    let rack = |name: &str, members: u8| json!({ "name": name, "members": members });
    let params = PatchParams::default();
    let racks = async |name: &str, racks: Value| {
        let patch = Patch::Merge(json!({ "spec": { "racks": racks } }));
        api.patch(name, &params, &patch).await
    };
    let create = PostParams::default();
    let both = json!([rack("a", 1), rack("b", 2)]);
    api.create(&create, &ring("ring", json!({ "racks": both }))?)
        .await?;
    let message = match racks("ring", json!([rack("a", 1)])).await {
        Err(kube::Error::Api(status)) => status.message.clone(),
        other => bail!("{other:?}"),
    };
    ensure!(message.contains("write members: 0 instead"), "{message}");
    // Another name is another rack.
    ensure!(racks("ring", json!([rack("a", 1), rack("c", 2)])).await.is_err());
    racks("ring", json!([rack("b", 2), rack("a", 1), rack("c", 0)])).await?;
    racks("ring", json!([rack("a", 1), rack("b", 0)])).await?;
    racks("ring", json!([rack("a", 1)])).await?;
    // What scylla-operator runs, it scales.
    let attended = json!({ "attends": "simple", "racks": both });
    api.create(&create, &ring("attended", attended)?).await?;
    racks("attended", json!([rack("a", 1)])).await?;
    kubernetes.shutdown().await;
    Ok(())
}
