//! A cluster that scylla-operator runs: all that is ever done there is to set that operator's own label, under the
//! same checks and one at a time. There is no gate of ours; that a disk is not bootstrapped is known from that
//! operator's own barrier, which waits before such a start.

use super::ids::Member;
use super::ledger::{Known, Phase, Task, Work};
use super::observed::{Liveness, MemberView};
use super::reason::Why;
use super::replacing::{self, Verdict, phase, verdict};
use super::step::{Plan, Step};
use super::view::View;

/// The first lost member for which all checks hold, or why there is none.
pub(super) fn begin(view: &View<'_>) -> Plan {
    let mut held = Plan::default();
    for m in &view.seen.members {
        let Some(known) = view.ledger.known.get(&m.member) else {
            continue;
        };
        if m.replace_label {
            let member = m.member.clone();
            held = held.also(Why::LabelElsewhere { member });
            continue;
        }
        if !is_lost(view, m) {
            continue;
        }
        if let Some(why) = noted_wrong(m, known) {
            held = held.also(why);
            continue;
        }
        let plan = consider(view, m, known);
        if !plan.steps.is_empty() {
            return plan;
        }
        held.reasons.extend(plan.reasons);
        held = held.showing(plan.findings);
    }
    held
}

fn is_lost(view: &View<'_>, m: &MemberView) -> bool {
    let waits = m
        .waits_unbootstrapped_since
        .is_some_and(|since| view.now.since(since) >= view.spec().timing.barrier);
    waits || view.node_is_gone(&m.member)
}

/// That operator replaces the host id its sidecar noted; if that is another one, it would replace the wrong node.
fn noted_wrong(m: &MemberView, known: &Known) -> Option<Why> {
    let (member, host) = (m.member.clone(), known.host);
    match m.noted_host {
        Some(noted) if noted == host => None,
        Some(noted) => Some(Why::NotedOther { member, host, noted }),
        None => Some(Why::NotedNothing { member, host }),
    }
}

fn consider(view: &View<'_>, m: &MemberView, known: &Known) -> Plan {
    let member = m.member.clone();
    if !view.spec().automatic {
        return Plan::because(Why::NotAutomatic { member });
    }
    let case = replacing::case(view, &m.member, known, false);
    match verdict(&case) {
        Verdict::Holds(findings) => {
            let until = view.now + view.spec().timing.confirm;
            let work = Work {
                member: member.clone(),
                task: Task::Replace {
                    lost: known.clone(),
                    manual: false,
                },
                phase: Phase::Labelled,
                since: view.now,
                failed: 0,
            };
            Plan::because(Why::Confirming { member, until })
                .write(view.ledger.working(work))
                .showing(findings)
                .wake_at(until)
        }
        Verdict::Teach(plan) | Verdict::Held(plan) => {
            let host = known.host;
            plan.also(Why::StorageLost { member, host })
        }
    }
}

/// The place is taken: set the label when the time is over, and see it through.
pub(super) fn labelled(view: &View<'_>, work: &Work) -> Plan {
    let Task::Replace { lost, .. } = &work.task else {
        return Plan::default().write(view.ledger.idle());
    };
    let Some(m) = view.seen.member(&work.member) else {
        return Plan::default();
    };
    let member = work.member.clone();
    if m.replace_label {
        // Not taken back: that operator may be in the middle of it.
        let late = view.now.since(work.since) >= view.spec().timing.limit;
        return Plan::because(if late {
            Why::LabelIgnored { member }
        } else {
            Why::LabelSet { member }
        });
    }
    if let Some(plan) = replaced(view, m, lost) {
        return plan;
    }
    if !is_lost(view, m) {
        return Plan::because(Why::CameBack { member }).write(view.ledger.idle());
    }
    if let Some(why) = noted_wrong(m, lost) {
        return Plan::because(why).write(view.ledger.idle());
    }
    set_label(view, work, m, lost)
}

fn set_label(view: &View<'_>, work: &Work, m: &MemberView, lost: &Known) -> Plan {
    let member = work.member.clone();
    let case = replacing::case(view, &work.member, lost, false);
    let findings = match verdict(&case) {
        Verdict::Holds(findings) => findings,
        Verdict::Teach(plan) | Verdict::Held(plan) => {
            return plan.also(Why::Withdrawn { member }).write(view.ledger.idle());
        }
    };
    let until = work.since + view.spec().timing.confirm;
    match m.service {
        Some(service) if view.now >= until => Plan::because(Why::SetLabel {
            member: member.clone(),
        })
        // Written once more, so that a turn which lost the race does not set it.
        .write(phase(view, work, Phase::Labelled))
        .then(Step::SetReplaceLabel { member, service })
        .showing(findings),
        _ => Plan::because(Why::Confirming { member, until })
            .showing(findings)
            .wake_at(until),
    }
}

/// scylla-operator is done: another host id lives at this address, and the old one is nowhere.
fn replaced(view: &View<'_>, m: &MemberView, lost: &Known) -> Option<Plan> {
    let member: &Member = &m.member;
    let address = m.address?;
    let witnesses = view.witnesses(member);
    let first = witnesses.first()?;
    let node = first.at_address(address).next()?;
    let done = witnesses.iter().all(|a| {
        let new = a.node(node.host);
        new.is_some_and(|n| n.is_normal() && n.liveness == Liveness::Up)
            && a.node(lost.host).is_none_or(|n| !n.counts())
    });
    if !done || node.host == lost.host {
        return None;
    }
    let known = super::learn::describe(view, m, node)?;
    let why = Why::Replaced {
        member: member.clone(),
        host: lost.host,
        by: node.host,
    };
    let next = view.ledger.with(|next| {
        next.known.insert(member.clone(), known);
        next.work = None;
    });
    Some(Plan::because(why).write(next))
}
