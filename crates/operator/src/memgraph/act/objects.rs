//! Steps that change Kubernetes objects.

use super::Actor;
use crate::call::{CallError, bounded};
use kube::api::{DeleteParams, PostParams, Preconditions};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::document::Document;
use mainstay_core::memgraph::ids::{Ordinal, PodUid};
use mainstay_core::memgraph::plan::{Step, Target};
use mainstay_core::memgraph::turn::Outcome;

use crate::clock::wall;

impl Actor<'_> {
    pub(super) async fn create_record(&mut self, record: &Record) -> Outcome {
        let document = Document::first(record.clone(), self.why, wall());
        let written = self.look.stored.create(self.cluster, &document).await;
        said("create the record", written)
    }

    /// With the version that was read before observing, or that this turn wrote itself (R9).
    pub(super) async fn write_record(&mut self, record: &Record) -> Outcome {
        let Some(before) = &self.look.stored.document else {
            return Outcome::Refused;
        };
        let document = before.succeed(record.clone(), self.why, wall());
        let written = self.look.stored.replace(self.cluster, &document).await;
        said("write the record", written)
    }

    /// The very process that is meant, or nobody (R36): the pod may have restarted it since it was seen.
    pub(super) async fn end_process(&self, step: &Step, target: Target, uid: PodUid) -> Outcome {
        match self.runs(target).await {
            // To look may have taken longer than the lease lasts.
            Some(_) if self.permit.check(self.cluster.settings.call).is_err() => Outcome::Unknown,
            Some(_) => {
                let deleting = self.delete_pod(step, uid, 1);
                self.one_of(format!("delete {} to end its process", target.pod), deleting)
                    .await
            }
            None => Outcome::Refused,
        }
    }

    /// The end of a reset that was asked for; the words are the seeds'.
    pub(super) async fn delete_to_reset(&self, step: &Step, target: Target, uid: PodUid) -> Outcome {
        let pod_name = self.cluster.name.pod(target.pod);
        let replica_name = pod_name.replace('-', "_");
        tracing::info!(pod_name, replica_name, %step, "Deleting pod to trigger hard reset");
        let deleted = self.delete_pod(step, uid, 30).await;
        if deleted == Outcome::Done {
            tracing::info!(
                pod_name,
                replica_name,
                %step,
                "Hard reset initiated - pod will be recreated with clean data"
            );
        }
        deleted
    }

    /// By uid, so that a namesake is never hit.
    pub(super) async fn delete_pod(&self, step: &Step, uid: PodUid, grace: u32) -> Outcome {
        let (Step::DeletePod { target, .. } | Step::EndProcess { target, .. }) = step else {
            return Outcome::Refused;
        };
        self.delete(target.pod, uid, Some(grace)).await
    }

    /// The next of a planned restart. It has its own time to end.
    pub(super) async fn delete(&self, pod: Ordinal, uid: PodUid, grace: Option<u32>) -> Outcome {
        let name = self.cluster.name.pod(pod);
        let params = DeleteParams {
            grace_period_seconds: grace,
            preconditions: Some(Preconditions {
                uid: Some(dashed(uid)),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let pods = self.cluster.pods();
        let deleted = bounded(self.cluster.settings.call, pods.delete(&name, &params)).await;
        said("delete a pod", deleted.map(drop))
    }

    /// The StatefulSet as it was read: a late `Scale` hits nothing.
    pub(super) async fn scale(&mut self, replicas: u8) -> Outcome {
        let Some(mut set) = self.look.workload.set.clone() else {
            return Outcome::Refused;
        };
        let Some(spec) = &mut set.spec else {
            return Outcome::Refused;
        };
        spec.replicas = Some(i32::from(replicas));
        set.status = None;
        let name = self.cluster.name.to_string();
        let sets = self.cluster.stateful_sets();
        let scaled = bounded(
            self.cluster.settings.call,
            sets.replace(&name, &PostParams::default(), &set),
        )
        .await;
        match scaled {
            Ok(now) => {
                self.look.workload.set = Some(now);
                Outcome::Done
            }
            Err(error) => said("scale", Err(error)),
        }
    }
}

fn said(what: &str, result: Result<(), CallError>) -> Outcome {
    match result {
        Ok(()) => Outcome::Done,
        Err(error) => {
            tracing::info!(%error, "could not {what}");
            error.outcome()
        }
    }
}

/// A uid as Kubernetes writes it.
fn dashed(uid: PodUid) -> String {
    let hex = uid.to_string();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_written_as_it_was_read() {
        let text = "3f2a0b1c-1111-2222-3333-444455556666";
        assert_eq!(dashed(text.parse().unwrap()), text);
    }
}
