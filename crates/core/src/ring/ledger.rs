//! What the operator knows of a ring and what it is doing with it: one document, written by compare-and-swap.
//!
//! There is one place for work in it. That is what makes it one at a time: whoever wants to begin something else loses
//! the race, or finds the place taken.

use super::ids::{Address, ClusterUid, DiskId, GrantNumber, HostId, Location, Member, PodUid, VolumeUid};
use super::spec::PERMISSION;
use super::stamp::{Found, Report};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The key of the ConfigMap `<cluster>-ring`.
pub const KEY: &str = "ledger";

/// What is known of a member that another member has seen Normal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Known {
    /// Its host id.
    pub host: HostId,
    /// The address at which the others know it.
    pub address: Address,
    /// Where it lives.
    pub location: Location,
    /// The claim of its data; absent if the ledger was made when the node was already down.
    pub volume: Option<VolumeUid>,
    /// The disk its data is on; absent as above.
    pub disk: Option<DiskId>,
}

/// Permission to start one empty node, once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Grant {
    /// Its number. The gate notes on the disk that it was used.
    pub number: GrantNumber,
    /// For this pod.
    pub pod: PodUid,
    /// With this claim.
    pub volume: VolumeUid,
    /// And this disk behind it.
    pub disk: DiskId,
    /// What an unfinished start left on the disk is removed first.
    pub wipe: bool,
    /// The seeds of this start.
    pub seeds: Vec<Address>,
    /// The highest generation in which anybody knew the replaced node: the new one has a higher one.
    pub generation: u64,
    /// When, on the clock of whoever gave it.
    pub at: Time,
    /// For so long a gate may use it, by its own clock (`freshness`): what was true when it was given is not for ever.
    #[serde(default = "usual")]
    pub lasts: Duration,
    /// The disk that was lost may start no more because of this permission, and of none before. If it is taken back
    /// unused, so is that.
    #[serde(default)]
    pub retires: bool,
}

fn usual() -> Duration {
    PERMISSION
}

impl Grant {
    /// From then on no gate uses it any more. Twice as long as it lasts: clocks of two operators may differ a little.
    pub fn over(&self) -> Time {
        self.at + self.lasts * 2
    }

    /// Does this gate hold, unused, what the permission was given for?
    pub fn is_unused(&self, pod: PodUid, volume: VolumeUid, report: &Report) -> bool {
        let unused = match report.found {
            Found::Empty => true,
            Found::Unfinished(number) => number != self.number,
            Found::Started(_)
            | Found::StartedWith(_)
            | Found::Retired(_)
            | Found::Foreign(_)
            | Found::Damaged
            | Found::Unreadable => false,
        };
        unused && pod == self.pod && volume == self.volume && report.disk == self.disk
    }
}

/// What is being done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Task {
    /// The first node founds the ring.
    Found,
    /// A new member joins.
    Join,
    /// A member that lost its storage takes its own place again.
    Replace {
        /// What was lost.
        lost: Known,
        /// A human put the label `scylla/replace` on it.
        manual: bool,
    },
    /// A member that is not declared any more leaves.
    Leave {
        /// Who it is.
        left: Known,
    },
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Phase {
    /// The checks held, and must hold for a while.
    Confirming,
    /// The volume is being given up: its Node is gone, or a human said so.
    Evicting,
    /// The node may start.
    Granted(Grant),
    /// The label of scylla-operator is set.
    Labelled,
    /// The last try failed; the next one is not before this.
    Resting {
        /// Not before.
        until: Time,
    },
    /// Tried too often: a human must look.
    GivenUp {
        /// The pod of the last try. A human who makes it anew orders another one.
        pod: PodUid,
    },
    /// The node was told to leave.
    Leaving,
}

/// The one thing that is being done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Work {
    /// With whom.
    pub member: Member,
    /// What.
    pub task: Task,
    /// How far it is.
    pub phase: Phase,
    /// Since when it is in this phase.
    pub since: Time,
    /// Starts that failed.
    pub failed: u32,
}

impl Work {
    /// The permission, while it is in force.
    pub fn grant(&self) -> Option<&Grant> {
        match &self.phase {
            Phase::Granted(grant) => Some(grant),
            Phase::Confirming
            | Phase::Evicting
            | Phase::Labelled
            | Phase::Resting { .. }
            | Phase::GivenUp { .. }
            | Phase::Leaving => None,
        }
    }

    /// What this work replaces, if it replaces.
    pub fn lost(&self) -> Option<&Known> {
        match &self.task {
            Task::Replace { lost, .. } => Some(lost),
            Task::Found | Task::Join | Task::Leave { .. } => None,
        }
    }
}

/// How far a ring is on its way to sleep, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Stage {
    /// Members are drained, one after the other.
    Draining,
    /// There are no pods, or soon none.
    Stopped,
    /// The first member of each rack starts.
    Seeds,
    /// All may run again.
    Woken,
}

/// The sleep of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sleep {
    /// How far it is.
    pub stage: Stage,
    /// Since when.
    pub since: Time,
}

