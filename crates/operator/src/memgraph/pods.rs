//! What Kubernetes says of the pods.

use super::cluster::Cluster;
use super::resources::{DATA_PATH, INIT_FOLDER};
use crate::call::{CallError, bounded, existing};
use crate::pod::INIT_CONTAINER;
use futures::future::join_all;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use kube::api::ListParams;
use mainstay_core::memgraph::helper::HELPER;
use mainstay_core::memgraph::ids::{Ordinal, ProcessId, VolumeId};
use mainstay_core::memgraph::objects::CONTAINER;
use mainstay_core::memgraph::observed::PodObject;
use std::net::IpAddr;

/// The label that says which revision of the template a pod was made from.
const REVISION: &str = "controller-revision-hash";

/// One pod of the cluster.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Which.
    pub ordinal: Ordinal,
    /// What the decisions need of it.
    pub object: PodObject,
    /// Where it is reached.
    pub ip: Option<IpAddr>,
    /// It has the init container that asks the record before it obeys a marker, and the helper that writes one.
    pub prepared: bool,
    /// The revision of the template it was made from.
    revision: Option<String>,
}

/// The StatefulSet and its pods.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// The StatefulSet, if there is one.
    pub set: Option<StatefulSet>,
    /// Its pods, by ordinal.
    pub pods: Vec<Seen>,
}

impl Workload {
    /// Reads the StatefulSet, its pods and their claims.
    pub async fn read(cluster: &Cluster) -> Result<Self, CallError> {
        let patience = cluster.settings.call;
        let name = cluster.name.to_string();
        let sets = cluster.stateful_sets();
        let Some(set) = existing(bounded(patience, sets.get(&name)).await)? else {
            return Ok(Self::default());
        };
        let wanted = selector(&set);
        let all = cluster.pods();
        let listed = bounded(patience, all.list(&ListParams::default().labels(&wanted))).await?;
        let ours = listed
            .items
            .into_iter()
            .filter_map(|pod| ordinal(&name, &pod.name_any()).map(|number| (number, pod)));
        let reading = ours.map(|(number, pod)| async move {
            let volume = volume(cluster, &pod).await?;
            Ok(seen(number, &pod, volume))
        });
        let read: Vec<Option<Seen>> = join_all(reading)
            .await
            .into_iter()
            .collect::<Result<_, CallError>>()?;
        let mut pods: Vec<Seen> = read.into_iter().flatten().collect();
        pods.sort_by_key(|pod| pod.ordinal);
        Ok(Self { set: Some(set), pods })
    }

    /// The pods that were made from an older template and that nobody else replaces.
    pub fn outdated(&self) -> Vec<Ordinal> {
        let on_delete = |set: &&StatefulSet| {
            let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
            strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete")
        };
        let newest = self
            .set
            .as_ref()
            .filter(on_delete)
            .filter(|set| observed(set))
            .and_then(|set| set.status.as_ref()?.update_revision.as_ref());
        let Some(newest) = newest else {
            return vec![];
        };
        let old = |pod: &&Seen| pod.revision.as_ref().is_some_and(|revision| revision != newest);
        self.pods.iter().filter(old).map(|pod| pod.ordinal).collect()
    }

    /// The pod of this ordinal.
    pub fn pod(&self, ordinal: Ordinal) -> Option<&Seen> {
        self.pods.iter().find(|pod| pod.ordinal == ordinal)
    }
}

/// Has the StatefulSet's controller seen its template as it is now?
fn observed(set: &StatefulSet) -> bool {
    let seen = set.status.as_ref().and_then(|status| status.observed_generation);
    seen >= set.metadata.generation
}

fn selector(set: &StatefulSet) -> String {
    let labels = set
        .spec
        .iter()
        .filter_map(|spec| spec.selector.match_labels.as_ref())
        .flatten();
    let pairs: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

fn ordinal(set: &str, pod: &str) -> Option<Ordinal> {
    let number = pod.strip_prefix(set)?.strip_prefix('-')?;
    number.parse().ok().map(Ordinal)
}

/// The uid of the claim behind the data folder.
async fn volume(cluster: &Cluster, pod: &Pod) -> Result<Option<VolumeId>, CallError> {
    let Some(claim) = claim(pod) else {
        return Ok(None);
    };
    let claims = cluster.claims();
    let found = existing(bounded(cluster.settings.call, claims.get(&claim)).await)?;
    Ok(found.and_then(|claim| claim.uid()?.parse().ok()))
}

fn claim(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let container = spec.containers.iter().find(|c| c.name == CONTAINER)?;
    let mount = container
        .volume_mounts
        .iter()
        .flatten()
        .filter(|mount| DATA_PATH.starts_with(mount.mount_path.trim_end_matches('/')))
        .max_by_key(|mount| mount.mount_path.len())?;
    let volume = spec.volumes.iter().flatten().find(|v| v.name == mount.name)?;
    Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone())
}

