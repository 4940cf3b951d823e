//! `RingCluster`.

mod parse;
mod spec;
mod status;

pub use parse::{BadRing, rack_set};
pub use spec::{Autoreplacement, CassandraImage, Engine, Rack, RingCluster, RingClusterSpec, RunAs};
pub use status::{CheckStatus, MemberStatus, ReplacementStatus, RingClusterStatus};
