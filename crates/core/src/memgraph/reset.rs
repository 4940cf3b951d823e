//! A diverged replica: who is wrong, and may it be reset?
//!
//! Most `Error: 3` after restarts are false (a fault in Memgraph's epoch history), and wiping the accused
//! would destroy good copies one by one. So the first question is always who is wrong (R26).

use super::ids::{Ordinal, ResetId, Term};
use super::observed::{Answer, Registration, Status};
use super::plan::{Plan, Step, Target};
use super::reason::{Reason, Why};
use super::record::{Main, Reset, Sync};
use super::rules::Rule;
use super::term::forget_gone;
use super::view::View;

/// Memgraph's number for "diverged", despite its name CONNECTION_FAILED in the source.
const DIVERGED: u8 = 3;

/// What to do about this pod if it is diverged; `None` if it is not.
pub(super) fn diverged(view: &View<'_>, main: &Main, pod: Ordinal, answer: &Answer) -> Option<Plan> {
    let accused = is_accused(view, main, pod);
    let wished = !accused && !has_foreign_data(main, answer);
    if wished && !view.wished_away(pod) {
        return None;
    }
    if accused && view.rules().on(Rule::R26) {
        if main_is_suspect(view, main) {
            return Some(cure_main(view, main));
        }
        // Who followed MAIN, and how old its word is, is told by its mark: what was not read must not be taken for old.
        if answer.data.is_none() && !view.approved(pod) {
            return Some(Plan::wait(Reason::new(Rule::R14, Why::DataUnread { pod })));
        }
        // Before the others are asked: whatever they say, this MAIN cannot judge it. Its replicas come and go under load,
        // and a reason that comes and goes with them hides that a human is waited for.
        if too_old_to_judge(view, main, pod, answer) {
            let reason = Reason::new(Rule::R26, Why::TooOldToJudge { pod });
            return Some(Plan::wait(reason.on(view.said(pod))));
        }
        if let Some(reason) = nobody_confirms(view, main, pod) {
            return Some(Plan::wait(reason));
        }
    }
    if let Some(refusal) = refusal(view, main, pod) {
        return Some(refusal);
    }
    // A copy with which nothing is wrong, and perhaps the only one beside MAIN's.
    let protector = |s: Sync| view.answer(s.pod).is_some_and(|a| a.process == s.process);
    if wished && !view.record.sync.is_some_and(protector) {
        return Some(Plan::wait(Reason::new(Rule::Reset, Why::LastCopy { pod })));
    }
    if view.seen.object(pod).is_none() {
        return Some(Plan::wait(Reason::new(Rule::Reset, Why::PartnerAway { pod })));
    }
    let reset = Reset {
        pod,
        process: answer.process,
        id: ResetId(view.record.revision.next().0),
        term: view.record.term,
        since: view.now,
        keep: !wished && view.rules().on(Rule::R20) && may_hold_lost_write(main, pod, answer),
    };
    let next = forget_gone(view, view.record.resetting(reset));
    let why = if wished {
        Why::ResetWanted { pod }
    } else {
        Why::ResetReplica { pod }
    };
    let reason = Reason::new(Rule::Reset, why).on(view.said(pod));
    let plan = Plan::because(reason).then(Step::WriteRecord(Box::new(next)));
    Some(carry_out(view, &reset, plan))
}

/// `Error: 3` at registration or status `diverged`, said by this MAIN of this process.
///
/// The status is the registration's, and stays for some pings after the pod came back without its data: it says nothing of
/// an empty copy, and resetting that again would not end. A refusal names the process: an empty copy that is refused has
/// a history, such as that of a MAIN whose last transaction deleted everything.
pub(super) fn is_accused(view: &View<'_>, main: &Main, pod: Ordinal) -> bool {
    let process = view.answer(pod).map(|a| a.process);
    let refused = view.seen.pod(pod).and_then(|p| p.refusal).is_some_and(|r| {
        r.code == DIVERGED && r.by == main.process && Some(r.of) == process && r.term == main.term
    });
    let shown = |r: &Registration| r.name.pod() == pod && r.status == Status::Diverged;
    let listed = || {
        view.answer(main.pod)
            .is_some_and(|a| a.replicas.iter().flatten().any(shown))
    };
    refused || (!view.is_blank(pod) && listed())
}

/// A disk of another database never gives `Error: 3`: it stays `invalid` for ever.
fn has_foreign_data(main: &Main, answer: &Answer) -> bool {
    answer
        .data
        .is_some_and(|d| d.database != main.database && !d.is_blank())
}

