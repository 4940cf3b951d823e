//! A loop shows that it lives: each time it comes round, it says so.

use crate::clock::monotonic;
use mainstay_core::time::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// When a loop last came round. Clones are the same.
#[derive(Clone, Debug)]
pub struct Pulse(Arc<AtomicU64>);

impl Default for Pulse {
    /// A loop that is about to begin.
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(monotonic().0)))
    }
}

impl Pulse {
    /// It came round.
    pub fn beat(&self) {
        self.0.store(monotonic().0, Ordering::Relaxed);
    }

    /// How long ago that was.
    pub fn silence(&self) -> Duration {
        monotonic().since(Time(self.0.load(Ordering::Relaxed)))
    }
}
