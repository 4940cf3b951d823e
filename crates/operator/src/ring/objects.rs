//! Pure: from the declared ring to its objects.

use super::cluster::{DC_LABEL, RACK_LABEL, RING_LABEL, RingSettings, ledger_map};
use crate::apply::{Owned, set};
use api::RingCluster;
use api::ring::{Rack, rack_set};
use kube::api::DynamicObject;
use kube::{Resource, ResourceExt};
use mainstay_core::ring::ids::Member;
use mainstay_core::ring::sleeping::Running;
use serde_json::{Value, json};
use std::collections::BTreeSet;

mod database;

use database::Database;

/// Where the gate is put, and what it notes for the life of the pod.
const GATE_FOLDER: &str = "/opt/mainstay";
/// On the sets of a ring that sleeps.
const ASLEEP_LABEL: &str = "mainstay.dev/asleep";
/// On a set: how many members its rack has.
const MEMBERS_LABEL: &str = "mainstay.dev/members";
/// Clients connect here; the last port that a member opens.
const CQL_PORT: u16 = 9042;
/// Members talk to each other here.
const GOSSIP_PORT: u16 = 7000;

/// Which pods there should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pods {
    /// As the decisions say.
    pub running: Running,
    /// Members of the ring, also those that are not declared any more: they leave it before their pods go.
    pub known: Vec<Member>,
}

struct Site<'a> {
    cluster: &'a RingCluster,
    name: String,
    settings: &'a RingSettings,
    pods: &'a Pods,
}

/// Everything that belongs to a ring but its ledger and its records, in the order in which it is made.
pub fn objects(cluster: &RingCluster, settings: &RingSettings, pods: &Pods) -> Vec<Owned> {
    let site = Site {
        cluster,
        name: cluster.name_any(),
        settings,
        pods,
    };
    let mut all = vec![site.headless(), site.budget()];
    for rack in &cluster.spec.racks {
        all.extend(site.access(rack));
        let members = (0..rack.members).filter_map(|n| rack.member(&site.name, n).ok());
        all.extend(members.map(|member| site.member_service(rack, &member)));
        all.push(site.stateful_set(rack));
    }
    all
}

/// What an object as it is has to keep.
pub(super) fn carry_over(kind: &str, mut object: Value, found: &DynamicObject) -> Value {
    set(
        &mut object,
        "/metadata",
        "resourceVersion",
        Some(json!(found.resource_version())),
    );
    let keep = |path: &str| found.data.pointer(path).cloned();
    match kind {
        "StatefulSet" => {
            let number = |value: Option<&Value>| value.and_then(Value::as_i64).unwrap_or(0);
            let (is, wanted) = (
                number(found.data.pointer("/spec/replicas")),
                number(object.pointer("/spec/replicas")),
            );
            // A member leaves the ring before its pod goes: only `Retire` makes a rack smaller. Sleep is another thing.
            let labels = object.pointer("/metadata/labels");
            let sleeps = labels.is_some_and(|l| l.get(ASLEEP_LABEL).is_some());
            let replicas = if sleeps { wanted } else { wanted.max(is) };
            set(&mut object, "/spec", "replicas", Some(json!(replicas)));
            for field in ["volumeClaimTemplates", "podManagementPolicy"] {
                set(&mut object, "/spec", field, keep(&format!("/spec/{field}")));
            }
        }
        "Service" => {
            for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                set(&mut object, "/spec", field, keep(&format!("/spec/{field}")));
            }
            // What people put there stays: a label orders a replacement.
            let mut labels = json!(found.labels());
            if let (Value::Object(all), Some(Value::Object(ours))) =
                (&mut labels, object.pointer("/metadata/labels").cloned())
            {
                all.extend(ours);
            }
            set(&mut object, "/metadata", "labels", Some(labels));
        }
        _ => {}
    }
    object
}

fn set_label(labels: &mut Value, key: &str, value: &str) {
    set(labels, "", key, Some(json!(value)));
}

