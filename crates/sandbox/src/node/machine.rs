//! What all nodes of a sandbox share: folders, programs, network, and a table
//! of what runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::Value;
use sim::kube::controllers::Write;
use sim::kube::{Answer, ApiRequest, Method, User};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::faults::{Fault, Happened};
use super::images::Images;
use super::lifecycle::BackOff;
use super::network::{Addresses, Network, Party};
use super::paths::Paths;
use super::process::{Group, Guard, Launch};
use crate::kube::{Kubernetes, Listening};

/// One machine that plays several nodes.
pub(super) struct Machine {
    pub(super) kubernetes: Kubernetes,
    pub(super) network: Network,
    pub(super) images: Images,
    pub(super) folder: PathBuf,
    pub(super) guard: Guard,
    pub(super) back_off: BackOff,
    pub(super) api: Option<ApiAddress>,
    pub(super) tasks: Tasks,
    table: Mutex<Table>,
}

/// Where pods find the API.
#[derive(Debug, Clone)]
pub(super) struct ApiAddress {
    pub(super) relay: std::net::SocketAddrV4,
    pub(super) listening: Listening,
}

#[derive(Default)]
struct Table {
    pods: BTreeMap<String, Entry>,
    lost: BTreeSet<String>,
    happened: Vec<Happened>,
}

/// A pod that is on this machine.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) party: Party,
    pub(super) node: String,
    pub(super) folder: PathBuf,
    pub(super) addresses: Addresses,
    pub(super) containers: BTreeMap<String, Running>,
}

/// The last run of a container.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) attempt: u32,
    pub(super) launch: Launch,
    pub(super) paths: Paths,
    /// `None` when it is over.
    pub(super) group: Option<Arc<Group>>,
}

/// Tasks that end with the machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Tasks {
    tracker: TaskTracker,
    pub(super) end: CancellationToken,
}

impl Tasks {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let end = self.end.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = end.cancelled() => {}
                () = task => {}
            }
        });
    }

    pub(super) async fn stop(&self) {
        self.end.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

impl Machine {
    pub(super) fn new(
        kubernetes: Kubernetes,
        network: Network,
        images: Images,
        folder: PathBuf,
        back_off: BackOff,
        api: Option<ApiAddress>,
    ) -> std::io::Result<Self> {
        Ok(Self {
            kubernetes,
            network,
            images,
            guard: Guard::new(&folder)?,
            folder,
            back_off,
            api,
            tasks: Tasks::default(),
            table: Mutex::default(),
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.kubernetes.now()
    }

    /// Write; the answer is the object as it is now, or the status of a refusal.
    pub(super) fn write(&self, write: &Write) -> Result<Value, Value> {
        let request = self
            .kubernetes
            .with_store(|store| write.request(store))
            .ok_or(Value::Null)?;
        self.ask(&request)
    }

    pub(super) fn post(&self, path: String, body: &Value) -> Result<Value, Value> {
        self.ask(&ApiRequest {
            method: Method::Post,
            path,
            query: Vec::new(),
            content_type: Some("application/json".to_owned()),
            accept: None,
            user: User::admin(),
            body: body.to_string().into_bytes(),
        })
    }

    fn ask(&self, request: &ApiRequest) -> Result<Value, Value> {
        match self.kubernetes.handle(request) {
            Answer::Done { code: 200..300, body } => Ok(body),
            Answer::Done { body, .. } => Err(body),
            Answer::Watch(_) | Answer::Stream(_) => Err(Value::Null),
        }
    }

    pub(super) fn hosts_file(&self, namespace: &str) -> PathBuf {
        self.folder.join("hosts").join(namespace)
    }

    pub(super) fn enter(&self, uid: &str, entry: Entry) {
        self.table().pods.insert(uid.to_owned(), entry);
    }

    pub(super) fn leave(&self, uid: &str) {
        self.table().pods.remove(uid);
    }

    pub(super) fn change(&self, uid: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.table().pods.get_mut(uid) {
            change(entry);
        }
    }

    /// A pod by uid, if its node is there to be asked.
    pub(super) fn entry(&self, uid: &str) -> Option<Entry> {
        let table = self.table();
        table
            .pods
            .get(uid)
            .filter(|entry| !table.lost.contains(&entry.node))
            .cloned()
    }

    /// A pod by uid, for its own node.
    pub(super) fn any_entry(&self, uid: &str) -> Option<Entry> {
        self.table().pods.get(uid).cloned()
    }

    /// All pods of a name, usually one; also those of a lost node.
    pub(super) fn entries_of(&self, party: &Party) -> Vec<Entry> {
        self.table()
            .pods
            .values()
            .filter(|entry| entry.party == *party)
            .cloned()
            .collect()
    }

    /// Signal everything that runs on a node.
    pub(super) fn signal_node(&self, node: &str, signal: Signal) {
        let entries: Vec<Entry> = self
            .table()
            .pods
            .values()
            .filter(|entry| entry.node == node)
            .cloned()
            .collect();
        for entry in entries {
            entry.signal(None, signal);
        }
    }

    /// End every process, whoever still holds on to it.
    pub(super) fn kill_all(&self) {
        let entries: Vec<Entry> = self.table().pods.values().cloned().collect();
        for entry in entries {
            entry.signal(None, Signal::KILL);
        }
    }

    pub(super) fn set_lost(&self, node: &str, lost: bool) {
        let mut table = self.table();
        if lost {
            table.lost.insert(node.to_owned());
        } else {
            table.lost.remove(node);
        }
    }

    pub(super) fn record(&self, fault: Fault) {
        let at = self.now();
        self.table().happened.push(Happened { at, fault });
    }

    pub(super) fn happened(&self) -> Vec<Happened> {
        self.table().happened.clone()
    }
}

impl Entry {
    /// Signal one container or all. Says how many got it.
    pub(super) fn signal(&self, container: Option<&str>, signal: Signal) -> usize {
        let chosen = self
            .containers
            .iter()
            .filter(|(name, _)| container.is_none_or(|wanted| wanted == *name));
        let groups: Vec<_> = chosen.filter_map(|(_, running)| running.group.as_ref()).collect();
        for group in &groups {
            group.signal(signal);
        }
        groups.len()
    }
}
