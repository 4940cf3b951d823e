//! One running stand-in: the model, its disk, and the locks of a real server.

use super::address::Address;
use super::clock::{random_id, random_uuid};
use super::config::Config;
use super::disk::{Contents, Disk, DiskError, Replica, Replication, Trigger, Users};
use super::faults::{CrashPoint, Faults};
use super::graph::{Graph, VertexId};
use super::link::Links;
use super::query::EvaluationError;
use super::wal::{Committed, State};
use sim::memgraph::instance::{
    Answer, DatabaseId, EpochId, Found, Instance, Listed, MainId, Network, NodeId, Registration,
    RegistrationName, Role, Rpc, Snapshot,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};

/// How the process is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It is not.
    No,
    /// SIGTERM.
    Graceful,
    /// As if killed.
    Killed,
}

/// One running stand-in.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) config: Config,
    /// Another process, another id.
    pub(super) run_id: String,
    core: Mutex<Core>,
    /// One commit at a time; whoever begins a storage transaction waits for it.
    pub(super) engine: tokio::sync::Mutex<()>,
    /// Over role and list of replicas: a commit holds it shared, and so long
    /// nobody can change either.
    pub(super) state: tokio::sync::RwLock<()>,
    /// As a replica: one request at a time, in releases that work so.
    pub(super) applying: tokio::sync::Mutex<()>,
    pub(super) faults: Faults,
    pub(super) links: Links,
    /// Something waits to be delivered to an ASYNC replica, or to be recovered.
    pub(super) work: Notify,
    pub(super) ending: watch::Sender<Ending>,
    /// Whether a crash may take the whole process with it.
    pub(super) own_process: bool,
    /// Everything that runs beside; ends with the server.
    tasks: Mutex<JoinSet<()>>,
}

/// Everything that changes.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) model: Instance<Graph>,
    pub(super) disk: Disk,
    pub(super) names: BTreeMap<RegistrationName, String>,
    pub(super) peers: BTreeMap<NodeId, Address>,
    pub(super) users: Users,
    pub(super) triggers: BTreeMap<String, Trigger>,
    /// Where a REPLICA listens, and who does it.
    pub(super) port: Option<u16>,
    pub(super) listener: Option<AbortHandle>,
    /// What the model has prepared: it goes to the log when it is committed.
    pub(super) prepared: Option<Committed>,
    /// Replicas that are to be told which database this is, and lose their users by it.
    pub(super) to_introduce: BTreeSet<RegistrationName>,
    pub(super) next_vertex: VertexId,
    /// Who may change which vertex.
    pub(super) claims: BTreeMap<VertexId, u64>,
    pub(super) next_transaction: u64,
    /// Transactions that hold an old state of the data.
    pub(super) open_transactions: u32,
}

/// Answers that were got before the model asks.
pub(super) struct Canned(pub(super) std::collections::VecDeque<Option<Answer>>);

impl Canned {
    pub(super) fn one(answer: Option<Answer>) -> Self {
        Self([answer].into())
    }
}

impl Network<Graph> for Canned {
    fn call(&mut self, _to: NodeId, _rpc: Rpc<Graph>) -> Option<Answer> {
        self.0.pop_front().flatten()
    }
}

impl Node {
    pub(super) async fn new(config: Config, own_process: bool) -> Result<Arc<Self>, DiskError> {
        let (disk, contents) = Disk::open(&config).await?;
        let core = Core::new(&config, disk, contents)?;
        let (ending, _) = watch::channel(Ending::No);
        Ok(Arc::new(Self {
            config,
            run_id: random_uuid(),
            core: Mutex::new(core),
            engine: tokio::sync::Mutex::new(()),
            state: tokio::sync::RwLock::new(()),
            applying: tokio::sync::Mutex::new(()),
            faults: Faults::default(),
            links: Links::default(),
            work: Notify::new(),
            ending,
            own_process,
            tasks: Mutex::new(JoinSet::new()),
        }))
    }

    /// Runs something beside, until it ends or the server does.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }

    /// Ends everything that runs beside.
    pub(super) fn stop(&self) {
        self.tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .abort_all();
    }

    /// Never held across an await.
    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends here if that was asked for. In a process of its own it really does.
    pub(super) async fn crash_point(&self, point: CrashPoint) {
        let here = self.faults.active().crash == Some(point);
        if here {
            self.crash().await;
        }
    }

    pub(super) async fn crash(&self) {
        if self.own_process {
            std::process::abort();
        }
        self.ending.send_replace(Ending::Killed);
        std::future::pending::<()>().await;
    }

    /// A disk that fails ends a database.
    pub(super) async fn written(&self, result: Result<(), DiskError>) {
        if let Err(error) = result {
            eprintln!("standin: {error}");
            self.crash().await;
        }
    }
}

