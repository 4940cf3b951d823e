//! One pod on its node: carries out what its lifecycle asks for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;
use serde_json::{Value, json};
use sim::kube::Kind as Stored;
use sim::kube::controllers::{Target, Write, name_of, namespace_of, uid_of};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use super::env::{Facts, Surroundings, launch, variables};
use super::faults::folder_of;
use super::lifecycle::{Action, ContainerId, Event, Lifecycle};
use super::machine::{Entry, Machine, Running};
use super::network::{Addresses, Party};
use super::paths::Paths;
use super::runner::{Inside, watch_to_end};
use super::spec::{PodSpec, ProbeKind, items, text};
use super::status::{Place, status};
use super::volumes::{Asked, Content, place, replace};

/// Where programs in a cluster look for their token.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_LIFE: SignedDuration = SignedDuration::from_hours(1);
/// A pod that was deleted by force has this long.
const FORCED_GRACE: SignedDuration = SignedDuration::from_secs(1);

/// Events of all pods of a node.
pub(super) type Events = UnboundedSender<(String, Event)>;

pub(super) struct PodRun {
    machine: Arc<Machine>,
    events: Events,
    object: Value,
    life: Lifecycle,
    folder: PathBuf,
    addresses: Addresses,
    host: std::net::Ipv4Addr,
    since: Timestamp,
    placed: BTreeMap<String, (Content, PathBuf)>,
    prepared: bool,
    token: (String, Timestamp),
    runs: u32,
    reported: Option<(Value, Value)>,
    deleting: Option<i64>,
    /// Probes and hooks; they end with the pod.
    tasks: JoinSet<()>,
}

impl PodRun {
    pub(super) fn new(
        machine: Arc<Machine>,
        events: Events,
        object: Value,
        host: std::net::Ipv4Addr,
    ) -> Self {
        let now = machine.now();
        let party = Party::pod(namespace_of(&object), name_of(&object));
        let addresses = machine.network.join(party.clone());
        let folder = machine.folder.join("pods").join(uid_of(&object));
        machine.enter(
            uid_of(&object),
            Entry {
                party,
                node: text(&object, "/spec/nodeName").to_owned(),
                folder: folder.clone(),
                addresses,
                containers: BTreeMap::new(),
            },
        );
        Self {
            life: Lifecycle::new(now, PodSpec::read(&object), machine.back_off),
            machine,
            events,
            object,
            folder,
            addresses,
            host,
            since: now,
            placed: BTreeMap::new(),
            prepared: false,
            token: (String::new(), now),
            runs: 0,
            reported: None,
            deleting: None,
            tasks: JoinSet::new(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.life.deadline()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.life.is_gone()
    }

    /// The pod as it is stored now; `None` if it is not any more.
    pub(super) fn seen(&mut self, object: Option<&Value>) {
        let grace = match object {
            Some(object) => {
                self.object.clone_from(object);
                let deleting = object
                    .pointer("/metadata/deletionTimestamp")
                    .is_some_and(Value::is_string);
                deleting.then(|| {
                    object
                        .pointer("/metadata/deletionGracePeriodSeconds")
                        .and_then(Value::as_i64)
                        .unwrap_or(30)
                })
            }
            None => Some(FORCED_GRACE.as_secs()),
        };
        if let Some(grace) = grace.filter(|grace| self.deleting.is_none_or(|before| *grace < before)) {
            self.deleting = Some(grace);
            self.handle(Event::Delete {
                grace: SignedDuration::from_secs(grace),
            });
        }
        let gates = items(&self.object, "/spec/readinessGates").iter().all(|gate| {
            items(&self.object, "/status/conditions").iter().any(|condition| {
                text(condition, "/type") == text(gate, "/conditionType")
                    && text(condition, "/status") == "True"
            })
        });
        self.handle(Event::Gates(gates));
        self.follow();
    }

    /// Take in an event and do what follows, and what follows from that.
    pub(super) fn handle(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.life.handle(self.machine.now(), event) {
                events.extend(self.carry_out(action));
            }
        }
        self.report();
    }

    fn carry_out(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Prepare => {
                let result = self.prepare();
                self.prepared = result.is_ok();
                Some(Event::Prepared(result))
            }
            Action::Start { container, attempt } => Some(self.start(container, attempt)),
            Action::PreStop(id) => {
                self.hook(&id);
                None
            }
            Action::Probe(id, kind) => {
                self.probe(id, kind);
                None
            }
            Action::Terminate(id) => self.signal(&id, Signal::TERM),
            Action::Kill(id) => self.signal(&id, Signal::KILL),
            Action::Gone => {
                self.clean_up();
                None
            }
        }
    }

