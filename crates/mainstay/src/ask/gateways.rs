//! The names of gateways: the operator's account has their places in a list.

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use mainstay_core::memgraph::objects::{CLUSTER_LABEL, ROLE_LABEL};
use operator::memgraph::gateways::GATEWAY_ROLE;

/// The Leases of this cluster's gateways.
pub(super) async fn registered(client: &Client, namespace: &str, cluster: &str) -> Result<Vec<Lease>> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let labels = format!("{CLUSTER_LABEL}={cluster},{ROLE_LABEL}={GATEWAY_ROLE}");
    let listed = leases.list(&ListParams::default().labels(&labels)).await;
    Ok(listed.context("leases cannot be listed")?.items)
}

/// Who they were in the turn of that time, in the operator's order: by age, then by name. None if they have changed
/// since, when a place may be another's.
pub(super) fn names(mut leases: Vec<Lease>, turn: Option<Timestamp>, count: usize) -> Option<Vec<String>> {
    let created = |lease: &Lease| lease.creation_timestamp().map(|at| at.0);
    leases.retain(|lease| turn.is_none_or(|turn| created(lease).is_none_or(|at| at <= turn)));
    leases.sort_by_key(|lease| (created(lease), lease.name_any()));
    (leases.len() == count).then(|| leases.into_iter().map(name).collect())
}

/// A gateway is called like its pod.
fn name(lease: Lease) -> String {
    let lease_name = lease.name_any();
    let holder = lease.spec.and_then(|spec| spec.holder_identity);
    holder.filter(|holder| !holder.is_empty()).unwrap_or(lease_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lease(name: &str, holder: Option<&str>, created: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": { "name": name, "creationTimestamp": created }, "spec": { "holderIdentity": holder },
        }))
        .unwrap()
    }

    #[test]
    fn gateways_are_called_like_their_pods_in_the_order_of_the_operator() {
        let found = || {
            vec![
                lease("c", Some("gw-c"), "2026-11-16T11:00:02Z"),
                lease("b", Some("gw-b"), "2026-11-16T11:00:01Z"),
                lease("a", None, "2026-11-16T11:00:01Z"),
            ]
        };
        let turn = |text: &str| Some(text.parse().unwrap());
        let all = names(found(), turn("2026-11-16T12:00:00Z"), 3).unwrap();
        assert_eq!(all, ["a", "gw-b", "gw-c"]);
        let before_the_last = names(found(), turn("2026-11-16T11:00:01Z"), 2).unwrap();
        assert_eq!(before_the_last, ["a", "gw-b"]);
        assert_eq!(names(found(), None, 2), None, "one of them is gone, or new");
    }
}
