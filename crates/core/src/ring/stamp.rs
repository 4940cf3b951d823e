//! The file that the gate keeps in a data folder, and what it tells the operator.

use super::ids::{Address, DiskId, GrantNumber, HostId, PodUid};
use serde::{Deserialize, Serialize};

/// Its name in the data folder. It is inside, so that it goes when the data goes.
pub const STAMP_FILE: &str = ".mainstay-ring-stamp";
/// The annotation of the pod that carries the gate's report.
pub const REPORT_ANNOTATION: &str = "mainstay.dev/ring-gate";

/// What the gate knows of a disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stamp {
    /// The disk, drawn when the gate saw it first.
    pub disk: DiskId,
    /// The pod in which a database was last started on it.
    pub pod: Option<PodUid>,
    /// The last permission that was used on it.
    pub used: Option<GrantNumber>,
    /// It was bootstrapped at a start. Such a disk is never wiped, whatever it says later.
    pub completed: bool,
    /// The seeds of the last start: a pod that restarts while the API is away needs them.
    pub seeds: Vec<Address>,
}

impl Stamp {
    /// A disk that was never seen before.
    pub fn fresh(disk: DiskId) -> Self {
        Self {
            disk,
            pod: None,
            used: None,
            completed: false,
            seeds: Vec::new(),
        }
    }

    /// Reads it; `None` if it is not one of ours, or was cut off.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// As it is written.
    pub fn print(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{}\n", serde_json::to_string(self)?))
    }
}

/// What the database's own tables say about a data folder. That it has files says nothing: a start that was refused
/// leaves dozens of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Bootstrapped {
    /// `system.local.bootstrapped = COMPLETED`, with this host id.
    Completed(HostId),
    /// It was a member, and has left.
    Decommissioned,
    /// A start was begun, and not finished.
    InProgress,
    /// Nothing, or only what a refused start leaves.
    Never,
    /// There are tables, and the database's own tool cannot read them. That is anything but an empty disk.
    Unreadable,
}

/// What a gate tells of the pod it runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Report {
    /// The disk it found.
    pub disk: DiskId,
    /// A database has run in this pod before.
    pub ran: bool,
    /// What it found and what it did.
    pub found: Found,
}

/// What a gate found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Found {
    /// A bootstrapped disk; it was started.
    Started(HostId),
    /// A disk that is not bootstrapped; it was started with this permission.
    StartedWith(GrantNumber),
    /// A disk that nobody has used: it waits.
    Empty,
    /// A start with this permission did not finish: it waits.
    Unfinished(GrantNumber),
    /// A disk whose place in the ring was given to another: it is not started.
    Retired(HostId),
    /// The disk of another member, or of none that is known here: it is not started.
    Foreign(HostId),
    /// It was bootstrapped once and does not say so any more: it is not started and not wiped.
    Damaged,
    /// What is on it cannot be read: it is not started and not wiped, and read again.
    Unreadable,
}

impl Found {
    /// Was the database let start?
    pub fn runs(self) -> bool {
        match self {
            Self::Started(_) | Self::StartedWith(_) => true,
            Self::Empty
            | Self::Unfinished(_)
            | Self::Retired(_)
            | Self::Foreign(_)
            | Self::Damaged
            | Self::Unreadable => false,
        }
    }
}

impl Report {
    /// Does the gate hold a disk that is not bootstrapped?
    pub fn waits_empty(&self) -> bool {
        matches!(self.found, Found::Empty | Found::Unfinished(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written_and_half_of_one_is_none() {
        let stamp = Stamp {
            pod: Some(PodUid(3)),
            used: Some(GrantNumber(2)),
            completed: true,
            ..Stamp::fresh(DiskId(7))
        };
        let text = stamp.print().unwrap();
        assert_eq!(Stamp::parse(&text), Some(stamp));
        assert_eq!(Stamp::parse(&text[..20]), None);
        assert_eq!(Stamp::parse("{}"), None);
    }

    #[test]
    fn a_report_survives_the_annotation() {
        for found in [
            Found::Empty,
            Found::Started(HostId(4)),
            Found::Unfinished(GrantNumber(1)),
            Found::Unreadable,
        ] {
            let report = Report {
                disk: DiskId(1),
                ran: false,
                found,
            };
            let text = serde_json::to_string(&report).unwrap();
            assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        }
    }
}
