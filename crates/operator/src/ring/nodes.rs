//! Volumes whose Node is gone: its PersistentVolume names Nodes, and none of them exists.

use super::cluster::Cluster;
use crate::call::{CallError, bounded, existing};
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
        let Some(volume) = existing(bounded(patience, volumes.get(&name)).await)? else {
            return Ok(false);
        };
        let Some(places) = places(&volume) else {
            return Ok(false);
        };
        // Not from a cache: what is believed here deletes a claim.
        let nodes = cluster.everywhere::<Node>();
        let all = bounded(patience, nodes.list(&ListParams::default())).await?;
        Ok(!all.items.iter().any(|node| places.iter().any(|p| p.is(node))))
    }
}

/// The label by which a volume names the Node that it is on.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// The field by which it does.
const NAME: &str = "metadata.name";

/// One way in which a volume names Nodes: all of it must hold of one.
#[derive(Debug)]
struct Place {
    by_label: Vec<NodeSelectorRequirement>,
    by_field: Vec<NodeSelectorRequirement>,
}

impl Place {
    /// The part of a term that names Nodes, if it names any. A zone is no Node: a volume of the network is whole while
    /// its zone has no Node, and outlives every one of them. Nor does it matter what else a Node that is there has become.
    fn named(term: &NodeSelectorTerm) -> Option<Self> {
        let names = |all: &Option<Vec<NodeSelectorRequirement>>, key: &str| -> Vec<_> {
            let all = all.iter().flatten();
            all.filter(|r| r.key == key && r.operator == "In")
                .cloned()
                .collect()
        };
        let place = Self {
            by_label: names(&term.match_expressions, HOSTNAME),
            by_field: names(&term.match_fields, NAME),
        };
        (!place.by_label.is_empty() || !place.by_field.is_empty()).then_some(place)
    }

    fn is(&self, node: &Node) -> bool {
        let name = node.name_any();
        // Usually the same; some kubelets call themselves otherwise.
        let host = node.labels().get(HOSTNAME).unwrap_or(&name);
        let holds = |requirement: &NodeSelectorRequirement, value: &str| {
            requirement.values.iter().flatten().any(|v| v == value)
        };
        self.by_field.iter().all(|r| holds(r, &name)) && self.by_label.iter().all(|r| holds(r, host))
    }
}

/// The Nodes that the volume is bound to, each way of naming them; `None` if it can be used elsewhere as well.
fn places(volume: &PersistentVolume) -> Option<Vec<Place>> {
    let affinity = volume.spec.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required.as_ref()?.node_selector_terms;
    let places: Option<Vec<Place>> = terms.iter().map(Place::named).collect();
    places.filter(|places| !places.is_empty())
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

    fn required(terms: &serde_json::Value) -> PersistentVolume {
        volume(&json!({ "required": { "nodeSelectorTerms": terms } }))
    }

    /// Is the volume gone with its Node, if this one is all there is?
    fn is_gone(volume: &PersistentVolume, node: &Node) -> bool {
        places(volume).is_some_and(|places| !places.iter().any(|p| p.is(node)))
    }

    #[test]
    fn a_volume_is_bound_to_the_nodes_that_it_names() {
        let by_label = required(&json!([{ "matchExpressions": [
            { "key": HOSTNAME, "operator": "In", "values": ["a"] },
        ] }]));
        let by_name = required(&json!([{ "matchFields": [
            { "key": NAME, "operator": "In", "values": ["a"] },
        ] }]));
        for bound in [by_label, by_name] {
            assert!(!is_gone(&bound, &node("a")) && is_gone(&bound, &node("b")));
        }
        assert!(
            places(&volume(&json!(null))).is_none(),
            "bound to no Node, so never orphaned"
        );
    }

    #[test]
    fn a_volume_of_a_zone_is_never_gone_with_a_node() {
        let zone = json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"] });
        let host = json!({ "key": HOSTNAME, "operator": "In", "values": ["a"] });
        let zonal = required(&json!([{ "matchExpressions": [zone] }]));
        assert!(!is_gone(&zonal, &node("b")), "its zone has no Node at the moment");
        let either = required(&json!([{ "matchExpressions": [host] }, { "matchExpressions": [zone] }]));
        assert!(
            !is_gone(&either, &node("b")),
            "it can be used elsewhere in the zone"
        );
        let both = required(&json!([{ "matchExpressions": [zone, host] }]));
        assert!(
            !is_gone(&both, &node("a")),
            "the Node is there, whatever became of its labels"
        );
        assert!(is_gone(&both, &node("b")));
    }

    #[test]
    fn a_requirement_that_is_not_known_gives_no_volume_up() {
        for (key, operator) in [("generation", "Gt"), (HOSTNAME, "NotIn"), (HOSTNAME, "Exists")] {
            let odd = required(&json!([{ "matchExpressions": [
                { "key": key, "operator": operator, "values": ["3"] },
            ] }]));
            assert!(!is_gone(&odd, &node("a")), "{key} {operator}");
        }
    }
}
