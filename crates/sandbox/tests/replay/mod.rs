//! Plays a recording of real servers against stand-ins and says where they differ.

mod compare;
mod play;
mod step;
mod tools;

pub(crate) use play::play;

/// One step that did not go as it was recorded.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Its number in the recording.
    pub(crate) step: u32,
    /// What was done.
    pub(crate) what: String,
    /// What differed.
    pub(crate) how: String,
}
