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
    /// When each was last told that a write is committed, in microseconds.
    last: Vec<Arc<AtomicU64>>,
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
        let last: Vec<Arc<AtomicU64>> = (0..count).map(|_| Arc::default()).collect();
        let mut tasks = JoinSet::new();
        for (client, last) in (0..count).zip(&last) {
            let writer = Writer {
                client,
                target: target.clone(),
                schedule: Arc::clone(&schedule),
                numbers: Arc::clone(numbers),
                stop: stop.clone(),
                began,
                last: Arc::clone(last),
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

    /// When the last write was acknowledged, of anybody.
    pub(crate) fn last(&self) -> Duration {
        self.each().max().unwrap_or_default()
    }

    /// A client of which no write was acknowledged after this time.
    pub(crate) fn silent_since(&self, time: Duration) -> Option<u16> {
        (0..)
            .zip(self.each())
            .find(|(_, last)| *last <= time)
            .map(|(client, _)| client)
    }

    fn each(&self) -> impl Iterator<Item = Duration> {
        let micros = self.last.iter().map(|last| last.load(Ordering::Relaxed));
        micros.map(Duration::from_micros)
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
    client: u16,
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
                client: self.client,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::net::{TcpSocket, TcpStream};
    use tokio::time::timeout;

    #[tokio::test]
    async fn a_connection_that_does_not_come_about_is_given_up() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        // Nobody accepts: when its queue is full, the kernel lets everybody else wait.
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let soon = Duration::from_millis(200);
        let mut queued = Vec::new();
        while let Ok(connected) = timeout(soon, TcpStream::connect(address)).await {
            queued.push(connected.unwrap());
            assert!(queued.len() < 64, "the queue is never full");
        }
        let began = Instant::now();
        let ended = Client::connect_within(address, Auth::None, soon).await;
        assert!(matches!(ended, Err(ClientError::TimedOut(_))), "{ended:?}");
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_client_that_starts_slowly_is_missed_whatever_the_others_write() {
        let answers = "while read n; do echo acknowledged; done";
        let programs = [
            format!("sh -c '{answers}' sh"),
            format!("sh -c 'sleep 0.5; {answers}' sh"),
        ];
        let clients = Clients::Programs(programs.iter().map(|line| line.as_str().into()).collect());
        let target = Target {
            bolt: SocketAddr::from((Ipv4Addr::LOCALHOST, 7687)),
            auth: Auth::None,
            run: 5,
        };
        let pace = Pace::Pause(Duration::from_millis(5));
        let writers = Writers::start(&target, &clients, 2, pace, &Arc::default());
        while writers.last().is_zero() {
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(writers.silent_since(Duration::ZERO), Some(1));
        while writers.silent_since(Duration::ZERO).is_some() {
            sleep(Duration::from_millis(1)).await;
        }
        let now = writers.now();
        assert!(now >= Duration::from_millis(500), "{now:?}");
        assert!(
            writers.silent_since(now).is_some(),
            "nobody was told anything since"
        );
        let ledger = writers.end().await.unwrap();
        let shares = ledger.shares(2, now, Duration::ZERO);
        assert!(shares.iter().all(|share| share.before > 0), "{shares:?}");
    }
}
