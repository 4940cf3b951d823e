//! The init container: look, ask, decide, do.

use super::disk::Disk;
use super::volume::{ChangeError, DataVolume};
use crate::call::{CallError, bounded, existing};
use crate::clock::{rfc3339, wall};
use crate::memgraph::stored::{ReadRecordError, Stored};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::ids::{Ordinal, PodUid};
use mainstay_core::memgraph::objects::ClusterName;
use mainstay_core::memgraph::prepare::{Asked, Next, next};
use std::time::Duration;
use thiserror::Error;

const LINE: &str = "=========================================";

/// Which pod is to be prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub pod: String,
    /// Its number in the set.
    pub ordinal: Ordinal,
    /// Its uid, to be noted on the volume.
    pub uid: Option<PodUid>,
    /// Between two questions for the record, while nobody answers.
    pub pause: Duration,
}

/// Why the record could not be had.
#[derive(Debug, Error)]
pub enum AskError {
    /// There is no client to ask with.
    #[error("Kubernetes cannot be asked: {0}")]
    Client(String),
    /// It did not say, or said something else.
    #[error(transparent)]
    Record(#[from] ReadRecordError),
}

/// Why the pod is not prepared. Nothing was lost, and the next run begins again.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// The volume.
    #[error(transparent)]
    Volume(#[from] ChangeError),
}

/// The record as it is now; `None` if there is none.
pub async fn record(
    client: Client,
    namespace: &str,
    cluster: &ClusterName,
    patience: Duration,
) -> Result<Option<Record>, AskError> {
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let called = |error: CallError| AskError::Record(error.into());
    let found = existing(bounded(patience, api.get(&cluster.record())).await).map_err(called)?;
    let Some(map) = found else {
        return Ok(None);
    };
    Ok(Stored::parse(map)?.document.map(|document| document.record))
}

/// Carries out a requested hard reset, or finds that none was requested. Returns when the database may start.
///
/// While a marker is there and nobody says whether it still counts, it waits: to wipe could destroy a repaired copy,
/// and to start would run a diverged one whose marker then outlives it.
pub async fn prepare<D: Disk>(
    volume: &mut DataVolume<D>,
    task: &Task,
    mut ask: impl AsyncFnMut() -> Result<Option<Record>, AskError>,
    mut say: impl FnMut(&str),
) -> Result<(), PrepareError> {
    for line in [LINE, "Memgraph Data Cleanup Init Container", LINE] {
        say(line);
    }
    say(&format!("Pod: {}", task.pod));
    say(&format!("Timestamp: {}", rfc3339(wall())));
    let mut told = Talk::default();
    loop {
        let seen = volume.read()?;
        if let Some(text) = &seen.marker {
            told.detected(text, &mut say);
        }
        let mut todo = next(&seen, task.ordinal, None);
        if todo == Next::Ask {
            let answer = ask().await;
            let asked = match &answer {
                Ok(Some(record)) => Asked::Record(record),
                Ok(None) => Asked::NoRecord,
                Err(error) => {
                    told.waits(&error.to_string(), &mut say);
                    Asked::NoAnswer
                }
            };
            todo = next(&seen, task.ordinal, Some(asked));
        }
        match todo {
            Next::Start => {
                say("No hard reset requested");
                break;
            }
            Next::SetAside { id, keep } => {
                say("Performing FULL data cleanup...");
                volume.set_aside(id, keep)?;
                say(&format!("The data is in {}", volume.quarantine(id).display()));
                if keep {
                    say(
                        "It may hold a write that nobody else has: it stays until `mainstay quarantine purge`",
                    );
                }
            }
            Next::Finish(marker) => {
                volume.finish(marker)?;
                say("Hard reset complete - pod will start with clean slate");
                break;
            }
            Next::Stale(why) => {
                volume.set_marker_aside()?;
                say(&format!(
                    "The marker has no effect: {why}. The data stays as it is"
                ));
                break;
            }
            Next::Ask | Next::Wait => tokio::time::sleep(task.pause).await,
        }
    }
    note_pod(volume, task, &mut say);
    for line in [LINE, "Init container finished", LINE] {
        say(line);
    }
    Ok(())
}

/// A pod must be able to start on a full volume: only a later reset is refused then.
fn note_pod<D: Disk>(volume: &mut DataVolume<D>, task: &Task, say: &mut impl FnMut(&str)) {
    let noted = task.uid.map(|uid| volume.note_pod(uid));
    if let Some(Err(error)) = noted {
        say(&format!(
            "The pod could not be noted on the volume ({error}): a marker of this pod will have no effect"
        ));
    }
}

/// Says each thing once, however often it is looked at.
#[derive(Default)]
struct Talk {
    marker: bool,
    waits: Option<String>,
}

impl Talk {
    fn detected(&mut self, text: &str, say: &mut impl FnMut(&str)) {
        if std::mem::replace(&mut self.marker, true) {
            return;
        }
        say("HARD RESET REQUESTED - Magic marker file detected");
        say("Reading marker file:");
        for line in text.lines() {
            say(line);
        }
    }

    fn waits(&mut self, why: &str, say: &mut impl FnMut(&str)) {
        if self.waits.as_deref() == Some(why) {
            return;
        }
        say(&format!(
            "Whether this reset is still wanted is not known: {why}. Neither wiping nor starting; asking again"
        ));
        self.waits = Some(why.to_owned());
    }
}

#[cfg(test)]
mod tests;
