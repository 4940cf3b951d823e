//! All nodes, and the network between them.

use super::disk::Disk;
use super::node::{Endpoint, Mode, Process, Status};
use super::profile::Profile;
use super::refusal::Refusal;
use mainstay_core::ring::ids::{Address, HostId, Location};
use mainstay_core::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Where a node runs: a disk and, perhaps, a process on it.
#[derive(Clone, Debug)]
pub struct Place {
    /// What is mounted there.
    pub disk: Disk,
    /// What runs there.
    pub process: Option<Process>,
    /// The address it would have.
    pub address: Address,
    /// Where it is.
    pub location: Location,
}

/// A member in truth, whatever anybody believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truth {
    /// Its address.
    pub address: Address,
    /// Its place in the ring.
    pub token: u64,
    /// In which place its disk is.
    pub place: usize,
}

/// What a majority agreed on.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Who is joining or replacing, and whom.
    pub joining: Option<(HostId, Option<HostId>)>,
    /// Who has left, or was banned.
    pub left: BTreeSet<HostId>,
    /// Whom a human declared dead for good: nobody waits for them.
    pub excluded: BTreeSet<HostId>,
}

/// The ring.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Which version.
    pub profile: Profile,
    /// Where nodes run.
    pub places: Vec<Place>,
    /// Places that do not reach each other.
    pub cut: BTreeSet<(usize, usize)>,
    /// The members in truth.
    pub truth: BTreeMap<HostId, Truth>,
    /// What a majority agreed on.
    pub topology: Topology,
    /// How often each row is kept.
    pub copies: u32,
    /// Rows that members missed while they were away: the others keep them for these.
    pub hints: BTreeSet<(HostId, u16)>,
    /// Draws host ids, tokens and rings.
    pub counter: u64,
}

impl Ring {
    /// A ring without nodes.
    pub fn new(profile: Profile, copies: u32) -> Self {
        Self {
            profile,
            places: Vec::new(),
            cut: BTreeSet::new(),
            truth: BTreeMap::new(),
            topology: Topology::default(),
            copies,
            hints: BTreeSet::new(),
            counter: 0,
        }
    }

