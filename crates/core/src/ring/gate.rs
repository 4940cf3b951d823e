//! What `mainstay pod ring-gate` decides before every start of the database: start, or wait and say why.
//!
//! A bootstrapped disk starts, and needs nobody for it in a pod it has run in before. A disk that is not bootstrapped
//! starts only with a permission that names this pod, this claim and this disk, only once, and only while it is fresh:
//! whoever was dead when it was given may live again. So whether a folder is
//! empty because the storage is lost, or because the wrong thing is mounted, is never decided by the database.
//!
//! It must be asked before *every* start, also when only the container restarts: nothing else stands between an empty
//! folder and a database that joins with it.

use super::ids::{Address, ClusterUid, DiskId, HostId, Member, PodUid, VolumeUid};
use super::ledger::{Grant, Ledger, Task, Work};
use super::record::{RecordMap, Replaces};
use super::spec::Engine;
use super::stamp::{Bootstrapped, Found, Report, Stamp};
use std::fmt;
use std::time::Duration;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// The member.
    pub member: Member,
    /// Of which cluster.
    pub cluster: ClusterUid,
    /// Which database.
    pub engine: Engine,
    /// The pod.
    pub pod: PodUid,
    /// Its claim.
    pub volume: VolumeUid,
    /// The address under which the others will know it.
    pub address: Address,
    /// A database has run in this pod before.
    pub ran: bool,
    /// An id that was just drawn, for a disk that has none.
    pub fresh: DiskId,
}

/// What is in the data folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// The gate's own file.
    pub stamp: Option<Stamp>,
    /// What the database's tables say.
    pub bootstrapped: Bootstrapped,
}

/// What could be learnt from Kubernetes.
#[derive(Clone, Copy, Debug)]
pub enum Asked<'a> {
    /// The API did not answer.
    NoAnswer,
    /// It did.
    Answer {
        /// The ledger, if there is one.
        ledger: Option<&'a Ledger>,
        /// The member's record, if there is one.
        record: Option<&'a RecordMap>,
        /// The addresses of all members, this one included.
        members: &'a [Address],
        /// How old the permission in the ledger is at most; unknown to a gate that never read a ledger without it.
        age: Option<Duration>,
    },
}

/// What the gate does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Write the stamp, report, and start.
    Start(Start),
    /// Write the stamp, report, and ask again in a while.
    Wait(Wait),
}

/// How the database is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Written to the folder before the start: this is what makes a permission used.
    pub stamp: Stamp,
    /// Remove what an unfinished start left. Never on a disk that was ever bootstrapped.
    pub wipe: bool,
    /// Whom it replaces.
    pub replaces: Option<Replaces>,
    /// Its seeds.
    pub seeds: Vec<Address>,
    /// What the operator is told.
    pub report: Report,
    /// With a permission: it is not older than this when the database starts.
    pub within: Option<Duration>,
}

/// Why it is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Written to the folder, so that the disk keeps its id.
    pub stamp: Stamp,
    /// What the operator is told; nothing if nobody could be asked what this disk is.
    pub report: Option<Report>,
    /// What a person is told.
    pub why: Held,
}

/// Why a gate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Held {
    /// The API did not answer.
    NoAnswer,
    /// The operator has not begun with this cluster.
    NoLedger,
    /// This disk is empty and its member is in the ring.
    StorageLost,
    /// A new member waits until it is its turn to join.
    AwaitsTurn,
    /// A start did not finish.
    Unfinished,
    /// The permission and the record name different nodes.
    RecordDiffers,
    /// The permission is too old, or may be.
    Expired,
    /// The permission would make the node its own seed, or leave it without one.
    BadSeeds,
    /// The place of this disk was given to another one.
    Retired,
    /// The data of another node.
    Foreign,
    /// Bootstrapped once, and not any more.
    Damaged,
    /// The database's own tool cannot read it.
    Unreadable,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAnswer => "the Kubernetes API does not answer, and this disk must not be started without asking: waiting for it",
            Self::NoLedger => "the operator has not taken up this cluster yet: waiting for it",
            Self::StorageLost => "StorageLost: this disk is empty although its member is in the ring; waiting for the operator's permission to replace it (`mainstay why` names the checks)",
            Self::AwaitsTurn => "a new member; waiting for the operator to let it join, one at a time",
            Self::Unfinished => "the last start did not finish; waiting for the operator to allow another one",
            Self::RecordDiffers => "the permission and the record name different nodes; waiting until the operator has put that right",
            Self::Expired => "the permission is older than it may be, or may be for all this gate knows: not started, because the dead may live again; waiting for another permission",
            Self::BadSeeds => "the permission names this node as its own seed, or nobody: not started; waiting for another permission",
            Self::Retired => "the place of this disk in the ring was given to another disk: it is never started again; mount the right disk, or save its data and empty it",
            Self::Foreign => "this disk holds the data of another node: not started; mount the right disk",
            Self::Damaged => "this disk was bootstrapped once and does not say so any more: neither started nor wiped; a human must look at it",
            Self::Unreadable => "the database's own tool cannot read what is on this disk: neither started nor wiped, and read again",
        })
    }
}

