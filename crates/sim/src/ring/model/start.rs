//! What a node decides when it starts: the table of the versions, row by row.

use super::disk::{Local, Stage};
use super::node::{Endpoint, Mode, Process, Status};
use super::profile::Profile;
use super::refusal::Refusal;
use super::ring::{Ring, Truth, endpoint};
use mainstay_core::ring::ids::{Address, HostId};
use mainstay_core::ring::record::Replaces;
use mainstay_core::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How a node is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Its seeds.
    pub seeds: Vec<Address>,
    /// Whom it replaces.
    pub replaces: Option<Replaces>,
    /// How long it will stream.
    pub stream: Duration,
}

/// What the first contact with the ring showed.
struct Shadow {
    /// Who was asked first.
    contact: usize,
    /// What everybody who answered knows.
    known: BTreeMap<HostId, Endpoint>,
}

impl Ring {
    /// Starts the node in this place. A refused start leaves its host id behind, and no process.
    pub fn start(&mut self, at: usize, options: &Options, now: Time) -> Result<(), Refusal> {
        let Some(place) = self.places.get(at) else {
            return Err(Refusal::UnableToGossip);
        };
        let (own, stage) = (place.address, place.disk.stage());
        let own_seed = options.seeds.contains(&own);
        if own_seed
            && options.replaces.is_some()
            && (stage != Stage::Completed || self.profile != Profile::Cassandra5)
        {
            return Err(match (self.profile, options.replaces) {
                (Profile::Cassandra5, _) => Refusal::UnsafeReplace,
                (_, Some(Replaces::Host(_))) => Refusal::SeedByHost,
                _ => Refusal::SeedByAddress,
            });
        }
        if stage == Stage::Completed {
            return self.restart(at, options, now);
        }
        self.first_identity(at, now);
        let shadow = self.shadow(at, options);
        match (options.replaces, shadow) {
            (Some(replaces), None) => Err(nobody_for(replaces, options)),
            (Some(replaces), Some(shadow)) => self.replace(at, replaces, &shadow, options, now),
            (None, None) if own_seed => {
                self.found(at, options, now);
                Ok(())
            }
            (None, None) => Err(Refusal::UnableToGossip),
            (None, Some(shadow)) => self.join(at, &shadow, options, now),
        }
    }

    /// Host id and generation are saved before anything else happens.
    fn first_identity(&mut self, at: usize, now: Time) {
        let drawn = HostId(0xab_0000 + u128::from(self.draw()));
        let Some(place) = self.places.get_mut(at) else {
            return;
        };
        let local = place.disk.local.get_or_insert(Local {
            host: drawn,
            stage: Stage::Needs,
            token: None,
            cluster: 0,
            generation: 0,
            asked: false,
            left: false,
            peers: BTreeMap::new(),
        });
        local.generation = now.0.max(local.generation + 1);
    }

    /// Rows 2 to 4: a member starts again, whatever the options say. One that was removed is refused by every ScyllaDB;
    /// Cassandra lets it take its tokens back.
    fn restart(&mut self, at: usize, options: &Options, now: Time) -> Result<(), Refusal> {
        let left = self.topology.left.clone();
        let remembers = self.profile != Profile::Cassandra5;
        let Some(place) = self.places.get_mut(at) else {
            return Err(Refusal::UnableToGossip);
        };
        let own = endpoint(place, 0, None, now);
        let Some(local) = place.disk.local.as_mut() else {
            return Err(Refusal::UnableToGossip);
        };
        if local.left || (remembers && left.contains(&local.host)) {
            return Err(Refusal::AlreadyLeft);
        }
        local.generation = now.0.max(local.generation + 1);
        let mut view: BTreeMap<HostId, Endpoint> = BTreeMap::new();
        for (host, peer) in &local.peers {
            let known = Endpoint {
                address: peer.address,
                token: Some(peer.token),
                location: peer.location.clone(),
                status: Status::Normal,
                generation: 0,
                // Known from disk, and not heard of.
                heard: Time(now.0.saturating_sub(20_000)),
                ..own.clone()
            };
            view.insert(*host, known);
        }
        let me = Endpoint {
            generation: local.generation,
            token: local.token,
            status: Status::Normal,
            ..own
        };
        view.insert(local.host, me);
        place.process = Some(Process {
            host: local.host,
            address: place.address,
            mode: Mode::Normal,
            seeds: options.seeds.clone(),
            cluster: local.cluster,
            view,
        });
        let (host, address, token) = (local.host, place.address, local.token.unwrap_or(0));
        self.topology.left.remove(&host);
        let truth = self.truth.entry(host).or_insert(Truth {
            address,
            token,
            place: at,
        });
        // A disk that is mounted elsewhere is known by the address at which it runs now, as in everybody's gossip. Under
        // its former one somebody else may be replaced.
        truth.address = address;
        Ok(())
    }