    /// A number that was not drawn before.
    pub fn draw(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Can these two places talk?
    pub fn linked(&self, a: usize, b: usize) -> bool {
        !self.cut.contains(&(a.min(b), a.max(b)))
    }

    /// The process in this place.
    pub fn process(&self, place: usize) -> Option<&Process> {
        self.places.get(place)?.process.as_ref()
    }

    pub(super) fn process_mut(&mut self, place: usize) -> Option<&mut Process> {
        self.places.get_mut(place)?.process.as_mut()
    }

    /// The places where something runs.
    pub fn running(&self) -> Vec<usize> {
        (0..self.places.len())
            .filter(|p| self.process(*p).is_some())
            .collect()
    }

    /// Ends the process in this place: by a signal it says goodbye to, or not.
    pub fn stop(&mut self, place: usize, goodbye: bool) {
        let Some(process) = self.places.get_mut(place).and_then(|p| p.process.take()) else {
            return;
        };
        if !goodbye || process.mode != Mode::Normal {
            return;
        }
        let reached: Vec<usize> = self
            .running()
            .into_iter()
            .filter(|p| self.linked(*p, place))
            .collect();
        for other in reached {
            let known = self
                .process_mut(other)
                .and_then(|p| p.view.get_mut(&process.host));
            if let Some(endpoint) = known {
                endpoint.stopped = true;
            }
        }
    }

    /// Some time passes: hearts beat, news spread, what is under way goes on.
    pub fn tick(&mut self, now: Time) {
        let running = self.running();
        for place in &running {
            self.beat(*place, now);
        }
        for a in &running {
            for b in &running {
                if a != b && self.linked(*a, *b) {
                    self.gossip(*a, *b, now);
                }
            }
        }
        for place in &running {
            if let Some(process) = self.process_mut(*place) {
                process.expire(now);
            }
        }
        self.roll_back(now);
        for place in running {
            // Why a start ended is its own affair: nothing runs there any more.
            let _ended = self.progress(place, now);
            self.remember(place);
        }
        self.hand_over_hints();
    }

    /// The share of one node in [`tick`](Self::tick), for whoever runs one node and knows the others from what they
    /// told: its heart beats, it hears the others, and what it is in the middle of goes on or ends.
    pub fn tick_one(&mut self, place: usize, now: Time) -> Result<(), Refusal> {
        self.beat(place, now);
        let others: Vec<usize> = self.running().into_iter().filter(|p| *p != place).collect();
        for other in others {
            if self.linked(other, place) {
                self.gossip(other, place, now);
            }
        }
        if let Some(process) = self.process_mut(place) {
            process.expire(now);
        }
        self.roll_back(now);
        let ended = self.progress(place, now);
        self.remember(place);
        ended
    }

    fn beat(&mut self, place: usize, now: Time) {
        let Some(process) = self.process_mut(place) else {
            return;
        };
        let host = process.host;
        let status = match &process.mode {
            Mode::Joining { .. } => Status::Boot,
            Mode::Replacing { target, .. } if *target == host => Status::Hibernate,
            Mode::Replacing { .. } => Status::BootReplace,
            Mode::Normal => Status::Normal,
            Mode::Leaving { .. } => Status::Leaving,
        };
        if let Some(own) = process.view.get_mut(&host) {
            own.heartbeat += 1;
            own.heard = now;
            own.status = status;
            own.stopped = false;
        }
    }

    /// What `a` knows reaches `b`.
    fn gossip(&mut self, a: usize, b: usize, now: Time) {
        let (Some(from), Some(to)) = (self.process(a), self.process(b)) else {
            return;
        };
        if from.cluster != to.cluster {
            return;
        }
        // Nobody begins to talk with a node in hibernate, except those who have it as a seed.
        let hibernating = matches!(to.mode, Mode::Replacing { target, .. } if target == to.host);
        if self.profile == Profile::Cassandra5 && hibernating && !from.seeds.contains(&to.address) {
            return;
        }
        let Some(mut to) = self.places.get_mut(b).and_then(|p| p.process.take()) else {
            return;
        };
        if let Some(from) = self.process(a) {
            to.merge(&from.view, now);
        }
        self.settle(&mut to);
        if let Some(place) = self.places.get_mut(b) {
            place.process = Some(to);
        }
    }

    /// What a majority agreed on, a member knows. What happened at an address is known by whoever hears the newest.
    fn settle(&self, process: &mut Process) {
        let (truth, left) = (&self.truth, &self.topology.left);
        let keeps = self.profile.keeps_host();
        if self.profile.is_raft() {
            process.view.retain(|host, _| !left.contains(host));
            return;
        }
        let me = process.host;
        // The one that took over a token is the owner; the one that had it is gone.
        let normal: Vec<(HostId, Option<u64>, Address)> = process
            .view
            .iter()
            .filter(|(h, e)| e.status == Status::Normal && truth.contains_key(*h))
            .map(|(h, e)| (*h, e.token, e.address))
            .collect();
        process.view.retain(|host, e| {
            let taken = normal.iter().any(|(h, token, address)| {
                h != host && (*token == e.token && e.token.is_some() || (keeps && *address == e.address))
            });
            *host == me || truth.contains_key(host) || !taken
        });
    }

    /// Members keep what they know for the next start.
    pub(super) fn remember(&mut self, place: usize) {
        let Some(here) = self.places.get_mut(place) else {
            return;
        };
        let (Some(process), Some(local)) = (&here.process, here.disk.local.as_mut()) else {
            return;
        };
        local.peers = process
            .view
            .iter()
            .filter(|(host, e)| e.is_owner() && **host != process.host)
            .filter_map(|(host, e)| {
                let token = e.token?;
                let (address, location) = (e.address, e.location.clone());
                let peer = super::disk::Peer {
                    address,
                    token,
                    location,
                };
                Some((*host, peer))
            })
            .collect();
    }

    /// The members that keep this row, in truth.
    pub fn replicas(&self, row: u16) -> Vec<HostId> {
        let key = u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut members: Vec<(u64, HostId)> = self
            .truth
            .iter()
            .map(|(host, t)| (t.token.wrapping_sub(key), *host))
            .collect();
        members.sort_unstable();
        let copies = usize::try_from(self.copies).unwrap_or(1);
        members.into_iter().take(copies).map(|(_, host)| host).collect()
    }

    /// The place of a member that runs, in truth.
    pub fn alive(&self, host: HostId) -> Option<usize> {
        let place = self.truth.get(&host)?.place;
        let process = self.process(place)?;
        let normal = matches!(process.mode, Mode::Normal | Mode::Leaving { .. });
        (process.host == host && normal).then_some(place)
    }

    /// A client writes a row at QUORUM; `false` if it could not.
    pub fn write(&mut self, row: u16) -> bool {
        let replicas = self.replicas(row);
        let alive: Vec<usize> = replicas.iter().filter_map(|h| self.alive(*h)).collect();
        if alive.len() * 2 <= replicas.len() || replicas.is_empty() {
            return false;
        }
        let away: Vec<HostId> = replicas
            .into_iter()
            .filter(|h| self.alive(*h).is_none())
            .collect();
        self.hints.extend(away.into_iter().map(|h| (h, row)));
        for place in alive {
            if let Some(here) = self.places.get_mut(place) {
                here.disk.rows.insert(row);
            }
        }
        true
    }

    /// What a member missed while it was away, the others give it.
    fn hand_over_hints(&mut self) {
        let due: Vec<(HostId, u16, usize)> = self
            .hints
            .iter()
            .filter_map(|(host, row)| Some((*host, *row, self.alive(*host)?)))
            .collect();
        for (host, row, place) in due {
            if let Some(here) = self.places.get_mut(place) {
                here.disk.rows.insert(row);
            }
            self.hints.remove(&(host, row));
        }
    }
}

/// A node as it begins to be known.
pub(super) fn endpoint(place: &Place, generation: u64, token: Option<u64>, now: Time) -> Endpoint {
    Endpoint {
        address: place.address,
        generation,
        heartbeat: 0,
        heard: now,
        status: Status::Silent,
        token,
        location: place.location.clone(),
        stopped: false,
    }
}
