//! Terms: begin one, complete it, take it over, abandon it.
//!
//! A term is begun by one compare-and-swap and completed by the same turn, in one plan: the record first,
//! then the fence, then the promotion, then the mark, then the record again. A turn that finds a term
//! unfinished takes it over, and from then on the candidate's process is loose (R34).

use super::claim;
use super::ids::{Ordinal, ProcessId, Term};
use super::observed::{Answer, Role};
use super::plan::{OnRefusal, Plan, Step, Target};
use super::reason::{Reason, Why};
use super::record::{Candidate, Loose, Main, Record, State};
use super::rules::Rule;
use super::spec::FenceTimeout;
use super::view::View;
use crate::time::Time;

/// How a term is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Fence, promote if it is a REPLICA, mark, serve.
    Plain,
    /// The same MAIN gets a new epoch: held, demoted, promoted (R25).
    Renew,
    /// A planned move: gateways drain first, the demotion must succeed.
    Move,
    /// A human chose: the fence has no time-out (R15), and the mark may be any.
    Override {
        /// When the wish ends.
        until: Time,
    },
}

/// Begins a term with this candidate and completes it in the same plan.
pub(super) fn begin(view: &View<'_>, pod: Ordinal, exposed: bool, how: How, reason: Reason) -> Plan {
    let Some(mut candidate) = candidacy(view, pod) else {
        return Plan::wait(Reason::new(Rule::Complete, Why::CandidateSilent { pod }));
    };
    candidate.forced = match how {
        How::Override { until } => Some(until),
        How::Plain | How::Renew | How::Move => None,
    };
    let next = match how {
        How::Move => view.record.switching_over(candidate, view.now),
        How::Plain | How::Renew | How::Override { .. } => view.record.new_term(candidate, exposed, view.now),
    };
    let next = forget_gone(view, next);
    let plan = Plan::because(reason).then(Step::WriteRecord(Box::new(next.clone())));
    complete(view, &next, how, plan)
}

/// A term without a MAIN that another turn began.
pub(super) fn resume(view: &View<'_>) -> Plan {
    let plan = go_on(view);
    // A turn that woke the cluster wrote its term after another one had put the pods to sleep again. The term needs
    // them, whatever is wished for now: only a MAIN that serves can fall asleep.
    if plan.steps.is_empty() && view.seen.pods.iter().all(|p| p.object.is_none()) {
        return plan.then(Step::Scale(view.spec().replicas));
    }
    plan
}

fn go_on(view: &View<'_>) -> Plan {
    let Some(candidate) = &view.record.candidate else {
        // Cannot be written by the transitions of the record; a human's edit can.
        return Plan::wait(Reason::new(Rule::R5, Why::UnknownState));
    };
    let pod = candidate.pod;
    if !view.rules().on(Rule::R5) {
        return resume_with_anybody(view, candidate);
    }
    let alive = view.answer(pod).is_some_and(|a| a.process == candidate.process);
    if alive {
        return spoiled(view, candidate)
            .or_else(|| claim::held_up(view, candidate))
            .unwrap_or_else(|| take_over(view, pod, how_to_resume(view)));
    }
    if view.seen.is_gone(pod, candidate.process) {
        return claim::successor(view, candidate).unwrap_or_else(|| abandon(view, pod));
    }
    // A human's choice has no time-out. Otherwise nothing was acknowledged in this term (R10, R35), so the recorded
    // MAIN loses nothing if it begins the next one; the silent process is loose from then on.
    let patient = view.now.since(view.record.since) <= view.spec().candidate_patience;
    let main = view
        .record
        .main
        .as_ref()
        .filter(|m| m.pod != pod && view.returning(m.pod));
    match main {
        Some(main) if !patient && candidate.forced.is_none() => {
            let reason = Reason::new(Rule::Abandon, Why::CandidateTooSilent { pod });
            begin(view, main.pod, view.record.exposed, How::Plain, reason)
        }
        _ => Plan::wait(Reason::new(Rule::Complete, Why::CandidateSilent { pod })),
    }
}

/// The candidate answers and lost its data since it was chosen (R31): it will never have the mark that it needs. Nothing was
/// acknowledged in this term (R10, R35), so the recorded MAIN, if it is there, loses nothing by beginning the next one.
pub(super) fn spoiled(view: &View<'_>, candidate: &Candidate) -> Option<Plan> {
    let pod = candidate.pod;
    let main = view.record.main.as_ref()?;
    let data = view.answer(pod).and_then(|a| a.data)?;
    let lost = data.mark.is_none_or(|m| m.term < main.term);
    let returns = main.pod != pod && candidate.forced.is_none() && view.returning(main.pod);
    let reason = Reason::new(Rule::R31, Why::CandidateSpoiled { pod }).on(view.said(pod));
    (lost && returns).then(|| begin(view, main.pod, view.record.exposed, How::Plain, reason))
}

