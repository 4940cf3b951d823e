//! What a drill reads of a cluster, and the little that it changes, over the Kubernetes API.

use api::MemgraphCluster;
use api::memgraph::{MemgraphClusterStatus, QuarantineStatus, ResetStatus, TermStatus, wishes};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use operator::install::LEASE;
use operator::memgraph::ReplicationPorts;
use serde_json::json;
use std::net::IpAddr;
use thiserror::Error;

/// The annotation by which an owner allows drills.
pub(crate) const ALLOW: &str = "mainstay.dev/allow-drills";

/// One cluster.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// Whoever may read and delete there.
    pub(crate) client: Client,
    /// Where it is.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// Where its operators are.
    pub(crate) operators: String,
    /// Where its databases listen for their MAIN.
    pub(crate) ports: ReplicationPorts,
}

/// A call to Kubernetes that failed.
#[derive(Debug, Error)]
#[error("cannot {what}")]
pub(crate) struct ClusterError {
    what: String,
    source: Box<kube::Error>,
}

fn failed(what: impl Into<String>) -> impl FnOnce(kube::Error) -> ClusterError {
    let what = what.into();
    |source| ClusterError {
        what,
        source: Box::new(source),
    }
}

/// What its status says at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) term: u64,
    pub(crate) main: Option<String>,
    pub(crate) sync: Option<String>,
    pub(crate) ready: bool,
    pub(crate) protected: bool,
    pub(crate) reasons: Vec<String>,
    pub(crate) history: Vec<TermStatus>,
    pub(crate) record: Option<String>,
    pub(crate) resets: Vec<ResetStatus>,
    pub(crate) quarantines: Vec<QuarantineStatus>,
    pub(crate) replicas: u8,
    pub(crate) allowed: bool,
}

impl Look {
    /// A MAIN serves, and nothing that it acknowledges is lost with it.
    pub(crate) fn is_well(&self) -> bool {
        self.ready && self.protected
    }

    /// The resets of a pod that are known.
    pub(crate) fn resets_of(&self, pod: &str) -> impl Iterator<Item = &ResetStatus> {
        let pod = pod.to_owned();
        self.resets.iter().filter(move |reset| reset.pod == pod)
    }

    /// Its last reset came to its end: the data is set aside, and the record asks for nothing any more, which it does
    /// until the clean replica is `ready`.
    pub(crate) fn is_reset(&self, pod: &str) -> bool {
        let asked = self.record.as_deref().is_none_or(|record| {
            let record: Result<serde_json::Value, _> = serde_json::from_str(record);
            record.is_ok_and(|record| record.get("reset").is_some_and(|reset| !reset.is_null()))
        });
        let last = self.resets_of(pod).last();
        let aside = last.is_some_and(|reset| {
            let mut all = self.quarantines.iter();
            all.any(|set_aside| set_aside.pod == pod && set_aside.id == reset.id)
        });
        aside && !asked
    }

    fn of(object: MemgraphCluster) -> Self {
        let allowed = object
            .annotations()
            .get(ALLOW)
            .is_some_and(|value| value == "true");
        let replicas = object.spec.replicas;
        let status = object.status.unwrap_or_default();
        let is = |kind: &str| {
            let found = status.conditions.iter().find(|condition| condition.kind == kind);
            found.is_some_and(|condition| condition.status == "True")
        };
        let (ready, protected) = (is("Ready"), is("Protected"));
        let MemgraphClusterStatus {
            term,
            target_main_pod,
            target_sync_replica,
            reasons,
            history,
            record,
            resets,
            quarantines,
            ..
        } = status;
        Self {
            term: term.unwrap_or_default(),
            main: target_main_pod,
            sync: target_sync_replica,
            ready,
            protected,
            reasons,
            history,
            record,
            resets,
            quarantines,
            replicas,
            allowed,
        }
    }
}

impl Cluster {
    fn objects(&self) -> Api<MemgraphCluster> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Its status now.
    pub(crate) async fn look(&self) -> Result<Look, ClusterError> {
        let object = self.objects().get(&self.name).await;
        object
            .map(Look::of)
            .map_err(failed(format!("read the cluster {}", self.name)))
    }

