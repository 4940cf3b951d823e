//! Everything that can happen in a world, one indivisible thing at a time.

use super::observe::pod_letter;
use std::fmt;

/// How a turn looks at the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Look {
    /// As it is.
    Plain,
    /// It believes MAIN silent although it lives (a fault).
    Suspect,
    /// Every deadline has passed.
    Late,
    /// Both: it believes MAIN silent although it lives (a fault), and every deadline has passed.
    SuspectLate,
    /// A move of MAIN was asked for.
    Switchover,
    /// As it is, but this pod dies after it answered: its replication port is found closed (a fault).
    Dying(u8),
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// An operator reads the record, observes, decides.
    Observe(u8, Look),
    /// An operator does the next step of its turn.
    Step(u8),
    /// The next step of a turn times out: the turn ends, the command may execute later (a fault).
    StepLate(u8),
    /// An operator goes on although its fence did not come (policy `Proceed`).
    Proceed(u8),
    /// An operator dies, or its turn ends: the turn is forgotten, and what it remembered.
    Die(u8),
    /// An operator dies, and it or its successor looks. A search takes both in one: that a turn was forgotten
    /// cannot be told from one that is not gone on with, until somebody looks again.
    Again(u8, Look),
    /// A command that timed out executes.
    Execute(u8),
    /// A gateway reads the record: cuts, then confirms.
    Read(u8),
    /// A gateway connects to its MAIN and checks role and mark.
    Connect(u8),
    /// A client writes through this gateway: sent, and prepared where it must be.
    Write(u8),
    /// The commit in flight on this pod is in MAIN's data.
    CommitLocally(u8),
    /// The commit in flight is finalized on the replicas, or that fails.
    Finalize(u8),
    /// The commit in flight is answered.
    Acknowledge(u8),
    /// MAIN on this pod looks after the registration of that pod: pings, heartbeat, catch-up.
    Tend(u8, u8),
    /// MAIN on this pod empties that replica before it loads a snapshot.
    Empty(u8, u8),
    /// A database process dies (a fault).
    Crash(u8),
    /// The node of a pod loses power: what was not fsynced is gone (a fault).
    PowerLoss(u8),
    /// A pod is deleted, as by a drain, and made anew: its init container will run (a fault).
    Drain(u8),
    /// A pod starts.
    Start(u8),
    /// A pod that is down loses its volume (a fault).
    LoseVolume(u8),
    /// The link between two pods is cut (a fault).
    Cut(u8, u8),
    /// The link is back.
    Heal(u8, u8),
    /// Somebody drops a registration on this MAIN by hand (a fault).
    HandDrop(u8, u8),
    /// Somebody deletes the record (a fault).
    LoseRecord,
    /// The cluster is to sleep, or to wake.
    Sleep(bool),
    /// A human makes this pod MAIN.
    Override(u8),
    /// A human copies MAIN's data onto a diverged pod and starts it (the marker stays where it is).
    Repair(u8),
    /// MAIN on this pod takes a snapshot.
    Snapshot(u8),
    /// A client of this gateway deletes the mark, with everything else: `MATCH (n) DETACH DELETE n` (a fault).
    Unmark(u8),
    /// The process of a replica stops and answers nobody, until it is ended (a fault).
    Hang(u8),
    /// The commit on this pod that waited for a vote goes on: the replica is gone, or was waited for long enough.
    GiveUp(u8),
}

impl Action {
    /// Everything that can be said of a world with up to five pods, three gateways and three operators.
    pub fn all() -> impl Iterator<Item = Self> {
        let looks = [
            Look::Plain,
            Look::Suspect,
            Look::Late,
            Look::SuspectLate,
            Look::Switchover,
            Look::Dying(0),
            Look::Dying(1),
        ];
        let few = (0..3_u8).flat_map(move |n| {
            let observed = looks.map(move |look| Self::Observe(n, look));
            let again = looks.map(move |look| Self::Again(n, look));
            observed.into_iter().chain(again).chain([
                Self::Step(n),
                Self::StepLate(n),
                Self::Proceed(n),
                Self::Die(n),
                Self::Execute(n),
                Self::Read(n),
                Self::Connect(n),
                Self::Write(n),
                Self::Unmark(n),
            ])
        });
        let pods = (0..5_u8).flat_map(|n| {
            [
                Self::CommitLocally(n),
                Self::Finalize(n),
                Self::Acknowledge(n),
                Self::Crash(n),
                Self::PowerLoss(n),
                Self::Drain(n),
                Self::Start(n),
                Self::LoseVolume(n),
                Self::Override(n),
                Self::Repair(n),
                Self::Snapshot(n),
                Self::Hang(n),
                Self::GiveUp(n),
            ]
        });
        let pairs = (0..5_u8).flat_map(|a| {
            (0..5_u8).flat_map(move |b| {
                [
                    Self::Tend(a, b),
                    Self::Empty(a, b),
                    Self::Cut(a, b),
                    Self::Heal(a, b),
                    Self::HandDrop(a, b),
                ]
            })
        });
        few.chain(pods)
            .chain(pairs)
            .chain([Self::LoseRecord, Self::Sleep(true), Self::Sleep(false)])
    }

