//! What a read gateway decides: which pods it may send reads to (R29), and for whom (R22).

use super::ids::{Ordinal, Term};
use super::observed::{Mode, Registration, Status};
use super::record::{Record, State};
use super::rules::{Rule, Rules};
use std::fmt;

/// What the user declared about reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads {
    /// How far behind MAIN a replica may be.
    pub max_lag: u64,
    /// The SYNC replica takes reads, too: an open read on it and an index on MAIN stall MAIN for half a minute.
    pub from_sync: bool,
    /// MAIN takes reads, too.
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
    // Under load an ASYNC replica is in `recovery` most of the time: only how far it is behind says anything.
    if matches!(row.status, Status::Invalid | Status::Diverged) {
        return Err(NotRead::NotFollowing);
    }
    let near = row.behind <= 0 && row.behind.unsigned_abs() <= reads.max_lag;
    if near { Ok(()) } else { Err(NotRead::TooFarBehind) }
}
