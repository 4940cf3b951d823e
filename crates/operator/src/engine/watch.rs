//! Watches: what changes in Kubernetes says which object is to be looked at.

use super::keeper::Keeper;
use super::queue::Urgency;
use super::turns::{Key, Loop as _, Turns};
use futures::TryStreamExt as _;
use kube::core::{NamespaceResourceScope, PartialObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt};
use std::collections::BTreeSet;
use std::fmt::Debug;
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
    /// Objects of a kind in these namespaces.
    pub fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        match self {
            Self::All => Api::all(client.clone()),
            Self::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
        }
    }
}

/// The objects of a kind themselves: metadata is enough, a turn reads the object anyway.
pub async fn objects<R, K>(client: Client, scope: Scope, turns: Turns<K>)
where
    R: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Send + 'static,
    K: Keeper,
{
    let api: Api<PartialObjectMeta<R>> = scope.api(&client);
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = pin!(events);
    let mut listed = BTreeSet::new();
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Init)) => listed.clear(),
            Ok(Some(watcher::Event::InitApply(object))) => {
                if let Some(key) = own_key(&object) {
                    listed.insert(key.clone());
                    turns.know(key, Urgency::Reconcile);
                }
            }
            Ok(Some(watcher::Event::InitDone)) => turns.synced(&std::mem::take(&mut listed)),
            Ok(Some(watcher::Event::Apply(object))) => {
                if let Some(key) = own_key(&object) {
                    turns.know(key, Urgency::Reconcile);
                }
            }
            Ok(Some(watcher::Event::Delete(object))) => {
                if let Some(key) = own_key(&object) {
                    turns.forget(&key);
                }
            }
            Ok(None) => return,
            Err(error) if is_absent(&error) => {
                if turns.absent() {
                    let (kind, definition) = (turns.kind(), definition::<R>());
                    tracing::warn!(kind, %definition, "this kind is not installed: apply its definition, and it is served");
                }
            }
            Err(error) => {
                let kind = turns.kind();
                tracing::warn!(kind, %error, "the watch of a kind broke; it begins again");
            }
        }
    }
}

/// The name of the definition of a kind.
pub fn definition<R: kube::Resource<DynamicType = ()>>() -> String {
    format!("{}.{}", R::plural(&()), R::group(&()))
}

/// The API serves no such kind.
fn is_absent(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause)) = error else {
        return false;
    };
    matches!(cause, kube::Error::Api(status) if status.code == 404)
}

fn own_key(object: &impl ResourceExt) -> Option<Key> {
    Some(Key {
        namespace: object.namespace()?,
        name: object.name_any(),
    })
}

/// Objects that belong to one of a kind: the value of `label` says to which.
pub async fn belongings<O, K>(
    client: Client,
    scope: Scope,
    turns: Turns<K>,
    label: &'static str,
    urgency: Urgency,
) where
    O: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Send + 'static,
    K: Keeper,
{
    let config = watcher::Config::default().labels(label);
    let events = watcher(scope.api::<PartialObjectMeta<O>>(&client), config).default_backoff();
    let mut events = pin!(events);
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Apply(object) | watcher::Event::Delete(object))) => {
                let owner = object.labels().get(label).cloned();
                if let (Some(namespace), Some(name)) = (object.namespace(), owner) {
                    turns.push(Key { namespace, name }, urgency);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => tracing::warn!(%error, "a watch broke; it begins again"),
        }
    }
}
