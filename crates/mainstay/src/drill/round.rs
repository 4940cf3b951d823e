//! One round: well, broken, mended, counted.

use super::cluster::{ClusterError, Look};
use super::faults::{Alive, Drill, Effect, Fault, FaultError, Injector};
use super::hand::Clients;
use super::ledger::{Account, Gap, Number, Share, Write};
use super::pace::Pace;
use super::phases::{Before, Phases, phases};
use super::writer::{ReadError, Target, Writers, read_back, remove};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;
use thiserror::Error;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};

/// How often the status is read.
const POLL: Duration = Duration::from_millis(25);
/// How long clients write before the fault, and after everything is well again.
const STEADY: Duration = Duration::from_millis(500);
/// How long the read-back may take while sessions are still being cut.
const READ_BACK: Duration = Duration::from_secs(30);

/// How rounds are done.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) drill: Drill,
    pub(crate) alive: Alive,
    pub(crate) writers: u16,
    pub(crate) clients: Clients,
    pub(crate) pace: Pace,
    /// How long the cluster may take to be well.
    pub(crate) patience: Duration,
}

/// What a round came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Done {
    /// Which, from one.
    pub(crate) round: u32,
    /// What was done.
    #[serde(flatten)]
    pub(crate) fault: Fault,
    /// The longest time without an acknowledged write until a MAIN served again.
    pub(crate) gap_ms: u64,
    /// Where it went.
    pub(crate) phases: Phases,
    /// The longest one after that, while protection is brought back.
    pub(crate) later_ms: u64,
    /// Every interruption of at least 100 ms: when it began, after the fault, and how long it was.
    pub(crate) interruptions: Vec<Interruption>,
    /// From the fault until the cluster was serving and protected again.
    pub(crate) well_after_ms: u64,
    /// How long clients wrote.
    pub(crate) written_ms: u64,
    /// What became of the writes.
    #[serde(flatten)]
    pub(crate) account: Account,
    /// How many writes of each client were acknowledged.
    pub(crate) clients: Vec<Part>,
}

/// What one client had of a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Part {
    /// Its command line, or our own client.
    pub(crate) name: String,
    /// Acknowledged until the fault.
    pub(crate) before: u64,
    /// Acknowledged since a MAIN served again.
    pub(crate) after: u64,
    /// Acknowledged in all.
    pub(crate) acknowledged: u64,
}

/// A time without an acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Interruption {
    /// When it began, counted from the fault.
    pub(crate) after_ms: i64,
    /// How long it was.
    pub(crate) ms: u64,
}

