//! A watch, which misses nothing, also not what lasted for a moment.

use anyhow::{Context, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, WatchEvent, WatchParams};

/// Tells of everything that there is, and of every change of it. Ends only when something is wrong.
pub(crate) async fn watched(api: Api<DynamicObject>, mut told: impl FnMut(&DynamicObject)) -> Result<()> {
    let listed = api.list(&ListParams::default()).await?;
    let mut version = listed.metadata.resource_version.context("no version")?;
    listed.items.iter().for_each(&mut told);
    loop {
        let mut changes = api.watch(&WatchParams::default(), &version).await?.boxed();
        while let Some(change) = changes.try_next().await? {
            match change {
                WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                    version = object.resource_version().context("no version")?;
                    told(&object);
                }
                WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                WatchEvent::Error(error) => bail!("{error:?}"),
            }
        }
    }
}
