//! A term that is held up: its candidate is there and is not promoted.
//!
//! From 3.12 a REPLICA refuses its promotion while a transaction of the old MAIN is prepared on it. If that MAIN
//! hangs, its process is ended (R30), and the transaction ends with the connection. If it is cut off, or its node
//! lost power, no byte tells the replica: only ending the replica's own process helps, and its claim must survive
//! that (R37).

use super::ids::{Ordinal, ProcessId, VolumeId};
use super::observed::Role;
use super::plan::{Plan, Step, Target};
use super::reason::{Reason, Why};
use super::record::{Candidate, Claim, Main, State};
use super::rules::Rule;
use super::spec::FenceTimeout;
use super::term::{self, How};
use super::view::View;

/// The candidate answers, and its promotion was tried for a while: whose process is in the way?
pub(super) fn held_up(view: &View<'_>, candidate: &Candidate) -> Option<Plan> {
    let main = view.record.main.as_ref().filter(|m| m.pod != candidate.pod)?;
    end_hanging_main(view, main).or_else(|| end_candidate(view, main, candidate))
}

/// The office of the old MAIN is lost already, and it comes back as REPLICA.
fn end_hanging_main(view: &View<'_>, main: &Main) -> Option<Plan> {
    if !view.rules().on(Rule::R30) || !view.holds_up_its_successor(main) {
        return None;
    }
    let reason = Reason::new(Rule::R30, Why::MainHangs { pod: main.pod });
    Some(Plan::because(reason).then(end(view, holder(main))?))
}

/// Passes the claim to the volume, then ends the process.
///
/// In this order: what the process had only prepared is dropped with it, and that is harmless only while the fence
/// stands (T2 is what happens otherwise). A process that somebody else ends before that is not followed (R2).
fn end_candidate(view: &View<'_>, main: &Main, candidate: &Candidate) -> Option<Plan> {
    let pod = candidate.pod;
    if !view.rules().on(Rule::R37) || view.record.state != State::NoMain || !view.loose(candidate.process) {
        return None;
    }
    let protected = candidate.forced.is_none()
        && view.answer(pod).is_some_and(|a| a.role == Role::Replica)
        && view.volume(pod) == Some(candidate.volume)
        && has_data_of(view, main, pod);
    let fence = fence(view, main).filter(|_| protected)?;
    let target = Target {
        pod,
        process: candidate.process,
    };
    let why = match fence {
        Fence::Death | Fence::Gateways => Why::PromotionHeldUp { pod },
        Fence::GivenUp => Why::PromotionHeldUpUnfenced { pod },
    };
    let reason = Reason::new(Rule::R37, why).on(view.said(pod));
    let plan = Plan::because(reason);
    let plan = match candidate.claim {
        Some(_) => plan,
        None => plan.then(Step::WriteRecord(Box::new(view.record.claimed(Claim {
            process: candidate.process,
            alone: fence == Fence::Death,
        })))),
    };
    Some(plan.then(end(view, target)?))
}

/// MAIN's process is gone or out of reach, and the candidate of its planned move is not promoted. A move waits for both of
/// them; as a failover it may end whoever is in the way, and pass a fence over: one look that MAIN missed is not enough.
pub(super) fn outlasted(view: &View<'_>, main: &Main) -> bool {
    let lost = view.seen.is_gone(main.pod, main.process) || view.out_of_reach(main).is_some();
    let tried = view.now.since(view.record.since) > view.spec().promotion_patience * 5;
    view.rules().on(Rule::R37) && lost && tried
}

/// Why a claim may pass now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fence {
    /// MAIN's process is over, and what follows it starts as REPLICA.
    Death,
    /// Every gateway confirmed the term.
    Gateways,
    /// Neither, and policy `Proceed`: a promotion would not wait for the fence either. What was only prepared is dropped
    /// by it, or here: the one transaction in flight that the policy gives up, whichever comes first.
    GivenUp,
}

