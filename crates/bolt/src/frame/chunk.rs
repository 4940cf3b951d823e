//! The innermost decoder: what each byte of a stream is.

use super::FrameError;

/// What comes next in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Some bytes of the current message. Where a message is cut into pieces means nothing.
    Data(&'a [u8]),
    /// The message is complete.
    End,
    /// A sign of life between two messages.
    Noop,
}

/// Follows a stream of chunks, without keeping any of it.
#[derive(Clone, Debug)]
pub struct ChunkDecoder {
    limit: usize,
    /// Bytes of the current message announced so far. Zero means that none has begun.
    announced: usize,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Header,
    HalfHeader(u8),
    Body { left: usize },
    Failed(FrameError),
}

impl ChunkDecoder {
    /// A decoder at the start of a stream, for messages of at most `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            announced: 0,
            state: State::Header,
        }
    }

    /// Whether the stream is between two messages.
    pub const fn is_idle(&self) -> bool {
        matches!(self.state, State::Header) && self.announced == 0
    }

    /// The most bytes a message may have.
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Takes the next piece from the front of `input`; none if more bytes are needed.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Piece<'a>>, FrameError> {
        loop {
            let Some((&first, rest)) = input.split_first() else {
                return match self.state {
                    State::Failed(error) => Err(error),
                    State::Header | State::HalfHeader(_) | State::Body { .. } => Ok(None),
                };
            };
            match self.state {
                State::Header => {
                    *input = rest;
                    self.state = State::HalfHeader(first);
                }
                State::HalfHeader(high) => {
                    *input = rest;
                    if let Some(piece) = self.header(usize::from(u16::from_be_bytes([high, first])))? {
                        return Ok(Some(piece));
                    }
                }
                State::Body { left } => {
                    let (data, rest) = input.split_at_checked(left).unwrap_or((input, &[]));
                    *input = rest;
                    self.state = match left.saturating_sub(data.len()) {
                        0 => State::Header,
                        left => State::Body { left },
                    };
                    return Ok(Some(Piece::Data(data)));
                }
                State::Failed(error) => return Err(error),
            }
        }
    }

    fn header(&mut self, size: usize) -> Result<Option<Piece<'static>>, FrameError> {
        self.state = State::Header;
        if size == 0 {
            let piece = if self.announced == 0 {
                Piece::Noop
            } else {
                Piece::End
            };
            self.announced = 0;
            return Ok(Some(piece));
        }
        self.announced = self.announced.saturating_add(size);
        if self.announced > self.limit {
            let error = FrameError::TooLarge { limit: self.limit };
            self.state = State::Failed(error);
            return Err(error);
        }
        self.state = State::Body { left: size };
        Ok(None)
    }
}
