//! The gate before a ring's database: look, ask, decide, do. It is the first thing in the container of the database and
//! becomes it, so that it stands before every start.

use crate::call::{CallError, bounded, existing};
use crate::clock::{draw, monotonic, wall};
use crate::ring::{RING_LABEL, ledger_map};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use mainstay_core::ring::Ledger;
use mainstay_core::ring::freshness::Freshness;
use mainstay_core::ring::gate::{Asked, Folder, Gate, Held, Me, Start, gate};
use mainstay_core::ring::ids::{Address, ClusterUid, DiskId, HostId, Member, PodUid, VolumeUid};
use mainstay_core::ring::ledger;
use mainstay_core::ring::record::RecordMap;
use mainstay_core::ring::spec::Engine;
use mainstay_core::ring::stamp::{Bootstrapped, Found, REPORT_ANNOTATION, Report, STAMP_FILE, Stamp};
use mainstay_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use thiserror::Error;
use tokio::time::sleep;

pub(super) mod cassandra;
mod files;
mod scylla;
mod tool;
mod yaml;

pub use cassandra::CassandraHome;
use files::{Sign, io, local_tables, read, replace, signs, wipe};
pub use scylla::ScyllaHome;

/// Which database, and how it is found in its image.
#[derive(Clone, Debug)]
pub enum Database {
    /// ScyllaDB.
    Scylla(ScyllaHome),
    /// Cassandra.
    Cassandra(Box<CassandraHome>),
}

impl Database {
    fn engine(&self) -> Engine {
        match self {
            Self::Scylla(home) => Engine::Scylla(home.version),
            Self::Cassandra(_) => Engine::Cassandra,
        }
    }
}

/// Which pod is to be started.
#[derive(Clone, Debug)]
pub struct RingTask {
    /// Of which ring.
    pub cluster: String,
    /// The object that declares it.
    pub uid: ClusterUid,
    /// Which database.
    pub database: Database,
    /// In which namespace.
    pub namespace: String,
    /// Which member: the pod's name.
    pub member: Member,
    /// The pod.
    pub pod: PodUid,
    /// Where the volume is mounted.
    pub data: PathBuf,
    /// Where the gate notes what lives as long as the pod.
    pub state: PathBuf,
    /// The database: program and arguments.
    pub command: Vec<String>,
    /// Between two looks.
    pub pause: Duration,
    /// How long a call may take.
    pub patience: Duration,
}

/// After so many looks a disk that could not be read is read again: the tool is a whole Java machine, or a database.
const READ_AGAIN: u32 = 10;

/// Why the gate could not go on. It is started again, and begins anew.
#[derive(Debug, Error)]
pub enum GateError {
    /// The volume, or what the gate notes.
    #[error("{path}: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not to be written down.
    #[error("the stamp cannot be written: {0}")]
    Print(#[from] serde_json::Error),
    /// Nothing to start.
    #[error("no program is given")]
    NoProgram,
    /// What the tables of the database say cannot be had. To take it for empty could cost a node its data.
    #[error("whether the disk is bootstrapped cannot be read: {0}")]
    Tables(String),
}

/// The program that is to run now, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What is set in its environment besides.
    pub env: Vec<(String, String)>,
}

/// What Kubernetes says about this pod.
struct Answered {
    ledger: Option<Ledger>,
    record: Option<RecordMap>,
    members: Vec<Address>,
    own: Own,
}

/// What is known of this pod as long as it lives, also when nobody answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Own {
    address: Address,
    volume: VolumeUid,
}

/// What the gate has seen in this pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Noted {
    own: Option<Own>,
    /// The disk that was last started.
    started: Option<DiskId>,
    /// A bootstrapped disk was started.
    ran: bool,
}

/// What the tables said when they were last read, and by which signs they are still the same.
#[derive(Debug, Default)]
struct Looked {
    read: Option<(Vec<Sign>, Bootstrapped)>,
    /// Why they could not be read, and when it was tried.
    failed: Option<(String, Time)>,
}

