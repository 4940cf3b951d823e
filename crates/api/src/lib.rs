//! The kinds that Kubernetes stores for us, and what they mean to the decisions.
//!
//! A crate of its own with the derive of `kube` and nothing else of it: the command line, the tests and the
//! sandbox read manifests without a client (`docs/decisions/0009-the-kinds-have-a-crate.md`).

pub mod memgraph;

pub use memgraph::{MemgraphCluster, MemgraphClusterSpec, MemgraphClusterStatus};

/// The definition of the kind, as it is committed in the chart. JSON, which is YAML.
pub fn definition() -> Result<String, serde_json::Error> {
    use kube::CustomResourceExt;
    Ok(serde_json::to_string_pretty(&MemgraphCluster::crd())? + "\n")
}
