//! Faults of processes, nodes, network and volumes; each recorded with its time.
//!
//! A volume cannot be *filled* here: a folder has no size of its own, and a
//! quota needs privileges. What a full disk does to a program is injected in
//! the program.

use std::path::PathBuf;

use jiff::Timestamp;
use rustix::process::Signal;
use sim::kube::controllers::{Kind, View, name_of, namespace_of};

use super::Nodes;
use super::network::Party;
use super::spec::text;

/// How a node is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Only the agent is gone: processes live on, nobody probes or restarts them.
    Agent,
    /// The node stands still, with all its processes.
    Freeze,
    /// The power is cut: every process is gone at once.
    Power,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL to the processes of a pod.
    Kill(Party),
    /// SIGSTOP to the processes of a pod.
    Stop(Party),
    /// SIGCONT to the processes of a pod.
    Continue(Party),
    /// Bytes from the first to the second are held back.
    Cut(Party, Party),
    /// They are let through again.
    Heal(Party, Party),
    /// A node was lost.
    Lose(String, Loss),
    /// A node came back.
    Revive(String),
    /// The folder of a claim was emptied.
    Wipe(String, String),
}

/// A fault with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    /// When.
    pub at: Timestamp,
    /// What.
    pub fault: Fault,
}

/// Which way a cut goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Only from the first to the second.
    OneWay,
    /// Both ways.
    Both,
}

/// Why a fault could not be injected.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// No process of that pod and container runs.
    #[error("no process of {0} runs")]
    NothingRuns(Party),
    /// There is no such node.
    #[error("there is no node {0:?}")]
    NoNode(String),
    /// There is no such claim, or it has no folder yet.
    #[error("claim {0}/{1} has no folder")]
    NoVolume(String, String),
    /// The folder could not be emptied.
    #[error("the folder of the volume could not be emptied")]
    Wipe(#[source] std::io::Error),
}

impl Nodes {
    /// End the processes of a pod, or of one container, without warning.
    pub fn kill(&self, pod: &Party, container: Option<&str>) -> Result<(), FaultError> {
        self.signal(pod, container, Signal::KILL, Fault::Kill(pod.clone()))
    }

    /// Let the processes of a pod stand still: connections stay, nobody answers.
    pub fn stop_processes(&self, pod: &Party, container: Option<&str>) -> Result<(), FaultError> {
        self.signal(pod, container, Signal::STOP, Fault::Stop(pod.clone()))
    }

    /// Let them go on.
    pub fn continue_processes(&self, pod: &Party, container: Option<&str>) -> Result<(), FaultError> {
        self.signal(pod, container, Signal::CONT, Fault::Continue(pod.clone()))
    }

    fn signal(
        &self,
        pod: &Party,
        container: Option<&str>,
        signal: Signal,
        fault: Fault,
    ) -> Result<(), FaultError> {
        let hit: usize = self
            .machine
            .entries_of(pod)
            .iter()
            .map(|entry| entry.signal(container, signal))
            .sum();
        if hit == 0 {
            return Err(FaultError::NothingRuns(pod.clone()));
        }
        self.machine.record(fault);
        Ok(())
    }

    /// Cut the network between two parties.
    pub fn cut(&self, from: &Party, to: &Party, direction: Direction) {
        for (from, to) in pairs(from, to, direction) {
            self.machine.network.cut(from, to);
            self.machine.record(Fault::Cut(from.clone(), to.clone()));
        }
    }

    /// Undo a cut.
    pub fn heal(&self, from: &Party, to: &Party, direction: Direction) {
        for (from, to) in pairs(from, to, direction) {
            self.machine.network.heal(from, to);
            self.machine.record(Fault::Heal(from.clone(), to.clone()));
        }
    }

    /// Lose a node.
    pub fn lose(&self, node: &str, loss: Loss) -> Result<(), FaultError> {
        let mode = self
            .modes
            .get(node)
            .ok_or_else(|| FaultError::NoNode(node.to_owned()))?;
        self.machine.set_lost(node, true);
        mode.send_replace(Some(loss));
        match loss {
            Loss::Agent => {}
            Loss::Freeze => self.machine.signal_node(node, Signal::STOP),
            Loss::Power => self.machine.signal_node(node, Signal::KILL),
        }
        self.machine.record(Fault::Lose(node.to_owned(), loss));
        Ok(())
    }

    /// Bring a lost node back. It goes on with what it finds.
    pub fn revive(&self, node: &str) -> Result<(), FaultError> {
        let mode = self
            .modes
            .get(node)
            .ok_or_else(|| FaultError::NoNode(node.to_owned()))?;
        self.machine.signal_node(node, Signal::CONT);
        self.machine.set_lost(node, false);
        mode.send_replace(None);
        self.machine.record(Fault::Revive(node.to_owned()));
        Ok(())
    }

    /// Empty the folder of a claim, under whoever uses it.
    pub fn wipe(&self, namespace: &str, claim: &str) -> Result<(), FaultError> {
        let missing = || FaultError::NoVolume(namespace.to_owned(), claim.to_owned());
        let folder = self
            .volume(namespace, claim)
            .filter(|folder| folder.is_dir())
            .ok_or_else(missing)?;
        super::volumes::wipe(&folder).map_err(FaultError::Wipe)?;
        self.machine
            .record(Fault::Wipe(namespace.to_owned(), claim.to_owned()));
        Ok(())
    }

    /// The folder of a claim.
    pub fn volume(&self, namespace: &str, claim: &str) -> Option<PathBuf> {
        self.machine
            .kubernetes
            .with_store(|store| folder_of(store, namespace, claim))
    }

    /// Everything that was done, in order.
    pub fn happened(&self) -> Vec<Happened> {
        self.machine.happened()
    }
}

/// The folder of a bound claim.
pub(super) fn folder_of(view: &dyn View, namespace: &str, claim: &str) -> Option<PathBuf> {
    let claims = view.list(Kind::PersistentVolumeClaim);
    let claim = claims
        .into_iter()
        .find(|found| name_of(found) == claim && namespace_of(found) == namespace)?;
    let volumes = view.list(Kind::PersistentVolume);
    let volume = volumes
        .into_iter()
        .find(|volume| name_of(volume) == text(claim, "/spec/volumeName"))?;
    Some(text(volume, "/spec/hostPath/path"))
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

fn pairs<'a>(from: &'a Party, to: &'a Party, direction: Direction) -> Vec<(&'a Party, &'a Party)> {
    match direction {
        Direction::OneWay => vec![(from, to)],
        Direction::Both => vec![(from, to), (to, from)],
    }
}
