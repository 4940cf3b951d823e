//! The record that a gateway obeys: opens, cuts, confirms (G1 to G3).
//!
//! One task owns the [`Gate`], so records are obeyed one after the other, whoever brings them, and a caller that
//! goes away in the middle of a cut does not leave it half done.

mod epoch;

pub(crate) use epoch::{Epoch, Stay};

use crate::heard::Hearing;
use crate::metrics::Metrics;
use epoch::Door;
use futures::future::join_all;
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::gate::{Drain, Gate, Route, stays};
use mainstay_core::memgraph::ids::{Revision, Term};
use mainstay_core::memgraph::objects::Confirmation;
use mainstay_core::memgraph::read_gate;
use mainstay_core::memgraph::record::State;
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

/// How long everybody may be held for the transactions of a few. The operator gives up holding after 5 s.
const MOMENT: Duration = Duration::from_secs(3);

#[derive(Debug)]
enum Command {
    /// A record that was pushed: whoever pushed it waits until it is obeyed.
    Pushed(Box<Record>, oneshot::Sender<()>),
    /// A record that was read, not older than anything that was ever confirmed.
    Read(Box<Record>),
    Registered,
}

impl Command {
    fn record(&self) -> Option<&Record> {
        match self {
            Self::Pushed(record, _) | Self::Read(record) => Some(record),
            Self::Registered => None,
        }
    }
}

/// What everybody asks about the record; clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    commands: mpsc::Sender<Command>,
    epochs: watch::Receiver<Arc<Epoch>>,
    reading: watch::Receiver<Arc<Epoch>>,
    record: watch::Receiver<Option<Arc<Record>>>,
    confirmed: watch::Receiver<Option<(Term, Revision)>>,
    hearing: Arc<Hearing>,
    doubt: Arc<Notify>,
    awaited: Arc<Notify>,
    /// How many wait for a cluster that hibernates, whichever port they came in by.
    awaiting: Arc<AtomicUsize>,
    asleep: Arc<AtomicBool>,
    ready: Arc<AtomicBool>,
}

/// Somebody waits for a cluster that hibernates, until this is dropped.
#[derive(Debug)]
pub(crate) struct Awaiting(Arc<AtomicUsize>);

impl Drop for Awaiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whose sessions have to leave.
#[derive(Clone, Copy, Debug)]
struct Ports {
    writes: bool,
    reads: bool,
}

/// The task behind [`Control`].
#[derive(Debug)]
pub(crate) struct Keeper {
    gate: Gate,
    /// Where read clients log in.
    reads_at: Option<Route>,
    asleep: Arc<AtomicBool>,
    ready: Arc<AtomicBool>,
    headline: String,
    registered: bool,
    read: bool,
    commands: mpsc::Receiver<Command>,
    /// What was asked while sessions were let end.
    put_off: VecDeque<Command>,
    /// How long transactions may take to end before they are cut.
    patience: Duration,
    epochs: watch::Sender<Arc<Epoch>>,
    /// The epochs of read sessions. They outlast writes that are held or closed, and no MAIN and no term.
    reading: watch::Sender<Arc<Epoch>>,
    record: watch::Sender<Option<Arc<Record>>>,
    confirmed: watch::Sender<Option<(Term, Revision)>>,
    metrics: Arc<Metrics>,
}

/// A gateway that has read nothing. Transactions get `patience` to end where MAIN can wait for them.
pub(crate) fn new(metrics: Arc<Metrics>, patience: Duration) -> (Control, Keeper) {
    let (commands, inbox) = mpsc::channel(16);
    let headline = "no record was read yet".to_owned();
    let gate = Gate::default();
    let (epochs, seen) = watch::channel(Epoch::new(Door::Writes(gate), false, headline.clone()));
    let (reading, read) = watch::channel(Epoch::new(Door::Reads(None), false, headline.clone()));
    let (record, obeyed) = watch::channel(None);
    let (confirmed, shown) = watch::channel(None);
    let control = Control {
        commands,
        epochs: seen,
        reading: read,
        record: obeyed,
        confirmed: shown,
        hearing: Arc::new(Hearing::default()),
        doubt: Arc::new(Notify::new()),
        awaited: Arc::new(Notify::new()),
        awaiting: Arc::default(),
        asleep: Arc::default(),
        ready: Arc::default(),
    };
    let keeper = Keeper {
        asleep: Arc::clone(&control.asleep),
        ready: Arc::clone(&control.ready),
        gate,
        reads_at: None,
        headline,
        registered: false,
        read: false,
        commands: inbox,
        put_off: VecDeque::new(),
        patience,
        epochs,
        reading,
        record,
        confirmed,
        metrics,
    };
    (control, keeper)
}