fn seen(ordinal: Ordinal, pod: &Pod, volume: Option<VolumeId>) -> Option<Seen> {
    let uid = pod.uid()?.parse().ok()?;
    let status = pod.status.as_ref();
    let container = status
        .and_then(|s| s.container_statuses.as_ref())
        .into_iter()
        .flatten()
        .find(|c| c.name == CONTAINER);
    let ip = status
        .and_then(|s| s.pod_ip.as_deref())
        .and_then(|ip| ip.parse().ok());
    // That of the database alone: a helper that does not start keeps nobody from serving.
    let ready = container.is_some_and(|c| c.ready);
    Some(Seen {
        ordinal,
        object: PodObject {
            uid,
            running: container.and_then(running),
            ended: container.and_then(ended),
            volume,
            terminating: pod.metadata.deletion_timestamp.is_some(),
            ready,
            addressed: ip.is_some(),
            start_fence: has_start_fence(pod),
            fsync: has_fsync(pod),
        },
        ip,
        prepared: has_our_init_container(pod) && has_our_helper(pod),
        revision: pod.labels().get(REVISION).cloned(),
    })
}

fn running(container: &ContainerStatus) -> Option<ProcessId> {
    container.state.as_ref()?.running.as_ref()?;
    container.container_id.as_deref()?.parse().ok()
}

/// The container that ended last: this one, if it does not run, or the one before.
fn ended(container: &ContainerStatus) -> Option<ProcessId> {
    let of = |state: Option<&k8s_openapi::api::core::v1::ContainerState>| {
        state?.terminated.as_ref()?.container_id.as_deref()?.parse().ok()
    };
    of(container.state.as_ref()).or_else(|| of(container.last_state.as_ref()))
}

/// Does it start with the init file that makes it REPLICA before Bolt opens? Only our own file is known to.
fn has_start_fence(pod: &Pod) -> bool {
    let flag = format!("--init-file={INIT_FOLDER}/");
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .filter(|c| c.name == CONTAINER)
        .flat_map(|c| c.args.iter().flatten())
        .any(|arg| arg.starts_with(&flag))
}

/// Is it started to write every commit through to disk (R12)? A flag counts that is given last; what a file of flags
/// says is not known.
fn has_fsync(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut every_commit = false;
    let mut wal = true;
    for arg in containers
        .filter(|c| c.name == CONTAINER)
        .flat_map(|c| c.args.iter().flatten())
    {
        // gflags takes one dash or two, and `_` for `-`.
        let flag = arg.trim_start_matches('-').replace('_', "-");
        let (name, value) = flag.split_once('=').unwrap_or((flag.as_str(), "true"));
        match name {
            "storage-wal-file-flush-every-n-tx" => every_commit = value == "1",
            "storage-wal-enabled" => wal = value == "true",
            "nostorage-wal-enabled" => wal = false,
            "flag-file" | "flagfile" => return false,
            _ => {}
        }
    }
    every_commit && wal
}

/// One of the same name in an adopted StatefulSet deletes the data at once, as the seeds have it.
fn has_our_init_container(pod: &Pod) -> bool {
    let containers = pod
        .spec
        .iter()
        .flat_map(|spec| spec.init_containers.iter().flatten());
    let ours = |args: &Vec<String>| args.starts_with(&["pod".to_owned(), "prepare".to_owned()]);
    containers
        .filter(|c| c.name == INIT_CONTAINER)
        .any(|c| c.args.as_ref().is_some_and(ours))
}