/// Decides.
pub fn gate(me: &Me, folder: &Folder, asked: Asked<'_>) -> Gate {
    let stamp = folder.stamp.clone().unwrap_or_else(|| Stamp::fresh(me.fresh));
    match (folder.bootstrapped, asked) {
        (Bootstrapped::Completed(host), Asked::NoAnswer) if stamp.pod == Some(me.pod) => {
            // It ran in this very pod: what was mounted then is mounted now (a loss is believed only in a new pod).
            let seeds = stamp.seeds.clone();
            start(me, &stamp, host, seeds)
        }
        (_, Asked::NoAnswer) => Gate::Wait(Wait {
            stamp,
            report: None,
            why: Held::NoAnswer,
        }),
        (
            Bootstrapped::Completed(host),
            Asked::Answer {
                ledger,
                record,
                members,
                age: _,
            },
        ) => match fenced(me, &stamp, host, ours(me, ledger), record) {
            // From here on it must ask also in this pod: the next time the API may not answer.
            Some((found, why)) => wait(me, Stamp { pod: None, ..stamp }, found, why),
            None => start(me, &stamp, host, with_me(me, members)),
        },
        // To take it for an empty one could cost a node its data.
        (Bootstrapped::Unreadable, _) => wait(me, stamp, Found::Unreadable, Held::Unreadable),
        // A member once, and rows may be on it that nobody else has.
        (Bootstrapped::Decommissioned, _) => wait(me, stamp, Found::Damaged, Held::Damaged),
        (Bootstrapped::InProgress | Bootstrapped::Never, _) if stamp.completed => {
            wait(me, stamp, Found::Damaged, Held::Damaged)
        }
        // The disk of a member, or of one whose place was given away, that is not bootstrapped any more: perhaps only a
        // table is broken.
        (_, Asked::Answer { ledger, record, .. }) if was_bootstrapped(me, &stamp, ledger, record) => {
            wait(me, stamp, Found::Damaged, Held::Damaged)
        }
        (
            empty,
            Asked::Answer {
                ledger, record, age, ..
            },
        ) => {
            let found = unstarted(&stamp, empty);
            match permitted(me, &stamp, found, ours(me, ledger), record) {
                Ok((_, grant)) if age.is_none_or(|age| age > grant.lasts) => {
                    wait(me, stamp, found, Held::Expired)
                }
                Ok((work, grant)) => first_start(me, &stamp, work, grant),
                Err(why) => wait(me, stamp, found, why),
            }
        }
    }
}

/// A ledger of a namesake says nothing about this cluster.
fn ours<'a>(me: &Me, ledger: Option<&'a Ledger>) -> Option<&'a Ledger> {
    ledger.filter(|l| l.cluster == me.cluster)
}

/// The ledger knows this disk from when it was bootstrapped, or the record does: a ledger may be lost. Whose disk it was
/// does not matter: one that is mounted in the wrong place is not an empty one there.
fn was_bootstrapped(me: &Me, stamp: &Stamp, ledger: Option<&Ledger>, record: Option<&RecordMap>) -> bool {
    let recorded = known_record(me, record).is_some_and(|(_, disk)| disk == Some(stamp.disk));
    let known = ours(me, ledger).is_some_and(|l| l.is_spoken_for(stamp.disk));
    recorded || known
}

fn known_record(me: &Me, record: Option<&RecordMap>) -> Option<(Replaces, Option<DiskId>)> {
    let (replaces, known, cluster) = record?.parse().ok()?;
    (cluster == me.cluster).then_some((replaces, known.disk))
}

/// Why a bootstrapped disk may not start: its place was given away, or it never was this member's.
fn fenced(
    me: &Me,
    stamp: &Stamp,
    host: HostId,
    ledger: Option<&Ledger>,
    record: Option<&RecordMap>,
) -> Option<(Found, Held)> {
    let retired = Some((Found::Retired(host), Held::Retired));
    let foreign = Some((Found::Foreign(host), Held::Foreign));
    let Some(ledger) = ledger else {
        // The ledger is gone; the record still names the disk.
        let named = known_record(me, record).and_then(|(_, disk)| disk);
        return if named.is_some_and(|disk| disk != stamp.disk) {
            retired
        } else {
            None
        };
    };
    if ledger.retired.contains(&stamp.disk) {
        return retired;
    }
    if ledger.owner_of(host).is_some_and(|owner| *owner != me.member) {
        return foreign;
    }
    let granted = ledger
        .work
        .as_ref()
        .filter(|w| w.member == me.member)
        .and_then(Work::grant)
        .is_some_and(|g| g.disk == stamp.disk && stamp.used == Some(g.number));
    let known = ledger.known.get(&me.member).filter(|_| !granted)?;
    match known.disk {
        Some(disk) if disk == stamp.disk => None,
        Some(_) => retired,
        // Nobody knew this disk when its place was given to another one, so it could not be fenced by its id.
        None if known.host == host && given_away(me, ledger) => retired,
        None if known.host == host => None,
        None => foreign,
    }
}

