//! The state machine of one candidate.

use super::leadership::{Leadership, LeaseRefusal, Moment};
use super::messages::{Action, Answer, Input, Loss, Request, RequestId};
use super::model::{HolderId, Lease, LeaseUid, StoredLease};
use super::rules::{Rule, Rules};
use super::timing::LeaseTiming;
use crate::time::Time;
use std::time::Duration;

/// What was last read or written, and when its present state was first seen on the own monotonic clock.
#[derive(Clone, Debug)]
struct Seen {
    lease: Option<StoredLease>,
    since: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Create,
    Acquire,
    Renew,
    Release,
}

#[derive(Clone, Debug)]
enum Call {
    Read,
    Write { purpose: Purpose, lease: Lease },
}

#[derive(Clone, Debug)]
struct InFlight {
    id: RequestId,
    sent: Moment,
    call: Call,
}

/// What to do next.
enum Move {
    Read,
    Create,
    Replace(Purpose, StoredLease),
}

/// One process that wants to lead. At most one request is under way at a time.
#[derive(Clone, Debug)]
pub struct Candidate {
    me: HolderId,
    timing: LeaseTiming,
    seen: Option<Seen>,
    /// A write may have happened behind `seen`: read before the next one.
    must_read: bool,
    read_at: Time,
    write_at: Time,
    in_flight: Option<InFlight>,
    outbox: Option<Request>,
    next_id: u64,
    /// The lease object that we once were entitled to take. See [`Candidate::is_ours`].
    claimed: Option<LeaseUid>,
    leadership: Option<Leadership>,
    last_loss: Option<Loss>,
    releasing: bool,
    pub(super) rules: Rules,
}

impl Candidate {
    /// A candidate that knows nothing yet; its first request, a read, comes after the first `handle`.
    pub fn new(me: HolderId, timing: LeaseTiming) -> Self {
        Self {
            me,
            timing,
            seen: None,
            must_read: true,
            read_at: Time::ZERO,
            write_at: Time::ZERO,
            in_flight: None,
            outbox: None,
            next_id: 0,
            claimed: None,
            leadership: None,
            last_loss: None,
            releasing: false,
            rules: Rules::default(),
        }
    }

    /// Takes note of the time and of what happened. `now` is the monotonic clock, `wall` the wall clock.
    ///
    /// A request that results is counted from `now`, so read the clocks before the call, not after.
    pub fn handle(&mut self, now: Time, wall: Time, input: Input) {
        let at = Moment { mono: now, wall };
        self.give_up_late_request(now);
        self.end_overdue_leadership(at);
        match input {
            Input::Tick => {}
            Input::Answered { id, answer } => self.answered(at, id, answer),
            Input::ReleaseRequested => self.release(now),
        }
        self.end_overdue_leadership(at);
        if let Some((due, what)) = self.plan()
            && due <= now
        {
            self.send(at, what);
        }
    }

    /// The next request to send; drain it after each [`handle`](Self::handle).
    pub fn poll(&mut self) -> Option<Request> {
        self.outbox.take()
    }

    /// When to call [`handle`](Self::handle) with a [`Input::Tick`] at the latest, on the monotonic clock.
    /// `None` once the lease is released.
    pub fn next_deadline(&self) -> Option<Time> {
        let work = match &self.in_flight {
            Some(request) => Some(self.gives_up_at(request)),
            None => self.plan().map(|(due, _)| due),
        };
        let leading = self.leadership.as_ref().map(Leadership::until);
        work.into_iter().chain(leading).min()
    }

    /// The right to act, if we have it.
    pub fn leadership(&self) -> Option<&Leadership> {
        self.leadership.as_ref()
    }

    /// Who held the lease when it was last seen.
    pub fn holder(&self) -> Option<&HolderId> {
        self.seen.as_ref()?.lease.as_ref()?.lease.holder.as_ref()
    }

    /// Why the last leadership ended, for logs and events.
    pub fn last_loss(&self) -> Option<Loss> {
        self.last_loss
    }

    /// Whether a requested release is done: freed, or found not to be ours any more. The shell should wait
    /// for it only as long as its grace time allows; the lease expires anyway.
    pub fn is_released(&self) -> bool {
        self.releasing && self.in_flight.is_none() && self.plan().is_none()
    }

