//! What people do to restore points: spoil them, lose them, put them back, and give them up.

use super::thing::Thing;
use super::world::World;
use crate::memgraph::simulate::Chance;
use mainstay_core::hibernation::ids::{ExecutorName, LegId, TargetName};
use mainstay_core::hibernation::plan::Target;
use mainstay_core::hibernation::store::{Shard, Store};
use std::collections::BTreeMap;

/// A document that is not as it was written, to be repaired.
#[derive(Clone, Debug)]
pub(super) struct Spoilt {
    shard: u16,
    key: String,
    was: String,
    /// What is there instead; `None`: nothing.
    found: Option<String>,
    /// The plan misses it. Nobody puts back what nobody misses.
    missed: bool,
}

/// Somebody edits or deletes restore data, or repairs it.
pub(super) fn spoil_or_repair(world: &mut World, chance: &mut Chance) -> String {
    if !world.spoilt.is_empty() && chance.one_in(2) {
        let index = usize::from(chance.pick(u8::try_from(world.spoilt.len()).unwrap_or(1)));
        return repair_newest(world, index.min(world.spoilt.len() - 1));
    }
    // A plan that remembers nothing has only its points: whoever deletes them then has no plan and no points.
    let remembers = world.object.as_ref().is_some_and(|o| o.state.is_some());
    match chance.below(4) {
        0 if remembers => lose_map(world, chance),
        1 | 2 if remembers => lose_key(world, chance),
        _ => edit(world, chance),
    }
}

/// Everything is repaired that still has to be.
pub(super) fn repair_all(world: &mut World) {
    // The newest first, see below.
    for one in std::mem::take(&mut world.spoilt).into_iter().rev() {
        repair(world, one);
    }
}

/// The plan says now that it relies on some of what was lost: it was on its way to say so.
pub(super) fn now_missed(world: &mut World) {
    let mut spoilt = std::mem::take(&mut world.spoilt);
    for one in &mut spoilt {
        one.missed |= would_be_missed(world, &one.key);
    }
    world.spoilt = spoilt;
}

/// Of several that were lost under one key, in one ConfigMap after the other, people put the newest back: an older one
/// would be another night's.
fn repair_newest(world: &mut World, index: usize) -> String {
    let Some(key) = world.spoilt.get(index).map(|s| s.key.clone()) else {
        return String::new();
    };
    let newest = world.spoilt.iter().rposition(|s| s.key == key);
    let one = world.spoilt.remove(newest.unwrap_or(index));
    if one.found.is_none() && !one.missed {
        world.spoilt.push(one);
        return format!("nobody misses {key}");
    }
    repair(world, one)
}

fn repair(world: &mut World, one: Spoilt) -> String {
    let Spoilt {
        shard,
        key,
        was,
        found,
        missed,
    } = one;
    let there = world.shards.get(&shard);
    let untouched = there.and_then(|s| s.data.get(&key)) == found.as_ref();
    // Who puts a part back first looks whether it is still missed.
    if !untouched || (found.is_none() && !(missed && is_missed(world, shard, &key))) {
        return format!("{key} needs no repair any more");
    }
    let mut map = there.cloned().unwrap_or_else(|| Shard {
        number: shard,
        version: None,
        data: BTreeMap::new(),
        annotations: BTreeMap::new(),
    });
    map.data.insert(key.clone(), was);
    world.put_shard(map);
    format!("{key} is repaired")
}

fn owner(key: &str) -> Option<(ExecutorName, TargetName)> {
    let (executor, target) = key.strip_suffix(".json")?.split_once('_')?;
    Some((
        ExecutorName::parse(executor).ok()?,
        TargetName::parse(target).ok()?,
    ))
}

fn is_missed(world: &World, shard: u16, key: &str) -> bool {
    let (Some((executor, target)), Some(store)) = (owner(key), world.store()) else {
        return true;
    };
    match store.load(&executor, &target) {
        Ok(Some(point)) => point.missing.contains(&shard),
        Ok(None) | Err(_) => true,
    }
}

fn any_key(world: &World, chance: &mut Chance) -> Option<(u16, String, String)> {
    let all: Vec<_> = world
        .shards
        .values()
        .flat_map(|s| s.data.iter().map(|(k, v)| (s.number, k.clone(), v.clone())))
        .collect();
    let index = usize::try_from(chance.below(all.len() as u64)).unwrap_or(0);
    all.get(index).cloned()
}

fn edit(world: &mut World, chance: &mut Chance) -> String {
    let Some((number, key, was)) = any_key(world, chance) else {
        return String::new();
    };
    let broken = if chance.one_in(2) && was.contains("true") {
        was.replace("true", "false") + " "
    } else {
        "{".to_owned()
    };
    replace(world, number, key, was, Some(broken))
}

fn lose_key(world: &mut World, chance: &mut Chance) -> String {
    match any_key(world, chance) {
        Some((number, key, was)) if would_be_missed(world, &key) => replace(world, number, key, was, None),
        Some(_) | None => String::new(),
    }
}

