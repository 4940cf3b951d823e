//! One cluster, as everything that works on it knows it.

use api::memgraph::Memgraph;
use bolt::message::Auth;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::{Api, Client};
use mainstay_core::memgraph::ids::{Ordinal, RegistrationName};
use mainstay_core::memgraph::objects::{ClusterName, REPLICATION_PORT};
use mainstay_core::memgraph::rules::Rules;
use std::sync::Arc;
use std::time::Duration;

use crate::apply::Desk;
use crate::bolt::Dial;
use crate::engine::lease::Permit;
use crate::tap::Tap;

/// Under which address a replica is registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicaAddress {
    /// The pod's name: it stays the same when the pod is made anew.
    #[default]
    Name,
    /// The pod's address, where nobody resolves names.
    Ip,
}

/// On which port a replica listens for its MAIN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicationPorts {
    /// The same for all: every pod has a network of its own.
    #[default]
    Same,
    /// One for each, from this one on: pods share a network, and Memgraph listens on every address of it.
    From(u16),
}

impl ReplicationPorts {
    /// That of this pod.
    pub fn of(self, pod: Ordinal) -> u16 {
        match self {
            Self::Same => REPLICATION_PORT,
            Self::From(base) => base.saturating_add(u16::from(pod.0)),
        }
    }
}

/// How long things take, and other choices of whoever runs the operator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A probe of a database: connection, and each question. Three of them are most of what a MAIN that hangs costs.
    pub probe: Duration,
    /// A login. Only to check a password takes a real server about 0.23 s, and more on a busy node.
    pub login: Duration,
    /// How long one that has been silent for long may take to be reached and to say its first word: it must not hold
    /// up the others. Once it talks it has as much time as they have, or it would stay silent for ever.
    pub silent_probe: Duration,
    /// A call to the Kubernetes API.
    pub call: Duration,
    /// A command to a database.
    pub command: Duration,
    /// All statements for a new MAIN together: less than a turn, which has to write the record after them.
    pub statements: Duration,
    /// How long a new process must have been seen with its container before the two are believed to belong
    /// together: longer than a kubelet takes to report the end of a container.
    pub settle: Duration,
    /// How long a fence is waited for.
    pub fence: Duration,
    /// How long gateways are waited for.
    pub gateways: Duration,
    /// How long a step is asked again.
    pub retry: Duration,
    /// Between two looks at what is waited for.
    pub poll: Duration,
    /// Between two turns of a cluster in which all is well.
    pub interval: Duration,
    /// The same, while something is under way.
    pub busy_interval: Duration,
    /// Under which address a replica is registered.
    pub address: ReplicaAddress,
    /// On which port a replica listens for its MAIN.
    pub ports: ReplicationPorts,
    /// The image of this program, for gateways and init containers.
    pub image: String,
    /// Who is told of every call that changes something; nobody in production.
    pub tap: Tap,
    /// Whether the operator makes and changes the cluster's objects.
    pub manage: bool,
    /// Which rules are in force: all of them, but for a drill that shows that it can fail.
    pub rules: Rules,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            probe: Duration::from_millis(450),
            login: Duration::from_millis(800),
            silent_probe: Duration::from_millis(150),
            call: Duration::from_secs(3),
            command: Duration::from_secs(4),
            statements: Duration::from_secs(40),
            settle: Duration::from_secs(2),
            fence: Duration::from_secs(3),
            gateways: Duration::from_secs(3),
            retry: Duration::from_secs(5),
            poll: Duration::from_millis(50),
            interval: Duration::from_millis(500),
            busy_interval: Duration::from_millis(100),
            address: ReplicaAddress::default(),
            ports: ReplicationPorts::default(),
            image: "mainstay:latest".to_owned(),
            tap: Tap::default(),
            manage: true,
            rules: Rules::ALL,
        }
    }
}

/// One cluster.
#[derive(Clone)]
pub struct Cluster {
    /// Its name.
    pub name: ClusterName,
    /// Its namespace.
    pub namespace: String,
    /// How Kubernetes is asked.
    pub client: Client,
    /// How long things take.
    pub settings: Arc<Settings>,
    /// Whom to log in as.
    pub auth: Auth<'static>,
    /// Which Memgraph is declared, if that is known. While pods are made anew some still have the one before.
    pub memgraph: Option<Memgraph>,
}

impl Cluster {
    /// Where its objects are written.
    pub fn desk<'a>(&'a self, permit: &'a Permit) -> Desk<'a> {
        Desk {
            client: &self.client,
            namespace: &self.namespace,
            patience: self.settings.call,
            tap: &self.settings.tap,
            permit,
        }
    }

    /// How to reach a database, within this time, and log in.
    pub fn dial(&self, reach: Duration) -> Dial {
        Dial {
            auth: self.auth.clone(),
            reach,
            login: self.settings.login,
        }
    }

    /// What registration names begin with.
    pub fn prefix(&self) -> String {
        self.name.to_string().replace('-', "_")
    }

    /// A registration name as Memgraph gets it.
    pub fn registration(&self, name: RegistrationName) -> String {
        name.render(&self.prefix())
    }

    /// The address under which a pod is registered.
    pub fn replica_address(&self, pod: Ordinal, ip: Option<&str>) -> Option<String> {
        let port = self.settings.ports.of(pod);
        match self.settings.address {
            ReplicaAddress::Name => Some(format!("{}:{port}", self.name.pod_host(pod, &self.namespace))),
            ReplicaAddress::Ip => ip.map(|ip| format!("{ip}:{port}")),
        }
    }

    /// Does this address mean that pod?
    pub fn means(&self, address: &str, pod: Ordinal, ip: Option<&str>) -> bool {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        host == self.name.pod_host(pod, &self.namespace) || ip == Some(host)
    }

    /// ConfigMaps of the namespace.
    pub fn config_maps(&self) -> Api<ConfigMap> {
        self.api()
    }

    /// Pods of the namespace.
    pub fn pods(&self) -> Api<Pod> {
        self.api()
    }

    /// Claims of the namespace.
    pub fn claims(&self) -> Api<PersistentVolumeClaim> {
        self.api()
    }

    /// Leases of the namespace.
    pub fn leases(&self) -> Api<Lease> {
        self.api()
    }

    /// StatefulSets of the namespace.
    pub fn stateful_sets(&self) -> Api<StatefulSet> {
        self.api()
    }

    /// Secrets of the namespace.
    pub fn secrets(&self) -> Api<Secret> {
        self.api()
    }

    /// Objects of a kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}
