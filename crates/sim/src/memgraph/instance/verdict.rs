//! For checkers: is an `Error: 3` true?

use super::Instance;
use super::lineage::Relation;
use super::registration::Status;
use super::rpc::Store;

/// What a MAIN makes of a peer's data, held against the truth.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// Accepted, and the peer holds nothing that MAIN lacks.
    Accepted,
    /// Accepted although the peer holds something that MAIN lacks.
    Overlooked,
    /// Refused, and rightly.
    Diverged,
    /// Refused although the peer holds nothing that MAIN lacks: the history is
    /// wrong, not the data.
    FalselyDiverged,
}

/// Decides whether `main` would refuse `peer` with `Error: 3`, and whether
/// that would be right. Roles and ids do not matter.
pub fn verdict<S: Store>(main: &Instance<S>, peer: &Instance<S>) -> Verdict {
    let refused = main
        .lineage
        .judge(peer.lineage.reported_epoch(), peer.lineage.ldt)
        == Status::Diverged;
    let contained = match main.lineage.relation(&peer.lineage) {
        Relation::Level | Relation::OtherBehind => true,
        Relation::OtherAhead | Relation::Forked => false,
    };
    match (refused, contained) {
        (false, true) => Verdict::Accepted,
        (false, false) => Verdict::Overlooked,
        (true, false) => Verdict::Diverged,
        (true, true) => Verdict::FalselyDiverged,
    }
}
