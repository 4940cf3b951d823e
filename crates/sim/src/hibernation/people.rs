//! What people and misfortune do.

use super::operator::Weather;
use super::points;
use super::spec::{self, MOST_TARGETS, SpecError};
use super::thing::Thing;
use super::world::{Object, World};
use crate::memgraph::simulate::Chance;
use mainstay_core::hibernation::HibernatePlan;
use mainstay_core::hibernation::ids::{PlanName, ResourceId};
use mainstay_core::hibernation::observed::{Severity, Skip, Wishes};
use mainstay_core::hibernation::plan::TargetOverride;
use mainstay_core::schedule::{Cover, Exception, Kind, Override, Span, rfc3339};
use serde_json::json;
use std::time::Duration;

/// Something happens; its description.
pub(super) fn happen(
    world: &mut World,
    weather: &mut Weather,
    chance: &mut Chance,
) -> Result<String, SpecError> {
    match chance.below(22) {
        0..=3 => Ok(by_hand(world, chance)),
        4 => Ok(exist(world, chance)),
        5 | 6 => Ok(suspend(world, chance)),
        7 => edit(world, chance),
        8 => Ok(delete(world)),
        9 => Ok(awake_for(world, chance)),
        10 => Ok(retry(world, chance)),
        11..=13 => Ok(points::spoil_or_repair(world, chance)),
        14 | 15 => Ok(break_executor(world, weather, chance)),
        16 => Ok(points::give_up(world, chance)),
        17 => Ok(claim(world, chance)),
        18 => except(world, chance),
        _ => Ok(storm(weather, chance)),
    }
}

/// Somebody starts, stops or resizes something.
fn by_hand(world: &mut World, chance: &mut Chance) -> String {
    let open = world.open();
    let now = world.now;
    let replicas = if chance.one_in(4) { 0 } else { 1 + chance.below(9) };
    let Some((id, thing)) = any(world, chance) else {
        return String::new();
    };
    thing.wanted(
        replicas,
        open.contains(&id),
        now + Duration::from_secs(chance.below(60)),
    );
    format!("somebody sets {id} to {replicas}")
}

fn any<'a>(world: &'a mut World, chance: &mut Chance) -> Option<(ResourceId, &'a mut Thing)> {
    let existing: Vec<ResourceId> = world
        .things
        .iter()
        .filter(|(_, t)| t.exists)
        .map(|(id, _)| id.clone())
        .collect();
    let index = usize::try_from(chance.below(existing.len() as u64)).unwrap_or(0);
    let id = existing.get(index)?.clone();
    world.things.get_mut(&id).map(|t| (id, t))
}

/// Something is deleted, made, or loses the label by which it is selected.
fn exist(world: &mut World, chance: &mut Chance) -> String {
    let open = world.open();
    match chance.below(3) {
        0 => {
            let Some((id, thing)) = any(world, chance) else {
                return String::new();
            };
            thing.exists = false;
            thing.slept = false;
            thing.version += 1;
            format!("somebody deletes {id}")
        }
        1 => {
            let Some((id, thing)) = any(world, chance) else {
                return String::new();
            };
            thing.selected = !thing.selected;
            thing.version += 1;
            format!("the label of {id} comes or goes")
        }
        _ => {
            let replicas = chance.below(5);
            let Some((id, thing)) = world.things.iter_mut().find(|(_, t)| !t.exists) else {
                return String::new();
            };
            thing.exists = true;
            thing.set(replicas, world.now);
            // Its restore point, if it has one, is still the contract.
            if open.contains(id) {
                thing.truth.insert(replicas);
            } else {
                thing.truth = [replicas].into();
            }
            format!("somebody makes {id} again with {replicas}")
        }
    }
}

fn change(world: &mut World, what: impl FnOnce(&mut Object)) {
    if let Some(object) = &mut world.object {
        what(object);
        object.version += 1;
    }
}

fn suspend(world: &mut World, chance: &mut Chance) -> String {
    let until = world.now + Duration::from_mins(chance.between(10..900));
    let now = world.now;
    let how = chance.below(3);
    change(world, |o| match how {
        0 => o.wishes.suspend_until = Some(until),
        1 => o.plan.suspend = !o.plan.suspend,
        _ => o.wishes.suspend = !o.wishes.suspend,
    });
    format!(
        "somebody suspends or resumes ({how}, until {} min)",
        until.since(now).as_secs() / 60
    )
}

/// Somebody edits targets, strategy and behaviour.
fn edit(world: &mut World, chance: &mut Chance) -> Result<String, SpecError> {
    let intent = spec::intent(chance)?;
    let names: Vec<_> = intent.targets.iter().map(|t| t.name.to_string()).collect();
    change(world, |o| o.plan.intent = intent);
    Ok(format!("somebody edits the plan: {}", names.join(" ")))
}

