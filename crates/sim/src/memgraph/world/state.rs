//! One moment of a world. Cheap to clone and to hash: an explorer holds millions of them.

use super::config::{Budget, Config};
use super::numbered::Numbered;
use super::numbers::Numbers;
use super::shared::Shared;
use crate::memgraph::data::{Data, WriteId, WriteSet};
use crate::memgraph::instance::{self, Answer, DatabaseId, EpochId, Instance, MainId, Network, NodeId, Rpc};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::gate::Gate;
use mainstay_core::memgraph::ids::{self, Ordinal, PodUid, ProcessId, VolumeId};
use mainstay_core::memgraph::plan::{Step, Target};
use mainstay_core::memgraph::prepare::Marker;
use mainstay_core::memgraph::record::Override;
use mainstay_core::memgraph::turn::Turn;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A value whose hash is computed once: plans and records are shared by many states.
#[derive(Clone, Debug)]
pub struct Hashed<T> {
    value: Arc<T>,
    hash: u64,
    numbers: Numbers,
}

impl<T: Hash + Numbered> Hashed<T> {
    /// Wraps a value.
    pub fn new(mut value: T) -> Self {
        Self {
            hash: super::fingerprint::of(&value),
            numbers: Numbers::of(&mut value),
            value: Arc::new(value),
        }
    }

    /// Which numbers are in it.
    pub(super) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// The same value, changed.
    pub(super) fn changed(&self, change: impl FnOnce(&mut T)) -> Self
    where
        T: Clone,
    {
        let mut value = (*self.value).clone();
        change(&mut value);
        Self::new(value)
    }
}

impl<T> std::ops::Deref for Hashed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Hash for Hashed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl<T> PartialEq for Hashed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl<T> Eq for Hashed<T> {}

/// The commit in flight on a pod, and the client that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// Through which gateway; `None` after its session was cut.
    pub gateway: Option<u8>,
    /// Which write.
    pub write: WriteId,
}

/// A pod: its process, its volume and what is on it.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is one independent fact of the pod"
)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pod {
    /// Which run of the container; kept after its end.
    pub run: u8,
    /// Is it running?
    pub alive: bool,
    /// It runs and answers nobody, until it is ended.
    pub hung: bool,
    /// Changes when the pod is deleted and made anew.
    pub uid: u8,
    /// The pod was deleted: the next start runs the init container.
    pub recreate: bool,
    /// Which disk.
    pub volume: u8,
    /// The run that was last on this disk.
    pub last: u8,
    /// The reset marker on this disk.
    pub marker: Option<Marker>,
    /// Scaled away: it does not start.
    pub scaled_away: bool,
    /// Database and disk.
    pub db: Instance<Data>,
    /// A client's commit in flight.
    pub waiting: Option<Waiting>,
}

/// A gateway and its one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gateway {
    /// Its view of the record.
    pub gate: Gate,
    /// The process its session is connected to.
    pub session: Option<(u8, u8)>,
}

/// `Error: 3`, as an operator remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Remembered {
    /// The pod that was refused.
    pub pod: Ordinal,
    /// By which process.
    pub by: ProcessId,
    /// Which process.
    pub of: ProcessId,
    /// The number.
    pub code: u8,
    /// In which term.
    pub term: ids::Term,
}

/// What a human chose when naming a MAIN.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chosen {
    /// Which pod.
    pub pod: u8,
    /// What it held then.
    pub held: WriteSet,
    /// The term for which the loss was accepted last.
    pub accepted: Option<ids::Term>,
}

/// An operator: idle, or in a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operator {
    /// The turn under way.
    pub turn: Option<Hashed<Turn>>,
    /// The version of the record this turn may replace.
    pub version: u64,
    /// The version of the StatefulSet that this turn may replace.
    pub scale: u32,
    /// What it remembers of refusals.
    pub refused: Vec<Remembered>,
    /// The turn's fence was not met in time and it went on (policy `Proceed`).
    pub unfenced: bool,
}