/// Goes on with a term that another turn began; its candidate is loose from here on.
pub(super) fn take_over(view: &View<'_>, pod: Ordinal, how: How) -> Plan {
    let next = forget_gone(view, view.record.taken_over(view.rules().on(Rule::R34)));
    let plan = Plan::because(Reason::new(Rule::R34, Why::TakeOver { pod }).on(view.said(pod)))
        .then(Step::WriteRecord(Box::new(next.clone())));
    complete(view, &next, how, plan)
}

/// The candidate is gone or given up: the recorded MAIN gets a new term, if it is entitled.
///
/// Safe because nothing is acknowledged in a term before it serves (R10, R35).
pub(super) fn abandon(view: &View<'_>, pod: Ordinal) -> Plan {
    let reason = Reason::new(Rule::Abandon, Why::CandidateGone { pod });
    match &view.record.main {
        Some(main) if view.returning(main.pod) => {
            begin(view, main.pod, view.record.exposed, How::Plain, reason)
        }
        Some(main) => super::failover::nobody(view, main).also(reason),
        None => begin_again(view, pod, reason),
    }
}

/// The first term was not finished: nothing was ever acknowledged in it, so its pod may begin anew.
fn begin_again(view: &View<'_>, pod: Ordinal, reason: Reason) -> Plan {
    // An adopted cluster has its data there: the pod on another volume is not the one that was chosen.
    let same_volume = view
        .record
        .candidate
        .as_ref()
        .is_some_and(|c| view.volume(pod) == Some(c.volume));
    match view.answer(pod) {
        Some(answer) if same_volume && mark_before(view, answer, view.record, How::Plain).is_ok() => {
            begin(view, pod, true, How::Plain, reason)
        }
        Some(answer) if answer.data.is_none() => {
            Plan::wait(Reason::new(Rule::R6, Why::DataUnread { pod })).also(reason)
        }
        Some(_) => Plan::wait(Reason::new(Rule::R6, Why::SuspiciousData { pod })).also(reason),
        None => Plan::wait(Reason::new(Rule::Bootstrap, Why::NotReady { pod })).also(reason),
    }
}

/// What happens without R5: any pod that answers is as good as the candidate.
fn resume_with_anybody(view: &View<'_>, candidate: &Candidate) -> Plan {
    let recorded = view
        .record
        .main
        .as_ref()
        .map(|m| m.pod)
        .filter(|p| view.answer(*p).is_some());
    let pod = recorded.unwrap_or(candidate.pod);
    let Some(usurper) = candidacy(view, pod) else {
        return Plan::wait(Reason::new(Rule::Complete, Why::CandidateSilent { pod }));
    };
    // Nobody is named, so there is nothing to take over: the term is simply finished.
    let mut next = view.record.clone();
    next.candidate = Some(usurper);
    let plan = Plan::because(Reason::new(Rule::Complete, Why::TakeOver { pod }));
    complete(view, &next, How::Plain, plan)
}

fn how_to_resume(view: &View<'_>) -> How {
    // The record says so, because the wish may be gone by now and the fence must not be passed over (R15).
    match view.record.candidate.as_ref().and_then(|c| c.forced) {
        Some(until) => How::Override { until },
        None => How::Plain,
    }
}

/// This pod as a candidate: its process, its volume, and whom this turn has seen.
pub(super) fn candidacy(view: &View<'_>, pod: Ordinal) -> Option<Candidate> {
    let process = view.answer(pod)?.process;
    let volume = view.volume(pod)?;
    let claim = claim::inherited(view, pod, volume);
    let mut peers: Vec<ProcessId> = view
        .seen
        .pods
        .iter()
        .filter(|p| p.ordinal != pod)
        .filter_map(|p| view.answer(p.ordinal))
        .map(|a| a.process)
        .collect();
    peers.sort_unstable();
    Some(Candidate {
        pod,
        process,
        volume,
        peers,
        suspect: suspect(view, pod, claim::judged_as(process, claim)),
        forced: None,
        claim,
    })
}

/// Will its history be wrong once it is promoted (R26)?
fn suspect(view: &View<'_>, pod: Ordinal, process: ProcessId) -> bool {
    match &view.record.main {
        Some(main) if main.pod == pod => main.suspect && main.process == process,
        Some(main) => !main.peers.contains(&process),
        None => false,
    }
}

/// The steps from the first record of a cluster to `Serving`.
pub(super) fn complete_first(view: &View<'_>, record: &Record, plan: Plan) -> Plan {
    complete(view, record, How::Plain, plan)
}

