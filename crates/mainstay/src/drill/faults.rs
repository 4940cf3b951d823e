//! What each drill breaks, how one sees that it broke, and how it is undone.

use super::cluster::{Cluster, ClusterError, Grace, Look};
use super::reset::{ResetDrillError, diverge, marker_is_stale, stale_marker};
use super::undo::{Pending, Undo};
use crate::sandbox::control::{ControlError, Request, ask};
use clap::ValueEnum;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// What is drilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Drill {
    /// SIGKILL to MAIN.
    KillMain,
    /// SIGSTOP to MAIN, for longer than it takes to notice.
    HangMain,
    /// MAIN is cut off from everybody.
    PartitionMain,
    /// SIGKILL to the SYNC replica.
    KillSync,
    /// SIGKILL to the operator that leads.
    KillOperator,
    /// All databases are deleted at once.
    RestartAll,
    /// All databases are restarted one after the other, as `kubectl rollout restart` does.
    RollingRestart,
    /// MAIN is moved on request.
    Switchover,
    /// An ASYNC replica takes a write of its own.
    Diverge,
    /// A replica that an old marker lies on becomes MAIN, and its pod is made anew.
    StaleMarker,
}

/// Is MAIN only declared dead?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alive {
    /// No, it is dead.
    No,
    /// Yes, in this way.
    Yes(Living),
    /// Yes, and gateways hear nothing of it: only the fence is between a client and a lost write.
    BehindDeafGateways,
}

/// How a MAIN that still takes writes is declared dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Living {
    /// Each round in the next of the ways below.
    InTurn,
    /// Its pod is deleted with grace: a planned move, for it gives its office away before it ends.
    Delete,
    /// It stands still until the record names its successor, and goes on in the middle of the promotion: a failover.
    Stall,
    /// It is hidden from the operators for 8 s. Gateways still hear it and say so: it keeps its office, and no term begins.
    Hide,
}

/// What one round injects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "fault", rename_all = "kebab-case")]
pub(crate) enum Fault {
    /// SIGKILL to a pod; without a sandbox, deletion without grace.
    Kill { pod: String },
    /// Deletion of MAIN's pod, which goes on while it ends.
    Delete { pod: String },
    /// SIGSTOP until somebody else is MAIN.
    Hang { pod: String },
    /// SIGSTOP until a new term begins: MAIN goes on in the middle of the failover.
    Stall { pod: String },
    /// Cut off from everybody until somebody else is MAIN.
    Isolate { pod: String },
    /// Cut off from the operators only.
    Part { pod: String, from: Vec<String> },
    /// The same, and these gateways hear neither the operators nor the API: they go on with the MAIN they know.
    Deafen {
        pod: String,
        from: Vec<String>,
        gateways: Vec<String>,
    },
    /// The operator that leads is killed.
    KillOperator { pod: String },
    /// All databases are deleted.
    DeleteAll { pods: Vec<String> },
    /// All databases are made anew from another template, one after the other.
    Roll { pods: Vec<String> },
    /// MAIN is to be this one.
    Switchover { to: u8 },
    /// This replica has a write that nobody else has.
    Diverge { pod: String },
    /// An old marker is on its volume; it becomes MAIN and is made anew.
    StaleMarker { pod: String },
}

/// How one sees that a fault had its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A term above this one.
    Term(u64),
    /// A record other than this one.
    Record(Option<String>),
    /// A leader other than this one.
    Leader(String),
    /// Pods other than these, and a term above.
    Pods(Vec<(String, String)>, u64),
    /// This one is MAIN.
    Main(String),
    /// Somebody else than this one serves.
    Successor(String),
    /// This pod is another one, is `ready`, and there are more resets of it than so many.
    Reset(String, Option<String>, usize),
    /// This pod is another one, and its marker had no effect.
    Stale(String, Option<String>),
}

/// A false suspicion that the operator does not share within this time is one that it rightly ignored.
const SUSPICION: Duration = Duration::from_secs(8);

