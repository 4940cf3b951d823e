//! Values out of bytes.

use super::graph::BadPath;
use super::limits::Limits;
use super::marker;
use super::value::{Dict, Value};
use std::borrow::Cow;
use std::fmt;
use thiserror::Error;

/// Why bytes are not a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end before the value does. Also what a size that is larger
    /// than the rest of the input leads to, before anything is allocated.
    #[error("the input ends inside a value")]
    Truncated,
    /// There are bytes after the value.
    #[error("{0} bytes follow the value")]
    Trailing(usize),
    /// No value begins with this byte.
    #[error("no value begins with {0:#04x}")]
    UnknownMarker(u8),
    /// Text is not UTF-8.
    #[error("text is not UTF-8")]
    NotUtf8,
    /// Values are nested deeper than allowed.
    #[error("values are nested deeper than {0}")]
    TooDeep(u8),
    /// There are more values than allowed.
    #[error("there are more than {0} values")]
    TooManyValues(usize),
    /// A value is of another type than its place asks for.
    #[error("expected {expected}, found a value that begins with {found:#04x}")]
    WrongType {
        /// What the place asks for.
        expected: Kind,
        /// How the value begins.
        found: u8,
    },
    /// A dictionary has a key twice (Memgraph refuses that too).
    #[error("a dictionary has a key twice")]
    DuplicateKey,
    /// No structure has this tag.
    #[error("no structure has tag {0:#04x}")]
    UnknownStructure(u8),
    /// A structure has a number of fields that no version gives it.
    #[error("structure {tag:#04x} with {fields} fields")]
    WrongFields {
        /// Which structure.
        tag: u8,
        /// How many fields it came with.
        fields: usize,
    },
    /// A path that leads nowhere.
    #[error("{0}")]
    BadPath(#[from] BadPath),
}

/// A type of value, for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Int,
    /// A floating point number.
    Float,
    /// Text.
    String,
    /// A list.
    List,
    /// A dictionary.
    Dict,
    /// A structure.
    Structure,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Int => "a whole number",
            Self::Float => "a floating point number",
            Self::String => "text",
            Self::List => "a list",
            Self::Dict => "a dictionary",
            Self::Structure => "a structure",
        })
    }
}

/// Decodes one value that fills `input`.
pub fn decode(input: &[u8], limits: Limits) -> Result<Value<'_>, DecodeError> {
    let mut decoder = Decoder::new(input, limits);
    let value = decoder.value()?;
    decoder.finish()?;
    Ok(value)
}

/// Reads values one after the other.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    input: &'a [u8],
    limits: Limits,
    depth: u8,
    values_left: usize,
}

impl<'a> Decoder<'a> {
    /// A decoder at the start of `input`.
    pub const fn new(input: &'a [u8], limits: Limits) -> Self {
        Self {
            input,
            limits,
            depth: 0,
            values_left: limits.values,
        }
    }

    /// Says that nothing more is expected.
    pub const fn finish(self) -> Result<(), DecodeError> {
        match self.input {
            [] => Ok(()),
            rest => Err(DecodeError::Trailing(rest.len())),
        }
    }

