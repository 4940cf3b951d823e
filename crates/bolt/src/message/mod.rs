//! Messages: what a client may ask and what a server may answer.
//!
//! Parsing is strict about the version: a message that the agreed version does
//! not have is unknown, as it is to Memgraph.

mod auth;
mod failure;
mod owned;
mod parse_request;
mod request;
mod response;
mod routing;
pub mod tag;
#[cfg(test)]
mod tests;
mod write_request;

pub use auth::Auth;
pub use failure::{Failure, FailureClass};
pub use request::{AccessMode, Amount, Extra, Fetch, Hello, Qid, Request, Route, RouteTarget, Run};
pub use response::{Response, frame_record};
pub use routing::RoutingTable;

use crate::packstream::{DecodeError, Decoder, EncodeError, Kind, Limits};
use crate::version::Version;
use thiserror::Error;

/// Why bytes are not a message, or a message cannot become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The bytes are not PackStream.
    #[error("malformed message: {0}")]
    Decode(#[from] DecodeError),
    /// The message does not fit PackStream.
    #[error("message cannot be encoded: {0}")]
    Encode(#[from] EncodeError),
    /// The version has no such request.
    #[error("Bolt {version} has no request {tag:#04x}")]
    UnknownRequest {
        /// The tag of the message.
        tag: u8,
        /// The version that does not have it.
        version: Version,
    },
    /// No version has such a response.
    #[error("there is no response {0:#04x}")]
    UnknownResponse(u8),
    /// A message has another number of fields than it should.
    #[error("message {tag:#04x} with {fields} fields")]
    WrongFields {
        /// The tag of the message.
        tag: u8,
        /// How many fields it came with.
        fields: usize,
    },
    /// An entry that a message needs is missing, of a wrong type or out of range.
    #[error("message {tag:#04x} without a good {entry}")]
    BadEntry {
        /// The tag of the message.
        tag: u8,
        /// The name of the entry.
        entry: &'static str,
    },
}

/// A decoder at the first field of a message, its tag and how many fields it has.
///
/// A message is a structure in its short form: whoever only looks at the second
/// byte of a message, as a gateway does, must see the same tag.
pub(crate) fn open(payload: &[u8], limits: Limits) -> Result<(Decoder<'_>, u8, usize), DecodeError> {
    let mut decoder = Decoder::new(payload, limits);
    let (tag, fields) = decoder.structure_header()?;
    match payload.first() {
        Some(0xB0..=0xBF) => Ok((decoder, tag, fields)),
        Some(found) => Err(DecodeError::WrongType {
            expected: Kind::Structure,
            found: *found,
        }),
        None => Err(DecodeError::Truncated),
    }
}
