//! The small Kubernetes as a service: the pure store of `sim` behind a client or a port.

pub mod streams;
