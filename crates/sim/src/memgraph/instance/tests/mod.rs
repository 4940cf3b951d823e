//! Three instances on a network that can lose things, driven by hand. Numbers
//! in brackets name the recording of real servers that a test repeats.

mod commits;
mod disks;
mod divergence;
mod registering;
mod roles;

use super::*;

pub(super) const R1: RegistrationName = RegistrationName(1);
pub(super) const R2: RegistrationName = RegistrationName(2);
pub(super) const R3: RegistrationName = RegistrationName(3);
/// The two releases that were recorded.
pub(super) const RECORDED: [Profile; 2] = [Profile::V3_6, Profile::V3_12];
pub(super) const SIGTERM: Stop = Stop::Graceful {
    snapshot_on_exit: true,
};

/// The data: which writes are in.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Writes(Vec<u16>);

impl Store for Writes {
    type Delta = u16;

    fn apply(&mut self, delta: &u16) {
        self.0.push(*delta);
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What the client was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    Acked,
    CommittedUnconfirmed,
    Aborted,
    Nothing,
}

/// What the network does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Loses {
    Nothing,
    FinalizeMessages,
    Votes,
}

pub(super) struct Cluster {
    nodes: Vec<Option<Instance<Writes>>>,
    down: Vec<NodeId>,
    pub(super) loses: Loses,
    /// Takes everything and answers nothing.
    pub(super) hung: Option<NodeId>,
    fresh: u32,
}

impl Network<Writes> for Cluster {
    fn call(&mut self, to: NodeId, rpc: Rpc<Writes>) -> Option<Answer> {
        let swallowed = match self.loses {
            Loses::FinalizeMessages => matches!(rpc, Rpc::Finalize { .. }),
            Loses::Nothing | Loses::Votes => false,
        };
        if swallowed || self.down.contains(&to) || self.hangs(to) {
            return None;
        }
        let vote_lost = self.loses == Loses::Votes && matches!(rpc, Rpc::Prepare { .. });
        let answer = self.nodes.get_mut(usize::from(to.0))?.as_mut()?.serve(rpc);
        (!vote_lost).then_some(answer)
    }

    fn hangs(&self, peer: NodeId) -> bool {
        self.hung == Some(peer)
    }
}

impl Cluster {
    /// Nodes 1 to 3 (0 is unused), all started on empty disks: MAINs.
    pub(super) fn new(profile: Profile) -> Self {
        let fresh = |id: u32| Some(Instance::new(profile, DatabaseId(id), EpochId(id), MainId(id)));
        Self {
            nodes: (0..4).map(fresh).collect(),
            down: Vec::new(),
            loses: Loses::Nothing,
            hung: None,
            fresh: 100,
        }
    }

    /// Node 1 MAIN, node 2 in `mode`, node 3 ASYNC.
    pub(super) fn trio(profile: Profile, mode: Mode) -> Self {
        let mut cluster = Self::new(profile);
        cluster.demote(2).unwrap();
        cluster.demote(3).unwrap();
        cluster.register(1, mode, 2).unwrap();
        cluster.register(1, Mode::Async, 3).unwrap();
        cluster
    }

    /// The same without node 3.
    pub(super) fn pair(profile: Profile, mode: Mode) -> Self {
        let mut cluster = Self::new(profile);
        cluster.demote(2).unwrap();
        cluster.register(1, mode, 2).unwrap();
        cluster
    }

    pub(super) fn fresh(&mut self) -> u32 {
        self.fresh += 1;
        self.fresh
    }

    pub(super) fn at(&self, node: u8) -> &Instance<Writes> {
        self.nodes[usize::from(node)].as_ref().unwrap()
    }

    pub(super) fn at_mut(&mut self, node: u8) -> &mut Instance<Writes> {
        self.nodes[usize::from(node)].as_mut().unwrap()
    }

