//! One candidate on a bench: the test plays the clock and the API server.

use crate::lease::{
    Action, Answer, Candidate, HolderId, Input, Lease, LeaseRefusal, LeaseTiming, LeaseUid, LeaseVersion,
    Request, RequestId, ResourceVersion, StoredLease,
};
use crate::time::Time;
use std::time::Duration;

/// The wall clock is this far ahead of the monotonic one, to notice if they are ever mixed up.
pub(super) const WALL: u64 = 1_800_000_000_000;

pub(super) fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

pub(super) fn holder(name: &str) -> HolderId {
    HolderId::new(name).unwrap()
}

pub(super) fn version(uid: &str, rv: u64) -> LeaseVersion {
    LeaseVersion {
        uid: LeaseUid(uid.to_owned()),
        resource_version: ResourceVersion(rv.to_string()),
    }
}

pub(super) fn stored(name: Option<&str>, rv: u64, transitions: u32) -> StoredLease {
    let lease = Lease {
        holder: name.map(holder),
        duration: secs(15),
        acquire_time: Some(Time(1)),
        renew_time: Some(Time(1)),
        transitions,
    };
    StoredLease {
        version: version("u", rv),
        lease,
    }
}

pub(super) struct Bench {
    pub(super) candidate: Candidate,
    pub(super) wall_ahead: u64,
    pub(super) last: Option<RequestId>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self {
            candidate: Candidate::new(holder("me"), LeaseTiming::default()),
            wall_ahead: WALL,
            last: None,
        }
    }

    /// A candidate that leads by a request sent at 0, answered at 100 ms. The lease is at version 2, epoch 8.
    pub(super) fn leading() -> Self {
        let mut bench = Self::new();
        assert_eq!(bench.tick(0), Some(Action::Read));
        assert!(matches!(
            bench.answer(0, Answer::Read(stored(None, 1, 7))),
            Some(Action::Replace { .. })
        ));
        assert_eq!(bench.answer(100, Answer::Accepted(version("u", 2))), None);
        assert!(bench.permits(100, 0));
        bench
    }

    pub(super) fn handle(&mut self, at: u64, input: Input) -> Option<Action> {
        self.candidate.handle(Time(at), Time(at + self.wall_ahead), input);
        let Request { id, action } = self.candidate.poll()?;
        self.last = Some(id);
        Some(action)
    }

    pub(super) fn tick(&mut self, at: u64) -> Option<Action> {
        self.handle(at, Input::Tick)
    }

    pub(super) fn answer(&mut self, at: u64, answer: Answer) -> Option<Action> {
        let id = self.last.unwrap();
        self.handle(at, Input::Answered { id, answer })
    }

    pub(super) fn permits(&self, at: u64, step_ms: u64) -> bool {
        self.refusal(at, step_ms) == Some(Ok(()))
    }

    pub(super) fn refusal(&self, at: u64, step_ms: u64) -> Option<Result<(), LeaseRefusal>> {
        let leadership = self.candidate.leadership()?;
        Some(leadership.permits(
            Time(at),
            Time(at + self.wall_ahead),
            Duration::from_millis(step_ms),
        ))
    }
}

pub(super) fn replaced(action: Option<Action>) -> (LeaseVersion, Lease) {
    match action {
        Some(Action::Replace { version, lease }) => (version, lease),
        other => panic!("expected a replace, got {other:?}"),
    }
}
