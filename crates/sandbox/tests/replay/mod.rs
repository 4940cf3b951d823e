//! Plays a recording of real servers against stand-ins and says where they differ.

mod compare;
mod play;
mod step;

pub use play::play;

/// One step that did not go as it was recorded.
#[derive(Debug)]
pub struct Difference {
    /// Its number in the recording.
    pub step: u32,
    /// What was done.
    pub what: String,
    /// What differed.
    pub how: String,
}