    /// The next value, whatever it is.
    pub fn value(&mut self) -> Result<Value<'a>, DecodeError> {
        let marker = self.peek()?;
        match marker {
            marker::NULL => self.constant(Value::Null),
            marker::TRUE => self.constant(Value::Bool(true)),
            marker::FALSE => self.constant(Value::Bool(false)),
            marker::FLOAT => self.float().map(Value::Float),
            0x00..=0x7F | 0xF0..=0xFF | marker::INT_8..=marker::INT_64 => self.int().map(Value::Int),
            marker::BYTES_8..=marker::BYTES_32 => {
                self.bytes().map(|bytes| Value::Bytes(Cow::Borrowed(bytes)))
            }
            0x80..=0x8F | marker::STRING_8..=marker::STRING_32 => self.string().map(Value::String),
            0x90..=0x9F | marker::LIST_8..=marker::LIST_32 => self.list(Self::value).map(Value::List),
            0xA0..=0xAF | marker::DICT_8..=marker::DICT_32 => self.dict().map(Value::Dict),
            0xB0..=0xBF | marker::STRUCTURE_8 | marker::STRUCTURE_16 => self
                .structure()
                .map(|structure| Value::Structure(Box::new(structure))),
            unknown => Err(DecodeError::UnknownMarker(unknown)),
        }
    }

    /// The next value, which must be a whole number.
    pub fn int(&mut self) -> Result<i64, DecodeError> {
        let [marker] = self.take_array()?;
        match marker {
            0x00..=0x7F | 0xF0..=0xFF => Ok(i64::from(i8::from_be_bytes([marker]))),
            marker::INT_8 => self.take_array().map(|bytes| i64::from(i8::from_be_bytes(bytes))),
            marker::INT_16 => self
                .take_array()
                .map(|bytes| i64::from(i16::from_be_bytes(bytes))),
            marker::INT_32 => self
                .take_array()
                .map(|bytes| i64::from(i32::from_be_bytes(bytes))),
            marker::INT_64 => self.take_array().map(i64::from_be_bytes),
            found => Err(DecodeError::WrongType {
                expected: Kind::Int,
                found,
            }),
        }
    }

    /// The next value, which must be a floating point number.
    pub fn float(&mut self) -> Result<f64, DecodeError> {
        match self.take_array()? {
            [marker::FLOAT] => self.take_array().map(f64::from_be_bytes),
            [found] => Err(DecodeError::WrongType {
                expected: Kind::Float,
                found,
            }),
        }
    }

    /// The next value, which must be text.
    pub fn string(&mut self) -> Result<Cow<'a, str>, DecodeError> {
        let size = self.size(marker::TINY_STRING, marker::STRING_8, Kind::String)?;
        let text = str::from_utf8(self.take(size)?).map_err(|_| DecodeError::NotUtf8)?;
        Ok(Cow::Borrowed(text))
    }

    /// The next value, which must be a list of what `item` reads.
    pub fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let size = self.size(marker::TINY_LIST, marker::LIST_8, Kind::List)?;
        self.reserve(size, 1)?;
        self.nested(|decoder| {
            let mut items = Vec::with_capacity(size);
            for _ in 0..size {
                items.push(item(decoder)?);
            }
            Ok(items)
        })
    }

    /// The next value, which must be a dictionary.
    pub fn dict(&mut self) -> Result<Dict<'a>, DecodeError> {
        let size = self.size(marker::TINY_DICT, marker::DICT_8, Kind::Dict)?;
        self.reserve(size, 2)?;
        self.nested(|decoder| {
            let mut dict = Dict::new();
            for _ in 0..size {
                let key = decoder.string()?;
                if dict.insert(key, decoder.value()?).is_some() {
                    return Err(DecodeError::DuplicateKey);
                }
            }
            Ok(dict)
        })
    }

    /// The tag and the number of fields of the structure that comes next. The fields follow.
    pub fn structure_header(&mut self) -> Result<(u8, usize), DecodeError> {
        let [marker] = self.take_array()?;
        let fields = match marker {
            0xB0..=0xBF => usize::from(marker & 0x0F),
            marker::STRUCTURE_8 => self
                .take_array()
                .map(|bytes| usize::from(u8::from_be_bytes(bytes)))?,
            marker::STRUCTURE_16 => self
                .take_array()
                .map(|bytes| usize::from(u16::from_be_bytes(bytes)))?,
            found => {
                return Err(DecodeError::WrongType {
                    expected: Kind::Structure,
                    found,
                });
            }
        };
        let [tag] = self.take_array()?;
        self.reserve(fields, 1)?;
        Ok((tag, fields))
    }

    /// Runs `inner` one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        if self.depth >= self.limits.depth {
            return Err(DecodeError::TooDeep(self.limits.depth));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn constant(&mut self, value: Value<'a>) -> Result<Value<'a>, DecodeError> {
        self.take(1)?;
        Ok(value)
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let [marker] = self.take_array()?;
        let size = match marker {
            marker::BYTES_8 => self.size_8()?,
            marker::BYTES_16 => self.size_16()?,
            _ => self.size_32()?,
        };
        self.take(size)
    }

    /// The size of a string, list or dictionary. The three markers with a size after them follow
    /// each other from `marker_8` on, for all three types.
    fn size(&mut self, tiny: u8, marker_8: u8, expected: Kind) -> Result<usize, DecodeError> {
        let [found] = self.take_array()?;
        if found & 0xF0 == tiny {
            return Ok(usize::from(found & 0x0F));
        }
        match found.wrapping_sub(marker_8) {
            0 => self.size_8(),
            1 => self.size_16(),
            2 => self.size_32(),
            _ => Err(DecodeError::WrongType { expected, found }),
        }
    }

    fn size_8(&mut self) -> Result<usize, DecodeError> {
        self.take_array()
            .map(|bytes| usize::from(u8::from_be_bytes(bytes)))
    }

    fn size_16(&mut self) -> Result<usize, DecodeError> {
        self.take_array()
            .map(|bytes| usize::from(u16::from_be_bytes(bytes)))
    }

    fn size_32(&mut self) -> Result<usize, DecodeError> {
        let size = u32::from_be_bytes(self.take_array()?);
        usize::try_from(size).map_err(|_| DecodeError::Truncated)
    }

    /// Accounts for `count` values of at least `each` bytes before any of them is read.
    ///
    /// Charging at once is what makes reserving memory for them safe: the sum
    /// of all claims stays under the limit, however they are nested.
    fn reserve(&mut self, count: usize, each: usize) -> Result<(), DecodeError> {
        if count.saturating_mul(each) > self.input.len() {
            return Err(DecodeError::Truncated);
        }
        self.values_left = self
            .values_left
            .checked_sub(count)
            .ok_or(DecodeError::TooManyValues(self.limits.values))?;
        Ok(())
    }

    pub(super) fn peek(&self) -> Result<u8, DecodeError> {
        self.input.first().copied().ok_or(DecodeError::Truncated)
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.input.split_at_checked(size).ok_or(DecodeError::Truncated)?;
        self.input = rest;
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self
            .input
            .split_first_chunk::<N>()
            .ok_or(DecodeError::Truncated)?;
        self.input = rest;
        Ok(*taken)
    }
}
