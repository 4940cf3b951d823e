//! An operator that serves one namespace may not look at Nodes and volumes. It says so once, and goes on.

use anyhow::{Context, Result, ensure};
use api::RingCluster;
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use operator::engine::keeper::Keeper as _;
use operator::engine::lease::Permit;
use operator::ring::{RingKeeper, RingSettings};
use sandbox::kube::Kubernetes;
use serde_json::json;
use sim::kube::User;
use std::sync::Arc;

async fn create(client: &Client) -> Result<()> {
    let params = PostParams::default();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::kinds() {
        definitions.create(&params, &definition).await?;
    }
    // The rules of the chart, in one namespace.
    let role: Role = serde_json::from_value(json!({
        "metadata": { "name": "operator" }, "rules": operator::rights::all(),
    }))?;
    let roles: Api<Role> = Api::default_namespaced(client.clone());
    roles.create(&params, &role).await?;
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "operator" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator" },
        "subjects": [{ "kind": "ServiceAccount", "name": "operator", "namespace": "default" }],
    }))?;
    let bindings: Api<RoleBinding> = Api::default_namespaced(client.clone());
    bindings.create(&params, &binding).await?;
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": { "name": "data-ring-a-0" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeName": "on-some-node",
            "resources": { "requests": { "storage": "1Gi" } },
        },
    }))?;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    claims.create(&params, &claim).await?;
    let ring: RingCluster = serde_json::from_value(json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "RingCluster", "metadata": { "name": "ring" },
        "spec": { "image": "scylladb/scylla:2025.2.0", "racks": [{ "name": "a", "members": 1 }] },
    }))?;
    let rings: Api<RingCluster> = Api::default_namespaced(client.clone());
    rings.create(&params, &ring).await?;
    Ok(())
}

#[tokio::test]
async fn an_operator_that_may_not_see_nodes_says_so_once() -> Result<()> {
    let kubernetes = Kubernetes::new(23);
    let client = kubernetes.client();
    create(&client).await?;
    let limited = kubernetes.client_as(User::service_account("default", "operator"));
    let settings = Arc::new(RingSettings::default());
    let mut keeper = RingKeeper::new(limited, "default", "ring", settings);
    for _ in 0..4 {
        keeper.turn(&Permit::ALWAYS).await?;
    }
    let rings: Api<RingCluster> = Api::default_namespaced(client.clone());
    let status = rings.get("ring").await?.status.context("no status")?;
    let unseen = status.conditions.iter().find(|c| c.kind == "NodesUnseen");
    let unseen = unseen.context("nobody says it")?;
    ensure!(
        unseen.status == "True" && unseen.message.contains("scylla/replace"),
        "{unseen:?}"
    );
    let events: Api<Event> = Api::default_namespaced(client);
    let said = events.list(&ListParams::default()).await?;
    let said = said
        .items
        .iter()
        .filter(|e| e.reason.as_deref() == Some("NodesUnseen"));
    ensure!(said.count() == 1, "it is said once");
    kubernetes.shutdown().await;
    Ok(())
}
