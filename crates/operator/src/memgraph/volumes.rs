//! What is on the pods' volumes, as their helpers say: room for a reset, and what earlier ones set aside.

use super::act::marker::helper_at;
use super::cluster::Cluster;
use super::pods::{Seen, Workload};
use crate::http::client::{PostError, get, post};
use api::memgraph::QuarantineStatus;
use futures::future::join_all;
use mainstay_core::memgraph::helper::{PURGE_PATH, Purge, VOLUME_PATH, VolumeReport};
use mainstay_core::memgraph::ids::{Ordinal, Pods, ResetId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Between two looks: it takes the helper a walk through every file's name.
const EVERY: Duration = Duration::from_secs(30);
/// The same, while something is set aside or deleted.
const OFTEN: Duration = Duration::from_secs(2);

/// What the helpers said last.
#[derive(Default)]
pub struct Volumes {
    asked: Option<Instant>,
    known: BTreeMap<Ordinal, VolumeReport>,
}

impl Volumes {
    /// Is it time to ask again?
    pub fn due(&self, busy: bool) -> bool {
        let every = if busy { OFTEN } else { EVERY };
        self.asked.is_none_or(|at| at.elapsed() >= every)
    }

    /// Asks every helper at once. Of one that does not answer nothing is known.
    pub async fn ask(&mut self, cluster: &Cluster, workload: &Workload, token: Option<&str>) {
        let patience = cluster.settings.login;
        let asking = workload.pods.iter().filter(|pod| pod.prepared).map(|pod| async move {
            let said = get(&helper_at(pod.ip?), VOLUME_PATH, token, patience).await;
            let report = said.and_then(|text| Ok(serde_json::from_str::<VolumeReport>(&text)?));
            match report {
                Ok(report) if report.pod_uid == pod.object.uid => Some((pod.ordinal, report)),
                Ok(_) => None,
                Err(error) => {
                    tracing::debug!(pod = %pod.ordinal, %error, "a helper does not say what is on its volume");
                    None
                }
            }
        });
        let told: BTreeMap<_, _> = join_all(asking).await.into_iter().flatten().collect();
        // A helper whose disk is slow says nothing in time. Its volume is then what it was last time, not one with room.
        let uid = |pod: &Ordinal| workload.pod(*pod).map(|seen| seen.object.uid);
        self.known
            .retain(|pod, report| uid(pod) == Some(report.pod_uid) && !told.contains_key(pod));
        self.known.extend(told);
        self.asked = Some(Instant::now());
    }

    /// What was said.
    pub fn known(&self) -> &BTreeMap<Ordinal, VolumeReport> {
        &self.known
    }

    /// Was this set aside, and is it there still? A wish to delete it may stay written after it was fulfilled.
    pub fn has(&self, pod: Ordinal, id: ResetId) -> bool {
        let known = self.known.get(&pod);
        known.is_some_and(|report| report.quarantines.iter().any(|q| q.id == id))
    }

    /// Who has no room for a second copy. Of whom nothing is known that is not said: the same helper would have to
    /// write the marker, so without it nothing is reset.
    pub fn crowded(&self, main: Option<Ordinal>) -> Pods {
        let main = main.and_then(|main| self.known.get(&main));
        let full = self.known.iter().filter(|(_, report)| !report.has_room(main));
        full.map(|(pod, _)| *pod).collect()
    }

    /// For the status, of each pod whose helper answered: by its name.
    pub fn quarantines(&self, cluster: &Cluster) -> BTreeMap<String, Vec<QuarantineStatus>> {
        let each = self.known.iter().map(|(pod, report)| {
            let pod = cluster.name.pod(*pod);
            let all = report.quarantines.iter().map(|quarantine| QuarantineStatus {
                pod: pod.clone(),
                id: quarantine.id.0,
                bytes: quarantine.bytes,
                kept: quarantine.kept,
            });
            (pod.clone(), all.collect())
        });
        each.collect()
    }

    /// Deletes what is not to be kept, and looks again soon.
    pub async fn purge(
        &mut self,
        cluster: &Cluster,
        pod: &Seen,
        purge: &Purge,
        token: Option<&str>,
    ) -> Result<(), PostError> {
        self.asked = None;
        let ip = pod.ip.ok_or(PostError::Silent(Duration::ZERO))?;
        let body = serde_json::to_string(purge)?;
        post(&helper_at(ip), PURGE_PATH, token, body, cluster.settings.command).await?;
        Ok(())
    }
}
