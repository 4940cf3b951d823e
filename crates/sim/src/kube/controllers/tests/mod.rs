//! Controllers against the real store, with nodes that do what they are told.

mod others;
mod random;
mod stateful_sets;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::object::{is_deleting, set, with, with_condition, written};
use super::{Kind, Settings, Target, Write, is_ready, name_of, reconcile};
use crate::kube::{Answer, ApiRequest, NoRules, Store};

pub(super) struct World {
    pub(super) store: Store,
    pub(super) now: Timestamp,
    pub(super) settings: Settings,
}

impl World {
    pub(super) fn new(nodes: &[&str]) -> Self {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let mut world = Self {
            store: Store::new(1, now, Arc::new(NoRules)),
            now,
            settings: Settings::upstream("/volumes"),
        };
        for node in nodes {
            let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": written(now) });
            world.create(json!({
                "apiVersion": "v1", "kind": "Node", "metadata": { "name": node },
                "status": { "conditions": [ready] },
            }));
            world.heartbeat(node);
        }
        world
    }

    pub(super) fn heartbeat(&mut self, node: &str) {
        let lease = self.find(Kind::Lease, node).cloned();
        let renewed = json!(self.now.to_string());
        match lease {
            Some(lease) => self.write(&Write::Replace(with(&lease, &["spec", "renewTime"], renewed))),
            None => self.write(&Write::Create(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": node, "namespace": "kube-node-lease" },
                "spec": { "renewTime": renewed, "holderIdentity": node },
            }))),
        };
    }

    pub(super) fn write(&mut self, write: &Write) -> u16 {
        let request = write.request(&self.store).expect("the kind is served");
        self.ask(&request).0
    }

    pub(super) fn ask(&mut self, request: &ApiRequest) -> (u16, Value) {
        match self.store.handle(self.now, request) {
            Answer::Done { code, body } => (code, body),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn create(&mut self, object: Value) {
        let write = Write::Create(object);
        let request = write.request(&self.store).expect("the kind is served");
        let (code, body) = self.ask(&request);
        assert_eq!(code, 201, "{body}");
    }

    pub(super) fn find(&self, kind: Kind, name: &str) -> Option<&Value> {
        super::View::list(&self.store, kind)
            .into_iter()
            .find(|object| name_of(object) == name)
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> &Value {
        self.find(kind, name)
            .unwrap_or_else(|| panic!("no {kind:?} {name}"))
    }

    pub(super) fn change(&mut self, kind: Kind, name: &str, path: &[&str], value: Value) {
        let object = with(self.get(kind, name), path, value);
        assert_eq!(self.write(&Write::Replace(object)), 200);
    }

    pub(super) fn delete(&mut self, kind: Kind, name: &str) {
        let target = Target::of(self.get(kind, name));
        assert_eq!(self.write(&Write::Delete { target, grace: None }), 200);
    }

    pub(super) fn delete_with(&mut self, kind: Kind, name: &str, propagation: &str) {
        let target = Target::of(self.get(kind, name));
        let mut request = Write::Delete { target, grace: None }
            .request(&self.store)
            .unwrap();
        request
            .query
            .push(("propagationPolicy".to_owned(), propagation.to_owned()));
        assert_eq!(self.ask(&request).0, 200);
    }

    /// Controllers until they want nothing more. Says when the next thing is due.
    pub(super) fn settle(&mut self) -> Option<Timestamp> {
        for _ in 0..200 {
            let turn = reconcile(self.now, &self.settings, &self.store);
            if turn.writes.is_empty() {
                return turn.next;
            }
            let before = self.store.revision();
            for write in &turn.writes {
                self.write(write);
            }
            assert_ne!(
                before,
                self.store.revision(),
                "writes that change nothing: {:#?}",
                turn.writes
            );
        }
        panic!("the controllers do not come to rest");
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub(super) fn pods(&self) -> Vec<&Value> {
        super::View::list(&self.store, Kind::Pod)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.pods()
            .into_iter()
            .map(|pod| name_of(pod).to_owned())
            .collect()
    }

    /// A node runs a pod: `phase`, and whether it is ready.
    pub(super) fn report(&mut self, pod: &str, phase: &str, ready: bool) {
        let mut pod = self.get(Kind::Pod, pod).clone();
        assert_ne!(
            super::object::text(&pod, "/spec/nodeName"),
            "",
            "{} is not placed",
            name_of(&pod)
        );
        let status = if ready { "True" } else { "False" };
        let conditions = with_condition(&pod, self.now, "Ready", status, "", "");
        set(&mut pod, &["status", "conditions"], conditions);
        set(&mut pod, &["status", "phase"], phase.into());
        let address = format!("10.0.0.{}", name_of(&pod).len());
        set(&mut pod, &["status", "podIP"], address.into());
        assert_eq!(self.write(&Write::ReplaceStatus(pod)), 200);
    }

    pub(super) fn ready(&mut self, pod: &str) {
        self.report(pod, "Running", true);
        self.settle();
    }

    /// The processes of a pod that is being deleted have ended.
    pub(super) fn gone(&mut self, pod: &str) {
        let pod = self.get(Kind::Pod, pod);
        assert!(is_deleting(pod), "{} is not being deleted", name_of(pod));
        let target = Target::of(pod);
        self.write(&Write::Delete {
            target,
            grace: Some(0),
        });
        self.settle();
    }

    /// Nodes do all they are asked for, until nothing is asked any more.
    pub(super) fn finish(&mut self) {
        for _ in 0..500 {
            self.settle();
            let placed = |pod: &&Value| !super::object::text(pod, "/spec/nodeName").is_empty();
            let pods: Vec<Value> = self.pods().into_iter().filter(placed).cloned().collect();
            let Some(pod) = pods.iter().find(|pod| is_deleting(pod) || !is_ready(pod)) else {
                return;
            };
            if is_deleting(pod) {
                self.gone(name_of(pod));
            } else {
                self.ready(name_of(pod));
            }
        }
        panic!("the cluster does not come to rest");
    }
}

pub(super) fn stateful_set(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": "db", "namespace": "default" },
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": { "matchLabels": { "app": "db" } },
            "template": {
                "metadata": { "labels": { "app": "db" } },
                "spec": { "containers": [{ "name": "main", "image": "one" }] },
            },
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" },
                "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
            }],
        },
    })
}

pub(super) fn image(pod: &Value) -> &str {
    super::object::text(pod, "/spec/containers/0/image")
}

pub(super) const IMAGE: &[&str] = &["spec", "template", "spec", "containers"];

pub(super) fn containers(image: &str) -> Value {
    json!([{ "name": "main", "image": image }])
}
