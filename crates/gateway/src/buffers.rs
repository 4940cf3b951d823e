//! Buffers that belong to nobody: a connection borrows one while it has bytes to move, and an idle one has none.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What one read moves at most: requests and small answers fit.
const SMALL: usize = 16 * 1024;
/// And where the last read filled its buffer: a large result costs fewer system calls, and still fits the cache.
const LARGE: usize = 256 * 1024;
/// How many of either are kept for the next who needs one.
const KEPT_SMALL: usize = 64;
const KEPT_LARGE: usize = 8;
/// How many large ones there may be: a buffer is out as long as its bytes are not taken, and nobody knows how long that
/// is. Whoever comes too late for one moves its bytes in smaller pieces.
const MOST_LARGE: usize = 64;

type Free = Mutex<Vec<Box<[u8]>>>;

/// The buffers of one gateway. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers(Arc<Shelves>);

#[derive(Debug, Default)]
struct Shelves {
    small: Free,
    large: Free,
    /// Large ones that somebody has.
    large_out: AtomicUsize,
}

impl Buffers {
    /// A large one is for whoever is busy, if it is not one of too many.
    pub(crate) fn take(&self, busy: bool) -> Buffer {
        let out = &self.0.large_out;
        let more = |large| (large < MOST_LARGE).then_some(large + 1);
        let large = busy
            && out
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
                .is_ok();
        let (free, size) = if large {
            (&self.0.large, LARGE)
        } else {
            (&self.0.small, SMALL)
        };
        let taken = free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Buffer {
            bytes: taken.unwrap_or_else(|| vec![0; size].into_boxed_slice()),
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

/// After so many bytes were read at once: is there probably more, so that a large buffer pays?
pub(crate) const fn is_busy(read: usize) -> bool {
    read >= SMALL
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
        let Shelves {
            small,
            large,
            large_out,
        } = &*self.home.0;
        let (place, kept) = if self.bytes.len() == LARGE {
            large_out.fetch_sub(1, Ordering::Relaxed);
            (large, KEPT_LARGE)
        } else {
            (small, KEPT_SMALL)
        };
        let mut free = place.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < kept {
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
        for (busy, size, kept) in [(false, SMALL, KEPT_SMALL), (true, LARGE, KEPT_LARGE)] {
            let first = buffers.take(busy).as_ptr();
            assert_eq!(buffers.take(busy).as_ptr(), first, "used again");
            let many: Vec<_> = (0..kept + 10).map(|_| buffers.take(busy)).collect();
            drop(many);
            let free = if busy { &buffers.0.large } else { &buffers.0.small };
            assert_eq!(free.lock().unwrap().len(), kept);
            assert_eq!(buffers.take(busy).len(), size);
        }
    }

    #[test]
    fn however_many_are_busy_only_so_many_have_a_large_one() {
        let buffers = Buffers::default();
        let many: Vec<_> = (0..1_000).map(|_| buffers.take(true)).collect();
        let large = many.iter().filter(|buffer| buffer.len() == LARGE).count();
        assert_eq!(large, MOST_LARGE);
        assert!(many.iter().all(|buffer| buffer.len() >= SMALL));
        drop(many);
        assert_eq!(buffers.take(true).len(), LARGE, "they came back");
    }
}