/// Why nothing could be learnt.
#[derive(Debug, Error)]
pub enum AskError {
    /// No client.
    #[error("Kubernetes cannot be asked: {0}")]
    Client(String),
    /// The call.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The ledger is not one.
    #[error("the ledger cannot be read: {0}")]
    Ledger(#[from] serde_json::Error),
    /// Not to be written down.
    #[error("it cannot be printed: {0}")]
    Print(#[source] serde_json::Error),
    /// Something that must be there is not, yet.
    #[error("{0} is not there yet")]
    Missing(&'static str),
}

/// Waits until the database may start, and says how.
pub async fn ring_gate(
    task: &RingTask,
    mut client: impl AsyncFnMut() -> Result<Client, AskError>,
    mut say: impl FnMut(&str),
) -> Result<Launch, GateError> {
    let mut told: Option<String> = None;
    let mut reported: Option<Report> = None;
    // An id that is drawn once: a disk must not change its name while it waits.
    let fresh = DiskId((u128::from(draw()) << 64) | u128::from(draw()));
    let mut looked = Looked::default();
    let mut tell = |why: String| {
        if told.as_ref() != Some(&why) {
            say(&why);
            told = Some(why);
        }
    };
    let mut freshness = Freshness::default();
    loop {
        let began = own_clock();
        let answered = match client().await {
            Ok(client) => learn(task, client).await,
            Err(error) => Err(error),
        };
        let mut noted = task.noted()?;
        if let Ok(answered) = &answered {
            noted.own = Some(answered.own);
            freshness.read(answered.ledger.as_ref(), began);
        }
        task.note(&noted)?;
        if let Some(own) = noted.own {
            let folder = task.folder(&mut looked).await?;
            let me = task.me(own, &noted, &folder, fresh);
            let asked = match &answered {
                Ok(a) => Asked::Answer {
                    ledger: a.ledger.as_ref(),
                    record: a.record.as_ref(),
                    members: &a.members,
                    age: freshness.age(own_clock()),
                },
                Err(_) => Asked::NoAnswer,
            };
            match gate(&me, &folder, asked) {
                Gate::Start(start) => {
                    let said = task.report(&mut client, start.report, &mut reported).await;
                    // What stands on the pod is what the operator decides by. So a start waits until it is written, also
                    // that of a bootstrapped disk: an old word may say of the same pod that it is empty. Only if nobody
                    // answers at all does such a disk start unsaid, in the pod that it ran in.
                    let unsaid = answered.is_err() && matches!(start.report.found, Found::Started(_));
                    let fresh = start
                        .within
                        .is_none_or(|within| freshness.age(own_clock()).is_some_and(|age| age <= within));
                    // A permission is used only when the operator can know of it, and not if telling took too long.
                    match said {
                        Err(error) if !unsaid => {
                            tell(format!("waiting: what was found cannot be told: {error}"));
                        }
                        _ if fresh => return task.launch(&start, own, &mut noted, &mut tell),
                        _ => {}
                    }
                }
                Gate::Wait(wait) => {
                    task.stamp(&wait.stamp)?;
                    if let Some(report) = wait.report {
                        // If it was not heard, it is said again the next time.
                        let _ = task.report(&mut client, report, &mut reported).await;
                    }
                    tell(because(wait.why, answered.as_ref().err(), &looked));
                }
            }
        } else if let Err(error) = &answered {
            tell(format!("waiting: {error}"));
        }
        sleep(task.pause).await;
    }
}

/// Why it waits, with what somebody else said who is the cause of it.
fn because(why: Held, unanswered: Option<&AskError>, looked: &Looked) -> String {
    let cause = match why {
        Held::NoAnswer => unanswered.map(ToString::to_string),
        Held::Unreadable => looked.failed.as_ref().map(|(said, _)| said.clone()),
        _ => None,
    };
    cause.map_or_else(|| why.to_string(), |cause| format!("{why} ({cause})"))
}

/// A clock that does not go back and does not stand still with the machine: where the monotonic one does, the wall's goes
/// on. What it shows is compared with itself only.
fn own_clock() -> Time {
    static FIRST: OnceLock<(Time, Time)> = OnceLock::new();
    let (steady, on_the_wall) = (monotonic(), wall());
    let (steadily, by_the_wall) = *FIRST.get_or_init(|| (steady, on_the_wall));
    Time::ZERO + steady.since(steadily).max(on_the_wall.since(by_the_wall))
}

async fn learn(task: &RingTask, client: Client) -> Result<Answered, AskError> {
    let patience = task.patience;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &task.namespace);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &task.namespace);
    let services: Api<Service> = Api::namespaced(client, &task.namespace);
    // The ledger first: what is read after it may be newer, never older.
    let found = existing(bounded(patience, maps.get(&ledger_map(&task.cluster))).await)?;
    let text = found.as_ref().and_then(|map| map.data.as_ref()?.get(ledger::KEY));
    let ledger = text.map(|text| Ledger::parse(text)).transpose()?;
    let record = existing(bounded(patience, maps.get(&task.member.record_map())).await)?;
    let claim = existing(bounded(patience, claims.get(&task.member.claim())).await)?;
    let volume = claim.and_then(|claim| claim.uid()?.parse().ok());
    let params = ListParams::default().labels(&format!("{RING_LABEL}={}", task.cluster));
    let all = bounded(patience, services.list(&params)).await?;
    let address = |s: &Service| s.spec.as_ref()?.cluster_ip.as_ref()?.parse::<Address>().ok();
    let mine = all.items.iter().find(|s| s.name_any() == task.member.to_string());
    let mine = mine
        .and_then(address)
        .ok_or(AskError::Missing("the member's Service"))?;
    Ok(Answered {
        ledger,
        record: record.map(|map| RecordMap {
            immutable: map.immutable == Some(true),
            annotations: map.annotations().clone(),
            data: map.data.unwrap_or_default(),
        }),
        members: all.items.iter().filter_map(address).collect(),
        own: Own {
            address: mine,
            volume: volume.ok_or(AskError::Missing("the member's claim"))?,
        },
    })
}

impl RingTask {
    fn notes(&self) -> PathBuf {
        self.state.join("noted.json")
    }