/// Why a fault could not be injected, or undone.
#[derive(Debug, Error)]
pub(crate) enum FaultError {
    /// Kubernetes said no.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The sandbox said no.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Only a sandbox can do it.
    #[error(
        "this needs a sandbox: the Kubernetes API can neither stop a process nor cut a network. Possible here: kill-main, kill-main --alive=delete, kill-sync, kill-operator, restart-all, rolling-restart, switchover"
    )]
    NeedsSandbox,
    /// A reset could not be brought about.
    #[error(transparent)]
    Reset(#[from] ResetDrillError),
    /// The status does not name the pod to break.
    #[error("the cluster's status names no {0}")]
    Nobody(&'static str),
}

/// With what faults are injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// A sandbox listens here.
    Sandbox(PathBuf),
    /// Nothing but the Kubernetes API.
    Api,
}

/// Injects faults, and knows what is still to be undone.
pub(crate) struct Injector {
    pub(crate) cluster: Cluster,
    pub(crate) means: Means,
    pending: Pending,
}

impl Drill {
    /// Can the Kubernetes API alone do it?
    pub(crate) fn needs_sandbox(self) -> bool {
        matches!(
            self,
            Self::HangMain | Self::PartitionMain | Self::Diverge | Self::StaleMarker
        )
    }
}

impl Alive {
    /// Can the Kubernetes API alone do it?
    pub(crate) fn needs_sandbox(self) -> bool {
        match self {
            Self::No | Self::Yes(Living::InTurn | Living::Delete) => false,
            Self::Yes(Living::Stall | Living::Hide) | Self::BehindDeafGateways => true,
        }
    }
}

impl Living {
    /// What it is in this round, from zero. The Kubernetes API alone can do nothing but delete.
    fn of(self, means: &Means, round: u32) -> Self {
        match (self, means, round % 3) {
            (Self::InTurn, Means::Api, _) | (Self::InTurn, Means::Sandbox(_), 0) => Self::Delete,
            (Self::InTurn, Means::Sandbox(_), 1) => Self::Stall,
            (Self::InTurn, Means::Sandbox(_), _) => Self::Hide,
            (certain, _, _) => certain,
        }
    }
}

fn ordinal(pod: &str) -> Result<u8, FaultError> {
    let number = pod.rsplit('-').next().and_then(|number| number.parse().ok());
    number.ok_or(FaultError::Nobody("number of that pod"))
}

impl Fault {
    /// How long to wait for its effect before it is undone anyway; `None`: there is no round without the effect.
    pub(crate) fn suspicion(&self) -> Option<Duration> {
        matches!(self, Self::Part { .. } | Self::Deafen { .. }).then_some(SUSPICION)
    }
}

impl Injector {
    pub(crate) fn new(cluster: Cluster, means: Means) -> Self {
        Self {
            cluster,
            means,
            pending: Pending::default(),
        }
    }

    /// What this round of a drill breaks.
    pub(crate) async fn choose(
        &self,
        drill: Drill,
        alive: Alive,
        round: u32,
        look: &Look,
    ) -> Result<Fault, FaultError> {
        let main = || look.main.clone().ok_or(FaultError::Nobody("MAIN"));
        let sync = || look.sync.clone().ok_or(FaultError::Nobody("SYNC replica"));
        Ok(match drill {
            Drill::KillMain => match alive {
                Alive::No => Fault::Kill { pod: main()? },
                Alive::Yes(living) => self.pretend(living.of(&self.means, round), main()?).await?,
                Alive::BehindDeafGateways => Fault::Deafen {
                    pod: main()?,
                    from: self.cluster.operators().await?,
                    gateways: self.cluster.gateways().await?,
                },
            },
            Drill::HangMain => Fault::Hang { pod: main()? },
            Drill::PartitionMain => Fault::Isolate { pod: main()? },
            Drill::KillSync => Fault::Kill { pod: sync()? },
            Drill::KillOperator => Fault::KillOperator {
                pod: self.leading().await?.0,
            },
            Drill::RestartAll => Fault::DeleteAll {
                pods: self.cluster.databases(look.replicas),
            },
            Drill::RollingRestart => Fault::Roll {
                pods: self.cluster.databases(look.replicas),
            },
            Drill::Switchover => Fault::Switchover {
                to: ordinal(&sync()?)?,
            },
            Drill::Diverge => Fault::Diverge {
                pod: self
                    .cluster
                    .databases(look.replicas)
                    .into_iter()
                    .nth(2)
                    .ok_or(FaultError::Nobody("ASYNC replica"))?,
            },
            Drill::StaleMarker => Fault::StaleMarker { pod: sync()? },
        })
    }

