//! Cutting messages into chunks.

use super::MAX_CHUNK;

/// A chunk to be sent: its header, then its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The size of the body, as it goes over the wire.
    pub header: [u8; 2],
    /// A part of the message; empty in the chunk that ends it.
    pub body: &'a [u8],
}

/// The chunks of one message, borrowed from it. The last one is empty.
///
/// For writers that take several slices at once: nothing is copied.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    left: Option<&'a [u8]>,
}

impl<'a> Chunks<'a> {
    /// The chunks of `message`. An empty message gives a single empty chunk, which is a NOOP.
    pub const fn new(message: &'a [u8]) -> Self {
        Self { left: Some(message) }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left?;
        let (body, rest) = left.split_at_checked(MAX_CHUNK).unwrap_or((left, &[]));
        self.left = (!body.is_empty()).then_some(rest);
        Some(Chunk {
            header: header(body.len()),
            body,
        })
    }
}

/// Appends `message` to `out`, in chunks.
pub fn frame_into(out: &mut Vec<u8>, message: &[u8]) {
    for Chunk { header, body } in Chunks::new(message) {
        out.extend_from_slice(&header);
        out.extend_from_slice(body);
    }
}

/// Appends a message that `write` writes, in chunks.
///
/// A message that fits one chunk (nearly every one) is written in place. If
/// `write` fails, `out` is as it was.
pub fn frame_with<E>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&[0, 0]);
    let body = out.len();
    if let Err(error) = write(out) {
        out.truncate(start);
        return Err(error);
    }
    let size = out.len().saturating_sub(body);
    if size <= MAX_CHUNK {
        if let Some(slot) = out.get_mut(start..body) {
            slot.copy_from_slice(&header(size));
        }
        out.extend_from_slice(&[0, 0]);
    } else {
        let message = out.split_off(body);
        out.truncate(start);
        frame_into(out, &message);
    }
    Ok(())
}

/// `size` is at most [`MAX_CHUNK`] wherever this is called.
fn header(size: usize) -> [u8; 2] {
    u16::try_from(size).unwrap_or(u16::MAX).to_be_bytes()
}