    fn gives_up_at(&self, request: &InFlight) -> Time {
        request.sent.mono + self.timing.request_timeout()
    }

    /// A request without an answer may have been executed, or may be later. Its answer is of no use any more:
    /// what it tells may be older than what the read that follows tells.
    fn give_up_late_request(&mut self, now: Time) {
        if self
            .in_flight
            .as_ref()
            .is_some_and(|request| self.gives_up_at(request) <= now)
        {
            self.in_flight = None;
            self.outbox = None;
            self.must_read = true;
        }
    }

    fn end_overdue_leadership(&mut self, at: Moment) {
        let Some(leadership) = &self.leadership else {
            return;
        };
        match leadership.permits(at.mono, at.wall, Duration::ZERO) {
            Ok(()) => {}
            Err(LeaseRefusal::ClocksDisagree { .. }) => self.lose(Loss::ClocksDisagree),
            Err(LeaseRefusal::Over { .. } | LeaseRefusal::TooShort { .. }) => self.lose(Loss::NotRenewed),
        }
    }

    fn lose(&mut self, why: Loss) {
        if self.leadership.take().is_some() {
            self.last_loss = Some(why);
        }
    }

    fn release(&mut self, now: Time) {
        if self.releasing {
            return;
        }
        self.releasing = true;
        // A successor may exist before the answer to the release does, so stop now.
        if self.rules.keep(Rule::StopBeforeRelease) {
            self.lose(Loss::Released);
        }
        self.read_at = now;
        self.write_at = now;
    }

    fn answered(&mut self, at: Moment, id: RequestId, answer: Answer) {
        let Some(request) = self.in_flight.take_if(|request| request.id == id) else {
            return;
        };
        let InFlight { id: _, sent, call } = request;
        match (call, answer) {
            (Call::Read, Answer::Read(stored)) => self.saw(at, Some(stored)),
            (_, Answer::NotFound) => self.saw(at, None),
            (Call::Write { purpose, lease }, Answer::Accepted(version)) => {
                let stored = StoredLease { version, lease };
                let leads = match purpose {
                    Purpose::Acquire => !self.releasing,
                    // A term that ended in between stays ended; the next one gets its own epoch.
                    Purpose::Renew => self.leadership.is_some() && !self.releasing,
                    Purpose::Create | Purpose::Release => false,
                };
                if leads {
                    self.lead(sent, at, &stored);
                }
                self.saw(at, Some(stored));
                self.read_at = at.mono + self.timing.retry();
            }
            (_, Answer::Conflict) => {
                self.must_read = true;
                self.read_at = at.mono;
            }
            (_, Answer::Failed | Answer::Read(_) | Answer::Accepted(_)) => self.must_read = true,
        }
    }

    fn lead(&mut self, sent: Moment, answered: Moment, stored: &StoredLease) {
        let mut from = if self.rules.keep(Rule::CountFromSend) {
            sent
        } else {
            answered
        };
        if !self.rules.keep(Rule::WatchWallClock) {
            from.wall = Time(u64::MAX);
        }
        self.leadership = Some(Leadership::new(
            stored.epoch(),
            from,
            self.timing.renew_deadline(),
        ));
    }

    /// The present state of the lease, as of some moment between the request and now. To count its age from
    /// the answer is the careful side, as it is for the holder to count from the request.
    fn saw(&mut self, at: Moment, lease: Option<StoredLease>) {
        self.must_read = false;
        match (&self.leadership, &lease) {
            (Some(_), None) => self.lose(Loss::Deleted),
            (Some(leadership), Some(stored)) => {
                let confirmed =
                    stored.lease.holder.as_ref() == Some(&self.me) && stored.epoch() == *leadership.epoch();
                if !confirmed {
                    self.lose(Loss::Taken);
                }
            }
            (None, _) => {}
        }
        if self.seen.as_ref().is_some_and(|seen| seen.lease == lease) {
            return;
        }
        let mut since = at.mono;
        if !self.rules.keep(Rule::OwnClockOnly) {
            let renewed = lease.as_ref().and_then(|stored| stored.lease.renew_time);
            since = since - renewed.map_or(Duration::ZERO, |renewed| at.wall.since(renewed));
        }
        self.seen = Some(Seen { lease, since });
    }

