//! Waking the cluster because somebody connects: `spec.hibernated` of its own object becomes false, and the operator
//! does the rest.

use crate::session::Shared;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::json;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// After a wish that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Says so, as long as somebody waits for a cluster that sleeps, with a rest after each time that it was heard: whoever
/// puts the cluster to sleep again so soon means it, and a plan with `drift: Enforce` wins.
pub(super) async fn run(shared: &Shared, client: Client) {
    let kind = GroupVersionKind::gvk("mainstay.dev", "v1alpha1", "MemgraphCluster");
    let kind = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client, &shared.config.namespace, &kind);
    loop {
        shared.control.awaited().await;
        // Who waited may be long gone, and the cluster put to sleep again since. Who still does gives the word only once,
        // so a wish that failed is said again here.
        while shared.control.is_asleep() && shared.control.is_awaited() {
            sleep(ask(shared, &api).await).await;
        }
    }
}

/// Asks once; returns how long not to ask again.
async fn ask(shared: &Shared, api: &Api<DynamicObject>) -> Duration {
    let name = shared.config.cluster.to_string();
    let wish = json!({ "spec": { "hibernated": false } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(&wish));
    let asked = timeout(shared.config.timeouts.api, api.patch(&name, &params, &patch)).await;
    match asked {
        Ok(Ok(_)) => {
            shared.metrics.wakes.inc();
            tracing::info!("a client waits: the cluster is to wake up");
            return shared.config.timeouts.wake_rest;
        }
        Ok(Err(error)) => tracing::warn!(%error, "the cluster was not asked to wake up"),
        Err(_) => tracing::warn!("the cluster was not asked to wake up: the API does not answer"),
    }
    PAUSE
}
