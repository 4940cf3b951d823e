//! The driver: one screen, one decision.

use super::observed::Observed;
use super::plan::Plan;
use super::reason::{Reason, Why};
use super::record::{Record, State};
use super::rules::Rule;
use super::view::View;
use super::{bootstrap, hibernation, overriding, serving, switchover, term};
use crate::time::Time;

/// What to do now. Total: a doubt becomes a plan without steps and a reason, never an error.
///
/// `record` is `None` if there is none. The same arguments always give the same plan.
pub fn decide(record: Option<&Record>, seen: &Observed, now: Time) -> Plan {
    if let Some(until) = seen.wishes.paused_until.filter(|until| now < *until) {
        return Plan::wait(Reason::new(Rule::Paused, Why::PausedByHuman { until })).wake_at(until);
    }
    let Some(record) = record else {
        return bootstrap::without_record(seen, now);
    };
    let view = View { record, seen, now };
    if let Some(plan) = overriding::wish(&view) {
        return plan;
    }
    let plan = match record.state {
        State::Initialising | State::NoMain => term::resume(&view),
        State::SwitchingOver => switchover::resume(&view),
        State::Serving => serving::turn(&view),
        State::Hibernated => hibernation::asleep(&view),
    };
    match overriding::refusal(&view) {
        Some(reason) => plan.also(reason),
        None => plan,
    }
}