/// Why a round came to nothing.
#[derive(Debug, Error)]
pub(crate) enum RoundError {
    /// It never was as it has to be.
    #[error("the cluster is not serving and protected after {0:?}; it says: {1}")]
    NotWell(Duration, String),
    /// It did not come back.
    #[error("{what} after {waited:?}; the operator says: {reasons}")]
    NotBack {
        /// What is missing.
        what: &'static str,
        /// How long it was waited for.
        waited: Duration,
        /// What the operator says.
        reasons: String,
    },
    /// The fault.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// The status.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The writes.
    #[error("the writes cannot be read back")]
    Read(#[source] ReadError),
    /// What a client was told is not known any more: nothing can be said of the round.
    #[error("a client of the drill failed")]
    Writer(#[source] JoinError),
    /// A client has not even begun.
    #[error("no write of client {client} ({name}) was acknowledged in {waited:?}")]
    NoWrites {
        /// Which, from one.
        client: u16,
        /// What it is.
        name: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A client did not come back.
    #[error("the cluster is well, and no write of client {client} ({name}) was acknowledged in {waited:?}")]
    NotServed {
        /// Which, from one.
        client: u16,
        /// What it is.
        name: String,
        /// How long it was waited for.
        waited: Duration,
    },
}

/// Waits until the cluster is as it has to be, tells each new sentence of the operator, and returns its status.
pub(crate) async fn until_well(
    injector: &Injector,
    patience: Duration,
    mut told: impl FnMut(&str),
) -> Result<Look, RoundError> {
    let deadline = Instant::now() + patience;
    let mut last = String::new();
    loop {
        let look = injector.cluster.look().await?;
        if look.is_well() {
            return Ok(look);
        }
        if let Some(reason) = look.reasons.first().filter(|reason| **reason != last) {
            told(reason);
            last.clone_from(reason);
        }
        if Instant::now() > deadline {
            return Err(RoundError::NotWell(patience, look.reasons.join("; ")));
        }
        sleep(POLL).await;
    }
}

/// Who is told what happens in a round.
pub(crate) trait Witness {
    /// A write that was promised is not there.
    fn lost(&mut self, write: &Write);
    /// The operator says something else than before, so long after the fault.
    fn reasons(&mut self, after: Duration, reasons: &[String]);
}

/// One round.
pub(crate) async fn round(
    plan: &Plan,
    number: u32,
    injector: &Injector,
    target: &Target,
    numbers: &Arc<AtomicI64>,
    witness: &mut impl Witness,
) -> Result<Done, RoundError> {
    let before = until_well(injector, plan.patience, |_| {}).await?;
    let fault = injector
        .choose(plan.drill, plan.alive, number - 1, &before)
        .await?;
    let effect = injector.effect(&fault, &before).await?;
    let writers = Writers::start(target, &plan.clients, plan.writers, plan.pace, numbers);
    steady(&writers, plan).await?;
    let injected = writers.now();
    injector.inject(&fault).await?;
    let back = until_back(plan, injector, (&fault, &effect), &writers, witness).await?;
    let written = writers.now();
    let ledger = writers.end().await.map_err(RoundError::Writer)?;
    let present = read(target).await?;
    for write in ledger.lost(&present) {
        witness.lost(&write);
    }
    let account = ledger.settle(&present);
    let shares = ledger.shares(plan.writers, injected, back.served_at);
    remove(target).await.map_err(RoundError::Read)?;
    let length = |gap: Option<Gap>| millis(gap.map_or(Duration::ZERO, Gap::length));
    let gap_ms = length(ledger.gap(injected, back.served_at));
    let was = Before {
        term: before.term,
        main: before.main,
    };
    let interruptions = ledger.interruptions(injected);
    Ok(Done {
        round: number,
        fault,
        gap_ms,
        phases: phases(gap_ms, &was, &back.look.history),
        later_ms: length(ledger.later(injected, back.served_at)),
        interruptions: interruptions
            .into_iter()
            .map(|gap| Interruption {
                after_ms: signed(gap.from) - signed(injected),
                ms: millis(gap.length()),
            })
            .collect(),
        well_after_ms: millis(back.well_at.saturating_sub(injected)),
        written_ms: millis(written),
        account,
        clients: (0..)
            .zip(shares)
            .map(|(client, share)| part(plan, client, share))
            .collect(),
    })
}

fn part(plan: &Plan, client: u16, share: Share) -> Part {
    let Share {
        before,
        after,
        acknowledged,
    } = share;
    Part {
        name: plan.clients.name(client).to_owned(),
        before,
        after,
        acknowledged,
    }
}

/// Writes flow, of every client: one whose program has not started yet would see nothing of the fault.
async fn steady(writers: &Writers, plan: &Plan) -> Result<(), RoundError> {
    while let Some(client) = writers.silent_since(Duration::ZERO) {
        if writers.now() > plan.patience {
            return Err(RoundError::NoWrites {
                client: client + 1,
                name: plan.clients.name(client).to_owned(),
                waited: plan.patience,
            });
        }
        sleep(POLL).await;
    }
    sleep(STEADY).await;
    Ok(())
}

/// The cluster is back.
struct Back {
    /// When the fault had had its effect and a MAIN served.
    served_at: Duration,
    /// When it was protected too.
    well_at: Duration,
    look: Look,
}

/// Waits for the effect, undoes the fault, and waits until the cluster is well and writes flow, of every client.
async fn until_back(
    plan: &Plan,
    injector: &Injector,
    (fault, effect): (&Fault, &Effect),
    writers: &Writers,
    witness: &mut impl Witness,
) -> Result<Back, RoundError> {
    let began = Instant::now();
    let mut served: Option<Duration> = None;
    let mut well: Option<Duration> = None;
    let mut said = Vec::new();
    loop {
        let look = injector.cluster.look().await?;
        if look.reasons != said {
            witness.reasons(began.elapsed(), &look.reasons);
            said.clone_from(&look.reasons);
        }
        if served.is_none() {
            let ignored = fault.suspicion().is_some_and(|limit| began.elapsed() > limit);
            let worked = ignored || injector.seen(effect, &look).await?;
            // A hung or cut-off MAIN comes back when somebody else serves, a stalled one before.
            if worked && (look.ready || ignored || matches!(fault, Fault::Stall { .. })) {
                injector.undo().await?;
            }
            served = (worked && look.ready).then(|| writers.now());
        }
        well = match served {
            Some(_) if look.is_well() => well.or_else(|| Some(writers.now())),
            _ => None,
        };
        if let (Some(served_at), Some(well_at)) = (served, well)
            && writers.last() > well_at + STEADY
            && writers.silent_since(served_at).is_none()
        {
            return Ok(Back {
                served_at,
                well_at,
                look,
            });
        }
        if began.elapsed() > plan.patience {
            if let (Some(served_at), Some(_)) = (served, well)
                && let Some(client) = writers.silent_since(served_at)
            {
                return Err(RoundError::NotServed {
                    client: client + 1,
                    name: plan.clients.name(client).to_owned(),
                    waited: plan.patience,
                });
            }
            let what = match (served, well) {
                (None, _) => "the fault had no effect, or nobody serves",
                (Some(_), None) => "the cluster is not serving and protected again",
                (Some(_), Some(_)) => "the cluster is well, and no write is acknowledged",
            };
            return Err(RoundError::NotBack {
                what,
                waited: plan.patience,
                reasons: look.reasons.join("; "),
            });
        }
        sleep(POLL).await;
    }
}

/// A session may still be cut for a new term, so it is tried again for a while.
async fn read(target: &Target) -> Result<Vec<Number>, RoundError> {
    let deadline = Instant::now() + READ_BACK;
    loop {
        match read_back(target).await {
            Ok(present) => return Ok(present),
            Err(error) if Instant::now() > deadline => return Err(RoundError::Read(error)),
            Err(_) => sleep(POLL).await,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn signed(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
