//! The server's side of the handshake.

use super::{Collect, HandshakeError, MAGIC, Proposal, Proposals, REQUEST_SIZE, Stranger};
use crate::version::Version;

/// Reads what a client proposes.
#[derive(Clone, Debug)]
pub struct ServerHandshake {
    request: Collect<REQUEST_SIZE>,
}

impl Default for ServerHandshake {
    fn default() -> Self {
        Self::new()
    }
}

impl ServerHandshake {
    /// A handshake of which nothing was read yet.
    pub const fn new() -> Self {
        Self {
            request: Collect::new(),
        }
    }

    /// Takes bytes from the front of `input`, none beyond the handshake.
    ///
    /// A peer that does not speak Bolt is recognised by its first four bytes:
    /// waiting for all twenty would let it hold the connection for nothing.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Proposals>, HandshakeError> {
        self.request.take(input);
        if self.request.len >= MAGIC.len()
            && let Some(start) = self.request.bytes.first_chunk::<4>()
            && *start != MAGIC
        {
            return Err(HandshakeError::NotBolt(Stranger::recognise(*start)));
        }
        Ok(self
            .request
            .is_full()
            .then(|| Proposals::from_request(&self.request.bytes)))
    }

    /// What a server answers to a client whose proposal it took.
    pub const fn answer(version: Version) -> [u8; 4] {
        [0, 0, version.minor, version.major]
    }
}

/// The version to speak with a client, chosen as Memgraph chooses: the first
/// proposal that can be served wins, and of a range the newest version.
pub fn choose(proposals: &Proposals, supported: &[Version]) -> Option<Version> {
    proposals.0.iter().find_map(|proposal| match proposal {
        Proposal::Nothing | Proposal::Manifest => None,
        Proposal::Versions(range) => supported
            .iter()
            .copied()
            .filter(|version| range.contains(*version))
            .max(),
    })
}
