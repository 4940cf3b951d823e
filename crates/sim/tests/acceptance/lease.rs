//! 10.7: who may act while the API server is away (the lease's part of L1 and L6).

use mainstay_core::lease::{
    Action, Answer, Candidate, HolderId, Input, Lease, LeaseTiming, LeaseUid, LeaseVersion, Request,
    ResourceVersion, StoredLease,
};
use mainstay_core::time::Time;
use std::time::Duration;

/// The wall clock is far from the monotonic one, to notice if they are ever mixed up.
const WALL: u64 = 1_800_000_000_000;
/// A tick of the clock, in milliseconds.
const TICK: u64 = 50;

/// An API server with one lease, and the candidates that want it.
pub(super) struct Election {
    pub(super) now: u64,
    pub(super) reachable: bool,
    stored: StoredLease,
    candidates: Vec<Candidate>,
}

impl Election {
    /// Two candidates and a lease that nobody holds; runs until there is a leader.
    pub(super) fn held() -> Self {
        let lease = Lease {
            holder: None,
            duration: LeaseTiming::default().duration(),
            acquire_time: None,
            renew_time: None,
            transitions: 1,
        };
        let candidate = |name: &str| Candidate::new(HolderId::new(name).unwrap(), LeaseTiming::default());
        let mut election = Self {
            now: 0,
            reachable: true,
            stored: StoredLease {
                version: version(1),
                lease,
            },
            candidates: vec![candidate("op-0"), candidate("op-1")],
        };
        election.run(5_000);
        assert_eq!(election.leader(), Some(0), "the first one takes a free lease");
        election
    }

    pub(super) fn run(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.now < end {
            self.now += TICK;
            for n in 0..self.candidates.len() {
                self.tick(n);
            }
            assert!(
                self.leaders(Duration::ZERO).len() <= 1,
                "two leaders at {} ms",
                self.now
            );
        }
    }

    fn tick(&mut self, n: usize) {
        let (now, wall) = (Time(self.now), Time(WALL + self.now));
        self.candidates[n].handle(now, wall, Input::Tick);
        while let Some(Request { id, action }) = self.candidates[n].poll() {
            if !self.reachable {
                return;
            }
            let answer = self.serve(action);
            self.candidates[n].handle(now, wall, Input::Answered { id, answer });
        }
    }

    fn serve(&mut self, action: Action) -> Answer {
        match action {
            Action::Read => Answer::Read(self.stored.clone()),
            Action::Replace { version: seen, lease } if seen == self.stored.version => {
                let count: u64 = seen.resource_version.0.parse().unwrap();
                self.stored = StoredLease {
                    version: version(count + 1),
                    lease,
                };
                Answer::Accepted(self.stored.version.clone())
            }
            Action::Create(_) | Action::Replace { .. } => Answer::Conflict,
        }
    }

    /// Who may begin a step that takes this long.
    fn leaders(&self, step: Duration) -> Vec<u8> {
        let permitted = |c: &Candidate| {
            c.leadership()
                .is_some_and(|l| l.permits(Time(self.now), Time(WALL + self.now), step).is_ok())
        };
        (0_u8..)
            .zip(&self.candidates)
            .filter(|(_, c)| permitted(c))
            .map(|(n, _)| n)
            .collect()
    }

    pub(super) fn leader(&self) -> Option<u8> {
        self.leaders(Duration::ZERO).first().copied()
    }

    /// May this operator begin a step that takes up to a second?
    pub(super) fn permits(&self, op: u8) -> bool {
        self.leaders(Duration::from_secs(1)).contains(&op)
    }

    pub(super) fn ms_until_leader(&mut self) -> u64 {
        let start = self.now;
        while self.leader().is_none() {
            assert!(self.now < start + 60_000, "nobody leads");
            self.run(TICK);
        }
        self.now - start
    }
}

fn version(count: u64) -> LeaseVersion {
    LeaseVersion {
        uid: LeaseUid("lease".to_owned()),
        resource_version: ResourceVersion(count.to_string()),
    }
}

fn outage(ms: u64) {
    let timing = LeaseTiming::default();
    for begin in (0..2_000).step_by(250) {
        let mut election = Election::held();
        election.run(begin);
        let start = election.now;
        election.reachable = false;
        let mut last = start;
        while election.now < start + ms {
            election.run(TICK);
            if election.leader().is_some() {
                last = election.now;
            }
        }
        let acted = Duration::from_millis(last - start);
        assert!(
            acted <= timing.renew_deadline() && acted < timing.duration(),
            "acted for {acted:?}"
        );
        assert!(
            acted >= Duration::from_secs(5),
            "a leader does not give up at the first lost answer"
        );
        election.reachable = true;
        let took = election.ms_until_leader();
        assert!(took <= 5_000, "a leader {took} ms after the outage");
    }
}

#[test]
fn l1_a_leader_without_the_api_stops_before_its_lease_can_expire_and_somebody_leads_soon_after() {
    outage(20_000);
}

#[test]
fn l6_in_ten_minutes_without_the_api_nobody_may_act_and_somebody_leads_soon_after() {
    outage(600_000);
}
