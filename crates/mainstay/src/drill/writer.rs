//! Clients that write numbered vertices through the gateway, and note what they were told.

use super::hand::{Clients, Hand};
use super::ledger::{Answer, Ledger, Number, Write};
use super::pace::{Pace, Schedule};
use bolt::message::{Auth, Failure, Run};
use sandbox::standin::memgraph::client::{Client, ClientError, Outcome};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// How long a client waits for an answer; longer than a gateway holds a connection.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// How long a client waits after a failure before it tries again.
const AGAIN: Duration = Duration::from_millis(10);

/// Where and how to write.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The gateway.
    pub(crate) bolt: SocketAddr,
    /// As whom.
    pub(crate) auth: Auth<'static>,
    /// Which drill: its vertices are told from those of others by it.
    pub(crate) run: i64,
}

/// Writers at work.
pub(crate) struct Writers {
    tasks: JoinSet<Vec<Write>>,
    stop: CancellationToken,
    began: Instant,
    last: Arc<AtomicU64>,
}

/// Why the writes could not be read back.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    /// No connection, or it broke.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server refused.
    #[error("the server refused: {0}")]
    Refused(Failure<'static>),
    /// A row without a number.
    #[error("a vertex of the drill has no number")]
    NoNumber,
}

impl Writers {
    /// Starts them. Numbers are drawn from `numbers`.
    pub(crate) fn start(
        target: &Target,
        clients: &Clients,
        count: u16,
        pace: Pace,
        numbers: &Arc<AtomicI64>,
    ) -> Self {
        let schedule = Arc::new(Schedule::new(pace));
        let stop = CancellationToken::new();
        let began = Instant::now();
        let last = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for client in 0..count {
            let writer = Writer {
                target: target.clone(),
                schedule: Arc::clone(&schedule),
                numbers: Arc::clone(numbers),
                stop: stop.clone(),
                began,
                last: Arc::clone(&last),
                hand: clients.hand(client),
            };
            tasks.spawn(writer.run());
        }
        Self {
            tasks,
            stop,
            began,
            last,
        }
    }

    /// The time of the round, by which all writes are noted.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// When the last write was acknowledged.
    pub(crate) fn last(&self) -> Duration {
        Duration::from_micros(self.last.load(Ordering::Relaxed))
    }

    /// Lets each end its write, and gathers what they noted.
    pub(crate) async fn end(mut self) -> Result<Ledger, JoinError> {
        self.stop.cancel();
        let mut all = Vec::new();
        while let Some(done) = self.tasks.join_next().await {
            all.extend(done?);
        }
        Ok(Ledger::new(all))
    }
}

struct Writer {
    target: Target,
    schedule: Arc<Schedule>,
    numbers: Arc<AtomicI64>,
    stop: CancellationToken,
    began: Instant,
    last: Arc<AtomicU64>,
    hand: Hand,
}

impl Writer {
    async fn run(mut self) -> Vec<Write> {
        let mut noted = Vec::new();
        while !self.stop.is_cancelled() {
            let due = self.began + self.schedule.due(self.began.elapsed());
            // Whoever waits for its turn when the round is over has nothing to end.
            if self.stop.run_until_cancelled(sleep_until(due)).await.is_none() {
                break;
            }
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            let began = self.began.elapsed();
            let answer = self.hand.write(&self.target, number).await;
            let ended = self.began.elapsed();
            noted.push(Write {
                number,
                answer,
                began,
                ended,
            });
            if answer == Answer::Acknowledged {
                let at = u64::try_from(ended.as_micros()).unwrap_or(u64::MAX);
                self.last.fetch_max(at, Ordering::Relaxed);
                sleep(self.schedule.rest()).await;
            } else {
                sleep(AGAIN).await;
            }
        }
        noted
    }
}

pub(crate) async fn connect(target: &Target) -> Result<Client, ClientError> {
    Client::connect_within(target.bolt, target.auth.clone(), PATIENCE).await
}

/// The numbers of all writes of this drill that are there.
pub(crate) async fn read_back(target: &Target) -> Result<Vec<Number>, ReadError> {
    let run = Run::new("MATCH (n:Drill {run: $run}) RETURN n.id").with("run", target.run);
    match connect(target).await?.run(&run).await? {
        Outcome::Done(table) => table
            .rows
            .iter()
            .map(|row| row.first().and_then(bolt::packstream::Value::as_int))
            .map(|number| number.ok_or(ReadError::NoNumber))
            .collect(),
        Outcome::Refused { failure, .. } => Err(ReadError::Refused(failure)),
    }
}

/// Removes them: a drill leaves nothing behind.
pub(crate) async fn remove(target: &Target) -> Result<(), ReadError> {
    let run = Run::new("MATCH (n:Drill {run: $run}) DELETE n").with("run", target.run);
    match connect(target).await?.run(&run).await? {
        Outcome::Done(_) => Ok(()),
        Outcome::Refused { failure, .. } => Err(ReadError::Refused(failure)),
    }
}
