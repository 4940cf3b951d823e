//! Everything a turn knows: the ledger first, then objects, then what members say.

use super::attended::{self, Agent, noted_host, waits_since};
use super::cassandra::Hearts;
use super::cluster::{CONTAINERS, Cluster, MAINTENANCE_LABEL, REPLACE_LABEL, ledger_map};
use super::member::Database;
use super::nodes::Gone;
use crate::call::{CallError, bounded, existing};
use crate::clock::wall;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as KubeTime;
use kube::ResourceExt;
use kube::api::ListParams;
use mainstay_core::ring::asks;
use mainstay_core::ring::ids::{Address, Location, Member};
use mainstay_core::ring::ledger::{self, Ledger, Stage};
use mainstay_core::ring::observed::{self, Answer, MemberView, Observed, StoredRecord, Wishes};
use mainstay_core::ring::record::RecordMap;
use mainstay_core::ring::spec::Spec;
use mainstay_core::ring::stamp::{REPORT_ANNOTATION, Report};
use mainstay_core::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use thiserror::Error;

/// Why a turn could not look: it ends, and nothing was done.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// Kubernetes did not say.
    #[error("Kubernetes does not say what there is: {0}")]
    Call(#[from] CallError),
    /// The ledger is not one. Nothing is done until it is, or is deleted.
    #[error(
        "the ConfigMap `{map}` is not a ledger ({source}): put it right, or delete it if every member is up"
    )]
    Ledger {
        /// Which.
        map: String,
        /// Why.
        source: serde_json::Error,
    },
}

/// What a turn saw.
pub struct Look {
    /// The ConfigMap of the ledger, with the only version that may be replaced.
    pub map: Option<ConfigMap>,
    /// The ledger.
    pub ledger: Option<Ledger>,
    /// What the decisions take.
    pub observed: Observed,
    /// Where each member's pod is.
    pub addresses: BTreeMap<Member, IpAddr>,
    /// The Services, to be changed by the version that was read.
    pub services: BTreeMap<Member, Service>,
}

/// What one operator remembers from turn to turn. Another one begins anew: it only waits longer.
#[derive(Debug, Default)]
pub struct Memory {
    /// Since when volumes have had no Node.
    pub gone: Gone,
    /// For how long hearts have stood still.
    pub hearts: Hearts,
}

/// The ledger as it was read, before anything else was looked at.
pub struct Read {
    /// Its ConfigMap.
    pub map: Option<ConfigMap>,
    /// The ledger.
    pub ledger: Option<Ledger>,
    /// When.
    pub at: Time,
}

/// Reads the ledger.
pub async fn read(cluster: &Cluster) -> Result<Read, ObserveError> {
    let name = ledger_map(&cluster.name);
    let maps = cluster.api::<ConfigMap>();
    let patience = cluster.settings.call;
    let map = existing(bounded(patience, maps.get(&name)).await)?;
    let ledger = map.as_ref().and_then(|map| map.data.as_ref()?.get(ledger::KEY));
    let ledger = ledger
        .map(|text| Ledger::parse(text))
        .transpose()
        .map_err(|source| ObserveError::Ledger { map: name, source })?;
    let at = wall();
    Ok(Read { map, ledger, at })
}

/// Looks at everything else.
pub async fn observe(
    cluster: &Cluster,
    read: Read,
    spec: Spec,
    wishes: Wishes,
    memory: &mut Memory,
) -> Result<Look, ObserveError> {
    let Read {
        map,
        ledger,
        at: read_at,
    } = read;
    let found = Objects::read(cluster).await?;
    let mut members = Vec::new();
    for member in found.members(&spec) {
        let mut view = found.view(cluster, &member, &mut memory.gone).await?;
        let recorded = ledger.as_ref().is_some_and(|l| l.known.contains_key(&member));
        if view.record.is_none() && recorded && cluster.attends.is_none() {
            view.record = record_by_name(cluster, &member).await?;
        }
        members.push(view);
    }
    let addresses = found.addresses();
    let mut observed = Observed {
        read_at,
        cluster: cluster.uid,
        spec,
        members,
        answers: Vec::new(),
        drained: BTreeSet::new(),
        wishes,
    };
    if asks(ledger.as_ref(), &observed) {
        observed.answers = ask_all(cluster, &observed, &addresses, &mut memory.hearts).await;
    }
    let sleep = ledger.as_ref().and_then(|l| l.sleep);
    if sleep.is_some_and(|s| s.stage == Stage::Draining) {
        observed.drained = drained(cluster, &observed, &addresses).await;
    }
    Ok(Look {
        map,
        ledger,
        observed,
        addresses,
        services: found.services,
    })
}

/// What Kubernetes says of the ring's objects.
struct Objects {
    services: BTreeMap<Member, Service>,
    pods: BTreeMap<Member, Pod>,
    records: BTreeMap<String, ConfigMap>,
}

