//! What must never happen, and what must always be possible.

use super::config::Config;
use super::observe::{Lens, Timeless};
use super::state::State;
use crate::memgraph::data::WriteId;
use crate::memgraph::instance::{Mode, Role, Status};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::reason::Why;
use mainstay_core::memgraph::record::{State as Phase, Writes};
use mainstay_core::memgraph::{Plan, decide};
use std::fmt;

/// Something that must never happen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Violation {
    /// The serving MAIN lacks an acknowledged write.
    Lost {
        /// Which.
        write: WriteId,
    },
    /// Two pods can acknowledge writes that reach them through a gateway.
    TwoMains,
    /// The only copy of an acknowledged write was wiped.
    WipedAcknowledged {
        /// Whose data.
        pod: Ordinal,
    },
    /// A pod was reset that held nothing MAIN lacks.
    WipedGoodCopy {
        /// Whose data.
        pod: Ordinal,
    },
    /// MAIN called a pod diverged that is not.
    FalseDivergence {
        /// Who said it.
        main: Ordinal,
        /// Of whom.
        accused: Ordinal,
    },
    /// A DROP hit a replica with background work: a real MAIN crashes or freezes.
    DropWhileWorking {
        /// Which MAIN.
        main: Ordinal,
        /// Which replica.
        replica: Ordinal,
    },
    /// A REGISTER went to a peer that does not listen: a real MAIN answers nothing for seconds.
    RegisterDead {
        /// Which MAIN.
        main: Ordinal,
        /// Which replica.
        replica: Ordinal,
    },
    /// A registration that MAIN had refused came alive when MAIN restarted.
    ZombieWoke {
        /// Which MAIN.
        main: Ordinal,
        /// Which replica.
        replica: Ordinal,
    },
    /// MAIN acknowledged a write that its STRICT_SYNC replica said yes to and did not take.
    MissingOnReplica {
        /// Which write.
        write: WriteId,
        /// Which replica.
        replica: Ordinal,
    },
    /// A plan broke an invariant.
    Invariant(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { write } => write!(f, "acknowledged write w{} is lost", write.0),
            Self::TwoMains => write!(f, "two pods can acknowledge writes at once"),
            Self::WipedAcknowledged { pod } => {
                write!(f, "the only copy of an acknowledged write was wiped on {pod}")
            }
            Self::WipedGoodCopy { pod } => write!(f, "a good copy was wiped on {pod}"),
            Self::FalseDivergence { main, accused } => {
                write!(f, "{main} calls {accused} diverged, and it is not")
            }
            Self::DropWhileWorking { main, replica } => {
                write!(
                    f,
                    "{main} was told to drop {replica} while it had background work"
                )
            }
            Self::RegisterDead { main, replica } => {
                write!(
                    f,
                    "{main} was told to register {replica}, which does not listen: it stalls"
                )
            }
            Self::ZombieWoke { main, replica } => write!(
                f,
                "{main} refuses every write: the registration of {replica} that it had refused came alive"
            ),
            Self::MissingOnReplica { write, replica } => write!(
                f,
                "w{} is acknowledged, and STRICT_SYNC replica {replica} does not have it",
                write.0
            ),
            Self::Invariant(text) => write!(f, "a plan broke an invariant: {text}"),
        }
    }
}

pub(super) enum Judged {
    Fine,
    Bad(Violation),
}

/// Where a state stands on the way back to serving and protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heal {
    /// Serving, protected, writes open.
    Whole,
    /// On its way, or not.
    Hurt,
    /// A human must decide, and the plan says so.
    Human(String),
}

impl State {
    pub(super) fn judge(&self, _config: &Config) -> Judged {
        if let Some(write) = self.lost_write() {
            return Judged::Bad(Violation::Lost { write });
        }
        if self.acknowledging() > 1 {
            return Judged::Bad(Violation::TwoMains);
        }
        Judged::Fine
    }