    fn noted(&self) -> Result<Noted, GateError> {
        let text = read(&self.notes())?;
        Ok(text
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default())
    }

    fn note(&self, noted: &Noted) -> Result<(), GateError> {
        if self.noted()? == *noted {
            return Ok(());
        }
        replace(&self.notes(), &serde_json::to_string(noted)?)
    }

    fn stamp(&self, stamp: &Stamp) -> Result<(), GateError> {
        let path = self.data.join(STAMP_FILE);
        let text = stamp.print()?;
        if read(&path)?.as_deref() == Some(text.as_str()) {
            return Ok(());
        }
        replace(&path, &text)
    }

    fn me(&self, own: Own, noted: &Noted, folder: &Folder, fresh: DiskId) -> Me {
        let mounted = folder.stamp.as_ref().map(|s| s.disk);
        // What was started in this pod is not what is mounted now.
        let another = noted.started.is_some() && noted.started != mounted;
        Me {
            member: self.member.clone(),
            cluster: self.uid,
            engine: self.database.engine(),
            pod: self.pod,
            volume: own.volume,
            address: own.address,
            ran: noted.ran || another,
            fresh,
        }
    }

    async fn folder(&self, looked: &mut Looked) -> Result<Folder, GateError> {
        let stamp = read(&self.data.join(STAMP_FILE))?;
        Ok(Folder {
            stamp: stamp.and_then(|text| Stamp::parse(&text)),
            bootstrapped: self.readable(looked).await?,
        })
    }

    /// What the tables say, or that they cannot be read: a gate that ended for that would tell nobody. The tool may have been
    /// too slow for once, so it is asked again, but not at every look.
    async fn readable(&self, looked: &mut Looked) -> Result<Bootstrapped, GateError> {
        let now = own_clock();
        let lately = |(_, at): &(String, Time)| now.since(*at) < self.pause * READ_AGAIN;
        if looked.failed.as_ref().is_some_and(lately) {
            return Ok(Bootstrapped::Unreadable);
        }
        match self.bootstrapped(looked).await {
            Ok(said) => {
                looked.failed = None;
                Ok(said)
            }
            Err(GateError::NoProgram) => Err(GateError::NoProgram),
            Err(error) => {
                looked.failed = Some((error.to_string(), now));
                Ok(Bootstrapped::Unreadable)
            }
        }
    }

