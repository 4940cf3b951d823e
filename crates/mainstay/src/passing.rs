//! Wishes of a moment: annotations that the command which wrote them takes back.
//!
//! Left there, they would be fulfilled again whenever they fit: MAIN would move after the next failover, and what a
//! later reset sets aside under a number that was used before would be deleted.

use crate::terminal::Ending;
use crate::wish::Found;
use anyhow::{Context, Result, bail};
use kube::{Client, ResourceExt};
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;

/// For the API to take a wish, and to take it back. Whoever presses Ctrl-C does not wait for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes the wish, waits for what comes of it, and takes it back: when it came true, when it was waited for long
/// enough, and when somebody ends the command.
pub(crate) async fn while_wished<T>(
    client: &Client,
    found: &Found,
    (annotation, value): (&str, &str),
    came: impl Future<Output = Result<T>>,
) -> Result<T> {
    // Before the wish is there: a signal that nobody listens for ends the program at once.
    let mut ending = Ending::listen()?;
    // To its end, whatever is signalled meanwhile: a wish that arrives after it was taken back would stay.
    let written = timeout(PATIENCE, found.annotate(client, annotation, Some(value))).await;
    let came = match written.map_err(anyhow::Error::from).flatten() {
        Ok(()) => tokio::select! {
            came = came => Some(came),
            _ = ending.told() => None,
        },
        // It may be there all the same.
        Err(error) => Some(Err(error)),
    };
    timeout(PATIENCE, take_back(client, found, annotation, value))
        .await
        .map_err(anyhow::Error::from)
        .flatten()
        .with_context(|| {
            format!("the wish could not be taken back: remove the annotation `{annotation}` by hand")
        })?;
    match came {
        Some(came) => came,
        None => bail!("told to end: it is not asked for any more; what has begun goes on"),
    }
}

/// Only our own: somebody else may have wished for something else meanwhile.
async fn take_back(client: &Client, found: &Found, annotation: &str, value: &str) -> Result<()> {
    let now = found.api(client).get(&found.cluster.name_any()).await?;
    if now.annotations().get(annotation).map(String::as_str) == Some(value) {
        found.annotate(client, annotation, None).await?;
    }
    Ok(())
}
