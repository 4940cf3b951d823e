//! Values into bytes, in their smallest form.

use super::marker;
use super::value::{Dict, Value};
use thiserror::Error;

/// Why a value cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// Text, bytes, a list or a dictionary has more than 2^32 - 1 parts.
    #[error("a value has {0} parts, more than can be encoded")]
    TooLong(usize),
    /// Values are nested deeper than any decoder would follow.
    #[error("values are nested too deep")]
    TooDeep,
}

/// Appends `value` to `out`.
pub fn encode(value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    Encoder::new(out).value(value)
}

/// Writes values one after the other.
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    depth: u8,
}

impl<'a> Encoder<'a> {
    /// An encoder that appends to `out`.
    pub const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, depth: 0 }
    }

    /// Any value.
    pub fn value(&mut self, value: &Value<'_>) -> Result<(), EncodeError> {
        match value {
            Value::Null => self.out.push(marker::NULL),
            Value::Bool(true) => self.out.push(marker::TRUE),
            Value::Bool(false) => self.out.push(marker::FALSE),
            Value::Int(number) => self.int(*number),
            Value::Float(number) => self.float(*number),
            Value::Bytes(bytes) => return self.bytes(bytes),
            Value::String(text) => return self.string(text),
            Value::List(values) => return self.list(values, Self::value),
            Value::Dict(dict) => return self.dict(dict),
            Value::Structure(structure) => return self.structure(structure),
        }
        Ok(())
    }

    /// A whole number.
    pub fn int(&mut self, number: i64) {
        if let Ok(small) = i8::try_from(number) {
            if small < -16 {
                self.out.push(marker::INT_8);
            }
            self.out.extend_from_slice(&small.to_be_bytes());
        } else if let Ok(number) = i16::try_from(number) {
            self.out.push(marker::INT_16);
            self.out.extend_from_slice(&number.to_be_bytes());
        } else if let Ok(number) = i32::try_from(number) {
            self.out.push(marker::INT_32);
            self.out.extend_from_slice(&number.to_be_bytes());
        } else {
            self.out.push(marker::INT_64);
            self.out.extend_from_slice(&number.to_be_bytes());
        }
    }

    /// A floating point number.
    pub fn float(&mut self, number: f64) {
        self.out.push(marker::FLOAT);
        self.out.extend_from_slice(&number.to_be_bytes());
    }

    /// Bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.size(
            None,
            [marker::BYTES_8, marker::BYTES_16, marker::BYTES_32],
            bytes.len(),
        )?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Text.
    pub fn string(&mut self, text: &str) -> Result<(), EncodeError> {
        let markers = [marker::STRING_8, marker::STRING_16, marker::STRING_32];
        self.size(Some(marker::TINY_STRING), markers, text.len())?;
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// A list of what `item` writes.
    pub fn list<T>(
        &mut self,
        items: &[T],
        mut item: impl FnMut(&mut Self, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let markers = [marker::LIST_8, marker::LIST_16, marker::LIST_32];
        self.size(Some(marker::TINY_LIST), markers, items.len())?;
        self.nested(|encoder| items.iter().try_for_each(|value| item(encoder, value)))
    }

    /// A dictionary.
    pub fn dict(&mut self, dict: &Dict<'_>) -> Result<(), EncodeError> {
        let markers = [marker::DICT_8, marker::DICT_16, marker::DICT_32];
        self.size(Some(marker::TINY_DICT), markers, dict.len())?;
        self.nested(|encoder| {
            dict.iter().try_for_each(|(key, value)| {
                encoder.string(key)?;
                encoder.value(value)
            })
        })
    }

    /// The head of a structure; the caller writes as many values as `fields` says.
    ///
    /// Only the lower four bits of `fields` count: no structure has more than 15.
    pub fn structure_header(&mut self, tag: u8, fields: u8) {
        self.out
            .extend_from_slice(&[marker::TINY_STRUCTURE | (fields & 0x0F), tag]);
    }

    pub(super) fn nested(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.depth = self.depth.checked_add(1).ok_or(EncodeError::TooDeep)?;
        inner(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn size(&mut self, tiny: Option<u8>, markers: [u8; 3], size: usize) -> Result<(), EncodeError> {
        let [marker_8, marker_16, marker_32] = markers;
        let too_long = EncodeError::TooLong(size);
        let size = u32::try_from(size).map_err(|_| too_long)?;
        if let Ok(size) = u8::try_from(size) {
            match tiny {
                Some(tiny) if size < 16 => self.out.push(tiny | size),
                _ => self.out.extend_from_slice(&[marker_8, size]),
            }
        } else if let Ok(size) = u16::try_from(size) {
            self.out.push(marker_16);
            self.out.extend_from_slice(&size.to_be_bytes());
        } else {
            self.out.push(marker_32);
            self.out.extend_from_slice(&size.to_be_bytes());
        }
        Ok(())
    }
}
