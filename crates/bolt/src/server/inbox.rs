//! Bytes that came while a request was carried out.

/// Bytes that wait to be read, and how many of them were.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    read: usize,
}

impl Inbox {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn unread(&self) -> &[u8] {
        self.bytes.get(self.read..).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.unread().len()
    }

    /// Marks all but the last `left` bytes as read. Memory is given back when
    /// none is left, so that many small messages are not moved many times.
    pub(super) fn keep(&mut self, left: usize) {
        self.read = self.bytes.len().saturating_sub(left);
        if left == 0 {
            *self = Self::default();
        }
    }
}
