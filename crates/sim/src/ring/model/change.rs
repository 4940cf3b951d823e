//! Joining, replacing, leaving: how they end.

use super::disk::Stage;
use super::node::{Mode, Status};
use super::profile::Profile;
use super::refusal::Refusal;
use super::ring::{Ring, Truth};
use mainstay_core::ring::ids::HostId;
use mainstay_core::time::Time;
use std::collections::BTreeSet;
use std::time::Duration;

impl Ring {
    /// A majority of the members runs and is reached from here.
    pub fn has_quorum(&self, from: usize) -> bool {
        let reached = |t: &&Truth| {
            let runs = self.process(t.place).is_some();
            runs && (t.place == from || self.linked(t.place, from))
        };
        let alive = self.truth.values().filter(reached).count();
        alive * 2 > self.truth.len()
    }

    /// A majority takes back what a node began that is gone. Its host id is banned.
    pub(super) fn roll_back(&mut self, now: Time) {
        let Some((host, _)) = self.topology.joining else {
            return;
        };
        let runs = self.running().into_iter().any(|p| {
            self.process(p)
                .is_some_and(|q| q.host == host && !matches!(q.mode, Mode::Normal))
        });
        if runs || self.truth.contains_key(&host) {
            return;
        }
        let noticed = self.running().into_iter().any(|p| {
            let known = self.process(p).and_then(|q| q.view.get(&host));
            self.has_quorum(p) && known.is_none_or(|e| !e.is_up(now))
        });
        if noticed {
            self.topology.joining = None;
            self.topology.left.insert(host);
        }
    }

    /// What this process is in the middle of goes on, or ends. The error is why there is no process any more.
    pub(super) fn progress(&mut self, at: usize, now: Time) -> Result<(), Refusal> {
        let Some(process) = self.process(at) else {
            return Ok(());
        };
        let (host, mode) = (process.host, process.mode.clone());
        let done = match mode {
            Mode::Normal => return Ok(()),
            Mode::Joining { until } | Mode::Leaving { until } | Mode::Replacing { until, .. } => now >= until,
        };
        if !done {
            return Ok(());
        }
        let ended = match mode {
            Mode::Normal => Ok(()),
            Mode::Joining { .. } => self.finish(at, host, None, &BTreeSet::new()),
            Mode::Replacing { unheard: true, .. } => Err(Refusal::NoContact),
            Mode::Replacing { target, without, .. } => self.finish(at, host, Some(target), &without),
            Mode::Leaving { .. } if !self.away_from(at, None).is_empty() => {
                // Whoever is to take over its rows is gone: `DECOMMISSION_FAILED`, and it is a member as before.
                if let Some(process) = self.process_mut(at) {
                    process.mode = Mode::Normal;
                }
                Ok(())
            }
            Mode::Leaving { .. } => {
                self.leave(at, host, now);
                Ok(())
            }
        };
        match ended {
            Ok(()) => Ok(()),
            Err(Refusal::StreamFailed) if self.profile == Profile::Cassandra5 => {
                self.hang(at);
                Ok(())
            }
            Err(refusal) => {
                self.stop(at, false);
                Err(refusal)
            }
        }
    }

    /// A Cassandra whose streams failed does not exit: it stays joining, and it is for others to end it.
    fn hang(&mut self, at: usize) {
        let never = Time(u64::MAX);
        match self.process_mut(at).map(|p| &mut p.mode) {
            Some(Mode::Joining { until } | Mode::Replacing { until, .. }) => *until = never,
            Some(Mode::Normal | Mode::Leaving { .. }) | None => {}
        }
    }

    /// The members that this place cannot stream from or to now.
    fn away_from(&self, at: usize, target: Option<HostId>) -> BTreeSet<HostId> {
        let away = |host: &HostId| {
            let place = self.alive(*host);
            let waited_for = Some(*host) != target && !self.topology.excluded.contains(host);
            waited_for && place.is_none_or(|p| !self.linked(p, at))
        };
        self.truth.keys().copied().filter(away).collect()
    }

    /// The node becomes a member, if everything it needs is there. Cassandra replaces without those that were away when
    /// it began, if every range had another source; one that goes while it streams is missed.
    fn finish(
        &mut self,
        at: usize,
        host: HostId,
        target: Option<HostId>,
        without: &BTreeSet<HostId>,
    ) -> Result<(), Refusal> {
        let raft = self.profile.is_raft();
        let away = self.away_from(at, target);
        let tolerant = self.profile == Profile::Cassandra5 && target.is_some();
        let missed = away.iter().any(|h| !(tolerant && without.contains(h)));
        if missed || (raft && !self.has_quorum(at)) {
            return Err(Refusal::StreamFailed);
        }
        let Some(place) = self.places.get(at) else {
            return Err(Refusal::StreamFailed);
        };
        let address = place.address;
        let Some(token) = place.disk.local.as_ref().and_then(|l| l.token) else {
            return Err(Refusal::StreamFailed);
        };
        if let Some(target) = target {
            self.truth.remove(&target);
            if target != host {
                self.topology.left.insert(target);
            }
        }
        self.truth.insert(
            host,
            Truth {
                address,
                token,
                place: at,
            },
        );
        self.topology.joining = None;
        // Somebody may have removed the node whose host id this one has taken over, while it streamed: its new life is a
        // member all the same, and starts again like any other.
        self.topology.left.remove(&host);
        self.stream(at, host);
        if let Some(local) = self.places.get_mut(at).and_then(|p| p.disk.local.as_mut()) {
            local.stage = Stage::Completed;
            local.asked = false;
        }
        if let Some(process) = self.process_mut(at) {
            process.mode = Mode::Normal;
            if let Some(target) = target.filter(|t| *t != host) {
                process.view.remove(&target);
            }
        }
        self.announce(at, host, target);
        Ok(())
    }