impl Control {
    /// Obeys a record that was pushed, unless it is older than what is known. Returns when everything older is cut.
    ///
    /// A push alone does not open a gateway: after a restart it could be one that was sent before what the last
    /// process confirmed.
    pub(crate) async fn obey(&self, record: Record) {
        let (done, wait) = oneshot::channel();
        let pushed = Command::Pushed(Box::new(record), done);
        if self.commands.send(pushed).await.is_ok() {
            wait.await.ok();
        }
    }

    /// Obeys a record that was read, and that is not older than anything that was ever confirmed (G3): from here on the
    /// gateway may forward, once it is registered, too. Nobody waits for what comes of it: whoever follows the record
    /// must hear of the next one meanwhile.
    pub(crate) async fn follow(&self, record: Record) {
        self.commands.send(Command::Read(Box::new(record))).await.ok();
    }

    /// The gateway's own object exists: it may forward, once a record was read, too.
    pub(crate) async fn registered(&self) {
        self.commands.send(Command::Registered).await.ok();
    }

    /// The epochs, the current one first.
    pub(crate) fn epochs(&self) -> watch::Receiver<Arc<Epoch>> {
        self.epochs.clone()
    }

    /// The epochs of read sessions, the current one first.
    pub(crate) fn reading(&self) -> watch::Receiver<Arc<Epoch>> {
        self.reading.clone()
    }

    /// The record that is obeyed, as it changes; none before the first.
    pub(crate) fn record(&self) -> watch::Receiver<Option<Arc<Record>>> {
        self.record.clone()
    }

    /// What was confirmed, as it changes; none before the first record.
    pub(crate) fn confirmed(&self) -> watch::Receiver<Option<(Term, Revision)>> {
        self.confirmed.clone()
    }

    /// What the gateway says of itself.
    pub(crate) fn confirmation(&self) -> Confirmation {
        let (term, revision) = self.confirmed.borrow().unwrap_or_default();
        Confirmation {
            term,
            revision,
            heard: self.hearing.last(),
        }
    }

    /// Whom it last had an answer from.
    pub(crate) fn hearing(&self) -> &Hearing {
        &self.hearing
    }

    /// Something does not fit the record: it should be read again (G5).
    pub(crate) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Ends when somebody doubts.
    pub(crate) async fn doubted(&self) {
        self.doubt.notified().await;
    }

    /// Does the cluster hibernate?
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed)
    }

    /// Somebody waits for a cluster that hibernates, as long as what this returns lives.
    pub(crate) fn wake(&self) -> Awaiting {
        // Before the word is given: whoever hears it asks whether there is somebody.
        self.awaiting.fetch_add(1, Ordering::Relaxed);
        let awaiting = Awaiting(Arc::clone(&self.awaiting));
        self.awaited.notify_one();
        awaiting
    }

    /// Ends when somebody waits for a cluster that hibernates.
    pub(crate) async fn awaited(&self) {
        self.awaited.notified().await;
    }

    /// Does somebody still wait for it?
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaiting.load(Ordering::Relaxed) > 0
    }

    /// Is it registered, and was a record read? It is ready then, whatever the record says: holding is what it is for.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }
}

impl Keeper {
    /// Keeps the gate until everybody who could ask is gone.
    pub(crate) async fn run(mut self) {
        while let Some(command) = self.next().await {
            match command {
                Command::Pushed(record, done) => {
                    self.obey(&record).await;
                    // Who asked may be gone; what was asked is done.
                    done.send(()).ok();
                }
                Command::Read(record) => {
                    self.obey(&record).await;
                    self.read = true;
                    self.renew().await;
                }
                Command::Registered => {
                    self.metrics.registered.set(1);
                    self.registered = true;
                    self.renew().await;
                }
            }
        }
        // Nobody is left to tell of the next record: nothing may go on under this one.
        self.epochs.borrow().fall();
        self.reading.borrow().fall();
    }

    async fn next(&mut self) -> Option<Command> {
        match self.put_off.pop_front() {
            Some(command) => Some(command),
            None => self.commands.recv().await,
        }
    }

    fn is_open(&self) -> bool {
        self.registered && self.read
    }

