//! Why a plan is what it is, as data: rule, sentence, evidence. Status, Events, logs and `mainstay why`
//! print the same reasons.

use super::ids::{Ordinal, ProcessId, Revision, Term};
use super::observed::{Role, Status};
use super::rules::Rule;
use crate::time::Time;
use serde::Serialize;
use std::fmt;

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Source {
    /// The database in this pod.
    Database(Ordinal),
    /// The object of this pod.
    Kubernetes(Ordinal),
    /// The operator's own probes of this pod.
    Probe(Ordinal),
}

/// What was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Fact {
    /// Its role.
    Role(Role),
    /// Its pod is being deleted.
    Terminating,
    /// Another process runs in its place, or the kubelet reported its end.
    ProcessEnded,
    /// New connections were refused this often.
    Refused(u32),
    /// This many probes were not answered.
    Silent(u32),
    /// Cached status of a registration.
    Status(Status),
    /// The term in its data.
    Mark(Option<Term>),
}

/// A fact with its time, source and process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Evidence {
    /// What.
    pub fact: Fact,
    /// When.
    pub at: Time,
    /// Who said it.
    pub source: Source,
    /// About which process.
    pub process: Option<ProcessId>,
}

macro_rules! whys {
    ($($(#[$doc:meta])* $variant:ident $({ $($field:ident : $ty:ty),* })? => $fmt:literal,)*) => {
        /// The sentence of a reason, with what it speaks of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[allow(missing_docs, reason = "the sentence is the documentation")]
        pub enum Why {
            $($(#[$doc])* #[doc = $fmt] $variant $({ $($field: $ty),* })?,)*
        }

        impl fmt::Display for Why {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant $({ $($field),* })? => write!(f, $fmt),)*
                }
            }
        }
    };
}

whys! {
    Healthy { main: Ordinal } => "{main} serves and is protected; nothing to do",
    PausedByHuman { until: Time } => "paused until {until}: nothing is changed, failover included",
    // Failover
    MainTerminating { main: Ordinal } => "{main} is MAIN and its pod is being deleted",
    MainEnded { main: Ordinal } => "the process of MAIN on {main} ended",
    MainDemoted { main: Ordinal } => "{main} should be MAIN and answers as REPLICA",
    MainRefuses { main: Ordinal, times: u32 } => "{main} is MAIN and refused {times} new connections in a row",
    MainSilent { main: Ordinal, probes: u32 } => "{main} is MAIN and left {probes} probes unanswered",
    VetoedByGateway { main: Ordinal } => "{main} does not answer us, but a gateway just had an answer from it",
    NoNews { pod: Ordinal } => "{pod} has not answered since the record was read; not enough to act on",
    PromoteProtected { pod: Ordinal } => "{pod} is protected and takes the office",
    PromoteReturned { pod: Ordinal } => "{pod} is the recorded MAIN, back with the same volume, database and mark",
    NobodyEntitled { awaited: Ordinal } => "nobody is entitled to be MAIN: waiting for {awaited} to return with its volume; `mainstay override` names another and accepts the loss",
    MainVolumeLost { main: Ordinal, other: Ordinal } => "{main} lost its volume and {other} is not protected: a human must choose; {other} is the best copy, at most one transaction may be missing, and `mainstay override` makes it MAIN",
    // Terms
    TakeOver { pod: Ordinal } => "the term of {pod} was begun by another turn; it is taken over, and its process is loose from now on",
    CandidateSilent { pod: Ordinal } => "waiting for {pod}, the candidate of this term, to answer",
    PromotionHeldUp { pod: Ordinal } => "{pod} does not become MAIN: a transaction of the old MAIN may hold it up; the old MAIN is fenced, so the process of {pod} is ended, and its volume keeps the claim to the office",
    PromotionHeldUpUnfenced { pod: Ordinal } => "{pod} does not become MAIN: a transaction of the old MAIN may hold it up; the old MAIN cannot be fenced, and failover.fenceTimeout is Proceed: the process of {pod} is ended, its volume keeps the claim to the office, and one transaction in flight is at risk",
    CandidateReturned { pod: Ordinal } => "{pod} is back on the volume that has the claim to the office",
    CandidateRestarts { pod: Ordinal } => "waiting for {pod} to return on the volume that has the claim to the office",
    CandidateGone { pod: Ordinal } => "the process of {pod}, the candidate of this term, is gone",
    CandidateSpoiled { pod: Ordinal } => "{pod}, the candidate of this term, lost its data, and the recorded MAIN is there: it gets the office again",
    SuspiciousData { pod: Ordinal } => "the mark in the data of {pod} is not the one the record expects: it is not made MAIN, a human must look; `mainstay override` makes it MAIN all the same",
    DataUnread { pod: Ordinal } => "the mark of {pod} could not be read",
    // Pair
    StrayMain { pod: Ordinal } => "{pod} is a second MAIN and is demoted",
    PartnerAway { pod: Ordinal } => "{pod} does not answer: not protected until it returns",
    MainReadOnly { pod: Ordinal } => "SYNC replica {pod} is not ready: MAIN will become read-only until it recovers",
    RegistrationsUnread { main: Ordinal } => "SHOW REPLICAS on {main} was not answered",
    RegistrationWrong { pod: Ordinal } => "the registration of {pod} is not the one the record names",
    RegistrationLost { pod: Ordinal } => "the registration of {pod} is gone from MAIN: protection is withdrawn",
    ReplicaStuck { pod: Ordinal } => "the registration of {pod} does not recover by itself and is made anew",
    SyncAwayTooLong { pod: Ordinal } => "SYNC replica {pod} is away for longer than syncGrace: MAIN goes on without it",
    MainHangs { pod: Ordinal } => "the old MAIN {pod} hangs, and what it had begun may hold up its successor: its process is ended",
    SyncHangs { pod: Ordinal } => "SYNC replica {pod} hangs and holds every commit: its process is ended",
    PortClosed { pod: Ordinal } => "the replication port of {pod} is not open yet",
    JoinAsync { pod: Ordinal } => "{pod} is registered ASYNC to catch up",
    CatchingUp { pod: Ordinal } => "{pod} is catching up",
    HoldForJoin { pod: Ordinal } => "{pod} is nearly level: writes are held for a moment",
    HoldUnconfirmed { revision: Revision } => "waiting for every gateway to confirm {revision}",
    HoldOver { pod: Ordinal } => "{pod} did not become level in time: writes go on",
    JoinStrict { pod: Ordinal } => "{pod} is level: registered STRICT_SYNC",
    DropUnsafe { pod: Ordinal } => "the registration of {pod} has background work: dropping it now could crash MAIN",
    LooseProcess { pod: Ordinal } => "a promote may still hit the process of {pod}: it is ended once, then it can be proven",
    NewEpoch { pod: Ordinal } => "{pod} restarted in this epoch: MAIN begins a new one before {pod} can be protected",
    ProveNow { pod: Ordinal } => "{pod} is proven by a commit",
    GatewaysBehind { term: Term } => "not every gateway has confirmed {term}",
    CandidateTooSilent { pod: Ordinal } => "{pod}, the candidate of this term, has been silent for too long, and the recorded MAIN is there: it gets the office again",
    // Divergence
    ResetReplica { pod: Ordinal } => "{pod} is diverged and is reset; its data is kept in quarantine",
    ResetWanted { pod: Ordinal } => "a human asked for the reset of {pod}; its data is kept in quarantine",
    ResetUnheeded { pod: Ordinal } => "a human asked for the reset of {pod}, and it is not done: {pod} is MAIN or its partner and not diverged; move MAIN first, or remove the annotation `mainstay.dev/reset`",
    ResetPending { pod: Ordinal } => "the reset of {pod} is under way",
    ResetOver { pod: Ordinal } => "{pod} came back clean",
    ResetGivenUp { pod: Ordinal } => "the reset of {pod} did not end in time and is given up; it is asked for again if {pod} is still diverged",
    ResetOverruled { pod: Ordinal } => "the reset of {pod} belongs to another term and is dropped",
    MainSuspect { main: Ordinal } => "Error 3 accuses two, and the history of {main} is the suspect: nobody is reset, {main} is restarted once",
    AskOthersFirst { pod: Ordinal } => "{pod} is called diverged; it is believed when MAIN accepts another replica, so those are asked first",
    EverybodyAccused { main: Ordinal } => "{main} calls every replica diverged: a restart did not help, and a snapshot may keep a wrong history; nobody is reset, `mainstay approve` resets one",
    TooOldToJudge { pod: Ordinal } => "{pod} is called diverged, but its data is older than what the history of MAIN can judge: it may only be behind; not reset, `mainstay approve` resets it",
    TooManyResets { pod: Ordinal } => "{pod} is not reset: this hour has had its share of resets (spec.hardReset.perHour)",
    LastCopy { pod: Ordinal } => "{pod} is not reset: it is not diverged, nobody protects MAIN now, and it may be the only other copy",
    NoRoom { pod: Ordinal } => "{pod} is not reset: its volume has no room for a second copy; `mainstay quarantine purge` makes some",
    OtherReset { pod: Ordinal } => "{pod} is not reset yet: another reset is under way",
    MayHoldLostWrite { pod: Ordinal } => "{pod} is diverged in a young term: it may hold a write that nobody else has; not reset yet",
    NeedsApproval { pod: Ordinal } => "SYNC replica {pod} diverged - MANUAL INTERVENTION REQUIRED: `mainstay approve` resets it",
    ReplicaAhead { pod: Ordinal } => "{pod} has more than MAIN: MAIN lost its tail, writes are closed; `mainstay override` makes {pod} MAIN",
    MarkLost { main: Ordinal } => "the mark is gone from the data of {main} (somebody deleted it) and is written again",
    ClosedByPolicy => "writes are open, nobody protects them, and writesWithoutSync does not allow it",
    // Wishes
    SwitchoverWanted { pod: Ordinal } => "a move of MAIN to {pod} was asked for",
    SwitchoverRefused { pod: Ordinal } => "MAIN is not moved to {pod}: it is not protected and level",
    SwitchoverPaced { pod: Ordinal } => "the last move to {pod} was given up: the next one is tried in a while",
    MoveOutlasted { pod: Ordinal } => "MAIN is gone and {pod}, to which it was being moved, is not promoted: it is a failover now",
    SwitchoverGivenUp { pod: Ordinal } => "the move to {pod} took too long and is given up",
    Overridden { pod: Ordinal } => "a human made {pod} MAIN and accepted the loss",
    NothingThere { pod: Ordinal } => "{pod} is empty and the other authority pod may not be: it is not made MAIN, although a human named it; name the other one",
    FallAsleep => "sleep was asked for: writes are closed and the last state is proven first",
    Asleep => "asleep; failover and reset are off",
    WakeUp { pod: Ordinal } => "{pod} is back as it was and becomes MAIN",
    WaitForPods => "waiting for the pods to come back",
    WakeNeedsMain { main: Ordinal } => "waiting for {main}, which was MAIN when the cluster fell asleep, to answer; `mainstay override` names another",
    // Bootstrap
    NotReady { pod: Ordinal } => "waiting for {pod} to be ready and to answer every question",
    InitialState => "INITIAL_STATE: both authority pods are empty; pod-0 becomes MAIN",
    OperationalState { main: Ordinal } => "OPERATIONAL_STATE: {main} is MAIN and holds everything; it is adopted",
    UnknownState => "UNKNOWN_STATE: who holds the truth cannot be known; no command is sent, a human must choose (docs/runbooks/unknown-state.md)",
    ProveSuperset { main: Ordinal, pod: Ordinal } => "{pod} is registered at {main} to see whether {main} holds everything it holds",
    RecordRebuilt { main: Ordinal } => "the record was lost; {main} is the one MAIN with the highest term in its data",
    // ASYNC
    ExtraMain { pod: Ordinal } => "{pod} is outside the pair and answers as MAIN: it is demoted",
    Hollow { pod: Ordinal } => "{pod} is empty, and MAIN still calls it ready: MAIN commits once, and finds out",
    NotWanted { pod: Ordinal } => "{pod} is not part of the cluster any more: its registration is dropped",
}

impl Why {
    /// The pod whose reset this refuses or puts off: a human may want to know.
    pub fn refused_reset(&self) -> Option<Ordinal> {
        match self {
            Self::AskOthersFirst { pod }
            | Self::TooOldToJudge { pod }
            | Self::TooManyResets { pod }
            | Self::NoRoom { pod }
            | Self::LastCopy { pod }
            | Self::OtherReset { pod }
            | Self::MayHoldLostWrite { pod }
            | Self::NeedsApproval { pod }
            | Self::ResetUnheeded { pod }
            | Self::EverybodyAccused { main: pod }
            | Self::MainSuspect { main: pod } => Some(*pod),
            _ => None,
        }
    }

    /// The pod that this calls diverged.
    pub fn diverged(&self) -> Option<Ordinal> {
        match self {
            Self::ResetReplica { pod } | Self::ResetPending { pod } => Some(*pod),
            // The pod that is accused is not named, and the one that is named is MAIN; or nobody is accused.
            Self::EverybodyAccused { .. }
            | Self::MainSuspect { .. }
            | Self::LastCopy { .. }
            | Self::ResetUnheeded { .. } => None,
            other => other.refused_reset(),
        }
    }
}

/// Why a plan is what it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Reason {
    /// Which rule or paragraph.
    pub rule: Rule,
    /// The sentence.
    pub why: Why,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
}

impl Reason {
    /// A reason without evidence.
    pub fn new(rule: Rule, why: Why) -> Self {
        Self {
            rule,
            why,
            evidence: Vec::new(),
        }
    }

    /// Adds what it rests on.
    #[must_use]
    pub fn on(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.rule, self.why)
    }
}
