//! Following a stream from its headers alone.

use super::{ChunkDecoder, FrameError, Piece};

/// What a scanner saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanEvent {
    /// A message began, and it is known which.
    Begin(MessageHead),
    /// The message that began is complete.
    End(MessageEnd),
    /// A sign of life between two messages.
    Noop,
}

/// What is known of a message when its first two bytes were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// Which message it is; see [`crate::message::tag`].
    pub tag: u8,
    /// How many fields it has.
    pub fields: u8,
    /// Bytes on the wire since the message began, chunk headers included. So
    /// the message began that many bytes before the current position.
    pub wire: u64,
}

/// What is known of a message when its last byte was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageEnd {
    /// Which message it was.
    pub tag: u8,
    /// Its size without chunk headers.
    pub payload: u64,
    /// Its size on the wire.
    pub wire: u64,
}

/// Finds the boundaries and the tags of messages in a stream that somebody
/// else forwards.
///
/// It keeps a few numbers and no payload, so it costs nothing per idle
/// connection and a few operations per chunk, however large the chunk is.
#[derive(Clone, Debug)]
pub struct FrameScanner {
    chunks: ChunkDecoder,
    head: Head,
    payload: u64,
    wire: u64,
    failed: Option<FrameError>,
}

#[derive(Clone, Copy, Debug)]
enum Head {
    Nothing,
    Marker(u8),
    Tag(u8),
}

impl FrameScanner {
    /// A scanner at the start of a stream (after the handshake).
    pub const fn new(limit: usize) -> Self {
        Self {
            chunks: ChunkDecoder::new(limit),
            head: Head::Nothing,
            payload: 0,
            wire: 0,
            failed: None,
        }
    }

    /// Whether the stream is between two messages.
    pub const fn is_idle(&self) -> bool {
        self.chunks.is_idle()
    }

    /// Advances `input` to the next event; to its end if there is none.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<ScanEvent>, FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let event = self.advance(input);
        if let Err(error) = event {
            self.failed = Some(error);
        }
        event
    }

    fn advance(&mut self, input: &mut &[u8]) -> Result<Option<ScanEvent>, FrameError> {
        loop {
            let before = input.len();
            let piece = self.chunks.next(input)?;
            self.wire = self
                .wire
                .saturating_add(count(before.saturating_sub(input.len())));
            let event = match piece {
                None => return Ok(None),
                Some(Piece::Data(data)) => self.data(data)?,
                Some(Piece::End) => Some(self.end()?),
                Some(Piece::Noop) => {
                    self.wire = 0;
                    Some(ScanEvent::Noop)
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    fn data(&mut self, data: &[u8]) -> Result<Option<ScanEvent>, FrameError> {
        self.payload = self.payload.saturating_add(count(data.len()));
        let (marker, tag) = match (self.head, data) {
            (Head::Tag(_), _) | (_, []) => return Ok(None),
            (Head::Nothing, [marker]) => {
                self.head = Head::Marker(*marker);
                return Ok(None);
            }
            (Head::Nothing, [marker, tag, ..]) => (*marker, *tag),
            (Head::Marker(marker), [tag, ..]) => (marker, *tag),
        };
        if marker & 0xF0 != 0xB0 {
            return Err(FrameError::NotAMessage(marker));
        }
        self.head = Head::Tag(tag);
        Ok(Some(ScanEvent::Begin(MessageHead {
            tag,
            fields: marker & 0x0F,
            wire: self.wire,
        })))
    }

    fn end(&mut self) -> Result<ScanEvent, FrameError> {
        let Head::Tag(tag) = self.head else {
            return Err(FrameError::NoTag);
        };
        let end = MessageEnd {
            tag,
            payload: self.payload,
            wire: self.wire,
        };
        (self.head, self.payload, self.wire) = (Head::Nothing, 0, 0);
        Ok(ScanEvent::End(end))
    }
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
