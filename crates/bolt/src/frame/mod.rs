//! Framing: a message is a run of chunks, each with a two byte size in front,
//! ended by a chunk of size zero.
//!
//! A chunk of size zero where no message has begun is a NOOP: the server is
//! alive and still busy.
//!
//! [`ChunkDecoder`] and [`FrameScanner`] never allocate. [`Assembler`] copies
//! only what did not arrive in one piece.

mod assemble;
mod chunk;
mod encode;
mod scan;
#[cfg(test)]
mod tests;

pub use assemble::Assembler;
pub use chunk::{ChunkDecoder, Piece};
pub use encode::{Chunk, Chunks, frame_into, frame_with};
pub use scan::{FrameScanner, MessageEnd, MessageHead, ScanEvent};

use thiserror::Error;

/// The most bytes one chunk can carry.
pub const MAX_CHUNK: usize = 0xFFFF;

/// The size a message may have unless somebody says otherwise.
pub const DEFAULT_MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// Why a stream of chunks cannot be followed any further.
///
/// The position in the stream is lost: the connection has to be closed. Every
/// decoder gives the same error again if it is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// A message is larger than allowed.
    #[error("a message is larger than {limit} bytes")]
    TooLarge {
        /// The most that was allowed.
        limit: usize,
    },
    /// A message does not begin with a structure of at most 15 fields.
    #[error("a message does not begin with a structure but with {0:#04x}")]
    NotAMessage(u8),
    /// A message ended before its tag.
    #[error("a message ended before its tag")]
    NoTag,
}
