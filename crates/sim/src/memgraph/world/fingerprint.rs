//! One hash for everything: fixed seed, so that the same search gives the same numbers on every machine.

use foldhash::quality::FixedState;
use std::hash::{BuildHasher, Hash, Hasher};

/// A hasher with the fixed seed.
pub fn hasher() -> impl Hasher {
    FixedState::with_seed(0x6d61_696e_7374_6179).build_hasher()
}

/// The fingerprint of a value.
pub fn of<T: Hash>(value: &T) -> u64 {
    let mut hasher = hasher();
    value.hash(&mut hasher);
    hasher.finish()
}
