//! What sleeps is looked at: what is wrong with it is said as long as it is, and what runs nevertheless is reported or
//! stopped again. Also while another target has failed or is still on its way down: a night in which one thing could not
//! be stopped must not be blind for all that could.

use super::discard;
use super::falling_asleep::captures;
use super::ids::{ResourceId, TargetName};
use super::observed::{Call, Look, Power, Severity};
use super::plan::{Drift, Target};
use super::point::{Point, PointError};
use super::reason::Why;
use super::several::Several;
use super::state::{Cycle, Stand};
use super::step::{Aim, Step};
use super::store::Store;
use super::view::{View, sound};
use std::collections::BTreeMap;

/// So often is something stopped again in one night; then somebody else wants it to run, and a fight helps nobody.
const PATIENCE: u8 = 3;

/// A turn that looks at what sleeps, while it is put together.
pub(super) struct Watch<'w, 'a> {
    pub(super) view: View<'a>,
    pub(super) cycle: &'w mut Cycle,
    pub(super) store: &'w mut Store,
    pub(super) reasons: &'w mut Vec<Why>,
    /// What is stopped again.
    pub(super) stops: &'w mut Vec<Step>,
}

impl Watch<'_, '_> {
    fn say(&mut self, why: Why) {
        if !self.reasons.contains(&why) {
            self.reasons.push(why);
        }
    }

    /// Nothing is wrong with what a human gave up.
    pub(super) fn over(&mut self, target: &TargetName) {
        if let Some(progress) = self.cycle.targets.get_mut(target) {
            progress.stand = Stand::Done;
            progress.message = None;
        }
    }

    /// The point of a target; what is wrong with it is said.
    pub(super) fn point(&mut self, target: &Target) -> Option<Point> {
        let captured = self.cycle.targets.get(&target.name)?.captured;
        match sound(self.store, target, captured) {
            Ok(point) => Some(point),
            // Nothing may be captured in the place of what was lost: it would look like the point itself.
            Err(lost) => {
                self.say(lost);
                None
            }
        }
    }

    /// Whatever is wrong with a target is said as long as it is: nobody looks at a plan at the moment it falls asleep.
    pub(super) fn asleep(&mut self, target: &Target) {
        let name = target.name.clone();
        let Some(progress) = self.cycle.targets.get(&name).cloned() else {
            return;
        };
        if discard::is_given_up(&self.view, self.cycle, &name) {
            // Also if whoever gave it up died before the plan could say so.
            self.over(&name);
            return self.say(Why::LeftAsItIs { target: name });
        }
        let Some(point) = self.point(target) else { return };
        if let (Stand::Failed { .. } | Stand::Lost, Some(why)) = (progress.stand, progress.message) {
            let target = name.clone();
            self.say(Why::Failed { target, why });
        }
        match self.view.look(&name) {
            None => {}
            Some(Err(refusal)) => {
                let why = refusal.message.clone();
                let stuck = self.view.is_stuck(&point);
                self.say(if stuck {
                    Why::RestorePointOld { target: name, why }
                } else {
                    Why::LookFailed { target: name, why }
                });
            }
            Some(Ok(look)) => self.drift(target, &point, look),
        }
    }

    fn drift(&mut self, target: &Target, point: &Point, look: &Look) {
        let up = running(point, look);
        let (name, count) = (target.name.clone(), up.len());
        if up.is_empty() {
            return;
        }
        if target.drift != Drift::Enforce {
            return self.say(Why::Drifted { target: name, count });
        }
        // Whoever was not stopped was not started by anybody either.
        let refused = self.refused(target, &up);
        let enforced = self.cycle.targets.get(&name).map_or(0, |p| p.enforced);
        if enforced >= PATIENCE && !refused {
            return self.say(Why::Contended { target: name });
        }
        if let Err(error) = self.keep(target, point, look) {
            let (target, why) = (name, error.to_string());
            return self.say(Why::PointTooLarge { target, why });
        }
        let leg = self.cycle.leg;
        if let Some(progress) = self.cycle.targets.get_mut(&name) {
            progress.enforced = if refused { enforced } else { enforced + 1 };
            (progress.captured, progress.captured_in) = (true, Some(leg));
        }
        for id in &up {
            let aim = Aim::at(self.cycle, target, id, Some(look));
            self.stops.push(Step::Stop(aim));
        }
        self.say(Why::Enforced { target: name, count });
    }

    /// Were the stops of all of them refused a moment ago? Says why.
    fn refused(&mut self, target: &Target, up: &[ResourceId]) -> bool {
        let seen = self.view.seen;
        let mut refused = 0;
        let mut said: BTreeMap<&String, Vec<ResourceId>> = BTreeMap::new();
        for id in up {
            let answer = seen.answer(self.cycle, &target.name, id, Call::Stop);
            let Some(Err(refusal)) = answer.map(|a| &a.outcome) else {
                continue;
            };
            refused += 1;
            if refusal.severity != Severity::Changed {
                said.entry(&refusal.message).or_default().push(id.clone());
            }
        }
        for (why, ids) in said {
            self.say(Why::CallFailed {
                target: target.name.clone(),
                resources: Several::new(ids),
                why: why.clone(),
            });
        }
        refused == up.len()
    }

    /// Everything that is stopped again is recorded: what already is stays as it is.
    fn keep(&mut self, target: &Target, point: &Point, look: &Look) -> Result<(), PointError> {
        let mut seen = captures(look);
        seen.retain(|_, capture| capture.live);
        let stamp = self.view.stamp();
        let (next, tally) = point.save_or_preserve(self.cycle.id, self.cycle.leg, &stamp, &seen);
        let store = self.store.put(next)?;
        if store == *self.store {
            return Ok(());
        }
        *self.store = store;
        self.say(Why::Captured {
            target: target.name.clone(),
            saved: tally.saved,
            upgraded: tally.upgraded,
            preserved: tally.preserved,
        });
        Ok(())
    }
}

/// What runs although it should sleep.
fn running(point: &Point, look: &Look) -> Vec<ResourceId> {
    // What did not run when it was captured, and is not selected any more, is not ours to stop.
    let recorded = |id: &ResourceId| point.entries.get(id).is_some_and(|e| e.live && !e.consumed);
    look.iter()
        .filter(|(id, r)| r.power == Power::Up && r.skip.is_none() && (r.selected || recorded(id)))
        .map(|(id, _)| id.clone())
        .collect()
}