    fn signal(&self, id: &ContainerId, signal: Signal) -> Option<Event> {
        let container = self.life.running(id)?;
        self.machine
            .any_entry(uid_of(&self.object))?
            .signal(Some(container), signal);
        None
    }

    fn facts(&self) -> Facts {
        Facts {
            host: self.host,
            pod: self.addresses.front,
        }
    }

    fn source(&self, kind: &str, name: &str) -> Option<Value> {
        let kind = if kind == "Secret" {
            Stored::SECRET
        } else {
            Stored::CONFIG_MAP
        };
        self.machine
            .kubernetes
            .with_store(|store| store.get(kind, namespace_of(&self.object), name).cloned())
    }

    /// Bring all volumes in line with the API.
    fn prepare(&mut self) -> Result<(), String> {
        let renewed = self.renew_token();
        let volumes = items(&self.object, "/spec/volumes").to_vec();
        for volume in &volumes {
            let name = text(volume, "/name").to_owned();
            let content = self.asked(|asked| asked.content(volume))?;
            if self.placed.get(&name).is_some_and(|(old, _)| *old == content) {
                continue;
            }
            let folder = self.folder.join("volumes").join(&name);
            let folder = place(folder, &content).map_err(|error| format!("volume {name:?}: {error}"))?;
            self.placed.insert(name, (content, folder));
        }
        if renewed {
            self.write_account().map_err(|error| error.to_string())
        } else {
            Ok(())
        }
    }

