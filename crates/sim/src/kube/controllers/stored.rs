//! The store as the controllers see it, and their writes as it sees them.

use serde_json::{Value, json};

use super::object::Target;
use super::{Kind, View, Write};
use crate::kube::{ApiRequest, Kind as Stored, Method, Store, User};

impl From<Kind> for Stored {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::ControllerRevision => Self::CONTROLLER_REVISION,
            Kind::Deployment => Self::DEPLOYMENT,
            Kind::EndpointSlice => Self::ENDPOINT_SLICE,
            Kind::Endpoints => Self::ENDPOINTS,
            Kind::Lease => Self::LEASE,
            Kind::Node => Self::NODE,
            Kind::PersistentVolume => Self::PERSISTENT_VOLUME,
            Kind::PersistentVolumeClaim => Self::PERSISTENT_VOLUME_CLAIM,
            Kind::Pod => Self::POD,
            Kind::PodDisruptionBudget => Self::POD_DISRUPTION_BUDGET,
            Kind::ReplicaSet => Self::REPLICA_SET,
            Kind::Service => Self::SERVICE,
            Kind::StatefulSet => Self::STATEFUL_SET,
        }
    }
}

impl View for Store {
    fn list(&self, kind: Kind) -> Vec<&Value> {
        Self::list(self, kind.into(), None)
    }

    fn all(&self) -> Vec<&Value> {
        self.objects.values().map(AsRef::as_ref).collect()
    }
}

impl Write {
    /// The request that does it. `None` if the kind is no longer served.
    pub fn request(&self, store: &Store) -> Option<ApiRequest> {
        let (method, object, last, body) = match self {
            Self::Create(object) => (
                Method::Post,
                Target {
                    name: String::new(),
                    ..Target::of(object)
                },
                "",
                object.clone(),
            ),
            Self::Replace(object) => (Method::Put, Target::of(object), "", object.clone()),
            Self::ReplaceStatus(object) => (Method::Put, Target::of(object), "/status", object.clone()),
            Self::Bind { pod, node } => (
                Method::Post,
                pod.clone(),
                "/binding",
                json!({ "target": { "kind": "Node", "name": node } }),
            ),
            Self::Delete { target, grace } => {
                let mut options = json!({ "preconditions": { "uid": target.uid } });
                if let Some(grace) = grace {
                    super::object::set(&mut options, &["gracePeriodSeconds"], json!(grace));
                }
                (Method::Delete, target.clone(), "", options)
            }
        };
        let (group, version) = object
            .api_version
            .split_once('/')
            .unwrap_or(("", &object.api_version));
        let info = store.kinds.info(store.kinds.by_kind(group, &object.kind)?)?;
        let root = if group.is_empty() {
            "/api".to_owned()
        } else {
            format!("/apis/{group}")
        };
        let namespace = if info.namespaced {
            format!("/namespaces/{}", object.namespace)
        } else {
            String::new()
        };
        let name = if object.name.is_empty() {
            String::new()
        } else {
            format!("/{}", object.name)
        };
        Some(ApiRequest {
            method,
            path: format!("{root}/{version}{namespace}/{}{name}{last}", info.plural),
            query: vec![("fieldManager".to_owned(), "controllers".to_owned())],
            content_type: Some("application/json".to_owned()),
            accept: None,
            user: User::admin(),
            body: body.to_string().into_bytes(),
        })
    }
}
