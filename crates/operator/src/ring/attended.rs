//! What scylla-operator leaves in the API of a cluster that it runs, as far as it is read here.
//!
//! There is no gate of ours in its pods. That a disk is not bootstrapped is known from its own barrier, an init
//! container that reads the disk and lets only a bootstrapped one pass at once. Its databases listen for REST on
//! loopback only; from outside they are asked through the agent beside them, with the token that is in a Secret.

use super::cluster::Cluster;
use crate::call::{CallError, bounded, existing};
use crate::http::client::AnyCertificate;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::ResourceExt;
use kube::api::ListParams;
use mainstay_core::ring::ids::HostId;
use mainstay_core::time::Time;
use std::sync::Arc;

/// The label of everything that belongs to a cluster; its value is the cluster's name.
pub const CLUSTER_LABEL: &str = "scylla/cluster";
/// The label that says in which rack.
pub const RACK_LABEL: &str = "scylla/rack";
/// The label that says in which datacenter.
pub const DC_LABEL: &str = "scylla/datacenter";
/// Where its sidecar notes the host id of a healthy node, on the member's Service.
const HOST_ID: &str = "internal.scylla-operator.scylladb.com/host-id";
/// The init container that waits before a start which is not that of a bootstrapped disk.
const BARRIER: &str = "scylladb-bootstrap-barrier";
/// The port of the agent.
pub const AGENT_PORT: u16 = 10_001;

/// How the agents of a cluster are asked.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Their certificates are their own: who is trusted is decided by the token.
    pub tls: Arc<AnyCertificate>,
    /// What every agent of the cluster knows.
    pub token: Arc<str>,
}

/// The host id that its sidecar noted.
pub fn noted_host(service: &Service) -> Option<HostId> {
    service.annotations().get(HOST_ID)?.parse().ok()
}

/// Since when its barrier waits.
pub fn waits_since(pod: &Pod) -> Option<Time> {
    let status = pod.status.as_ref()?;
    let all = status.init_container_statuses.as_ref()?;
    let barrier = all.iter().find(|c| c.name == BARRIER)?;
    let running = barrier.state.as_ref()?.running.as_ref()?;
    let at = running.started_at.as_ref()?.0.as_millisecond();
    u64::try_from(at).ok().map(Time)
}

/// The token of the agents; without it nobody can be asked.
pub async fn agent(cluster: &Cluster, attended: &str) -> Result<Option<Agent>, CallError> {
    let secrets = cluster.api::<Secret>();
    let name = format!("{attended}-auth-token");
    let found = existing(bounded(cluster.settings.call, secrets.get(&name)).await)?;
    let token = found.as_ref().and_then(token);
    let tls = AnyCertificate::new().map(Arc::new);
    Ok(token.zip(tls).map(|(token, tls)| Agent {
        tls,
        token: token.into(),
    }))
}

/// Are pods of the cluster being restarted for a new template? Asked of the sets that make them, whoever changed those.
pub async fn rolls_out(cluster: &Cluster, attended: &str) -> Result<bool, CallError> {
    let sets = cluster.api::<StatefulSet>();
    let params = ListParams::default().labels(&format!("{CLUSTER_LABEL}={attended}"));
    let found = bounded(cluster.settings.call, sets.list(&params)).await?;
    Ok(found.items.iter().any(is_behind))
}

/// Not every pod of this set is of its newest template, or the newest is not known yet.
fn is_behind(set: &StatefulSet) -> bool {
    let Some(status) = &set.status else {
        return false;
    };
    let newer = status.update_revision.is_some() && status.update_revision != status.current_revision;
    let unseen = status
        .observed_generation
        .zip(set.metadata.generation)
        .is_some_and(|(seen, is)| seen < is);
    newer || unseen
}

/// `auth_token: TOKEN` in the one file of the Secret.
fn token(secret: &Secret) -> Option<String> {
    let file = secret.data.as_ref()?.get("auth-token.yaml")?;
    let text = String::from_utf8(file.0.clone()).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("auth_token:"))?;
    let token = line.trim().trim_matches(['"', '\'']);
    (!token.is_empty()).then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_barrier_that_runs_is_what_waits_and_one_that_passed_is_not() {
        let pod = |state: serde_json::Value| -> Pod {
            serde_json::from_value(json!({ "status": { "initContainerStatuses": [
                { "name": "other", "ready": true, "restartCount": 0, "image": "i", "imageID": "i",
                  "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } } },
                { "name": BARRIER, "ready": false, "restartCount": 0, "image": "i", "imageID": "i", "state": state },
            ] } }))
            .unwrap()
        };
        let waits = pod(json!({ "running": { "startedAt": "1970-01-01T00:00:07Z" } }));
        assert_eq!(waits_since(&waits), Some(Time(7_000)));
        let passed = pod(json!({ "terminated": { "exitCode": 0 } }));
        assert_eq!(waits_since(&passed), None);
        assert_eq!(waits_since(&Pod::default()), None);
    }

    #[test]
    fn n17_a_set_whose_pods_are_not_all_of_its_newest_template_rolls_out() {
        let set = |generation: i64, status: serde_json::Value| -> StatefulSet {
            serde_json::from_value(json!({ "metadata": { "generation": generation }, "status": status }))
                .unwrap()
        };
        let revisions = |current: &str, update: &str| json!({ "replicas": 1, "observedGeneration": 2, "currentRevision": current, "updateRevision": update });
        assert!(!is_behind(&set(2, revisions("a", "a"))));
        assert!(is_behind(&set(2, revisions("a", "b"))));
        assert!(
            is_behind(&set(3, revisions("a", "a"))),
            "nobody has looked at it yet"
        );
        assert!(!is_behind(&set(1, json!({ "replicas": 0 }))));
    }

    #[test]
    fn the_token_is_the_one_in_the_file() {
        let secret = |text: &str| -> Secret {
            let mut secret = Secret::default();
            let file = k8s_openapi::ByteString(text.as_bytes().to_vec());
            secret.data = Some([("auth-token.yaml".to_owned(), file)].into());
            secret
        };
        assert_eq!(token(&secret("auth_token: abc\n")).as_deref(), Some("abc"));
        assert_eq!(token(&secret("auth_token: \"abc\"\n")).as_deref(), Some("abc"));
        assert_eq!(token(&secret("auth_token:\n")), None);
        assert_eq!(token(&Secret::default()), None);
    }
}
