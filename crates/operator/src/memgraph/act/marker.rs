//! Asking a pod's helper: for a marker, for what is on the volume, for the end of what was set aside.

use super::Actor;
use crate::http::client::{PostError, post};
use crate::memgraph::pods::Workload;
use mainstay_core::memgraph::helper::{HELPER_PORT, MARKER_PATH};
use mainstay_core::memgraph::ids::{PodUid, ResetId, Term};
use mainstay_core::memgraph::marker::Meant;
use mainstay_core::memgraph::plan::Target;
use mainstay_core::memgraph::turn::Outcome;
use std::net::IpAddr;

/// Where the helper of a pod listens.
pub(crate) fn helper_at(ip: IpAddr) -> String {
    std::net::SocketAddr::new(ip, HELPER_PORT).to_string()
}

impl Actor<'_> {
    /// By the pod's own helper, which asks the record itself; and the init container asks again before it obeys (R7).
    ///
    /// Only into the process that was judged (R36). A helper does not know which process runs beside it, so the pod is
    /// read before and after: if another container runs by then the turn ends here, its pod is not deleted, and the
    /// request is taken back when that process is seen. The marker names pod and process; in a later pod it has no
    /// effect.
    pub(super) async fn write_marker(&self, target: Target, id: ResetId, term: Term) -> Outcome {
        let Some(ip) = self
            .look
            .workload
            .pod(target.pod)
            .filter(|pod| pod.prepared)
            .and_then(|pod| pod.ip)
        else {
            tracing::warn!(pod = %target.pod, "not reset: its pod has no helper, or no init container that keeps the data");
            return Outcome::Refused;
        };
        let Some(pod_uid) = self.runs(target).await else {
            return Outcome::Refused;
        };
        let meant = Meant {
            id,
            term,
            process: target.process,
            pod_uid,
        };
        let Ok(body) = serde_json::to_string(&meant) else {
            return Outcome::Refused;
        };
        let patience = self.cluster.settings.command;
        // To look may have taken longer than the lease lasts.
        if self.permit.check(patience).is_err() {
            return Outcome::Unknown;
        }
        let pod_name = self.cluster.name.pod(target.pod);
        let replica_name = pod_name.replace('-', "_");
        tracing::info!(
            pod_name,
            replica_name,
            "Starting hard reset procedure for diverged replica"
        );
        let helper = helper_at(ip);
        let asked = post(&helper, MARKER_PATH, self.token, body, patience);
        match self.one_of("ask the helper for a marker", asked).await {
            Ok(_) if self.runs(target).await == Some(pod_uid) => {
                tracing::info!(pod_name, replica_name, "Magic marker file created successfully");
                Outcome::Done
            }
            Ok(_) => Outcome::Unknown,
            Err(error) => {
                tracing::warn!(pod_name, replica_name, %error, "the marker was not written");
                match error {
                    PostError::Status(_) => Outcome::Refused,
                    _ => Outcome::Unknown,
                }
            }
        }
    }

    /// The pod in which this process runs, by Kubernetes, now.
    pub(super) async fn runs(&self, target: Target) -> Option<PodUid> {
        let now = Workload::read(self.cluster).await.ok()?;
        let object = now.pod(target.pod)?.object;
        (object.running == Some(target.process)).then_some(object.uid)
    }
}
