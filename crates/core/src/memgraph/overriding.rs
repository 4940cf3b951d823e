//! A human names the MAIN and accepts the loss. Only the fence is not negotiable (R15).

use super::hibernation;
use super::plan::Plan;
use super::reason::{Reason, Why};
use super::record::State;
use super::rules::Rule;
use super::term::{self, How};
use super::view::View;

/// The override, while it is valid and not yet fulfilled.
pub(super) fn wish(view: &View<'_>) -> Option<Plan> {
    let (pod, expires) = view.seen.wishes.override_main?;
    let asleep = view.record.state == State::Hibernated;
    if view.now >= expires || !pod.is_authority() || (asleep && view.seen.wishes.hibernated) {
        return None;
    }
    let serves = view.record.state == State::Serving
        && view
            .record
            .main
            .as_ref()
            .is_some_and(|m| m.pod == pod && view.healthy(m));
    let chosen = term::unfinished(view.record)
        && view.record.candidate.as_ref().is_some_and(|c| {
            c.pod == pod && c.forced && view.answer(pod).is_some_and(|a| a.process == c.process)
        });
    if serves || chosen {
        // Fulfilled, or begun: from here the ordinary path goes on with it.
        return None;
    }
    let reason = Reason::new(Rule::Override, Why::Overridden { pod }).on(view.said(pod));
    let plan = term::begin(view, pod, true, How::Override, reason);
    Some(if asleep {
        hibernation::awake(view, plan)
    } else {
        plan
    })
}