    /// The next move and the moment it is due; nothing while a request is under way or after the release.
    fn plan(&self) -> Option<(Time, Move)> {
        if self.in_flight.is_some() || (self.releasing && self.claimed.is_none()) {
            return None;
        }
        let Some(seen) = self.seen.as_ref().filter(|_| !self.must_read) else {
            return Some((self.read_at, Move::Read));
        };
        let Some(stored) = &seen.lease else {
            return (!self.releasing).then_some((self.write_at, Move::Create));
        };
        if self.releasing {
            let replace = Move::Replace(Purpose::Release, stored.clone());
            return self.is_ours(stored).then_some((self.write_at, replace));
        }
        if self.leadership.is_some() {
            return Some((self.write_at, Move::Replace(Purpose::Renew, stored.clone())));
        }
        let opens_at = self.opens_at(seen.since, stored).max(self.write_at);
        if opens_at <= self.read_at {
            // No read is needed first: the replace carries the version, so it fails if there was a change.
            Some((opens_at, Move::Replace(Purpose::Acquire, stored.clone())))
        } else {
            Some((self.read_at, Move::Read))
        }
    }

    /// When a lease that stays as it is may be taken.
    fn opens_at(&self, since: Time, stored: &StoredLease) -> Time {
        let StoredLease { version: _, lease } = stored;
        // A holder empties a lease only after it stopped. But no holder emptied one that was never held: that
        // one may have been put in the place of a deleted lease, whose holder has not noticed yet.
        let held_before = lease.transitions > 0 || !self.rules.keep(Rule::DistrustNewLease);
        if (lease.holder.is_none() && held_before) || self.is_ours(stored) {
            return since;
        }
        // The holder acts by the duration that it wrote, which may be that of another release of ours.
        since + self.timing.duration().max(lease.duration)
    }

    /// Whether the lease is the trace of a write of ours that we were entitled to make.
    ///
    /// The name alone is no proof. A create that executes late may land right after somebody deleted the
    /// lease of another holder; and two processes might have been given the same name.
    fn is_ours(&self, stored: &StoredLease) -> bool {
        let claimed =
            self.claimed.as_ref() == Some(&stored.version.uid) || !self.rules.keep(Rule::ProveClaim);
        stored.lease.holder.as_ref() == Some(&self.me) && claimed
    }

    fn send(&mut self, at: Moment, what: Move) {
        let (call, action) = match what {
            Move::Read => (Call::Read, Action::Read),
            Move::Create => {
                let lease = self.first_lease(at.wall);
                (
                    Call::Write {
                        purpose: Purpose::Create,
                        lease: lease.clone(),
                    },
                    Action::Create(lease),
                )
            }
            Move::Replace(purpose, StoredLease { version, lease }) => {
                if purpose == Purpose::Acquire {
                    self.claimed = Some(version.uid.clone());
                }
                let lease = self.changed_lease(at.wall, purpose, &lease);
                (
                    Call::Write {
                        purpose,
                        lease: lease.clone(),
                    },
                    Action::Replace { version, lease },
                )
            }
        };
        let next = at.mono + self.timing.retry();
        match call {
            Call::Read => self.read_at = next,
            Call::Write { .. } => self.write_at = next,
        }
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.in_flight = Some(InFlight { id, sent: at, call });
        self.outbox = Some(Request { id, action });
    }

    /// Creating does not make a leader: nothing in a create says which state it replaces. The lease that
    /// results is waited for like any other that was never held.
    fn first_lease(&self, wall: Time) -> Lease {
        Lease {
            holder: Some(self.me.clone()),
            duration: self.timing.duration(),
            acquire_time: None,
            renew_time: Some(wall),
            transitions: 0,
        }
    }

    fn changed_lease(&self, wall: Time, purpose: Purpose, old: &Lease) -> Lease {
        let &Lease {
            holder: _,
            duration: _,
            acquire_time,
            renew_time: _,
            transitions,
        } = old;
        let acquires = purpose == Purpose::Acquire;
        Lease {
            holder: (purpose != Purpose::Release).then(|| self.me.clone()),
            duration: self.timing.duration(),
            acquire_time: if acquires { Some(wall) } else { acquire_time },
            renew_time: Some(wall),
            // Also when we take back our own lease: what the earlier term left is not ours to continue.
            transitions: if acquires {
                transitions.saturating_add(1)
            } else {
                transitions
            },
        }
    }
}