/// The document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ledger {
    /// Of which cluster. A namesake's is not honoured.
    pub cluster: ClusterUid,
    /// How often it was written.
    pub revision: u64,
    /// The last permission.
    pub grants: GrantNumber,
    /// The ring exists. It is never founded twice.
    pub founded: bool,
    /// The members that another member has seen Normal.
    pub known: BTreeMap<Member, Known>,
    /// The one thing that is being done.
    pub work: Option<Work>,
    /// Disks whose place in the ring was given to another: the gate never starts them again.
    pub retired: BTreeSet<DiskId>,
    /// How far it is on its way to sleep, or back; absent if it never slept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleep: Option<Sleep>,
}

impl Ledger {
    /// The ledger of a ring of which nothing is known.
    pub fn new(cluster: ClusterUid) -> Self {
        Self {
            cluster,
            revision: 1,
            grants: GrantNumber(0),
            founded: false,
            known: BTreeMap::new(),
            work: None,
            retired: BTreeSet::new(),
            sleep: None,
        }
    }

    /// It sleeps, or is on its way there or back: nobody is replaced.
    pub fn is_asleep(&self) -> bool {
        self.sleep.is_some_and(|s| s.stage != Stage::Woken)
    }

    /// When it was last woken.
    pub fn woken(&self) -> Option<Time> {
        let woken = self.sleep.filter(|s| s.stage == Stage::Woken);
        woken.map(|s| s.since)
    }

    /// The next version, with this change.
    #[must_use]
    pub fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut next = self.clone();
        next.revision = next.revision.saturating_add(1);
        change(&mut next);
        next
    }

    /// The next version, with the place free.
    #[must_use]
    pub fn idle(&self) -> Self {
        self.with(|next| next.work = None)
    }

    /// The next version, with this work.
    #[must_use]
    pub fn working(&self, work: Work) -> Self {
        self.with(|next| next.work = Some(work))
    }

    /// The number of the next permission: above all that were given, and above all that disks remember. A ledger that was
    /// lost has forgotten them, and a gate uses no number twice.
    pub fn next_grant(&self, used: impl Iterator<Item = GrantNumber>) -> GrantNumber {
        let highest = used.fold(self.grants, GrantNumber::max);
        GrantNumber(highest.0.saturating_add(1))
    }

    /// Which member this host id belongs to.
    pub fn owner_of(&self, host: HostId) -> Option<&Member> {
        self.known.iter().find(|(_, k)| k.host == host).map(|(m, _)| m)
    }

    /// Is this the disk of a member, or was it one until its place was given away? Then it was bootstrapped once, whatever
    /// it says now and wherever it is mounted.
    pub fn is_spoken_for(&self, disk: DiskId) -> bool {
        self.retired.contains(&disk) || self.known.values().any(|k| k.disk == Some(disk))
    }

    /// Reads the document.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Writes the document.
    pub fn print(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    /// The document in a few words.
    pub fn headline(&self) -> String {
        let known = self.known.len();
        let work = self.work.as_ref().map_or_else(
            || "nothing under way".to_owned(),
            |w| {
                let task = match w.task {
                    Task::Found => "found",
                    Task::Join => "join",
                    Task::Replace { manual: false, .. } => "replace",
                    Task::Replace { manual: true, .. } => "replace (by label)",
                    Task::Leave { .. } => "leave",
                };
                let phase = match &w.phase {
                    Phase::Confirming => "confirming".to_owned(),
                    Phase::Evicting => "evicting its volume".to_owned(),
                    Phase::Granted(g) => g.number.to_string(),
                    Phase::Labelled => "labelled".to_owned(),
                    Phase::Resting { until } => format!("resting until {until}"),
                    Phase::GivenUp { .. } => "given up".to_owned(),
                    Phase::Leaving => "leaving".to_owned(),
                };
                format!("{task} {}: {phase}", w.member)
            },
        );
        format!("revision {}, {known} known, {work}", self.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_read_as_it_was_written_and_a_stranger_is_not_read_at_all() {
        let known = Known {
            host: HostId(1),
            address: "10.0.0.1".parse().unwrap(),
            location: Location {
                dc: "dc1".parse().unwrap(),
                rack: "r1".parse().unwrap(),
            },
            volume: None,
            disk: Some(DiskId(4)),
        };
        let member: Member = "m-0".parse().unwrap();
        let ledger = Ledger::new(ClusterUid(7)).with(|next| {
            next.known.insert(member.clone(), known.clone());
            next.retired.insert(DiskId(3));
            next.work = Some(Work {
                member,
                task: Task::Replace {
                    lost: known,
                    manual: false,
                },
                phase: Phase::Granted(Grant {
                    number: GrantNumber(1),
                    pod: PodUid(1),
                    volume: VolumeUid(2),
                    disk: DiskId(5),
                    wipe: false,
                    seeds: vec!["10.0.0.2".parse().unwrap()],
                    generation: 3,
                    at: Time(9),
                    lasts: Duration::from_secs(7),
                    retires: true,
                }),
                since: Time(9),
                failed: 0,
            });
        });
        let text = ledger.print().unwrap();
        assert_eq!(Ledger::parse(&text).unwrap(), ledger);
        assert_eq!(
            ledger.headline(),
            "revision 2, 1 known, replace m-0: permission 1"
        );
        for bad in [
            "",
            "{}",
            &text.replace("\"revision\"", "\"other\""),
            // What a newer operator wrote is not guessed at.
            &text.replace("\"revision\"", "\"newer\":1,\"revision\""),
            &text[..text.len() / 2],
        ] {
            assert!(Ledger::parse(bad).is_err());
        }
    }
}