    async fn pretend(&self, living: Living, pod: String) -> Result<Fault, FaultError> {
        Ok(match living {
            Living::InTurn | Living::Delete => Fault::Delete { pod },
            Living::Stall => Fault::Stall { pod },
            Living::Hide => Fault::Part {
                pod,
                from: self.cluster.operators().await?,
            },
        })
    }

    /// The pod of the leader, and what it calls itself: the pod's name and something of this process.
    async fn leading(&self) -> Result<(String, String), FaultError> {
        let leader = self.cluster.leader().await?.ok_or(FaultError::Nobody("leader"))?;
        let pods = self.cluster.operators().await?;
        let pod = pods.into_iter().find(|pod| leader.starts_with(pod.as_str()));
        Ok((pod.ok_or(FaultError::Nobody("pod of the leader"))?, leader))
    }

    /// How one will see that it had its effect; asked before it is injected.
    pub(crate) async fn effect(&self, fault: &Fault, look: &Look) -> Result<Effect, FaultError> {
        Ok(match fault {
            Fault::Kill { pod } if look.main.as_ref() != Some(pod) => Effect::Record(look.record.clone()),
            Fault::Kill { .. }
            | Fault::Delete { .. }
            | Fault::Hang { .. }
            | Fault::Stall { .. }
            | Fault::Isolate { .. }
            | Fault::Part { .. } => Effect::Term(look.term),
            Fault::Deafen { pod, .. } => Effect::Successor(pod.clone()),
            Fault::KillOperator { .. } => Effect::Leader(self.leading().await?.1),
            Fault::DeleteAll { pods } | Fault::Roll { pods } => {
                let mut uids = Vec::new();
                for pod in pods {
                    if let Some(uid) = self.cluster.uid(pod).await? {
                        uids.push((pod.clone(), uid));
                    }
                }
                Effect::Pods(uids, look.term)
            }
            Fault::Switchover { to } => Effect::Main(format!("{}-{to}", self.cluster.name)),
            Fault::Diverge { pod } => Effect::Reset(
                pod.clone(),
                self.cluster.uid(pod).await?,
                look.resets_of(pod).count(),
            ),
            Fault::StaleMarker { pod } => Effect::Stale(pod.clone(), self.cluster.uid(pod).await?),
        })
    }

    /// Has it been seen?
    pub(crate) async fn seen(&self, effect: &Effect, now: &Look) -> Result<bool, FaultError> {
        Ok(match effect {
            Effect::Term(term) => now.term > *term,
            Effect::Record(record) => now.record != *record,
            Effect::Leader(before) => {
                let leader = self.cluster.leader().await?;
                leader.is_some_and(|leader| leader != *before && !leader.is_empty())
            }
            Effect::Pods(uids, term) => {
                for (pod, uid) in uids {
                    let now = self.cluster.uid(pod).await?;
                    if now.is_none_or(|now| now == *uid) {
                        return Ok(false);
                    }
                }
                now.term > *term
            }
            Effect::Main(pod) => now.main.as_ref() == Some(pod),
            Effect::Successor(pod) => now.ready && now.main.as_ref().is_some_and(|main| main != pod),
            Effect::Reset(pod, before, resets) => {
                now.resets_of(pod).count() > *resets
                    && now.is_reset(pod)
                    && self.cluster.uid(pod).await? != *before
            }
            Effect::Stale(pod, before) => {
                let uid = self.cluster.uid(pod).await?;
                uid.is_some() && uid != *before && marker_is_stale(&self.cluster, pod).await?
            }
        })
    }

