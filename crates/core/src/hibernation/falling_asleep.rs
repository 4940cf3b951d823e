//! Going down: capture, make it durable, and only then stop.

use super::ids::{CycleId, ResourceId, TargetName};
use super::observed::{Look, Power, Skip};
use super::plan::Target;
use super::point::Point;
use super::reason::Why;
use super::save::Capture;
use super::several::Several;
use super::state::{Cycle, State};
use super::step::{Decision, Step};
use super::view::{View, sound};
use super::work::{Outcome, Work};
use std::collections::BTreeMap;

/// The cycle is durable before anything is done in it.
pub(super) fn begin(view: &View<'_>, state: &State, why: String) -> Decision {
    let intent = view.plan.intent_at(view.now);
    if intent.targets.is_empty() {
        return Decision::because(Why::NothingToDo);
    }
    let id = CycleId(state.cycle.max(view.store().newest_cycle()).0 + 1);
    let cycle = Cycle::begin(id, intent, view.now);
    let phase = cycle.operation.phase();
    let next = state.with(cycle).in_phase(phase, view.now);
    Decision::because(Why::FallAsleep { cycle: id, why })
        .then(Step::WriteState(Box::new(next)))
        .wake_at(view.now)
}

/// The shutdown goes on.
pub(super) fn go_on(view: &View<'_>, state: &State, cycle: &Cycle) -> Decision {
    Work::new(*view, state, cycle).run(one)
}

fn one(work: &mut Work<'_>, target: &Target) -> Outcome {
    let name = target.name.clone();
    if work.is_given_up(&name) {
        work.say(Why::LeftAsItIs { target: name });
        return Outcome::Done;
    }
    let captured = work.progress(&name).captured;
    // What was durable in this cycle and is not there is not captured again: what sleeps would look like a point.
    let known = match sound(&work.store, target, captured) {
        Ok(known) => known,
        Err(lost) => return Outcome::Lost(lost),
    };
    let look = match work.looked(&name) {
        Ok(look) => look,
        Err(outcome) => return outcome,
    };
    let point = match capture(work, target, known, look) {
        Ok(point) => point,
        Err(failure) => return failure,
    };
    let leg = work.cycle.leg;
    let progress = work.progress(&name);
    (progress.captured, progress.captured_in) = (true, Some(leg));
    stop(work, target, &point, look)
}

fn fatal(why: Why) -> Outcome {
    Outcome::Failed { why, permanent: true }
}

/// The point with everything that is seen now. The outcome is an error if it cannot be kept.
fn capture(work: &mut Work<'_>, target: &Target, mut known: Point, look: &Look) -> Result<Point, Outcome> {
    let name = target.name.clone();
    let captures = captures(look);
    if known.is_old() && !work.progress(&name).captured && captures.values().any(|c| c.live) {
        // Its form does not say so, but something of it runs and no cycle is about it: it was used.
        known.entries.values_mut().for_each(|e| e.consumed = true);
    }
    let (next, tally) = known.save_or_preserve(work.cycle.id, work.cycle.leg, &work.view.stamp(), &captures);
    // Also one that is as it should be is put: of a write that was interrupted an older part may be left, and that one
    // would not miss the others if they were lost.
    if next == known && known.is_old() {
        return Ok(known);
    }
    let store = work.store.put(next.clone()).map_err(|error| {
        let (target, why) = (name.clone(), error.to_string());
        fatal(Why::PointTooLarge { target, why })
    })?;
    // The first look of a leg is news also if everything is preserved.
    let other_leg = (known.cycle, known.leg) != (next.cycle, next.leg);
    let news = tally.saved + tally.upgraded > 0 || other_leg || known.entries != next.entries;
    if store != work.store && news {
        work.say(if captures.is_empty() && !next.is_open() {
            Why::NothingSelected { target: name }
        } else {
            Why::Captured {
                target: name,
                saved: tally.saved,
                upgraded: tally.upgraded,
                preserved: tally.preserved,
            }
        });
    }
    work.store = store;
    Ok(next)
}

/// What can be captured: what is selected and not left alone.
pub(super) fn captures(look: &Look) -> BTreeMap<ResourceId, Capture> {
    let mine = look.iter().filter(|(_, r)| r.selected && r.skip.is_none());
    mine.filter_map(|(id, r)| {
        let live = match r.power {
            Power::Up => true,
            Power::Down => false,
            Power::Gone => return None,
        };
        let capture = Capture {
            state: r.state.clone(),
            live,
            settled: r.settled,
        };
        Some((id.clone(), capture))
    })
    .collect()
}

/// Says what is left alone, once for each reason.
fn skipped(work: &mut Work<'_>, name: &TargetName, look: &Look) {
    let mut skipped: BTreeMap<&Skip, Vec<ResourceId>> = BTreeMap::new();
    for (id, resource) in look.iter().filter(|(_, r)| r.selected) {
        if let Some(skip) = &resource.skip {
            skipped.entry(skip).or_default().push(id.clone());
        }
    }
    for (skip, ids) in skipped {
        let (target, resources, why) = (name.clone(), Several::new(ids), skip.to_string());
        work.say(match skip {
            Skip::ClaimedBy(_) => Why::Conflict {
                target,
                resources,
                why,
            },
            Skip::Protected | Skip::Other(_) => Why::Skipped {
                target,
                resources,
                why,
            },
        });
    }
}

fn stop(work: &mut Work<'_>, target: &Target, point: &Point, look: &Look) -> Outcome {
    let name = &target.name;
    skipped(work, name, look);
    let mine: Vec<_> = point
        .entries
        .iter()
        .filter(|(_, e)| e.live && !e.consumed)
        .filter_map(|(id, _)| look.get(id).map(|r| (id, r)))
        .filter(|(_, r)| r.skip.is_none())
        .collect();
    let up: Vec<_> = mine.iter().filter(|(_, r)| r.power == Power::Up).collect();
    let unsettled = mine
        .iter()
        .filter(|(_, r)| r.power == Power::Down && !r.settled)
        .count();
    let target_name = name.clone();
    if !up.is_empty() {
        for (id, _) in &up {
            work.call(target, id, None);
        }
        let count = up.len();
        work.say(Why::Stopping {
            target: target_name,
            count,
        });
        return Outcome::GoesOn;
    }
    if unsettled > 0 {
        work.say(Why::WaitUntilDown {
            target: target_name,
            count: unsettled,
        });
        return Outcome::GoesOn;
    }
    work.say(Why::Down { target: target_name });
    Outcome::Done
}
