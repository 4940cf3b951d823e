//! A plan that remembers nothing, or less than its restore points say.

use super::ids::{ExecutorName, TargetName};
use super::order::in_line;
use super::plan::{Behaviour, DEFAULT_GATE, Drift, Intent, Strategy, Target};
use super::point::Point;
use super::reason::Why;
use super::state::{Cycle, Phase, Progress, Stand, State};
use super::step::{Decision, Step};
use super::view::View;
use serde_json::Value;
use std::collections::BTreeMap;

/// Nothing is remembered: the plan is new, or was made again. Points that were never used are taken over.
pub(super) fn first(view: &View<'_>) -> Decision {
    for point in view.store().points() {
        if view.is_open(&point).is_none() {
            return view.wait_for_look(point.target);
        }
    }
    let state = State::first(view.store().newest_cycle(), view.now);
    if let Some(decision) = adopt(view, &state) {
        return decision;
    }
    Decision::because(Why::FirstSeen)
        .then(Step::WriteState(Box::new(state)))
        .wake_at(view.now)
}

/// No cycle is open, and yet something has to be brought back: the cycle is open after all.
pub(super) fn adopt(view: &View<'_>, state: &State) -> Option<Decision> {
    let owners = owners(view);
    if owners.is_empty() {
        return None;
    }
    let mut intent = view.plan.intent.clone();
    for (target, executor) in &owners {
        if intent.target(target).is_none_or(|t| t.executor != *executor) {
            intent = with_stranger(intent, target, executor);
        }
    }
    let id = state.cycle.max(view.store().newest_cycle());
    let mut cycle = Cycle::begin(id, intent, view.now);
    // A leg of its own: whoever still works for the plan as it was is behind.
    let legs = view.store().points().filter(|p| p.cycle == Some(id));
    cycle.leg = legs.map(|p| p.leg).max().unwrap_or(0).saturating_add(1);
    for (name, progress) in &mut cycle.targets {
        let owner = owners.get(name);
        let point = owner.and_then(|executor| view.store().load(executor, name).ok().flatten());
        *progress = Progress {
            stand: Stand::Done,
            captured: owner.is_some(),
            captured_in: point.map(|p| p.leg.min(cycle.leg)),
            ..Progress::fresh()
        };
    }
    let next = state.with(cycle).in_phase(Phase::Hibernated, view.now);
    let decision = Decision::because(Why::Adopted { cycle: id });
    Some(decision.then(Step::WriteState(Box::new(next))).wake_at(view.now))
}

/// The targets of which something has to be brought back, each with whoever recorded it.
fn owners(view: &View<'_>) -> BTreeMap<TargetName, ExecutorName> {
    // What an older version wrote counts only for a plan that knows nothing better: it was never marked as used.
    let known = view.stored.state.is_some();
    let mut owners = BTreeMap::new();
    for point in view.store().points() {
        if !(known && point.is_old()) && view.is_open(&point) == Some(true) {
            owners.entry(point.target).or_insert(point.executor);
        }
    }
    if !known {
        // Nobody can say that a point that cannot be read was used. It waits for a human; the others are woken. A plan
        // that remembers closed its last cycle only when all were. What is known to sleep comes first: a target that
        // changed its executor may have both.
        for (executor, target) in view.store().unreadable() {
            owners.entry(target).or_insert(executor);
        }
    }
    owners
}

/// Who recorded what a target looked like, if it was taken over by a point that could not be read. A target that changed
/// its executor may have several of those, and at most one was never used: nothing is captured before all are. Which one
/// that is shows when somebody repairs them, and nobody else may call the target awake.
///
/// Durable before anything is done because of it: what was looked at was seen by somebody else.
pub(super) fn recognise(view: &View<'_>, state: &State, cycle: &Cycle) -> Option<Decision> {
    let mut next = cycle.clone();
    for (name, progress) in next.targets.iter_mut().filter(|(_, p)| p.is_unread()) {
        let Some(target) = next.intent.targets.iter_mut().find(|t| t.name == *name) else {
            continue;
        };
        let (executor, leg) = whose(view, target);
        progress.captured_in = leg.map(|leg| leg.min(cycle.leg));
        if executor == target.executor {
            continue;
        }
        if matches!(progress.stand, Stand::Lost | Stand::Failed { .. }) {
            *progress = progress.again();
        }
        let declared = view.plan.intent.target(name).filter(|t| t.executor == executor);
        *target = declared.cloned().unwrap_or_else(|| stranger(name, &executor));
    }
    let decision = Decision::because(Why::Adopted { cycle: cycle.id });
    let write = Step::WriteState(Box::new(state.with(next.clone())));
    (next != *cycle).then(|| decision.then(write).wake_at(view.now))
}

/// Whose point of this target is the one that was never used, and in which leg it was captured; no leg as long as nobody
/// can say.
fn whose(view: &View<'_>, target: &Target) -> (ExecutorName, Option<u32>) {
    let all = view.store().targets();
    let others = all
        .into_iter()
        .filter(|(executor, name)| *name == target.name && *executor != target.executor)
        .map(|(executor, name)| {
            let point = view.store().load(&executor, &name);
            (executor, point)
        });
    let others: Vec<_> = others.collect();
    let asleep = |point: &Point| view.is_open(point) == Some(true);
    let mine = || target.executor.clone();
    let own = match view.store().load(&target.executor, &target.name) {
        Ok(Some(point)) if asleep(&point) || point.is_incomplete() => return (mine(), Some(point.leg)),
        other => other,
    };
    for (executor, point) in &others {
        if let Ok(Some(point)) = point
            && asleep(point)
        {
            return (executor.clone(), Some(point.leg));
        }
    }
    // One that was used says nothing about those that still cannot be read.
    match (own, others.into_iter().find(|(_, point)| point.is_err())) {
        (Ok(Some(_)), Some((executor, _))) => (executor, None),
        (Ok(Some(point)), None) => (mine(), Some(point.leg)),
        (Ok(None) | Err(_), _) => (mine(), None),
    }
}

/// A target that the plan does not name any more; its executor is in the key of its point. One that changed its
/// executor is woken by the one that stopped it. The others keep their order: what needs a database does not start
/// before it because something else was taken out of the plan.
fn with_stranger(intent: Intent, name: &TargetName, executor: &ExecutorName) -> Intent {
    let stranger = stranger(name, executor);
    // One after the other would put the stranger somewhere. Nobody waits for whom no edge and no stage names.
    let strategy = match intent.strategy {
        Strategy::Sequential => Strategy::Dag {
            edges: in_line(intent.targets.iter().map(|t| &t.name)),
            max: None,
        },
        placed @ (Strategy::Parallel { .. } | Strategy::Dag { .. } | Strategy::Staged(_)) => placed,
    };
    let mut targets = intent.targets;
    match targets.iter_mut().find(|t| t.name == *name) {
        Some(changed) => *changed = stranger,
        None => targets.push(stranger),
    }
    Intent {
        targets,
        strategy,
        behaviour: Behaviour {
            mode: super::plan::Mode::BestEffort,
            ..intent.behaviour
        },
    }
}

/// A target of which nothing is known but its point.
fn stranger(name: &TargetName, executor: &ExecutorName) -> Target {
    Target {
        name: name.clone(),
        executor: executor.clone(),
        parameters: Value::Null,
        ready_within: DEFAULT_GATE,
        drift: Drift::Ignore,
    }
}