/// Only what the plan remembers can be missed. A point that was just written, before the plan says so, is nothing yet:
/// nothing of it was stopped. Whoever takes it away and puts it back much later brings an old night back.
fn would_be_missed(world: &World, key: &str) -> bool {
    let (Some((executor, target)), Some(store)) = (owner(key), world.store()) else {
        return false;
    };
    let used = store
        .load(&executor, &target)
        .is_ok_and(|p| p.is_some_and(|p| !p.is_open()));
    let state = world.object.as_ref().and_then(|o| o.state.as_ref());
    let open = state.and_then(|s| s.open.as_ref());
    let captured = open.is_some_and(|cycle| {
        let meant = cycle
            .intent
            .target(&target)
            .is_some_and(|t| t.executor == executor);
        meant && cycle.targets.get(&target).is_some_and(|p| p.captured)
    });
    used || captured
}

fn replace(world: &mut World, number: u16, key: String, was: String, found: Option<String>) -> String {
    let Some(mut shard) = world.shards.get(&number).cloned() else {
        return String::new();
    };
    let missed = would_be_missed(world, &key);
    let told = if let Some(text) = &found {
        shard.data.insert(key.clone(), text.clone());
        format!("somebody spoils {key} in {number}")
    } else {
        shard.data.remove(&key);
        format!("somebody deletes {key} in {number}")
    };
    world.put_shard(shard);
    // Spoilt twice, it is the first text that is good.
    let mut known = world.spoilt.iter_mut();
    let before = known.find(|s| s.shard == number && s.key == key);
    if let Some(before) = before.filter(|s| s.found.as_ref() == Some(&was)) {
        before.found = found;
        before.missed |= missed;
        return told;
    }
    world.spoilt.retain(|s| s.shard != number || s.key != key);
    world.spoilt.push(Spoilt {
        shard: number,
        key,
        was,
        found,
        missed,
    });
    told
}

/// Somebody deletes a whole ConfigMap.
fn lose_map(world: &mut World, chance: &mut Chance) -> String {
    let numbers: Vec<u16> = world.shards.keys().copied().collect();
    let index = usize::try_from(chance.below(numbers.len() as u64)).unwrap_or(0);
    let Some(number) = numbers.get(index).copied() else {
        return String::new();
    };
    let keys: Vec<_> = world
        .shards
        .get(&number)
        .into_iter()
        .flat_map(|s| s.data.clone())
        .collect();
    for (key, was) in keys {
        replace(world, number, key, was, None);
    }
    world.shards.remove(&number);
    world.maps_were_deleted = true;
    format!("somebody deletes ConfigMap {number}")
}

/// Somebody gives up the restore point of a target, in the leg that is open.
pub(super) fn give_up(world: &mut World, chance: &mut Chance) -> String {
    let state = world.object.as_ref().and_then(|o| o.state.as_ref());
    let Some(cycle) = state.and_then(|s| s.open.as_ref()) else {
        return String::new();
    };
    let leg = cycle.leg_id();
    let names: Vec<TargetName> = cycle.targets.keys().cloned().collect();
    let index = usize::try_from(chance.below(names.len() as u64)).unwrap_or(0);
    let Some(name) = names.get(index).cloned() else {
        return String::new();
    };
    if let Some(object) = &mut world.object {
        object.wishes.discard.insert(name.clone(), leg);
        object.version += 1;
    }
    for thing in world.things.values_mut().filter(|t| t.target == name) {
        given_up(thing, leg);
    }
    format!("somebody gives up {name} in {leg}")
}

/// People give up what nobody can repair: a part that a plan which is gone never came to write is nobody's to put back.
pub(super) fn give_up_the_rest(world: &mut World) {
    let (Some(store), Some(object)) = (world.store(), &mut world.object) else {
        return;
    };
    let Some(cycle) = object.state.as_ref().and_then(|s| s.open.as_ref()) else {
        return;
    };
    let leg = cycle.leg_id();
    let cut = |t: &&Target| {
        let captured = cycle.targets.get(&t.name).is_some_and(|p| p.captured);
        let point = store.load(&t.executor, &t.name);
        captured && point.is_ok_and(|p| p.is_some_and(|p| p.is_incomplete()))
    };
    let names: Vec<TargetName> = cycle
        .intent
        .targets
        .iter()
        .filter(cut)
        .map(|t| t.name.clone())
        .collect();
    for name in names {
        if object.wishes.discard.insert(name.clone(), leg) == Some(leg) {
            continue;
        }
        object.version += 1;
        for thing in world.things.values_mut().filter(|t| t.target == name) {
            given_up(thing, leg);
        }
    }
}

/// It stays as it is, or is woken by a call that is already on its way.
fn given_up(thing: &mut Thing, leg: LegId) {
    thing.truth.extend([0, thing.replicas]);
    (thing.given_up, thing.ever_given_up) = (Some(leg), Some(leg));
    // Nobody owes it a wake-up any more.
    thing.slept = false;
}

impl World {
    /// The restore points as they are.
    pub(super) fn store(&self) -> Option<Store> {
        let name = mainstay_core::hibernation::ids::PlanName::parse(super::spec::PLAN).ok()?;
        let shards = self.shards.values().cloned().collect();
        Some(Store::with_budget(name, shards, self.budget))
    }
}
