//! The questions every decision asks.

use super::ids::TargetName;
use super::observed::{Look, Observed, Refusal, Stored};
use super::plan::{HibernatePlan, Target};
use super::point::Point;
use super::reason::Why;
use super::state::{Cycle, Progress, Stand};
use super::step::Decision;
use super::store::Store;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How often things are looked at while they go up or down.
pub(super) const LOOK: Duration = Duration::from_secs(10);
/// How often sleeping things are looked at.
pub(super) const DRIFT_LOOK: Duration = Duration::from_mins(1);

/// What a turn was given.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) plan: &'a HibernatePlan,
    pub(super) stored: &'a Stored,
    pub(super) seen: &'a Observed,
    pub(super) now: Time,
}

impl<'a> View<'a> {
    pub(super) fn store(&self) -> &'a Store {
        &self.stored.store
    }

    pub(super) fn suspended(&self) -> bool {
        self.seen.suspended(self.plan.suspend, self.now)
    }

    pub(super) fn look(&self, target: &TargetName) -> Option<&'a Result<Look, Refusal>> {
        self.seen.targets.get(target)
    }

    /// The time for people.
    pub(super) fn stamp(&self) -> String {
        crate::schedule::rfc3339(self.now)
    }

    /// Was this point never used? One that was written before there were cycles does not say: it was not if nothing
    /// that its target selects runs, and nobody can say that it was if that cannot be looked at. `None`: not looked at
    /// yet, or refused for now.
    pub(super) fn is_open(&self, point: &Point) -> Option<bool> {
        if !point.is_old() {
            return Some(point.is_open());
        }
        if !point.is_open() {
            return Some(false);
        }
        if self.is_stuck(point) {
            return Some(true);
        }
        let look = self.look(&point.target)?.as_ref().ok()?;
        let up = look
            .values()
            .any(|r| r.selected && r.power == super::observed::Power::Up);
        Some(!up)
    }

    /// Is it one that was written before there were cycles, and will nobody ever see what became of its resources? Such
    /// as one of an executor that there is not.
    pub(super) fn is_stuck(&self, point: &Point) -> bool {
        let refused = matches!(self.look(&point.target), Some(Err(refusal)) if refusal.is_permanent());
        refused && point.is_old() && point.is_open()
    }

    /// Nothing can be decided before this target was looked at. A look that was refused is said: somebody may have to
    /// do something about it.
    pub(super) fn wait_for_look(&self, target: TargetName) -> Decision {
        let refused = self.look(&target).and_then(|look| look.as_ref().err());
        let mut reasons = Vec::new();
        reasons.extend(refused.map(|refusal| Why::LookFailed {
            target: target.clone(),
            why: refusal.message.clone(),
        }));
        reasons.push(Why::WaitForLook { target });
        Decision {
            reasons,
            ..Decision::default()
        }
        .wake_at(self.now + LOOK)
    }
}

/// The plan was edited since this cycle began.
pub(super) fn edited(view: &View<'_>, cycle: &Cycle) -> Option<Why> {
    let plan = view.plan;
    let differs = plan.intent != cycle.intent && plan.intent_at(cycle.began) != cycle.intent;
    differs.then_some(Why::SpecDiffers { cycle: cycle.id })
}

/// The point of a target. One that was captured must be there, whole and readable.
pub(super) fn sound(store: &Store, target: &Target, captured: bool) -> Result<Point, Why> {
    let name = target.name.clone();
    match store.load(&target.executor, &name) {
        Err(error) => {
            let why = error.to_string();
            Err(Why::RestorePointCorrupt { target: name, why })
        }
        Ok(None) if captured => Err(Why::NoRestorePoint { target: name }),
        Ok(Some(point)) if captured && point.is_incomplete() => {
            Err(Why::RestorePointIncomplete { target: name })
        }
        Ok(Some(mut point)) => {
            // Of a write that was interrupted, or of another night: nothing of it was ever relied on.
            point.missing.clear();
            Ok(point)
        }
        Ok(None) => Ok(Point::empty(target.executor.clone(), name)),
    }
}

/// Targets that wait for a failed one that is not tried again, however far away, each with that one.
pub(super) fn blocked(cycle: &Cycle) -> BTreeMap<TargetName, TargetName> {
    let order = super::order::Order::for_operation(&cycle.intent, cycle.operation);
    let dead = |name: &TargetName| {
        let progress = cycle.targets.get(name);
        progress.is_some_and(|p| p.stand == Stand::Failed { retry_at: None })
    };
    let mut blocked: BTreeMap<TargetName, TargetName> = BTreeMap::new();
    loop {
        let next = order.listed().iter().find_map(|name| {
            let waits = cycle.targets.get(name).is_some_and(|p| p.stand == Stand::Pending);
            if !waits || blocked.contains_key(name) {
                return None;
            }
            let by = order
                .waits_for(name)
                .find_map(|w| if dead(w) { Some(w) } else { blocked.get(w) });
            by.map(|by| (name.clone(), by.clone()))
        });
        match next {
            Some((name, by)) => blocked.insert(name, by),
            None => return blocked,
        };
    }
}

/// What is not as it should be.
pub(super) fn failed(cycle: &Cycle) -> impl Iterator<Item = (&TargetName, &Progress)> {
    let all = cycle.targets.iter();
    all.filter(|(_, p)| matches!(p.stand, Stand::Failed { .. } | Stand::Lost))
}

pub(super) fn running(cycle: &Cycle) -> BTreeSet<TargetName> {
    let all = cycle.targets.iter();
    all.filter(|(_, p)| matches!(p.stand, Stand::Running { .. }))
        .map(|(name, _)| name.clone())
        .collect()
}