    /// A node is done only when the others have heard that it is.
    fn announce(&mut self, at: usize, host: HostId, target: Option<HostId>) {
        let own = self.process(at).and_then(|p| p.own()).cloned();
        let Some(mut own) = own else {
            return;
        };
        own.status = Status::Normal;
        own.heartbeat += 1;
        let reached: Vec<usize> = self
            .running()
            .into_iter()
            .filter(|p| *p != at && self.linked(*p, at))
            .collect();
        for other in reached {
            if let Some(process) = self.process_mut(other) {
                process.view.insert(host, own.clone());
                if let Some(target) = target.filter(|t| *t != host) {
                    process.view.remove(&target);
                }
            }
            // Who is a member is on the disks of a majority before anybody calls it one, and the others write down whom
            // they hear of while they hear it: one that ends in this moment knows it when it starts again.
            self.remember(other);
        }
        if let Some(mine) = self.process_mut(at).and_then(|p| p.view.get_mut(&host)) {
            *mine = own;
        }
    }

    /// Every row that this member is to keep, from whoever runs and has it.
    fn stream(&mut self, at: usize, host: HostId) {
        let sources: Vec<usize> = self
            .truth
            .keys()
            .filter(|h| **h != host)
            .filter_map(|h| self.alive(*h))
            .filter(|p| self.linked(*p, at))
            .collect();
        let rows = sources
            .iter()
            .filter_map(|p| self.places.get(*p))
            .flat_map(|p| p.disk.rows.clone());
        let wanted: Vec<u16> = rows.filter(|r| self.replicas(*r).contains(&host)).collect();
        if let Some(place) = self.places.get_mut(at) {
            place.disk.rows.extend(wanted);
        }
        self.hints.retain(|(h, _)| *h != host);
    }

    /// A member is told to leave; `false` if it does not.
    pub fn decommission(&mut self, at: usize, now: Time, stream: Duration) -> bool {
        let others_up = self.truth.keys().all(|h| self.alive(*h).is_some());
        let raft = self.profile.is_raft();
        if !others_up || (raft && !self.has_quorum(at)) {
            return false;
        }
        match self.process_mut(at) {
            Some(process) if process.mode == Mode::Normal => {
                process.mode = Mode::Leaving { until: now + stream };
                true
            }
            _ => false,
        }
    }

    fn leave(&mut self, at: usize, host: HostId, now: Time) {
        let rows: Vec<u16> = self
            .places
            .get(at)
            .map(|p| p.disk.rows.iter().copied().collect())
            .unwrap_or_default();
        self.truth.remove(&host);
        self.topology.left.insert(host);
        for row in rows {
            let keepers: Vec<usize> = self.replicas(row).iter().filter_map(|h| self.alive(*h)).collect();
            for place in keepers {
                if let Some(place) = self.places.get_mut(place) {
                    place.disk.rows.insert(row);
                }
            }
        }
        let raft = self.profile.is_raft();
        for other in self.running() {
            if let Some(known) = self.process_mut(other).and_then(|p| p.view.get_mut(&host)) {
                known.status = Status::Left;
                known.token = None;
                known.heard = now;
                known.heartbeat += 1;
            }
            if raft && let Some(process) = self.process_mut(other) {
                process.view.remove(&host);
            }
        }
        if let Some(place) = self.places.get_mut(at) {
            place.process = None;
            if let Some(local) = place.disk.local.as_mut() {
                local.left = true;
            }
        }
    }

    /// A human declares a dead member dead for good (`nodetool excludenode`, from 2026.1 on), by the word of the node in
    /// this place. It stays a member until it is replaced or removed; nobody waits for it any more.
    pub fn exclude_node(&mut self, at: usize, host: HostId) -> bool {
        let dead = self.truth.contains_key(&host) && self.alive(host).is_none();
        let may = self.profile == Profile::Raft2026 && dead && self.has_quorum(at);
        if may {
            self.topology.excluded.insert(host);
        }
        may
    }

    /// A human removes a dead member (`nodetool removenode`).
    pub fn remove_node(&mut self, host: HostId) -> bool {
        if self.alive(host).is_some() || !self.truth.contains_key(&host) {
            return false;
        }
        let others = self.truth.keys().filter(|h| **h != host);
        if others.clone().any(|h| self.alive(*h).is_none()) || others.count() == 0 {
            return false;
        }
        let all: Vec<u16> = self.places.iter().flat_map(|p| p.disk.rows.clone()).collect();
        self.truth.remove(&host);
        self.topology.left.insert(host);
        for row in all {
            let alive: Vec<usize> = self.replicas(row).iter().filter_map(|h| self.alive(*h)).collect();
            let somewhere = self.truth.keys().filter_map(|h| self.alive(*h)).any(|p| {
                let place = self.places.get(p);
                place.is_some_and(|p| p.disk.rows.contains(&row))
            });
            for place in alive.into_iter().filter(|_| somewhere) {
                if let Some(place) = self.places.get_mut(place) {
                    place.disk.rows.insert(row);
                }
            }
        }
        for place in self.running() {
            // Nobody forgets itself: one that is taking over this host id goes on, and the others hear of it again.
            if let Some(process) = self.process_mut(place).filter(|p| p.host != host) {
                process.view.remove(&host);
            }
        }
        true
    }
}