/// A pod of an older template has none, until it is made anew.
fn has_our_helper(pod: &Pod) -> bool {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ours = |args: &Vec<String>| args.starts_with(&["pod".to_owned(), "serve".to_owned()]);
    containers.any(|c| c.name == HELPER && c.args.as_ref().is_some_and(ours))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(state: &serde_json::Value, last: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "db-1", "uid": "3f2a0000-0000-0000-0000-000000000001"},
            "spec": {
                "containers": [{
                    "name": "memgraph", "args": ["--init-file=/etc/mainstay/init.cypherl"],
                    "volumeMounts": [
                        {"name": "log", "mountPath": "/var/log/memgraph"},
                        {"name": "lib-storage", "mountPath": "/var/lib/memgraph"},
                    ],
                }],
                "volumes": [
                    {"name": "log", "emptyDir": {}},
                    {"name": "lib-storage", "persistentVolumeClaim": {"claimName": "lib-storage-db-1"}},
                ],
            },
            "status": {
                "podIP": "10.0.0.7",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{
                    "name": "memgraph", "image": "", "imageID": "", "ready": true, "restartCount": 1,
                    "containerID": "containerd://bbbb0000000000000000000000000002",
                    "state": state, "lastState": last,
                }],
            },
        }))
        .unwrap()
    }

    fn process(text: &str) -> Option<ProcessId> {
        text.parse().ok()
    }

    #[test]
    fn a_pod_object_becomes_facts() {
        let before = json!({"terminated": {"exitCode": 137, "containerID": "containerd://aaaa0000000000000000000000000001"}});
        let read = pod(&json!({"running": {}}), &before);
        let facts = seen(Ordinal(1), &read, None).unwrap();
        assert_eq!(facts.object.running, process("bbbb0000000000000000000000000002"));
        assert_eq!(facts.object.ended, process("aaaa0000000000000000000000000001"));
        assert!(facts.object.ready && facts.object.addressed && facts.object.start_fence);
        assert_eq!(claim(&read).as_deref(), Some("lib-storage-db-1"));
        let waits = pod(&json!({"waiting": {"reason": "CrashLoopBackOff"}}), &before);
        assert_eq!(seen(Ordinal(1), &waits, None).unwrap().object.running, None);
    }

    #[test]
    fn only_what_is_started_to_write_every_commit_through_does() {
        let with = |args: &[&str]| {
            let mut pod = pod(&json!({"running": {}}), &json!({}));
            if let Some(container) = pod.spec.as_mut().and_then(|spec| spec.containers.first_mut()) {
                container.args = Some(args.iter().map(|arg| (*arg).to_owned()).collect());
            }
            seen(Ordinal(1), &pod, None).unwrap().object.fsync
        };
        let flush = "--storage-wal-file-flush-every-n-tx=1";
        assert!(with(&["--log-level=WARNING", flush]));
        assert!(with(&[
            "--storage_wal_file_flush_every_n_tx=1",
            "--storage-wal-enabled=true"
        ]));
        assert!(!with(&[]), "Memgraph's default is every 100000");
        assert!(!with(&["--storage-wal-file-flush-every-n-tx=100000"]));
        assert!(
            !with(&[flush, "--storage-wal-file-flush-every-n-tx=7"]),
            "the last one counts"
        );
        assert!(!with(&[flush, "--nostorage-wal-enabled"]));
        assert!(!with(&[flush, "--storage_wal_enabled=false"]));
        assert!(!with(&[flush, "--flag-file=/etc/more"]));
    }

    #[test]
    fn a_container_that_just_ended_is_the_one_that_ended_last() {
        let now = json!({"terminated": {"exitCode": 137, "containerID": "containerd://bbbb0000000000000000000000000002"}});
        let before = json!({"terminated": {"exitCode": 0, "containerID": "containerd://aaaa0000000000000000000000000001"}});
        let facts = seen(Ordinal(1), &pod(&now, &before), None).unwrap().object;
        assert_eq!(
            (facts.running, facts.ended),
            (None, process("bbbb0000000000000000000000000002"))
        );
    }

    #[test]
    fn only_our_own_init_container_is_trusted_with_a_marker() {
        let with_helper = |init: serde_json::Value, args: &[&str]| {
            let mut pod = pod(&json!({"running": {}}), &json!({}));
            if let Some(spec) = &mut pod.spec {
                spec.init_containers = serde_json::from_value(init).unwrap();
                let helper = json!({ "name": "helper", "args": args });
                spec.containers.push(serde_json::from_value(helper).unwrap());
            }
            seen(Ordinal(1), &pod, None).unwrap().prepared
        };
        let with = |init| with_helper(init, &["pod", "serve"]);
        let name = "data-cleanup";
        assert!(with(
            json!([{ "name": name, "args": ["pod", "prepare", "--cluster=db"] }])
        ));
        assert!(!with(
            json!([{ "name": name, "command": ["/bin/sh", "-c"], "args": ["rm -rf mg_data/*"] }])
        ));
        assert!(!with(json!([{ "name": "other", "args": ["pod", "prepare"] }])));
        assert!(!with(json!([])));
        let init = json!([{ "name": name, "args": ["pod", "prepare"] }]);
        assert!(!with_helper(init, &["sleep"]), "nobody writes the marker");
    }

    #[test]
    fn a_pod_of_an_older_template_is_outdated_if_nobody_else_replaces_it() {
        let set = |strategy: &str, seen: i64| -> StatefulSet {
            serde_json::from_value(json!({
                "metadata": { "name": "db", "generation": 2 },
                "spec": { "selector": {}, "serviceName": "db", "template": {}, "updateStrategy": { "type": strategy } },
                "status": { "replicas": 2, "updateRevision": "new", "observedGeneration": seen },
            }))
            .unwrap()
        };
        let made_from = |number: u8, revision: &str| {
            let mut pod = pod(&json!({"running": {}}), &json!({}));
            pod.labels_mut().insert(REVISION.to_owned(), revision.to_owned());
            seen(Ordinal(number), &pod, None).unwrap()
        };
        let outdated = |set| {
            let pods = vec![made_from(0, "new"), made_from(1, "old")];
            Workload { set: Some(set), pods }.outdated()
        };
        assert_eq!(outdated(set("OnDelete", 2)), [Ordinal(1)]);
        assert_eq!(outdated(set("RollingUpdate", 2)), [], "Kubernetes does it");
        assert_eq!(outdated(set("OnDelete", 1)), [], "it has not looked yet");
    }

    #[test]
    fn only_pods_of_the_set_have_an_ordinal() {
        assert_eq!(ordinal("db", "db-1"), Some(Ordinal(1)));
        for other in ["db-gateway-1", "db", "db-x", "other-1", "db-300"] {
            assert_eq!(ordinal("db", other), None, "{other}");
        }
    }
}
