//! What a turn decided: steps, each one call with all its arguments, and the reasons.

use super::ids::{Gen, Ordinal, PodUid, ProcessId, ProofId, RegistrationName, ResetId, Revision, Term};
use super::observed::Mode;
use super::reason::Reason;
use super::record::Record;
use super::spec::FenceTimeout;
use crate::time::Time;
use serde::Serialize;
use std::fmt;

/// A database process that is meant by a command. Another process in the same pod is not (R36).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Target {
    /// Which pod.
    pub pod: Ordinal,
    /// Which run of its container.
    pub process: ProcessId,
}

/// One external call, fully determined. The executor makes no choice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Step {
    /// Create the record; fails if there is one (R18).
    CreateRecord(Box<Record>),
    /// Replace the record, with the version of this turn (R9).
    WriteRecord(Box<Record>),
    /// `SET REPLICATION ROLE TO REPLICA WITH PORT 10000`.
    Demote(Target),
    /// `SET REPLICATION ROLE TO MAIN`.
    Promote(Target),
    /// Tell every gateway the record that was just written; they cut, then confirm.
    PushRecord(Revision),
    /// Wait until the old MAIN cannot acknowledge anything (R1).
    AwaitFence {
        /// The process that held the office.
        old: Target,
        /// It starts as REPLICA, so its end is a fence (R13).
        start_fence: bool,
        /// The term the gateways must confirm.
        term: Term,
        /// When it does not come.
        otherwise: FenceTimeout,
    },
    /// Wait until every registered gateway confirmed this record: none forwards anything older.
    AwaitGateways(Term, Revision),
    /// Set the term in the data, by compare-and-swap inside the database; exactly one row or the turn ends.
    AdvanceMark {
        /// On which process.
        on: Target,
        /// The term it must have, unless it has the new one already; `None` creates the mark.
        from: Option<Term>,
        /// The new term.
        to: Term,
    },
    /// Run the user's statements: what Memgraph does not replicate (R23).
    RunOnPromotion(Target),
    /// `REGISTER REPLICA`.
    Register {
        /// On which MAIN.
        on: Target,
        /// Under which name.
        name: RegistrationName,
        /// In which mode.
        mode: Mode,
        /// Which process is expected there; only for the evidence of a refusal.
        peer: Target,
    },
    /// `DROP REPLICA`.
    Drop {
        /// On which MAIN.
        on: Target,
        /// Which name, exactly.
        name: RegistrationName,
    },
    /// A small commit on MAIN.
    WriteProof {
        /// On which MAIN.
        on: Target,
        /// What is written.
        proof: ProofId,
    },
    /// The commit must be seen on the replica, in the same process as before (R3).
    ReadProof {
        /// On which replica.
        on: Target,
        /// What must be seen.
        proof: ProofId,
    },
    /// End a process for good: SIGKILL through the pod's helper, so that no snapshot is taken on exit (R26).
    EndProcess {
        /// Which.
        target: Target,
        /// In which pod.
        uid: PodUid,
    },
    /// Ask the pod's helper to write the reset marker, if the process is still the one that was judged.
    WriteMarker {
        /// Whose data.
        target: Target,
        /// Which request.
        id: ResetId,
        /// In which term.
        term: Term,
    },
    /// Delete a pod by uid, with 30 s grace.
    DeletePod {
        /// Which.
        target: Target,
        /// Its uid.
        uid: PodUid,
    },
    /// Set the number of pods.
    Scale(u8),
}

impl Step {
    /// Does this step change the role of a database?
    pub fn is_role_command(&self) -> bool {
        matches!(self, Self::Demote(_) | Self::Promote(_))
    }

    /// The record this step writes, if it writes one.
    pub fn record(&self) -> Option<&Record> {
        match self {
            Self::CreateRecord(r) | Self::WriteRecord(r) => Some(r),
            _ => None,
        }
    }
}

/// What happens when a step is answered with an error. An unknown outcome always ends the turn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum OnRefusal {
    /// The turn ends.
    End,
    /// Go on: something later does not depend on it, or checks it.
    GoOn,
    /// Ask again, until a deadline of the executor ends the turn.
    Retry,
    /// If it left something behind, run this one step; then the turn ends (R32: a refused registration is
    /// dropped at once).
    Undo(Box<Step>),
}

