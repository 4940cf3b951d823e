//! `Serving`: what is looked at, in which order. First match acts; nothing below delays anything above.
//!
//! This is the seeds' "Reconcile Actions" (001) and "Actions for Reconciliation" (002). The numbers of
//! their steps stand beside the code that does them; `docs/seed-steps.md` has the table.

use super::ids::Ordinal;
use super::observed::{Answer, Status};
use super::plan::{Plan, Step, Target};
use super::reason::{Reason, Why};
use super::record::{Main, Writes};
use super::rules::Rule;
use super::view::View;
use super::{async_pods, failover, hibernation, pair, reset, switchover, term};

/// One turn of a serving cluster.
pub(super) fn turn(view: &View<'_>) -> Plan {
    let Some(main) = &view.record.main else {
        return Plan::wait(Reason::new(Rule::R5, Why::UnknownState));
    };
    // 001 step 2: MAIN first.
    if !view.healthy(main) {
        return failover::turn(view, main);
    }
    let Some(answer) = view.answer(main.pod) else {
        return failover::turn(view, main);
    };
    if let Some(plan) = replica_ahead(view, main, answer) {
        return plan;
    }
    let plan = if pair::has_lost_its_registration(view, main, answer) {
        pair::turn(view, main, answer)
    } else {
        in_order(view, main, answer)
    };
    [switchover::refusal(view, main), reset::unheeded(view, main)]
        .into_iter()
        .flatten()
        .fold(plan, Plan::also)
}

/// What people asked for, then the pair, then everybody else.
fn in_order(view: &View<'_>, main: &Main, answer: &Answer) -> Plan {
    let plan = hibernation::fall_asleep(view, main, answer)
        .or_else(|| switchover::begin(view, main))
        .or_else(|| close_by_policy(view))
        .or_else(|| reset::pending(view, main, answer, Ordinal::is_authority));
    if let Some(plan) = plan {
        return plan;
    }
    let pair = pair::turn(view, main, answer);
    if pair.steps.is_empty() || pair::only_reopens(view, &pair) {
        mark_lost(view, main, answer)
            .or_else(|| async_pods::repair(view, main, answer))
            .or_else(|| reset::pending(view, main, answer, |pod| !pod.is_authority()))
            .unwrap_or_else(|| {
                if pair.steps.is_empty() {
                    beside(pair, async_pods::turn(view, main, answer))
                } else {
                    pair
                }
            })
    } else {
        pair
    }
}

/// ASYNC work goes on while the pair waits; both reasons are shown.
fn beside(pair: Plan, other: Plan) -> Plan {
    let Plan {
        steps: _,
        mut reasons,
        wake,
    } = pair;
    reasons.extend(other.reasons);
    let merged = Plan {
        steps: other.steps,
        reasons,
        wake: other.wake,
    };
    match wake {
        Some(at) => merged.wake_at(at),
        None => merged,
    }
}

/// A client deleted the mark (`MATCH (n) DETACH DELETE n`): without it no gateway connects and nobody can
/// take over, so it is written again at once.
pub(super) fn mark_lost(view: &View<'_>, main: &Main, answer: &Answer) -> Option<Plan> {
    let lost = answer.data.is_some_and(|d| d.mark.is_none());
    let on = Target {
        pod: main.pod,
        process: main.process,
    };
    lost.then(|| {
        let reason = Reason::new(Rule::R10, Why::MarkLost { main: main.pod }).on(view.said(main.pod));
        Plan::because(reason).then(Step::AdvanceMark {
            on,
            from: None,
            to: main.term,
        })
    })
}

/// The policy was tightened while nobody protected the writes.
fn close_by_policy(view: &View<'_>) -> Option<Plan> {
    let allowed = view.writes_unprotected(view.record.exposed);
    if view.record.sync.is_some() || view.record.writes != Writes::Open || allowed == Writes::Open {
        return None;
    }
    let next = term::forget_gone(view, view.record.with_writes(allowed));
    let reason = Reason::new(Rule::R16, Why::ClosedByPolicy);
    Some(Plan::because(reason).then(Step::WriteRecord(Box::new(next))))
}

/// R27: MAIN lost its tail. The next write would be acknowledged and missing on the replica.
pub(super) fn replica_ahead(view: &View<'_>, main: &Main, answer: &Answer) -> Option<Plan> {
    if !view.rules().on(Rule::R27) {
        return None;
    }
    let partner = main.pod.partner()?;
    let ahead = View::registrations_of(answer, partner)
        .find(|r| r.attached && r.behind > 0 && r.status == Status::Ready)?;
    let reason =
        Reason::new(Rule::R27, Why::ReplicaAhead { pod: partner }).on([view.listed(main.pod, ahead)]);
    if view.promotable(partner) {
        return Some(term::begin(view, partner, true, term::How::Plain, reason));
    }
    if view.record.writes == Writes::Closed {
        return Some(Plan::wait(reason));
    }
    let next = term::forget_gone(view, view.record.with_writes(Writes::Closed));
    Some(Plan::because(reason).then(Step::WriteRecord(Box::new(next))))
}
