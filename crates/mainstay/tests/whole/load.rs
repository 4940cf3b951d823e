//! Clients that write through the gateway while something happens, and remember what they were promised.

use crate::bed::Whole;
use anyhow::{Context, Result, ensure};
use sandbox::standin::memgraph::client::{Client as Bolt, Outcome};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval_at, timeout};

/// What clients saw of their numbered writes.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) acknowledged: BTreeSet<i64>,
    pub(crate) failed: usize,
    /// The longest time in which one client had no acknowledgement.
    pub(crate) longest: Duration,
}

/// Clients at work.
pub(crate) struct Load {
    stop: watch::Sender<bool>,
    clients: JoinSet<Ledger>,
}

impl Load {
    /// So many clients, each of which writes so often, if it can.
    pub(crate) fn start(address: SocketAddr, clients: i64, every: Duration) -> Self {
        Self::counting_from(0, address, clients, every)
    }

    /// The same, with numbers that no others have.
    pub(crate) fn counting_from(first: i64, address: SocketAddr, clients: i64, every: Duration) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut at_work = JoinSet::new();
        for client in 0..clients {
            let numbers = (first + client..).step_by(usize::try_from(clients).unwrap_or(1));
            // Not all in the same moment.
            let share = f64::from(u32::try_from(client).unwrap_or(0))
                / f64::from(u32::try_from(clients).unwrap_or(1));
            let clock = interval_at(tokio::time::Instant::now() + every.mul_f64(share), every);
            at_work.spawn(write(address, numbers, clock, stopped.clone()));
        }
        Self {
            stop,
            clients: at_work,
        }
    }

    /// Lets each end its write.
    pub(crate) async fn end(mut self) -> Result<Ledger> {
        self.stop.send(true)?;
        let mut all = Ledger::default();
        while let Some(ended) = self.clients.join_next().await {
            let Ledger {
                acknowledged,
                failed,
                longest,
            } = ended.context("a client panicked")?;
            all.acknowledged.extend(acknowledged);
            all.failed += failed;
            all.longest = all.longest.max(longest);
        }
        Ok(all)
    }
}

impl Ledger {
    /// Everything that was promised is on this pod.
    pub(crate) async fn is_kept(&self, whole: &Whole, main: u8) -> Result<()> {
        ensure!(!self.acknowledged.is_empty(), "nothing was written");
        let rows = whole.ask(main, "MATCH (n:Numbered) RETURN n.n AS n").await?;
        let found: BTreeSet<i64> = rows.iter().filter_map(|row| row.first()?.as_int()).collect();
        let lost: Vec<&i64> = self.acknowledged.difference(&found).collect();
        ensure!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        Ok(())
    }

    /// What to print.
    pub(crate) fn told(&self, took: Duration) -> String {
        let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let (acknowledged, failed) = (number(self.acknowledged.len()), number(self.failed));
        format!(
            "{:.1} s: {acknowledged} writes acknowledged ({:.0} a second), {failed} failed ({:.2} %), longest gap {:?}",
            took.as_secs_f64(),
            acknowledged / took.as_secs_f64(),
            100.0 * failed / (acknowledged + failed).max(1.0),
            self.longest
        )
    }
}

/// Writes until it is told to stop; each number once.
async fn write(
    address: SocketAddr,
    numbers: impl Iterator<Item = i64>,
    mut clock: Interval,
    stop: watch::Receiver<bool>,
) -> Ledger {
    let mut ledger = Ledger::default();
    let mut connection = None;
    clock.tick().await;
    let mut last = Instant::now();
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in numbers {
        if *stop.borrow() {
            break;
        }
        if one(&mut connection, address, number).await {
            ledger.acknowledged.insert(number);
            ledger.longest = ledger.longest.max(last.elapsed());
            last = Instant::now();
        } else {
            ledger.failed += 1;
            connection = None;
        }
        clock.tick().await;
    }
    ledger
}

/// Clients that read through the port for reads, as applications do: what is told to try again, tries again. How many
/// reads they had, and none failed otherwise.
pub(crate) struct Readers {
    stop: watch::Sender<bool>,
    clients: JoinSet<Result<usize>>,
}

impl Readers {
    /// So many, each of which reads so often.
    pub(crate) fn start(address: SocketAddr, clients: usize, every: Duration) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut at_work = JoinSet::new();
        for _ in 0..clients {
            at_work.spawn(read(address, every, stopped.clone()));
        }
        Self {
            stop,
            clients: at_work,
        }
    }

    /// Lets each end its read. The fewest reads that one of them had.
    pub(crate) async fn end(mut self) -> Result<usize> {
        // Those that failed are gone; why, is said below.
        self.stop.send_replace(true);
        let mut fewest = usize::MAX;
        while let Some(ended) = self.clients.join_next().await {
            fewest = fewest.min(ended.context("a reader panicked")??);
        }
        Ok(fewest)
    }
}

async fn read(address: SocketAddr, every: Duration, stop: watch::Receiver<bool>) -> Result<usize> {
    let patience = Duration::from_secs(20);
    let connect = || Bolt::connect_within(address, bolt::message::Auth::None, patience);
    let mut client = connect().await?;
    let (mut reads, mut in_a_row) = (0, 0);
    while !*stop.borrow() {
        match client.query("MATCH (n:Numbered) RETURN count(n)").await? {
            Outcome::Done(_) => (reads, in_a_row) = (reads + 1, 0),
            // A replica may fall behind on a busy machine; whoever was with it goes to another one.
            Outcome::Refused { failure, .. } if failure.code.contains("TransientError") && in_a_row < 10 => {
                in_a_row += 1;
                client = connect().await?;
            }
            Outcome::Refused { failure, .. } => anyhow::bail!("a read was refused: {failure}"),
        }
        tokio::time::sleep(every).await;
    }
    Ok(reads)
}

async fn one(connection: &mut Option<Bolt>, address: SocketAddr, number: i64) -> bool {
    let patience = Duration::from_secs(20);
    if connection.is_none() {
        *connection = Bolt::connect_within(address, bolt::message::Auth::None, patience)
            .await
            .ok();
    }
    let Some(client) = connection else { return false };
    let query = format!("CREATE (:Numbered {{n: {number}}})");
    let answered = timeout(patience, client.query(&query)).await;
    matches!(answered, Ok(Ok(Outcome::Done(_))))
}
