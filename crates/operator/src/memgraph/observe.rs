//! Everything a turn knows: the record first, then the rest, each fact with its time.

use super::cluster::Cluster;
use super::contacts::{Contacts, Miss, PodMemory, Standing, Standstill, Statuses};
use super::gateways::{self, Answers, Registered};
use super::pods::{Seen, Workload};
use super::probe::{Depth, Probed, Said, probe, replication_port};
use super::processes::Processes;
use super::stored::Stored;
use crate::call::CallError;
use crate::clock::{draw, wall};
use futures::future::join_all;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::observed::{Answer, Contact, Memory, Observed, Pod, Wishes};
use mainstay_core::memgraph::rows::Replica;
use mainstay_core::memgraph::spec::Spec;
use mainstay_core::time::Time;
use std::collections::BTreeMap;
use std::time::Instant;
use thiserror::Error;

/// Why a turn could not look: it ends, and nothing was done.
#[derive(Debug, Error)]
pub enum ObserveError {
    /// Kubernetes did not say.
    #[error("Kubernetes does not say what runs: {0}")]
    Call(#[from] CallError),
}

/// What survives from turn to turn.
#[derive(Default)]
pub struct Remembered {
    /// Who failed to answer how often.
    pub contacts: Contacts,
    /// Which answer belongs to which container.
    pub processes: Processes,
    /// What gateways answered to pushes.
    pub answers: Answers,
}

/// What a turn saw.
pub struct Look {
    /// The record, with the version that may be replaced.
    pub stored: Stored,
    /// What Kubernetes says.
    pub workload: Workload,
    /// Who is registered.
    pub gateways: Vec<Registered>,
    /// What the decisions take.
    pub observed: Observed,
}

/// What a turn knows before it looks.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// What the user declared.
    pub spec: Spec,
    /// What people asked for.
    pub wishes: Wishes,
    /// What outlives the record.
    pub memory: Memory,
}

/// Looks at everything but the record, which was read before.
pub async fn observe(
    cluster: &Cluster,
    stored: Stored,
    given: Given,
    remembered: &mut Remembered,
) -> Result<Look, ObserveError> {
    let read_at = wall();
    let read = Instant::now();
    let (workload, gateways) = tokio::try_join!(Workload::read(cluster), gateways::read(cluster))?;
    remembered.answers.keep(&gateways);
    let pods = look_at_pods(cluster, &workload, given.spec, remembered, read, Depth::Full).await;
    let observed = Observed {
        read_at,
        turn: draw(),
        spec: given.spec,
        pods,
        gateways: remembered.answers.merge(&gateways, &remembered.processes),
        wishes: given.wishes,
        memory: given.memory,
    };
    Ok(Look {
        stored,
        workload,
        gateways,
        observed,
    })
}

