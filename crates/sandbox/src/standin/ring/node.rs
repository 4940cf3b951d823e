//! One node, and the others as it knows them: places of one model, of which only the first is our own.

use super::admin::Faults;
use super::config::Config;
use super::folder::{Folder, FolderError};
use super::wire::Snapshot;
use mainstay_core::ring::ids::{Address, HostId};
use mainstay_core::time::Time;
use sim::ring::model::node::{Endpoint, Mode, Status};
use sim::ring::model::ring::Truth;
use sim::ring::model::{Disk, Options, Place, Refusal, Ring};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

/// Our own place in the model.
pub(super) const ME: usize = 0;

/// Everything that a stand-in knows.
pub(super) struct Node {
    pub(super) config: Config,
    pub(super) ring: Ring,
    pub(super) faults: Faults,
    folder: Folder,
    /// It was drained: it serves nobody any more, until it is started again.
    pub(super) drained: bool,
    /// How often each call of its REST interface was made.
    pub(super) calls: BTreeMap<String, u64>,
    /// Nodes that may become members: what they began is not taken back.
    agreed: BTreeSet<HostId>,
    /// Who told something of its own accord since it was last asked.
    told: BTreeSet<Address>,
}

impl Node {
    /// What the folder holds, and nobody else yet.
    pub(super) fn open(config: Config) -> Result<Self, FolderError> {
        let (folder, disk) = Folder::open(&config.workdir)?;
        let mut ring = Ring::new(config.profile, config.copies);
        // Host ids, tokens and rings are drawn from here: no two processes begin alike.
        ring.counter = drawn();
        ring.places.push(Place {
            disk,
            process: None,
            address: config.broadcast,
            location: config.location.clone(),
        });
        Ok(Self {
            config,
            ring,
            faults: Faults::default(),
            folder,
            drained: false,
            calls: BTreeMap::new(),
            agreed: BTreeSet::new(),
            told: BTreeSet::new(),
        })
    }

