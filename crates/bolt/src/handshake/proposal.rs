//! What a client proposes.

use super::{MAGIC, REQUEST_SIZE};
use crate::version::Version;

/// A version and the minor versions right below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    newest: Version,
    older: u8,
}

impl VersionRange {
    /// `newest` and the `older` minor versions below it, as far as there are any.
    pub const fn new(newest: Version, older: u8) -> Self {
        Self { newest, older }
    }

    /// Just this one.
    pub const fn only(version: Version) -> Self {
        Self::new(version, 0)
    }

    /// Whether `version` is one of those meant.
    pub fn contains(self, version: Version) -> bool {
        version.major == self.newest.major
            && version.minor <= self.newest.minor
            && version.minor >= self.newest.minor.saturating_sub(self.older)
    }
}

/// One of the four slots of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// The slot is not used.
    Nothing,
    /// "Tell me what you have" (newer drivers). Memgraph passes over it, and so do we.
    Manifest,
    /// One or more versions.
    Versions(VersionRange),
}

impl Proposal {
    const MANIFEST_MAJOR: u8 = 0xFF;

    /// Reads a slot. Every four bytes mean something: unknown versions are versions too.
    pub const fn from_bytes([_reserved, older, minor, major]: [u8; 4]) -> Self {
        match major {
            0 => Self::Nothing,
            Self::MANIFEST_MAJOR => Self::Manifest,
            _ => Self::Versions(VersionRange::new(Version::new(major, minor), older)),
        }
    }

    /// Writes a slot.
    pub const fn to_bytes(self) -> [u8; 4] {
        match self {
            Self::Nothing => [0; 4],
            Self::Manifest => [0, 0, 1, Self::MANIFEST_MAJOR],
            Self::Versions(VersionRange {
                newest: Version { major, minor },
                older,
            }) => [0, older, minor, major],
        }
    }
}

/// The four slots, in order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposals(pub [Proposal; 4]);

impl Proposals {
    /// Every version from 4.0 on that some Memgraph speaks, newest first.
    pub const MEMGRAPH: Self = Self([
        Proposal::Versions(VersionRange::only(Version::V5_2)),
        Proposal::Versions(VersionRange::new(Version::V4_4, 1)),
        Proposal::Versions(VersionRange::new(Version::V4_1, 1)),
        Proposal::Nothing,
    ]);

    /// Proposes one version and nothing else.
    pub const fn only(version: Version) -> Self {
        Self([
            Proposal::Versions(VersionRange::only(version)),
            Proposal::Nothing,
            Proposal::Nothing,
            Proposal::Nothing,
        ])
    }

    /// Whether a server may answer with `version`.
    pub fn contain(&self, version: Version) -> bool {
        self.0.iter().any(|proposal| match proposal {
            Proposal::Nothing | Proposal::Manifest => false,
            Proposal::Versions(range) => range.contains(version),
        })
    }

    /// What a client sends: the magic number and the four slots.
    pub fn to_bytes(&self) -> [u8; REQUEST_SIZE] {
        let slots = self.0.iter().flat_map(|proposal| proposal.to_bytes());
        let mut request = [0; REQUEST_SIZE];
        for (slot, byte) in request.iter_mut().zip(MAGIC.into_iter().chain(slots)) {
            *slot = byte;
        }
        request
    }

    pub(super) fn from_request(request: &[u8; REQUEST_SIZE]) -> Self {
        let mut proposals = [Proposal::Nothing; 4];
        let (slots, _) = request.as_chunks::<4>();
        for (proposal, slot) in proposals.iter_mut().zip(slots.iter().skip(1)) {
            *proposal = Proposal::from_bytes(*slot);
        }
        Self(proposals)
    }
}