impl Fence {
    /// For how long the promotion is tried before the candidate pays, in times of one promotion's patience.
    ///
    /// A MAIN that hung is ended first (R30), and what it had prepared usually ends with it. And the end of MAIN is worth
    /// waiting for: with it nobody doubts the history of what runs next. A kubelet needs two or three seconds to end a
    /// container and to say so; that of a node that is cut off never does, and meanwhile nobody writes. Longest where a
    /// transaction is given up.
    fn tries(self) -> u32 {
        match self {
            Self::Death => 10,
            Self::Gateways => 15,
            Self::GivenUp => 25,
        }
    }
}

/// May a claim pass now?
fn fence(view: &View<'_>, main: &Main) -> Option<Fence> {
    // A MAIN that answers ends its commit by itself, and can be demoted then.
    if view.answer(main.pod).is_some_and(|a| a.process == main.process) {
        return None;
    }
    // That another process answers there as REPLICA is not enough: a promote that is still under way makes it MAIN
    // again (T11).
    let start_fence = view.seen.object(main.pod).is_some_and(|o| o.start_fence);
    let fence = if start_fence && view.seen.is_gone(main.pod, main.process) {
        Fence::Death
    } else if view.seen.all_confirmed_term(view.record.term) {
        Fence::Gateways
    } else if view.spec().fence_timeout == FenceTimeout::Proceed {
        Fence::GivenUp
    } else {
        return None;
    };
    let patience = view.spec().promotion_patience * fence.tries();
    (view.now.since(view.record.since) > patience).then_some(fence)
}

/// The candidate's process is gone, and the claim was its volume's: who runs there now begins the next term.
pub(super) fn successor(view: &View<'_>, candidate: &Candidate) -> Option<Plan> {
    let main = view.record.main.as_ref().filter(|m| m.pod != candidate.pod)?;
    let pod = candidate.pod;
    inherited(view, pod, view.volume(pod)?)?;
    // The recorded MAIN has everything, too, and its history is right (R26).
    if view.returning(main.pod) {
        return None;
    }
    if view.answer(pod).is_none_or(|a| a.data.is_none()) {
        return Some(Plan::wait(Reason::new(Rule::R37, Why::CandidateRestarts { pod })));
    }
    let reason = Reason::new(Rule::R37, Why::CandidateReturned { pod }).on(view.said(pod));
    has_data_of(view, main, pod).then(|| term::begin(view, pod, view.record.exposed, How::Plain, reason))
}

/// The claim of the unfinished term, if this is its pod on its volume.
pub(super) fn inherited(view: &View<'_>, pod: Ordinal, volume: VolumeId) -> Option<Claim> {
    let candidate = view.record.candidate.as_ref()?;
    let same = candidate.pod == pod && candidate.volume == volume && view.record.state == State::NoMain;
    candidate.claim.filter(|_| same && view.rules().on(Rule::R37))
}

/// The process by whose history a candidate is judged (R26): its own, unless nothing can have been applied since the
/// protected one ended.
pub(super) fn judged_as(process: ProcessId, claim: Option<Claim>) -> ProcessId {
    claim.filter(|c| c.alone).map_or(process, |c| c.process)
}

/// MAIN's database, with a mark that nobody but MAIN, or this very candidacy, can have left.
fn has_data_of(view: &View<'_>, main: &Main, pod: Ordinal) -> bool {
    let same = view
        .answer(pod)
        .and_then(|a| a.data)
        .is_some_and(|d| d.database == main.database);
    same && matches!(view.mark(pod), Some(Some(t)) if t >= main.term && t <= view.record.term)
}

fn holder(main: &Main) -> Target {
    Target {
        pod: main.pod,
        process: main.process,
    }
}

fn end(view: &View<'_>, target: Target) -> Option<Step> {
    let uid = view.seen.object(target.pod)?.uid;
    Some(Step::EndProcess { target, uid })
}
