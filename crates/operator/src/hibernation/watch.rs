//! Exceptions: which plan they are about is in their spec, not in a label.

use crate::engine::queue::Urgency;
use crate::engine::turns::{Key, Turns};
use crate::engine::watch::Scope;
use crate::hibernation::Keeper;
use api::ScheduleException;
use futures::TryStreamExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt};
use std::pin::pin;

/// Looks at a plan when one of its exceptions changes.
pub async fn exceptions(client: Client, scope: Scope, turns: Turns<Keeper>) {
    let api: Api<ScheduleException> = scope.api(&client);
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Apply(object) | watcher::Event::Delete(object))) => {
                let name = object.spec.plan_ref.name.clone();
                if let Some(namespace) = object.namespace() {
                    turns.push(Key { namespace, name }, Urgency::Reconcile);
                }
            }
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => tracing::warn!(%error, "the watch of exceptions broke; it begins again"),
        }
    }
}