    /// Lets a node act with the others as its network.
    pub(super) fn act<T>(&mut self, node: u8, act: impl FnOnce(&mut Instance<Writes>, &mut Self) -> T) -> T {
        let mut instance = self.nodes[usize::from(node)].take().unwrap();
        let result = act(&mut instance, self);
        self.nodes[usize::from(node)] = Some(instance);
        result
    }

    pub(super) fn promote(&mut self, node: u8) -> Result<(), Error> {
        let id = self.fresh();
        self.at_mut(node).promote(EpochId(id), MainId(id))
    }

    pub(super) fn demote(&mut self, node: u8) -> Result<(), Error> {
        let id = self.fresh();
        self.at_mut(node).demote(MainId(id))
    }

    /// Registers `peer` under its own number.
    pub(super) fn register(&mut self, main: u8, mode: Mode, peer: u8) -> Result<Status, Error> {
        let name = RegistrationName(u32::from(peer));
        self.act(main, |main, net| main.register(name, mode, NodeId(peer), net))
    }

    pub(super) fn begin(&mut self, main: u8, write: u16) -> Begun {
        self.act(main, |main, net| main.begin(write, net)).unwrap()
    }

    /// The rest of a write after `begin`.
    pub(super) fn complete(&mut self, main: u8) -> Told {
        let acknowledged = self.act(main, |main, net| {
            let two_phase = main.stage() == Some(Stage::Prepared);
            main.commit_locally().unwrap();
            if two_phase {
                main.finalize(net).unwrap();
            }
            main.finish().unwrap()
        });
        if acknowledged.unconfirmed.is_empty() {
            Told::Acked
        } else {
            Told::CommittedUnconfirmed
        }
    }

    pub(super) fn write(&mut self, main: u8, write: u16) -> Told {
        match self.begin(main, write) {
            Begun::Aborted(_) => Told::Aborted,
            Begun::Waiting => Told::Nothing,
            Begun::Prepared | Begun::Local => self.complete(main),
        }
    }

    /// A second or two of background work on a MAIN.
    pub(super) fn settle(&mut self, main: u8) {
        let names: Vec<_> = self
            .at(main)
            .registrations()
            .iter()
            .map(Registration::name)
            .collect();
        self.act(main, |main, net| {
            for name in names {
                if main.registration(name).unwrap().has_queued() {
                    main.deliver_async(name, net).unwrap();
                }
                if main.ping(name, net) == Ok(Pinged::Answered) {
                    let _ = main.check(name, net);
                    let _ = main.recover(name, net);
                }
            }
        });
    }

    /// Three pings of everybody.
    pub(super) fn outage(&mut self, main: u8) {
        (0..3).for_each(|_| self.settle(main));
    }

    pub(super) fn write_all(&mut self, main: u8, writes: impl IntoIterator<Item = u16>) {
        for write in writes {
            assert_eq!(self.write(main, write), Told::Acked, "write {write}");
            self.settle(main);
        }
    }

    pub(super) fn kill(&mut self, node: u8) {
        self.down.push(NodeId(node));
    }

    /// Starts a node that was killed; `stop` says how.
    pub(super) fn start(&mut self, node: u8, stop: Stop, init_file: bool) {
        let id = self.fresh();
        let restart = Restart {
            stop,
            init_file,
            main: MainId(id),
            epoch: EpochId(id),
        };
        self.at_mut(node).restart(restart);
        self.down.retain(|down| *down != NodeId(node));
    }

    pub(super) fn restart(&mut self, node: u8, stop: Stop) {
        self.start(node, stop, true);
    }

    pub(super) fn writes(&self, node: u8) -> &[u16] {
        &self.at(node).store().0
    }

    /// Status and `behind` of an attached registration.
    pub(super) fn shown(&self, main: u8, name: RegistrationName) -> Option<(Status, i64)> {
        let shown = self
            .at(main)
            .show_replicas()
            .unwrap()
            .find(|shown| shown.name == name)
            .unwrap();
        shown.info.map(
            |ShownInfo {
                 ts: _,
                 behind,
                 status,
             }| (status, behind),
        )
    }
}
