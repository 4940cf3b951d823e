//! Pure models of the real systems, and what drives the core against them.

pub mod hibernation;
pub mod kube;
pub mod memgraph;
pub mod ring;