/// Everything, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The pods.
    pub pods: Vec<Shared>,
    /// The record.
    pub record: Option<Hashed<Record>>,
    /// Its version: another one after every write.
    pub version: u64,
    /// The status of the cluster has shown this term.
    pub status_term: Option<ids::Term>,
    /// The gateways.
    pub gateways: Vec<Gateway>,
    /// The operators.
    pub operators: Vec<Operator>,
    /// Commands that timed out and may still execute.
    pub outstanding: Vec<Step>,
    /// Links that are cut, as pairs of pods (lower first).
    pub cut: Vec<(u8, u8)>,
    /// Writes that were acknowledged.
    pub acked: WriteSet,
    /// The next client write.
    pub next_write: u16,
    /// Fresh ids for epochs, mains and databases.
    pub next_id: u32,
    /// Sleep is wished.
    pub asleep: bool,
    /// The version of the StatefulSet.
    pub scale: u32,
    /// An override is wished.
    pub overriding: Option<Override>,
    /// The pod that a human chose.
    pub chosen: Option<Chosen>,
    /// Faults left.
    pub budget: Budget,
    /// How many writes the clients have in all.
    pub last_write: u16,
    /// Terms begun since the start, for the bounds.
    pub begun: u64,
    /// Writes of the record since the start, for the bounds.
    pub written: u64,
}

/// Which pod and run a process id means.
pub fn process(pod: u8, run: u8) -> ProcessId {
    ProcessId(u128::from(pod) * 1000 + u128::from(run) + 1)
}

/// The database that is born with a volume.
pub(super) fn database(pod: u8, volume: u8) -> DatabaseId {
    DatabaseId(u32::from(pod) * 1000 + u32::from(volume) + 1)
}

/// The pod and run of a process id.
pub(super) fn pod_and_run(process: ProcessId) -> (u8, u8) {
    let n = process.0.saturating_sub(1);
    (
        u8::try_from(n / 1000).unwrap_or(u8::MAX),
        u8::try_from(n % 1000).unwrap_or(u8::MAX),
    )
}

impl Pod {
    /// The process that runs, or ran last.
    pub fn process(&self, pod: u8) -> ProcessId {
        process(pod, self.run)
    }

    /// The claim behind its data.
    pub fn volume_id(&self, pod: u8) -> VolumeId {
        VolumeId(u128::from(pod) * 1000 + u128::from(self.volume) + 1)
    }

    /// Its pod object.
    pub fn pod_uid(&self, pod: u8) -> PodUid {
        PodUid(u128::from(pod) * 1000 + u128::from(self.uid) + 1)
    }
}

/// How many names a pod has: enough for the generations of a record that was rebuilt in its two hundredth term.
const NAMES: u64 = 1 << 28;

/// The name of a registration inside the model.
pub(super) fn model_name(name: ids::RegistrationName) -> instance::RegistrationName {
    let n = match name {
        ids::RegistrationName::Async(pod) => u64::from(pod.0) * NAMES,
        ids::RegistrationName::Strict(pod, generation) => {
            u64::from(pod.0) * NAMES + generation.0 % (NAMES - 1) + 1
        }
    };
    instance::RegistrationName(u32::try_from(n).unwrap_or(u32::MAX))
}

/// The name of a registration outside the model.
pub(super) fn core_name(name: instance::RegistrationName) -> ids::RegistrationName {
    let n = u64::from(name.0);
    let pod = Ordinal(u8::try_from(n / NAMES).unwrap_or(u8::MAX));
    match n % NAMES {
        0 => ids::RegistrationName::Async(pod),
        n => ids::RegistrationName::Strict(pod, ids::Gen(n - 1)),
    }
}

