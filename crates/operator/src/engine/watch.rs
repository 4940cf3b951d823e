//! Watches: what changes in Kubernetes says which cluster is to be looked at.

use super::queue::Urgency;
use super::turns::{Key, Turns};
use api::MemgraphCluster;
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt};
use mainstay_core::memgraph::objects::CLUSTER_LABEL;
use std::pin::pin;

/// Which namespaces are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All.
    All,
    /// One.
    Namespace(String),
}

impl Scope {
    fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        match self {
            Self::All => Api::all(client.clone()),
            Self::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
        }
    }
}

/// The clusters themselves: metadata is enough, a turn reads the object anyway.
pub async fn clusters(client: Client, scope: Scope, turns: Turns) {
    let api: Api<PartialObjectMeta<MemgraphCluster>> = scope.api(&client);
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = pin!(events);
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Apply(object) | watcher::Event::InitApply(object))) => {
                if let Some(key) = own_key(&object) {
                    turns.know(key, Urgency::Reconcile);
                }
            }
            Ok(Some(watcher::Event::Delete(object))) => {
                if let Some(key) = own_key(&object) {
                    turns.forget(&key);
                }
            }
            Ok(Some(watcher::Event::Init)) => {}
            Ok(Some(watcher::Event::InitDone)) => turns.synced(),
            Ok(None) => return,
            Err(error) => tracing::warn!(%error, "the watch of clusters broke; it begins again"),
        }
    }
}

fn own_key(object: &PartialObjectMeta<MemgraphCluster>) -> Option<Key> {
    Some(Key {
        namespace: object.namespace()?,
        name: object.name_any(),
    })
}

/// Pods and records of clusters: whose label says which.
pub async fn belongings(client: Client, scope: Scope, turns: Turns) {
    let config = watcher::Config::default().labels(CLUSTER_LABEL);
    let pods = watcher(scope.api::<PartialObjectMeta<Pod>>(&client), config.clone()).default_backoff();
    let records = watcher(scope.api::<PartialObjectMeta<ConfigMap>>(&client), config).default_backoff();
    tokio::join!(
        follow(pods, &turns, Urgency::Failover),
        follow(records, &turns, Urgency::Reconcile)
    );
}

async fn follow<K: kube::Resource<DynamicType = ()>>(
    events: impl futures::Stream<Item = Result<watcher::Event<PartialObjectMeta<K>>, watcher::Error>>,
    turns: &Turns,
    urgency: Urgency,
) {
    let mut events = pin!(events);
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Apply(object) | watcher::Event::Delete(object))) => {
                let cluster = object.labels().get(CLUSTER_LABEL).cloned();
                if let (Some(namespace), Some(name)) = (object.namespace(), cluster) {
                    turns.push(Key { namespace, name }, urgency);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => tracing::warn!(%error, "a watch broke; it begins again"),
        }
    }
}