    /// Asks the seeds what they know.
    fn shadow(&self, at: usize, options: &Options) -> Option<Shadow> {
        let own = self.places.get(at)?.address;
        let answers = |p: &usize| {
            let there = self
                .places
                .get(*p)
                .is_some_and(|q| options.seeds.contains(&q.address) && q.address != own);
            let member = self
                .process(*p)
                .is_some_and(|q| matches!(q.mode, Mode::Normal | Mode::Leaving { .. }));
            there && member && self.linked(at, *p)
        };
        let reached: Vec<usize> = self.running().into_iter().filter(answers).collect();
        let contact = *reached.first()?;
        let cluster = self.process(contact)?.cluster;
        let mut known: BTreeMap<HostId, Endpoint> = BTreeMap::new();
        for place in reached {
            let Some(process) = self.process(place).filter(|p| p.cluster == cluster) else {
                continue;
            };
            for (host, theirs) in &process.view {
                let newer = known.get(host).is_none_or(|mine| {
                    (theirs.generation, theirs.heartbeat) > (mine.generation, mine.heartbeat)
                });
                if newer {
                    known.insert(*host, theirs.clone());
                }
            }
        }
        Some(Shadow { contact, known })
    }

    /// Row 17: a ring of its own. Cassandra keeps the name of the ring, and whoever meets it later believes it.
    fn found(&mut self, at: usize, options: &Options, now: Time) {
        let token = self.draw().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let cluster = if self.profile == Profile::Cassandra5 {
            1
        } else {
            self.draw()
        };
        let Some(place) = self.places.get_mut(at) else {
            return;
        };
        let own = endpoint(place, 0, Some(token), now);
        let Some(local) = place.disk.local.as_mut() else {
            return;
        };
        (local.stage, local.token, local.cluster) = (Stage::Completed, Some(token), cluster);
        let me = Endpoint {
            generation: local.generation,
            status: Status::Normal,
            ..own
        };
        let (host, address) = (local.host, place.address);
        place.process = Some(Process {
            host,
            address,
            mode: Mode::Normal,
            seeds: options.seeds.clone(),
            cluster,
            view: BTreeMap::from([(host, me)]),
        });
        self.truth.insert(
            host,
            Truth {
                address,
                token,
                place: at,
            },
        );
    }

    /// Rows 18 to 20.
    fn join(&mut self, at: usize, shadow: &Shadow, options: &Options, now: Time) -> Result<(), Refusal> {
        let Some(own) = self.places.get(at).map(|p| p.address) else {
            return Err(Refusal::UnableToGossip);
        };
        let there = |e: &Endpoint| e.address == own && e.status != Status::Left;
        if self.profile != Profile::Raft2026 && shadow.known.values().any(there) {
            return Err(Refusal::AlreadyExists(own));
        }
        let me = self.places.get(at).and_then(|p| p.disk.host());
        if self.profile.is_raft() {
            self.agree(at, shadow, None, now)?;
        } else if shadow.known.iter().any(|(h, e)| Some(*h) != me && moving(e)) {
            return Err(Refusal::OthersMoving);
        }
        let until = now + Profile::RING_DELAY + options.stream;
        let token = self.draw().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.begin(at, Mode::Joining { until }, token, shadow, options, now);
        Ok(())
    }

    /// Rows 7 to 16.
    fn replace(
        &mut self,
        at: usize,
        replaces: Replaces,
        shadow: &Shadow,
        options: &Options,
        now: Time,
    ) -> Result<(), Refusal> {
        let (target, known) = find(replaces, shadow)?;
        let Some(place) = self.places.get(at) else {
            return Err(Refusal::UnableToGossip);
        };
        let (own, elsewhere) = (place.address, known.location != place.location);
        let same = known.address == own;
        if self.profile.is_raft() {
            if elsewhere {
                return Err(Refusal::OtherRack(target));
            }
            self.agree(at, shadow, Some(target), now)?;
        } else {
            self.by_gossip(target, &known, same, shadow, now)?;
        }
        let unheard = self.profile == Profile::Cassandra5 && same && !self.is_seed_of_all(at, own);
        let until = now + Profile::RING_DELAY + options.stream;
        let mode = Mode::Replacing {
            target,
            until,
            unheard,
            without: away(shadow, target, now),
        };
        let token = known.token.unwrap_or(0);
        if same
            && self.profile.keeps_host()
            && let Some(local) = self.places.get_mut(at).and_then(|p| p.disk.local.as_mut())
        {
            local.host = target;
            local.generation = local.generation.max(known.generation + 1);
        }
        self.begin(at, mode, token, shadow, options, now);
        Ok(())
    }