fn delete(world: &mut World) -> String {
    let gone = world.object.as_ref().is_some_and(|o| !o.finalizer);
    if gone {
        world.object = None;
        points::repair_all(world);
    }
    change(world, |o| o.deleting = true);
    "somebody deletes the plan".to_owned()
}

/// The plan is applied again.
pub(super) fn create(world: &mut World, plan: HibernatePlan) {
    world.counter += 1_000_000;
    world.object = Some(Object {
        plan,
        version: world.counter,
        state: None,
        finalizer: false,
        deleting: false,
        suspended_at_phase: None,
        wishes: Wishes::default(),
    });
}

fn awake_for(world: &mut World, chance: &mut Chance) -> String {
    let (now, hours) = (world.now, chance.between(1..6));
    let wish = if chance.one_in(2) {
        Override::awake_for(now, Duration::from_hours(hours), "a demo").ok()
    } else {
        Override::asleep_until(now, now + Duration::from_hours(hours), "a short day").ok()
    };
    change(world, |o| {
        o.plan.schedule = o.plan.schedule.clone().with_override(wish.clone());
    });
    let asleep = wish.is_some_and(|w| w.is_asleep());
    format!(
        "somebody wants it {} for {hours} h",
        if asleep { "asleep" } else { "awake" }
    )
}

/// A label that protects something, or another plan that claims it, comes or goes.
fn claim(world: &mut World, chance: &mut Chance) -> String {
    let other = PlanName::parse("other").ok().map(Skip::ClaimedBy);
    let skip = match chance.below(4) {
        0 => Some(Skip::Protected),
        1 => other,
        _ => None,
    };
    let Some((id, thing)) = any(world, chance) else {
        return String::new();
    };
    thing.skip = skip;
    thing.version += 1;
    let told = thing
        .skip
        .as_ref()
        .map_or_else(|| "free".to_owned(), ToString::to_string);
    format!("{id}: {told}")
}

/// An exception comes: it changes the schedule, or what a cycle is about.
fn except(world: &mut World, chance: &mut Chance) -> Result<String, SpecError> {
    let from = world.now + Duration::from_mins(chance.below(600));
    let valid = Span {
        from,
        to: from + Duration::from_mins(chance.between(30..900)),
    };
    let target = spec::target_name(chance.below(MOST_TARGETS))?;
    let lead = Duration::from_mins(chance.below(90));
    let kind = match chance.below(4) {
        0 => Some(Kind::Extend),
        1 => Some(Kind::Suspend { lead }),
        _ => None,
    };
    let hours = format!("{} to {}", rfc3339(valid.from), rfc3339(valid.to));
    let Some(kind) = kind else {
        let disabled = chance.one_in(2);
        change(world, |o| {
            // They are not many at a time.
            o.plan.overrides.retain(|o| o.valid.to > from);
            o.plan.overrides.push(TargetOverride {
                exception: "x".to_owned(),
                valid,
                disabled: disabled.then(|| target.clone()).into_iter().collect(),
                parameters: [(target.clone(), json!("other"))].into(),
            });
        });
        return Ok(format!("an exception changes {target}, {hours}"));
    };
    let told = format!("an exception, {hours}: {kind:?}");
    let exception = Exception::new("x", valid, kind, Cover::Throughout)?;
    change(world, |o| {
        let mut all = o.plan.schedule.exceptions().to_vec();
        all.retain(|e| e.valid().to > from);
        all.push(exception);
        o.plan.schedule = o.plan.schedule.clone().with_exceptions(all);
    });
    Ok(told)
}

fn retry(world: &mut World, chance: &mut Chance) -> String {
    let token = chance.below(1 << 40).to_string();
    change(world, |o| o.wishes.retry = Some(token));
    "somebody asks for a retry".to_owned()
}

fn break_executor(world: &World, weather: &mut Weather, chance: &mut Chance) -> String {
    let target = chance.below(MOST_TARGETS);
    let minutes = chance.between(5..900);
    let severity = if chance.one_in(2) {
        Severity::Permanent
    } else {
        Severity::Transient
    };
    let until = world.now + Duration::from_mins(minutes);
    weather.broken.insert(target, (until, severity));
    format!("the executor of t{target} is broken for {minutes} min ({severity:?})")
}

fn storm(weather: &mut Weather, chance: &mut Chance) -> String {
    let rates = [0, 0, 3, 10, 40];
    let rate = |chance: &mut Chance| rates.get(usize::from(chance.pick(5))).copied().unwrap_or(0);
    weather.refuses = rate(chance);
    weather.loses = rate(chance);
    weather.kills = rate(chance);
    weather.slow = [1, 60, 600, 5000]
        .get(usize::from(chance.pick(4)))
        .copied()
        .unwrap_or(1);
    format!(
        "weather: 1 in {} refused, 1 in {} lost, 1 in {} kills, {} s to settle",
        weather.refuses, weather.loses, weather.kills, weather.slow
    )
}
