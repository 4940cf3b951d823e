//! Who may act: a leader lease on a Kubernetes `Lease` object, without I/O.
//!
//! [`Candidate`] takes the time and the answers of the API server and says which request to send next.
//! [`Leadership`] is what it grants. Call [`Leadership::permits`] right before each effect.
//!
//! # Guarantees
//!
//! At most one candidate's leadership permits a step at any moment, through pauses, lost answers, requests
//! that execute late, crashes and a deleted lease, as long as the slower of two monotonic clocks runs less
//! than `(duration - renew_deadline) / duration` slower than the faster one (a third with the defaults; see
//! [`LeaseTiming::clock_tolerance`]). Why that bound: the holder stops `renew_deadline` after a moment
//! *before* its renewal could be visible, on its clock; another waits `duration` after a moment when it *was*
//! visible, on its own.
//!
//! # The rules
//!
//! 1. A held lease is expired only after the own monotonic clock saw the same holder, renew time and
//!    resource version for the full duration. Times written by others are never compared with a clock.
//! 2. Every write is a create, or a replace with the version that was seen. A conflict is answered by a read.
//! 3. The holder counts from before it sent the last renewal that was accepted, and stops `renew_deadline`
//!    later.
//! 4. Each acquisition raises `leaseTransitions`: with the uid of the lease that is the [`LeaseEpoch`].
//! 5. For the shell: see below.
//! 6. A monotonic clock stands still while a virtual machine is suspended, so the wall clock ends the
//!    leadership too, at the same age. (To wait until it differs by the full duration would be too late: a
//!    machine suspended for a little less would then act for almost `renew_deadline` more.)
//! 7. A lease nobody has ever held is not free: it may stand in for a deleted one whose holder still acts. It
//!    is taken only when it stayed unchanged for the full duration. Hence the very first leader of an
//!    installation waits that long, unless the lease is shipped without a holder and with
//!    `leaseTransitions: 1`.
//!
//! # What the shell owes
//!
//! * Its own client for the lease, without retries (a retried renewal is counted from the wrong moment, and
//!   the default policy of `kube` waits up to minutes) and with a time-out of 5 s at most. The candidate
//!   itself gives a request up after [`LeaseTiming::request_timeout`]; a later answer is ignored.
//! * Reads straight from the store, not from a watch cache (a GET without the `resourceVersion` parameter).
//!   A stale read is safe, it only wastes a conflict.
//! * After each [`Candidate::handle`]: drain [`Candidate::poll`], publish [`Candidate::leadership`], and
//!   sleep no longer than until [`Candidate::next_deadline`].
//! * [`Input::ReleaseRequested`] only when no step is under way any more: the next leader starts at once.
//! * When leadership is lost: cancel what the leader runs, and end the process if that does not stop in time.
//!
//! # Assumptions
//!
//! Only candidates write the lease. A person who empties its holder overrides the guarantee. The wall clock
//! is not set back by as much as the machine was suspended. The time between the check and the effect is
//! covered by the step's time-out; what may execute even later has to be fenced at its target.

mod candidate;
mod leadership;
mod messages;
mod model;
mod rules;
mod timing;

#[cfg(test)]
mod tests;

pub use candidate::Candidate;
pub use leadership::{Leadership, LeaseRefusal};
pub use messages::{Action, Answer, Input, Loss, Request, RequestId};
pub use model::{
    EmptyHolder, HolderId, Lease, LeaseEpoch, LeaseUid, LeaseVersion, ResourceVersion, StoredLease,
};
pub use timing::{LeaseTiming, TimingError};