    /// The time of the database: all stand-ins of a ring have the same scale.
    pub(super) fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Time(millis.saturating_mul(u64::from(self.config.time_scale)))
    }

    /// Starts, or says why not, in the words of the database.
    pub(super) fn start(&mut self) -> Result<(), Refusal> {
        let known = self.known_of_others();
        self.believe(&known);
        let options = Options {
            seeds: self.config.seeds.clone(),
            replaces: self.config.replaces,
            stream: self.config.stream,
        };
        let now = self.now();
        self.ring.start(ME, &options, now)
    }

    /// A second of the database.
    pub(super) fn tick(&mut self) -> Result<(), Refusal> {
        let own = self.ring.process(ME).map(|p| p.view.clone());
        self.believe(&own.unwrap_or_default().into_iter().collect::<Vec<_>>());
        let now = self.now();
        let ended = self.ring.tick_one(ME, now);
        if self.faults.fail_stream && self.is_joining() {
            self.ring.stop(ME, false);
            return Err(Refusal::StreamFailed);
        }
        ended
    }

    /// Nobody hears it, and it hears nobody.
    pub(super) fn is_silent(&self) -> bool {
        self.faults.pause_gossip || self.drained
    }

    fn is_joining(&self) -> bool {
        let own = self.ring.process(ME).and_then(|p| p.own());
        own.is_some_and(|e| matches!(e.status, Status::Boot | Status::BootReplace))
    }

    pub(super) fn save(&mut self) -> Result<(), FolderError> {
        let disk: Disk = self
            .ring
            .places
            .first()
            .map(|p| p.disk.clone())
            .unwrap_or_default();
        self.folder.save(&disk)
    }

    /// The members in truth, as far as this is known here.
    fn believe(&mut self, known: &[(HostId, Endpoint)]) {
        let left = self.ring.topology.left.clone();
        let owners = known
            .iter()
            .filter(|(host, e)| e.is_owner() && !left.contains(host));
        let owners: Vec<(HostId, Address, u64)> = owners
            .filter_map(|(host, e)| Some((*host, e.address, e.token?)))
            .collect();
        self.ring.truth.clear();
        for (host, address, token) in owners {
            let place = self.place(address);
            self.ring.truth.insert(
                host,
                Truth {
                    address,
                    token,
                    place,
                },
            );
        }
        let settled = |(host, _): &(HostId, Option<HostId>)| {
            self.ring.truth.contains_key(host) || self.ring.topology.left.contains(host)
        };
        if self.ring.topology.joining.as_ref().is_some_and(settled) {
            self.ring.topology.joining = None;
        }
    }

    /// The newest of what the others told of everybody.
    fn known_of_others(&self) -> Vec<(HostId, Endpoint)> {
        let mut newest: BTreeMap<HostId, Endpoint> = BTreeMap::new();
        for process in self.ring.places.iter().skip(1).filter_map(|p| p.process.as_ref()) {
            for (host, e) in &process.view {
                let newer = newest
                    .get(host)
                    .is_none_or(|mine| (e.generation, e.heartbeat) > (mine.generation, mine.heartbeat));
                if newer {
                    newest.insert(*host, e.clone());
                }
            }
        }
        newest.into_iter().collect()
    }

    /// The place of whoever is known under this address.
    fn place(&mut self, address: Address) -> usize {
        let found = self.ring.places.iter().position(|p| p.address == address);
        found.unwrap_or_else(|| {
            let location = self.config.location.clone();
            self.ring.places.push(Place {
                disk: Disk::default(),
                process: None,
                address,
                location,
            });
            self.ring.places.len() - 1
        })
    }

    /// Everybody to gossip with: seeds, and whoever is known.
    pub(super) fn peers(&self) -> BTreeSet<Address> {
        let view = self.ring.process(ME).into_iter().flat_map(|p| p.view.values());
        let told = self.known_of_others().into_iter().map(|(_, e)| e.address);
        let all = view
            .map(|e| e.address)
            .chain(self.config.seeds.iter().copied())
            .chain(told);
        all.filter(|a| *a != self.config.broadcast && !self.faults.dropped.contains(a))
            .collect()
    }

    /// What is told to the others.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        let here = self.ring.places.first()?;
        Some(Snapshot {
            address: here.address,
            location: here.location.clone(),
            process: here.process.clone(),
            rows: here.disk.rows.clone(),
            left: self.ring.topology.left.clone(),
            excluded: self.ring.topology.excluded.clone(),
            joining: self.ring.topology.joining,
        })
    }

    /// What another one told of its own accord.
    pub(super) fn hear(&mut self, told: Snapshot) {
        self.told.insert(told.address);
        self.absorb(told);
    }

    /// What another one told.
    pub(super) fn absorb(&mut self, told: Snapshot) {
        let Snapshot {
            address,
            location,
            mut process,
            rows,
            left,
            excluded,
            joining,
        } = told;
        if address == self.config.broadcast || self.faults.dropped.contains(&address) {
            return;
        }
        let own = self.ring.process(ME).map(|p| p.host);
        self.ring.topology.left.extend(
            left.into_iter()
                .filter(|host| Some(*host) != own || self.config.profile.is_raft()),
        );
        self.ring.topology.excluded.extend(excluded);
        if self.config.profile.is_raft() && self.ring.topology.joining.is_none() {
            let open = |(host, _): &(HostId, Option<HostId>)| {
                !self.ring.topology.left.contains(host) && !self.agreed.contains(host)
            };
            self.ring.topology.joining = joining.filter(open);
        }
        // Whoever has left is not brought back by somebody who has not heard of it.
        if let Some(process) = process.as_mut() {
            let (left, itself) = (&self.ring.topology.left, process.host);
            process
                .view
                .retain(|host, _| *host == itself || !left.contains(host));
        }
        let at = self.place(address);
        if let Some(place) = self.ring.places.get_mut(at) {
            (place.process, place.location, place.disk.rows) = (process, location, rows);
        }
    }

    /// It did not answer: nothing of it is to be counted on, unless it spoke by itself. Whoever is heard lives, also if
    /// its address leads somewhere else by now.
    pub(super) fn silent(&mut self, address: Address) {
        if self.told.remove(&address) {
            return;
        }
        let at = self.place(address);
        if let Some(place) = self.ring.places.get_mut(at) {
            place.process = None;
        }
    }

    /// A node stops on purpose.
    pub(super) fn goodbye(&mut self, host: HostId) {
        if let Some(e) = self.own_view().and_then(|view| view.get_mut(&host)) {
            e.stopped = true;
        }
    }

    /// May this node become a member? A real coordinator writes that into its log, or the end of it; here everybody who
    /// is asked remembers what was answered.
    pub(super) fn consent(&mut self, host: HostId) -> bool {
        if self.ring.topology.left.contains(&host) {
            return false;
        }
        self.agreed.insert(host);
        if self
            .ring
            .topology
            .joining
            .is_some_and(|(joining, _)| joining == host)
        {
            self.ring.topology.joining = None;
        }
        true
    }

    /// A start that is about to end, where a majority must agree: who, and how many of the others that is.
    pub(super) fn about_to_join(&self) -> Option<(HostId, usize)> {
        let process = self.ring.process(ME).filter(|_| self.config.profile.is_raft())?;
        let until = match process.mode {
            Mode::Joining { until } | Mode::Replacing { until, .. } => until,
            Mode::Normal | Mode::Leaving { .. } => return None,
        };
        let others = self.ring.truth.keys().filter(|host| **host != process.host);
        (self.now() >= until).then(|| (process.host, others.count() / 2 + 1))
    }

    /// A node has left, or was removed.
    pub(super) fn gone(&mut self, host: HostId) {
        self.ring.topology.left.insert(host);
        if let Some(view) = self.own_view() {
            view.remove(&host);
        }
    }

    fn own_view(&mut self) -> Option<&mut BTreeMap<HostId, Endpoint>> {
        let process = self.ring.places.first_mut()?.process.as_mut()?;
        Some(&mut process.view)
    }

    pub(super) fn store(&mut self, row: u16) {
        if let Some(place) = self.ring.places.first_mut() {
            place.disk.rows.insert(row);
        }
    }

    /// Rows that members missed while they were away and are there now.
    pub(super) fn due_hints(&mut self) -> Vec<(Address, u16)> {
        let due: Vec<(HostId, u16)> = self
            .ring
            .hints
            .iter()
            .filter(|(host, _)| self.ring.alive(*host).is_some())
            .copied()
            .collect();
        for hint in &due {
            self.ring.hints.remove(hint);
        }
        due.into_iter()
            .filter_map(|(host, row)| Some((self.ring.truth.get(&host)?.address, row)))
            .collect()
    }
}

/// A number from the system.
fn drawn() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish() >> 1
}
