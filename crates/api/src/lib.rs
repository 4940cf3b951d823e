//! The kinds that Kubernetes stores for us, and what they mean to the decisions.
//!
//! A crate of its own with the derive of `kube` and nothing else of it: the command line, the tests and the
//! sandbox read manifests without a client (`docs/decisions/0009-the-kinds-have-a-crate.md`).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use std::collections::BTreeMap;

pub mod hibernation;
pub mod memgraph;
pub mod ring;
pub mod times;

pub use hibernation::{HibernatePlan, HibernatePlanSpec, HibernatePlanStatus, ScheduleException};
pub use memgraph::{MemgraphCluster, MemgraphClusterSpec, MemgraphClusterStatus};
pub use ring::{RingCluster, RingClusterSpec, RingClusterStatus};

/// The definition of the kind `MemgraphCluster`, as it is committed in the chart. JSON, which is YAML.
pub fn definition() -> Result<String, serde_json::Error> {
    text(&MemgraphCluster::crd())
}

fn text(kind: &CustomResourceDefinition) -> Result<String, serde_json::Error> {
    Ok(serde_json::to_string_pretty(kind)? + "\n")
}

/// Every kind.
pub fn kinds() -> Vec<CustomResourceDefinition> {
    vec![
        MemgraphCluster::crd(),
        HibernatePlan::crd(),
        ScheduleException::crd(),
        RingCluster::crd(),
    ]
}

/// The definitions of all kinds by their names, as they are committed in the chart.
pub fn definitions() -> Result<BTreeMap<String, String>, serde_json::Error> {
    let named = kinds().into_iter().map(|kind| {
        let text = text(&kind)?;
        Ok((kind.metadata.name.unwrap_or_default(), text))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hibernation::ScheduleExceptionStatus;
    use serde::Serialize;
    use serde_json::{Map, Value};
    use std::collections::BTreeSet;

    fn said(status: impl Serialize) -> Map<String, Value> {
        match serde_json::to_value(status) {
            Ok(Value::Object(fields)) => fields,
            other => panic!("no object: {other:?}"),
        }
    }

    fn declared(kind: &CustomResourceDefinition) -> BTreeSet<String> {
        let schema = kind.spec.versions[0].schema.clone().unwrap();
        let properties = schema.open_api_v3_schema.unwrap().properties.unwrap();
        let status = properties["status"].properties.clone().unwrap();
        status.into_keys().collect()
    }

    /// These are written by merge patches: what such a patch does not name stays as it was, for ever.
    #[test]
    fn a_status_names_its_empty_fields_too() {
        for (kind, empty) in [
            (MemgraphCluster::crd(), said(MemgraphClusterStatus::default())),
            (RingCluster::crd(), said(RingClusterStatus::default())),
            (ScheduleException::crd(), said(ScheduleExceptionStatus::default())),
        ] {
            let named: BTreeSet<String> = empty.into_iter().map(|(name, _)| name).collect();
            assert_eq!(named, declared(&kind));
        }
    }
}
