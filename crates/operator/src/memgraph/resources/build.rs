//! Pure: from the declared cluster to its objects.

use super::{DATA_FOLDER, DATA_PATH, INIT_FILE, INIT_FOLDER, gateway};
use crate::apply::Owned;
use crate::memgraph::cluster::{ReplicationPorts, Settings};
use crate::memgraph::database::demote;
use crate::security;
use api::MemgraphCluster;
use api::memgraph::Durability;
use kube::{Resource, ResourceExt};
use mainstay_core::memgraph::helper::{HELPER_PORT, PRE_STOP_PATH};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::objects::{
    BOLT_PORT, CLUSTER_LABEL, CONTAINER, ClusterName, REPLICATION_PORT, ROLE_LABEL,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What every builder needs.
pub(super) struct Site<'a> {
    pub(super) cluster: &'a MemgraphCluster,
    pub(super) name: &'a ClusterName,
    pub(super) settings: &'a Settings,
}

/// Everything that belongs to a cluster, in the order in which it is made.
pub fn objects(cluster: &MemgraphCluster, name: &ClusterName, settings: &Settings) -> Vec<Owned> {
    let site = Site {
        cluster,
        name,
        settings,
    };
    let mut all = vec![
        site.init_file(),
        site.headless(),
        // One at a time: a drain that takes MAIN and SYNC together leaves nobody.
        site.budget(&name.to_string(), "database"),
    ];
    all.extend(site.access(&name.database(), "database", &site.may_read_record()));
    all.push(site.stateful_set());
    if cluster.spec.gateway.enabled {
        all.extend(gateway::objects(&site));
    }
    all
}

