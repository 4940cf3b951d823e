//! The restore points of a plan in their ConfigMaps, and the restore manager's operations on them.
//!
//! The first ConfigMap is `hibernator-restore-{plan}`. What does not fit goes into `hibernator-restore-{plan}.2` and so
//! on, under the same key. Nothing here writes: every operation gives the store as it should be, and
//! [`Store::changed_from`] the ConfigMaps that have to be written for it.

use super::ids::{CycleId, DOMAIN, ExecutorName, LegId, PlanName, TargetName, Version};
use super::point::{Part, Point, PointError, read, render};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How much of a ConfigMap is used. Kubernetes allows 1 MiB in all; names, annotations and flags need the rest.
pub const BUDGET: usize = 900 * 1024;
/// How many ConfigMaps a plan may have.
pub const MOST_SHARDS: u16 = 32;
/// The ConfigMap that people look at, and the one with the marks.
const FIRST: u16 = 1;
/// In which leg a ConfigMap was last written for a wake-up.
const WOKEN_IN: &str = "mainstay.dev/woken-in";
/// What an entry needs besides its id, twice, and its state.
const FLAGS: usize = 48;
/// What a document needs besides its entries.
const FRAME: usize = 512;

/// One ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its number, from 1.
    pub number: u16,
    /// The version that was read; `None`: it does not exist, and a write must create it.
    pub version: Option<Version>,
    /// Documents by key.
    pub data: BTreeMap<String, String>,
    /// Marks and what else is there.
    pub annotations: BTreeMap<String, String>,
}

impl Shard {
    fn new(number: u16) -> Self {
        Self {
            number,
            version: None,
            data: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
    }

    fn size(&self) -> usize {
        self.data.iter().map(|(k, v)| k.len() + v.len()).sum()
    }
}

/// All ConfigMaps of a plan.
///
/// Every document is read once, when it comes in: a turn asks for the same point many times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    plan: PlanName,
    budget: usize,
    shards: BTreeMap<u16, Shard>,
    read: BTreeMap<(ExecutorName, TargetName), Arc<Result<Point, PointError>>>,
}

impl Store {
    /// Of this plan; `shards` are the ConfigMaps that exist.
    pub fn new(plan: PlanName, shards: Vec<Shard>) -> Self {
        Self::with_budget(plan, shards, BUDGET)
    }

    /// The same with smaller ConfigMaps, for whoever wants to see points that are split.
    pub fn with_budget(plan: PlanName, shards: Vec<Shard>, budget: usize) -> Self {
        let mut store = Self {
            plan,
            budget,
            shards: shards.into_iter().map(|s| (s.number, s)).collect(),
            read: BTreeMap::new(),
        };
        store.reread();
        store
    }

    /// Reads every document again.
    fn reread(&mut self) {
        let keys = self.shards.values().flat_map(|s| s.data.keys());
        let targets: BTreeSet<_> = keys.filter_map(|key| Self::owner(key)).collect();
        self.read = targets
            .into_iter()
            .filter_map(|(executor, target)| {
                let read = self.read_point(&executor, &target).transpose()?;
                Some(((executor, target), Arc::new(read)))
            })
            .collect();
    }

    /// Reads the documents of one target again.
    fn reread_one(&mut self, executor: &ExecutorName, target: &TargetName) {
        let owner = (executor.clone(), target.clone());
        match self.read_point(executor, target).transpose() {
            Some(read) => self.read.insert(owner, Arc::new(read)),
            None => self.read.remove(&owner),
        };
    }

    /// Whose key it is; `None` if it is none of ours.
    fn owner(key: &str) -> Option<(ExecutorName, TargetName)> {
        let (executor, target) = key.strip_suffix(".json")?.split_once('_')?;
        Some((
            ExecutorName::parse(executor).ok()?,
            TargetName::parse(target).ok()?,
        ))
    }

    /// The name of a ConfigMap.
    pub fn name(plan: &PlanName, number: u16) -> String {
        if number == FIRST {
            format!("hibernator-restore-{plan}")
        } else {
            format!("hibernator-restore-{plan}.{number}")
        }
    }

    /// The key of a target.
    pub fn key(executor: &ExecutorName, target: &TargetName) -> String {
        format!("{executor}_{target}.json")
    }

