//! Coming up: from the recorded set, not from a new selection.

use super::discard;
use super::ids::ResourceId;
use super::observed::{Call, Look, Power};
use super::plan::Target;
use super::point::{Entry, Point};
use super::reason::Why;
use super::several::Several;
use super::state::{Cycle, Stand, State};
use super::step::Decision;
use super::view::View;
use super::work::{Outcome, Work};
use std::collections::BTreeMap;

/// The wake-up goes on.
pub(super) fn go_on(view: &View<'_>, state: &State, cycle: &Cycle) -> Decision {
    let mut work = Work::new(*view, state, cycle);
    reopen(&mut work);
    // Also of targets that have failed otherwise: what was brought back is not brought back twice.
    for target in &cycle.intent.targets {
        let look = view.look(&target.name).and_then(|l| l.as_ref().ok());
        if let (Ok(Some(point)), Some(look)) = (work.point(target), look) {
            acknowledge(&mut work, target, point, look);
        }
    }
    work.run(one)
}

/// A target that was done is done only while its point says so. One that was spoiled, lost or put back since is looked
/// at again: nobody could see that it is restored when the cycle closes, and the next night could not be recorded in
/// it. Whoever did it hears of it now, while it can still be repaired or given up.
fn reopen(work: &mut Work<'_>) {
    for target in work.cycle.intent.targets.clone() {
        let progress = work.progress(&target.name);
        let (done, captured) = (progress.stand == Stand::Done, progress.captured);
        let restored = match work.point(&target) {
            // A part of another night's point that is missing now is nobody's loss.
            Ok(Some(point)) if !captured => !is_ours(&point),
            Ok(Some(point)) => !(point.is_open() || point.is_incomplete()),
            Ok(None) => !captured,
            Err(_) => false,
        };
        if done && !restored {
            let again = work.progress(&target.name).again();
            *work.progress(&target.name) = again;
        }
    }
}

/// Has a point of which this cycle captured nothing still to be brought back by it? One that was used is of another night.
/// One that was written before there were cycles counts only for a plan that took it over.
fn is_ours(point: &Point) -> bool {
    point.is_open() && !point.is_old()
}

/// Takes note of starts that were answered, if what was started is seen to run.
fn acknowledge(work: &mut Work<'_>, target: &Target, mut point: Point, look: &Look) {
    let mut count = 0;
    for (id, entry) in point.entries.iter_mut().filter(|(_, e)| !e.consumed && e.live) {
        let answer = work.view.seen.answer(&work.cycle, &target.name, id, Call::Start);
        let up = look.get(id).is_some_and(|r| r.power == Power::Up) || *id == ResourceId::whole();
        if up && answer.is_some_and(|a| a.outcome.is_ok()) {
            entry.consumed = true;
            count += 1;
        }
    }
    if count > 0 {
        let target_name = target.name.clone();
        work.say(Why::Consumed {
            target: target_name,
            count,
        });
        mark(work, target, &point);
    }
}

fn one(work: &mut Work<'_>, target: &Target) -> Outcome {
    let name = target.name.clone();
    let captured = work.progress(&name).captured;
    let point = match work.point(target) {
        Err(error) => {
            let why = error.to_string();
            return Outcome::Lost(Why::RestorePointCorrupt { target: name, why });
        }
        Ok(None) if captured => return Outcome::Lost(Why::NoRestorePoint { target: name }),
        Ok(None) => {
            work.fence();
            work.say(Why::NothingCaptured { target: name });
            return Outcome::Done;
        }
        Ok(Some(point)) => point,
    };
    if work.is_given_up(&name) && !point.is_open() && !point.is_incomplete() {
        work.say(Why::LeftAsItIs { target: name });
        mark(work, target, &point);
        return Outcome::Done;
    }
    // What this cycle has started is its business until it can be used, also if the plan has forgotten that it was captured.
    let started = point.cycle == Some(work.cycle.id) && !discard::covers(&work.view, &work.cycle, &point);
    if !captured && !is_ours(&point) && !started {
        // Whatever became of it since is not this cycle's business, and nobody waits for it.
        work.fence();
        work.say(if discard::was_given_up(&work.view, &work.cycle, &name) {
            Why::LeftAsItIs { target: name }
        } else {
            Why::NothingCaptured { target: name }
        });
        return Outcome::Done;
    }
    if !point.is_open() && !point.is_incomplete() && !point.is_live() {
        if point.entries.is_empty() {
            work.say(Why::NothingRecorded { target: name });
        }
        mark(work, target, &point);
        return Outcome::Done;
    }
    let look = match work.looked(&name) {
        Ok(look) => look,
        // It is tried again when somebody asks for it. The others need not wait for that.
        Err(Outcome::Failed { why, .. }) if work.view.is_stuck(&point) => {
            let why = why.to_string();
            return Outcome::Lost(Why::RestorePointOld { target: name, why });
        }
        Err(outcome) => return outcome,
    };
    let point = consume(work, target, point, look);
    if start(work, target, &point, look) {
        return Outcome::GoesOn;
    }
    // Before a part that is missing: that waits for a human, and this may work the next time.
    if let Some((why, permanent)) = unseen(work, target, &point) {
        return Outcome::Failed { why, permanent };
    }
    if point.is_incomplete() && captured {
        return Outcome::Lost(Why::RestorePointIncomplete { target: name });
    }
    usable(work, target, &point, look)
}