impl Objects {
    async fn read(cluster: &Cluster) -> Result<Self, CallError> {
        let params = ListParams::default().labels(&cluster.selector());
        let patience = cluster.settings.call;
        let (services, pods, maps) = (
            cluster.api::<Service>(),
            cluster.api::<Pod>(),
            cluster.api::<ConfigMap>(),
        );
        let (services, pods, maps) = tokio::try_join!(
            bounded(patience, services.list(&params)),
            bounded(patience, pods.list(&params)),
            bounded(patience, maps.list(&params)),
        )?;
        let (_, rack) = cluster.place_labels();
        let racked = |labels: &BTreeMap<String, String>| labels.contains_key(rack);
        Ok(Self {
            services: named(services.items.into_iter().filter(|s| racked(s.labels()))),
            pods: named(pods.items.into_iter().filter(|p| racked(p.labels()))),
            records: maps.items.into_iter().map(|map| (map.name_any(), map)).collect(),
        })
    }

    /// The declared ones, and whoever still has objects: of these the highest number first, because a rack shrinks from
    /// its end.
    fn members(&self, spec: &Spec) -> Vec<Member> {
        let declared: Vec<Member> = spec.members.iter().map(|d| d.member.clone()).collect();
        let others: BTreeSet<&Member> = self.services.keys().chain(self.pods.keys()).collect();
        let mut left: Vec<Member> = others
            .into_iter()
            .filter(|m| !declared.contains(m))
            .cloned()
            .collect();
        left.sort_by_key(|m| std::cmp::Reverse(number(m)));
        declared.into_iter().chain(left).collect()
    }

    fn addresses(&self) -> BTreeMap<Member, IpAddr> {
        let at = |pod: &Pod| pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok();
        self.pods
            .iter()
            .filter_map(|(member, pod)| Some((member.clone(), at(pod)?)))
            .collect()
    }

    async fn view(
        &self,
        cluster: &Cluster,
        member: &Member,
        gone: &mut Gone,
    ) -> Result<MemberView, CallError> {
        let service = self.services.get(member);
        let attended = cluster.attends.as_ref();
        let labelled = |label: &str| service.is_some_and(|s| s.labels().contains_key(label));
        Ok(MemberView {
            member: member.clone(),
            service: service.and_then(uid),
            address: service.and_then(address),
            pod: self.pods.get(member).and_then(|p| pod(p, cluster.place_labels())),
            claim: claim(cluster, member, gone).await?,
            record: self.records.get(&member.record_map()).and_then(record),
            replace_label: labelled(REPLACE_LABEL),
            maintenance: labelled(MAINTENANCE_LABEL),
            waits_unbootstrapped_since: attended.and_then(|_| self.pods.get(member)).and_then(waits_since),
            noted_host: attended.and(service).and_then(noted_host),
        })
    }
}

fn named<K: ResourceExt>(all: impl Iterator<Item = K>) -> BTreeMap<Member, K> {
    all.filter_map(|object| Some((object.name_any().parse().ok()?, object)))
        .collect()
}

