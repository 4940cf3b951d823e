//! Each step one call, or two where an object and its place go together. The executor makes no choice.

use super::cluster::{Cluster, REPLACE_LABEL, RING_LABEL, ledger_map};
use super::member::{Database, MemberError};
use super::observe::Look;
use crate::call::{CallError, bounded, existing};
use crate::engine::lease::Permit;
use api::RingCluster;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Resource};
use mainstay_core::ring::ids::{HostId, Member, PodUid, ServiceUid};
use mainstay_core::ring::ledger::{self, Ledger};
use mainstay_core::ring::record::RecordMap;
use mainstay_core::ring::{Plan, Step};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// Why a step was not carried out. The turn ends with it.
#[derive(Debug, Error)]
pub enum ActError {
    /// A call to Kubernetes.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A call to a database.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// Not to be written down.
    #[error("it cannot be written down: {0}")]
    Print(#[from] serde_json::Error),
    /// What it is about is not there any more.
    #[error("what it is about is not there any more")]
    Gone,
}

/// What came of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acted {
    /// The steps that were done, in order.
    pub done: Vec<String>,
    /// Why it ended early, if it did.
    pub ended: Option<String>,
}

/// What is needed to carry out a plan.
pub struct Actor<'a> {
    /// Which ring.
    pub cluster: &'a Cluster,
    /// The object that declares it.
    pub object: &'a RingCluster,
    /// What the turn saw; what it writes is noted here.
    pub look: &'a mut Look,
    /// The right to act, asked before each step.
    pub permit: &'a Permit,
}

