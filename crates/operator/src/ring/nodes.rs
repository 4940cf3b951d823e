//! Volumes whose Node is gone: its PersistentVolume names Nodes, and none of them exists.

use super::cluster::Cluster;
use crate::call::{CallError, bounded, optional};
use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim,
};
use kube::ResourceExt;
use kube::api::ListParams;
use mainstay_core::ring::ids::VolumeUid;
use mainstay_core::time::Time;
use std::collections::BTreeMap;

/// Since when each volume has had no Node, as long as this operator leads: another one begins to count anew.
#[derive(Debug, Default)]
pub struct Gone {
    since: BTreeMap<VolumeUid, Time>,
    forbidden: bool,
}

impl Gone {
    /// May this operator not look at Nodes and volumes? As of the last claim that it looked at.
    pub fn is_forbidden(&self) -> bool {
        self.forbidden
    }

    /// Since when this claim has had no Node; `None` while it has one, or needs none.
    pub async fn since(
        &mut self,
        cluster: &Cluster,
        uid: VolumeUid,
        claim: &PersistentVolumeClaim,
        now: Time,
    ) -> Result<Option<Time>, CallError> {
        let looked = self.is_gone(cluster, claim).await;
        // An operator of one namespace may not look at Nodes: then no volume is ever given up for one, and people are
        // told so.
        self.forbidden = matches!(looked, Err(CallError::Refused { code: 403, .. }));
        let gone = if self.forbidden { false } else { looked? };
        if gone {
            return Ok(Some(*self.since.entry(uid).or_insert(now)));
        }
        self.since.remove(&uid);
        Ok(None)
    }

    async fn is_gone(&self, cluster: &Cluster, claim: &PersistentVolumeClaim) -> Result<bool, CallError> {
        let patience = cluster.settings.call;
        let Some(name) = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()) else {
            return Ok(false);
        };
        let volumes = cluster.everywhere::<PersistentVolume>();
        let Some(volume) = optional(bounded(patience, volumes.get(&name)).await)? else {
            return Ok(false);
        };
        let terms = terms(&volume);
        if terms.is_empty() {
            return Ok(false);
        }
        // Not from a cache: what is believed here deletes a claim.
        let nodes = cluster.everywhere::<Node>();
        let all = bounded(patience, nodes.list(&ListParams::default())).await?;
        Ok(!all
            .items
            .iter()
            .any(|node| terms.iter().any(|term| fits(term, node))))
    }
}

/// Where the volume can be used; nothing if anywhere.
fn terms(volume: &PersistentVolume) -> Vec<NodeSelectorTerm> {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required
        .map(|r| r.node_selector_terms.clone())
        .unwrap_or_default()
}

fn fits(term: &NodeSelectorTerm, node: &Node) -> bool {
    let by_label = term.match_expressions.iter().flatten();
    let by_field = term.match_fields.iter().flatten();
    let name = node.name_any();
    by_label.clone().all(|r| holds(r, node.labels().get(&r.key)))
        && by_field
            .clone()
            .all(|r| r.key == "metadata.name" && holds(r, Some(&name)))
        && by_label.count() + by_field.count() > 0
}

/// An operator that is not known is taken to fit: a volume is given up only for certain.
fn holds(requirement: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let NodeSelectorRequirement {
        key: _,
        operator,
        values,
    } = requirement;
    let named = || value.is_some_and(|value| values.iter().flatten().any(|v| v == value));
    match operator.as_str() {
        "In" => named(),
        "NotIn" => !named(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str) -> Node {
        serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        }))
        .unwrap()
    }

    fn volume(affinity: &serde_json::Value) -> PersistentVolume {
        serde_json::from_value(json!({ "metadata": { "name": "v" }, "spec": { "nodeAffinity": affinity } }))
            .unwrap()
    }

    #[test]
    fn a_volume_is_bound_to_the_nodes_that_it_names() {
        let on = |name: &str| {
            volume(
                &json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [
                { "key": "kubernetes.io/hostname", "operator": "In", "values": [name] },
            ] }] } }),
            )
        };
        let fits_any = |volume: &PersistentVolume, node: &Node| terms(volume).iter().any(|t| fits(t, node));
        assert!(fits_any(&on("a"), &node("a")));
        assert!(!fits_any(&on("a"), &node("b")));
        let by_name = volume(&json!({ "required": { "nodeSelectorTerms": [{ "matchFields": [
            { "key": "metadata.name", "operator": "In", "values": ["a"] },
        ] }] } }));
        assert!(fits_any(&by_name, &node("a")) && !fits_any(&by_name, &node("b")));
        assert!(
            terms(&volume(&json!(null))).is_empty(),
            "bound to no Node, so never orphaned"
        );
    }

    #[test]
    fn a_requirement_that_is_not_known_gives_no_volume_up() {
        let odd = volume(
            &json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": "generation", "operator": "Gt", "values": ["3"] },
        ] }] } }),
        );
        assert!(terms(&odd).iter().all(|t| fits(t, &node("a"))));
    }
}
