//! A small Kubernetes as a pure store: requests in, answers and events out.

pub mod controllers;
