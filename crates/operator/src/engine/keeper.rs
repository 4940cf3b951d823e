//! What the engine knows of a kind: somebody who can take a turn, and somebody who is told what came of it.

use super::lease::Permit;
use super::turns::Key;
use std::time::Duration;

/// One object of a kind, and what its operator remembers of it. Forgotten when another operator leads.
pub trait Keeper: Send + 'static {
    /// What a turn has to tell.
    type Told: Send + 'static;
    /// Why a turn came to nothing.
    type Error: std::error::Error + Send + 'static;

    /// One turn: observe, decide, check, act, report. The permit is asked right before each step.
    fn turn(
        &mut self,
        permit: &Permit,
    ) -> impl Future<Output = Result<Turned<Self::Told>, Self::Error>> + Send;
}

/// What came of a turn.
#[derive(Debug)]
pub struct Turned<T> {
    /// When to look again.
    pub again: Duration,
    /// What happened, for status, Events, metrics and the HTTP state; `None` if the object is gone.
    pub told: Option<T>,
}

/// Who is told what came of the turns of a kind.
pub trait Audience<T>: Send + Sync + 'static {
    /// A turn is over.
    fn told(&self, key: &Key, told: Option<T>);
    /// A turn came to nothing.
    fn failed(&self, key: &Key, why: &str);
    /// The object is gone.
    fn forget(&self, key: &Key);
    /// This operator does not lead any more: what it knew of the objects is somebody else's to tell.
    fn forget_all(&self);
    /// How long a turn took, however it ended.
    fn took(&self, _key: &Key, _took: Duration) {}
}
