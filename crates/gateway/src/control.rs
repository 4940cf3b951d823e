//! The record that a gateway obeys: opens, cuts, confirms (G1 to G3).
//!
//! One task owns the [`Gate`], so records are obeyed one after the other, whoever brings them, and a caller that
//! goes away in the middle of a cut does not leave it half done.

use crate::heard::Hearing;
use crate::metrics::Metrics;
use crate::signal::Signal;
use mainstay_core::memgraph::gate::{Drain, Gate, Route};
use mainstay_core::memgraph::ids::{Revision, Term};
use mainstay_core::memgraph::objects::Confirmation;
use mainstay_core::memgraph::read_gate::{self, LetIn};
use mainstay_core::memgraph::record::State;
use mainstay_core::memgraph::{Record, Rules, observed::Role};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// How long everybody may be held for the transactions of a few. The operator gives up holding after 5 s.
const MOMENT: Duration = Duration::from_secs(3);

/// The time between two cuts. Sessions belong to the epoch in which they were checked, and end with it.
#[derive(Debug)]
pub(crate) struct Epoch {
    door: Door,
    open: bool,
    /// The record in one line, for whoever is refused.
    headline: String,
    drain: Signal,
    cut: Signal,
    sessions: TaskTracker,
}

/// Who decides where a client is let in.
#[derive(Clone, Copy, Debug)]
enum Door {
    Writes(Gate),
    /// Where read clients log in.
    Reads(Option<Route>),
}

/// Holds the confirmation of the next record back until it is dropped.
pub(crate) type Stay = TaskTrackerToken;

impl Epoch {
    fn new(door: Door, open: bool, headline: String) -> Arc<Self> {
        Arc::new(Self {
            door,
            open,
            headline,
            drain: Signal::default(),
            cut: Signal::default(),
            sessions: TaskTracker::new(),
        })
    }

    /// A part of this epoch that may end earlier, and whose stays are stays in this one.
    pub(crate) fn part(&self) -> Arc<Self> {
        Arc::new(Self {
            door: self.door,
            open: self.open,
            headline: self.headline.clone(),
            drain: self.drain.part(),
            cut: self.cut.part(),
            sessions: self.sessions.clone(),
        })
    }

    /// Where sessions go, or log in, if anywhere.
    pub(crate) fn route(&self) -> Option<Route> {
        let route = match self.door {
            Door::Writes(gate) => gate.route(),
            Door::Reads(login) => login,
        };
        route.filter(|_| self.open)
    }

    /// May clients be let in on a connection that answered this (R10)?
    pub(crate) fn admits(&self, role: Role, mark: Option<Term>) -> bool {
        let admitted = match self.door {
            Door::Writes(gate) => gate.admits(Rules::ALL, role, mark),
            Door::Reads(login) => {
                login.is_some_and(|route| LetIn::by(route, role, mark, Rules::ALL).is_some())
            }
        };
        self.open && admitted
    }

    /// Take this before anything is done in the name of the epoch, look at [`Epoch::cut`] afterwards, and drop it
    /// when nothing can be forwarded any more.
    pub(crate) fn stay(&self) -> Stay {
        self.sessions.token()
    }

    /// Ends when the epoch does.
    pub(crate) async fn cut(&self) {
        self.cut.given().await;
    }

    /// Ends when nothing new may begin in the epoch, while what runs may still end.
    pub(crate) async fn draining(&self) {
        self.drain.given().await;
    }

    /// May nothing new begin?
    pub(crate) fn is_draining(&self) -> bool {
        self.drain.is_given()
    }

    /// What the record says, for people.
    pub(crate) fn headline(&self) -> &str {
        &self.headline
    }

    /// Nothing new begins; what runs may come to its end.
    pub(crate) fn fade(&self) {
        self.drain.give();
    }

    /// Everybody leaves at once. Nobody is waited for: whoever has to wait ends the whole epoch.
    pub(crate) fn fall(&self) {
        self.drain.give();
        self.cut.give();
    }

    /// Lets what runs come to its end, and nothing begin.
    async fn drain(&self) {
        self.drain.give();
        self.sessions.close();
        self.sessions.wait().await;
    }

    /// Ends the epoch and waits until nobody acts in its name.
    async fn end(&self) {
        self.fall();
        self.sessions.close();
        self.sessions.wait().await;
    }
}

#[cfg(test)]
impl Epoch {
    /// One of nobody.
    pub(crate) fn sample() -> Arc<Self> {
        Self::new(Door::Reads(None), true, String::new())
    }

    /// Has everybody to leave?
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.is_given()
    }
}

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
        self.asleep
            .store(record.state == State::Hibernated, Ordering::Relaxed);
        if verdict.cut {
            self.turn_over(verdict.drain).await;
            tracing::info!(record = self.headline, "cut");
        }
        // After the transactions of writers came to their end, and before the record is confirmed: a replica that is
        // read from may be MAIN next.
        if read_gate::login(record) != self.reads_at {
            self.reads_at = read_gate::login(record);
            self.turn_reads_over().await;
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
            self.turn_over(None).await;
            self.turn_reads_over().await;
        }
    }

    /// Read sessions move to where the record allows it now. Nobody waits for their transactions: they lose nothing.
    async fn turn_reads_over(&mut self) {
        let next = |open| Epoch::new(Door::Reads(self.reads_at), open, self.headline.clone());
        let old = self.reading.send_replace(next(false));
        old.end().await;
        self.reading.send_replace(next(self.is_open()));
    }

    /// The old epoch ends, completely, before the new one begins.
    async fn turn_over(&mut self, drain: Option<Drain>) {
        let door = Door::Writes(self.gate);
        let closed = Epoch::new(door, false, self.headline.clone());
        let old = self.epochs.send_replace(closed);
        self.metrics.cuts.inc();
        if let Some(drain) = drain {
            self.drain(&old, drain).await;
        }
        old.end().await;
        self.epochs
            .send_replace(Epoch::new(door, self.is_open(), self.headline.clone()));
    }

    /// Lets transactions end, until they take too long or a newer record says something else.
    async fn drain(&mut self, old: &Epoch, drain: Drain) {
        let known = (self.gate.term(), self.gate.revision());
        let patience = match drain {
            Drain::Moved => self.patience,
            Drain::Held => self.patience.min(MOMENT),
        };
        let deadline = Instant::now() + patience;
        let mut drained = std::pin::pin!(old.drain());
        loop {
            let command = tokio::select! {
                biased;
                () = &mut drained => return,
                () = sleep_until(deadline) => {
                    self.metrics.drains_cut_short.inc();
                    return;
                }
                command = self.commands.recv() => command,
            };
            let Some(command) = command else { return };
            let newer = command
                .record()
                .is_some_and(|record| (record.term, record.revision) > known);
            self.put_off.push_back(command);
            if newer {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
