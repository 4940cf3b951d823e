//! What is special to Memgraph: observe, act, resources, report.
//!
//! | file | concern |
//! |---|---|
//! | `keeper` | one turn: observe, decide, check, act, report |
//! | `footing` | what a turn stands on: spec, credentials, objects |
//! | `stored` | the record in its ConfigMap |
//! | `pods`, `gateways` | what Kubernetes says |
//! | `probe`, `database` | what the databases say |
//! | `processes` | which answer belongs to which container |
//! | `contacts` | what survives from turn to turn |
//! | `act` | each step one call |
//! | `resources` | the objects of a cluster |
//! | `volumes` | what the pods' helpers say of their volumes |
//! | `report` | status, conditions, Events |

pub mod act;
pub mod cluster;
pub mod contacts;
pub mod database;
pub mod footing;
pub mod gateways;
pub mod keeper;
pub mod observe;
pub mod pods;
pub mod probe;
pub mod processes;
pub mod report;
pub mod resources;
pub mod stored;
pub mod volumes;

pub use cluster::{Cluster, ReplicaAddress, ReplicationPorts, Settings};
pub use keeper::Keeper;
