//! Records for the gateway that is measured.

use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::ids::{DatabaseId, Ordinal, ProcessId, Term, VolumeId};
use mainstay_core::memgraph::record::{Candidate, Main, Writes};
use mainstay_core::time::Time;

/// What a push must carry.
pub(crate) const TOKEN: &str = "bench";

/// Somebody who may become MAIN.
pub(crate) const fn candidate(pod: u8) -> Candidate {
    Candidate {
        pod: Ordinal(pod),
        process: ProcessId(1),
        volume: VolumeId(1),
        peers: vec![],
        suspect: false,
        forced: None,
        claim: None,
    }
}

/// A record in which `pod` serves in `term`.
pub(crate) fn serving(term: u64, pod: u8) -> Record {
    let main = Main {
        pod: Ordinal(pod),
        process: ProcessId(1),
        volume: VolumeId(1),
        database: DatabaseId(1),
        term: Term(term),
        epoch: Term(term),
        peers: vec![],
        suspect: false,
        history_from: Term(0),
        rebuilt: false,
        office_from: Term(term),
        rival: None,
    };
    Record::initialising(Term(term), candidate(pod), Time::ZERO).serving(main, Writes::Open, Time::ZERO)
}
