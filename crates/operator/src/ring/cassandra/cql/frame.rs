//! The little of CQL's native protocol, version 4, that is needed to read tables: without I/O.

use std::collections::BTreeMap;
use std::net::IpAddr;
use thiserror::Error;

/// Bytes before each body.
pub(super) const HEADER: usize = 9;
/// The largest body that is read.
pub(super) const LARGEST: usize = 64 * 1024 * 1024;

const VERSION: u8 = 0x04;
const ANSWER: u8 = 0x84;

/// How many must agree before a statement is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Consistency {
    /// The one that is asked, or another.
    One = 1,
    /// A majority of those who keep the row.
    Quorum = 4,
    /// Everybody who keeps the row.
    All = 5,
}

/// An answer that is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Shorter than it says.
    #[error("an answer is cut off")]
    Short,
    /// Not what follows what was sent.
    #[error("an answer is not understood ({0})")]
    Odd(&'static str),
    /// It says no.
    #[error("refused: {0}")]
    Refused(String),
    /// Clients log in there, and we have no account.
    #[error("clients have to log in ({0})")]
    Login(String),
}

/// What is sent to begin.
pub(super) fn startup() -> Vec<u8> {
    let mut body = Vec::new();
    short(&mut body, 1);
    for word in ["CQL_VERSION", "3.0.0"] {
        short(&mut body, word.len());
        body.extend(word.as_bytes());
    }
    framed(0x01, &body)
}

/// What is sent to ask.
pub(super) fn query(text: &str, consistency: Consistency) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
    body.extend(text.as_bytes());
    body.extend((consistency as u16).to_be_bytes());
    // No values, no paging.
    body.push(0);
    framed(0x07, &body)
}

fn short(body: &mut Vec<u8>, number: usize) {
    body.extend(u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes());
}

fn framed(opcode: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![VERSION, 0, 0, 0, opcode];
    frame.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend(body);
    frame
}

/// What kind of answer comes, and how long it is.
pub(super) fn header(bytes: [u8; HEADER]) -> Result<(u8, usize), FrameError> {
    let [version, flags, _, _, opcode, a, b, c, d] = bytes;
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if version != ANSWER || flags & 0x01 != 0 || length > LARGEST {
        return Err(FrameError::Odd("header"));
    }
    Ok((opcode, length))
}

/// Are we let in?
pub(super) fn ready(opcode: u8, body: &[u8]) -> Result<(), FrameError> {
    match opcode {
        0x02 => Ok(()),
        0x03 => Err(FrameError::Login(Cursor(body).string()?)),
        _ => Err(refusal(opcode, body)),
    }
}

fn refusal(opcode: u8, body: &[u8]) -> FrameError {
    let mut cursor = Cursor(body);
    match (opcode, cursor.int(), cursor.string()) {
        (0x00, Ok(_), Ok(message)) => FrameError::Refused(message),
        _ => FrameError::Odd("opcode"),
    }
}

/// One row: each value as it came, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(Vec<Option<Vec<u8>>>);

/// The rows of an answer; none if it has none by its kind.
pub(super) fn rows(opcode: u8, body: &[u8]) -> Result<Vec<Row>, FrameError> {
    if opcode != 0x08 {
        return Err(refusal(opcode, body));
    }
    let mut cursor = Cursor(body);
    if cursor.int()? != 2 {
        return Ok(Vec::new());
    }
    let columns = metadata(&mut cursor)?;
    if columns < 1 {
        return Err(FrameError::Odd("columns"));
    }
    let count = cursor.int()?;
    let mut found = Vec::new();
    for _ in 0..count {
        let row: Result<Vec<_>, _> = (0..columns).map(|_| cursor.value()).collect();
        found.push(Row(row?));
    }
    Ok(found)
}

/// Only how many columns there are is of interest: what was asked for is known.
fn metadata(cursor: &mut Cursor<'_>) -> Result<i32, FrameError> {
    let (flags, columns) = (cursor.int()?, cursor.int()?);
    let (global, more, none) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
    if more {
        return Err(FrameError::Odd("pages"));
    }
    if none {
        return Ok(columns);
    }
    if global {
        cursor.string()?;
        cursor.string()?;
    }
    for _ in 0..columns {
        if !global {
            cursor.string()?;
            cursor.string()?;
        }
        cursor.string()?;
        cursor.kind(0)?;
    }
    Ok(columns)
}