    /// Who leads the operators, as it calls itself.
    pub(crate) async fn leader(&self) -> Result<Option<String>, ClusterError> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.operators);
        let lease = leases.get(LEASE).await.map_err(failed("read the leader lease"))?;
        Ok(lease.spec.and_then(|spec| spec.holder_identity))
    }

    /// The pods of the operators.
    pub(crate) async fn operators(&self) -> Result<Vec<String>, ClusterError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.operators);
        let listed = pods.list(&kube::api::ListParams::default()).await;
        let listed = listed.map_err(failed("list the operators"))?;
        let named = listed.items.iter().map(ResourceExt::name_any);
        Ok(named.filter(|name| name.starts_with(LEASE)).collect())
    }

    /// The pods of its gateways.
    pub(crate) async fn gateways(&self) -> Result<Vec<String>, ClusterError> {
        let ours = format!("mainstay.dev/cluster={},mainstay.dev/role=gateway", self.name);
        let listed = self
            .pods()
            .list(&kube::api::ListParams::default().labels(&ours))
            .await;
        let listed = listed.map_err(failed("list the gateways"))?;
        Ok(listed.items.iter().map(ResourceExt::name_any).collect())
    }

    /// The names of the database pods.
    pub(crate) fn databases(&self, replicas: u8) -> Vec<String> {
        (0..replicas)
            .map(|number| format!("{}-{number}", self.name))
            .collect()
    }

    /// Which object a pod is now; `None` if there is none.
    pub(crate) async fn uid(&self, pod: &str) -> Result<Option<String>, ClusterError> {
        let found = self.pods().get_opt(pod).await;
        Ok(found
            .map_err(failed(format!("read the pod {pod}")))?
            .and_then(|pod| pod.uid()))
    }

    /// Where a pod is reached.
    pub(crate) async fn ip(&self, pod: &str) -> Result<Option<IpAddr>, ClusterError> {
        let found = self.pods().get_opt(pod).await;
        let found = found.map_err(failed(format!("read the pod {pod}")))?;
        let ip = found.and_then(|pod| pod.status?.pod_ip);
        Ok(ip.and_then(|ip| ip.parse().ok()))
    }

    /// The folder behind a claim.
    pub(crate) async fn volume(&self, claim: &str) -> Result<String, ClusterError> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &self.namespace);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let what = || failed(format!("read the volume of {claim}"));
        let found = claims.get(claim).await.map_err(what())?;
        let name = found.spec.and_then(|spec| spec.volume_name).unwrap_or_default();
        let volume = volumes.get(&name).await.map_err(what())?;
        let path = volume.spec.and_then(|spec| spec.host_path).map(|host| host.path);
        Ok(path.unwrap_or_default())
    }

    /// Deletes a pod, with the grace that it asks for or with none.
    pub(crate) async fn delete(&self, namespace: &str, pod: &str, grace: Grace) -> Result<(), ClusterError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = match grace {
            Grace::Own => DeleteParams::default(),
            Grace::None => DeleteParams::default().grace_period(0),
        };
        let deleted = pods.delete(pod, &params).await;
        deleted.map(drop).map_err(failed(format!("delete the pod {pod}")))
    }

    /// Another template for its pods, as `kubectl rollout restart` writes it.
    pub(crate) async fn roll(&self) -> Result<(), ClusterError> {
        let sets: Api<StatefulSet> = Api::namespaced(self.client.clone(), &self.namespace);
        let now = jiff::Timestamp::now().to_string();
        let restarted = json!({ "kubectl.kubernetes.io/restartedAt": now });
        let patch = json!({ "spec": { "template": { "metadata": { "annotations": restarted } } } });
        let patched = sets
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.map(drop).map_err(failed("restart the StatefulSet"))
    }

    /// Asks for a switchover, or takes the wish back.
    pub(crate) async fn wish_main(&self, to: Option<u8>) -> Result<(), ClusterError> {
        let what = to.map_or_else(
            || {
                format!(
                    "take the annotation `{}` back: remove it by hand",
                    wishes::SWITCHOVER
                )
            },
            |ordinal| format!("ask for a switchover to {ordinal}"),
        );
        let value = to.map(|ordinal| ordinal.to_string());
        let patch = json!({ "metadata": { "annotations": { wishes::SWITCHOVER: value } } });
        let patched = self
            .objects()
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.map(drop).map_err(failed(what))
    }
}

/// How much time a deleted pod gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grace {
    /// As much as it asks for.
    Own,
    /// None.
    None,
}
