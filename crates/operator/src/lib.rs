//! The async shell around the decisions: it observes, asks `mainstay-core` what to do, does it, and reports.
//!
//! | folder | concern |
//! |---|---|
//! | `bolt` | our Bolt client on tokio |
//! | `memgraph` | what is special to Memgraph: observe, act, resources, report |
//! | `ring` | the same of ScyllaDB rings |
//! | `apply` | objects that are created, or replaced if they were built from something else |
//! | `hibernation` | what is special to plans that sleep: observe, executors, act, report |
//! | `engine` | what is not: queues, watches, turns, the lease |
//! | `http` | health, metrics, state |
//! | `install` | the objects of the operator itself |
//! | `rights` | what it may do |
//! | `pod` | what runs inside a database pod |
//! | `security` | what our pods may do |
//!
//! Read `memgraph::keeper` first: one turn is one screen.

pub mod apply;
pub mod bolt;
pub mod call;
pub mod clock;
pub mod engine;
pub mod hibernation;
pub mod http;
pub mod install;
pub mod memgraph;
pub mod pod;
pub mod rights;
pub mod ring;
pub mod run;
#[cfg(test)]
mod scripted;
pub mod security;
pub mod tap;

pub use run::{Config, Operator, RunError};
