//! What runs inside a database pod: `mainstay pod prepare`, the init container `data-cleanup`.
//!
//! | file | concern |
//! |---|---|
//! | `prepare` | the loop: look, ask, decide, do |
//! | `volume` | what is on the volume, and the few changes that are made to it |
//! | `disk` | single file operations, so that a test can cut them off anywhere |
//!
//! What is decided is in `mainstay_core::memgraph::prepare`.

mod disk;
mod prepare;
mod volume;

pub use disk::{Disk, RealDisk};
pub use prepare::{AskError, PrepareError, Task, prepare, record};
pub use volume::{ChangeError, DataVolume};

/// The init container's name, as the seeds have it.
pub const INIT_CONTAINER: &str = "data-cleanup";
