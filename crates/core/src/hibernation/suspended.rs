//! Suspended: nothing is touched, and what was going on is remembered once.

use super::reason::Why;
use super::state::{Operation, Phase, State};
use super::step::{Decision, Step};
use super::view::View;
use crate::schedule::Desired;

/// Suspend, or stay so.
pub(super) fn stay(view: &View<'_>, state: &State) -> Decision {
    // A deadline that has passed says nothing about somebody who suspends without one.
    let until = view.seen.wishes.suspend_until.filter(|until| *until > view.now);
    if state.phase == Phase::Suspended {
        let decision = Decision::because(Why::StillSuspended).wake_at(until);
        let shown = state.suspended_at.map(|p| p.to_string());
        return if view.seen.suspended_at_phase == shown {
            decision
        } else {
            decision.then(Step::SetSuspendedAt(state.suspended_at))
        };
    }
    let mut next = state.in_phase(Phase::Suspended, view.now);
    next.suspended_at = Some(state.phase);
    Decision::because(Why::Suspend { phase: state.phase })
        .then(Step::WriteState(Box::new(next)))
        .then(Step::SetSuspendedAt(Some(state.phase)))
        .wake_at(until)
}

/// One write takes it to where it belongs now: a crash before it changes nothing, a crash after it loses nothing.
pub(super) fn resume(view: &View<'_>, state: &State, desired: Desired) -> Decision {
    let was = state.suspended_at.unwrap_or(Phase::Active);
    let (why, mut next) = match (&state.open, desired) {
        (None, _) => (Why::Resumed, state.in_phase(Phase::Active, view.now)),
        (Some(cycle), Desired::Awake) => {
            // What had failed is tried anew: whoever resumes has repaired something.
            let next = state.with(cycle.turned(Operation::WakeUp));
            (
                Why::ForcedWakeUp { phase: was },
                next.in_phase(Phase::WakingUp, view.now),
            )
        }
        (Some(_), Desired::Asleep) if was == Phase::Hibernated => {
            (Why::ResumeAsleep, state.in_phase(Phase::Hibernated, view.now))
        }
        (Some(cycle), Desired::Asleep) => {
            let next = state.with(cycle.turned(Operation::Shutdown));
            (Why::ResumeShutdown, next.in_phase(Phase::Hibernating, view.now))
        }
    };
    next.suspended_at = None;
    Decision::because(why)
        .then(Step::WriteState(Box::new(next)))
        .wake_at(view.now)
}