/// Probes all pods at once. One that does not answer takes its own time and nobody else's.
pub async fn look_at_pods(
    cluster: &Cluster,
    workload: &Workload,
    spec: Spec,
    remembered: &mut Remembered,
    read: Instant,
    depth: Depth,
) -> Vec<Pod> {
    let Remembered {
        contacts,
        processes,
        answers: _,
    } = remembered;
    let Contacts { pods, statuses } = contacts;
    pods.retain(|ordinal, _| workload.pod(*ordinal).is_some() || ordinal.0 < spec.replicas);
    processes.keep(|ordinal| workload.pod(ordinal).is_some());
    let mut asked = Vec::new();
    for seen in &workload.pods {
        let memory = pods.entry(seen.ordinal).or_default();
        // Counted as silent already: it may take its time, but not ours.
        let reach = if memory.silent() >= spec.silent_probes {
            cluster.settings.silent_probe
        } else {
            cluster.settings.probe
        };
        let before = memory.connection.take();
        asked.push(async move {
            let ip = seen.ip?;
            let at = wall();
            let (probed, port) = tokio::join!(
                probe(cluster, ip, before, reach, depth),
                replication_port(ip, cluster.settings.ports.of(seen.ordinal), reach)
            );
            Some((at, probed, port))
        });
    }
    let came = join_all(asked).await;
    let ips = addresses(workload);
    let mut found = Vec::new();
    for (seen, came) in workload.pods.iter().zip(came) {
        let memory = pods.entry(seen.ordinal).or_default();
        let Some((at, (probed, connection), port)) = came else {
            found.push(unasked(seen, memory));
            continue;
        };
        memory.connection = connection;
        let contact = match probed {
            Probed::Missed(miss) => memory.missed(miss, at),
            Probed::Said(said) => {
                match processes.identify(
                    seen.ordinal,
                    &said.run,
                    seen.object.running,
                    read,
                    cluster.settings.settle,
                ) {
                    None => memory.missed(Miss::Useless, at),
                    Some(process) => {
                        memory.answered();
                        let shown = Shown {
                            cluster,
                            ips: &ips,
                            at,
                        };
                        Contact::Answered(shown.answer(said, process, statuses))
                    }
                }
            }
        };
        found.push(Pod {
            ordinal: seen.ordinal,
            object: Some(seen.object),
            contact,
            replication_port_open: Some(port),
            refusal: memory.refusal,
        });
    }
    found.extend(missing(spec, workload, pods));
    found.sort_by_key(|pod| pod.ordinal);
    found
}

fn addresses(workload: &Workload) -> BTreeMap<Ordinal, String> {
    let addressed = workload
        .pods
        .iter()
        .filter_map(|pod| Some((pod.ordinal, pod.ip?.to_string())));
    addressed.collect()
}

fn unasked(seen: &Seen, memory: &PodMemory) -> Pod {
    Pod {
        ordinal: seen.ordinal,
        object: Some(seen.object),
        contact: Contact::Unknown,
        replication_port_open: Some(false),
        refusal: memory.refusal,
    }
}

/// Pods that should be there and have no object. A missing object is not a dead process.
fn missing(spec: Spec, workload: &Workload, pods: &BTreeMap<Ordinal, PodMemory>) -> Vec<Pod> {
    let wanted = (0..spec.replicas).map(Ordinal);
    wanted
        .filter(|ordinal| workload.pod(*ordinal).is_none())
        .map(|ordinal| Pod {
            ordinal,
            object: None,
            contact: Contact::Unknown,
            replication_port_open: None,
            refusal: pods.get(&ordinal).and_then(|memory| memory.refusal),
        })
        .collect()
}

/// What is needed to turn rows into evidence.
struct Shown<'a> {
    cluster: &'a Cluster,
    ips: &'a BTreeMap<Ordinal, String>,
    at: Time,
}

impl Shown<'_> {
    fn answer(
        &self,
        said: Said,
        process: mainstay_core::memgraph::ids::ProcessId,
        statuses: &mut Statuses,
    ) -> Answer {
        let Said {
            run: _,
            role,
            replicas,
            data,
        } = said;
        let replicas = replicas.map(|rows| {
            let names: Vec<_> = rows.iter().map(|row| row.name).collect();
            statuses.keep(process, &names);
            rows.iter()
                .map(|row| self.registration(row, process, statuses))
                .collect()
        });
        Answer {
            at: self.at,
            process,
            role,
            data,
            replicas,
        }
    }

    fn registration(
        &self,
        row: &Replica,
        main: mainstay_core::memgraph::ids::ProcessId,
        statuses: &mut Statuses,
    ) -> mainstay_core::memgraph::observed::Registration {
        let pod = row.name.pod();
        let ip = self.ips.get(&pod).map(String::as_str);
        let address_ok = self.cluster.means(&row.address, pod, ip);
        let shown = row.registration(address_ok, self.at, None);
        let still = Standstill {
            attached: shown.attached,
            status: shown.status,
            ts: row.ts(),
        };
        let Standing { since, moved, .. } = statuses.note(main, row.name, still, self.at);
        row.registration(address_ok, since, moved)
    }
}
