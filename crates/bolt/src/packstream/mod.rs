//! PackStream: the values inside messages.
//!
//! [`Value`] borrows strings and bytes from the input it was decoded from;
//! [`Value::into_owned`] cuts that tie. Decoding accepts every encoding of a
//! value, encoding produces the smallest, with the keys of dictionaries sorted
//! (which is also what Memgraph sends).

mod decode;
mod decode_structure;
mod encode;
mod encode_structure;
mod graph;
mod limits;
mod marker;
mod owned;
mod temporal;
#[cfg(test)]
mod tests;
mod value;

pub use decode::{DecodeError, Decoder, Kind, decode};
pub use encode::{EncodeError, Encoder, encode};
pub use graph::{BadPath, Node, Path, Relationship, RelationshipElementIds, Structure, UnboundRelationship};
pub use limits::Limits;
pub(crate) use owned::{own_dict, own_text};
pub use temporal::{
    Date, DateTime, DateTimeZoneId, Duration, LegacyDateTime, LegacyDateTimeZoneId, LocalDateTime, LocalTime,
    Point2D, Point3D, Time,
};
pub use value::{Dict, OwnedDict, OwnedValue, Value, dict};