/// Types within types, and no further.
const DEEPEST: u8 = 8;

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], FrameError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(FrameError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        self.take(N)?.try_into().map_err(|_| FrameError::Short)
    }

    fn int(&mut self) -> Result<i32, FrameError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn short(&mut self) -> Result<u16, FrameError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn string(&mut self) -> Result<String, FrameError> {
        let length = usize::from(self.short()?);
        text(self.take(length)?)
    }

    /// A negative length is no value.
    fn value(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        match usize::try_from(self.int()?) {
            Ok(length) => Ok(Some(self.take(length)?.to_vec())),
            Err(_) => Ok(None),
        }
    }

    /// Passes over the description of a type.
    fn kind(&mut self, depth: u8) -> Result<(), FrameError> {
        if depth > DEEPEST {
            return Err(FrameError::Odd("types"));
        }
        match self.short()? {
            0x00 => drop(self.string()?),
            0x20 | 0x22 => self.kind(depth + 1)?,
            0x21 => {
                self.kind(depth + 1)?;
                self.kind(depth + 1)?;
            }
            0x30 => {
                self.string()?;
                self.string()?;
                for _ in 0..self.short()? {
                    self.string()?;
                    self.kind(depth + 1)?;
                }
            }
            0x31 => {
                for _ in 0..self.short()? {
                    self.kind(depth + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> Result<String, FrameError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| FrameError::Odd("text"))
}

impl Row {
    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, FrameError> {
        let value = self.0.get(column).ok_or(FrameError::Odd("columns"))?;
        Ok(value.as_deref())
    }

    /// A text, or none.
    pub fn text(&self, column: usize) -> Result<Option<String>, FrameError> {
        self.bytes(column)?.map(text).transpose()
    }

    /// A number, or none.
    pub fn int(&self, column: usize) -> Result<Option<i32>, FrameError> {
        let number = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).map(i32::from_be_bytes);
        let value = self.bytes(column)?.map(number).transpose();
        value.map_err(|_| FrameError::Odd("int"))
    }

    /// An address, or none.
    pub fn inet(&self, column: usize) -> Result<Option<IpAddr>, FrameError> {
        let address = |bytes: &[u8]| match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
            (Ok(four), _) => Ok(IpAddr::from(four)),
            (_, Ok(sixteen)) => Ok(IpAddr::from(sixteen)),
            _ => Err(FrameError::Odd("inet")),
        };
        self.bytes(column)?.map(address).transpose()
    }

    /// A map of texts; empty if there is none.
    pub fn map(&self, column: usize) -> Result<BTreeMap<String, String>, FrameError> {
        let mut map = BTreeMap::new();
        let Some(bytes) = self.bytes(column)? else {
            return Ok(map);
        };
        let mut cursor = Cursor(bytes);
        for _ in 0..cursor.int()? {
            let (key, value) = (cursor.value()?, cursor.value()?);
            let both = key.zip(value).ok_or(FrameError::Odd("map"))?;
            map.insert(text(&both.0)?, text(&both.1)?);
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Cassandra 5.0.9 answered to a SELECT of `address, generation, status_with_port, replication`, put together
    /// from its answers.
    fn answer() -> Vec<u8> {
        let mut body = vec![0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 4];
        let string = |body: &mut Vec<u8>, word: &str| {
            short(body, word.len());
            body.extend(word.as_bytes());
        };
        string(&mut body, "system_views");
        string(&mut body, "gossip_info");
        let columns: [(&str, &[u8]); 4] = [
            ("address", &[0, 0x10]),
            ("generation", &[0, 0x09]),
            ("status_with_port", &[0, 0x0d]),
            ("replication", &[0, 0x21, 0, 0x0d, 0, 0x0d]),
        ];
        for (name, kind) in columns {
            string(&mut body, name);
            body.extend(kind);
        }
        body.extend([0, 0, 0, 1]);
        body.extend([0, 0, 0, 4, 127, 10, 201, 49]);
        body.extend([0, 0, 0, 4, 0x6a, 0xfc, 0x66, 0x98]);
        body.extend([0xff; 4]);
        let mut map = vec![0, 0, 0, 1, 0, 0, 0, 3];
        map.extend(b"dc1");
        map.extend([0, 0, 0, 1]);
        map.extend(b"3");
        body.extend(u32::try_from(map.len()).unwrap().to_be_bytes());
        body.extend(map);
        body
    }

    #[test]
    fn rows_are_read_and_what_is_null_is_none() {
        let rows = rows(0x08, &answer()).unwrap();
        let row = rows.first().unwrap();
        assert_eq!(row.inet(0).unwrap(), Some(IpAddr::from([127, 10, 201, 49])));
        assert_eq!(row.int(1).unwrap(), Some(1_794_926_232));
        assert_eq!(row.text(2).unwrap(), None);
        assert_eq!(
            row.map(3).unwrap(),
            BTreeMap::from([("dc1".to_owned(), "3".to_owned())])
        );
        assert!(row.text(4).is_err() && row.inet(1).is_ok() && row.int(3).is_err());
    }

    #[test]
    fn an_answer_that_is_cut_off_anywhere_is_an_error_and_no_panic() {
        let whole = answer();
        for length in 0..whole.len() {
            assert!(rows(0x08, whole.get(..length).unwrap()).is_err(), "{length}");
        }
    }

    #[test]
    fn a_refusal_is_told_in_its_words_and_a_login_is_not_tried() {
        let mut body = vec![0, 0, 0x22, 0];
        short(&mut body, 5);
        body.extend(b"no ks");
        assert_eq!(rows(0x00, &body), Err(FrameError::Refused("no ks".to_owned())));
        let mut body = Vec::new();
        short(&mut body, 4);
        body.extend(b"Auth");
        assert_eq!(ready(0x03, &body), Err(FrameError::Login("Auth".to_owned())));
        assert_eq!(ready(0x02, &[]), Ok(()));
        assert_eq!(
            rows(0x08, &[0, 0, 0, 1]),
            Ok(Vec::new()),
            "what changes something has no rows"
        );
    }

    #[test]
    fn what_is_sent_has_its_length_and_only_answers_are_read() {
        let sent = query("SELECT 1", Consistency::All);
        assert_eq!(sent.len(), HEADER + 4 + 8 + 3);
        assert_eq!(sent.get(..9).unwrap(), [4, 0, 0, 0, 7, 0, 0, 0, 15]);
        assert!(sent.ends_with(&[0, 5, 0]));
        assert_eq!(header([0x84, 0, 0, 0, 2, 0, 0, 0, 7]), Ok((2, 7)));
        assert!(header([0x04, 0, 0, 0, 2, 0, 0, 0, 7]).is_err());
        assert!(header([0x84, 0, 0, 0, 2, 0xff, 0, 0, 0]).is_err(), "too large");
        assert_eq!(startup().len(), HEADER + 2 + 2 + 11 + 2 + 5);
    }
}
