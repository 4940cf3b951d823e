//! Writes through a gateway, one after the other, and what was acknowledged of them.

use crate::bed::{Bed, PATIENCE};
use anyhow::{Result, bail, ensure};
use bolt::packstream::Value;
use sandbox::standin::memgraph::client::{Client, Outcome};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Between two writes: what is tested is not how much a cluster bears.
const PAUSE: Duration = Duration::from_millis(100);

/// Somebody who writes, until it is dropped.
pub(crate) struct Ledger {
    begun: Arc<AtomicI64>,
    acknowledged: watch::Receiver<BTreeSet<i64>>,
    under_way: Arc<Mutex<()>>,
    _writer: JoinSet<()>,
}

impl Ledger {
    /// Begins to write.
    pub(crate) fn through(gateway: SocketAddr) -> Self {
        let begun = Arc::new(AtomicI64::new(0));
        let (told, acknowledged) = watch::channel(BTreeSet::new());
        let mut writer = JoinSet::new();
        let next = Arc::clone(&begun);
        let under_way = Arc::new(Mutex::new(()));
        let one = Arc::clone(&under_way);
        writer.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::SeqCst);
                let writing = one.lock().await;
                if write(gateway, number).await {
                    told.send_modify(|all| {
                        all.insert(number);
                    });
                }
                drop(writing);
                sleep(PAUSE).await;
            }
        });
        Self {
            begun,
            acknowledged,
            under_way,
            _writer: writer,
        }
    }

    /// What was acknowledged until now.
    pub(crate) fn acknowledged(&self) -> BTreeSet<i64> {
        self.acknowledged.borrow().clone()
    }

    /// While this is held no write is under way. A MAIN that dies in the middle of one may come back diverged and be reset,
    /// for which the pods of these tests have no helper; `reset_kills` has, and drills kill MAIN at any moment.
    pub(crate) async fn between_writes(&self) -> MutexGuard<'_, ()> {
        self.under_way.lock().await
    }

    /// Waits until a write was acknowledged that was begun after this was asked.
    pub(crate) async fn until_one_more(&self) -> Result<()> {
        let begun = self.begun.load(Ordering::SeqCst);
        let mut acknowledged = self.acknowledged.clone();
        let later = acknowledged.wait_for(|all| all.last().is_some_and(|last| *last >= begun));
        match timeout(PATIENCE, later).await {
            Ok(Ok(_)) => Ok(()),
            _ => bail!("nothing is acknowledged through the gateway any more"),
        }
    }
}

/// One write on a connection of its own: whether it was acknowledged.
pub(crate) async fn write(gateway: SocketAddr, number: i64) -> bool {
    let auth = bolt::message::Auth::None;
    let Ok(mut client) = Client::connect_within(gateway, auth, Duration::from_secs(15)).await else {
        return false;
    };
    let query = format!("CREATE (:Numbered {{n: {number}}})");
    matches!(client.query(&query).await, Ok(Outcome::Done(_)))
}

/// The writes that a pod has.
pub(crate) async fn found(bed: &Bed, pod: u8) -> Result<BTreeSet<i64>> {
    let query = "MATCH (n:Numbered) RETURN n.n AS n";
    match bed.bolt(pod).await?.query(query).await? {
        Outcome::Done(table) => Ok(table.rows.iter().flatten().filter_map(Value::as_int).collect()),
        Outcome::Refused { failure, .. } => bail!("{failure}"),
    }
}

/// Waits until a pod has all of these.
pub(crate) async fn until_found(bed: &Bed, pod: u8, wanted: &BTreeSet<i64>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = found(bed, pod).await;
        if found.as_ref().is_ok_and(|found| found.is_superset(wanted)) {
            return Ok(());
        }
        let missing = found.map(|found| wanted.difference(&found).copied().collect::<Vec<_>>());
        ensure!(Instant::now() < deadline, "pod {pod} does not have {missing:?}");
        sleep(Duration::from_millis(50)).await;
    }
}