    /// Breaks it.
    pub(crate) async fn inject(&self, fault: &Fault) -> Result<(), FaultError> {
        match fault {
            Fault::Kill { pod } => self.kill(&self.cluster.namespace, pod).await,
            Fault::KillOperator { pod } => self.kill(&self.cluster.operators, pod).await,
            Fault::Delete { pod } => Ok(self
                .cluster
                .delete(&self.cluster.namespace, pod, Grace::Own)
                .await?),
            Fault::DeleteAll { pods } => {
                for pod in pods {
                    self.cluster
                        .delete(&self.cluster.namespace, pod, Grace::Own)
                        .await?;
                }
                Ok(())
            }
            Fault::Roll { pods: _ } => Ok(self.cluster.roll().await?),
            Fault::Hang { pod } | Fault::Stall { pod } => {
                self.pending
                    .push(Undo::Ask(Request::Continue { pod: pod.clone() }));
                self.ask(Request::Stop { pod: pod.clone() }).await
            }
            Fault::Isolate { pod } => {
                self.pending.push(Undo::Ask(Request::Rejoin { pod: pod.clone() }));
                self.ask(Request::Isolate { pod: pod.clone() }).await
            }
            Fault::Part { pod, from } => self.part(pod, from).await,
            Fault::Deafen { pod, from, gateways } => {
                for gateway in gateways {
                    self.part(gateway, from).await?;
                    let pod = gateway.clone();
                    self.pending.push(Undo::Ask(Request::Hear { pod: pod.clone() }));
                    self.ask(Request::Deafen { pod }).await?;
                }
                self.part(pod, from).await
            }
            Fault::Diverge { pod } => diverge(&self.cluster, pod, ordinal(pod)?).await,
            Fault::StaleMarker { pod } => {
                self.pending.push(Undo::Wish);
                stale_marker(&self.cluster, pod, ordinal(pod)?).await
            }
            Fault::Switchover { to } => {
                self.pending.push(Undo::Wish);
                Ok(self.cluster.wish_main(Some(*to)).await?)
            }
        }
    }

    /// Undoes what is broken now, and what could not be undone before. A pod that is gone by now is mended.
    pub(crate) async fn undo(&self) -> Result<(), FaultError> {
        let undo = async |undo: &Undo| match undo {
            Undo::Ask(request) => match self.ask(request.clone()).await {
                Err(FaultError::Control(ControlError::Refused(_))) => Ok(()),
                other => other,
            },
            Undo::Wish => Ok(self.cluster.wish_main(None).await?),
        };
        self.pending.mend(undo).await
    }

    /// Holds back what this pod and those say to each other.
    async fn part(&self, pod: &str, from: &[String]) -> Result<(), FaultError> {
        for other in from {
            let (one, other) = (pod.to_owned(), other.clone());
            self.pending.push(Undo::Ask(Request::Join {
                one: one.clone(),
                other: other.clone(),
            }));
            self.ask(Request::Part { one, other }).await?;
        }
        Ok(())
    }

    async fn kill(&self, namespace: &str, pod: &str) -> Result<(), FaultError> {
        match &self.means {
            Means::Sandbox(_) => self.ask(Request::Kill { pod: pod.to_owned() }).await,
            Means::Api => Ok(self.cluster.delete(namespace, pod, Grace::None).await?),
        }
    }

    async fn ask(&self, request: Request) -> Result<(), FaultError> {
        match &self.means {
            Means::Sandbox(socket) => Ok(ask(socket, &request).await?),
            Means::Api => Err(FaultError::NeedsSandbox),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_lives_is_declared_dead_in_the_way_that_was_asked_for() {
        let sandbox = Means::Sandbox(PathBuf::new());
        let five = |living: Living, means: &Means| [0, 1, 2, 3, 4].map(|round| living.of(means, round));
        let [delete, stall, hide] = [Living::Delete, Living::Stall, Living::Hide];
        assert_eq!(
            five(Living::InTurn, &sandbox),
            [delete, stall, hide, delete, stall]
        );
        for living in [delete, stall, hide] {
            assert_eq!(five(living, &sandbox), [living; 5]);
        }
        assert_eq!(five(Living::InTurn, &Means::Api), [delete; 5]);
        let impossible = [stall, hide].map(|living| Alive::Yes(living).needs_sandbox());
        assert_eq!(impossible, [true, true]);
        assert!(!Alive::Yes(Living::InTurn).needs_sandbox() && !Alive::Yes(delete).needs_sandbox());
    }
}
