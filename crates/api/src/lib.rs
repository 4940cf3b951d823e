//! The kinds that Kubernetes stores for us, and what they mean to the decisions.
//!
//! A crate of its own with the derive of `kube` and nothing else of it: the command line, the tests and the
//! sandbox read manifests without a client (`docs/decisions/0009-the-kinds-have-a-crate.md`).

pub mod memgraph;
pub mod ring;

pub use memgraph::{MemgraphCluster, MemgraphClusterSpec, MemgraphClusterStatus};
pub use ring::{RingCluster, RingClusterSpec, RingClusterStatus};

/// The definition of the kind, as it is committed in the chart. JSON, which is YAML.
pub fn definition() -> Result<String, serde_json::Error> {
    use kube::CustomResourceExt;
    Ok(serde_json::to_string_pretty(&MemgraphCluster::crd())? + "\n")
}

/// The definition of `RingCluster`, as it is committed in the chart.
pub fn ring_definition() -> Result<String, serde_json::Error> {
    use kube::CustomResourceExt;
    Ok(serde_json::to_string_pretty(&RingCluster::crd())? + "\n")
}
