//! The client's side of the handshake.

use super::{ANSWER_SIZE, Collect, HandshakeError, Proposals, REQUEST_SIZE, Stranger};
use crate::message::tag;
use crate::version::Version;

/// Proposes, and reads which proposal was taken.
#[derive(Clone, Debug)]
pub struct ClientHandshake {
    proposals: Proposals,
    answer: Collect<ANSWER_SIZE>,
}

impl ClientHandshake {
    /// A handshake that is still to be sent.
    pub const fn new(proposals: Proposals) -> Self {
        Self {
            proposals,
            answer: Collect::new(),
        }
    }

    /// What to send.
    pub fn request(&self) -> [u8; REQUEST_SIZE] {
        self.proposals.to_bytes()
    }

    /// Takes bytes from the front of `input`, none beyond the answer.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Version>, HandshakeError> {
        self.answer.take(input);
        if !self.answer.is_full() {
            return Ok(None);
        }
        self.judge().map(Some)
    }

    fn judge(&self) -> Result<Version, HandshakeError> {
        match self.answer.bytes {
            // Zero is what the specification wants for "no". Memgraph sends a chunked FAILURE instead;
            // these are its first bytes, and no version looks like them.
            [0, 0, 0, 0] | [_, _, 0xB1, tag::FAILURE] => Err(HandshakeError::NoCommonVersion),
            [0, 0, minor, major] => {
                let version = Version::new(major, minor);
                if self.proposals.contain(version) {
                    Ok(version)
                } else {
                    Err(HandshakeError::NotProposed(version))
                }
            }
            start => Err(HandshakeError::NotBolt(Stranger::recognise(start))),
        }
    }
}