    async fn obey(&mut self, record: &Record) {
        let Some(verdict) = self.gate.on_record(record) else {
            self.metrics.records_ignored.inc();
            tracing::info!(
                term = record.term.0,
                revision = record.revision.0,
                "ignored an older record"
            );
            return;
        };
        self.headline = record.headline();
        // Before the epoch that says so: whoever is held by it must know.
        let asleep = record.state == State::Hibernated;
        let dozed = self.asleep.swap(asleep, Ordering::Relaxed) != asleep;
        let reads_at = read_gate::login(record);
        // Whoever waits for a route looks again when there is another epoch: who was held for something else must hear
        // that the cluster fell asleep, although there was no route before either.
        let ports = Ports {
            writes: verdict.cut || dozed,
            reads: reads_at != self.reads_at || dozed,
        };
        // Where writes were held before, the gate has nobody to wait for; read sessions are still there.
        let read_from = mem::replace(&mut self.reads_at, reads_at).filter(|_| ports.reads);
        let drain = verdict
            .drain
            .or_else(|| stays(record, read_from?))
            .map(|drain| (drain, record));
        if verdict.cut {
            self.metrics.cuts.inc();
        }
        self.turn_over(ports, drain).await;
        if verdict.cut {
            tracing::info!(record = self.headline, "cut");
        }
        self.record.send_replace(Some(Arc::new(record.clone())));
        let (term, revision) = verdict.confirm;
        self.metrics.term.set(i64::try_from(term.0).unwrap_or(i64::MAX));
        self.metrics
            .revision
            .set(i64::try_from(revision.0).unwrap_or(i64::MAX));
        self.confirmed.send_replace(Some(verdict.confirm));
    }

    /// A gateway that just became open lets sessions in.
    async fn renew(&mut self) {
        // Not the epoch's: that is closed during each drain, and nobody is to be sent elsewhere for that.
        let before = self.ready.swap(self.is_open(), Ordering::Relaxed);
        if self.is_open() && !before {
            let both = Ports {
                writes: true,
                reads: true,
            };
            self.metrics.cuts.inc();
            self.turn_over(both, None).await;
        }
    }

    /// The old epochs of these ports end, completely, before the new ones begin. What runs there may come to its end in
    /// the same time: one port after the other, it would be more than the operator waits for. Both are over before the
    /// record is confirmed, for a replica that is read from may be MAIN next.
    async fn turn_over(&mut self, ports: Ports, drain: Option<(Drain, &Record)>) {
        let old = self.replace(ports, false);
        if let Some((drain, record)) = drain {
            self.drain(&old, drain, record).await;
        }
        join_all(old.iter().map(|epoch| epoch.end())).await;
        self.replace(ports, self.is_open());
    }

    /// New epochs of these ports; returns the old ones.
    fn replace(&self, ports: Ports, open: bool) -> Vec<Arc<Epoch>> {
        let next = |door| Epoch::new(door, open, self.headline.clone());
        let writes = ports
            .writes
            .then(|| self.epochs.send_replace(next(Door::Writes(self.gate))));
        let reads = ports
            .reads
            .then(|| self.reading.send_replace(next(Door::Reads(self.reads_at))));
        writes.into_iter().chain(reads).collect()
    }

    /// Lets transactions end, until they take too long or a newer record says something else.
    async fn drain(&mut self, old: &[Arc<Epoch>], drain: Drain, obeyed: &Record) {
        let patience = match drain {
            Drain::Moved => self.patience,
            Drain::Held => self.patience.min(MOMENT),
        };
        let deadline = Instant::now() + patience;
        let mut drained = std::pin::pin!(join_all(old.iter().map(|epoch| epoch.drain())));
        loop {
            let command = tokio::select! {
                biased;
                _ = &mut drained => return,
                () = sleep_until(deadline) => {
                    self.metrics.drains_cut_short.inc();
                    return;
                }
                command = self.commands.recv() => command,
            };
            let Some(command) = command else { return };
            let other = command.record().is_some_and(|record| ends(obeyed, record));
            self.put_off.push_back(command);
            if other {
                return;
            }
        }
    }
}

/// Does this record end the patience with what runs under the one that is obeyed? One that only says the same again does
/// not, such as that of an operator which goes on with what another one began; it is confirmed when its turn comes.
fn ends(obeyed: &Record, record: &Record) -> bool {
    let newer = (record.term, record.revision) > (obeyed.term, obeyed.revision);
    let same = record.term == obeyed.term
        && record.state == obeyed.state
        && record.writes == obeyed.writes
        && record.main == obeyed.main
        && record.candidate == obeyed.candidate;
    newer && !same
}

#[cfg(test)]
mod tests;
