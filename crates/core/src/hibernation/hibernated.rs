//! Asleep: nothing is stopped twice, and what runs nevertheless is reported or stopped again.

use super::falling_asleep::captures;
use super::ids::ResourceId;
use super::observed::Power;
use super::plan::{Drift, Target};
use super::point::{Point, PointError};
use super::reason::Why;
use super::state::{Cycle, Phase, Stand, State};
use super::step::{Aim, Decision, Purpose, Step};
use super::store::Store;
use super::view::{DRIFT_LOOK, View};

/// So often is something stopped again in one night; then somebody else wants it to run, and a fight helps nobody.
const PATIENCE: u8 = 3;

/// The phase guard, and drift.
pub(super) fn guard(view: &View<'_>, state: &State, cycle: &Cycle, why: String) -> Decision {
    if let Some(decision) = retry(view, state, cycle) {
        return decision;
    }
    let mut decision = Decision::because(Why::AlreadyHibernated { why }).wake_at(view.now + DRIFT_LOOK);
    if view.plan.intent != cycle.intent && view.plan.intent_at(cycle.began) != cycle.intent {
        decision = decision.also(Why::SpecDiffers { cycle: cycle.id });
    }
    let mut next = cycle.clone();
    let mut store = view.store().clone();
    let mut stops = Vec::new();
    for target in &cycle.intent.targets {
        let Some((up, point)) = drifted(view, target) else {
            continue;
        };
        let (name, count) = (target.name.clone(), up.len());
        let Some(progress) = next.targets.get_mut(&target.name) else {
            continue;
        };
        if target.drift != Drift::Enforce {
            decision = decision.also(Why::Drifted { target: name, count });
            continue;
        }
        if progress.enforced >= PATIENCE {
            decision = decision.also(Why::Contended { target: name });
            continue;
        }
        match keep(view, cycle, target, &point, &store) {
            Ok(kept) => store = kept,
            Err(error) => {
                let (target, why) = (name, error.to_string());
                decision = decision.also(Why::PointTooLarge { target, why });
                continue;
            }
        }
        progress.enforced += 1;
        progress.captured = true;
        stops.extend(up.iter().map(|id| stop(view, cycle, target, id)));
        decision = decision.also(Why::Enforced { target: name, count });
    }
    for shard in store.changed_from(view.store()) {
        decision = decision.then(Step::WriteShard {
            shard: Box::new(shard),
            purpose: Purpose::Save,
        });
    }
    if next != *cycle {
        decision = decision.then(Step::WriteState(Box::new(state.with(next))));
    }
    decision.steps.extend(stops);
    decision
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

/// What runs although it should sleep, and the point it belongs to; `None` if nothing does, or if that is not known.
fn drifted(view: &View<'_>, target: &Target) -> Option<(Vec<ResourceId>, Point)> {
    let look = view.look(&target.name)?.as_ref().ok()?;
    let point = view.store().load(&target.executor, &target.name).ok()?;
    let point = point.unwrap_or_else(|| Point::empty(target.executor.clone(), target.name.clone()));
    // What did not run when it was captured, and is not selected any more, is not ours to stop.
    let recorded = |id: &ResourceId| point.entries.get(id).is_some_and(|e| e.live && !e.consumed);
    let up: Vec<ResourceId> = look
        .iter()
        .filter(|(id, r)| r.power == Power::Up && r.skip.is_none() && (r.selected || recorded(id)))
        .map(|(id, _)| id.clone())
        .collect();
    (!up.is_empty()).then_some((up, point))
}

/// The store in which everything that is stopped again is recorded: what already is stays as it is.
fn keep(
    view: &View<'_>,
    cycle: &Cycle,
    target: &Target,
    point: &Point,
    store: &Store,
) -> Result<Store, PointError> {
    let look = view.look(&target.name).and_then(|l| l.as_ref().ok());
    let mut seen = look.map(captures).unwrap_or_default();
    seen.retain(|_, capture| capture.live);
    let (next, _) = point.save_or_preserve(cycle.id, cycle.leg, &view.stamp(), &seen);
    if next == *point {
        Ok(store.clone())
    } else {
        store.put(next)
    }
}

fn stop(view: &View<'_>, cycle: &Cycle, target: &Target, resource: &ResourceId) -> Step {
    let look = view.look(&target.name).and_then(|l| l.as_ref().ok());
    Step::Stop(Box::new(Aim {
        cycle: cycle.id,
        leg: cycle.leg,
        target: target.name.clone(),
        executor: target.executor.clone(),
        parameters: target.parameters.clone(),
        resource: resource.clone(),
        version: look.and_then(|l| l.get(resource)).and_then(|r| r.version.clone()),
    }))
}
