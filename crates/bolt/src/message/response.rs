//! What a server may answer.

use super::auth::take_text;
use super::{Failure, MessageError, open, tag};
use crate::frame::frame_with;
use crate::packstream::{Decoder, Dict, Encoder, Limits, Value, dict};

/// A message from a server. The same in every version.
#[derive(Clone, Debug, PartialEq)]
pub enum Response<'a> {
    /// It worked.
    Success(Dict<'a>),
    /// One row.
    Record(Vec<Value<'a>>),
    /// Not done, because something failed before.
    Ignored,
    /// It did not work.
    Failure(Failure<'a>),
}

impl<'a> Response<'a> {
    /// Reads a message that fills `payload` (without chunk headers).
    pub fn parse(payload: &'a [u8], limits: Limits) -> Result<Self, MessageError> {
        let (mut decoder, tag, fields) = open(payload, limits)?;
        let response = match (tag, fields) {
            (tag::SUCCESS, 1) => Self::Success(decoder.dict()?),
            (tag::RECORD, 1) => Self::Record(decoder.list(Decoder::value)?),
            (tag::IGNORED, 0) => Self::Ignored,
            // Servers of version 1 may say more, which nobody reads.
            (tag::IGNORED, 1) => {
                decoder.dict()?;
                Self::Ignored
            }
            (tag::FAILURE, 1) => Self::Failure(failure(decoder.dict()?)?),
            (tag @ (tag::SUCCESS | tag::RECORD | tag::IGNORED | tag::FAILURE), fields) => {
                return Err(MessageError::WrongFields { tag, fields });
            }
            (tag, _) => return Err(MessageError::UnknownResponse(tag)),
        };
        decoder.finish()?;
        Ok(response)
    }

    /// Appends the message to `out`, without chunk headers.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), MessageError> {
        let mut to = Encoder::new(out);
        match self {
            Self::Success(metadata) => {
                to.structure_header(tag::SUCCESS, 1);
                to.dict(metadata)?;
            }
            Self::Record(values) => record(values, &mut to)?,
            Self::Ignored => to.structure_header(tag::IGNORED, 0),
            Self::Failure(Failure { code, message }) => {
                to.structure_header(tag::FAILURE, 1);
                to.dict(&dict([
                    ("code", Value::from(code.as_ref())),
                    ("message", Value::from(message.as_ref())),
                ]))?;
            }
        }
        Ok(())
    }

    /// Appends the message to `out`, in chunks. If it fails, `out` is as it was.
    pub fn frame(&self, out: &mut Vec<u8>) -> Result<(), MessageError> {
        frame_with(out, |out| self.encode(out))
    }
}

/// Appends a RECORD to `out`, in chunks, without taking the values.
pub fn frame_record(values: &[Value<'_>], out: &mut Vec<u8>) -> Result<(), MessageError> {
    frame_with(out, |out| record(values, &mut Encoder::new(out)))
}

fn record(values: &[Value<'_>], to: &mut Encoder<'_>) -> Result<(), MessageError> {
    to.structure_header(tag::RECORD, 1);
    Ok(to.list(values, Encoder::value)?)
}

fn failure(mut entries: Dict<'_>) -> Result<Failure<'_>, MessageError> {
    let mut text = |entry: &'static str| {
        take_text(tag::FAILURE, &mut entries, entry)?.ok_or(MessageError::BadEntry {
            tag: tag::FAILURE,
            entry,
        })
    };
    Ok(Failure {
        code: text("code")?,
        message: text("message")?,
    })
}