    fn asked<T>(&self, then: impl FnOnce(&Asked<'_>) -> T) -> T {
        let sources = |kind: &str, name: &str| self.source(kind, name);
        let namespace = namespace_of(&self.object);
        let claim = |name: &str| {
            self.machine
                .kubernetes
                .with_store(|store| folder_of(store, namespace, name))
        };
        then(&Asked {
            pod: &self.object,
            facts: self.facts(),
            sources: &sources,
            claim: &claim,
            token: &self.token.0,
        })
    }

    /// Files that come from the API follow it, once the pod has them.
    fn follow(&mut self) {
        if self.prepared && !self.life.is_gone() {
            // A source that is gone leaves the last files, as upstream.
            let _ = self.prepare();
        }
    }

    /// Says whether there is a new one to be written.
    fn renew_token(&mut self) -> bool {
        let now = self.machine.now();
        if now < self.token.1 || self.deleting.is_some() {
            return false;
        }
        let (namespace, account) = (
            namespace_of(&self.object),
            text(&self.object, "/spec/serviceAccountName"),
        );
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let bound = json!({ "kind": "Pod", "apiVersion": "v1", "name": name_of(&self.object), "uid": uid_of(&self.object) });
        let body = json!({ "spec": { "expirationSeconds": TOKEN_LIFE.as_secs(), "boundObjectRef": bound } });
        if let Ok(answer) = self.machine.post(path, &body) {
            self.token = (text(&answer, "/status/token").to_owned(), now + TOKEN_LIFE / 2);
        }
        true
    }

    fn write_account(&self) -> std::io::Result<()> {
        let folder = self.folder.join("serviceaccount");
        let mut files = BTreeMap::from([
            ("token".to_owned(), self.token.0.clone().into_bytes()),
            (
                "namespace".to_owned(),
                namespace_of(&self.object).as_bytes().to_vec(),
            ),
        ]);
        if let Some(api) = &self.machine.api {
            files.insert("ca.crt".to_owned(), api.listening.ca.clone().into_bytes());
            let config = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "pod",
                "clusters": [{ "name": "pod", "cluster": {
                    "server": format!("https://{}", api.relay),
                    "certificate-authority": folder.join("ca.crt"),
                    // The relay's address is not in the certificate.
                    "tls-server-name": "kubernetes.default.svc",
                } }],
                "users": [{ "name": "pod", "user": { "tokenFile": folder.join("token") } }],
                "contexts": [{ "name": "pod", "context": {
                    "cluster": "pod", "user": "pod", "namespace": namespace_of(&self.object),
                } }],
            });
            replace(&self.folder.join("kubeconfig"), config.to_string().as_bytes())?;
        }
        place(folder, &Content::Files(files)).map(drop)
    }

    fn container(&self, name: &str) -> Option<&Value> {
        let all = items(&self.object, "/spec/initContainers")
            .iter()
            .chain(items(&self.object, "/spec/containers"));
        all.into_iter().find(|container| text(container, "/name") == name)
    }

    fn surroundings(&self, container: &Value, root: PathBuf) -> Surroundings {
        let mounts = items(container, "/volumeMounts").iter().filter_map(|mount| {
            let (_, folder) = self.placed.get(text(mount, "/name"))?;
            let folder = match text(mount, "/subPath") {
                "" => folder.clone(),
                below => folder.join(below),
            };
            Some((text(mount, "/mountPath").to_owned(), folder))
        });
        let account = (ACCOUNT.to_owned(), self.folder.join("serviceaccount"));
        let hosts = self.machine.hosts_file(namespace_of(&self.object));
        let mut base = BTreeMap::from([
            (
                "PATH".to_owned(),
                std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned()),
            ),
            ("HOME".to_owned(), root.display().to_string()),
            ("HOSTNAME".to_owned(), name_of(&self.object).to_owned()),
            (super::hosts::VARIABLE.to_owned(), hosts.display().to_string()),
        ]);
        if let Some(api) = &self.machine.api {
            base.insert(
                "KUBECONFIG".to_owned(),
                self.folder.join("kubeconfig").display().to_string(),
            );
            base.insert("KUBERNETES_SERVICE_HOST".to_owned(), api.relay.ip().to_string());
            base.insert("KUBERNETES_SERVICE_PORT".to_owned(), api.relay.port().to_string());
        }
        Surroundings {
            paths: Paths::new([account].into_iter().chain(mounts), self.addresses.back),
            folder: root,
            base,
        }
    }

    /// An empty folder for a run: like a container's own file system, it does
    /// not survive a restart.
    fn fresh_root(&self, container: &str) -> std::io::Result<PathBuf> {
        let root = self.folder.join("root").join(container);
        if root.exists() {
            std::fs::remove_dir_all(&root)?;
        }
        std::fs::create_dir_all(&root)?;
        Ok(root)
    }

    fn start(&mut self, name: String, attempt: u32) -> Event {
        match self.try_start(&name, attempt) {
            Ok(id) => Event::Started { container: name, id },
            Err((reason, message)) => Event::NotStarted {
                container: name,
                reason,
                message,
            },
        }
    }

    fn try_start(&mut self, name: &str, attempt: u32) -> Result<ContainerId, (&'static str, String)> {
        let container = self
            .container(name)
            .ok_or_else(|| ("CreateContainerConfigError", "no such container".to_owned()))?;
        let program = self
            .machine
            .images
            .find(text(container, "/image"))
            .map_err(|why| ("ErrImagePull", why))?;
        let sources = |kind: &str, name: &str| self.source(kind, name);
        let variables = variables(&self.object, container, self.facts(), &sources)
            .map_err(|why| ("CreateContainerConfigError", why))?;
        let around = self.surroundings(
            container,
            self.fresh_root(name)
                .map_err(|error| ("RunContainerError", error.to_string()))?,
        );
        let launch = launch(container, program, &variables, &around);
        let party = Party::pod(namespace_of(&self.object), name_of(&self.object));
        let start = || self.machine.guard.start(&launch);
        let process = self.machine.network.begin(party, start).map_err(|error| {
            (
                "RunContainerError",
                format!("cannot start {}: {error}", launch.program.display()),
            )
        })?;
        self.runs += 1;
        let id = container_id(uid_of(&self.object), name, self.runs);
        let group = Arc::new(process.group);
        let running = Running {
            attempt,
            launch,
            paths: around.paths,
            group: Some(Arc::clone(&group)),
        };
        let uid = uid_of(&self.object).to_owned();
        self.machine.change(&uid, |entry| {
            entry.containers.insert(name.to_owned(), running);
        });
        let log = self.folder.join("logs").join(name).join(format!("{attempt}.log"));
        let (machine, events) = (Arc::clone(&self.machine), self.events.clone());
        let (run, name) = (id.clone(), name.to_owned());
        // Not a task of the pod: a lost agent does not end its processes.
        self.machine.tasks.spawn(async move {
            let exit = watch_to_end(process.child, group, log, Arc::clone(&machine)).await;
            machine.change(&uid, |entry| {
                if let Some(running) = entry.containers.get_mut(&name) {
                    running.group = None;
                }
            });
            let _ = events.send((uid, Event::Exited { id: run, exit }));
        });
        Ok(id)
    }

    fn inside(&self, id: &ContainerId) -> Option<Inside> {
        let name = self.life.running(id)?;
        let entry = self.machine.any_entry(uid_of(&self.object))?;
        Some(Inside {
            machine: Arc::clone(&self.machine),
            running: entry.containers.get(name)?.clone(),
            addresses: self.addresses,
            container: self.container(name)?.clone(),
        })
    }

    fn hook(&mut self, id: &ContainerId) {
        const LONGEST: Duration = Duration::from_hours(24);
        let Some(inside) = self.inside(id) else { return };
        let (events, uid, id) = (self.events.clone(), uid_of(&self.object).to_owned(), id.clone());
        self.tasks.spawn(async move {
            let handler = inside
                .container
                .pointer("/lifecycle/preStop")
                .cloned()
                .unwrap_or_default();
            // A hook that fails only ends the wait, as upstream.
            let _ = inside.handle(&handler, LONGEST).await;
            let _ = events.send((uid, Event::PreStopped { id }));
        });
    }

    fn probe(&mut self, id: ContainerId, probe: ProbeKind) {
        let Some(inside) = self.inside(&id) else { return };
        let (events, uid) = (self.events.clone(), uid_of(&self.object).to_owned());
        self.tasks.spawn(async move {
            let handler = inside.container.get(probe.field()).cloned().unwrap_or_default();
            let seconds = handler
                .get("timeoutSeconds")
                .and_then(Value::as_u64)
                .unwrap_or(1)
                .max(1);
            let result = inside.handle(&handler, Duration::from_secs(seconds)).await;
            let _ = events.send((uid, Event::Probed { id, probe, result }));
        });
    }

    /// Tell the API, if it does not know yet.
    pub(super) fn report(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        if self.deleting.is_some() && self.object.pointer("/metadata/deletionTimestamp").is_none() {
            return; // deleted by force: there is nothing to tell about
        }
        let place = Place {
            host: self.host,
            pod: self.addresses.front,
            since: self.since,
        };
        let wanted = status(self.machine.now(), &self.object, &self.life, place);
        let stored = self.object.get("status").cloned().unwrap_or_default();
        if self
            .reported
            .as_ref()
            .is_some_and(|(told, kept)| *told == wanted && *kept == stored)
        {
            return;
        }
        let mut object = self.object.clone();
        if let Some(object) = object.as_object_mut() {
            object.insert("status".to_owned(), wanted.clone());
        }
        // A conflict is resolved by the next look at the store.
        if let Ok(now) = self.machine.write(&Write::ReplaceStatus(object)) {
            self.reported = Some((wanted, now.get("status").cloned().unwrap_or_default()));
            self.object = now;
        }
    }

    fn clean_up(&mut self) {
        self.report();
        self.tasks.abort_all();
        let uid = uid_of(&self.object).to_owned();
        self.machine.leave(&uid);
        self.machine.network.leave(self.addresses);
        let _ = std::fs::remove_dir_all(&self.folder);
        let _ = self.machine.write(&Write::Delete {
            target: Target::of(&self.object),
            grace: Some(0),
        });
    }
}

/// As a runtime's: 64 hexadecimal digits that no other run has, also not in their first half, which is all that
/// some readers take.
fn container_id(uid: &str, name: &str, run: impl std::hash::Hash) -> ContainerId {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let part = |part: u8| format!("{:016x}", hasher.hash_one((part, uid, name, &run)));
    ContainerId(format!("sandbox://{}", (0..4).map(part).collect::<String>()))
}
