//! What a turn decided: steps, each one external call with all its arguments, the reasons, and how the checks stand.

use super::checks::Finding;
use super::ids::{Address, HostId, MapUid, Member, PodUid, ServiceUid, VolumeUid};
use super::ledger::Ledger;
use super::reason::Why;
use super::record::RecordMap;
use crate::time::Time;
use std::fmt;

/// One external call, fully determined. The executor makes no choice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Create the ledger; fails if there is one.
    CreateLedger(Box<Ledger>),
    /// Replace the ledger, with the version that was read before looking.
    WriteLedger(Box<Ledger>),
    /// Delete the ledger of a namesake, with that version.
    DeleteLedger,
    /// Create a member's record, owned by this Service; fails if there is one.
    CreateRecord {
        /// Whose.
        member: Member,
        /// Its owner.
        service: ServiceUid,
        /// What it holds.
        map: Box<RecordMap>,
    },
    /// Delete a member's record, if it still is this one. An immutable ConfigMap is renewed by this and the former.
    DeleteRecord {
        /// Whose.
        member: Member,
        /// Which.
        uid: MapUid,
    },
    /// Delete a pod, if it still is this one.
    DeletePod {
        /// Whose.
        member: Member,
        /// Which.
        uid: PodUid,
    },
    /// Delete a claim, if it still is this one.
    DeleteClaim {
        /// Whose.
        member: Member,
        /// Which.
        uid: VolumeUid,
    },
    /// Make a live member always gossip with these addresses: its configuration, then `reloadSeeds`.
    TeachSeeds {
        /// Whom.
        peer: Member,
        /// All its seeds from now on.
        seeds: Vec<Address>,
    },
    /// Tell a node to leave the ring.
    Decommission {
        /// Whom.
        member: Member,
        /// It must be this one.
        host: HostId,
    },
    /// Tell a node to write everything to disk and to serve nobody any more; only a restart ends that.
    Drain {
        /// Whom.
        member: Member,
        /// In this pod: a call that is late must not hit the one that was woken since.
        pod: PodUid,
        /// It must be this one, if that is known.
        host: Option<HostId>,
    },
    /// Put `scylla/replace` on a member's Service.
    SetReplaceLabel {
        /// Whose.
        member: Member,
        /// Which.
        service: ServiceUid,
    },
    /// Take the label off again.
    RemoveReplaceLabel {
        /// Whose.
        member: Member,
        /// Which.
        service: ServiceUid,
    },
    /// Remove pod, Service and place of a member that has left.
    Retire {
        /// Whom.
        member: Member,
    },
}

impl Step {
    /// The ledger this step writes, if it writes one.
    pub fn ledger(&self) -> Option<&Ledger> {
        match self {
            Self::CreateLedger(l) | Self::WriteLedger(l) => Some(l),
            _ => None,
        }
    }
}

/// What a turn decided. A step that fails, or whose outcome is not known, ends the turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// Why these, and why not others.
    pub reasons: Vec<Why>,
    /// How the checks stand, the held ones first.
    pub findings: Vec<Finding>,
    /// When to look again even if nothing happens.
    pub wake: Option<Time>,
}

impl Plan {
    /// Because of this.
    pub fn because(why: Why) -> Self {
        Self {
            reasons: vec![why],
            ..Self::default()
        }
    }

    /// Adds a step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds the write of the ledger.
    #[must_use]
    pub fn write(self, ledger: Ledger) -> Self {
        self.then(Step::WriteLedger(Box::new(ledger)))
    }

    /// Adds a reason.
    #[must_use]
    pub fn also(mut self, why: Why) -> Self {
        self.reasons.push(why);
        self
    }

    /// Shows how the checks stand, beside those that are shown already: of whomever they are, the held ones first.
    #[must_use]
    pub fn showing(mut self, findings: Vec<Finding>) -> Self {
        self.findings.extend(findings);
        self.findings.sort_by_key(Finding::holds);
        self
    }

    /// Looks again at this time, or earlier if it was so planned.
    #[must_use]
    pub fn wake_at(mut self, at: Time) -> Self {
        self.wake = Some(self.wake.map_or(at, |w| w.min(at)));
        self
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateLedger(l) => write!(f, "create ledger: {}", l.headline()),
            Self::WriteLedger(l) => write!(f, "write ledger: {}", l.headline()),
            Self::DeleteLedger => f.write_str("delete the ledger"),
            Self::CreateRecord { member, .. } => write!(f, "create {}", member.record_map()),
            Self::DeleteRecord { member, .. } => write!(f, "delete {}", member.record_map()),
            Self::DeletePod { member, .. } => write!(f, "delete pod {member}"),
            Self::DeleteClaim { member, .. } => write!(f, "delete claim {}", member.claim()),
            Self::TeachSeeds { peer, seeds } => write!(f, "{peer}: reload {} seeds", seeds.len()),
            Self::Decommission { member, host } => write!(f, "{member}: decommission {host}"),
            Self::Drain { member, .. } => write!(f, "{member}: drain"),
            Self::SetReplaceLabel { member, .. } => write!(f, "label {member} scylla/replace"),
            Self::RemoveReplaceLabel { member, .. } => write!(f, "take scylla/replace off {member}"),
            Self::Retire { member } => write!(f, "remove {member} from its rack"),
        }
    }
}
