//! A planned move of MAIN: drain, demote, promote, in one turn; or give it up and stay.

use super::claim;
use super::ids::Ordinal;
use super::observed::{Registration, Status};
use super::plan::Plan;
use super::reason::{Reason, Why};
use super::record::Main;
use super::rules::Rule;
use super::term::{self, How};
use super::view::View;
use crate::time::Time;

/// Somebody asked for a move. `None`: nothing was asked, or it is done already.
pub(super) fn begin(view: &View<'_>, main: &Main) -> Option<Plan> {
    let pod = view.seen.wishes.switchover.filter(|pod| *pod != main.pod)?;
    if !ready_to_move(view, main, pod) || is_paced(view) || is_unconfirmed(view) {
        return None;
    }
    let reason = Reason::new(Rule::Switchover, Why::SwitchoverWanted { pod }).on(view.said(pod));
    Some(term::begin(view, pod, true, How::Move, reason))
}

/// Why a move that was asked for does not happen; shown beside whatever else the turn does.
pub(super) fn refusal(view: &View<'_>, main: &Main) -> Option<Reason> {
    let pod = view.seen.wishes.switchover.filter(|pod| *pod != main.pod)?;
    let why = if !ready_to_move(view, main, pod) {
        Why::SwitchoverRefused { pod }
    } else if is_paced(view) {
        Why::SwitchoverPaced { pod }
    } else if is_unconfirmed(view) {
        let revision = view.record.revision;
        Why::HoldUnconfirmed { revision }
    } else {
        return None;
    };
    Some(Reason::new(Rule::Switchover, why))
}

/// A move that cannot drain holds writes each time it is tried: after one that failed there is a pause.
fn is_paced(view: &View<'_>) -> bool {
    let never = view.record.moved_at == Time::ZERO;
    !never && view.now.since(view.record.moved_at) < view.spec().drain * 6
}

/// A move waits for every gateway. One that is known not to confirm would keep writes held until the move is given up,
/// and after it nobody would protect them.
fn is_unconfirmed(view: &View<'_>) -> bool {
    view.rules().on(Rule::R35) && !view.confirmed()
}

fn ready_to_move(view: &View<'_>, main: &Main, pod: Ordinal) -> bool {
    // The move drains MAIN before anything else; a commit in flight now is no obstacle.
    let level = |r: &Registration| (r.status == Status::Ready && r.behind == 0) || view.at_work(r);
    let level = view
        .answer(main.pod)
        .is_some_and(|a| View::registrations_of(a, pod).any(|r| view.is_current_strict(r) && level(r)));
    view.promotable(pod) && level && view.record.sync.is_some_and(|s| !view.loose(s.process))
}

/// A move that another turn began: go on, or give it up and let MAIN keep its office.
pub(super) fn resume(view: &View<'_>) -> Plan {
    let (Some(candidate), Some(main)) = (&view.record.candidate, &view.record.main) else {
        return term::resume(view);
    };
    let pod = candidate.pod;
    let alive = view.answer(pod).is_some_and(|a| a.process == candidate.process);
    let late = view.now.since(view.record.since) > view.spec().drain;
    if view.healthy(main) && (late || !alive) {
        let reason = Reason::new(Rule::Switchover, Why::SwitchoverGivenUp { pod });
        // It was protected before the move, and MAIN has kept its office: writes wait until it is proven again.
        return term::begin(view, main.pod, false, How::Plain, reason);
    }
    if alive && view.promotable(pod) && claim::outlasted(view, main) {
        let reason = Reason::new(Rule::R37, Why::MoveOutlasted { pod }).on(view.said(pod));
        return term::begin(view, pod, true, How::Plain, reason);
    }
    // While MAIN lives it is still a planned move; once it is lost it is a failover, which may pass a fence over. That it
    // did not answer one look is no sign of its death (R21), nor that its pod is being deleted: that is why most moves
    // are begun, and gateways may drain for longer than a fence is waited for.
    let how = if view.is_lost(main) { How::Plain } else { How::Move };
    if !view.healthy(main)
        && let Some(plan) = term::spoiled(view, candidate)
    {
        return plan;
    }
    if alive {
        term::take_over(view, pod, how)
    } else {
        term::resume(view)
    }
}
