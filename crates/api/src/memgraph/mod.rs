//! `MemgraphCluster`.

mod parse;
mod spec;
mod status;
pub mod wishes;

pub(crate) use parse::moment;
pub use parse::{BadSpec, parse_duration, parse_moment};
pub use spec::{
    Credentials, Durability, Failover, FenceTimeout, Gateway, HardReset, MemgraphCluster,
    MemgraphClusterSpec, Pause, Storage, WritesWithoutSync,
};
pub use status::{
    Condition, MemgraphClusterStatus, PodStatus, ProcessSeen, QuarantineStatus, ResetStatus, TermStatus,
};
