//! What goes into a candidate and what comes out.

use super::model::{Lease, LeaseVersion, StoredLease};

/// Ties an answer to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub(super) u64);

/// One call to the API server. Send it once: retrying is up to the candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Give this back with the answer.
    pub id: RequestId,
    /// What to call.
    pub action: Action,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// GET, without the `resourceVersion` parameter.
    Read,
    /// POST.
    Create(Lease),
    /// PUT with uid and resource version in the metadata.
    Replace {
        /// The only state that may be overwritten.
        version: LeaseVersion,
        /// What to write.
        lease: Lease,
    },
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Time passed.
    Tick,
    /// A request ended. Answers to requests that were given up are ignored.
    Answered {
        /// The request.
        id: RequestId,
        /// How it ended.
        answer: Answer,
    },
    /// The process shuts down: stop leading now, free the lease, and never campaign again. No step may be
    /// under way any more, because the next leader starts at once.
    ReleaseRequested,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The lease that was read.
    Read(StoredLease),
    /// There is no lease (404, to any request).
    NotFound,
    /// The write happened and made this state.
    Accepted(LeaseVersion),
    /// 409: the lease is in another state, or exists already.
    Conflict,
    /// Anything else, time-outs included: a write may or may not have happened, or may still happen.
    Failed,
}

/// Why a leadership ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No renewal was accepted in time.
    NotRenewed,
    /// The wall clock ran ahead of the monotonic one: probably the machine was suspended.
    ClocksDisagree,
    /// The lease does not name us in our epoch any more.
    Taken,
    /// The lease is gone.
    Deleted,
    /// We gave it back.
    Released,
}
