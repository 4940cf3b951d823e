//! What can be made to go wrong.

use super::wire::Request;
use serde::{Deserialize, Serialize};
use sim::memgraph::instance::Rpc;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One fault, as the admin port takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// Something happens to requests of this MAIN to its replicas.
    Link(Rule),
    /// All rules about links are lifted.
    Heal,
    /// The process ends there, the next time it gets there.
    CrashAt {
        /// Where.
        point: CrashPoint,
    },
    /// What was not fsynced is gone at the next start.
    LoseTail,
    /// Recovery of a replica takes so long, between its two halves.
    SlowRecovery {
        /// How long.
        ms: u64,
    },
    /// The next registration fails with this number.
    FailRegister {
        /// 1 to 6.
        code: u8,
    },
    /// The next demotion finds its port taken.
    BindFail,
    /// Storage answers nothing for so long.
    HangEngine {
        /// How long.
        ms: u64,
    },
    /// From now on connections are accepted and nothing is answered.
    Freeze,
    /// What becomes of a DROP of a replica that has background work.
    BusyDrop {
        /// What.
        then: OnBusyDrop,
    },
    /// A promotion takes so long.
    SlowPromotion {
        /// How long.
        ms: u64,
    },
    /// Answers of Bolt come so much later.
    SlowBolt {
        /// How long.
        ms: u64,
    },
    /// The log is spoilt: the process does not start again.
    CorruptWal,
    /// Everything is as it should be again.
    Clear,
}

/// What happens to which requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The host of the replica; every one if not said.
    #[serde(default)]
    pub peer: Option<String>,
    /// The kind of request; every one if not said.
    #[serde(default)]
    pub rpc: Option<RpcKind>,
    /// What happens.
    pub effect: Effect,
    /// How often; for ever if not said.
    #[serde(default)]
    pub times: Option<u32>,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The connection is refused.
    Refuse,
    /// It vanishes, as in a partition.
    Swallow,
    /// It arrives; the answer vanishes.
    DropAnswer,
    /// It arrives so many milliseconds later.
    Delay(u64),
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RpcKind {
    /// Is the port open?
    Ping,
    /// A new MAIN.
    SwapMain,
    /// Which database, and away with the users.
    SystemRecovery,
    /// Where are you?
    Heartbeat,
    /// A transaction.
    Prepare,
    /// Its fate.
    Finalize,
    /// First half of a recovery.
    Clear,
    /// Second half.
    Files,
}

impl RpcKind {
    pub(super) const fn of(request: &Request) -> Self {
        match request {
            Rpc::Ping => Self::Ping,
            Rpc::SwapMain { .. } => Self::SwapMain,
            Rpc::SystemRecovery { .. } => Self::SystemRecovery,
            Rpc::Heartbeat { .. } => Self::Heartbeat,
            Rpc::Prepare { .. } => Self::Prepare,
            Rpc::Finalize { .. } => Self::Finalize,
            Rpc::Clear { .. } => Self::Clear,
            Rpc::Files { .. } => Self::Files,
        }
    }
}

/// A place where the process can be made to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrashPoint {
    /// A commit has begun; nothing is written or sent.
    BeforeWal,
    /// One phase: in the own log, not sent.
    AfterWal,
    /// Everybody has answered; two-phase: nobody has committed.
    AfterPrepare,
    /// Committed here, the replicas do not know.
    AfterLocalCommit,
    /// Committed everywhere, the client does not know.
    BeforeReply,
    /// As a replica: a transaction is prepared or applied, MAIN does not know.
    ReplicaAfterPrepare,
    /// As a replica: a prepared transaction is committed, MAIN does not know.
    ReplicaAfterFinalize,
    /// As a replica: between the two halves of a recovery.
    DuringRecoveryClear,
}

impl CrashPoint {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::BeforeWal,
        Self::AfterWal,
        Self::AfterPrepare,
        Self::AfterLocalCommit,
        Self::BeforeReply,
        Self::ReplicaAfterPrepare,
        Self::ReplicaAfterFinalize,
        Self::DuringRecoveryClear,
    ];
}

/// What becomes of a DROP of a replica that has background work. Real servers
/// did all three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBusyDrop {
    /// It goes well.
    #[default]
    Survive,
    /// The process ends.
    Crash,
    /// Nothing answers any more.
    Freeze,
}

#[derive(Debug, Default)]
pub(super) struct Active {
    pub(super) links: Vec<Rule>,
    pub(super) crash: Option<CrashPoint>,
    pub(super) slow_recovery_ms: u64,
    pub(super) fail_register: Option<u8>,
    pub(super) bind_fail: bool,
    pub(super) busy_drop: OnBusyDrop,
    pub(super) slow_promotion_ms: Option<u64>,
    pub(super) slow_bolt_ms: u64,
}

/// The faults in force.
#[derive(Debug, Default)]
pub(super) struct Faults(Mutex<Active>);

impl Faults {
    pub(super) fn active(&self) -> MutexGuard<'_, Active> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a fault that waits for its occasion; false if it is none of those.
    pub(super) fn note(&self, fault: &Fault) -> bool {
        let mut active = self.active();
        match fault {
            Fault::Link(rule) => active.links.push(rule.clone()),
            Fault::Heal => active.links.clear(),
            Fault::CrashAt { point } => active.crash = Some(*point),
            Fault::SlowRecovery { ms } => active.slow_recovery_ms = *ms,
            Fault::FailRegister { code } => active.fail_register = Some(*code),
            Fault::BindFail => active.bind_fail = true,
            Fault::BusyDrop { then } => active.busy_drop = *then,
            Fault::SlowPromotion { ms } => active.slow_promotion_ms = Some(*ms),
            Fault::SlowBolt { ms } => active.slow_bolt_ms = *ms,
            Fault::Clear => *active = Active::default(),
            Fault::LoseTail | Fault::HangEngine { .. } | Fault::Freeze | Fault::CorruptWal => return false,
        }
        true
    }

    /// What happens to a request, and one time less of it.
    pub(super) fn effect(&self, host: &str, kind: RpcKind) -> Option<Effect> {
        let mut active = self.active();
        let at = active.links.iter().position(|rule| {
            rule.peer.as_ref().is_none_or(|peer| peer == host) && rule.rpc.is_none_or(|rpc| rpc == kind)
        })?;
        let rule = active.links.get_mut(at)?;
        let effect = rule.effect;
        if let Some(times) = &mut rule.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                active.links.remove(at);
            }
        }
        Some(effect)
    }
}
