//! The objects of a cluster: built purely, written only if they differ.

mod apply;
mod build;
mod gateway;
mod gateway_front;
mod helper;

pub use crate::apply::{APPLIED, ApplyError, Owned};
pub use apply::{Part, ensure, token};
pub use build::objects;

/// Where the volume is mounted, as the seeds have it.
pub const DATA_PATH: &str = "/var/lib/memgraph";
/// The data in it.
pub const DATA_FOLDER: &str = "/var/lib/memgraph/mg_data";
/// Where init files are mounted.
pub const INIT_FOLDER: &str = "/etc/mainstay";
/// The init file that makes a pod REPLICA before Bolt opens.
pub const INIT_FILE: &str = "init.cypherl";
/// The port of a gateway that takes pushes.
pub const ADMIN_PORT: u16 = 7688;
/// The port of a gateway for clients that only read.
pub const READS_PORT: u16 = 7690;