impl Site<'_> {
    fn owned(
        &self,
        version: &'static str,
        kind: &'static str,
        name: &str,
        labels: &Value,
        rest: Value,
    ) -> Owned {
        let mut object = json!({
            "apiVersion": version, "kind": kind,
            "metadata": {
                "name": name,
                "namespace": self.cluster.namespace(),
                "labels": labels,
                "ownerReferences": self.cluster.controller_owner_ref(&()).into_iter().collect::<Vec<_>>(),
            },
        });
        if let (Value::Object(object), Value::Object(rest)) = (&mut object, rest) {
            object.extend(rest);
        }
        Owned {
            version,
            kind,
            object,
        }
    }

    fn labels(&self) -> Value {
        json!({
            "app.kubernetes.io/name": self.database().name,
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/managed-by": "mainstay",
            RING_LABEL: self.name,
        })
    }

    fn rack_labels(&self, rack: &Rack) -> Value {
        let mut labels = self.labels();
        set_label(&mut labels, RACK_LABEL, &rack.name);
        set_label(&mut labels, DC_LABEL, &self.cluster.spec.datacenter);
        labels
    }

    fn account(&self, rack: &Rack) -> String {
        format!("{}-member", rack_set(&self.name, &rack.name))
    }

    /// The members of a rack: those that are declared, and those that have yet to leave the ring.
    fn members(&self, rack: &Rack) -> BTreeSet<Member> {
        let declared = (0..rack.members).filter_map(|n| rack.member(&self.name, n).ok());
        let known = self.pods.known.iter().filter(|m| self.number(rack, m).is_some());
        declared.chain(known.cloned()).collect()
    }

    /// Which one of this rack it is, if it is one of it.
    fn number(&self, rack: &Rack, member: &Member) -> Option<u8> {
        let set = format!("{}-", rack_set(&self.name, &rack.name));
        member.0.as_str().strip_prefix(&set)?.parse().ok()
    }

    /// For the names of pods. Members are known by the address of their own Service.
    fn headless(&self) -> Owned {
        let spec = json!({ "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": { RING_LABEL: self.name },
            "ports": [{ "name": "cql", "port": CQL_PORT, "targetPort": CQL_PORT }],
        } });
        self.owned("v1", "Service", &self.name, &self.labels(), spec)
    }

    /// One at a time.
    fn budget(&self) -> Owned {
        let spec = json!({ "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { RING_LABEL: self.name } } } });
        self.owned(
            "policy/v1",
            "PodDisruptionBudget",
            &self.name,
            &self.labels(),
            spec,
        )
    }

    /// The gate reads what is about its own rack, and writes what it found on its own pod. All pods of a rack are made from
    /// one template and so have one account: a gate could speak for another pod of its rack, and for none besides.
    fn access(&self, rack: &Rack) -> [Owned; 3] {
        const RBAC: &str = "rbac.authorization.k8s.io/v1";
        let name = self.account(rack);
        let members = self.members(rack);
        let mut maps = vec![ledger_map(&self.name)];
        maps.extend(members.iter().map(Member::record_map));
        let claims: Vec<String> = members.iter().map(Member::claim).collect();
        let rules = json!({ "rules": [
            { "apiGroups": [""], "resources": ["configmaps"], "resourceNames": maps, "verbs": ["get"] },
            { "apiGroups": [""], "resources": ["persistentvolumeclaims"], "resourceNames": claims, "verbs": ["get"] },
            { "apiGroups": [""], "resources": ["pods"], "resourceNames": members, "verbs": ["get", "patch"] },
            // Its own address, and the seeds.
            { "apiGroups": [""], "resources": ["services"], "verbs": ["list"] },
        ] });
        let bound = json!({
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": self.cluster.metadata.namespace }],
        });
        [
            self.owned("v1", "ServiceAccount", &name, &self.rack_labels(rack), json!({})),
            self.owned(RBAC, "Role", &name, &self.rack_labels(rack), rules),
            self.owned(RBAC, "RoleBinding", &name, &self.rack_labels(rack), bound),
        ]
    }

    /// The address under which the others know a member. It outlives the pod.
    fn member_service(&self, rack: &Rack, member: &Member) -> Owned {
        let port = |name: &str, port: u16| json!({ "name": name, "port": port, "targetPort": port });
        let spec = json!({ "spec": {
            "publishNotReadyAddresses": true,
            "selector": { "statefulset.kubernetes.io/pod-name": member },
            "ports": [port("gossip", GOSSIP_PORT), port("cql", CQL_PORT), port("api", self.database().api_port)],
        } });
        self.owned(
            "v1",
            "Service",
            &member.to_string(),
            &self.rack_labels(rack),
            spec,
        )
    }

    fn install(&self) -> Value {
        json!({
            "name": "gate",
            "image": self.settings.image,
            "args": ["pod", "install", format!("--to={GATE_FOLDER}/mainstay")],
            "securityContext": crate::security::database_container(),
            "volumeMounts": [{ "name": "gate", "mountPath": GATE_FOLDER }],
        })
    }

    /// The gate is the first thing in the container of the database, and becomes the database: so it stands before every
    /// start of it, also when only the container restarts.
    fn gate(&self, rack: &Rack) -> Vec<String> {
        let mut args: Vec<String> = ["pod", "ring-gate"].map(str::to_owned).to_vec();
        args.extend([
            format!("--cluster={}", self.name),
            format!("--cluster-uid={}", self.cluster.uid().unwrap_or_default()),
            format!("--data={}", self.database().data),
            format!("--state={GATE_FOLDER}"),
        ]);
        args.extend(self.database().gate(rack));
        args
    }

    fn database(&self) -> Database<'_> {
        Database::of(&self.cluster.spec)
    }

    fn container(&self, rack: &Rack) -> Value {
        let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
        let port = |name: &str, port: u16| json!({ "name": name, "containerPort": port });
        let database = self.database();
        let mut env = vec![
            field("POD_NAME", "metadata.name"),
            field("POD_NAMESPACE", "metadata.namespace"),
            field("POD_UID", "metadata.uid"),
            field("POD_IP", "status.podIP"),
            json!({ "name": "RACK", "value": rack.name }),
            json!({ "name": "DATACENTER", "value": self.cluster.spec.datacenter }),
        ];
        env.extend(database.env(rack));
        let mut container = json!({
            "name": database.name,
            "image": self.cluster.spec.image,
            "command": [format!("{GATE_FOLDER}/mainstay")],
            "args": self.gate(rack),
            "securityContext": crate::security::database_container(),
            "env": env,
            "ports": [port("gossip", GOSSIP_PORT), port("cql", CQL_PORT), port("api", database.api_port)],
            // Clients are let in last. No liveness probe: a gate waits for as long as it takes.
            "readinessProbe": { "tcpSocket": { "port": CQL_PORT }, "periodSeconds": 2 },
            "volumeMounts": [
                { "name": "data", "mountPath": database.data },
                { "name": "gate", "mountPath": GATE_FOLDER },
            ],
        });
        set(
            &mut container,
            "",
            "resources",
            self.cluster.spec.resources.as_ref().map(|r| json!(r)),
        );
        container
    }

    /// Beside a database that has to be told of other members while it runs.
    fn seeds(&self) -> Value {
        let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
        json!({
            "name": "seeds",
            "image": self.settings.image,
            "args": ["pod", "ring-seeds", format!("--cluster={}", self.name), format!("--state={GATE_FOLDER}"), database::LISTEN],
            "securityContext": crate::security::database_container(),
            "env": [field("POD_NAMESPACE", "metadata.namespace"), field("POD_IP", "status.podIP")],
            "resources": { "requests": { "cpu": "5m", "memory": "24Mi" } },
            "volumeMounts": [{ "name": "gate", "mountPath": GATE_FOLDER }],
        })
    }

    /// How many members of a rack run. One that was declared away while the ring slept still has to leave it.
    fn replicas(&self, rack: &Rack) -> u8 {
        match self.pods.running {
            Running::Nobody | Running::AsTheyAre => 0,
            Running::Seeds => rack.members.min(1),
            Running::Everybody => {
                let last = self.pods.known.iter().filter_map(|m| self.number(rack, m)).max();
                rack.members.max(last.map_or(0, |n| n.saturating_add(1)))
            }
        }
    }

    fn stateful_set(&self, rack: &Rack) -> Owned {
        let spec = &self.cluster.spec;
        let selector = json!({ RING_LABEL: self.name, RACK_LABEL: rack.name });
        let mut containers = vec![self.container(rack)];
        containers.extend(self.database().reads_seeds_from_file.then(|| self.seeds()));
        let mut pod = json!({
            "serviceAccountName": self.account(rack),
            "terminationGracePeriodSeconds": 900,
            "securityContext": crate::security::ring_pod(self.database().user()),
            "initContainers": [self.install()],
            "containers": containers,
            "volumes": [{ "name": "gate", "emptyDir": {} }],
            "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
                "weight": 100,
                "podAffinityTerm": {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": { "matchLabels": { RING_LABEL: self.name } },
                },
            }] } },
        });
        let zone = rack.zone.as_ref();
        set(
            &mut pod,
            "",
            "nodeSelector",
            zone.map(|zone| json!({ "topology.kubernetes.io/zone": zone })),
        );
        let mut claim = json!({
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": spec.storage.size } },
        });
        set(
            &mut claim,
            "",
            "storageClassName",
            spec.storage.storage_class.as_ref().map(|c| json!(c)),
        );
        let set = json!({ "spec": {
            "serviceName": self.name,
            "replicas": self.replicas(rack),
            // Who may start is decided by the gates, one at a time.
            "podManagementPolicy": "Parallel",
            // A new template is rolled out by people: two racks at once would be too many.
            "updateStrategy": { "type": "OnDelete" },
            "selector": { "matchLabels": selector },
            "template": { "metadata": { "labels": self.rack_labels(rack) }, "spec": pod },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": claim }],
        } });
        let name = rack_set(&self.name, &rack.name);
        let mut labels = self.rack_labels(rack);
        // What is declared, not what runs: a rack that was small for a while is made large again.
        set_label(&mut labels, MEMBERS_LABEL, &rack.members.to_string());
        // Exactly so many, also if there are more.
        if matches!(self.pods.running, Running::Nobody | Running::Seeds) {
            set_label(&mut labels, ASLEEP_LABEL, "true");
        }
        self.owned("apps/v1", "StatefulSet", &name, &labels, set)
    }
}

#[cfg(test)]
mod tests;
