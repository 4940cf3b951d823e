//! The truth: who lives, whose disk counts, which rows are left. What must not happen is noticed here, whatever the
//! operators believe.

use super::World;
use crate::ring::model::node::Mode;
use crate::ring::model::{Disk, Stage};
use mainstay_core::ring::gate::Start;
use mainstay_core::ring::ids::{DiskId, HostId};
use mainstay_core::ring::record::Replaces;
use mainstay_core::ring::stamp::Found;
use mainstay_core::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the judge remembers.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// What went wrong first.
    pub violation: Option<String>,
    /// The disk of each member, in truth.
    pub disks: BTreeMap<HostId, DiskId>,
    /// Rows that were acknowledged.
    pub rows: BTreeSet<u16>,
    /// Rows of which the world took every copy, before anybody could do anything.
    pub excused: BTreeSet<u16>,
    /// Members that a human removed although their disks were whole.
    pub removed: BTreeSet<HostId>,
    /// Those of them that were back before anybody could know. What was written meanwhile is only on the others.
    pub returned: BTreeSet<HostId>,
    /// Replacements that came to an end.
    pub replaced: u32,
    /// Members so far, in truth.
    members: BTreeSet<HostId>,
    /// Since when another member has known, without a break, that this one lives.
    known_alive: BTreeMap<HostId, Time>,
    /// Disks that were bootstrapped at some time, and on record.
    bootstrapped: BTreeSet<DiskId>,
    /// How many members were declared, and until when.
    declared: BTreeMap<u8, Time>,
}

/// What others have known for this long must have been heard: the operator looks and acts within half a minute, or its
/// lease is over; a permission lasts for a minute; the gate looks every ten seconds.
const HEARD: Duration = Duration::from_mins(2);
/// An operator that was paused may give a permission by what was declared before, and its gate may use it later.
const DECLARED: Duration = Duration::from_mins(6);

impl Judge {
    /// Something went wrong.
    pub fn violate(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }
}

impl World {
    /// After each step of time.
    pub(super) fn judge_truth(&mut self) {
        let declared = usize::from(self.config.members);
        if self.ring.truth.len() > declared {
            self.judge
                .violate(format!("{} members, {declared} declared", self.ring.truth.len()));
        }
        let moving = self.ring.running().into_iter().filter(|p| {
            let process = self.ring.process(*p);
            process.is_some_and(|p| matches!(p.mode, Mode::Joining { .. } | Mode::Replacing { .. }))
        });
        if moving.count() > 1 {
            self.judge.violate("two nodes start at once".to_owned());
        }
        for (host, truth) in &self.ring.truth {
            let stamp = self.objects.get(truth.place).and_then(|o| o.stamp.as_ref());
            if let Some(stamp) = stamp.filter(|_| self.ring.alive(*host).is_some()) {
                self.judge.disks.insert(*host, stamp.disk);
            }
        }
        self.note_alive();
        self.note_disks();
        self.judge.declared.insert(self.declared, self.now);
        let now: BTreeSet<HostId> = self.ring.truth.keys().copied().collect();
        // A replacement that was under way made it a member again.
        self.judge.removed.retain(|host| !now.contains(host));
        let gone = self.judge.members.difference(&now).count();
        let new = now.difference(&self.judge.members).count();
        self.judge.replaced += u32::try_from(gone.min(new)).unwrap_or(0);
        self.judge.members = now;
    }

    /// Who lives, and another member knows it.
    fn note_alive(&mut self) {
        let (ring, now) = (&self.ring, self.now);
        let is_known = |host: &HostId, place: usize| {
            let others = ring.truth.values().filter(|t| t.place != place);
            others
                .filter_map(|t| ring.process(t.place)?.view.get(host))
                .any(|e| e.is_up(now))
        };
        let known = ring.truth.iter().filter(|(host, t)| {
            let lives = ring.alive(**host).is_some();
            lives && is_known(host, t.place)
        });
        let known: BTreeSet<HostId> = known.map(|(host, _)| *host).collect();
        self.judge.known_alive.retain(|host, _| known.contains(host));
        for host in known {
            self.judge.known_alive.entry(host).or_insert(now);
        }
    }

    /// Which disks are bootstrapped, as far as anybody can know.
    fn note_disks(&mut self) {
        let known = self.ledger.iter().flat_map(|(_, l)| l.known.values());
        let recorded: BTreeSet<DiskId> = known.filter_map(|k| k.disk).collect();
        let mounted = self.objects.iter().zip(&self.ring.places);
        let complete = mounted.filter(|(_, p)| p.disk.stage() == Stage::Completed);
        let disks = complete
            .filter_map(|(o, _)| o.stamp.as_ref())
            .filter(|s| s.completed || recorded.contains(&s.disk))
            .map(|s| s.disk);
        self.judge.bootstrapped.extend(disks);
    }

