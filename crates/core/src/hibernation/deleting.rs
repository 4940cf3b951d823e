//! A plan that is being deleted wakes what it put to sleep, or says that it does not.

use super::ids::TargetName;
use super::plan::Deletion;
use super::point::Point;
use super::reason::Why;
use super::state::{Cycle, Operation, Stand};
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
    let mut left = cycle.map(|cycle| left_behind(view, cycle)).unwrap_or_default();
    for point in view.store().points() {
        if state.is_none() && view.is_stuck(&point) {
            left.push(point.target);
            continue;
        }
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
        let open = open + if cycle.is_none() { left.len() } else { 0 };
        return Ok(go(if open > 0 {
            Why::Abandoned { open }
        } else {
            Why::MayGo
        }));
    }
    // The namespace takes with it what sleeps and what is recorded of it, in any order. Nothing can be woken in it, and
    // no restore point can be put back: whoever waited here would keep the namespace for ever.
    let asleep = cycle.is_some() || open > 0 || unseen.is_some();
    if view.seen.namespace_ends && asleep {
        return Ok(go(Why::NamespaceEnds));
    }
    let stay = |left: Vec<TargetName>| {
        let names: Vec<String> = left.iter().map(|name| format!("`{name}`")).collect();
        go(Why::PointsStay {
            targets: names.join(", "),
        })
    };
    match (cycle, unseen) {
        (Some(_), _) if !left.is_empty() => Ok(stay(left)),
        // Whoever cannot be looked at must not keep the others of an open cycle asleep.
        (Some(_), _) => Err(Why::WakeBeforeDeletion),
        (None, Some(target)) => Ok(view.wait_for_look(target)),
        (None, None) if open > 0 => Err(Why::WakeBeforeDeletion),
        (None, None) if left.is_empty() => Ok(go(Why::MayGo)),
        (None, None) => Ok(stay(left)),
    }
}

/// The targets that keep a cycle open for ever, if all others are awake: their points were written by an older version,
/// and whoever could replay them is not here. What they name was not put to sleep by this plan, and the points outlive
/// it. Empty: something else is still to be woken.
fn left_behind(view: &View<'_>, cycle: &Cycle) -> Vec<TargetName> {
    let mut left = Vec::new();
    for target in &cycle.intent.targets {
        let stand = cycle.targets.get(&target.name).map(|p| p.stand);
        let point = view.store().load(&target.executor, &target.name);
        let captured = cycle.targets.get(&target.name).is_some_and(|p| p.captured);
        let old = |point: &Point| point.is_old() && point.is_open();
        match (stand, point) {
            (Some(Stand::Lost), Ok(Some(point))) if old(&point) => left.push(target.name.clone()),
            (Some(Stand::Done), Ok(Some(point))) if !point.is_open() || (old(&point) && !captured) => {}
            (Some(Stand::Done), Ok(None)) => {}
            _ => return Vec::new(),
        }
    }
    if cycle.operation == Operation::WakeUp {
        left
    } else {
        Vec::new()
    }
}
