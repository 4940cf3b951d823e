//! The agent of one node: sees its pods, runs them, and says that it lives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sim::kube::Kind as Stored;
use sim::kube::controllers::{Write, name_of, uid_of};
use tokio::sync::{mpsc, watch};

use super::faults::Loss;
use super::lifecycle::Event;
use super::machine::Machine;
use super::network::Party;
use super::pod::{Events, PodRun};
use super::spec::{items, text};
use super::status::written;

const LEASES: &str = "kube-node-lease";

pub(super) struct Agent {
    name: String,
    machine: Arc<Machine>,
    host: std::net::Ipv4Addr,
    pods: BTreeMap<String, PodRun>,
    events: Events,
    heartbeat: SignedDuration,
    next_heartbeat: Timestamp,
}

impl Agent {
    /// Run a node until the machine stops.
    pub(super) async fn run(
        name: String,
        machine: Arc<Machine>,
        heartbeat: SignedDuration,
        mut mode: watch::Receiver<Option<Loss>>,
    ) {
        let (events, mut happened) = mpsc::unbounded_channel();
        let host = machine.network.join(Party::Other(format!("node {name}"))).front;
        let mut news = machine.kubernetes.changes();
        let next_heartbeat = machine.now();
        let mut agent = Self {
            name,
            machine,
            host,
            pods: BTreeMap::new(),
            events,
            heartbeat,
            next_heartbeat,
        };
        loop {
            if mode.borrow_and_update().is_some() {
                // Nothing is seen, said or done. What ends meanwhile waits in the channel.
                if mode.changed().await.is_err() {
                    return;
                }
                agent.next_heartbeat = agent.machine.now();
                news.mark_changed();
                continue;
            }
            agent.beat();
            let wait = agent.until_deadline();
            tokio::select! {
                changed = mode.changed() => if changed.is_err() { return },
                changed = news.changed() => {
                    if changed.is_err() { return }
                    agent.sync();
                }
                Some((uid, event)) = happened.recv() => agent.take_in(&uid, event),
                () = tokio::time::sleep(wait) => agent.tick(),
            }
        }
    }

    fn until_deadline(&self) -> Duration {
        let pods = self.pods.values().filter_map(PodRun::deadline);
        let next = pods
            .chain([self.next_heartbeat])
            .min()
            .unwrap_or(self.next_heartbeat);
        // A little late rather than a little early: an early look finds nothing and comes again at once.
        let wait = next.duration_since(self.machine.now()) + SignedDuration::from_millis(1);
        Duration::try_from(wait).unwrap_or_default()
    }

    fn take_in(&mut self, uid: &str, event: Event) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.handle(event);
        }
        self.forget_gone();
    }

    fn tick(&mut self) {
        let now = self.machine.now();
        for pod in self.pods.values_mut() {
            if pod.deadline().is_some_and(|at| at <= now) {
                pod.handle(Event::Tick);
            }
        }
        self.forget_gone();
    }

    fn forget_gone(&mut self) {
        self.pods.retain(|_, pod| !pod.is_gone());
    }

    /// See what is stored about this node's pods.
    fn sync(&mut self) {
        let mine: BTreeMap<String, Value> = self.machine.kubernetes.with_store(|store| {
            let pods = store.list(Stored::POD, None).into_iter();
            let mine = pods.filter(|pod| text(pod, "/spec/nodeName") == self.name);
            mine.map(|pod| (uid_of(pod).to_owned(), pod.clone())).collect()
        });
        for (uid, pod) in &mut self.pods {
            pod.seen(mine.get(uid));
        }
        for (uid, object) in mine {
            let over = matches!(text(&object, "/status/phase"), "Succeeded" | "Failed");
            if !self.pods.contains_key(&uid) && !over {
                let mut pod = PodRun::new(
                    Arc::clone(&self.machine),
                    self.events.clone(),
                    object.clone(),
                    self.host,
                );
                pod.seen(Some(&object));
                self.pods.insert(uid, pod);
            }
        }
        self.forget_gone();
        self.say_ready();
    }

    fn beat(&mut self) {
        let now = self.machine.now();
        if now < self.next_heartbeat {
            return;
        }
        self.next_heartbeat = now + self.heartbeat;
        let lease = self
            .machine
            .kubernetes
            .with_store(|store| store.get(Stored::LEASE, LEASES, &self.name).cloned());
        let write = match lease {
            Some(mut lease) => {
                if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
                    spec.insert("renewTime".to_owned(), format!("{now:.6}").into());
                }
                Write::Replace(lease)
            }
            None => Write::Create(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": self.name, "namespace": LEASES },
                "spec": { "holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": format!("{now:.6}") },
            })),
        };
        // Refused only if somebody else wrote it: then the next one gets through.
        let _ = self.machine.write(&write);
        self.say_ready();
    }

    /// Register, or say that the node is there again.
    fn say_ready(&self) {
        let node = self
            .machine
            .kubernetes
            .with_store(|store| store.get(Stored::NODE, "", &self.name).cloned());
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "the node agent is running",
            "lastHeartbeatTime": written(self.machine.now()), "lastTransitionTime": written(self.machine.now()),
        });
        let Some(mut node) = node else {
            let _ = self.machine.write(&Write::Create(self.description(&ready)));
            return;
        };
        let known = items(&node, "/status/conditions")
            .iter()
            .any(|condition| text(condition, "/type") == "Ready" && text(condition, "/status") == "True");
        if known || name_of(&node) != self.name {
            return;
        }
        if let Some(status) = node.get_mut("status").and_then(Value::as_object_mut) {
            status.insert("conditions".to_owned(), json!([ready]));
        }
        let _ = self.machine.write(&Write::ReplaceStatus(node));
    }

    fn description(&self, ready: &Value) -> Value {
        let size = json!({ "cpu": "64", "memory": "64Gi", "pods": "110" });
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": self.name, "labels": {
                "kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux",
            } },
            "spec": {},
            "status": {
                "conditions": [ready],
                "addresses": [
                    { "type": "InternalIP", "address": self.host.to_string() },
                    { "type": "Hostname", "address": self.name },
                ],
                "capacity": size, "allocatable": size,
                "nodeInfo": {
                    "architecture": std::env::consts::ARCH, "bootID": "", "containerRuntimeVersion": "sandbox://0",
                    "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "v1.33.0-sandbox", "machineID": "",
                    "operatingSystem": "linux", "osImage": "sandbox", "systemUUID": "",
                },
            },
        })
    }
}