impl Core {
    fn new(config: &Config, disk: Disk, contents: Contents) -> Result<Self, DiskError> {
        let Contents {
            state: State { store, runs },
            snapshot,
            replication,
            database,
            mut users,
            triggers,
        } = contents;
        let Replication {
            role,
            port,
            main,
            replicas,
        } = replication.unwrap_or_else(|| Replication {
            role: Role::Main,
            port: None,
            main: MainId(random_id()),
            replicas: Vec::new(),
        });
        let (mut names, mut peers, mut listed) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (number, Replica { name, mode, address }) in (1_u8..).zip(replicas) {
            let (id, peer) = (RegistrationName(u32::from(number)), NodeId(number));
            names.insert(id, name);
            peers.insert(peer, address);
            listed.push(Listed { name: id, mode, peer });
        }
        let next_vertex = store.0.next_id();
        let to_introduce = names.keys().copied().collect();
        let found = Found {
            role,
            main,
            db: database,
            store,
            runs,
            snapshot,
            replicas: listed,
        };
        let (epoch, writer) = (EpochId(random_id()), MainId(random_id()));
        if let Some((name, password)) = &config.user {
            users.insert(name.clone(), Some(password.clone()));
            disk.save_users(&users)?;
        }
        let mut model = Instance::started(config.profile, found, epoch, writer);
        // Start-up itself spends one.
        model.take_timestamp();
        Ok(Self {
            model,
            disk,
            names,
            peers,
            users,
            triggers,
            port,
            listener: None,
            prepared: None,
            to_introduce,
            next_vertex,
            claims: BTreeMap::new(),
            next_transaction: 0,
            open_transactions: 0,
        })
    }

    pub(super) fn name(&self, id: RegistrationName) -> &str {
        self.names.get(&id).map_or("", String::as_str)
    }

    pub(super) fn named(&self, name: &str) -> Option<RegistrationName> {
        self.names
            .iter()
            .find(|(id, known)| *known == name && self.model.registration(**id).is_some())
            .map(|(id, _)| *id)
    }

    /// The number for a name; one that is out of use may serve again.
    pub(super) fn number_name(&mut self, name: &str) -> RegistrationName {
        if let Some(id) = self.named(name) {
            return id;
        }
        let model = &self.model;
        self.names.retain(|id, _| model.registration(*id).is_some());
        let id = (1..=u32::from(u16::MAX))
            .map(RegistrationName)
            .find(|id| !self.names.contains_key(id))
            .unwrap_or(RegistrationName(0));
        self.names.insert(id, name.to_owned());
        id
    }

    /// The same for an address.
    pub(super) fn number_peer(&mut self, address: &Address) -> NodeId {
        let used: BTreeSet<NodeId> = self
            .model
            .registrations()
            .iter()
            .map(Registration::peer)
            .collect();
        self.peers.retain(|id, _| used.contains(id));
        if let Some((id, _)) = self.peers.iter().find(|(_, known)| *known == address) {
            return *id;
        }
        let id = (1..=u8::MAX)
            .map(NodeId)
            .find(|id| !self.peers.contains_key(id))
            .unwrap_or(NodeId(0));
        self.peers.insert(id, address.clone());
        id
    }

    pub(super) fn address(&self, peer: NodeId) -> Option<Address> {
        self.peers.get(&peer).cloned()
    }

    /// Role and list go to disk.
    pub(super) fn save_replication(&self) -> Result<(), DiskError> {
        let replicas = self
            .model
            .registrations()
            .iter()
            .filter_map(|entry| {
                Some(Replica {
                    name: self.names.get(&entry.name())?.clone(),
                    mode: entry.mode(),
                    address: self.address(entry.peer())?,
                })
            })
            .collect();
        self.disk.save_replication(&Replication {
            role: self.model.role(),
            port: self.port,
            main: self.model.main_id(),
            replicas,
        })
    }

    /// The data as it is, for a snapshot or a new log.
    pub(super) fn state(&self) -> State {
        State {
            store: self.model.store().clone(),
            runs: self.model.lineage().runs.clone(),
        }
    }

    /// Writes the snapshot that the model just took.
    pub(super) fn save_snapshot(&self) -> Result<Option<std::path::PathBuf>, DiskError> {
        match self.model.snapshot() {
            Some(snapshot) => self.disk.save_snapshot(snapshot, &self.state()).map(Some),
            None => Ok(None),
        }
    }

    /// A snapshot that came from MAIN.
    pub(super) fn save_received(&self, snapshot: &Snapshot) -> Result<(), DiskError> {
        self.disk.clear_snapshots()?;
        self.disk.save_snapshot(snapshot, &self.state()).map(drop)
    }

    pub(super) fn database(&self) -> DatabaseId {
        self.model.database_id()
    }

    /// Lets a transaction change a vertex, unless somebody else does or did.
    pub(super) fn claim(
        &mut self,
        id: VertexId,
        transaction: u64,
        seen: &Graph,
    ) -> Result<(), EvaluationError> {
        if self.claims.get(&id).is_some_and(|owner| *owner != transaction) {
            return Err(EvaluationError::Conflict);
        }
        let current = &self.model.store().0;
        if !Arc::ptr_eq(current, &seen.0) {
            // Its own new vertices are in neither.
            let before = seen.0.vertices.get(&id);
            if before.is_some() && current.vertices.get(&id) != before {
                return Err(EvaluationError::Conflict);
            }
        }
        self.claims.insert(id, transaction);
        Ok(())
    }

    pub(super) fn release(&mut self, transaction: u64) {
        self.claims.retain(|_, owner| *owner != transaction);
    }
}