/// The steps from a written term to `Serving`.
fn complete(view: &View<'_>, record: &Record, how: How, plan: Plan) -> Plan {
    let Some(candidate) = &record.candidate else {
        return plan;
    };
    let pod = candidate.pod;
    let Some(answer) = view.answer(pod) else {
        return Plan::wait(Reason::new(Rule::Complete, Why::CandidateSilent { pod }));
    };
    let from = match mark_before(view, answer, record, how) {
        Ok(from) => from,
        Err(why) => return Plan::wait(Reason::new(Rule::R6, why).on(view.said(pod))),
    };
    let on = Target {
        pod,
        process: candidate.process,
    };
    let promote = answer.role == Role::Replica || how == How::Renew;
    let plan = plan.then_or(Step::PushRecord(record.revision), OnRefusal::GoOn);
    let plan = silence_others(view, record, how, plan);
    let plan = if promote {
        promotion(on, how, plan)
    } else {
        keep_office(view, answer, on, plan)
    };
    let plan = plan.then(Step::AdvanceMark {
        on,
        from,
        to: record.term,
    });
    let plan = if view.spec().on_promotion && view.rules().on(Rule::R23) {
        plan.then(Step::RunOnPromotion(on))
    } else {
        plan
    };
    match office(view, record, candidate, answer, promote) {
        Some(main) => {
            let writes = view.writes_unprotected(record.exposed);
            plan.then(Step::WriteRecord(Box::new(
                record.serving(main, writes, view.now),
            )))
        }
        None => Plan::wait(Reason::new(Rule::R6, Why::DataUnread { pod })),
    }
}

/// The mark the candidate must have before its term is written into its data.
fn mark_before(view: &View<'_>, answer: &Answer, record: &Record, how: How) -> Result<Option<Term>, Why> {
    let pod = record.candidate.as_ref().map_or(Ordinal(0), |c| c.pod);
    let mark = answer.data.ok_or(Why::DataUnread { pod })?.mark.map(|m| m.term);
    let lowest = record.main.as_ref().map(|m| m.term);
    // As it was read: nobody can have written the mark of a term that is only being begun.
    let highest = view.record.term;
    let expected = match (mark, lowest) {
        // A human may choose any data, but the mark never goes back: gateways and records compare it.
        // One that is empty since it was named is no data.
        (mark, _) if matches!(how, How::Override { .. }) => {
            mark.is_none_or(|t| t <= record.term) && !view.is_blank_beside_data(pod)
        }
        // First term: the mark is created, or an unfinished first term or an adopted cluster left one.
        (mark, None) => mark.is_none_or(|t| t <= highest),
        (Some(mark), Some(lowest)) => mark >= lowest && mark <= highest,
        (None, Some(_)) => false,
    };
    if expected || !view.rules().on(Rule::R6) {
        Ok(mark)
    } else {
        Err(Why::SuspiciousData { pod })
    }
}

/// Fences the old MAIN (R1): its demotion, its death or the gateways' word, whatever comes first.
fn silence_others(view: &View<'_>, record: &Record, how: How, mut plan: Plan) -> Plan {
    let Some(candidate) = &record.candidate else {
        return plan;
    };
    if how == How::Move || how == How::Renew {
        plan = plan.then(Step::AwaitGateways(record.term, record.revision));
    }
    for pod in Ordinal::AUTHORITY.into_iter().filter(|p| *p != candidate.pod) {
        if let Some(other) = view.answer(pod).filter(|a| a.role == Role::Main) {
            // A planned move needs the demotion; elsewhere it is one of three ways to the same fence, and
            // Memgraph refuses it while a commit is in flight (R30).
            let refusal = if how == How::Move {
                OnRefusal::Retry
            } else {
                OnRefusal::GoOn
            };
            plan = plan.then_or(
                Step::Demote(Target {
                    pod,
                    process: other.process,
                }),
                refusal,
            );
        }
    }
    let Some(main) = &record.main else { return plan };
    let keeps_office = main.pod == candidate.pod && view.healthy(main);
    if keeps_office || !view.rules().on(Rule::R1) {
        return plan;
    }
    let start_fence =
        !view.rules().on(Rule::R13) || view.seen.object(main.pod).is_some_and(|o| o.start_fence);
    let otherwise = match how {
        How::Move => FenceTimeout::Wait,
        How::Override { .. } if view.rules().on(Rule::R15) => FenceTimeout::Wait,
        How::Override { .. } | How::Plain | How::Renew => view.spec().fence_timeout,
    };
    let old = Target {
        pod: main.pod,
        process: main.process,
    };
    let fence = |old| Step::AwaitFence {
        old,
        start_fence,
        term: record.term,
        otherwise,
    };
    // The recorded MAIN was being promoted again, in another process, when a human named the other pod: with its mark
    // unchanged it may acknowledge what a gateway of MAIN's term sends it.
    let again = record
        .loose
        .iter()
        .filter(|l| l.pod == main.pod && l.process != main.process && l.pod != candidate.pod)
        .map(|l| Target {
            pod: l.pod,
            process: l.process,
        });
    again.fold(plan.then(fence(old)), |plan, old| plan.then(fence(old)))
}

