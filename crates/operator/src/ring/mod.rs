//! What is special to a ring: a ScyllaDB node that lost its storage is replaced by itself, a living one never.
//!
//! | file | concern |
//! |---|---|
//! | `cluster` | one ring, as everything that works on it knows it |
//! | `objects` | Services, StatefulSets and rights, built purely |
//! | `observe`, `nodes`, `rest` | what Kubernetes says, which Nodes are gone, what members say |
//! | `act` | each step one call |
//! | `report`, `board` | status, conditions, Events; HTTP and metrics |
//! | `keeper` | one turn |
//!
//! What is decided is in `mainstay_core::ring`; what a pod does before its database starts, in `crate::pod::ring_gate`.

pub mod act;
pub mod board;
pub mod cluster;
pub mod keeper;
pub mod nodes;
pub mod objects;
pub mod observe;
pub mod report;
pub mod rest;

pub use board::RingBoard;
pub use cluster::{API_PORT, CONTAINER, DATA_PATH, RING_LABEL, RingSettings, ledger_map};
pub use keeper::{RingKeeper, TurnError};
pub use objects::objects;
pub use report::Told;