/// Is MAIN's own history more likely wrong than its replicas' data (R26)?
fn main_is_suspect(view: &View<'_>, main: &Main) -> bool {
    if main.suspect {
        return true;
    }
    let peers: Vec<Ordinal> = view
        .seen
        .pods
        .iter()
        .map(|p| p.ordinal)
        .filter(|p| *p != main.pod && view.answer(*p).is_some())
        .collect();
    // With one peer "all of them" says nothing, and R14 would be dead. A rebuilt history is trusted.
    !main.rebuilt && peers.len() >= 2 && peers.into_iter().all(|p| is_accused(view, main, p))
}

/// `Error: 3` is believed when MAIN accepts somebody else. Until the others were asked it waits; if all of them
/// are refused, a human decides.
fn nobody_confirms(view: &View<'_>, main: &Main, pod: Ordinal) -> Option<Reason> {
    if view.approved(pod) {
        return None;
    }
    let others = view
        .seen
        .pods
        .iter()
        .map(|p| p.ordinal)
        .filter(|p| *p != main.pod && *p != pod && view.answer(*p).is_some());
    let (mut any, mut unasked) = (false, false);
    for other in others.filter(|other| !cannot_be_asked(view, main, *other)) {
        any = true;
        let listed = view
            .answer(main.pod)
            .into_iter()
            .flat_map(|a| View::registrations_of(a, other));
        let accepted = listed.into_iter().any(|r| {
            let works = matches!(r.status, Status::Ready | Status::Replicating | Status::Recovery);
            (r.attached && works) || view.is_fed(r)
        });
        if accepted {
            return None;
        }
        unasked |= !is_accused(view, main, other);
    }
    match (any, unasked) {
        (false, _) => None,
        (true, true) => Some(Reason::new(Rule::R26, Why::AskOthersFirst { pod })),
        // MAIN was restarted for it and says so still: true, unless a snapshot kept the wrong history.
        (true, false) if main.rebuilt && !keeps_snapshots(view, main) => None,
        (true, false) => Some(Reason::new(Rule::R26, Why::EverybodyAccused { main: main.pod })),
    }
}

/// MAIN has not reached this pod for so long that its word will not come: it counts as absent.
fn cannot_be_asked(view: &View<'_>, main: &Main, pod: Ordinal) -> bool {
    let mut listed = view
        .answer(main.pod)
        .into_iter()
        .flat_map(|a| View::registrations_of(a, pod));
    listed.any(|r| r.status == Status::Invalid && view.now.since(r.since) > view.spec().reset_patience)
}

fn keeps_snapshots(view: &View<'_>, main: &Main) -> bool {
    view.answer(main.pod)
        .and_then(|a| a.data)
        .is_none_or(|d| d.snapshots)
}

/// A replica that was away for a whole epoch is called diverged by a MAIN that restarted in that epoch, although
/// it is only behind. Nobody can tell by looking, so a human decides.
fn too_old_to_judge(view: &View<'_>, main: &Main, pod: Ordinal, answer: &Answer) -> bool {
    let mark = answer.data.and_then(|d| d.mark).map_or(Term(0), |m| m.term);
    mark < main.history_from && !view.approved(pod)
}

/// Ends MAIN's process with SIGKILL: it comes back by the init file, its history rebuilt from the log, and is
/// promoted in a new term. Nobody is reset meanwhile.
fn cure_main(view: &View<'_>, main: &Main) -> Plan {
    let reason = Reason::new(Rule::R26, Why::MainSuspect { main: main.pod }).on(view.said(main.pod));
    match view.seen.object(main.pod) {
        Some(object) => {
            let target = Target {
                pod: main.pod,
                process: main.process,
            };
            Plan::because(reason).then(Step::EndProcess {
                target,
                uid: object.uid,
            })
        }
        None => Plan::wait(reason),
    }
}

/// Why a diverged pod is not reset now.
fn refusal(view: &View<'_>, main: &Main, pod: Ordinal) -> Option<Plan> {
    let refuse = |rule, why| Some(Plan::wait(Reason::new(rule, why)));
    let approved = view.approved(pod);
    let protected = view.record.sync.is_some_and(|s| s.pod == pod);
    if pod == main.pod {
        return refuse(Rule::Reset, Why::MainSuspect { main: pod });
    }
    if protected && approved {
        let next = forget_gone(
            view,
            view.record
                .withdrawn(view.writes_unprotected(view.record.exposed)),
        );
        let reason = Reason::new(Rule::R14, Why::NeedsApproval { pod });
        return Some(Plan::because(reason).then(Step::WriteRecord(Box::new(next))));
    }
    let follower = follows(view, main, pod) && !approved;
    if protected || follower || (!view.rules().on(Rule::R14) && pod.is_authority() && !approved) {
        return refuse(Rule::R14, Why::NeedsApproval { pod });
    }
    if view.record.reset.is_some() {
        return refuse(Rule::Reset, Why::OtherReset { pod });
    }
    if view.seen.memory.resets_last_hour >= view.spec().resets_per_hour {
        return refuse(Rule::Reset, Why::TooManyResets { pod });
    }
    if view.seen.memory.crowded.contains(pod) {
        return refuse(Rule::Reset, Why::NoRoom { pod });
    }
    let young = view.now.since(view.record.since) < view.spec().reset_quiet;
    if young && !pod.is_authority() && view.rules().on(Rule::R20) && !approved {
        return refuse(Rule::R20, Why::MayHoldLostWrite { pod });
    }
    None
}

