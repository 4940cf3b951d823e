//! `MemgraphCluster`.

mod gateway;
mod gateway_front;
mod parse;
mod reads;
mod spec;
mod status;
pub mod wishes;

pub use gateway::{Gateway, GatewayTimes};
pub use gateway_front::{BackendTls, GatewayTls, ProxyProtocol};
pub use parse::{BadSpec, LONGEST_DRAIN, Memgraph, parse_moment};
pub use reads::Reads;
pub use spec::{
    Credentials, Durability, Failover, FenceTimeout, HardReset, MemgraphCluster, MemgraphClusterSpec, Pause,
    Storage, WritesWithoutSync,
};
pub use status::{
    Condition, MemgraphClusterStatus, PodStatus, ProcessSeen, QuarantineStatus, ResetStatus, TermStatus,
};