/// Was a start in place of this member permitted, that may have happened?
fn given_away(me: &Me, ledger: &Ledger) -> bool {
    let work = ledger.work.as_ref().filter(|w| w.member == me.member);
    work.is_some_and(|w| w.lost().is_some() && (w.grant().is_some() || w.failed > 0))
}

fn unstarted(stamp: &Stamp, bootstrapped: Bootstrapped) -> Found {
    match (stamp.used, bootstrapped) {
        (Some(number), _) => Found::Unfinished(number),
        (None, Bootstrapped::InProgress) => Found::Unfinished(super::ids::GrantNumber(0)),
        (None, Bootstrapped::Never | Bootstrapped::Decommissioned | Bootstrapped::Completed(_)) => {
            Found::Empty
        }
        (None, Bootstrapped::Unreadable) => Found::Unreadable,
    }
}

/// The permission for this disk in this pod, or why there is none.
fn permitted<'a>(
    me: &Me,
    stamp: &Stamp,
    found: Found,
    ledger: Option<&'a Ledger>,
    record: Option<&RecordMap>,
) -> Result<(&'a Work, &'a Grant), Held> {
    let ledger = ledger.ok_or(Held::NoLedger)?;
    let unfinished = matches!(found, Found::Unfinished(_));
    let held = if unfinished {
        Held::Unfinished
    } else if ledger.known.contains_key(&me.member) || known_record(me, record).is_some() {
        Held::StorageLost
    } else {
        Held::AwaitsTurn
    };
    let work = ledger
        .work
        .as_ref()
        .filter(|w| w.member == me.member)
        .ok_or(held)?;
    let grant = work.grant().ok_or(held)?;
    let named = grant.pod == me.pod && grant.volume == me.volume && grant.disk == stamp.disk;
    let unused = stamp.used.is_none_or(|used| used < grant.number);
    if !named || !unused || (unfinished && !grant.wipe) {
        return Err(held);
    }
    if let Some(lost) = work.lost() {
        let meant = Replaces::of(lost, me.engine.replace_by());
        if known_record(me, record).is_none_or(|(recorded, _)| recorded != meant) {
            return Err(Held::RecordDiffers);
        }
    }
    let alone = grant.seeds == [me.address];
    let good = match work.task {
        Task::Found => alone,
        Task::Join | Task::Replace { .. } => !grant.seeds.is_empty() && !grant.seeds.contains(&me.address),
        Task::Leave { .. } => false,
    };
    if good {
        Ok((work, grant))
    } else {
        Err(Held::BadSeeds)
    }
}

fn first_start(me: &Me, stamp: &Stamp, work: &Work, grant: &Grant) -> Gate {
    let replaces = work.lost().map(|lost| Replaces::of(lost, me.engine.replace_by()));
    let found = Found::StartedWith(grant.number);
    Gate::Start(Start {
        wipe: grant.wipe,
        replaces,
        seeds: grant.seeds.clone(),
        within: Some(grant.lasts),
        report: report(me, stamp, found),
        stamp: Stamp {
            pod: Some(me.pod),
            used: Some(grant.number),
            seeds: grant.seeds.clone(),
            ..stamp.clone()
        },
    })
}

/// A bootstrapped disk: no option, and everybody is a seed, itself included. So a ring that was stopped as a whole
/// starts again, and the others gossip with whoever takes over an address.
fn start(me: &Me, stamp: &Stamp, host: HostId, seeds: Vec<Address>) -> Gate {
    Gate::Start(Start {
        wipe: false,
        replaces: None,
        within: None,
        report: report(me, stamp, Found::Started(host)),
        stamp: Stamp {
            pod: Some(me.pod),
            completed: true,
            seeds: seeds.clone(),
            ..stamp.clone()
        },
        seeds,
    })
}

fn with_me(me: &Me, members: &[Address]) -> Vec<Address> {
    let mut seeds: Vec<Address> = members.to_vec();
    if !seeds.contains(&me.address) {
        seeds.push(me.address);
    }
    seeds.sort_unstable();
    seeds.dedup();
    seeds
}

fn wait(me: &Me, stamp: Stamp, found: Found, why: Held) -> Gate {
    Gate::Wait(Wait {
        report: Some(report(me, &stamp, found)),
        stamp,
        why,
    })
}

fn report(me: &Me, stamp: &Stamp, found: Found) -> Report {
    Report {
        disk: stamp.disk,
        ran: me.ran,
        found,
    }
}
