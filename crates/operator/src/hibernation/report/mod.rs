//! What people see: the same reasons in status, conditions, Events, metrics and over HTTP.

mod board;
mod conditions;
mod events;
mod exceptions;
mod ledger;
mod status;
mod unsaid;

pub use board::Board;
pub(super) use events::Seen;
pub(super) use exceptions::{next_change, tell_exceptions, unfollowed};
pub use status::{Followed, Outlook, Report, status};
pub(super) use unsaid::Unsaid;

pub use super::act::Taken;
use mainstay_core::hibernation::Phase;
use mainstay_core::hibernation::reason::Why;
use mainstay_core::time::Time;

/// Something that people wrote and that means nothing. It changes nothing, and whoever wrote it should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The reason of a condition and of an Event.
    pub reason: &'static str,
    /// In words.
    pub text: String,
}

/// What a turn has to tell.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Where the plan stands after it.
    pub phase: Option<Phase>,
    /// Why it did what it did.
    pub reasons: Vec<Why>,
    /// What was done.
    pub taken: Vec<Taken>,
    /// Invariants that the decision would have broken.
    pub violations: Vec<String>,
    /// Restore points that were captured from something that ran, and those that were not.
    pub points: (u64, u64),
    /// What went wrong.
    pub error: Option<String>,
    /// What the status says.
    pub message: String,
    /// When.
    pub at: Time,
}
