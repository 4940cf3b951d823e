//! Asleep: nothing is stopped twice, and what runs nevertheless is reported or stopped again.

use super::discard;
use super::falling_asleep::captures;
use super::ids::{ResourceId, TargetName};
use super::observed::{Call, Look, Power, Severity};
use super::plan::{Drift, Target};
use super::point::{Point, PointError};
use super::reason::Why;
use super::state::{Cycle, Phase, Stand, State};
use super::step::{Aim, Decision, Purpose, Step};
use super::store::Store;
use super::view::{DRIFT_LOOK, View, sound};

/// So often is something stopped again in one night; then somebody else wants it to run, and a fight helps nobody.
const PATIENCE: u8 = 3;

/// The phase guard, what is wrong, and drift.
pub(super) fn guard(view: &View<'_>, state: &State, cycle: &Cycle, why: String) -> Decision {
    if let Some(decision) = retry(view, state, cycle) {
        return decision;
    }
    let mut night = Night {
        view: *view,
        cycle: cycle.clone(),
        store: view.store().clone(),
        purpose: Purpose::Save,
        stops: Vec::new(),
        decision: Decision::because(Why::AlreadyHibernated { why }).wake_at(view.now + DRIFT_LOOK),
    };
    if view.plan.intent != cycle.intent && view.plan.intent_at(cycle.began) != cycle.intent {
        night.say(Why::SpecDiffers { cycle: cycle.id });
    }
    let given_up = night.discard();
    // Nothing else is done with what was given up before that is durable.
    for target in cycle
        .intent
        .targets
        .iter()
        .filter(|t| !given_up.contains(&t.name))
    {
        night.watch(target);
    }
    night.decided(state, cycle)
}

/// The turn of a plan that is asleep, while it is put together.
struct Night<'a> {
    view: View<'a>,
    cycle: Cycle,
    store: Store,
    purpose: Purpose,
    stops: Vec<Step>,
    decision: Decision,
}

impl Night<'_> {
    fn say(&mut self, why: Why) {
        self.decision.reasons.push(why);
    }

    /// A human may give a point up at any time of the night.
    fn discard(&mut self) -> Vec<TargetName> {
        let given_up = discard::honour(&self.view, &mut self.cycle, &mut self.store);
        for target in &given_up {
            self.purpose = Purpose::Discard;
            self.over(target);
            self.say(Why::Discarded {
                target: target.clone(),
            });
        }
        given_up
    }

    /// Nothing is wrong with what a human gave up.
    fn over(&mut self, target: &TargetName) {
        if let Some(progress) = self.cycle.targets.get_mut(target) {
            progress.stand = Stand::Done;
            progress.message = None;
        }
    }

    /// Whatever is wrong with a target is said as long as it is: nobody looks at a plan at the moment it falls asleep.
    fn watch(&mut self, target: &Target) {
        let name = target.name.clone();
        let Some(progress) = self.cycle.targets.get(&name).cloned() else {
            return;
        };
        if discard::is_given_up(&self.view, &self.cycle, &name) {
            // Also if whoever gave it up died before the plan could say so.
            self.over(&name);
            return self.say(Why::LeftAsItIs { target: name });
        }
        let point = match sound(&self.store, target, progress.captured) {
            Ok(point) => point,
            // Nothing may be captured in the place of what was lost: it would look like the point itself.
            Err(lost) => return self.say(lost),
        };
        if let (Stand::Failed { .. } | Stand::Lost, Some(why)) = (progress.stand, progress.message) {
            let target = name.clone();
            self.say(Why::Failed { target, why });
        }
        match self.view.look(&name) {
            None => {}
            Some(Err(refusal)) => {
                let why = refusal.message.clone();
                self.say(Why::LookFailed { target: name, why });
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
            let stop = self.stop(target, id, look);
            self.stops.push(stop);
        }
        self.say(Why::Enforced { target: name, count });
    }

    /// Were the stops of all of them refused a moment ago? Says why.
    fn refused(&mut self, target: &Target, up: &[ResourceId]) -> bool {
        let seen = self.view.seen;
        let mut refused = 0;
        for id in up {
            let answer = seen.answer(&self.cycle, &target.name, id, Call::Stop);
            let Some(Err(refusal)) = answer.map(|a| &a.outcome) else {
                continue;
            };
            refused += 1;
            if refusal.severity != Severity::Changed {
                self.say(Why::CallFailed {
                    target: target.name.clone(),
                    resource: id.clone(),
                    why: refusal.message.clone(),
                });
            }
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
        if store == self.store {
            return Ok(());
        }
        self.store = store;
        self.say(Why::Captured {
            target: target.name.clone(),
            saved: tally.saved,
            upgraded: tally.upgraded,
            preserved: tally.preserved,
        });
        Ok(())
    }

    fn stop(&self, target: &Target, resource: &ResourceId, look: &Look) -> Step {
        Step::Stop(Box::new(Aim {
            cycle: self.cycle.id,
            leg: self.cycle.leg,
            target: target.name.clone(),
            executor: target.executor.clone(),
            parameters: target.parameters.clone(),
            resource: resource.clone(),
            version: look.get(resource).and_then(|r| r.version.clone()),
        }))
    }

    /// Points first, then the status, then the calls.
    fn decided(self, state: &State, before: &Cycle) -> Decision {
        let mut decision = self.decision;
        for shard in self.store.changed_from(self.view.store()) {
            let (shard, purpose) = (Box::new(shard), self.purpose);
            decision = decision.then(Step::WriteShard { shard, purpose });
        }
        if self.cycle != *before {
            decision = decision.then(Step::WriteState(Box::new(state.with(self.cycle))));
        }
        decision.steps.extend(self.stops);
        decision
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

/// Somebody asks to try again what had failed on the way down.
fn retry(view: &View<'_>, state: &State, cycle: &Cycle) -> Option<Decision> {
    let wish = view.seen.wishes.retry.as_ref();
    let wish = wish.filter(|w| state.retried.as_ref() != Some(w))?;
    let mut next = cycle.clone();
    for progress in next.targets.values_mut() {
        if matches!(progress.stand, Stand::Failed { .. }) {
            *progress = progress.again();
        }
    }
    if next == *cycle {
        return None;
    }
    let mut next = state.with(next).in_phase(Phase::Hibernating, view.now);
    next.retried = Some(wish.clone());
    let decision = Decision::because(Why::RetryAsked).then(Step::WriteState(Box::new(next)));
    Some(decision.wake_at(view.now))
}
