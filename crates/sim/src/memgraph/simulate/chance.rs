//! The only source of randomness: one seed.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::ops::Range;

/// Draws from one seed.
#[derive(Debug)]
pub struct Chance(ChaCha8Rng);

impl Chance {
    /// Everything follows from this seed.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        let wide = u128::from(self.0.next_u64()) * u128::from(n.max(1));
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number in a range.
    pub fn between(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end.saturating_sub(range.start))
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A pod, gateway or operator.
    pub fn pick(&mut self, n: u8) -> u8 {
        u8::try_from(self.below(u64::from(n))).unwrap_or(0)
    }
}