    /// Every ConfigMap.
    pub fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.shards.values()
    }

    /// The targets that have a restore point. Keys that are none of ours are passed over.
    pub fn targets(&self) -> BTreeSet<(ExecutorName, TargetName)> {
        self.read.keys().cloned().collect()
    }

    /// `Exists`: is there a restore point of this target?
    pub fn exists(&self, target: &TargetName) -> bool {
        self.read.keys().any(|(_, t)| t == target)
    }

    /// `HasRestoreData`: is there any restore point?
    pub fn has_restore_data(&self) -> bool {
        !self.read.is_empty()
    }

    /// `Load`.
    pub fn load(&self, executor: &ExecutorName, target: &TargetName) -> Result<Option<Point>, PointError> {
        let found = self.read.get(&(executor.clone(), target.clone()));
        found.map(|read| Result::clone(read)).transpose()
    }

    fn read_point(&self, executor: &ExecutorName, target: &TargetName) -> Result<Option<Point>, PointError> {
        let key = Self::key(executor, target);
        let mut parts = Vec::new();
        for shard in self.shards.values() {
            if let Some(text) = shard.data.get(&key) {
                let part = read(text, executor, shard.number, self.is_marked(target))?;
                parts.push((shard.number, part));
            }
        }
        Ok(joined(Point::empty(executor.clone(), target.clone()), parts))
    }

    /// Every point that can be read.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        self.read
            .values()
            .filter_map(|read| read.as_ref().as_ref().ok().cloned())
    }

    /// The targets with a point that cannot be read.
    pub fn unreadable(&self) -> impl Iterator<Item = (ExecutorName, TargetName)> {
        let bad = self.read.iter().filter(|(_, read)| read.is_err());
        bad.map(|(owner, _)| owner.clone())
    }

    /// Every ConfigMap that a point says it is kept in, whether it is there or not.
    pub fn named(&self) -> BTreeSet<u16> {
        let targets = self.points();
        targets
            .flat_map(|p| {
                let present = p.entries.into_values().filter_map(|e| e.shard);
                present.chain(p.missing).collect::<Vec<_>>()
            })
            .collect()
    }

    /// The newest cycle that any point speaks of.
    pub fn newest_cycle(&self) -> CycleId {
        self.points().filter_map(|p| p.cycle).max().unwrap_or_default()
    }

    /// The store with this point in it. The error comes before anything is stopped.
    pub fn put(&self, mut point: Point) -> Result<Self, PointError> {
        let key = Self::key(&point.executor, &point.target);
        let mut next = self.clone();
        // ConfigMaps are written one after the other, the highest number first. A point that moved would be nowhere for a
        // moment, and whoever is interrupted then would take it for lost: so it stays wherever it is, nothing of it goes
        // below its first part, and the first part says which others there are.
        let holding = self.shards.values().filter(|s| s.data.contains_key(&key));
        let holding: BTreeSet<u16> = holding.map(|s| s.number).collect();
        for shard in next.shards.values_mut() {
            shard.data.remove(&key);
        }
        next.place(&mut point, holding.first().copied().unwrap_or(FIRST))?;
        let mut parts: BTreeSet<u16> = point.entries.values().filter_map(|e| e.shard).collect();
        parts.extend(holding);
        if parts.is_empty() {
            // Not where a part is missing: it would look as if the part were there.
            let empty = (FIRST..=MOST_SHARDS).find(|n| !point.missing.contains(n));
            parts.insert(empty.ok_or(PointError::TooLarge(MOST_SHARDS))?);
        }
        let named: BTreeSet<u16> = parts.union(&point.missing).copied().collect();
        for number in &parts {
            let text = render(&point, *number, &named)?;
            let shard = next.shards.entry(*number).or_insert_with(|| Shard::new(*number));
            shard.data.insert(key.clone(), text);
        }
        if point.is_open() {
            // A mark of an older cycle says nothing about this one.
            next.unmark(&point.target);
        }
        next.reread_one(&point.executor, &point.target);
        Ok(next)
    }

    /// Gives every entry that has none a ConfigMap with room, from the first that may hold it.
    fn place(&self, point: &mut Point, first: u16) -> Result<(), PointError> {
        let mut used: BTreeMap<u16, usize> = self.shards.values().map(|s| (s.number, s.size())).collect();
        let weigh = |id: &str, state: &serde_json::Value| 2 * id.len() + state.to_string().len() + FLAGS;
        for (id, entry) in &point.entries {
            if let Some(shard) = entry.shard {
                *used.entry(shard).or_default() += weigh(id.as_str(), &entry.state);
            }
        }
        for (id, entry) in point.entries.iter_mut().filter(|(_, e)| e.shard.is_none()) {
            let bytes = weigh(id.as_str(), &entry.state);
            if bytes + FRAME > self.budget {
                return Err(PointError::ResourceTooLarge {
                    resource: id.clone(),
                    bytes,
                    most: self.budget.saturating_sub(FRAME),
                });
            }
            let room = |n: &u16| used.get(n).copied().unwrap_or(0) + bytes + FRAME <= self.budget;
            // Nothing new goes where a part is missing: it would look as if the part were there.
            let number = (first..=MOST_SHARDS)
                .filter(|n| !point.missing.contains(n))
                .find(room)
                .ok_or(PointError::TooLarge(MOST_SHARDS))?;
            *used.entry(number).or_default() += bytes;
            entry.shard = Some(number);
        }
        Ok(())
    }

    fn is_marked(&self, target: &TargetName) -> bool {
        let first = self.shards.get(&FIRST);
        first.is_some_and(|s| s.annotations.get(&target.mark()).is_some_and(|v| v == "true"))
    }

    fn unmark(&mut self, target: &TargetName) {
        if let Some(first) = self.shards.get_mut(&FIRST) {
            first.annotations.remove(&target.mark());
        }
    }

    /// `MarkTargetRestored`.
    #[must_use]
    pub fn mark_target_restored(&self, target: &TargetName) -> Self {
        let mut next = self.clone();
        if next.is_marked(target) {
            return next;
        }
        let first = next.shards.entry(FIRST).or_insert_with(|| Shard::new(FIRST));
        first.annotations.insert(target.mark(), "true".to_owned());
        next.reread();
        next
    }

    /// `AllTargetsRestored`. Nobody is not everybody: an empty list, or no ConfigMap, is not restored.
    pub fn all_targets_restored<'a>(&self, targets: impl IntoIterator<Item = &'a TargetName>) -> bool {
        let mut targets = targets.into_iter().peekable();
        targets.peek().is_some() && targets.all(|t| self.is_marked(t))
    }

    /// Every ConfigMap that differs, or every one there is, says for which wake-up it was written. Whoever has read it
    /// before and still wants to save something in it loses the race: a write without a difference would not give it
    /// another version.
    #[must_use]
    pub fn woken_in(&self, leg: LegId, before: &Self, all: bool) -> Self {
        let mut next = self.clone();
        for (number, shard) in &mut next.shards {
            if all || before.shards.get(number) != Some(shard) {
                shard.annotations.insert(WOKEN_IN.to_owned(), leg.to_string());
            }
        }
        next
    }

    /// Is there any mark?
    pub fn is_locked(&self) -> bool {
        self.shards().any(|s| s.annotations.keys().any(|k| is_mark(k)))
    }

    /// `UnlockRestoreData`: the marks go, the data stays.
    #[must_use]
    pub fn unlock_restore_data(&self) -> Self {
        let mut next = self.clone();
        if !next.is_locked() {
            return next;
        }
        for shard in next.shards.values_mut() {
            shard.annotations.retain(|key, _| !is_mark(key));
        }
        next.reread();
        next
    }

    /// The ConfigMaps that differ, the one that people look at last.
    pub fn changed_from(&self, before: &Self) -> Vec<Shard> {
        let differs = |s: &&Shard| before.shards.get(&s.number) != Some(s);
        self.shards.values().rev().filter(differs).cloned().collect()
    }

    /// The store after this ConfigMap was written.
    #[must_use]
    pub fn after(&self, shard: &Shard) -> Self {
        let mut next = self.clone();
        next.shards.insert(shard.number, shard.clone());
        next.reread();
        next
    }
}

