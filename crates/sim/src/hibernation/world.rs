//! Everything outside of the operator: the plan's object, its ConfigMaps, and the resources.

use super::points::{self, Spoilt};
use super::thing::Thing;
use mainstay_core::hibernation::HibernatePlan;
use mainstay_core::hibernation::ids::{CycleId, LegId, ResourceId, TargetName, Version};
use mainstay_core::hibernation::observed::{Look, Refusal, Severity, Stored, Wishes};
use mainstay_core::hibernation::state::{Phase, State};
use mainstay_core::hibernation::step::{Aim, Step};
use mainstay_core::hibernation::store::{Shard, Store};
use mainstay_core::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The object of the plan.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) plan: HibernatePlan,
    pub(super) version: u64,
    pub(super) state: Option<State>,
    pub(super) finalizer: bool,
    pub(super) deleting: bool,
    pub(super) suspended_at_phase: Option<String>,
    pub(super) wishes: Wishes,
}

/// What is there.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) now: Time,
    pub(super) object: Option<Object>,
    pub(super) shards: BTreeMap<u16, Shard>,
    pub(super) things: BTreeMap<ResourceId, Thing>,
    /// Versions of ConfigMaps and of plans made anew are never used twice.
    pub(super) counter: u64,
    pub(super) violation: Option<String>,
    /// How often what happened.
    pub(super) cycles: u64,
    /// How much a ConfigMap holds.
    pub(super) budget: usize,
    /// What people did to restore points, and may take back.
    pub(super) spoilt: Vec<Spoilt>,
    /// Somebody deleted a ConfigMap. A creation that is still on its way would bring an older one back: requests to
    /// Kubernetes end after a minute, and here they may take hours.
    pub(super) maps_were_deleted: bool,
}

/// A write or call that did nothing.
pub(super) fn refused(message: &str, severity: Severity) -> Refusal {
    Refusal {
        message: message.to_owned(),
        severity,
    }
}

fn leg_of(aim: &Aim) -> LegId {
    LegId {
        cycle: aim.cycle,
        leg: aim.leg,
    }
}

impl World {
    /// Things of which a restore point says, or may say, what they should be: what people do to them may not last.
    pub(super) fn open(&self) -> BTreeSet<ResourceId> {
        let state = self.object.as_ref().and_then(|o| o.state.as_ref());
        // Those that a plan that is gone left asleep are left to its points.
        if state.is_some_and(|s| s.open.is_some()) || self.things.values().any(|t| t.slept) {
            return self.things.keys().cloned().collect();
        }
        self.recorded()
    }

    /// Things with an entry that was not used, or that cannot be read.
    fn recorded(&self) -> BTreeSet<ResourceId> {
        let Some(store) = self.store() else {
            return BTreeSet::new();
        };
        let mut recorded: BTreeSet<ResourceId> = BTreeSet::new();
        for point in store.points() {
            let left = point.entries.into_iter().filter(|(_, e)| !e.consumed);
            recorded.extend(left.map(|(id, _)| id));
        }
        let unreadable: BTreeSet<TargetName> = store.unreadable().map(|(_, target)| target).collect();
        let things = self.things.iter();
        things
            .filter(|(id, t)| recorded.contains(*id) || unreadable.contains(&t.target))
            .map(|(id, _)| id.clone())
            .collect()
    }

    pub(super) fn stored(&self, object: &Object) -> Stored {
        let shards = self.shards.values().cloned().collect();
        Stored {
            state: object.state.clone(),
            store: Store::with_budget(object.plan.name.clone(), shards, self.budget),
        }
    }

    /// What an executor sees of a target: what its selector finds, and what its point names.
    pub(super) fn look(&self, target: &TargetName, recorded: &BTreeSet<ResourceId>) -> Look {
        let mine = self
            .things
            .iter()
            .filter(|(id, t)| t.target == *target && (t.exists || recorded.contains(*id)));
        mine.map(|(id, t)| (id.clone(), t.seen(self.now))).collect()
    }

