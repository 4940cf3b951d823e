//! The controllers of the small Kubernetes: what a person asked for becomes
//! pods, claims, endpoints and statuses.
//!
//! Each is one pure function from what is stored to what should be written.
//! It keeps nothing in memory, so a crash between two writes is no case of its
//! own: the next turn sees what is there. A turn whose writes were all refused
//! is repeated from a newer view, never forced.

mod budgets;
mod claims;
mod deployments;
mod endpoints;
mod garbage;
mod nodes;
mod object;
mod replica_sets;
mod revisions;
mod scheduler;
mod selector;
mod stateful_sets;
mod stored;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use object::{Target, is_ready, name_of, namespace_of, uid_of};

/// The kinds that controllers ask for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Kind {
    ControllerRevision,
    Deployment,
    EndpointSlice,
    Endpoints,
    Lease,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    Service,
    StatefulSet,
}

impl Kind {
    /// The API group and version, as in `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::ControllerRevision | Self::Deployment | Self::ReplicaSet | Self::StatefulSet => "apps/v1",
            Self::EndpointSlice => "discovery.k8s.io/v1",
            Self::Lease => "coordination.k8s.io/v1",
            Self::PodDisruptionBudget => "policy/v1",
            Self::Endpoints
            | Self::Node
            | Self::PersistentVolume
            | Self::PersistentVolumeClaim
            | Self::Pod
            | Self::Service => "v1",
        }
    }

    /// The name, as in `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ControllerRevision => "ControllerRevision",
            Self::Deployment => "Deployment",
            Self::EndpointSlice => "EndpointSlice",
            Self::Endpoints => "Endpoints",
            Self::Lease => "Lease",
            Self::Node => "Node",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::Pod => "Pod",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::ReplicaSet => "ReplicaSet",
            Self::Service => "Service",
            Self::StatefulSet => "StatefulSet",
        }
    }
}

/// What is stored, as one consistent picture.
pub trait View {
    /// All objects of a kind, in every namespace, ordered by namespace and name.
    fn list(&self, kind: Kind) -> Vec<&Value>;
    /// All objects of all kinds, custom ones included: any may be an owner.
    fn all(&self) -> Vec<&Value>;
}

/// One write. Every write but a creation carries what it was decided on, so
/// that a newer object refuses it.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A new object.
    Create(Value),
    /// The whole object without its status, with its `resourceVersion`.
    Replace(Value),
    /// Only the status of the object, with its `resourceVersion`.
    ReplaceStatus(Value),
    /// Put a pod on a node.
    Bind {
        /// The pod.
        pod: Target,
        /// The name of the node.
        node: String,
    },
    /// Delete this very object (by uid). `grace` of zero is a deletion by force.
    Delete {
        /// Which object.
        target: Target,
        /// Seconds; `None` is what the object itself asks for.
        grace: Option<u32>,
    },
}

/// What a controller cannot find in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long a node may be silent before its pods are called not ready.
    pub node_grace: SignedDuration,
    /// The folder under which volumes get theirs.
    pub volumes: String,
}

impl Settings {
    /// Upstream's times.
    pub fn upstream(volumes: impl Into<String>) -> Self {
        Self {
            node_grace: SignedDuration::from_secs(50),
            volumes: volumes.into(),
        }
    }
}

/// What one look at the store decided.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    /// To be written in this order; a refused one does not stop the others.
    pub writes: Vec<Write>,
    /// When something is due although nothing changes in between.
    pub next: Option<Timestamp>,
}

impl Turn {
    pub(crate) fn due(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// One turn of all controllers.
pub fn reconcile(now: Timestamp, settings: &Settings, view: &dyn View) -> Turn {
    let mut turn = Turn::default();
    garbage::reconcile(view, &mut turn);
    nodes::reconcile(now, settings, view, &mut turn);
    claims::reconcile(settings, view, &mut turn);
    deployments::reconcile(now, view, &mut turn);
    replica_sets::reconcile(now, view, &mut turn);
    stateful_sets::reconcile(now, view, &mut turn);
    scheduler::reconcile(now, view, &mut turn);
    endpoints::reconcile(view, &mut turn);
    budgets::reconcile(now, view, &mut turn);
    turn
}