impl Actor<'_> {
    /// Carries out a plan, as far as it goes.
    pub async fn carry_out(&mut self, plan: &Plan) -> Acted {
        let mut acted = Acted::default();
        for step in &plan.steps {
            if let Err(refusal) = self.permit.check(self.cluster.settings.call * 2) {
                acted.ended = Some(format!("{step}: not sent, {refusal}"));
                break;
            }
            let tap = self.cluster.settings.tap.clone();
            let outcome = tap.around(step, Box::pin(self.perform(step))).await;
            match outcome {
                Ok(()) => {
                    tracing::info!(ring = %self.cluster.name, %step, "step");
                    acted.done.push(step.to_string());
                }
                Err(error) => {
                    tracing::info!(ring = %self.cluster.name, %step, %error, "step");
                    acted.ended = Some(format!("{step}: {error}"));
                    break;
                }
            }
        }
        acted
    }

    async fn perform(&mut self, step: &Step) -> Result<(), ActError> {
        match step {
            Step::CreateLedger(ledger) => self.create_ledger(ledger).await,
            Step::WriteLedger(ledger) => self.write_ledger(ledger).await,
            Step::DeleteLedger => self.delete_ledger().await,
            Step::CreateRecord { member, service, map } => self.create_record(member, *service, map).await,
            Step::DeleteRecord { member, uid } => {
                Ok(self.delete::<ConfigMap>(&member.record_map(), uid).await?)
            }
            Step::DeletePod { member, uid } => Ok(self.delete::<Pod>(&member.to_string(), uid).await?),
            Step::DeleteClaim { member, uid } => {
                Ok(self.delete::<PersistentVolumeClaim>(&member.claim(), uid).await?)
            }
            Step::Decommission { member, host } => Ok(self.database(member)?.decommission(*host).await?),
            Step::Drain { member, pod, host } => self.drain(member, *pod, *host).await,
            Step::RemoveReplaceLabel { member, service } => self.remove_label(member, *service).await,
            Step::Retire { member } => self.retire(member).await,
            Step::TeachSeeds { peer, seeds } => {
                let own = self.look.observed.member(peer).and_then(|m| m.address);
                Ok(self.database(peer)?.teach(own, seeds).await?)
            }
            Step::SetReplaceLabel { member, service } => self.set_label(member, *service).await,
        }
    }

    /// Asked for anew: an operator that was paused must not drain the pod that has come since.
    async fn drain(&self, member: &Member, uid: PodUid, host: Option<HostId>) -> Result<(), ActError> {
        let pods = self.cluster.api::<Pod>();
        let found = bounded(self.cluster.settings.call, pods.get(&member.to_string())).await?;
        let same = found.metadata.uid == Some(uid.to_string()) && found.metadata.deletion_timestamp.is_none();
        let at = found.status.and_then(|s| s.pod_ip?.parse().ok());
        let at = at.filter(|_| same).ok_or(ActError::Gone)?;
        let (engine, patience) = (self.look.observed.spec.engine, self.cluster.settings.probe);
        Ok(Database::at(engine, at, patience).drain(host).await?)
    }

    fn database(&self, member: &Member) -> Result<Database, ActError> {
        let at = *self.look.addresses.get(member).ok_or(ActError::Gone)?;
        let (engine, patience) = (self.look.observed.spec.engine, self.cluster.settings.probe);
        Ok(Database::at(engine, at, patience))
    }

    fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(RING_LABEL.to_owned(), self.cluster.name.clone())])
    }

    async fn create_ledger(&mut self, ledger: &Ledger) -> Result<(), ActError> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(ledger_map(&self.cluster.name));
        map.metadata.labels = Some(self.labels());
        map.metadata.owner_references = self.object.controller_owner_ref(&()).map(|owner| vec![owner]);
        map.data = Some(BTreeMap::from([(ledger::KEY.to_owned(), ledger.print()?)]));
        let maps = self.cluster.api::<ConfigMap>();
        let params = PostParams::default();
        let made = bounded(self.cluster.settings.call, maps.create(&params, &map)).await?;
        self.took(made, ledger);
        Ok(())
    }

    /// With the version that was read before looking, or that this turn wrote itself.
    async fn write_ledger(&mut self, ledger: &Ledger) -> Result<(), ActError> {
        let mut map = self.look.map.clone().ok_or(ActError::Gone)?;
        let data = map.data.get_or_insert_default();
        data.insert(ledger::KEY.to_owned(), ledger.print()?);
        let maps = self.cluster.api::<ConfigMap>();
        let (name, params) = (ledger_map(&self.cluster.name), PostParams::default());
        let made = bounded(self.cluster.settings.call, maps.replace(&name, &params, &map)).await?;
        self.took(made, ledger);
        Ok(())
    }

    fn took(&mut self, map: ConfigMap, ledger: &Ledger) {
        self.look.map = Some(map);
        self.look.ledger = Some(ledger.clone());
    }

    async fn delete_ledger(&mut self) -> Result<(), ActError> {
        let map = self.look.map.as_ref().ok_or(ActError::Gone)?;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: map.metadata.uid.clone(),
                resource_version: map.metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let maps = self.cluster.api::<ConfigMap>();
        let name = ledger_map(&self.cluster.name);
        bounded(self.cluster.settings.call, maps.delete(&name, &params)).await?;
        (self.look.map, self.look.ledger) = (None, None);
        Ok(())
    }

    async fn create_record(
        &self,
        member: &Member,
        service: ServiceUid,
        record: &RecordMap,
    ) -> Result<(), ActError> {
        let RecordMap {
            immutable,
            data,
            annotations,
        } = record.clone();
        let mut map = ConfigMap {
            immutable: Some(immutable),
            data: Some(data),
            ..ConfigMap::default()
        };
        map.metadata.name = Some(member.record_map());
        map.metadata.labels = Some(self.labels());
        map.metadata.annotations = Some(annotations);
        // It goes with the member's Service: a namesake inherits nothing.
        map.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            name: member.to_string(),
            uid: service.to_string(),
            ..OwnerReference::default()
        }]);
        let maps = self.cluster.api::<ConfigMap>();
        let params = PostParams::default();
        bounded(self.cluster.settings.call, maps.create(&params, &map)).await?;
        Ok(())
    }

    /// By uid, so that a namesake is never hit.
    async fn delete<K>(&self, name: &str, uid: &(impl fmt::Display + Sync)) -> Result<(), CallError>
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope>
            + Clone
            + fmt::Debug
            + serde::de::DeserializeOwned,
        K::DynamicType: Default,
    {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_string()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let api: Api<K> = self.cluster.api();
        let deleted = bounded(self.cluster.settings.call, api.delete(name, &params)).await;
        existing(deleted.map(drop)).map(|_| ())
    }

    /// The only thing that is ever changed of a cluster that scylla-operator runs. With the version that was read: a
    /// Service that changed meanwhile is looked at again first.
    async fn set_label(&self, member: &Member, uid: ServiceUid) -> Result<(), ActError> {
        self.relabel(member, uid, |labels| {
            labels.insert(REPLACE_LABEL.to_owned(), String::new());
        })
        .await
    }

    async fn remove_label(&self, member: &Member, uid: ServiceUid) -> Result<(), ActError> {
        self.relabel(member, uid, |labels| {
            labels.remove(REPLACE_LABEL);
        })
        .await
    }

    async fn relabel(
        &self,
        member: &Member,
        uid: ServiceUid,
        change: impl FnOnce(&mut BTreeMap<String, String>),
    ) -> Result<(), ActError> {
        let mut service = self.look.services.get(member).cloned().ok_or(ActError::Gone)?;
        if service.metadata.uid != Some(uid.to_string()) {
            return Err(ActError::Gone);
        }
        change(service.metadata.labels.get_or_insert_default());
        let services = self.cluster.api::<Service>();
        let (name, params) = (member.to_string(), PostParams::default());
        bounded(
            self.cluster.settings.call,
            services.replace(&name, &params, &service),
        )
        .await?;
        Ok(())
    }

    /// Its place in the rack first, so that its pod does not come back; then its Service, and the record with it.
    async fn retire(&self, member: &Member) -> Result<(), ActError> {
        let name = member.to_string();
        let (set, ordinal) = name.rsplit_once('-').ok_or(ActError::Gone)?;
        let ordinal: i32 = ordinal.parse().map_err(|_| ActError::Gone)?;
        let patience = self.cluster.settings.call;
        let sets = self.cluster.api::<StatefulSet>();
        let found = existing(bounded(patience, sets.get(set)).await)?;
        if let Some(mut found) = found
            && let Some(spec) = found.spec.as_mut()
        {
            let replicas = spec.replicas.unwrap_or(1);
            // Only the last one of a rack can go.
            if replicas > ordinal + 1 {
                return Err(ActError::Gone);
            }
            if replicas == ordinal + 1 {
                spec.replicas = Some(ordinal);
                found.status = None;
                bounded(patience, sets.replace(set, &PostParams::default(), &found)).await?;
            }
        }
        if let Some(service) = self.look.services.get(member)
            && let Some(uid) = service.metadata.uid.as_ref()
        {
            self.delete::<Service>(&name, uid).await?;
        }
        Ok(())
    }
}