    /// Carries out one step, as its server would. `version` is the version of the plan that the turn knows.
    pub(super) fn apply(&mut self, step: &Step, version: u64, settles: Time) -> Result<(), Refusal> {
        let conflict = || refused("the object has been modified", Severity::Transient);
        match step {
            Step::WriteShard { shard, purpose: _ } => self.write_shard(shard),
            Step::Stop(aim) => self.stop(aim, settles),
            Step::Start { aim, state } => {
                let replicas = state.get("replicas").and_then(serde_json::Value::as_u64);
                self.start(aim, replicas.unwrap_or(0), settles)
            }
            Step::AddFinalizer | Step::RemoveFinalizer | Step::WriteState(_) | Step::SetSuspendedAt(_) => {
                let object = self
                    .object
                    .as_mut()
                    .filter(|o| o.version == version)
                    .ok_or_else(conflict)?;
                object.version += 1;
                match step {
                    Step::AddFinalizer => object.finalizer = true,
                    Step::RemoveFinalizer => self.removed(),
                    Step::WriteState(state) => {
                        let before = object.state.replace((**state).clone());
                        self.state_written(before.as_ref(), state);
                    }
                    Step::SetSuspendedAt(phase) => object.suspended_at_phase = phase.map(|p| p.to_string()),
                    Step::WriteShard { .. } | Step::Stop(_) | Step::Start { .. } => {}
                }
                Ok(())
            }
        }
    }

    fn write_shard(&mut self, shard: &Shard) -> Result<(), Refusal> {
        let found = self.shards.get(&shard.number).and_then(|s| s.version.clone());
        if found != shard.version {
            return Err(refused("the ConfigMap has been modified", Severity::Transient));
        }
        self.put_shard(shard.clone());
        Ok(())
    }

    pub(super) fn put_shard(&mut self, mut shard: Shard) {
        self.counter += 1;
        shard.version = Some(Version(self.counter.to_string()));
        self.shards.insert(shard.number, shard);
    }

    fn stop(&mut self, aim: &Aim, settles: Time) -> Result<(), Refusal> {
        let thing = self.aimed(aim)?;
        if thing.replicas > 0 {
            let leg = leg_of(aim);
            let overtaken = thing.is_overtaken(leg);
            thing.stopped(leg, settles);
            if overtaken {
                // It was left to whatever was on its way.
                thing.slept = false;
                thing.truth.insert(0);
            }
        }
        Ok(())
    }

    fn start(&mut self, aim: &Aim, replicas: u64, settles: Time) -> Result<(), Refusal> {
        let thing = self.aimed(aim)?;
        thing.slept = false;
        thing.set(replicas, settles);
        if thing.is_overtaken(leg_of(aim)) {
            thing.truth.insert(replicas);
        }
        Ok(())
    }

    fn aimed(&mut self, aim: &Aim) -> Result<&mut Thing, Refusal> {
        let thing = self.things.get_mut(&aim.resource).filter(|t| t.exists);
        let thing = thing.ok_or_else(|| refused("not found", Severity::Transient))?;
        if aim.version.as_ref().is_some_and(|v| *v != thing.version()) {
            return Err(refused("it has changed", Severity::Changed));
        }
        Ok(thing)
    }

    fn state_written(&mut self, before: Option<&State>, next: &State) {
        points::now_missed(self);
        let was: Option<CycleId> = before.and_then(|s| s.open.as_ref()).map(|c| c.id);
        if was.is_some() && next.open.is_none() {
            self.cycles += 1;
            if next.phase == Phase::Active {
                self.closed();
            }
        }
    }

    /// A cycle is closed: everything must be as people wanted it.
    fn closed(&mut self) {
        let mut wrong = None;
        for (id, thing) in self.things.iter_mut().filter(|(_, t)| t.exists) {
            if !thing.truth.contains(&thing.replicas) || (thing.slept && !thing.truth.contains(&0)) {
                wrong = Some(format!(
                    "closed, and {id} has {} replicas instead of {:?}",
                    thing.replicas, thing.truth
                ));
            }
            thing.slept = false;
            thing.given_up = None;
            thing.truth = [thing.replicas].into();
        }
        if let Some(wrong) = wrong {
            self.violate(wrong);
        }
    }

    fn removed(&mut self) {
        let Some(object) = self.object.take() else { return };
        // Now only the points know: whoever lost them puts them back, or nobody can say what should be.
        points::repair_all(self);
        let abandoned = object.plan.deletion == mainstay_core::hibernation::plan::Deletion::Abandon;
        let asleep = self
            .things
            .iter()
            .find(|(_, t)| t.exists && t.slept && !t.truth.contains(&0));
        if let (false, Some((id, _))) = (abandoned, asleep) {
            let wrong = format!("the plan is gone and {id} sleeps");
            self.violate(wrong);
        }
    }

    pub(super) fn violate(&mut self, wrong: String) {
        self.violation.get_or_insert(wrong);
    }
}
