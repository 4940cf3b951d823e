//! Asleep: nothing is stopped twice, and what runs nevertheless is reported or stopped again.

use super::discard;
use super::ids::TargetName;
use super::reason::Why;
use super::state::{Cycle, Phase, Stand, State};
use super::step::{Decision, Purpose, Step};
use super::store::Store;
use super::view::{DRIFT_LOOK, View, blocked, edited, sound};
use super::watch::Watch;

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
        reasons: vec![Why::AlreadyHibernated { why }],
    };
    night.reasons.extend(edited(view, cycle));
    let given_up = night.discard();
    // Nothing else is done with what was given up before that is durable.
    for target in cycle
        .intent
        .targets
        .iter()
        .filter(|t| !given_up.contains(&t.name))
    {
        let stand = cycle.targets.get(&target.name).map(|p| p.stand);
        if stand == Some(Stand::Pending) {
            // Its turn never came, because what it depends on did not go down: to stop it now would be out of order,
            // and that it runs is no drift. But it runs, all night, and that is said.
            night.watch().point(target);
            let by = blocked(&night.cycle).remove(&target.name);
            let target = target.name.clone();
            night.reasons.extend(by.map(|by| Why::Blocked { target, by }));
        } else {
            night.watch().asleep(target);
        }
    }
    night.repaired();
    night.decided(state, cycle)
}

/// The turn of a plan that is asleep, while it is put together.
struct Night<'a> {
    view: View<'a>,
    cycle: Cycle,
    store: Store,
    purpose: Purpose,
    stops: Vec<Step>,
    reasons: Vec<Why>,
}

impl<'a> Night<'a> {
    fn watch(&mut self) -> Watch<'_, 'a> {
        Watch {
            view: self.view,
            cycle: &mut self.cycle,
            store: &mut self.store,
            reasons: &mut self.reasons,
            stops: &mut self.stops,
        }
    }

    /// A human may give a point up at any time of the night.
    fn discard(&mut self) -> Vec<TargetName> {
        let given_up = discard::honour(&self.view, &mut self.cycle, &mut self.store);
        for target in &given_up {
            self.purpose = Purpose::Discard;
            self.watch().over(target);
            self.reasons.push(Why::Discarded {
                target: target.clone(),
            });
        }
        given_up
    }

    /// What was lost is whole again, because somebody repaired it: it goes down as if it had never been missed.
    fn repaired(&mut self) {
        for target in self.cycle.intent.targets.clone() {
            let Some(progress) = self.cycle.targets.get_mut(&target.name) else {
                continue;
            };
            if progress.stand == Stand::Lost && sound(&self.store, &target, progress.captured).is_ok() {
                *progress = progress.again();
            }
        }
    }

    /// Has somebody's turn come after all? What blocked it was given up, or it was repaired itself.
    fn goes_on(&self) -> bool {
        let blocked = blocked(&self.cycle);
        let mut all = self.cycle.targets.iter();
        all.any(|(name, p)| p.stand == Stand::Pending && !blocked.contains_key(name))
    }

    /// Points first, then the status, then the calls.
    fn decided(self, state: &State, before: &Cycle) -> Decision {
        let goes_on = self.goes_on();
        let mut decision = Decision {
            reasons: self.reasons,
            watched: true,
            ..Decision::default()
        }
        .wake_at(self.view.now + DRIFT_LOOK);
        for shard in self.store.changed_from(self.view.store()) {
            let (shard, purpose) = (Box::new(shard), self.purpose);
            decision = decision.then(Step::WriteShard { shard, purpose });
        }
        if goes_on || self.cycle != *before {
            let mut next = state.with(self.cycle);
            if goes_on {
                next = next.in_phase(Phase::Hibernating, self.view.now);
                decision = decision.wake_at(self.view.now);
            }
            decision = decision.then(Step::WriteState(Box::new(next)));
        }
        decision.steps.extend(self.stops);
        decision
    }
}

/// Somebody asks to try again what had failed on the way down.
fn retry(view: &View<'_>, state: &State, cycle: &Cycle) -> Option<Decision> {
    let wish = view.seen.wishes.retry.as_ref();
    let wish = wish.filter(|w| state.retried.as_ref() != Some(w))?;
    let mut next = cycle.clone();
    for progress in next.targets.values_mut() {
        if matches!(progress.stand, Stand::Failed { .. } | Stand::Lost) {
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
