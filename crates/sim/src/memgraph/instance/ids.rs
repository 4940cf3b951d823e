//! Small numbers for everything the real server names with text or a UUID.
//! The caller hands in fresh ones, so the model needs no entropy of its own.

use serde::{Deserialize, Serialize};

/// One instance, and at the same time the address of its replication port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NodeId(pub u8);

/// The id a MAIN proves itself with towards its replicas.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct MainId(pub u32);

/// The `database_uuid`: which lineage of data a disk belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct DatabaseId(pub u32);

/// The label that a promotion puts on the commits after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct EpochId(pub u32);

/// The name of a registration; the caller maps it to the real text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RegistrationName(pub u32);

/// A commit timestamp. The real server moves in steps of two or three; only
/// the order matters, so the model moves in steps of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Ts(pub u32);

impl Ts {
    /// Nothing was ever committed.
    pub const ZERO: Self = Self(0);

    /// The timestamp after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Visits every id inside an instance, so that an explorer can renumber them
/// into a canonical form.
pub trait IdVisitor {
    /// A main id (also the writer label of a run).
    fn main(&mut self, id: &mut MainId);
    /// A database id.
    fn database(&mut self, id: &mut DatabaseId);
    /// An epoch.
    fn epoch(&mut self, id: &mut EpochId);
    /// A timestamp. Only order and equality mean anything.
    fn ts(&mut self, ts: &mut Ts);
}
