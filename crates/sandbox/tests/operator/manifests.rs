//! Manifests that cannot be followed, each refused with a message that says what to write instead.

use anyhow::{Context, Result, bail, ensure};
use api::MemgraphCluster;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, PostParams};
use kube::{CustomResourceExt, ResourceExt};
use sandbox::kube::Kubernetes;
use serde_json::{Value, json};

mod bad;

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
    let all = bad::all();
    ensure!(all.len() >= 60, "only {}", all.len());
    let mut wrong = Vec::new();
    for (spec, part) in all {
        ensure!(part.contains(' '), "{spec}: {part:?} is a name and no advice");
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
    for (name, part) in [
        ("with.a.dot", "may have lower case letters, digits and `-`"),
        (&"a".repeat(41), "write a shorter one"),
    ] {
        let message = said(bench.create(name, &json!({})).await)?;
        ensure!(message.contains(part), "{message}");
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
