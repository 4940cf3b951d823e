//! Following the record in its ConfigMap.

use crate::session::Shared;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use mainstay_core::memgraph::document::{Document, DocumentError, Parsed};
use std::pin::pin;
use std::time::Duration;
use thiserror::Error;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// After a failed read; doubled each time, up to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Between two reads because somebody doubts (G5), however many do.
const DOUBT_EVERY: Duration = Duration::from_millis(250);
/// A watch that says nothing may be one whose connection died silently: it is begun anew after this.
const WATCH: Duration = Duration::from_secs(30);

/// Why the record was not read.
#[derive(Debug, Error)]
enum FollowError {
    #[error("the API does not answer")]
    Silent,
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("the watch ended: {0}")]
    Watch(String),
}

/// Follows the record for ever. A silent API changes nothing (G4).
pub(super) async fn run(shared: &Shared, client: Client) {
    let api: Api<ConfigMap> = Api::namespaced(client, &shared.config.namespace);
    let selector = format!("metadata.name={}", shared.config.cluster.record());
    let mut pause = PAUSE;
    loop {
        match read(shared, &api, &selector).await {
            Ok(version) => {
                let read_at = Instant::now();
                let watch = watch(shared, &api, &selector, &version, &mut pause);
                let followed = unless_doubted(watch, shared.control.doubted(), read_at + DOUBT_EVERY).await;
                if let Some(Err(error)) = followed {
                    complain(shared, &error);
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
            Err(error) => {
                complain(shared, &error);
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// What became of the watch; nothing if somebody doubts, which counts from `due` on.
///
/// Until then the watch goes on: while nobody looked, the record that everybody waited for was missed for a quarter of a
/// second.
async fn unless_doubted<W: Future>(
    watch: W,
    doubted: impl Future<Output = ()>,
    due: Instant,
) -> Option<W::Output> {
    tokio::select! {
        followed = watch => Some(followed),
        () = async {
            doubted.await;
            sleep_until(due).await;
        } => None,
    }
}

fn complain(shared: &Shared, error: &FollowError) {
    shared.metrics.record_errors.inc();
    tracing::warn!(%error, "the record cannot be followed; the last one stands");
}

/// Reads the record, not older than anything ever confirmed: a list without a version is a quorum read (G3).
async fn read(shared: &Shared, api: &Api<ConfigMap>, selector: &str) -> Result<String, FollowError> {
    let params = ListParams::default().fields(selector);
    let listed = timeout(shared.config.timeouts.api, api.list(&params)).await;
    let listed = listed.map_err(|_| FollowError::Silent)??;
    for map in listed.items {
        obey(shared, map).await;
    }
    Ok(listed.metadata.resource_version.unwrap_or_default())
}

/// Watches from `version` until the watch ends by itself.
async fn watch(
    shared: &Shared,
    api: &Api<ConfigMap>,
    selector: &str,
    version: &str,
    pause: &mut Duration,
) -> Result<(), FollowError> {
    let seconds = u32::try_from(WATCH.as_secs()).unwrap_or(u32::MAX);
    let params = WatchParams::default().fields(selector).timeout(seconds);
    let begun = timeout(shared.config.timeouts.api, api.watch(&params, version)).await;
    let mut events = pin!(begun.map_err(|_| FollowError::Silent)??);
    *pause = PAUSE;
    let deadline = Instant::now() + WATCH + shared.config.timeouts.api;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = sleep_until(deadline) => return Ok(()),
        };
        match event {
            None => return Ok(()),
            Some(Ok(WatchEvent::Added(map) | WatchEvent::Modified(map))) => {
                obey(shared, map).await;
            }
            // Without a record nothing new is known: what is known stands until there is another.
            Some(Ok(WatchEvent::Deleted(_) | WatchEvent::Bookmark(_))) => {}
            Some(Ok(WatchEvent::Error(status))) => return Err(FollowError::Watch(status.message)),
            Some(Err(error)) => return Err(error.into()),
        }
    }
}

/// What a watch brings is newer than what the list before it did, so both are reads that may open the gateway. A list
/// that is empty, or holds nothing that can be read, is none: what was pushed meanwhile may be older than what the last
/// process confirmed (G3).
async fn obey(shared: &Shared, map: ConfigMap) {
    let parsed = map
        .data
        .ok_or(DocumentError::Empty)
        .and_then(|data| Document::parse(&data));
    match parsed {
        Ok(Parsed::Full { document, warning: _ }) => shared.control.follow(document.record).await,
        Ok(Parsed::SeedOnly { .. }) => {}
        Err(error) => {
            shared.metrics.record_errors.inc();
            tracing::warn!(%error, "the ConfigMap holds no record that can be read; the last one stands");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    #[tokio::test(start_paused = true)]
    async fn the_watch_goes_on_while_a_doubt_waits_for_its_turn() {
        let due = Instant::now() + DOUBT_EVERY;
        let event = sleep(Duration::from_millis(10));
        assert_eq!(unless_doubted(event, ready(()), due).await, Some(()));
        assert!(Instant::now() < due);
    }

    #[tokio::test(start_paused = true)]
    async fn a_doubt_ends_the_watch_but_not_before_it_is_due() {
        let due = Instant::now() + DOUBT_EVERY;
        assert_eq!(unless_doubted(pending::<()>(), ready(()), due).await, None);
        assert_eq!(Instant::now(), due);
        let watched = unless_doubted(sleep(DOUBT_EVERY), pending(), due).await;
        assert_eq!(watched, Some(()));
    }
}
