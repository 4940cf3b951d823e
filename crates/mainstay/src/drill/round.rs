//! One round: well, broken, mended, counted.

use super::cluster::{ClusterError, Look};
use super::faults::{Alive, Drill, Effect, Fault, FaultError, Injector};
use super::hand::Clients;
use super::ledger::{Account, Gap, Ledger, Number, Share, Write};
use super::pace::Pace;
use super::phases::{Before, Phases, phases};
use super::writer::{ReadError, Target, Writers, read_back, remove};
use crate::sentence::sentence;
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
/// How long the read-back may take while sessions are still being cut, and the removal after it.
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
        /// Whether a MAIN serves.
        serves: bool,
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

impl RoundError {
    /// Is anybody there of whom the writes can be read back? Most errors say nothing against it.
    fn may_be_settled(&self) -> bool {
        !matches!(self, Self::NotBack { serves: false, .. })
    }
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
    /// What became of the writes of a round, as soon as it is known: whatever comes after it, it was so.
    fn settled(&mut self, account: Account);
    /// Something that changes nothing of what the round has shown.
    fn warn(&mut self, sentence: &str);
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
    let broken = async {
        steady(&writers, plan).await?;
        let injected = writers.now();
        injector.inject(&fault).await?;
        let back = until_back(plan, injector, (&fault, &effect), &writers, witness).await?;
        Ok::<_, RoundError>((injected, back))
    };
    let (injected, back) = match broken.await {
        Ok(broken) => broken,
        Err(error) => {
            unfinished(&error, injector, target, writers, witness).await;
            return Err(error);
        }
    };
    let written = writers.now();
    let ledger = writers.end().await.map_err(RoundError::Writer)?;
    let account = settle_at(target, &ledger, witness).await?;
    let shares = ledger.shares(plan.writers, injected, back.served_at);
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

/// A round that does not come to its end may have lost a write all the same, and that is the worse news.
async fn unfinished(
    error: &RoundError,
    injector: &Injector,
    target: &Target,
    writers: Writers,
    witness: &mut impl Witness,
) {
    if !error.may_be_settled() {
        return;
    }
    // What is still broken may be in the way. It is undone again when the drill ends, and told if that fails.
    injector.undo().await.ok();
    let settled = match writers.end().await {
        Ok(ledger) => settle_at(target, &ledger, witness).await.map(drop),
        Err(error) => Err(RoundError::Writer(error)),
    };
    if let Err(unsettled) = settled {
        let told = sentence(&unsettled.into());
        witness.warn(&format!("whether this round lost a write is not known: {told}"));
    }
}

async fn settle_at(
    target: &Target,
    ledger: &Ledger,
    witness: &mut impl Witness,
) -> Result<Account, RoundError> {
    settle(
        ledger,
        async || read_back(target).await,
        async || remove(target).await,
        witness,
    )
    .await
}

/// Compares what was promised with what is there, and removes it.
async fn settle(
    ledger: &Ledger,
    read: impl AsyncFnMut() -> Result<Vec<Number>, ReadError>,
    remove: impl AsyncFnMut() -> Result<(), ReadError>,
    witness: &mut impl Witness,
) -> Result<Account, RoundError> {
    let present = again(READ_BACK, read).await.map_err(RoundError::Read)?;
    let account = ledger.settle(&present);
    witness.settled(account);
    for write in ledger.lost(&present) {
        witness.lost(&write);
    }
    // The next round has other numbers, and tries to remove these too.
    if let Err(error) = again(READ_BACK, remove).await {
        witness.warn(&format!(
            "vertices of the drill were left behind, `MATCH (n:Drill) DELETE n` removes them: {error}"
        ));
    }
    Ok(account)
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
                serves: look.ready,
            });
        }
        sleep(POLL).await;
    }
}

/// A session may still be cut for a new term, so it is tried again for a while.
async fn again<T, E>(within: Duration, mut once: impl AsyncFnMut() -> Result<T, E>) -> Result<T, E> {
    let deadline = Instant::now() + within;
    loop {
        match once().await {
            Err(_) if Instant::now() <= deadline => sleep(POLL).await,
            ended => return ended,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn signed(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Answer;
    use super::*;

    #[derive(Default)]
    struct Heard {
        lost: Vec<Number>,
        settled: Vec<Account>,
        warned: Vec<String>,
    }

    impl Witness for Heard {
        fn lost(&mut self, write: &Write) {
            self.lost.push(write.number);
        }

        fn settled(&mut self, account: Account) {
            self.settled.push(account);
        }

        fn warn(&mut self, sentence: &str) {
            self.warned.push(sentence.to_owned());
        }

        fn reasons(&mut self, _after: Duration, _reasons: &[String]) {}
    }

    fn promised(numbers: [Number; 2]) -> Ledger {
        let write = |number| Write {
            number,
            client: 0,
            answer: Answer::Acknowledged,
            began: Duration::ZERO,
            ended: Duration::ZERO,
        };
        Ledger::new(numbers.map(write).into())
    }

    /// Fails so often before it answers.
    fn cut<T: Clone>(times: u32, answer: T) -> impl AsyncFnMut() -> Result<T, ReadError> {
        let mut left = times;
        async move || {
            if left > 0 {
                left -= 1;
                return Err(ReadError::NoNumber);
            }
            Ok(answer.clone())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_is_cut_costs_neither_the_round_nor_its_vertices() {
        let mut heard = Heard::default();
        let ledger = promised([1, 2]);
        let account = settle(&ledger, cut(3, vec![1, 2]), cut(3, ()), &mut heard);
        let account = account.await.unwrap();
        assert_eq!((account.acknowledged, account.lost), (2, 0));
        assert!(heard.warned.is_empty(), "{:?}", heard.warned);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loss_counts_whatever_becomes_of_the_vertices() {
        let mut heard = Heard::default();
        let ledger = promised([1, 2]);
        let account = settle(&ledger, cut(0, vec![1]), cut(u32::MAX, ()), &mut heard);
        let account = account.await.unwrap();
        assert_eq!((account.lost, heard.lost), (1, vec![2]));
        assert_eq!(heard.settled, [account]);
        assert!(heard.warned[0].contains("left behind"), "{:?}", heard.warned);
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_never_be_read_back_is_an_error_and_settles_nothing() {
        let mut heard = Heard::default();
        let ended = settle(&promised([1, 2]), cut(u32::MAX, vec![]), cut(0, ()), &mut heard).await;
        assert!(matches!(ended, Err(RoundError::Read(_))), "{ended:?}");
        assert!(heard.settled.is_empty());
    }

    #[test]
    fn a_round_that_does_not_end_is_settled_unless_nobody_serves() {
        let waited = Duration::from_mins(2);
        let not_back = |serves| RoundError::NotBack {
            what: "the cluster is well, and no write is acknowledged",
            waited,
            reasons: String::new(),
            serves,
        };
        let silent = RoundError::NotServed {
            client: 1,
            name: String::new(),
            waited,
        };
        assert!(silent.may_be_settled() && not_back(true).may_be_settled());
        assert!(!not_back(false).may_be_settled());
    }
}
