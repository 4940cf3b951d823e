//! What a read gateway decides: which pods it may send reads to (R29), and for whom (R22).

use super::gate::Route;
use super::ids::{Ordinal, Term};
use super::observed::{Mode, Registration, Role, Status};
use super::record::{Record, State};
use super::rules::{Rule, Rules};
use crate::time::Time;
use std::fmt;
use std::time::Duration;

/// How long ago a replica may last have been seen to get further that MAIN calls `invalid` or `recovery`.
///
/// MAIN says `invalid` of a dead replica, of one with other data, and, under load, every now and then of one that missed a
/// transaction and has it a moment later. It says `recovery` of nearly every ASYNC replica under load, and of one that was
/// just registered or reset and has nothing yet: how far that one is behind says nothing either, for in a small database
/// all of it is near. The timestamp of those who have what MAIN has, but for the last moments, grows all the same, since
/// what is recovered counts only when it is there.
const FED_WITHIN: Duration = Duration::from_secs(5);

/// What the user declared about reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads {
    /// How far behind MAIN a replica may be.
    pub max_lag: u64,
    /// The SYNC replica takes reads, too: an open read on it and an index on MAIN stall MAIN for half a minute.
    pub from_sync: bool,
    /// MAIN takes reads while no replica does.
    pub from_main: bool,
}

/// MAIN let this client in, in this term (R22). A replica has no users and lets everybody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LetIn {
    /// The MAIN that was asked.
    pub by: Ordinal,
    /// In which term.
    pub term: Term,
}

/// Where a read client logs in (R22): the MAIN that serves, also while writes are held or closed, since a login commits
/// nothing.
pub fn login(record: &Record) -> Option<Route> {
    let main = record.main.as_ref()?;
    (record.state == State::Serving).then_some(Route {
        pod: main.pod,
        term: record.term,
    })
}

impl LetIn {
    /// The connection on which the client was let in answered this. An old MAIN may know passwords that are not true any
    /// more, so it is asked for role and mark as for a write (R10).
    pub fn by(route: Route, role: Role, mark: Option<Term>, rules: Rules) -> Option<Self> {
        let Route { pod, term } = route;
        let serves = role == Role::Main && (mark == Some(term) || !rules.on(Rule::R10));
        serves.then_some(Self { by: pod, term })
    }
}

/// Who takes the reads of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Any of these replicas; at least one.
    Replicas(Vec<Ordinal>),
    /// MAIN: no replica may.
    Main(Ordinal),
}

/// Why a read is not sent to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotRead {
    /// Nobody serves.
    NotServing,
    /// The client was not let in by the MAIN that serves.
    NotLetIn,
    /// MAIN takes no reads here.
    IsMain,
    /// The SYNC replica takes no reads here.
    IsSync,
    /// Its data is about to be set aside.
    BeingReset,
    /// MAIN does not list it as a replica that follows.
    NotFollowing,
    /// It is further behind than is allowed, or ahead.
    TooFarBehind,
    /// MAIN was not asked for its replicas yet.
    NotAsked,
}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotServing => "no MAIN serves",
            Self::NotLetIn => "the client was not let in by MAIN",
            Self::IsMain => "MAIN takes no reads",
            Self::IsSync => "the SYNC replica takes no reads",
            Self::BeingReset => "the pod is being reset",
            Self::NotFollowing => "MAIN does not list it as a replica that follows",
            Self::TooFarBehind => "the replica is too far behind",
            Self::NotAsked => "MAIN was not asked for its replicas yet",
        })
    }
}

/// May this client read from this pod?
///
/// `listed` is the pod's row in MAIN's `SHOW REPLICAS`, asked a moment ago: a replica does not know how far behind it is.
pub fn may_read(
    record: &Record,
    pod: Ordinal,
    listed: Option<&Registration>,
    client: Option<LetIn>,
    reads: Reads,
    now: Time,
    rules: Rules,
) -> Result<(), NotRead> {
    let main = record
        .main
        .as_ref()
        .filter(|_| record.state == State::Serving)
        .ok_or(NotRead::NotServing)?;
    let let_in = client.is_some_and(|c| c.by == main.pod && c.term == record.term);
    if !let_in && rules.on(Rule::R22) {
        return Err(NotRead::NotLetIn);
    }
    if pod == main.pod {
        return if reads.from_main {
            Ok(())
        } else {
            Err(NotRead::IsMain)
        };
    }
    if record.reset.is_some_and(|r| r.pod == pod) {
        return Err(NotRead::BeingReset);
    }
    let row = listed
        .filter(|r| r.attached && r.address_ok && r.name.pod() == pod)
        .ok_or(NotRead::NotFollowing)?;
    let sync = row.mode != Mode::Async || record.sync.is_some_and(|s| s.pod == pod);
    if sync && !reads.from_sync && rules.on(Rule::R29) {
        return Err(NotRead::IsSync);
    }
    // What it is called is a cache, and says little by itself.
    let follows = match row.status {
        Status::Ready | Status::Replicating => true,
        Status::Recovery | Status::Invalid => row.moved.is_some_and(|at| now.since(at) <= FED_WITHIN),
        Status::Diverged => false,
    };
    if !follows {
        return Err(NotRead::NotFollowing);
    }
    let near = row.behind <= 0 && row.behind.unsigned_abs() <= reads.max_lag;
    if near { Ok(()) } else { Err(NotRead::TooFarBehind) }
}

/// Who takes the reads of this client. `listed` is what MAIN's `SHOW REPLICAS` said, or nothing if that is too old.
///
/// MAIN is asked only when no replica may (R29). If nobody may, the reason is that of whoever is nearest to it.
pub fn readers(
    record: &Record,
    listed: &[Registration],
    client: Option<LetIn>,
    reads: Reads,
    now: Time,
    rules: Rules,
) -> Result<Readers, NotRead> {
    let main = login(record).ok_or(NotRead::NotServing)?.pod;
    let ask = |pod, row| may_read(record, pod, row, client, reads, now, rules);
    let mut pods: Vec<Ordinal> = listed.iter().map(|row| row.name.pod()).collect();
    pods.sort_unstable();
    pods.dedup();
    let mut may = Vec::new();
    let mut nearest = None;
    for pod in pods.into_iter().filter(|pod| *pod != main) {
        // A pod that is listed twice is in the middle of something: every row must allow it.
        let rows = listed.iter().filter(|row| row.name.pod() == pod);
        match rows.map(|row| ask(pod, Some(row))).find(Result::is_err) {
            Some(refused) => nearest = nearest.max(refused.err()),
            None => may.push(pod),
        }
    }
    if !may.is_empty() {
        return Ok(Readers::Replicas(may));
    }
    match ask(main, None) {
        Ok(()) => Ok(Readers::Main(main)),
        Err(NotRead::IsMain) => Err(nearest.unwrap_or(NotRead::NotFollowing)),
        Err(refused) => Err(refused),
    }
}