    /// What the database's own tables say, read by its own tool while nothing runs. That there are files says nothing.
    async fn bootstrapped(&self, looked: &mut Looked) -> Result<Bootstrapped, GateError> {
        let files = local_tables(&self.data).map_err(io(&self.data))?;
        if files.is_empty() {
            return Ok(Bootstrapped::Never);
        }
        let signs = signs(&files).map_err(io(&self.data))?;
        // A gate may wait for days, and the tool is a whole Java machine.
        if let Some((_, known)) = looked.read.as_ref().filter(|(before, _)| *before == signs) {
            return Ok(*known);
        }
        let said = match &self.database {
            Database::Scylla(_) => scylla::bootstrapped(self, files).await,
            Database::Cassandra(home) => cassandra::bootstrapped(self, home, files).await,
        }?;
        looked.read = Some((signs, said));
        Ok(said)
    }

    /// Writes to the pod what was found; if it is not known to be there, why.
    async fn report(
        &self,
        client: &mut impl AsyncFnMut() -> Result<Client, AskError>,
        report: Report,
        reported: &mut Option<Report>,
    ) -> Result<(), AskError> {
        if *reported == Some(report) {
            return Ok(());
        }
        let text = serde_json::to_string(&report).map_err(AskError::Print)?;
        let client = client().await?;
        let pods: Api<Pod> = Api::namespaced(client, &self.namespace);
        // With the uid: a namesake is not spoken for.
        let patch = Patch::Merge(json!({ "metadata": {
            "uid": self.pod, "annotations": { REPORT_ANNOTATION: text },
        } }));
        let (name, params) = (self.member.to_string(), PatchParams::default());
        let done = bounded(self.patience, pods.patch(&name, &params, &patch)).await;
        // A call that failed may have been heard: what stands there is not known, and is said again.
        *reported = done.is_ok().then_some(report);
        Ok(done.map(drop)?)
    }

    /// The last things before the database: the stamp makes a permission used, then what an unfinished start left goes.
    fn launch(
        &self,
        start: &Start,
        own: Own,
        noted: &mut Noted,
        mut say: impl FnMut(String),
    ) -> Result<Launch, GateError> {
        self.stamp(&start.stamp)?;
        if start.wipe {
            wipe(&self.data).map_err(io(&self.data))?;
        }
        noted.started = Some(start.stamp.disk);
        noted.ran = noted.ran || matches!(start.report.found, Found::Started(_));
        self.note(noted)?;
        let launch = match &self.database {
            Database::Scylla(home) => scylla::launch(self, home, start, own.address),
            Database::Cassandra(home) => cassandra::launch(self, home, start, own.address, draw()),
        }?;
        say(match start.report.found {
            Found::Started(host) => format!("starting {host}"),
            Found::StartedWith(number) => format!("starting with {number}"),
            other => format!("starting: {other:?}"),
        });
        Ok(launch)
    }
}

/// What the word in `bootstrapped` says.
fn meant(word: Option<&str>, host: Option<HostId>) -> Result<Bootstrapped, GateError> {
    match (word, host) {
        (Some("COMPLETED"), Some(host)) => Ok(Bootstrapped::Completed(host)),
        (Some("COMPLETED"), None) => Err(GateError::Tables(
            "it is bootstrapped and has no host id".to_owned(),
        )),
        (Some("IN_PROGRESS"), _) => Ok(Bootstrapped::InProgress),
        (Some("DECOMMISSIONED"), _) => Ok(Bootstrapped::Decommissioned),
        (Some(_) | None, _) => Ok(Bootstrapped::Never),
    }
}

#[cfg(test)]
mod tests;
