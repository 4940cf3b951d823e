//! A plan that remembers nothing, or less than its restore points say.

use super::ids::TargetName;
use super::order::in_line;
use super::plan::{Behaviour, DEFAULT_GATE, Drift, Intent, Strategy, Target};
use super::reason::Why;
use super::state::{Cycle, Operation, Phase, Progress, Stand, State};
use super::step::{Decision, Step};
use super::view::View;
use serde_json::Value;
use std::collections::BTreeSet;

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
    // What an older version wrote counts only for a plan that knows nothing better: it was never marked as used.
    let known = view.stored.state.is_some();
    let points = view.store().points();
    let mut open: Vec<_> = points
        .filter(|p| !(known && p.is_old()) && view.is_open(p) == Some(true))
        .map(|p| (p.executor, p.target))
        .collect();
    if !known {
        // Nobody can say that a point that cannot be read was used. It waits for a human; the others are woken. A plan
        // that remembers closed its last cycle only when all were. What is known to sleep comes first: a target that
        // changed its executor may have both.
        let known: BTreeSet<TargetName> = open.iter().map(|(_, target)| target.clone()).collect();
        let unreadable = view.store().unreadable();
        open.extend(unreadable.filter(|(_, target)| !known.contains(target)));
    }
    if open.is_empty() {
        return None;
    }
    let mut intent = view.plan.intent.clone();
    for (executor, target) in &open {
        if intent.target(target).is_none_or(|t| t.executor != *executor) {
            intent = with_stranger(intent, target, executor);
        }
    }
    let id = state.cycle.max(view.store().newest_cycle());
    let mut cycle = Cycle::begin(id, intent, view.now);
    for (name, progress) in &mut cycle.targets {
        let owner = open.iter().find(|(_, target)| target == name);
        let point = owner.and_then(|(executor, target)| view.store().load(executor, target).ok().flatten());
        *progress = Progress {
            stand: Stand::Done,
            captured: owner.is_some(),
            captured_in: point.map(|p| p.leg),
            ..Progress::fresh()
        };
    }
    cycle.operation = Operation::Shutdown;
    // A leg of its own: whoever still works for the plan as it was is behind.
    let legs = view.store().points().filter(|p| p.cycle == Some(id));
    cycle.leg = legs.map(|p| p.leg).max().unwrap_or(0).saturating_add(1);
    let next = state.with(cycle).in_phase(Phase::Hibernated, view.now);
    let decision = Decision::because(Why::Adopted { cycle: id });
    Some(decision.then(Step::WriteState(Box::new(next))).wake_at(view.now))
}

/// A target that the plan does not name any more; its executor is in the key of its point. One that changed its
/// executor is woken by the one that stopped it. The others keep their order: what needs a database does not start
/// before it because something else was taken out of the plan.
fn with_stranger(intent: Intent, name: &TargetName, executor: &super::ids::ExecutorName) -> Intent {
    let stranger = Target {
        name: name.clone(),
        executor: executor.clone(),
        parameters: Value::Null,
        ready_within: DEFAULT_GATE,
        drift: Drift::Ignore,
    };
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
