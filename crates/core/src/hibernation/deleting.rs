//! A plan that is being deleted wakes what it put to sleep, or says that it does not.

use super::plan::Deletion;
use super::reason::Why;
use super::step::{Decision, Step};
use super::view::View;

/// `Ok`: the plan may go, or has to wait for a look. `Err`: it has to wake something first, for this reason.
pub(super) fn turn(view: &View<'_>) -> Result<Decision, Why> {
    if !view.seen.finalizer {
        return Ok(Decision::because(Why::MayGo));
    }
    let state = view.stored.state.as_ref();
    let cycle = state.and_then(|s| s.open.as_ref());
    let (mut open, mut unseen) = (0, None);
    for point in view.store().points() {
        // Without a state nothing says whether an old point was used; with one that is Active, it was.
        let counts = !point.is_old() || state.is_none() || cycle.is_some();
        match view.is_open(&point) {
            Some(true) if counts => open += 1,
            None if counts => unseen = Some(point.target.clone()),
            Some(_) | None => {}
        }
    }
    if state.is_none() || cycle.is_some() {
        // What cannot be read may still have to be brought back.
        open += view.store().unreadable().count();
    }
    let go = |why: Why| Decision::because(why).then(Step::RemoveFinalizer);
    if view.plan.deletion == Deletion::Abandon {
        return Ok(go(if open > 0 {
            Why::Abandoned { open }
        } else {
            Why::MayGo
        }));
    }
    match unseen {
        Some(target) => Ok(Decision::because(Why::WaitForLook { target })),
        None if cycle.is_none() && open == 0 => Ok(go(Why::MayGo)),
        None => Err(Why::WakeBeforeDeletion),
    }
}