fn number(member: &Member) -> u32 {
    let last = member.0.as_str().rsplit_once('-').map(|(_, last)| last);
    last.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn uid<T: std::str::FromStr>(object: &impl ResourceExt) -> Option<T> {
    object.uid()?.parse().ok()
}

/// The address under which the others know it.
pub fn address(service: &Service) -> Option<Address> {
    service.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok()
}

fn pod(pod: &Pod, (dc, rack): (&str, &str)) -> Option<observed::Pod> {
    let label = |key: &str| pod.labels().get(key)?.parse().ok();
    let location = label(dc).zip(label(rack));
    let containers = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
    let ready = containers.is_some_and(|all| {
        all.iter()
            .any(|c| CONTAINERS.contains(&c.name.as_str()) && c.ready)
    });
    let report = pod.annotations().get(REPORT_ANNOTATION);
    Some(observed::Pod {
        uid: uid(pod)?,
        ends_by: pod.metadata.deletion_timestamp.as_ref().map(ends_by),
        runs: ready,
        location: location.map(|(dc, rack)| Location { dc, rack }),
        report: report.and_then(|text| serde_json::from_str::<Report>(text).ok()),
    })
}

/// A moment that cannot be told is long ago.
fn ends_by(at: &KubeTime) -> Time {
    Time(u64::try_from(at.0.as_millisecond()).unwrap_or_default())
}

fn record(map: &ConfigMap) -> Option<StoredRecord> {
    let ours = map
        .annotations()
        .iter()
        .filter(|(key, _)| key.starts_with("mainstay.dev/"));
    Some(StoredRecord {
        uid: uid(map)?,
        map: RecordMap {
            immutable: map.immutable == Some(true),
            data: map.data.clone().unwrap_or_default(),
            annotations: ours.map(|(k, v)| (k.clone(), v.clone())).collect(),
        },
    })
}

/// Somebody may have made a ConfigMap of the record's name, without the label by which records are found: it stands in the
/// way of the real one, and is put right like one that was edited.
async fn record_by_name(cluster: &Cluster, member: &Member) -> Result<Option<StoredRecord>, CallError> {
    let maps = cluster.api::<ConfigMap>();
    let found = existing(bounded(cluster.settings.call, maps.get(&member.record_map())).await)?;
    Ok(found.as_ref().and_then(record))
}

async fn claim(
    cluster: &Cluster,
    member: &Member,
    gone: &mut Gone,
) -> Result<Option<observed::Claim>, CallError> {
    let claims = cluster.api::<PersistentVolumeClaim>();
    let found = existing(bounded(cluster.settings.call, claims.get(&member.claim())).await)?;
    let Some((claim, uid)) = found
        .and_then(|claim| Some((uid(&claim)?, claim)))
        .map(|(u, c)| (c, u))
    else {
        return Ok(None);
    };
    Ok(Some(observed::Claim {
        uid,
        node_gone_since: gone.since(cluster, uid, &claim, wall()).await?,
        terminating: claim.metadata.deletion_timestamp.is_some(),
    }))
}

/// Was the database of this member started? Its gate tells. Where none has told, because the pod has none (it is older,
/// or scylla-operator's) or could not reach the API before a start, who is ready has started.
fn has_started(m: &MemberView) -> bool {
    m.pod.as_ref().is_some_and(|pod| match pod.report {
        Some(report) => report.found.runs(),
        None => pod.runs,
    })
}

/// Every member whose database was started, and how it is asked.
fn started(
    cluster: &Cluster,
    seen: &Observed,
    at: &BTreeMap<Member, IpAddr>,
    agent: Option<&Agent>,
) -> Vec<(Member, Database)> {
    let (patience, engine) = (cluster.settings.probe, seen.spec.engine);
    let asked = seen.members.iter().filter(|m| has_started(m)).filter_map(|m| {
        let at = *at.get(&m.member)?;
        let database = match (&cluster.attends, agent) {
            (None, _) => Database::at(engine, at, patience),
            (Some(_), Some(agent)) => Database::attended(agent.clone(), at, patience),
            (Some(_), None) => return None,
        };
        Some((m.member.clone(), database))
    });
    asked.collect()
}

/// Who says that it is drained. Who does not answer does not say so.
async fn drained(cluster: &Cluster, seen: &Observed, at: &BTreeMap<Member, IpAddr>) -> BTreeSet<Member> {
    let asked = started(cluster, seen, at, None)
        .into_iter()
        .map(|(by, database)| async move { matches!(database.is_drained().await, Ok(true)).then_some(by) });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Asks every member whose database was started. Who does not answer says nothing.
async fn ask_all(
    cluster: &Cluster,
    seen: &Observed,
    at: &BTreeMap<Member, IpAddr>,
    hearts: &mut Hearts,
) -> Vec<Answer> {
    let agent = match &cluster.attends {
        Some(attended) => match attended::agent(cluster, attended).await {
            Ok(agent) => agent,
            Err(error) => {
                tracing::info!(ring = %cluster.name, %error, "the token of the agents cannot be had");
                None
            }
        },
        None => None,
    };
    let asked = started(cluster, seen, at, agent.as_ref()).into_iter();
    let asked = asked.map(|(by, database)| async move {
        match database.ask(by.clone()).await {
            Ok(said) => Some(said),
            Err(error) => {
                tracing::debug!(member = %by, %error, "no answer");
                None
            }
        }
    });
    let all = join_all(asked).await.into_iter().flatten();
    all.map(|(by, at, said)| said.answer(by, at, hearts)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view(report: Option<&str>, ready: bool) -> MemberView {
        let mut object: Pod = serde_json::from_value(json!({
            "metadata": { "name": "ring-a-0", "uid": "00000000-0000-0000-0000-000000000001" },
            "status": { "containerStatuses": [
                { "name": "scylla", "ready": ready, "restartCount": 0, "image": "", "imageID": "" },
            ] },
        }))
        .unwrap();
        let found = report.map(|found| {
            format!(r#"{{"disk":"00000000-0000-0000-0000-000000000002","ran":false,"found":{found}}}"#)
        });
        object.metadata.annotations =
            found.map(|text| BTreeMap::from([(REPORT_ANNOTATION.to_owned(), text)]));
        MemberView {
            member: "ring-a-0".parse().unwrap(),
            service: None,
            address: None,
            pod: pod(&object, ("dc", "rack")),
            claim: None,
            record: None,
            replace_label: false,
            maintenance: false,
            waits_unbootstrapped_since: None,
            noted_host: None,
        }
    }

    #[test]
    fn n23_a_pod_without_a_gate_is_asked_while_it_is_ready_and_a_gate_is_believed_before_that() {
        assert!(has_started(&view(None, true)));
        assert!(!has_started(&view(None, false)));
        assert!(!has_started(&view(Some(r#""empty""#), true)), "its gate holds it");
        assert!(
            has_started(&view(Some(r#"{"startedWith":1}"#), false)),
            "it joins"
        );
    }

    /// What an older operator makes of a word of a newer gate: neither a loss nor a start that nobody saw.
    #[test]
    fn n23_a_report_that_is_not_understood_is_no_report() {
        for word in [r#""misplaced""#, r#"{"startedWith":1,"by":"nobody"}"#] {
            let waits = view(Some(word), false);
            assert!(waits.pod.as_ref().is_some_and(|p| p.report.is_none()), "{word}");
            assert!(
                !has_started(&waits) && has_started(&view(Some(word), true)),
                "{word}"
            );
        }
    }
}
