//! Real servers and processes around the models of `sim`: stand-in databases
//! and a small Kubernetes, so that the whole of Mainstay runs on one machine.

pub mod kube;
pub mod node;
pub mod standin;