    /// Rows 10 to 14 and 19: what the coordinator of a majority says.
    fn agree(
        &mut self,
        at: usize,
        shadow: &Shadow,
        target: Option<HostId>,
        now: Time,
    ) -> Result<(), Refusal> {
        let Some(local) = self.places.get(at).and_then(|p| p.disk.local.clone()) else {
            return Err(Refusal::UnableToGossip);
        };
        if !self.has_quorum(shadow.contact) {
            return Err(Refusal::NoQuorum);
        }
        if local.asked {
            return Err(Refusal::AskedBefore);
        }
        let up = |host: HostId| {
            let view = self.process(shadow.contact).and_then(|p| p.view.get(&host));
            view.is_some_and(|e| e.is_up(now))
        };
        if let Some(target) = target {
            if !self.truth.contains_key(&target) {
                return Err(Refusal::NotNormal(target));
            }
            if up(target) {
                return Err(Refusal::Alive(target));
            }
        }
        let excluded = &self.topology.excluded;
        let dead = |host: &&HostId| Some(**host) != target && !excluded.contains(*host) && !up(**host);
        if self.topology.joining.is_some() || self.truth.keys().any(|h| dead(&h)) {
            return Err(Refusal::RequiredDead);
        }
        self.topology.joining = Some((local.host, target));
        if let Some(local) = self.places.get_mut(at).and_then(|p| p.disk.local.as_mut()) {
            local.asked = true;
        }
        Ok(())
    }

    /// Rows 15a and 15b, and what Cassandra asks.
    fn by_gossip(
        &self,
        target: HostId,
        known: &Endpoint,
        same: bool,
        shadow: &Shadow,
        now: Time,
    ) -> Result<(), Refusal> {
        if !same && now.since(known.heard) < Profile::RING_DELAY {
            return Err(Refusal::Live);
        }
        let down = |(h, e): &(&HostId, &Endpoint)| **h != target && e.is_owner() && !e.is_up(now);
        // A node in hibernate is not in the ring that a joining Cassandra sees, so it misses nothing there.
        let visible = |(_, e): &(&HostId, &Endpoint)| e.status != Status::Hibernate;
        let downs = shadow.known.iter().filter(down);
        if self.profile == Profile::Cassandra5 {
            let missing = u32::try_from(downs.filter(visible).count()).unwrap_or(u32::MAX);
            if self.copies > 1 && missing + 1 >= self.copies {
                return Err(Refusal::NoSources);
            }
            return Ok(());
        }
        if downs.count() > 0 {
            return Err(Refusal::NeededDown);
        }
        Ok(())
    }

    fn is_seed_of_all(&self, at: usize, address: Address) -> bool {
        let others = self.running().into_iter().filter(|p| *p != at);
        others
            .filter_map(|p| self.process(p))
            .filter(|p| p.mode == Mode::Normal)
            .all(|p| p.seeds.contains(&address))
    }

    fn begin(&mut self, at: usize, mode: Mode, token: u64, shadow: &Shadow, options: &Options, now: Time) {
        let cluster = self.process(shadow.contact).map_or(0, |p| p.cluster);
        let Some(place) = self.places.get_mut(at) else {
            return;
        };
        let own = endpoint(place, 0, Some(token), now);
        let Some(local) = place.disk.local.as_mut() else {
            return;
        };
        (local.stage, local.cluster) = (Stage::InProgress, cluster);
        local.token = Some(token);
        let mut view = shadow.known.clone();
        let me = Endpoint {
            generation: local.generation,
            ..own
        };
        view.insert(local.host, me);
        let (host, address) = (local.host, place.address);
        place.process = Some(Process {
            host,
            address,
            mode,
            seeds: options.seeds.clone(),
            cluster,
            view,
        });
    }
}

fn moving(e: &Endpoint) -> bool {
    matches!(
        e.status,
        Status::Silent | Status::Boot | Status::BootReplace | Status::Leaving
    )
}

/// The members that everybody calls down: a replacement does not count on them. One that is only out of its own reach
/// is counted on, and missed.
fn away(shadow: &Shadow, target: HostId, now: Time) -> BTreeSet<HostId> {
    let down = |(h, e): &(&HostId, &Endpoint)| **h != target && e.is_owner() && !e.is_up(now);
    shadow.known.iter().filter(down).map(|(h, _)| *h).collect()
}

/// Rows 7 and 8.
fn find(replaces: Replaces, shadow: &Shadow) -> Result<(HostId, Endpoint), Refusal> {
    match replaces {
        Replaces::Host(host) => {
            let known = shadow.known.get(&host).cloned();
            known.map(|e| (host, e)).ok_or(Refusal::HostNotFound(host))
        }
        Replaces::Address(address) => shadow
            .known
            .iter()
            .find(|(_, e)| e.address == address && e.is_owner())
            .map(|(h, e)| (*h, e.clone()))
            .ok_or(Refusal::AddressNotFound(address)),
    }
}

/// Rows 5 and 6.
fn nobody_for(replaces: Replaces, options: &Options) -> Refusal {
    match replaces {
        Replaces::Address(dead) if options.seeds == [dead] => Refusal::NoSeedUp(dead),
        _ => Refusal::UnableToGossip,
    }
}
