//! `MemgraphCluster`.

mod gateway;
mod parse;
mod spec;
mod status;
pub mod wishes;

pub use gateway::{Gateway, GatewayTimes};
pub use parse::{BadSpec, LONGEST_DRAIN, Memgraph, parse_moment};
pub use spec::{
    Credentials, Durability, Failover, FenceTimeout, HardReset, MemgraphCluster, MemgraphClusterSpec, Pause,
    Storage, WritesWithoutSync,
};
pub use status::{
    Condition, MemgraphClusterStatus, PodStatus, ProcessSeen, QuarantineStatus, ResetStatus, TermStatus,
};
