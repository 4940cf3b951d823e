//! Sleep and wake. Asleep is a state of the record, so failover and reset are off because the record says so.

use super::ids::ProofId;
use super::observed::{Answer, Status};
use super::plan::{Plan, Step, Target};
use super::reason::{Reason, Why};
use super::record::{Main, Writes};
use super::rules::Rule;
use super::serving::mark_lost;
use super::term::{self, How, forget_gone};
use super::view::View;

/// Sleep was asked for: close, let every gateway confirm, prove once more, record. `None`: nobody asked.
pub(super) fn fall_asleep(view: &View<'_>, main: &Main, answer: &Answer) -> Option<Plan> {
    if !view.seen.wishes.hibernated {
        return None;
    }
    let reason = Reason::new(Rule::Hibernate, Why::FallAsleep);
    if view.record.writes != Writes::Closed && view.rules().on(Rule::R24) {
        let next = forget_gone(view, view.record.with_writes(Writes::Closed));
        return Some(Plan::because(reason).then(Step::WriteRecord(Box::new(next))));
    }
    if !view.confirmed() && view.rules().on(Rule::R24) {
        let revision = view.record.revision;
        return Some(Plan::wait(Reason::new(Rule::R24, Why::HoldUnconfirmed { revision })).also(reason));
    }
    if !provable(view, answer) && view.rules().on(Rule::R24) {
        let next = forget_gone(view, view.record.withdrawn(Writes::Closed));
        return Some(Plan::because(reason).then(Step::WriteRecord(Box::new(next))));
    }
    // Without its mark nobody would be entitled on waking.
    if let Some(plan) = mark_lost(view, main, answer) {
        return Some(plan.also(reason));
    }
    let next = forget_gone(view, view.record.hibernated(view.now));
    let plan = prove_once_more(view, main, answer, Plan::because(reason));
    Some(plan.then(Step::WriteRecord(Box::new(next))).then(Step::Scale(0)))
}

/// Can what the record calls protection be proven once more? Otherwise it does not go to sleep with it.
fn provable(view: &View<'_>, answer: &Answer) -> bool {
    view.record.sync.is_none_or(|sync| {
        let same = view.answer(sync.pod).is_some_and(|a| a.process == sync.process);
        let mut listed = View::registrations_of(answer, sync.pod);
        same && listed.any(|r| view.is_current_strict(r) && r.attached && r.status == Status::Ready)
    })
}

/// The protected replica is only trusted on waking if it has the very last commit.
fn prove_once_more(view: &View<'_>, main: &Main, answer: &Answer, plan: Plan) -> Plan {
    let Some(sync) = view.record.sync else { return plan };
    let listed = View::registrations_of(answer, sync.pod)
        .any(|r| view.is_current_strict(r) && r.attached && r.status == Status::Ready);
    if !listed {
        return plan;
    }
    let proof = ProofId(view.seen.turn);
    plan.then(Step::WriteProof {
        on: Target {
            pod: main.pod,
            process: main.process,
        },
        proof,
    })
    .then(Step::ReadProof {
        on: Target {
            pod: sync.pod,
            process: sync.process,
        },
        proof,
    })
}

/// Asleep: stay asleep, or wake.
pub(super) fn asleep(view: &View<'_>) -> Plan {
    let running = view.seen.pods.iter().any(|p| p.object.is_some());
    if view.seen.wishes.hibernated {
        let plan = Plan::wait(Reason::new(Rule::Hibernate, Why::Asleep));
        return if running { plan.then(Step::Scale(0)) } else { plan };
    }
    let present = view.seen.pods.iter().filter(|p| p.object.is_some()).count();
    if present < usize::from(view.spec().replicas) {
        let plan = Plan::because(Reason::new(Rule::Wake, Why::WaitForPods));
        return plan.then(Step::Scale(view.spec().replicas));
    }
    wake(view)
}

/// The number of pods is written before the term begins, even if it is right: a late "scale to 0" of the turn that
/// put the cluster to sleep then finds another version and does nothing.
pub(super) fn awake(view: &View<'_>, plan: Plan) -> Plan {
    if plan.steps.is_empty() {
        plan
    } else {
        plan.preceded_by(Step::Scale(view.spec().replicas))
    }
}

fn wake(view: &View<'_>) -> Plan {
    let Some(main) = &view.record.main else {
        return Plan::wait(Reason::new(Rule::R5, Why::UnknownState));
    };
    let pod = main.pod;
    if view.returning(pod) {
        let reason = Reason::new(Rule::Wake, Why::WakeUp { pod }).on(view.said(pod));
        return awake(view, term::begin(view, pod, true, How::Plain, reason));
    }
    if view.answer(pod).is_none_or(|a| a.data.is_none()) {
        return Plan::wait(Reason::new(Rule::Wake, Why::WakeNeedsMain { main: pod }));
    }
    // MAIN is back without its data. Nothing was written since the proof, so the protected copy is as good.
    match view.record.sync {
        Some(sync)
            if view.volume(sync.pod) == Some(sync.volume) && view.mark(sync.pod) == Some(Some(main.term)) =>
        {
            let reason = Reason::new(Rule::Wake, Why::WakeUp { pod: sync.pod }).on(view.said(sync.pod));
            awake(view, term::begin(view, sync.pod, true, How::Plain, reason))
        }
        _ => super::failover::nobody(view, main),
    }
}
