//! Pods outside the pair: registered ASYNC, repaired, dropped when they are gone for good. They never block
//! anything, and no failover looks at them.

use super::ids::{Ordinal, ProofId, RegistrationName};
use super::observed::{Answer, Mode, Pod, Registration, Role, Status};
use super::pair::register_async;
use super::plan::{Plan, Step, Target};
use super::reason::{Reason, Why};
use super::record::{Main, Writes};
use super::reset;
use super::rules::Rule;
use super::term::forget_gone;
use super::view::View;

/// The first thing any of them needs.
pub(super) fn turn(view: &View<'_>, main: &Main, answer: &Answer) -> Plan {
    let Some(listed) = &answer.replicas else {
        return Plan::default();
    };
    let on = Target {
        pod: main.pod,
        process: main.process,
    };
    let mut waiting = Vec::new();
    for pod in view
        .seen
        .pods
        .iter()
        .filter(|p| !p.ordinal.is_authority() && wanted(view, p.ordinal))
    {
        let own = listed.iter().find(|r| r.name.pod() == pod.ordinal);
        let plan = one(view, main, on, pod, own);
        if !plan.steps.is_empty() {
            return plan;
        }
        waiting.extend(plan.reasons);
    }
    if let Some(left) = listed
        .iter()
        .find(|r| !wanted(view, r.name.pod()) && view.droppable(r))
    {
        let reason = Reason::new(Rule::Async, Why::NotWanted { pod: left.name.pod() });
        return Plan::because(reason).then(Step::Drop { on, name: left.name });
    }
    Plan {
        steps: Vec::new(),
        reasons: waiting,
        wake: None,
    }
}

/// An ASYNC pod that is registered otherwise: it would take part in every commit, or block the pod whose
/// address it has. If it is level, writes are held for a moment to drop it (R33).
pub(super) fn repair(view: &View<'_>, main: &Main, answer: &Answer) -> Option<Plan> {
    let wrong = answer
        .replicas
        .iter()
        .flatten()
        .find(|r| !r.name.pod().is_authority() && is_wrong(r))?;
    let pod = wrong.name.pod();
    let reason = Reason::new(Rule::Async, Why::RegistrationWrong { pod }).on([view.listed(main.pod, wrong)]);
    if view.droppable(wrong) {
        let on = Target {
            pod: main.pod,
            process: main.process,
        };
        return Some(Plan::because(reason).then(Step::Drop { on, name: wrong.name }));
    }
    let level = wrong.status == Status::Ready && wrong.behind == 0;
    let held = view.record.writes == Writes::Held && view.now.since(view.record.held_at) <= view.spec().hold;
    if level && view.record.writes == Writes::Open && view.may_hold() {
        let next = forget_gone(view, view.record.held(view.now));
        return Some(Plan::because(reason).then(Step::WriteRecord(Box::new(next))));
    }
    let revision = view.record.revision;
    (level && held)
        .then(|| Plan::wait(Reason::new(Rule::R33, Why::HoldUnconfirmed { revision })).also(reason))
}

fn is_wrong(r: &Registration) -> bool {
    r.attached && (!r.address_ok || r.mode != Mode::Async || r.name != RegistrationName::Async(r.name.pod()))
}

fn wanted(view: &View<'_>, pod: Ordinal) -> bool {
    pod.0 < view.spec().replicas
}

fn one(view: &View<'_>, main: &Main, on: Target, pod: &Pod, own: Option<&Registration>) -> Plan {
    let ordinal = pod.ordinal;
    let Some(answer) = view.answer(ordinal) else {
        // 001 step 7.1: not ready, a warning. The registration is left as it is (R33).
        return Plan::wait(Reason::new(Rule::Async, Why::PartnerAway { pod: ordinal }));
    };
    if answer.role == Role::Main {
        // 001 step 7.2, 002 step 5.1. Role commands follow a compare-and-swap, so the record is touched.
        let next = forget_gone(view, view.record.touched());
        return Plan::because(Reason::new(Rule::Async, Why::ExtraMain { pod: ordinal }))
            .then(Step::WriteRecord(Box::new(next)))
            .then(Step::Demote(Target {
                pod: ordinal,
                process: answer.process,
            }));
    }
    if let Some(plan) = reset::diverged(view, main, ordinal, answer) {
        return plan;
    }
    match own {
        // 001 step 7.3, 002 step 5.2.
        None => register(view, on, pod, answer),
        // 001 step 6, 002 step 4: "not ready: drop it" can crash MAIN; only what stands still is dropped.
        Some(r) if is_broken(view, r) => {
            let reason = Reason::new(Rule::Async, Why::ReplicaStuck { pod: ordinal });
            Plan::because(reason).then(Step::Drop { on, name: r.name })
        }
        // 001 step 8, 002 step 6: ASYNC not ready is a warning.
        Some(r) if r.status != Status::Ready => Plan::wait(
            Reason::new(Rule::Async, Why::CatchingUp { pod: ordinal }).on([view.listed(main.pod, r)]),
        ),
        Some(_) if view.is_hollow(main, ordinal) && view.record.writes == Writes::Open => {
            let reason = Reason::new(Rule::Async, Why::Hollow { pod: ordinal }).on(view.said(ordinal));
            let proof = ProofId(view.seen.turn);
            Plan::because(reason).then(Step::WriteProof { on, proof })
        }
        Some(_) => Plan::default(),
    }
}

fn is_broken(view: &View<'_>, r: &Registration) -> bool {
    let stuck = matches!(r.status, Status::Invalid | Status::Diverged);
    (!r.attached || stuck) && view.droppable(r)
}

fn register(view: &View<'_>, on: Target, pod: &Pod, answer: &Answer) -> Plan {
    let ordinal = pod.ordinal;
    if view.is_leaving(ordinal) {
        return Plan::wait(Reason::new(Rule::Async, Why::PartnerAway { pod: ordinal }));
    }
    if view.port_is_closed(ordinal) {
        return Plan::wait(Reason::new(Rule::R28, Why::PortClosed { pod: ordinal }));
    }
    let peer = Target {
        pod: ordinal,
        process: answer.process,
    };
    register_async(
        view.rules(),
        on,
        peer,
        Reason::new(Rule::Async, Why::JoinAsync { pod: ordinal }),
    )
}
