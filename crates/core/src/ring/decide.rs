//! The driver: one screen, one decision.

use super::ledger::{Ledger, Phase, Task, Work};
use super::observed::Observed;
use super::reason::Why;
use super::spec::Managed;
use super::stamp::Found;
use super::step::{Plan, Step};
use super::view::View;
use super::{attended, joining, labels, learn, leaving, print, replacing, retry, sleeping, unheard};
use crate::time::Time;

/// What to do now. Total: a doubt becomes a plan without steps and a reason, never an error.
///
/// `ledger` is `None` if there is none. The same arguments always give the same plan.
pub fn decide(ledger: Option<&Ledger>, seen: &Observed, now: Time) -> Plan {
    if let Some(until) = seen.wishes.paused_until.filter(|until| now < *until) {
        return Plan::because(Why::Paused { until }).wake_at(until);
    }
    if seen.wishes.hibernated && seen.spec.managed == Managed::ByScyllaOperator {
        return Plan::because(Why::Asleep);
    }
    let Some(ledger) = ledger else {
        let nobody = seen.members.iter().all(|m| m.pod.is_none());
        let new = sleeping::begun(Ledger::new(seen.cluster), &seen.wishes, nobody, now);
        let new = Box::new(new);
        return Plan::because(Why::NewLedger).then(Step::CreateLedger(new));
    };
    if ledger.cluster != seen.cluster {
        return Plan::because(Why::OtherCluster).then(Step::DeleteLedger);
    }
    let view = View { ledger, seen, now };
    if let Some(plan) = sleeping::turn(&view) {
        return plan;
    }
    let plan = awake(&view);
    match &ledger.work {
        // To sleep is wished for, and something is under way that is not cut off.
        Some(work) if seen.wishes.hibernated => plan.also(Why::SleepLater {
            member: work.member.clone(),
        }),
        _ => plan,
    }
}

fn awake(view: &View<'_>) -> Plan {
    let ledger = view.ledger;
    if let Some(plan) = learn::turn(view).or_else(|| print::turn(view)) {
        return plan;
    }
    let plan = match &ledger.work {
        Some(work) => go_on(view, work),
        None => begin(view),
    };
    unheard::unended(view, wrong_disks(view, plan))
}

/// Must the database be asked this time? While nothing changes, it is left alone.
pub fn asks(ledger: Option<&Ledger>, seen: &Observed) -> bool {
    let Some(ledger) = ledger.filter(|l| l.cluster == seen.cluster) else {
        return false;
    };
    let sleeps = seen.wishes.hibernated && ledger.work.is_none();
    if ledger.is_asleep() || sleeps {
        return false;
    }
    let settled = seen.members.iter().all(|m| {
        let known = ledger.known.get(&m.member);
        let declared = seen.spec.declared(&m.member).is_some();
        let report = m.pod.as_ref().and_then(|p| p.report);
        let running = report.is_none_or(|r| r.found.runs());
        let node_gone = m.claim.is_some_and(|c| c.node_gone_since.is_some());
        let stopped = m.pod.as_ref().is_some_and(|p| !p.runs);
        let waits = stopped || m.waits_unbootstrapped_since.is_some();
        let quiet = running && !node_gone && !m.replace_label && !waits;
        let same = known.is_some_and(|k| {
            let learnt = k.disk.is_some() || report.is_none();
            // The node on the disk is another one than on record: the others know which.
            let itself = report.is_none_or(|r| match r.found {
                Found::Started(host) => host == k.host,
                _ => true,
            });
            declared && Some(k.address) == m.address && learnt && itself
        });
        quiet && (same || (known.is_none() && m.pod.is_none()))
    });
    // A ring of one has nobody to ask. Whoever is declared away is in it until it has left.
    let others = seen.members.len() > 1;
    ledger.work.is_some() || (!settled && others)
}

fn go_on(view: &View<'_>, work: &Work) -> Plan {
    let plan = match (&work.task, &work.phase) {
        (Task::Leave { left }, _) => leaving::go_on(view, work, left),
        (_, Phase::Granted(grant)) => retry::started(view, work, grant),
        (_, Phase::Resting { until }) => retry::rested(view, work, *until),
        (_, Phase::GivenUp { pod }) => retry::given_up(view, work, *pod),
        (_, Phase::Labelled) => attended::labelled(view, work),
        (Task::Replace { lost, manual }, Phase::Confirming) => replacing::confirm(view, work, lost, *manual),
        (Task::Replace { lost, manual }, Phase::Evicting) => replacing::evict(view, work, lost, *manual),
        // Nothing writes these; the place is freed.
        (Task::Found | Task::Join, Phase::Confirming | Phase::Evicting | Phase::Leaving)
        | (Task::Replace { .. }, Phase::Leaving) => Plan::because(Why::Withdrawn {
            member: work.member.clone(),
        })
        .write(view.ledger.idle()),
    };
    view.ledger
        .known
        .keys()
        .filter(|m| **m != work.member && view.is_lost(m))
        .fold(plan, |plan, m| {
            plan.also(Why::OneAtATime {
                member: m.clone(),
                other: work.member.clone(),
            })
        })
}

fn begin(view: &View<'_>) -> Plan {
    let turns: &[fn(&View<'_>) -> Plan] = match view.spec().managed {
        Managed::Here => &[leaving::begin, labels::begin, replacing::begin, joining::begin],
        Managed::ByScyllaOperator => &[attended::begin],
    };
    let mut held = Plan::default();
    for turn in turns {
        let plan = turn(view);
        if !plan.steps.is_empty() {
            return plan;
        }
        held.reasons.extend(plan.reasons);
        held = held.showing(plan.findings);
        held.wake = [held.wake, plan.wake].into_iter().flatten().min();
    }
    if !held.reasons.is_empty() {
        return held;
    }
    let away = view.ledger.known.keys().filter(|m| !view.runs(m)).cloned();
    let away = away.fold(held, |plan, member| plan.also(Why::Away { member }));
    if away.reasons.is_empty() {
        return Plan::because(Why::Whole);
    }
    away
}

/// Disks that a gate refuses for good, or had no record to refuse by: only a human can put that right.
fn wrong_disks(view: &View<'_>, plan: Plan) -> Plan {
    view.seen.members.iter().fold(plan, |plan, m| {
        let member = m.member.clone();
        match view.seen.report(&m.member).map(|r| r.found) {
            Some(Found::Retired(_)) => plan.also(Why::RetiredDisk { member }),
            Some(Found::Foreign(_)) => plan.also(Why::ForeignDisk { member }),
            Some(Found::Damaged) => plan.also(Why::DamagedDisk { member }),
            Some(Found::Unreadable) => plan.also(Why::UnreadableDisk { member }),
            Some(Found::Started(host)) => match view.ledger.owner_of(host) {
                Some(owner) if *owner != member => plan.also(Why::ForeignNode {
                    member,
                    host,
                    owner: owner.clone(),
                }),
                _ => plan,
            },
            Some(Found::StartedWith(_) | Found::Empty | Found::Unfinished(_)) | None => plan,
        }
    })
}
