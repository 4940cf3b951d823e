//! A human names the MAIN and accepts the loss. Only the fence is not negotiable (R15).

use super::hibernation;
use super::plan::{Plan, Step};
use super::reason::{Reason, Why};
use super::record::{Override, State};
use super::rules::Rule;
use super::term::{self, How};
use super::view::View;

/// The override, while it is valid and not yet fulfilled. One wish makes one term: it stays written for a while,
/// and must not take the office back from whoever a failover gave it to.
pub(super) fn wish(view: &View<'_>) -> Option<Plan> {
    let wish @ Override { pod, until } = pending(view)?;
    let asleep = view.record.state == State::Hibernated;
    let serves = view.record.state == State::Serving
        && view
            .record
            .main
            .as_ref()
            .is_some_and(|m| m.pod == pod && view.healthy(m));
    let chosen = term::unfinished(view.record)
        && view.record.candidate.as_ref().is_some_and(|c| {
            c.pod == pod
                && c.forced == Some(until)
                && view.answer(pod).is_some_and(|a| a.process == c.process)
        });
    if chosen {
        // Begun: from here the ordinary path goes on with it.
        return None;
    }
    let reason = Reason::new(Rule::Override, Why::Overridden { pod }).on(view.said(pod));
    if serves {
        // Remembered, or it would come true again when MAIN moves on before the wish ends.
        let next = term::forget_gone(view, view.record.honouring(wish));
        return Some(Plan::because(reason).then(Step::WriteRecord(Box::new(next))));
    }
    if view.is_blank_beside_data(pod) {
        // The ordinary path goes on, and says so.
        return None;
    }
    let plan = term::begin(view, pod, true, How::Override { until }, reason);
    Some(if asleep {
        hibernation::awake(view, plan)
    } else {
        plan
    })
}

/// The wish that is to be fulfilled now.
fn pending(view: &View<'_>) -> Option<Override> {
    let wish @ Override { pod, until } = view.seen.wishes.override_main?;
    let asleep = view.record.state == State::Hibernated && view.seen.wishes.hibernated;
    let honoured = view.record.honoured == Some(wish);
    let over = honoured || view.now >= until || !pod.is_authority() || asleep;
    (!over).then_some(wish)
}

/// Why a wish that stands is not fulfilled: a human names a pod for what is on it. A pod that lost its volume since
/// then, or is being emptied for a snapshot, has nothing on it, and would be served all the same.
pub(super) fn refusal(view: &View<'_>) -> Option<Reason> {
    let Override { pod, until: _ } = pending(view)?;
    view.is_blank_beside_data(pod)
        .then(|| Reason::new(Rule::Override, Why::NothingThere { pod }).on(view.said(pod)))
}