impl Site<'_> {
    pub(super) fn owned(
        &self,
        version: &'static str,
        kind: &'static str,
        name: &str,
        role: &str,
        rest: Value,
    ) -> Owned {
        let mut object = json!({
            "apiVersion": version, "kind": kind,
            "metadata": {
                "name": name,
                "namespace": self.cluster.namespace(),
                "labels": self.labels(role),
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

    pub(super) fn labels(&self, role: &str) -> Value {
        json!({
            "app.kubernetes.io/name": "memgraph",
            "app.kubernetes.io/instance": self.name.to_string(),
            "app.kubernetes.io/managed-by": "mainstay",
            CLUSTER_LABEL: self.name.to_string(),
            ROLE_LABEL: role,
        })
    }

    pub(super) fn selector(&self, role: &str) -> Value {
        json!({ CLUSTER_LABEL: self.name.to_string(), ROLE_LABEL: role })
    }

    /// A service account that may do this and nothing else.
    pub(super) fn access(&self, name: &str, role: &str, rules: &Value) -> [Owned; 3] {
        const RBAC: &str = "rbac.authorization.k8s.io/v1";
        let bound = json!({
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": self.cluster.metadata.namespace }],
        });
        [
            self.owned("v1", "ServiceAccount", name, role, json!({})),
            self.owned(RBAC, "Role", name, role, json!({ "rules": rules })),
            self.owned(RBAC, "RoleBinding", name, role, bound),
        ]
    }

    /// Init container and helper ask for the record, and for nothing else.
    fn may_read_record(&self) -> Value {
        json!([{ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [self.name.record()], "verbs": ["get"] }])
    }

    fn init_name(&self) -> String {
        format!("{}-init", self.name)
    }

    /// What makes a pod a REPLICA before Bolt opens: an old MAIN that restarts takes no write.
    fn init_file(&self) -> Owned {
        let statement = |pod| format!("{};\n", demote(self.settings.ports.of(pod)));
        let files: BTreeMap<String, String> = match self.settings.ports {
            ReplicationPorts::Same => BTreeMap::from([(INIT_FILE.to_owned(), statement(Ordinal(0)))]),
            ReplicationPorts::From(_) => (0..self.cluster.spec.replicas)
                .map(Ordinal)
                .map(|pod| (format!("{}.cypherl", self.name.pod(pod)), statement(pod)))
                .collect(),
        };
        let data = json!({ "data": files });
        self.owned("v1", "ConfigMap", &self.init_name(), "init", data)
    }

    /// Which of its files a pod reads.
    fn init_path(&self) -> String {
        match self.settings.ports {
            ReplicationPorts::Same => format!("{INIT_FOLDER}/{INIT_FILE}"),
            ReplicationPorts::From(_) => format!("{INIT_FOLDER}/$(POD_NAME).cypherl"),
        }
    }

    /// Names for pods, ready or not: a replica that catches up is not ready and must be found.
    fn headless(&self) -> Owned {
        let spec = json!({
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": self.selector("database"),
            "ports": [
                { "name": "bolt", "port": BOLT_PORT, "targetPort": BOLT_PORT },
                { "name": "replication", "port": REPLICATION_PORT, "targetPort": REPLICATION_PORT },
            ],
        });
        self.owned(
            "v1",
            "Service",
            &self.name.headless(),
            "database",
            json!({ "spec": spec }),
        )
    }

    /// Of the pods with this role only one may be evicted at a time.
    pub(super) fn budget(&self, name: &str, role: &str) -> Owned {
        let spec = json!({ "maxUnavailable": 1, "selector": { "matchLabels": self.selector(role) } });
        self.owned(
            "policy/v1",
            "PodDisruptionBudget",
            name,
            role,
            json!({ "spec": spec }),
        )
    }

    fn flags(&self) -> Vec<String> {
        let spec = &self.cluster.spec;
        let flush = match spec.durability {
            // fsync per commit, or a commit does not survive the loss of power (R12).
            Durability::Strict => "1",
            Durability::Relaxed => "100000",
        };
        let mut flags = vec![
            format!("--data-directory={DATA_FOLDER}"),
            "--bolt-address=0.0.0.0".to_owned(),
            format!("--bolt-port={BOLT_PORT}"),
            format!("--init-file={}", self.init_path()),
            "--storage-wal-enabled=true".to_owned(),
            format!("--storage-wal-file-flush-every-n-tx={flush}"),
            "--storage-snapshot-interval-sec=300".to_owned(),
            // A snapshot on exit would keep a wrong history through a restart (R26).
            "--storage-snapshot-on-exit=false".to_owned(),
            "--data-recovery-on-startup=true".to_owned(),
            "--replication-restore-state-on-startup=true".to_owned(),
            "--telemetry-enabled=false".to_owned(),
            "--also-log-to-stderr=true".to_owned(),
            "--log-level=WARNING".to_owned(),
        ];
        flags.extend(spec.flags.iter().cloned());
        flags
    }

    fn container(&self) -> Value {
        let spec = &self.cluster.spec;
        let probe = json!({ "tcpSocket": { "port": BOLT_PORT }, "periodSeconds": 1, "failureThreshold": 3 });
        let mut container = json!({
            "name": CONTAINER,
            "image": spec.image,
            "args": self.flags(),
            "securityContext": security::database_container(),
            // Large queries spill here; the root file system of a container is small.
            "env": [
                { "name": "TMPDIR", "value": DATA_PATH },
                { "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
            ],
            "ports": [
                { "name": "bolt", "containerPort": BOLT_PORT },
                { "name": "replication", "containerPort": REPLICATION_PORT },
            ],
            // No liveness probe: a MAIN whose commit hangs for 30 s must not be killed for it.
            "readinessProbe": probe,
            // MAIN waits here for its successor.
            "lifecycle": { "preStop": { "httpGet": { "path": PRE_STOP_PATH, "port": HELPER_PORT } } },
            "volumeMounts": [
                { "name": "lib-storage", "mountPath": DATA_PATH },
                { "name": "init", "mountPath": INIT_FOLDER, "readOnly": true },
            ],
        });
        if let (Value::Object(container), Some(resources)) = (&mut container, &spec.resources) {
            container.insert("resources".to_owned(), json!(resources));
        }
        container
    }

    fn claim(&self) -> Value {
        let storage = &self.cluster.spec.storage;
        let mut spec = json!({
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": storage.size } },
        });
        if let (Value::Object(spec), Some(class)) = (&mut spec, &storage.storage_class) {
            spec.insert("storageClassName".to_owned(), json!(class));
        }
        json!({ "metadata": { "name": "lib-storage" }, "spec": spec })
    }

    fn stateful_set(&self) -> Owned {
        let template = json!({
            "metadata": { "labels": self.labels("database") },
            "spec": {
                "serviceAccountName": self.name.database(),
                "terminationGracePeriodSeconds": 60,
                "securityContext": security::database_pod(),
                "initContainers": [self.init_container()],
                "containers": [self.container(), self.helper()],
                "affinity": self.apart("database"),
                "volumes": [{ "name": "init", "configMap": { "name": self.init_name() } }, self.token_volume()],
            },
        });
        let spec = json!({
            "serviceName": self.name.headless(),
            "replicas": self.cluster.spec.replicas,
            // All at once: pod 1 must not wait for pod 0 when pod 0 cannot start.
            "podManagementPolicy": "Parallel",
            // The operator restarts pods itself: Kubernetes does not know who is MAIN.
            "updateStrategy": { "type": "OnDelete" },
            "selector": { "matchLabels": self.selector("database") },
            "template": template,
            "volumeClaimTemplates": [self.claim()],
        });
        self.owned(
            "apps/v1",
            "StatefulSet",
            &self.name.to_string(),
            "database",
            json!({ "spec": spec }),
        )
    }

    /// On different nodes if there are enough.
    pub(super) fn apart(&self, role: &str) -> Value {
        json!({ "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": { "matchLabels": self.selector(role) },
            },
        }] } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
    use k8s_openapi::api::core::v1::{ConfigMap, Service};
    use k8s_openapi::api::policy::v1::PodDisruptionBudget;

    fn built(spec: &Value) -> Vec<Owned> {
        built_with(spec, &Settings::default())
    }

    fn built_with(spec: &Value, settings: &Settings) -> Vec<Owned> {
        let cluster: MemgraphCluster = serde_json::from_value(json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
            "metadata": { "name": "memgraph-ha", "namespace": "db", "uid": "u" },
            "spec": spec,
        }))
        .unwrap();
        objects(&cluster, &"memgraph-ha".parse().unwrap(), settings)
    }

    fn one(all: &[Owned], kind: &str) -> Value {
        all.iter().find(|o| o.kind == kind).unwrap().object.clone()
    }

    /// Memgraph 3.6.0 to 3.6.2 rename a received snapshot from the temporary folder to the data volume: across file systems
    /// that fails, every time, and the replica never recovers.
    #[test]
    fn the_temporary_folder_is_on_the_data_volume() {
        let set = one(&built(&json!({})), "StatefulSet");
        let database = &set["spec"]["template"]["spec"]["containers"][0];
        let folder = database["env"]
            .as_array()
            .unwrap()
            .iter()
            .find(|e| e["name"] == "TMPDIR");
        let folder = folder.unwrap()["value"].as_str().unwrap();
        let mut volumes = database["volumeMounts"].as_array().unwrap().iter();
        let data = volumes.find(|v| v["name"] == "lib-storage").unwrap();
        assert!(
            folder.starts_with(data["mountPath"].as_str().unwrap()),
            "{folder}"
        );
    }

    fn flags(set: &Value) -> Vec<String> {
        serde_json::from_value(
            set.pointer("/spec/template/spec/containers/0/args")
                .unwrap()
                .clone(),
        )
        .unwrap()
    }

    #[test]
    fn every_object_is_one_that_kubernetes_knows_and_belongs_to_its_cluster() {
        let all = built(&json!({}));
        let kinds: Vec<&str> = all.iter().map(|o| o.kind).collect();
        assert_eq!(
            kinds,
            [
                "ConfigMap",
                "Service",
                "PodDisruptionBudget",
                "ServiceAccount",
                "Role",
                "RoleBinding",
                "StatefulSet",
                "ServiceAccount",
                "Role",
                "RoleBinding",
                "PodDisruptionBudget",
                "Service",
                "Deployment"
            ]
        );
        for owned in &all {
            let owner = owned.object.pointer("/metadata/ownerReferences/0/kind");
            assert_eq!(owner, Some(&json!("MemgraphCluster")), "{}", owned.kind);
            assert_eq!(owned.object["metadata"]["labels"][CLUSTER_LABEL], "memgraph-ha");
        }
        serde_json::from_value::<ConfigMap>(one(&all, "ConfigMap")).unwrap();
        serde_json::from_value::<Service>(one(&all, "Service")).unwrap();
        serde_json::from_value::<PodDisruptionBudget>(one(&all, "PodDisruptionBudget")).unwrap();
        serde_json::from_value::<StatefulSet>(one(&all, "StatefulSet")).unwrap();
        serde_json::from_value::<Deployment>(one(&all, "Deployment")).unwrap();
    }

    #[test]
    fn pods_start_as_replica_and_sync_every_commit_unless_told_otherwise() {
        let strict = flags(&one(&built(&json!({})), "StatefulSet"));
        for flag in [
            "--init-file=/etc/mainstay/init.cypherl",
            "--storage-wal-enabled=true",
            "--storage-wal-file-flush-every-n-tx=1",
            "--storage-snapshot-on-exit=false",
            "--data-directory=/var/lib/memgraph/mg_data",
        ] {
            assert!(strict.iter().any(|f| f == flag), "{flag}");
        }
        let init = one(&built(&json!({})), "ConfigMap");
        assert_eq!(
            init["data"]["init.cypherl"],
            "SET REPLICATION ROLE TO REPLICA WITH PORT 10000;\n"
        );
        let relaxed = flags(&one(&built(&json!({ "durability": "Relaxed" })), "StatefulSet"));
        assert!(
            relaxed
                .iter()
                .any(|f| f == "--storage-wal-file-flush-every-n-tx=100000")
        );
    }

    #[test]
    fn pods_that_share_a_network_have_a_file_and_a_port_each() {
        let settings = Settings {
            ports: ReplicationPorts::From(20_000),
            ..Settings::default()
        };
        let all = built_with(&json!({ "replicas": 2 }), &settings);
        let files = one(&all, "ConfigMap")["data"].clone();
        assert_eq!(
            files,
            json!({
                "memgraph-ha-0.cypherl": "SET REPLICATION ROLE TO REPLICA WITH PORT 20000;\n",
                "memgraph-ha-1.cypherl": "SET REPLICATION ROLE TO REPLICA WITH PORT 20001;\n",
            })
        );
        let init = flags(&one(&all, "StatefulSet"))
            .into_iter()
            .find(|f| f.starts_with("--init-file"));
        assert_eq!(
            init.as_deref(),
            Some("--init-file=/etc/mainstay/$(POD_NAME).cypherl")
        );
    }

    #[test]
    fn what_the_user_wrote_is_in_the_set() {
        let all = built(&json!({
            "replicas": 5, "image": "m:1", "flags": ["--memory-limit=512"],
            "storage": { "size": "1Gi", "storageClass": "fast" },
            "resources": { "requests": { "cpu": "1" } },
            "gateway": { "enabled": false },
        }));
        assert_eq!(all.len(), 7, "no gateway");
        let set = one(&all, "StatefulSet");
        assert_eq!(set["spec"]["replicas"], 5);
        let container = set.pointer("/spec/template/spec/containers/0").unwrap();
        assert_eq!(
            (&container["image"], &container["resources"]["requests"]["cpu"]),
            (&json!("m:1"), &json!("1"))
        );
        assert_eq!(flags(&set).last().map(String::as_str), Some("--memory-limit=512"));
        let claim = set.pointer("/spec/volumeClaimTemplates/0").unwrap();
        assert_eq!(claim["metadata"]["name"], "lib-storage");
        assert_eq!(claim["spec"]["storageClassName"], "fast");
    }

    #[test]
    fn a_pod_is_prepared_before_its_database_starts_and_may_only_read_the_record() {
        let all = built(&json!({}));
        let pod = one(&all, "StatefulSet")["spec"]["template"]["spec"].clone();
        let init = &pod["initContainers"][0];
        assert_eq!(
            (&init["name"], &init["image"]),
            (&json!("data-cleanup"), &json!("mainstay:latest"))
        );
        assert_eq!(
            init["args"],
            json!([
                "pod",
                "prepare",
                "--cluster=memgraph-ha",
                "--data=/var/lib/memgraph"
            ])
        );
        assert_eq!(
            init["volumeMounts"],
            json!([{ "name": "lib-storage", "mountPath": "/var/lib/memgraph" }])
        );
        assert_eq!(pod["serviceAccountName"], "memgraph-ha-database");
        let role = one(&all, "Role");
        assert_eq!(role["metadata"]["name"], "memgraph-ha-database");
        assert_eq!(
            role["rules"],
            json!([{ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["memgraph-ha-topology"], "verbs": ["get"] }])
        );
    }

    #[test]
    fn no_pod_asks_for_what_the_level_restricted_forbids() {
        let pods: Vec<Value> = built(&json!({}))
            .iter()
            .filter_map(|owned| owned.object.pointer("/spec/template/spec").cloned())
            .collect();
        assert_eq!(pods.len(), 2, "the databases and the gateways");
        for pod in &pods {
            assert_eq!(security::forbidden(pod), Vec::<String>::new());
        }
        // The init container moves what the database wrote: nobody may give it another user.
        let user = pods[0].pointer("/securityContext/runAsUser");
        assert_eq!(user, Some(&json!(security::DATABASE_USER)));
    }

    #[test]
    fn pods_are_named_ready_or_not() {
        let service = one(&built(&json!({})), "Service");
        assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
        assert_eq!(service["metadata"]["name"], "memgraph-ha");
    }
}