impl State {
    /// Empty pods, no record.
    pub fn fresh(config: &Config) -> Self {
        let mut next_id = 1;
        let mut id = || {
            next_id += 1;
            next_id - 1
        };
        let pods = (0..config.pods)
            .map(|pod| {
                let mut db = Instance::new(config.profile, database(pod, 0), EpochId(id()), MainId(id()));
                if !config.fsync {
                    db.relax_fsync();
                }
                let _ = db.demote(MainId(id()));
                Pod {
                    run: 0,
                    alive: true,
                    hung: false,
                    uid: 0,
                    recreate: false,
                    volume: 0,
                    last: 0,
                    marker: None,
                    scaled_away: false,
                    db,
                    waiting: None,
                }
                .into()
            })
            .collect();
        let gateway = Gateway {
            gate: Gate::default(),
            session: None,
        };
        Self {
            pods,
            record: None,
            version: 0,
            status_term: None,
            gateways: vec![gateway; usize::from(config.gateways)],
            operators: vec![Operator::default(); usize::from(config.operators)],
            outstanding: Vec::new(),
            cut: Vec::new(),
            acked: WriteSet::default(),
            next_write: 0,
            next_id,
            asleep: false,
            scale: 0,
            overriding: None,
            chosen: None,
            budget: Budget::default(),
            last_write: config.writes,
            begun: 0,
            written: 0,
        }
    }

    /// A pod by number.
    pub fn pod(&self, pod: u8) -> Option<&Pod> {
        self.pods.get(usize::from(pod)).map(|pod| &**pod)
    }

    /// A pod by number.
    pub fn pod_mut(&mut self, pod: u8) -> Option<&mut Pod> {
        self.pods.get_mut(usize::from(pod)).map(|pod| &mut **pod)
    }

    /// The pod in which this very process runs.
    pub fn running(&self, process: ProcessId) -> Option<(u8, &Pod)> {
        let (number, run) = pod_and_run(process);
        self.pod(number)
            .filter(|p| p.alive && p.run == run)
            .map(|p| (number, p))
    }

    /// Does this very process run and answer nobody?
    pub fn hangs(&self, target: Target) -> bool {
        self.running(target.process).is_some_and(|(_, pod)| pod.hung)
    }

    /// Is the link between two pods cut?
    pub fn is_cut(&self, a: u8, b: u8) -> bool {
        self.cut.contains(&(a.min(b), a.max(b)))
    }

    /// A fresh id.
    pub fn fresh_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Lets one database work with the others through the network.
    pub fn with_db<T>(
        &mut self,
        pod: u8,
        work: impl FnOnce(&mut Instance<Data>, &mut Net<'_>) -> T,
    ) -> Option<T> {
        let at = usize::from(pod);
        let (left, rest) = self.pods.split_at_mut_checked(at)?;
        let (own, right) = rest.split_first_mut()?;
        let mut net = Net {
            from: pod,
            left,
            right,
            cut: &self.cut,
        };
        Some(work(&mut own.db, &mut net))
    }
}

/// The network as one pod sees it.
#[derive(Debug)]
pub struct Net<'a> {
    from: u8,
    left: &'a mut [Shared],
    right: &'a mut [Shared],
    cut: &'a [(u8, u8)],
}

impl Network<Data> for Net<'_> {
    fn call(&mut self, to: NodeId, rpc: Rpc<Data>) -> Option<Answer> {
        let (a, b) = (self.from.min(to.0), self.from.max(to.0));
        if self.cut.contains(&(a, b)) {
            return None;
        }
        let pod = if to.0 < self.from {
            self.left.get_mut(usize::from(to.0))
        } else {
            let at = usize::from(to.0).checked_sub(usize::from(self.from) + 1)?;
            self.right.get_mut(at)
        }?;
        (pod.alive && !pod.hung).then(|| pod.db.serve(rpc))
    }

    fn hangs(&self, peer: NodeId) -> bool {
        let at = usize::from(peer.0);
        let right = at.checked_sub(usize::from(self.from) + 1);
        let pod = self.left.get(at).or_else(|| self.right.get(right?));
        pod.is_some_and(|p| p.alive && p.hung)
    }
}
