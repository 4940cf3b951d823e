//! Whole messages out of a stream.

use super::{ChunkDecoder, FrameError, Piece};

/// Yields whole messages, without their chunk headers.
///
/// A message that lies in one chunk and in one input is lent out of that
/// input. Others are put together in a buffer, which holds what has really
/// arrived, never what was announced, and is given back between messages.
#[derive(Clone, Debug)]
pub struct Assembler {
    chunks: ChunkDecoder,
    buffer: Vec<u8>,
    /// The buffer holds a message that was already lent out.
    lent: bool,
}

impl Assembler {
    /// An assembler at the start of a stream, for messages of at most `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self {
            chunks: ChunkDecoder::new(limit),
            buffer: Vec::new(),
            lent: false,
        }
    }

    /// Takes the next message from the front of `input`; none if more bytes are needed.
    pub fn next<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Result<Option<&'a [u8]>, FrameError> {
        if self.lent {
            self.buffer.clear();
            self.lent = false;
        }
        if self.chunks.is_idle()
            && let Some((message, rest)) = whole_message(input, self.chunks.limit())
        {
            *input = rest;
            return Ok(Some(message));
        }
        while let Some(piece) = self.chunks.next(input)? {
            match piece {
                Piece::Data(data) => self.buffer.extend_from_slice(data),
                Piece::Noop => {}
                Piece::End => {
                    self.lent = true;
                    return Ok(Some(&self.buffer));
                }
            }
        }
        if self.chunks.is_idle() {
            self.buffer = Vec::new();
        }
        Ok(None)
    }

    /// Gives the memory of the message back that was lent last, without waiting for the next one.
    pub fn release(&mut self) {
        if self.lent {
            self.buffer = Vec::new();
            self.lent = false;
        }
    }

    /// Whether the stream is between two messages.
    pub const fn is_idle(&self) -> bool {
        self.chunks.is_idle()
    }
}

/// The common case: `input` begins with a message of one chunk, complete.
fn whole_message(input: &[u8], limit: usize) -> Option<(&[u8], &[u8])> {
    let (header, rest) = input.split_first_chunk::<2>()?;
    let size = usize::from(u16::from_be_bytes(*header));
    if size == 0 || size > limit {
        return None;
    }
    let (message, rest) = rest.split_at_checked(size)?;
    Some((message, rest.strip_prefix(&[0, 0])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A login in pieces is the last message that is put together here, and its connection may live for months.
    #[test]
    fn what_a_message_in_pieces_took_is_given_back_when_it_is_released() {
        let mut assembler = Assembler::new(100);
        let message = [0, 2, 0xB1, 0x01, 0, 1, 0xA0, 0, 0];
        for cut in 1..message.len() {
            let (mut first, mut second) = message.split_at(cut);
            let early = assembler.next(&mut first).unwrap().map(<[u8]>::to_vec);
            assert_eq!(early, None);
            assembler.release();
            let whole = assembler.next(&mut second).unwrap();
            assert_eq!(whole, Some(&[0xB1, 0x01, 0xA0][..]), "half of it is kept");
            assembler.release();
            assert_eq!(assembler.buffer.capacity(), 0);
        }
    }
}
