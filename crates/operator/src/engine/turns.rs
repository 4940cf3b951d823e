//! Turns, one after the other for each cluster, several clusters at once.

use super::lease::Permit;
use super::queue::{Depth, Limits, Queues, Urgency};
use crate::http::board::Board;
use crate::memgraph::Keeper;
use crate::memgraph::keeper::{TurnError, Turned};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Which cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// How turns are run.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long a turn may take before it is given up.
    pub longest: Duration,
    /// How many at once.
    pub at_once: usize,
    /// After a turn that came to nothing, at first.
    pub back_off: Duration,
    /// After many.
    pub longest_back_off: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            longest: Duration::from_mins(1),
            at_once: 32,
            back_off: Duration::from_millis(250),
            longest_back_off: Duration::from_secs(10),
        }
    }
}

/// The clusters that are known, and when each is due. Clones are the same.
#[derive(Clone)]
pub struct Turns {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    wake: Notify,
    pace: Pace,
    board: Arc<Board>,
}

struct State {
    queues: Queues<Key>,
    known: BTreeMap<Key, Known>,
    synced: bool,
}

struct Known {
    due: Instant,
    failures: u32,
}

type Ended = (Key, Keeper, Result<Result<Turned, TurnError>, Duration>);

impl Turns {
    /// Nobody is known yet.
    pub fn new(limits: Limits, pace: Pace, board: Arc<Board>) -> Self {
        let state = State {
            queues: Queues::new(limits),
            known: BTreeMap::new(),
            synced: false,
        };
        Self {
            inner: Arc::new(Inner {
                state: Mutex::new(state),
                wake: Notify::new(),
                pace,
                board,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is such a cluster; look at it.
    pub fn know(&self, key: Key, urgency: Urgency) {
        let mut state = self.state();
        state.known.entry(key.clone()).or_insert_with(|| Known {
            due: Instant::now(),
            failures: 0,
        });
        state.queues.push(key, urgency);
        drop(state);
        self.inner.wake.notify_one();
    }

    /// Look at it, if there is such a cluster.
    pub fn push(&self, key: Key, urgency: Urgency) {
        let mut state = self.state();
        if state.known.contains_key(&key) {
            state.queues.push(key, urgency);
            drop(state);
            self.inner.wake.notify_one();
        }
    }

    /// It is gone.
    pub fn forget(&self, key: &Key) {
        let mut state = self.state();
        state.known.remove(key);
        state.queues.forget(key);
        drop(state);
        self.inner.board.forget(key);
    }

    /// The first list of clusters is complete.
    pub fn synced(&self) {
        self.state().synced = true;
    }

    /// Is it?
    pub fn is_synced(&self) -> bool {
        self.state().synced
    }

    /// What waits.
    pub fn depth(&self) -> Depth {
        self.state().queues.depth()
    }

    /// Runs turns while this operator leads, until told to stop. Nothing is under way when it returns.
    pub async fn run(&self, make: impl Fn(&Key) -> Keeper, mut permit: Permit, stop: CancellationToken) {
        let mut idle: BTreeMap<Key, Keeper> = BTreeMap::new();
        let mut running: JoinSet<Ended> = JoinSet::new();
        loop {
            self.inner.board.beat();
            let leads = permit.leads();
            if leads {
                self.start_due(&make, &permit, &mut idle, &mut running);
            } else {
                // What a leader remembered of silences is of no use when it leads again. A step that is cut off has
                // an unknown outcome, as any that is not answered.
                idle.clear();
                while !running.is_empty() {
                    running.shutdown().await;
                }
                self.nothing_runs();
            }
            let second = Instant::now() + Duration::from_secs(1);
            let tick = if leads {
                self.next_due().min(second)
            } else {
                second
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.inner.wake.notified() => {}
                () = tokio::time::sleep_until(tick) => {}
                () = permit.changed() => {}
                Some(ended) = running.join_next() => {
                    if let Ok((key, keeper, result)) = ended {
                        self.ended(&key, result);
                        if self.state().known.contains_key(&key) {
                            idle.insert(key, keeper);
                        }
                    } else {
                        // A turn that panicked. Which one is not worth a table: all begin anew.
                        running.shutdown().await;
                        self.nothing_runs();
                    }
                }
            }
        }
        running.shutdown().await;
    }

    fn nothing_runs(&self) {
        let mut state = self.state();
        let State { queues, known, .. } = &mut *state;
        for key in known.keys() {
            queues.done(key);
        }
    }

    fn next_due(&self) -> Instant {
        let state = self.state();
        let next = state.known.values().map(|known| known.due).min();
        next.unwrap_or_else(|| Instant::now() + Duration::from_secs(1))
    }

    fn start_due(
        &self,
        make: &impl Fn(&Key) -> Keeper,
        permit: &Permit,
        idle: &mut BTreeMap<Key, Keeper>,
        running: &mut JoinSet<Ended>,
    ) {
        let now = Instant::now();
        let mut state = self.state();
        let State { queues, known, .. } = &mut *state;
        for (key, known) in known.iter_mut().filter(|(_, known)| known.due <= now) {
            queues.push(key.clone(), Urgency::Reconcile);
            // Until the turn says when to look again.
            known.due = now + self.inner.pace.longest;
        }
        while running.len() < self.inner.pace.at_once {
            let Some(key) = state.queues.pop() else { break };
            let mut keeper = idle.remove(&key).unwrap_or_else(|| make(&key));
            let permit = permit.clone();
            let longest = self.inner.pace.longest;
            running.spawn(async move {
                let began = Instant::now();
                let result = timeout(longest, Box::pin(keeper.turn(&permit))).await;
                let result = result.map_err(|_| began.elapsed());
                (key, keeper, result)
            });
        }
    }

    fn ended(&self, key: &Key, result: Result<Result<Turned, TurnError>, Duration>) {
        let pace = self.inner.pace;
        let mut state = self.state();
        let failures = state.known.get(key).map_or(0, |known| known.failures);
        let (again, failures) = match result {
            Ok(Ok(Turned { again, told })) => {
                self.inner.board.told(key, told);
                (again, 0)
            }
            Ok(Err(error)) => {
                tracing::warn!(cluster = %key, %error, "a turn came to nothing");
                self.inner.board.failed(key, &error.to_string());
                let wait = pace.back_off.saturating_mul(1 << failures.min(16));
                (wait.min(pace.longest_back_off), failures.saturating_add(1))
            }
            Err(took) => {
                tracing::error!(cluster = %key, ?took, "a turn took too long and was given up");
                self.inner.board.failed(key, "the turn took too long");
                (pace.back_off, failures.saturating_add(1))
            }
        };
        if let Some(known) = state.known.get_mut(key) {
            known.due = Instant::now() + again;
            known.failures = failures;
        }
        state.queues.done(key);
    }
}