/// An ASYNC replica that did not follow this MAIN since it took the office may have what the one before sent to it and to
/// nobody else, and acknowledged (R20). A mark of another database says nothing about whom it followed.
fn may_hold_lost_write(main: &Main, pod: Ordinal, answer: &Answer) -> bool {
    let mark = answer.data.and_then(|d| d.mark);
    let followed = mark.is_some_and(|m| main.was_followed_by(m.term));
    !pod.is_authority() && (!followed || has_foreign_data(main, answer))
}

/// Has this pod of the pair followed this MAIN since it took the office? Then it is no ex-MAIN that rejoins: it may have
/// protected MAIN, and what it has that MAIN has not may be what MAIN acknowledged and lost. That needs a human's eye
/// (R14), also after MAIN was promoted again, which begins another term.
fn follows(view: &View<'_>, main: &Main, pod: Ordinal) -> bool {
    let mark = view.answer(pod).and_then(|a| a.data).and_then(|d| d.mark);
    pod.is_authority() && is_accused(view, main, pod) && mark.is_some_and(|m| main.was_followed_by(m.term))
}

/// Why the reset that a human asked for is not done, if that will not change by itself.
pub(super) fn unheeded(view: &View<'_>, main: &Main) -> Option<Reason> {
    let wish = view.seen.wishes.reset?;
    let pod = wish.pod;
    let answer = view.answer(pod).filter(|a| a.process == wish.process)?;
    let wrong = is_accused(view, main, pod) || has_foreign_data(main, answer);
    let part = pod == main.pod || pod.is_authority() && !wrong;
    part.then(|| Reason::new(Rule::Reset, Why::ResetUnheeded { pod }))
}

/// A reset that is in the record: carry it out, see its end, or drop it when it belongs to another term.
///
/// Of pods that `mine` names only: the reset of an ASYNC pod waits behind the pair, for its marker may not be
/// writable for a long time.
pub(super) fn pending(
    view: &View<'_>,
    main: &Main,
    answer: &Answer,
    mine: impl Fn(Ordinal) -> bool,
) -> Option<Plan> {
    let reset = view.record.reset.filter(|r| mine(r.pod))?;
    let pod = reset.pod;
    let overruled =
        reset.term != view.record.term || pod == main.pod || view.record.sync.is_some_and(|s| s.pod == pod);
    let successor = view.answer(pod).is_some_and(|a| a.process != reset.process);
    let ready = View::registrations_of(answer, pod).any(|r| r.attached && r.status == Status::Ready);
    let back = successor && ready && !view.is_hollow(main, pod);
    // It restarted before the marker was written: nothing was wiped, and a new request is needed.
    let missed = successor && is_accused(view, main, pod);
    let late = view.now.since(reset.since) > view.spec().reset_patience;
    if overruled || back || missed || late {
        let why = match (back, overruled || missed) {
            (true, _) => Why::ResetOver { pod },
            (false, true) => Why::ResetOverruled { pod },
            (false, false) => Why::ResetGivenUp { pod },
        };
        let next = forget_gone(view, view.record.reset_done());
        return Some(Plan::because(Reason::new(Rule::Reset, why)).then(Step::WriteRecord(Box::new(next))));
    }
    if !runs(view, pod, &reset) || view.seen.object(pod).is_none_or(|o| o.terminating) {
        return None;
    }
    let plan = Plan::because(Reason::new(Rule::Reset, Why::ResetPending { pod }));
    Some(carry_out(view, &reset, plan))
}

fn runs(view: &View<'_>, pod: Ordinal, reset: &Reset) -> bool {
    view.seen
        .object(pod)
        .is_some_and(|o| o.running == Some(reset.process))
}

/// Marker first, then the pod: an init container without a marker never asks.
fn carry_out(view: &View<'_>, reset: &Reset, plan: Plan) -> Plan {
    let Some(object) = view.seen.object(reset.pod) else {
        return plan;
    };
    let target = Target {
        pod: reset.pod,
        process: reset.process,
    };
    plan.then(Step::WriteMarker {
        target,
        id: reset.id,
        term: reset.term,
    })
    .then(Step::DeletePod {
        target,
        uid: object.uid,
    })
}
