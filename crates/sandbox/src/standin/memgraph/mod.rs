//! A stand-in for Memgraph: real Bolt on one port, replication between
//! stand-ins on another, state in a data folder, faults on an admin port.
//!
//! What it does is decided by [`sim::memgraph::instance`], the model that the
//! simulation uses too; this module gives it sockets, files and a clock, so
//! that the two cannot drift apart. `docs/stand-ins.md` says how to run it and
//! where it differs from a real server.

mod address;
mod admin;
pub mod client;
mod clock;
mod command;
mod commit;
mod config;
pub mod conformance;
mod disk;
mod explain;
mod faults;
mod flags;
mod graph;
mod health;
mod info;
mod link;
mod node;
mod perform;
pub mod process;
mod query;
mod register;
mod replica;
mod role;
mod scalar;
mod server;
mod session;
mod texts;
mod transaction;
mod wal;
mod wire;

pub use command::run;
pub use config::{Config, Timing};
pub use faults::{CrashPoint, Effect, Fault, OnBusyDrop, RpcKind, Rule};
pub use flags::{FlagError, Flags};
pub use server::{Server, StartError};
pub use sim::memgraph::instance::Profile;
