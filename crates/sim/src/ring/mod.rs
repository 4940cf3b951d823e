//! The ring: the model of its databases, a world of Kubernetes objects and operators around it, and its simulation.

pub mod model;
pub mod simulate;
pub mod world;
