//! What is special to a ring: a ScyllaDB or Cassandra node that lost its storage is replaced by itself, a living one never.
//!
//! | file | concern |
//! |---|---|
//! | `cluster` | one ring, as everything that works on it knows it |
//! | `objects` | Services, StatefulSets and rights, built purely |
//! | `observe`, `nodes` | what Kubernetes says, which Nodes are gone |
//! | `member`, `rest`, `cassandra` | what members say and are told: either database, ScyllaDB, Cassandra |
//! | `attended` | what scylla-operator leaves in the API of a cluster that it runs |
//! | `act` | each step one call |
//! | `report`, `board` | status, conditions, Events; HTTP and metrics |
//! | `keeper` | one turn |
//!
//! What is decided is in `mainstay_core::ring`; what a pod does before its database starts, in `crate::pod::ring_gate`.

pub mod act;
pub mod attended;
pub mod board;
pub mod cassandra;
pub mod cluster;
pub mod keeper;
pub mod member;
pub mod nodes;
pub mod objects;
pub mod observe;
pub mod report;
pub mod rest;

pub use board::RingBoard;
pub use cluster::{API_PORT, RING_LABEL, RingSettings, ledger_map};
pub use keeper::{RingKeeper, TurnError};
pub use objects::objects;
pub use report::Told;
