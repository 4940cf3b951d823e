//! The parts of the world: a generator of choices, a clock, and an API server with one lease.

use crate::lease::{Action, Answer, Lease, LeaseUid, LeaseVersion, ResourceVersion, StoredLease};
use crate::time::Time;
use std::time::Duration;

/// SplitMix64: small, and the same on every machine.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }

    pub(super) fn chance(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }
}

/// The two clocks of a node, as functions of true time.
pub(super) struct Clock {
    since: u64,
    mono_since: u64,
    /// Thousandths of true time.
    rate: u64,
    suspended_at: Option<u64>,
    pub(super) wall_ahead: u64,
}

impl Clock {
    pub(super) fn new(now: u64, rate: u64, skew: u64) -> Self {
        Self {
            since: now,
            mono_since: 0,
            rate,
            suspended_at: None,
            wall_ahead: 1_000_000_000 + skew,
        }
    }

    pub(super) fn mono(&self, now: u64) -> Time {
        let now = self.suspended_at.unwrap_or(now);
        Time(self.mono_since + (now - self.since) * self.rate / 1_000)
    }

    pub(super) fn wall(&self, now: u64) -> Time {
        Time(now + self.wall_ahead)
    }

    /// The first moment at which the monotonic clock shows at least `mono`.
    pub(super) fn true_time_of(&self, mono: Time) -> u64 {
        self.since + (mono.0.saturating_sub(self.mono_since) * 1_000).div_ceil(self.rate)
    }

    pub(super) fn set_rate(&mut self, now: u64, rate: u64) {
        self.mono_since = self.mono(now).0;
        self.since = now;
        self.rate = rate;
    }

    pub(super) fn suspend(&mut self, now: u64) {
        self.suspended_at = Some(now);
    }

    pub(super) fn resume(&mut self, now: u64) {
        if self.suspended_at.is_some() {
            self.set_rate(now, self.rate);
            self.suspended_at = None;
        }
    }
}

/// The API server, with its one lease.
pub(super) struct Api {
    stored: Option<StoredLease>,
    counter: u64,
    checks_version: bool,
}

impl Api {
    /// A lease that was held and released before, so that the first leader need not wait.
    pub(super) fn with_free_lease(checks_version: bool) -> Self {
        let mut api = Self {
            stored: None,
            counter: 0,
            checks_version,
        };
        api.store(None, empty_lease(1));
        api
    }

    /// Puts an empty lease that nobody ever held in the place of the present one.
    pub(super) fn recreate(&mut self) {
        self.store(None, empty_lease(0));
    }

    pub(super) fn delete(&mut self) {
        self.stored = None;
    }

    pub(super) fn apply(&mut self, action: Action) -> Answer {
        match (action, &self.stored) {
            (Action::Read, Some(stored)) => Answer::Read(stored.clone()),
            (Action::Read | Action::Replace { .. }, None) => Answer::NotFound,
            (Action::Create(lease), None) => self.store(None, lease),
            (Action::Create(_), Some(_)) => Answer::Conflict,
            (Action::Replace { version, lease }, Some(stored)) => {
                if self.checks_version && version != stored.version {
                    return Answer::Conflict;
                }
                let uid = stored.version.uid.clone();
                self.store(Some(uid), lease)
            }
        }
    }

    fn store(&mut self, uid: Option<LeaseUid>, lease: Lease) -> Answer {
        self.counter += 1;
        let uid = uid.unwrap_or_else(|| LeaseUid(format!("uid-{}", self.counter)));
        let version = LeaseVersion {
            uid,
            resource_version: ResourceVersion(self.counter.to_string()),
        };
        self.stored = Some(StoredLease {
            version: version.clone(),
            lease,
        });
        Answer::Accepted(version)
    }
}

fn empty_lease(transitions: u32) -> Lease {
    Lease {
        holder: None,
        duration: Duration::from_secs(15),
        acquire_time: None,
        renew_time: None,
        transitions,
    }
}