/// Takes note of what needs no start: it did not run, or it does not exist any more.
fn consume(work: &mut Work<'_>, target: &Target, mut point: Point, look: &Look) -> Point {
    let name = &target.name;
    let (mut idle, mut gone) = (0, Vec::new());
    for (id, entry) in point.entries.iter_mut().filter(|(_, e)| !e.consumed) {
        if !entry.live {
            idle += 1;
        } else if look.get(id).is_some_and(|r| r.power == Power::Gone) {
            gone.push(id.clone());
        } else {
            continue;
        }
        entry.consumed = true;
    }
    if !gone.is_empty() {
        work.say(Why::Vanished {
            target: name.clone(),
            resources: Several::new(gone),
        });
    }
    if idle > 0 {
        let target = name.clone();
        work.say(Why::WasNotRunning { target, count: idle });
    }
    mark(work, target, &point);
    point
}

/// Keeps the point, and the mark when nothing of it is left to do.
fn mark(work: &mut Work<'_>, target: &Target, point: &Point) {
    // Flags only get shorter: what fitted still fits.
    if let Ok(store) = work.store.put(point.clone()) {
        work.store = if point.is_open() || point.is_incomplete() {
            store
        } else {
            store.mark_target_restored(&target.name)
        };
    }
}

/// Starts what is still to be brought back; `false` if nothing is, or nobody can see it.
fn start(work: &mut Work<'_>, target: &Target, point: &Point, look: &Look) -> bool {
    let seen = work.view.seen;
    let open: Vec<(&ResourceId, &Entry)> = point
        .entries
        .iter()
        .filter(|(id, e)| !e.consumed && e.live && seen.unseen(&target.name, id).is_none())
        .collect();
    for (id, entry) in &open {
        // What was not looked at is looked at first: it may be gone.
        if look.contains_key(id) || **id == ResourceId::whole() {
            work.call(target, id, Some(entry.state.clone()));
        }
    }
    if !open.is_empty() {
        work.say(Why::Starting {
            target: target.name.clone(),
            count: open.len(),
        });
        if let Some((why, _)) = unseen(work, target, point) {
            work.say(why);
        }
    }
    !open.is_empty()
}

/// What cannot be looked at of what has to be brought back, or to be usable: it keeps the target from being awake, and
/// nothing else of it asleep. With whether trying again is pointless.
fn unseen(work: &mut Work<'_>, target: &Target, point: &Point) -> Option<(Why, bool)> {
    let awaited = point
        .entries
        .iter()
        .filter(|(_, e)| e.live && (!e.consumed || e.settled));
    let mut refused: BTreeMap<&str, (bool, Vec<ResourceId>)> = BTreeMap::new();
    for (id, _) in awaited {
        if let Some(refusal) = work.view.seen.unseen(&target.name, id) {
            let (permanent, ids) = refused.entry(&refusal.message).or_default();
            *permanent |= refusal.is_permanent();
            ids.push(id.clone());
        }
    }
    let mut all = refused.into_iter().map(|(why, (permanent, ids))| {
        let (target, resources, why) = (target.name.clone(), Several::new(ids), why.to_owned());
        let why = Why::Unseen {
            target,
            resources,
            why,
        };
        (why, permanent)
    });
    let first = all.next();
    for (other, _) in all {
        work.say(other);
    }
    first
}

/// The gate: everything that was brought back is usable, unless it was not when it went to sleep.
fn usable(work: &mut Work<'_>, target: &Target, point: &Point, look: &Look) -> Outcome {
    let name = &target.name;
    let (mut waiting, mut down) = (0, Vec::new());
    for (id, entry) in point.entries.iter().filter(|(_, e)| e.live) {
        match look.get(id).map(|r| (r.power, r.settled)) {
            Some((Power::Up, false)) if entry.settled => waiting += 1,
            Some((Power::Down, _)) => down.push(id.clone()),
            Some((Power::Up | Power::Gone, _)) | None => {}
        }
    }
    if !down.is_empty() {
        work.say(Why::StoppedByHand {
            target: name.clone(),
            resources: Several::new(down),
        });
    }
    let target = name.clone();
    if waiting > 0 {
        work.say(Why::WaitUntilUsable {
            target,
            count: waiting,
        });
        return Outcome::GoesOn;
    }
    work.say(Why::Usable { target });
    Outcome::Done
}
