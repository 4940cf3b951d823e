//! A human gives up the restore point of a target: what it names stays as it is.
//!
//! The wish names a leg, and stays on the plan until somebody removes it. It counts for what was captured in that leg or
//! before, never for what is captured later: a cycle has several nights when another target keeps it open. For the rest
//! of its leg the target is left alone, so that nothing can be captured that the same wish would give up again.

use super::ids::{LegId, TargetName};
use super::point::{Point, PointError};
use super::state::{Cycle, Progress};
use super::store::Store;
use super::view::View;

/// The wish for this target, if it is one of this cycle and of no leg that is still to come.
fn wish(view: &View<'_>, cycle: &Cycle, target: &TargetName) -> Option<LegId> {
    let wish = view.seen.wishes.discard.get(target).copied();
    wish.filter(|w| w.cycle == cycle.id && w.leg <= cycle.leg)
}

/// Is it left alone, because it was given up in this leg?
pub(super) fn is_given_up(view: &View<'_>, cycle: &Cycle, target: &TargetName) -> bool {
    wish(view, cycle, target).is_some_and(|w| w.leg == cycle.leg)
}

/// Was it given up at some time of this cycle?
pub(super) fn was_given_up(view: &View<'_>, cycle: &Cycle, target: &TargetName) -> bool {
    wish(view, cycle, target).is_some()
}

/// Was what this point says given up, and not captured since?
pub(super) fn covers(view: &View<'_>, cycle: &Cycle, point: &Point) -> bool {
    let of_it = point.cycle == Some(cycle.id);
    of_it && wish(view, cycle, &point.target).is_some_and(|w| point.leg <= w.leg)
}

/// Gives up what is wished for; the targets of which something was given up.
pub(super) fn honour(view: &View<'_>, cycle: &mut Cycle, store: &mut Store) -> Vec<TargetName> {
    let mut given_up = Vec::new();
    for target in &cycle.intent.targets {
        let Some(wish) = wish(view, cycle, &target.name) else {
            continue;
        };
        let empty = Point {
            cycle: Some(cycle.id),
            leg: cycle.leg,
            captured_at: view.stamp(),
            ..Point::empty(target.executor.clone(), target.name.clone())
        };
        let stored = store.load(&target.executor, &target.name);
        let over = over(cycle, &target.name, stored, wish, empty);
        if let Some(next) = over.and_then(|point| store.put(point).ok()) {
            *store = next;
            given_up.push(target.name.clone());
        }
    }
    forget(view, cycle, store);
    given_up
}

/// Of what was given up, or used, and not captured since, nothing is missed: what is captured next is captured as if for
/// the first time, and a write of that which is interrupted loses nothing. Whoever gave it up may have died before the
/// plan could say so.
fn forget(view: &View<'_>, cycle: &mut Cycle, store: &Store) {
    for target in cycle.intent.targets.clone() {
        let point = store.load(&target.executor, &target.name);
        let over = matches!(point, Ok(Some(point)) if !point.is_open() && !point.is_incomplete());
        let Some(wish) = wish(view, cycle, &target.name).filter(|_| over) else {
            continue;
        };
        let before = |p: &&mut Progress| p.captured_in.is_none_or(|leg| leg <= wish.leg);
        if let Some(progress) = cycle.targets.get_mut(&target.name).filter(before) {
            (progress.captured, progress.captured_in) = (false, None);
        }
    }
}

/// The point that says that this is over; `None` if nothing has to be said.
fn over(
    cycle: &Cycle,
    target: &TargetName,
    stored: Result<Option<Point>, PointError>,
    wish: LegId,
    empty: Point,
) -> Option<Point> {
    let progress = cycle.targets.get(target);
    let captured = progress.is_some_and(|p| p.captured);
    // Of what cannot be read only the plan says when it was captured.
    let last = progress.and_then(|p| p.captured_in).unwrap_or(cycle.leg);
    match stored {
        Ok(Some(point)) if point.is_open() || point.is_incomplete() => {
            let before = point.cycle != Some(cycle.id) || point.leg <= wish.leg;
            before.then(|| point.given_up())
        }
        Ok(Some(_)) => None,
        Ok(None) if !captured => None,
        Ok(None) | Err(_) => (last <= wish.leg).then_some(empty),
    }
}
