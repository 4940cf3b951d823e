//! The kinds that Kubernetes stores for us, and what they mean to the decisions.
//!
//! A crate of its own with the derive of `kube` and nothing else of it: the command line, the tests and the
//! sandbox read manifests without a client (`docs/decisions/0009-the-kinds-have-a-crate.md`).

pub mod memgraph;

pub use memgraph::{MemgraphCluster, MemgraphClusterSpec, MemgraphClusterStatus};