fn promotion(on: Target, how: How, plan: Plan) -> Plan {
    let plan = if how == How::Renew {
        plan.then_or(Step::Demote(on), OnRefusal::Retry)
    } else {
        plan
    };
    plan.then(Step::Promote(on))
}

/// A MAIN that stays MAIN (R11): only registrations that would block its mark are dropped.
fn keep_office(view: &View<'_>, answer: &Answer, on: Target, mut plan: Plan) -> Plan {
    for dead in answer
        .replicas
        .iter()
        .flatten()
        .filter(|r| blocks_commits(r) && view.droppable(r))
    {
        plan = plan.then(Step::Drop { on, name: dead.name });
    }
    plan
}

fn blocks_commits(registration: &super::observed::Registration) -> bool {
    use super::observed::{Mode, Status};
    registration.attached && registration.mode == Mode::StrictSync && registration.status != Status::Ready
}

/// The office as the candidate will hold it.
fn office(
    view: &View<'_>,
    record: &Record,
    candidate: &Candidate,
    answer: &Answer,
    promoted: bool,
) -> Option<Main> {
    let database = answer.data?.database;
    let before = record.main.as_ref().filter(|m| m.process == candidate.process);
    let stays = record.main.as_ref().filter(|m| m.pod == candidate.pod);
    let (epoch, peers) = match before {
        _ if promoted || !epoch_is_told_apart(view) => (record.term, candidate.peers.clone()),
        Some(main) => (main.epoch, main.peers.clone()),
        // It is MAIN by somebody else's promotion: nobody knows who lived when that epoch began.
        None => (record.term, Vec::new()),
    };
    Some(Main {
        pod: candidate.pod,
        process: candidate.process,
        volume: candidate.volume,
        database,
        term: record.term,
        epoch,
        peers,
        suspect: candidate.suspect,
        history_from: if goes_on_as_main(view, record, candidate, promoted) || is_adopted(record, promoted) {
            record.term.next()
        } else {
            history_from(record, candidate)
        },
        rebuilt: record.main.as_ref().is_some_and(|m| {
            m.pod == candidate.pod && (m.rebuilt || m.process != candidate.process) && promoted
        }),
        office_from: stays.map_or(record.term, |m| m.office_from),
        rival: stays.and_then(|m| m.rival),
    })
}

/// Was it MAIN before there was a record, and stays so?
///
/// Whether it restarted in the epoch that it goes on in, and so noted an end too early, is known to nobody: its history
/// can be right only from the next epoch on.
fn is_adopted(record: &Record, promoted: bool) -> bool {
    record.main.is_none() && !promoted
}

/// Did the recorded MAIN restart and come back as MAIN, without the start-up fence?
///
/// It noted its epoch at the start and goes on in it, so the note is wrong for everything of this term, until a
/// promotion begins another epoch.
fn goes_on_as_main(view: &View<'_>, record: &Record, candidate: &Candidate, promoted: bool) -> bool {
    let another_process = record
        .main
        .as_ref()
        .is_some_and(|m| m.pod == candidate.pod && m.process != candidate.process);
    let fence = view.seen.object(candidate.pod).is_some_and(|o| o.start_fence);
    another_process && !promoted && !fence
}

/// Since which term the candidate's history is certainly right (R26).
///
/// A process notes the epoch it starts in, too early, and right every later one. Who was a peer when the old
/// MAIN's epoch began started before it. A restart does not make it better: a snapshot keeps what was wrong.
fn history_from(record: &Record, candidate: &Candidate) -> Term {
    match &record.main {
        // The very first term of a cluster has no past; one whose record was lost has a past nobody knows.
        None if record.term == Term(1) => Term(0),
        Some(main) if main.pod == candidate.pod => main.history_from,
        Some(main)
            if main
                .peers
                .contains(&claim::judged_as(candidate.process, candidate.claim)) =>
        {
            main.epoch
        }
        None | Some(_) => record.term,
    }
}

/// R11 says that a MAIN which keeps its office begins no epoch; without it every term counts as one.
fn epoch_is_told_apart(view: &View<'_>) -> bool {
    view.rules().on(Rule::R11)
}

/// Loose entries end with their process.
pub(super) fn forget_gone(view: &View<'_>, record: Record) -> Record {
    record.without_gone(|Loose { pod, process }| view.seen.is_gone(pod, process))
}

/// Is a term under way that has no MAIN?
pub(super) fn unfinished(record: &Record) -> bool {
    matches!(
        record.state,
        State::Initialising | State::NoMain | State::SwitchingOver
    )
}