    /// The same of another operator, if it is an operator that acts.
    #[must_use]
    pub fn of_operator(self, name: impl Fn(u8) -> u8) -> Self {
        match self {
            Self::Observe(op, look) => Self::Observe(name(op), look),
            Self::Again(op, look) => Self::Again(name(op), look),
            Self::Step(op) => Self::Step(name(op)),
            Self::StepLate(op) => Self::StepLate(name(op)),
            Self::Proceed(op) => Self::Proceed(name(op)),
            Self::Die(op) => Self::Die(name(op)),
            other => other,
        }
    }

    /// Is this a fault, or a wish that nobody is obliged to have?
    pub fn is_fault(self) -> bool {
        matches!(
            self,
            Self::StepLate(_)
                | Self::Proceed(_)
                | Self::Observe(
                    _,
                    Look::Suspect | Look::SuspectLate | Look::Switchover | Look::Dying(_)
                )
                | Self::Die(_)
                | Self::Again(..)
                | Self::Execute(_)
                | Self::Crash(_)
                | Self::PowerLoss(_)
                | Self::Drain(_)
                | Self::LoseVolume(_)
                | Self::Cut(..)
                | Self::HandDrop(..)
                | Self::LoseRecord
                | Self::Sleep(true)
                | Self::Override(_)
                | Self::Repair(_)
                | Self::Snapshot(_)
                | Self::Unmark(_)
                | Self::Hang(_)
        )
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = |n: &u8| pod_letter(*n);
        match self {
            Self::Observe(op, Look::Plain) => write!(f, "op{op} looks"),
            Self::Observe(op, Look::Suspect) => write!(f, "op{op} looks and falsely suspects MAIN"),
            Self::Observe(op, Look::Late) => write!(f, "op{op} looks, deadlines have passed"),
            Self::Observe(op, Look::SuspectLate) => {
                write!(f, "op{op} looks and falsely suspects MAIN, deadlines have passed")
            }
            Self::Observe(op, Look::Switchover) => write!(f, "op{op} looks, a move of MAIN is wished"),
            Self::Observe(op, Look::Dying(n)) => write!(f, "op{op} looks, {} dies after it answered", p(n)),
            Self::Step(op) => write!(f, "op{op} steps"),
            Self::StepLate(op) => write!(f, "op{op}: its command times out, outstanding"),
            Self::Proceed(op) => write!(f, "op{op} goes on without a fence"),
            Self::Die(op) => write!(f, "op{op} dies"),
            Self::Again(op, look) => write!(f, "op{op} dies, and {}", Self::Observe(*op, *look)),
            Self::Execute(n) => write!(f, "outstanding command {n} executes"),
            Self::Read(g) => write!(f, "gw{g} reads the record"),
            Self::Connect(g) => write!(f, "gw{g} connects"),
            Self::Write(g) => write!(f, "gw{g}: a client writes"),
            Self::CommitLocally(n) => write!(f, "{} commits locally", p(n)),
            Self::Finalize(n) => write!(f, "{} finalizes", p(n)),
            Self::Acknowledge(n) => write!(f, "{} answers the client", p(n)),
            Self::Tend(m, r) => write!(f, "{} tends {}", p(m), p(r)),
            Self::Empty(m, r) => write!(f, "{} empties {} for a snapshot", p(m), p(r)),
            Self::Crash(n) => write!(f, "{} crashes", p(n)),
            Self::PowerLoss(n) => write!(f, "{} loses power", p(n)),
            Self::Drain(n) => write!(f, "the pod of {} is drained", p(n)),
            Self::Start(n) => write!(f, "{} starts", p(n)),
            Self::LoseVolume(n) => write!(f, "{} loses its volume", p(n)),
            Self::Cut(a, b) => write!(f, "link {}-{} is cut", p(a), p(b)),
            Self::Heal(a, b) => write!(f, "link {}-{} heals", p(a), p(b)),
            Self::HandDrop(m, r) => write!(f, "somebody drops {} on {} by hand", p(r), p(m)),
            Self::LoseRecord => write!(f, "somebody deletes the record"),
            Self::Sleep(true) => write!(f, "sleep is wished"),
            Self::Sleep(false) => write!(f, "waking is wished"),
            Self::Override(n) => write!(f, "a human makes {} MAIN", p(n)),
            Self::Repair(n) => write!(f, "a human repairs {}", p(n)),
            Self::Snapshot(n) => write!(f, "{} takes a snapshot", p(n)),
            Self::Unmark(g) => write!(f, "gw{g}: a client deletes everything, the mark too"),
            Self::Hang(n) => write!(f, "{} hangs", p(n)),
            Self::GiveUp(n) => write!(f, "{} waits for the vote no longer", p(n)),
        }
    }
}
