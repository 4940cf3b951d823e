//! Buffers that belong to nobody: a connection borrows one while it has bytes to move, and an idle one has none.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// What one read moves at most.
const SIZE: usize = 32 * 1024;
/// How many are kept for the next who needs one.
const KEPT: usize = 64;

/// The buffers of one gateway. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers(Arc<Mutex<Vec<Box<[u8]>>>>);

impl Buffers {
    pub(crate) fn take(&self) -> Buffer {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Buffer {
            bytes: free.unwrap_or_else(|| vec![0; SIZE].into_boxed_slice()),
            home: self.clone(),
        }
    }
}

/// A buffer that goes home when it is dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Box<[u8]>,
    home: Buffers,
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut free = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_not_hoarded() {
        let buffers = Buffers::default();
        let first = buffers.take().as_ptr();
        assert_eq!(buffers.take().as_ptr(), first, "used again");
        let many: Vec<_> = (0..KEPT + 10).map(|_| buffers.take()).collect();
        drop(many);
        assert_eq!(buffers.0.lock().unwrap().len(), KEPT);
        assert_eq!(buffers.take().len(), SIZE);
    }
}