/// A step and what its refusal means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Planned {
    /// The call.
    pub step: Step,
    /// What its refusal means.
    pub on_refusal: OnRefusal,
}

/// What a turn decided.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Default)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Planned>,
    /// Why these, and why not others.
    pub reasons: Vec<Reason>,
    /// When to look again even if nothing happens.
    pub wake: Option<Time>,
}

impl Plan {
    /// Nothing to do, because of this.
    pub fn wait(reason: Reason) -> Self {
        Self {
            steps: Vec::new(),
            reasons: vec![reason],
            wake: None,
        }
    }

    /// Something to do, because of this.
    pub fn because(reason: Reason) -> Self {
        Self::wait(reason)
    }

    /// Adds a step whose refusal ends the turn.
    #[must_use]
    pub fn then(self, step: Step) -> Self {
        self.then_or(step, OnRefusal::End)
    }

    /// Adds a step.
    #[must_use]
    pub fn then_or(mut self, step: Step, on_refusal: OnRefusal) -> Self {
        self.steps.push(Planned { step, on_refusal });
        self
    }

    /// Puts a step in front of the others.
    #[must_use]
    pub fn preceded_by(mut self, step: Step) -> Self {
        self.steps.insert(
            0,
            Planned {
                step,
                on_refusal: OnRefusal::End,
            },
        );
        self
    }

    /// Adds a reason.
    #[must_use]
    pub fn also(mut self, reason: Reason) -> Self {
        self.reasons.push(reason);
        self
    }

    /// Looks again at this time, or earlier if it was so planned.
    #[must_use]
    pub fn wake_at(mut self, at: Time) -> Self {
        self.wake = Some(self.wake.map_or(at, |w| w.min(at)));
        self
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pod)
    }
}

/// The STRICT_SYNC name of this pod in this generation.
pub fn strict_name(pod: Ordinal, generation: Gen) -> RegistrationName {
    RegistrationName::Strict(pod, generation)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateRecord(r) => write!(f, "create record: {}", r.headline()),
            Self::WriteRecord(r) => write!(f, "write record: {}", r.headline()),
            Self::Demote(t) => write!(f, "{t}: SET REPLICATION ROLE TO REPLICA WITH PORT 10000"),
            Self::Promote(t) => write!(f, "{t}: SET REPLICATION ROLE TO MAIN"),
            Self::PushRecord(r) => write!(f, "push {r} to every gateway"),
            Self::AwaitFence {
                old,
                term,
                otherwise,
                start_fence: _,
            } => {
                write!(f, "wait until {old} is fenced for {term} (else {otherwise:?})")
            }
            Self::AwaitGateways(_, r) => write!(f, "wait until every gateway confirmed {r}"),
            Self::AdvanceMark {
                on,
                from: Some(from),
                to,
            } => {
                write!(f, "{on}: mark {} -> {}", from.0, to.0)
            }
            Self::AdvanceMark { on, from: None, to } => write!(f, "{on}: create mark {}", to.0),
            Self::RunOnPromotion(t) => write!(f, "{t}: run the onPromotion statements"),
            Self::Register { on, name, mode, peer } => {
                write!(
                    f,
                    "{on}: REGISTER REPLICA {name} {} TO {}",
                    mode_word(*mode),
                    peer.pod
                )
            }
            Self::Drop { on, name } => write!(f, "{on}: DROP REPLICA {name}"),
            Self::WriteProof { on, proof } => write!(f, "{on}: commit {proof}"),
            Self::ReadProof { on, proof } => write!(f, "{on}: must show {proof}"),
            Self::EndProcess { target, uid: _ } => write!(f, "{target}: end its process"),
            Self::WriteMarker { target, id, term: _ } => write!(f, "{target}: write marker {id}"),
            Self::DeletePod { target, uid: _ } => write!(f, "{target}: delete pod, grace 30 s"),
            Self::Scale(n) => write!(f, "scale to {n}"),
        }
    }
}

fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Async => "ASYNC",
        Mode::Sync => "SYNC",
        Mode::StrictSync => "STRICT_SYNC",
    }
}
