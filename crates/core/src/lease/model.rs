//! The lease as the API server stores it, reduced to what the election needs.

use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

/// The name of one candidate; never empty, because an empty holder means a free lease.
///
/// It must be unique to one run of one process (pod name plus something drawn at the start): a restarted
/// container that answers to the old name could not be told from the one that may still act.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HolderId(String);

/// A holder without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a lease holder needs a name: an empty one means that the lease is free")]
pub struct EmptyHolder;

impl HolderId {
    /// A name for a candidate.
    pub fn new(name: impl Into<String>) -> Result<Self, EmptyHolder> {
        let name = name.into();
        if name.is_empty() {
            Err(EmptyHolder)
        } else {
            Ok(Self(name))
        }
    }

    /// Reads `spec.holderIdentity`, where absent and empty both mean that nobody holds the lease.
    pub fn from_field(field: Option<&str>) -> Option<Self> {
        field.and_then(|name| Self::new(name).ok())
    }

    /// The name as written into the lease.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `metadata.uid` of the lease: another one after it was deleted and made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseUid(pub String);

/// `metadata.resourceVersion`: opaque, only ever compared for equality.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceVersion(pub String);

/// Names one state of one lease object. A replace sends both parts, so that neither an older state nor
/// another object of the same name can be overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseVersion {
    /// Which object.
    pub uid: LeaseUid,
    /// Which state of it.
    pub resource_version: ResourceVersion,
}

/// The `spec` of the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// `holderIdentity`; `None` if it is empty or absent.
    pub holder: Option<HolderId>,
    /// `leaseDurationSeconds`; zero if absent.
    pub duration: Duration,
    /// `acquireTime`, on the wall clock of the holder. For humans.
    pub acquire_time: Option<Time>,
    /// `renewTime`, on the wall clock of the holder. Others only look whether it changes.
    pub renew_time: Option<Time>,
    /// `leaseTransitions`; zero if absent. The API refuses more than an `i32` holds, so a counter that ran
    /// out ends in refused writes, not in an epoch given out twice.
    pub transitions: u32,
}

/// A lease together with the state of the object it was read from or written as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLease {
    /// The state of the object.
    pub version: LeaseVersion,
    /// What it says.
    pub lease: Lease,
}

impl StoredLease {
    /// The epoch that the lease is in.
    pub fn epoch(&self) -> LeaseEpoch {
        LeaseEpoch {
            uid: self.version.uid.clone(),
            transitions: self.lease.transitions,
        }
    }
}

/// One term of leadership: no two terms share an epoch, and a later term has a higher one.
///
/// Epochs of different lease objects are **not** comparable: a deleted lease starts counting again. So test
/// for what you need (`mine >= theirs`), not for the absence of the opposite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseEpoch {
    /// The lease object.
    pub uid: LeaseUid,
    /// How often it was acquired.
    pub transitions: u32,
}

impl PartialOrd for LeaseEpoch {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let Self { uid, transitions } = self;
        (*uid == other.uid).then(|| transitions.cmp(&other.transitions))
    }
}

impl fmt::Display for LeaseEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.transitions, self.uid.0)
    }
}