/// One point out of its parts; `None` if there are none. A part that an interrupted write left behind, or that somebody
/// put back, knows less than the newer ones. Which parts there should be is known by the first of them: it is written
/// last.
fn joined(mut point: Point, mut parts: Vec<(u16, Part)>) -> Option<Point> {
    let present: BTreeSet<u16> = parts.iter().map(|(number, _)| *number).collect();
    let newest = parts.iter().map(|(_, part)| part.cycle).max()?;
    let first = parts.iter().find(|(_, part)| part.cycle == newest);
    let expected = first.map(|(_, part)| part.parts.clone()).unwrap_or_default();
    parts.sort_by_key(|(number, part)| (Reverse((part.cycle, part.leg)), *number));
    let ages: BTreeMap<u16, _> = parts.iter().map(|(n, p)| (*n, (p.cycle, p.leg))).collect();
    for (index, (_, part)) in parts.into_iter().enumerate() {
        let Part {
            cycle,
            leg,
            captured_at,
            entries,
            parts: _,
        } = part;
        if index == 0 {
            (point.cycle, point.leg, point.captured_at) = (cycle, leg, captured_at);
        }
        if cycle == newest {
            // Of a write that was interrupted not everything is durable.
            point.leg = point.leg.min(leg);
        }
        for (id, entry) in entries {
            let Some(known) = point.entries.get(&id) else {
                point.entries.insert(id, entry);
                continue;
            };
            // Only a part that was put back by hand repeats what another has. Where neither is newer, what still has to
            // be brought back counts: started twice is better than never.
            let as_new = known.shard.and_then(|n| ages.get(&n)) == Some(&(cycle, leg));
            if as_new && known.consumed && !entry.consumed {
                point.entries.insert(id, entry);
            }
        }
    }
    point.missing = expected.difference(&present).copied().collect();
    Some(point)
}

fn is_mark(key: &str) -> bool {
    let restored = |rest: &str| rest.starts_with("/restored-");
    key == WOKEN_IN || key.strip_prefix(DOMAIN).is_some_and(restored)
}
