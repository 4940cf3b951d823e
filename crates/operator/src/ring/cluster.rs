//! One ring, as everything that works on it knows it.

use crate::apply::Desk;
use crate::engine::lease::Permit;
use crate::tap::Tap;
use kube::{Api, Client};
use mainstay_core::ring::ids::ClusterUid;
use mainstay_core::ring::spec::Timing;
use std::sync::Arc;
use std::time::Duration;

/// The label of everything that belongs to a ring; its value is the ring's name.
pub const RING_LABEL: &str = "mainstay.dev/ring";
/// The label that says in which rack.
pub const RACK_LABEL: &str = "mainstay.dev/rack";
/// The label that says in which datacenter.
pub const DC_LABEL: &str = "mainstay.dev/datacenter";
/// A human gives the volume of this member up.
pub const REPLACE_LABEL: &str = "scylla/replace";
/// A human has this member in hand.
pub const MAINTENANCE_LABEL: &str = "scylla/node-maintenance";
/// The container of the database: ScyllaDB's, or Cassandra's.
pub const CONTAINERS: [&str; 2] = ["scylla", "cassandra"];
/// The port of its REST interface.
pub const API_PORT: u16 = 10_000;

/// The ConfigMap of the ledger.
pub fn ledger_map(cluster: &str) -> String {
    format!("{cluster}-ring")
}

/// How long things take, and other choices of whoever runs the operator.
#[derive(Clone, Debug)]
pub struct RingSettings {
    /// A call to the Kubernetes API.
    pub call: Duration,
    /// A call to a database.
    pub probe: Duration,
    /// Between two turns of a ring in which all is well.
    pub interval: Duration,
    /// The same, while something is under way.
    pub busy_interval: Duration,
    /// How long to wait for what before anything is replaced.
    pub timing: Timing,
    /// The image of this program, for the gate.
    pub image: String,
    /// Who is told of every call that changes something; nobody in production.
    pub tap: Tap,
}

impl Default for RingSettings {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(3),
            probe: Duration::from_secs(3),
            interval: Duration::from_secs(5),
            busy_interval: Duration::from_secs(1),
            timing: Timing::default(),
            image: "mainstay:latest".to_owned(),
            tap: Tap::default(),
        }
    }
}

/// One ring.
#[derive(Clone)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The object that declares it.
    pub uid: ClusterUid,
    /// The cluster of scylla-operator that it is, if it is one.
    pub attends: Option<String>,
    /// How Kubernetes is asked.
    pub client: Client,
    /// How long things take.
    pub settings: Arc<RingSettings>,
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

    /// What selects everything that belongs to it.
    pub fn selector(&self) -> String {
        match &self.attends {
            Some(attended) => format!("{}={attended}", super::attended::CLUSTER_LABEL),
            None => format!("{RING_LABEL}={}", self.name),
        }
    }

    /// The labels that say in which datacenter and in which rack.
    pub fn place_labels(&self) -> (&'static str, &'static str) {
        match &self.attends {
            Some(_) => (super::attended::DC_LABEL, super::attended::RACK_LABEL),
            None => (DC_LABEL, RACK_LABEL),
        }
    }

    /// Objects of a kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Objects of a kind that have no namespace.
    pub fn everywhere<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::ClusterResourceScope>,
        K::DynamicType: Default,
    {
        Api::all(self.client.clone())
    }
}
