//! How much a peer may make us do.

/// Bounds on what one message may decode to.
///
/// The number of bytes is bounded by the framing. A byte on the wire can still
/// become a whole [`super::Value`] in memory, so values are counted too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How deep lists, dictionaries and structures may be nested. A `u8`,
    /// because decoding recurses and the stack has an end.
    pub depth: u8,
    /// How many values a message may hold, those in lists and dictionaries included.
    pub values: usize,
}

impl Limits {
    /// Deep enough for everything a driver sends, far from the end of the stack.
    pub const DEFAULT: Self = Self {
        depth: 64,
        values: 1 << 20,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
