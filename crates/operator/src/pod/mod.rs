//! What runs inside a database pod: `mainstay pod prepare`, the init container `data-cleanup`; and `mainstay pod serve`,
//! the container `helper` beside the database.
//!
//! | file | concern |
//! |---|---|
//! | `prepare` | the loop: look, ask, decide, do |
//! | `helper` | what the operator and the kubelet ask while the database runs |
//! | `pre_stop` | when a database that is told to end may end |
//! | `ring_gate` | what stands before every start of a ring's database |
//! | `ring_seeds` | beside a Cassandra: its configuration lists every member as a seed, once it is one |
//! | `volume` | what is on the volume, and the few changes that are made to it |
//! | `copy` | what was set aside, on its way to a person |
//! | `disk` | single file operations, so that a test can cut them off anywhere |
//!
//! What is decided is in `mainstay_core::memgraph::prepare` and `mainstay_core::memgraph::helper`.

mod copy;
mod disk;
mod helper;
mod pre_stop;
mod prepare;
mod ring_gate;
mod ring_seeds;
mod volume;

pub use copy::{CopyError, Receiver, Sum, send};
pub use disk::{Disk, RealDisk};
pub use helper::{Ask, Helper};
pub use pre_stop::until_free;
pub use prepare::{AskError, PrepareError, Task, prepare, record};
pub use ring_gate::{
    AskError as RingAskError, CassandraHome, Database, GateError, Launch, RingTask, ScyllaHome, ring_gate,
};
pub use ring_seeds::{SeedsTask, ring_seeds};
pub use volume::{ChangeError, DataVolume};

/// The init container's name, as the seeds have it.
pub const INIT_CONTAINER: &str = "data-cleanup";
