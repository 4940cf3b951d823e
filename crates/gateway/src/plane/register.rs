//! The gateway's own object: a Lease, whose annotations are its confirmation.

use super::HEARD_EVERY;
use crate::config::Config;
use crate::session::Shared;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use mainstay_core::memgraph::objects::{CLUSTER_LABEL, Confirmation, ROLE_LABEL};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};

/// After a failed write; doubled each time, up to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often the Lease is renewed when there is nothing to say.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// What is written as its duration. Nobody may take a gateway for gone because of it: that would unfence a MAIN.
const DURATION_SECONDS: i32 = 30;

/// Why the Lease was not written.
#[derive(Debug, Error)]
enum RegisterError {
    #[error("the API does not answer")]
    Silent,
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("the Lease cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}

/// The registration of one gateway.
pub(super) struct Registration<'a> {
    shared: &'a Shared,
    api: Api<Lease>,
    name: String,
    push: String,
}

impl<'a> Registration<'a> {
    pub(super) fn new(shared: &'a Shared, client: Client, push: String) -> Self {
        let config = &shared.config;
        Self {
            shared,
            api: Api::namespaced(client, &config.namespace),
            name: config.cluster.gateway_lease(&config.name),
            push,
        }
    }

    /// Writes what is to be said as soon as there is something. A silent API changes nothing else (G4).
    pub(super) async fn keep(&self) {
        let mut confirmed = self.shared.control.confirmed();
        let mut before = None;
        let mut last: Option<(Confirmation, Instant)> = None;
        let mut pause = PAUSE;
        loop {
            confirmed.mark_unchanged();
            match self.tell(&mut before, &mut last).await {
                Ok(()) => pause = PAUSE,
                Err(error) => {
                    self.shared.metrics.api_silent.set(1);
                    self.shared.metrics.registration_errors.inc();
                    tracing::warn!(%error, lease = self.name, "the Lease was not written");
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
            }
            tokio::select! {
                _ = confirmed.changed() => {}
                () = sleep(HEARD_EVERY) => {}
            }
        }
    }

    /// Writes the Lease if there is something new in it, or if it was not written for long.
    async fn tell(
        &self,
        before: &mut Option<Confirmation>,
        last: &mut Option<(Confirmation, Instant)>,
    ) -> Result<(), RegisterError> {
        let first = last.is_none();
        if first {
            *before = self.said_before().await?;
        }
        let mut now = self.shared.control.confirmation();
        // What the last process of this name confirmed stays true as long as nothing is forwarded, and a record
        // that has to be rebuilt begins above it (R19).
        if self.shared.control.confirmed().borrow().is_none()
            && let Some(before) = before
        {
            (now.term, now.revision) = (before.term, before.revision);
        }
        let due = last
            .as_ref()
            .is_none_or(|(said, at)| *said != now || at.elapsed() >= RENEW_EVERY);
        if due {
            self.write(&now).await?;
            self.shared.metrics.api_silent.set(0);
            *last = Some((now, Instant::now()));
            if first {
                self.shared.control.registered().await;
            }
        }
        Ok(())
    }

    /// What an earlier process of the same name confirmed.
    async fn said_before(&self) -> Result<Option<Confirmation>, RegisterError> {
        let lease = self.in_time(self.api.get_opt(&self.name)).await?;
        let annotations = lease.and_then(|lease| lease.metadata.annotations);
        Ok(annotations
            .and_then(|all| Confirmation::read(&all).ok())
            .map(|(said, _)| said))
    }

    async fn write(&self, now: &Confirmation) -> Result<(), RegisterError> {
        let object = self.object(now);
        let (params, patch) = (PatchParams::default(), Patch::Merge(&object));
        match self.in_time(self.api.patch(&self.name, &params, &patch)).await {
            Err(RegisterError::Api(kube::Error::Api(status))) if status.code == 404 => {
                let lease: Lease = serde_json::from_value(object)?;
                let params = PostParams::default();
                self.in_time(self.api.create(&params, &lease)).await.map(drop)
            }
            patched => patched.map(drop),
        }
    }

    async fn in_time<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, RegisterError> {
        let answered = timeout(self.shared.config.timeouts.api, request).await;
        Ok(answered.map_err(|_| RegisterError::Silent)??)
    }

    /// The Lease as it should be; as a merge patch it leaves alone what others added.
    fn object(&self, now: &Confirmation) -> Value {
        let config = &self.shared.config;
        let mut object = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self.name,
                "namespace": config.namespace,
                "labels": labels(config),
                "annotations": now.annotations(&self.push),
            },
            "spec": {
                "holderIdentity": config.name,
                "leaseDurationSeconds": DURATION_SECONDS,
                "renewTime": MicroTime(jiff_now()),
            },
        });
        if let (Some(pod), Some(metadata)) = (
            &config.pod,
            object.get_mut("metadata").and_then(Value::as_object_mut),
        ) {
            // The Lease of a pod that is gone must not hold a failover back for ever.
            let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}]);
            metadata.insert("ownerReferences".to_owned(), owner);
        }
        object
    }

    /// The gateway forwards nothing any more and need not be asked.
    pub(super) async fn take_back(&self) {
        let params = DeleteParams::default();
        if let Err(error) = self.in_time(self.api.delete(&self.name, &params)).await {
            tracing::warn!(%error, lease = self.name, "the Lease was not deleted");
        }
    }
}

fn labels(config: &Config) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        (CLUSTER_LABEL, config.cluster.to_string()),
        (ROLE_LABEL, "gateway".to_owned()),
    ])
}

fn jiff_now() -> jiff::Timestamp {
    jiff::Timestamp::try_from(SystemTime::now()).unwrap_or_default()
}
