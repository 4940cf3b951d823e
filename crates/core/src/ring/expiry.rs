//! A permission that its gate did not use in time. What was asked before it was given is history: all of it is asked
//! again, and either another one is given, under another number, or it is taken back and the place is free.
//!
//! That it was not used is certain: a gate says that it starts before it does, and takes none that is old (`freshness`).

use super::ledger::{Grant, Ledger, Phase, Task, Work};
use super::reason::Why;
use super::replacing::{self, Verdict, permit, phase, verdict};
use super::step::Plan;
use super::view::View;

/// The gate holds what the permission names, or something else, and has not used it. `waiting` is what is done before it is over.
pub(super) fn unused(view: &View<'_>, work: &Work, grant: &Grant, waiting: Plan) -> Plan {
    if view.now < grant.over() {
        return waiting.wake_at(grant.over());
    }
    let (member, number) = (work.member.clone(), grant.number);
    let why = Why::NotUsed {
        member,
        grant: number,
    };
    match &work.task {
        // Nothing new is begun in a ring that is to sleep.
        Task::Replace { lost, manual } if !view.seen.wishes.hibernated => {
            let case = replacing::case(view, &work.member, lost, *manual);
            match verdict(&case) {
                Verdict::Holds(findings) => permit(view, work, &case).showing(findings),
                Verdict::Teach(plan) => plan,
                Verdict::Held(plan) => plan.also(why).write(taken_back(view, work, grant)),
            }
        }
        // Whoever joins or founds is looked at anew with the place free.
        Task::Replace { .. } | Task::Found | Task::Join | Task::Leave { .. } => {
            Plan::because(why).write(taken_back(view, work, grant))
        }
    }
}

/// As it was before the permission, but for its number. After a try that failed the place stays taken: what that one
/// left behind in the ring has to end before anything else begins.
fn taken_back(view: &View<'_>, work: &Work, grant: &Grant) -> Ledger {
    if work.failed > 0 && work.lost().is_some() {
        let until = view.now + view.spec().timing.rest;
        return phase(view, work, Phase::Resting { until });
    }
    let fenced = work.lost().and_then(|lost| lost.disk).filter(|_| grant.retires);
    view.ledger.with(|next| {
        next.work = None;
        if let Some(disk) = fenced {
            next.retired.remove(&disk);
        }
    })
}
