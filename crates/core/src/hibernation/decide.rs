//! The driver: one screen, one decision.

use super::observed::{Observed, Stored};
use super::plan::HibernatePlan;
use super::reason::Why;
use super::state::{Cycle, Operation, Phase, State};
use super::step::{Decision, Purpose, Step};
use super::view::{LOOK, View};
use super::{beginning, deleting, falling_asleep, hibernated, suspended, waking};
use crate::schedule::Desired;
use crate::time::Time;

/// What to do now. Total: a doubt is a decision without steps and a reason, never an error.
///
/// The schedule is asked anew each time and the desired state always wins: a failure never outlives its night.
pub fn decide(plan: &HibernatePlan, stored: &Stored, seen: &Observed, now: Time) -> Decision {
    let view = View {
        plan,
        stored,
        seen,
        now,
    };
    if seen.deleting {
        return match deleting::turn(&view) {
            Ok(decision) => decision,
            Err(why) => remembered(&view, |state| {
                follow(&view, state, Desired::Awake, why.to_string())
            })
            .also(why),
        };
    }
    if !seen.finalizer {
        return Decision::because(Why::FirstSeen)
            .then(Step::AddFinalizer)
            .wake_at(now);
    }
    remembered(&view, |state| {
        if view.suspended() {
            return suspended::stay(&view, state);
        }
        let slot = plan.schedule.at(now);
        let why = slot.why.to_string();
        follow(&view, state, slot.desired, why).wake_at(slot.until)
    })
}

fn remembered(view: &View<'_>, go_on: impl Fn(&State) -> Decision) -> Decision {
    match &view.stored.state {
        None => beginning::first(view),
        Some(state) => go_on(state),
    }
}

/// A point is of a later leg than the plan: either what was read is history, and this write is refused; or the point was
/// put back, and the cycle goes on in a leg of its own.
fn behind(view: &View<'_>, state: &State, cycle: &Cycle) -> Option<Decision> {
    let points = view.store().points().filter(|p| p.cycle == Some(cycle.id));
    let later = points.map(|p| p.leg).filter(|leg| *leg > cycle.leg).max()?;
    let mut next = cycle.clone();
    next.leg = later.saturating_add(1);
    let decision = Decision::because(Why::Behind { cycle: cycle.id });
    Some(
        decision
            .then(Step::WriteState(Box::new(state.with(next))))
            .wake_at(view.now + LOOK),
    )
}

fn follow(view: &View<'_>, state: &State, desired: Desired, why: String) -> Decision {
    let asleep = state
        .open
        .as_ref()
        .is_some_and(|cycle| cycle.operation == Operation::Shutdown);
    let desired = if view.plan.ending && !asleep {
        Desired::Awake
    } else {
        desired
    };
    if state.phase == Phase::Suspended {
        return suspended::resume(view, state, desired);
    }
    let first =
        |cycle: &Cycle| behind(view, state, cycle).or_else(|| beginning::recognise(view, state, cycle));
    if let Some(settled) = state.open.as_ref().and_then(first) {
        return settled;
    }
    let Some(cycle) = &state.open else {
        return match (beginning::adopt(view, state), desired) {
            (Some(decision), _) => decision,
            (None, Desired::Asleep) => falling_asleep::begin(view, state, why),
            (None, Desired::Awake) => rest(view, why),
        };
    };
    match (desired, cycle.operation) {
        (Desired::Asleep, Operation::Shutdown) if state.phase == Phase::Hibernated => {
            hibernated::guard(view, state, cycle, why)
        }
        (Desired::Asleep, Operation::Shutdown) => falling_asleep::go_on(view, state, cycle),
        (Desired::Awake, Operation::WakeUp) => waking::go_on(view, state, cycle),
        (Desired::Asleep, Operation::WakeUp) => {
            let why = Why::FlipToSleep { cycle: cycle.id, why };
            turn_round(view, state, Operation::Shutdown, why)
        }
        (Desired::Awake, Operation::Shutdown) => {
            let id = cycle.id;
            let why = if state.phase == Phase::Hibernated {
                Why::WakeUp { cycle: id, why }
            } else {
                Why::FlipToAwake { cycle: id, why }
            };
            turn_round(view, state, Operation::WakeUp, why)
        }
    }
}

/// The other operation of the same cycle is durable before anything is done in it.
fn turn_round(view: &View<'_>, state: &State, operation: Operation, why: Why) -> Decision {
    let Some(cycle) = &state.open else {
        return Decision::because(why);
    };
    let next = state
        .with(cycle.turned(operation))
        .in_phase(operation.phase(), view.now);
    Decision::because(why)
        .then(Step::WriteState(Box::new(next)))
        .wake_at(view.now)
}

/// Awake: what the last wake-up left is cleaned up.
fn rest(view: &View<'_>, why: String) -> Decision {
    let mut decision = Decision::because(Why::Awake { why });
    if view.store().is_locked() {
        decision = decision.also(Why::Unlocked);
        for shard in view.store().unlock_restore_data().changed_from(view.store()) {
            decision = decision.then(Step::WriteShard {
                shard: Box::new(shard),
                purpose: Purpose::Unlock,
            });
        }
    }
    if view.seen.suspended_at_phase.is_some() {
        decision = decision.then(Step::SetSuspendedAt(None));
    }
    decision
}