    /// How many members may there be, at most?
    fn may_be(&self) -> usize {
        let lately = self.judge.declared.iter();
        let lately = lately.filter(|(_, at)| self.now.since(**at) <= DECLARED);
        lately.map(|(n, _)| usize::from(*n)).max().unwrap_or(0)
    }

    /// The gate lets a node start.
    pub(super) fn judge_start(&mut self, place: usize, start: &Start) {
        let target = match start.replaces {
            Some(Replaces::Host(host)) => Some(host),
            Some(Replaces::Address(address)) => {
                let at = |t: &&HostId| self.ring.truth.get(*t).is_some_and(|t| t.address == address);
                self.ring.truth.keys().find(at).copied()
            }
            None => None,
        };
        if let Some((host, lives)) = target.and_then(|h| Some((h, self.ring.alive(h)?))) {
            // One that is cut off from everybody, whose pod and disk a human gave up, is dead for all that can be known.
            let known = self.judge.known_alive.get(&host);
            let heard = known.is_some_and(|since| self.now.since(*since) >= HEARD);
            if heard || !self.is_ghost(lives) {
                self.judge.violate(format!("a living node is replaced: {host}"));
            }
        }
        let with_permission = matches!(start.report.found, Found::StartedWith(_));
        let disk = self.ring.places.get(place).map(|p| &p.disk);
        let ever = self.judge.bootstrapped.contains(&start.stamp.disk);
        // What is left of it may be all there is.
        if with_permission && ever && disk.is_some_and(|d| !d.rows.is_empty()) {
            let how = if start.wipe {
                "wiped"
            } else {
                "started as an empty one"
            };
            self.judge.violate(format!("a bootstrapped disk is {how}"));
        }
        let (members, declared) = (self.ring.truth.len(), self.may_be());
        if with_permission && start.replaces.is_none() && members >= declared {
            self.judge
                .violate(format!("one joins {members} members, {declared} declared"));
        }
    }

    /// And the database did start.
    pub(super) fn judge_started(&mut self, place: usize, start: &Start, started: bool) {
        let disk = self.ring.places.get(place).map(|p| &p.disk);
        let Some(host) = disk
            .filter(|d| d.stage() == Stage::Completed)
            .and_then(Disk::host)
        else {
            return;
        };
        let right = self.judge.disks.get(&host).is_none_or(|d| *d == start.stamp.disk);
        let member = self.ring.truth.contains_key(&host);
        let back = started && self.judge.removed.remove(&host);
        let unnoticed = self.is_on_record(place, start.stamp.disk);
        if back && unnoticed {
            // A bootstrapped disk starts without asking anyone: that is the contract of the gate, and what saves a ring
            // that was stopped as a whole. A Cassandra that was removed takes its tokens back. That it was removed is
            // fenced from the moment that the ledger says so.
            self.judge.returned.insert(host);
        } else if started && (back || !(right && member)) {
            self.judge
                .violate(format!("a disk was started whose place was given away: {host}"));
        }
    }

    /// The ledger still says that this disk is the member's.
    fn is_on_record(&self, place: usize, disk: DiskId) -> bool {
        let member = self.objects.get(place).map(|o| &o.member);
        let ledger = self.ledger.as_ref().map(|(_, l)| l);
        let known = member.and_then(|m| ledger?.known.get(m));
        known.is_some_and(|k| k.disk == Some(disk)) || ledger.is_none()
    }

    /// The folder in this place is about to be lost, or taken away. Rows of which no copy is left after it are the
    /// world's fault.
    pub fn judge_disk_lost(&mut self, place: usize) {
        let held: Vec<u16> = self
            .ring
            .places
            .get(place)
            .map(|p| p.disk.rows.iter().copied().collect())
            .unwrap_or_default();
        for row in held {
            let left = self.ring.replicas(row).iter().any(|host| {
                let Some(t) = self.ring.truth.get(host).filter(|t| t.place != place) else {
                    return false;
                };
                let there = self.ring.places.get(t.place).map(|p| &p.disk);
                there.is_some_and(|d| d.host() == Some(*host) && d.rows.contains(&row))
            });
            if !left {
                self.judge.excused.insert(row);
            }
        }
    }

    /// At the end: every row that the ring could keep is there, on every member that should have it.
    pub fn judge_rows(&mut self) {
        let rows: Vec<u16> = self.judge.rows.difference(&self.judge.excused).copied().collect();
        for row in rows {
            let holders: Vec<bool> = self
                .ring
                .replicas(row)
                .iter()
                .filter(|host| !self.judge.returned.contains(host))
                .map(|host| {
                    let place = self
                        .ring
                        .truth
                        .get(host)
                        .and_then(|t| self.ring.places.get(t.place));
                    place.is_some_and(|p| p.disk.host() == Some(*host) && p.disk.rows.contains(&row))
                })
                .collect();
            if !holders.is_empty() && !holders.contains(&true) {
                self.judge.violate(format!("row {row} is lost"));
            } else if self.is_whole() && holders.contains(&false) {
                self.judge
                    .violate(format!("row {row} is missing on a member that should have it"));
            }
        }
    }
}