    /// An acknowledged write that the serving MAIN lacks.
    pub fn lost_write(&self) -> Option<WriteId> {
        let record = self.record.as_ref().filter(|r| r.state == Phase::Serving)?;
        let main = record.main.as_ref()?;
        let (_, pod) = self.running(main.process)?;
        if pod.db.role() != Role::Main || self.acked.is_within(&pod.db.store().writes) {
            return None;
        }
        self.acked.first_missing_in(&pod.db.store().writes)
    }

    /// How many pods can acknowledge a write through a gateway now.
    fn acknowledging(&self) -> usize {
        (0..self.pods.len())
            .filter_map(|n| u8::try_from(n).ok())
            .filter(|n| self.can_acknowledge(*n))
            .count()
    }

    fn can_acknowledge(&self, n: u8) -> bool {
        let Some(pod) = self
            .pod(n)
            .filter(|p| p.alive && !p.hung && p.db.role() == Role::Main)
        else {
            return false;
        };
        if pod.waiting.is_some_and(|w| w.gateway.is_some()) && pod.db.stage().is_some() {
            return true;
        }
        let session = self.gateways.iter().any(|g| g.session == Some((n, pod.run)));
        session
            && pod.db.registrations().iter().all(|r| {
                let strict = r.is_attached() && r.mode() == Mode::StrictSync;
                !strict || (r.status() == Status::Ready && self.follows(n, r.peer().0))
            })
    }

    fn follows(&self, main: u8, replica: u8) -> bool {
        let (Some(main_pod), Some(pod)) = (self.pod(main), self.pod(replica)) else {
            return false;
        };
        pod.alive
            && !pod.hung
            && !self.is_cut(main, replica)
            && pod.db.role() == Role::Replica
            && pod.db.main_id() == main_pod.db.main_id()
    }

    /// Serving, protected and open?
    pub fn heal(&self, config: &Config) -> Heal {
        if self.is_whole() {
            return Heal::Whole;
        }
        self.asks_human(config).map_or(Heal::Hurt, Heal::Human)
    }

    /// Serving, protected, writes open.
    pub fn is_whole(&self) -> bool {
        let Some(record) = &self.record else { return false };
        let (Some(main), Some(sync)) = (&record.main, record.sync) else {
            return false;
        };
        let serves = self
            .running(main.process)
            .is_some_and(|(_, p)| p.db.role() == Role::Main);
        let stands = self.running(sync.process).is_some()
            && self.follows(main.pod.0, sync.pod.0)
            && self.registered(main.pod.0, sync.name);
        record.state == Phase::Serving && record.writes == Writes::Open && serves && stands
    }

    /// Does an operator that looks now say what a human must decide?
    fn asks_human(&self, config: &Config) -> Option<String> {
        let lens = Timeless {
            suspect: None,
            late: true,
            dying: None,
            turn: 0,
        };
        self.asks_human_through(config, 0, &lens)
    }

    /// What this operator would decide if it looked now.
    pub fn would(&self, config: &Config, op: usize, lens: &impl Lens) -> Plan {
        let seen = self.observe(config, op, lens, None);
        decide(self.record.as_deref(), &seen, lens.now())
    }

    /// The same, as this operator sees it.
    pub fn asks_human_through(&self, config: &Config, op: usize, lens: &impl Lens) -> Option<String> {
        let plan = self.would(config, op, lens);
        if !plan.steps.is_empty() {
            return None;
        }
        let human = |why: &Why| {
            matches!(
                why,
                Why::MainVolumeLost { .. }
                    | Why::UnknownState
                    | Why::SuspiciousData { .. }
                    | Why::NeedsApproval { .. }
                    | Why::TooOldToJudge { .. }
                    | Why::EverybodyAccused { .. }
                    | Why::ReplicaAhead { .. }
                    | Why::NothingThere { .. }
                    | Why::Asleep
            )
        };
        plan.reasons
            .iter()
            .find(|r| human(&r.why))
            .map(ToString::to_string)
    }
}
