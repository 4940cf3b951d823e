//! Turns, one after the other for each object, several objects at once. One loop for each kind, the same for all.

use super::keeper::{Audience, Keeper, Turned};
use super::lease::Permit;
use super::pulse::Pulse;
use super::queue::{Depth, Limits, Queues, Urgency};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// Which object of a kind.
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
            at_once: 64,
            back_off: Duration::from_millis(250),
            longest_back_off: Duration::from_secs(10),
        }
    }
}

/// The objects of a kind that are known, and when each is due. Clones are the same.
pub struct Turns<K: Keeper> {
    inner: Arc<Inner<K>>,
}

impl<K: Keeper> Clone for Turns<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

struct Inner<K: Keeper> {
    kind: &'static str,
    state: Mutex<State>,
    wake: Notify,
    pulse: Pulse,
    pace: Pace,
    audience: Arc<dyn Audience<K::Told>>,
}

struct State {
    queues: Queues<Key>,
    known: BTreeMap<Key, Known>,
    /// When each turn began that is under way.
    under_way: BTreeMap<Key, Instant>,
    /// What went since turns were last begun: whoever comes under its name is another one, and begins with no memory.
    gone: BTreeSet<Key>,
    synced: bool,
    absent: bool,
}

/// A loop turns so often although nothing is due: it shows that it lives.
const BEAT: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);

/// A loop of turns as health and metrics see it, of whatever kind.
pub trait Loop: Send + Sync {
    /// What its objects are called in metrics.
    fn kind(&self) -> &'static str;
    /// Is the first list of objects complete?
    fn is_synced(&self) -> bool;
    /// Is the kind not installed? It is served as soon as it is.
    fn is_absent(&self) -> bool;
    /// How long ago it last turned.
    fn silence(&self) -> Duration;
    /// The oldest turn that is under way, and how long it has been.
    fn oldest(&self) -> Option<(Key, Duration)>;
    /// How long a turn may take. One that never yields cannot be given up by then, and goes on.
    fn longest(&self) -> Duration;
    /// What waits.
    fn depth(&self) -> Depth;
}

struct Known {
    due: Instant,
    failures: u32,
}

impl Known {
    /// Another turn came to nothing; how long to wait for the next.
    fn failed(&mut self, pace: &Pace) -> Duration {
        let wait = pace.back_off.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        wait.min(pace.longest_back_off)
    }
}

type Outcome<K> = Result<Turned<<K as Keeper>::Told>, <K as Keeper>::Error>;
/// How long a turn took, and what came of it; nothing if it took too long.
type Over<K> = (Duration, Option<Outcome<K>>);
type Ended<K> = (Key, K, Over<K>);

impl<K: Keeper> Turns<K> {
    /// Nobody is known yet.
    pub fn new(kind: &'static str, limits: Limits, pace: Pace, audience: Arc<dyn Audience<K::Told>>) -> Self {
        let state = State {
            queues: Queues::new(limits),
            known: BTreeMap::new(),
            under_way: BTreeMap::new(),
            gone: BTreeSet::new(),
            synced: false,
            absent: false,
        };
        Self {
            inner: Arc::new(Inner {
                kind,
                state: Mutex::new(state),
                wake: Notify::new(),
                pulse: Pulse::default(),
                pace,
                audience,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is such an object; look at it.
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

    /// Look at it, if there is such an object.
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
        state.gone.insert(key.clone());
        drop(state);
        self.inner.audience.forget(key);
    }

    /// The list of objects is complete, the first one or a later one. What is known and not in it is gone: of what is
    /// deleted while nobody watches, nobody is told.
    pub fn synced(&self, listed: &BTreeSet<Key>) {
        let mut state = self.state();
        (state.synced, state.absent) = (true, false);
        let gone = state.known.keys().filter(|key| !listed.contains(key));
        let gone: Vec<Key> = gone.cloned().collect();
        drop(state);
        for key in &gone {
            self.forget(key);
        }
    }

    /// There is no such kind; `true` if that is news.
    pub fn absent(&self) -> bool {
        let mut state = self.state();
        state.synced = false;
        !std::mem::replace(&mut state.absent, true)
    }

    /// Runs turns while this operator leads, until told to stop. Nothing is under way when it returns.
    pub async fn run(&self, make: impl Fn(&Key) -> K, mut permit: Permit, stop: CancellationToken) {
        let mut idle: BTreeMap<Key, K> = BTreeMap::new();
        let mut running: JoinSet<Ended<K>> = JoinSet::new();
        loop {
            self.inner.pulse.beat();
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
                self.nothing_runs(|_| Duration::ZERO);
                // No keeper is left that could be taken for another object's.
                self.state().gone.clear();
                self.inner.audience.forget_all();
            }
            // A turn that runs without the lease is cut off soon.
            let beat = if running.is_empty() { BEAT } else { SECOND };
            let beat = Instant::now() + beat;
            let tick = if leads { self.next_due().min(beat) } else { beat };
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.inner.wake.notified() => {}
                () = tokio::time::sleep_until(tick) => {}
                () = permit.changed() => {}
                Some(ended) = running.join_next() => {
                    if let Ok((key, keeper, over)) = ended {
                        self.ended(&key, over);
                        if !self.state().gone.remove(&key) {
                            idle.insert(key, keeper);
                        }
                    } else {
                        // A turn that panicked. Which one is not worth a table: all begin anew.
                        running.shutdown().await;
                        // Whoever panics always must not keep the others from ever coming to an end.
                        self.nothing_runs(|known| known.failed(&self.inner.pace));
                    }
                }
            }
        }
        running.shutdown().await;
    }

    /// Turns that were under way are cut off: none of them says when to look again, and a failover may be half done.
    fn nothing_runs(&self, again: impl Fn(&mut Known) -> Duration) {
        let now = Instant::now();
        let mut state = self.state();
        let State {
            queues,
            known,
            under_way,
            ..
        } = &mut *state;
        for key in std::mem::take(under_way).into_keys() {
            if let Some(known) = known.get_mut(&key) {
                known.due = now + again(known);
            }
        }
        // Of objects that are gone too: one of the same name may come.
        queues.none_runs();
    }

    fn next_due(&self) -> Instant {
        let state = self.state();
        let next = state.known.values().map(|known| known.due).min();
        next.unwrap_or_else(|| Instant::now() + BEAT)
    }

    fn start_due(
        &self,
        make: &impl Fn(&Key) -> K,
        permit: &Permit,
        idle: &mut BTreeMap<Key, K>,
        running: &mut JoinSet<Ended<K>>,
    ) {
        let now = Instant::now();
        let mut state = self.state();
        let State {
            queues,
            known,
            under_way,
            gone,
            ..
        } = &mut *state;
        idle.retain(|key, _| !gone.contains(key));
        // The keeper of a turn that is under way is let go when it comes back.
        gone.retain(|key| under_way.contains_key(key));
        for (key, known) in known.iter_mut().filter(|(_, known)| known.due <= now) {
            queues.push(key.clone(), Urgency::Reconcile);
            // Until the turn says when to look again.
            known.due = now + self.inner.pace.longest;
        }
        while running.len() < self.inner.pace.at_once {
            let Some(key) = state.queues.pop() else { break };
            state.under_way.insert(key.clone(), now);
            let mut keeper = idle.remove(&key).unwrap_or_else(|| make(&key));
            let permit = permit.clone();
            let longest = self.inner.pace.longest;
            running.spawn(async move {
                let began = Instant::now();
                let result = timeout(longest, Box::pin(keeper.turn(&permit))).await;
                (key, keeper, (began.elapsed(), result.ok()))
            });
        }
    }

    fn ended(&self, key: &Key, (took, result): Over<K>) {
        let Inner {
            kind, pace, audience, ..
        } = &*self.inner;
        let mut state = self.state();
        state.under_way.remove(key);
        state.queues.done(key);
        let State { queues, known, .. } = &mut *state;
        let Some(known) = known.get_mut(key) else {
            // Gone while its turn was under way: nobody is told of it any more.
            queues.forget(key);
            return;
        };
        audience.took(key, took);
        let again = match result {
            Some(Ok(Turned { again, told })) => {
                audience.told(key, told);
                known.failures = 0;
                again
            }
            Some(Err(error)) => {
                tracing::warn!(kind, object = %key, %error, "a turn came to nothing");
                audience.failed(key, &error.to_string());
                known.failed(pace)
            }
            None => {
                tracing::error!(kind, object = %key, ?took, "a turn took too long and was given up");
                audience.failed(key, "the turn took too long");
                known.failures = known.failures.saturating_add(1);
                pace.back_off
            }
        };
        known.due = Instant::now() + again;
    }
}

impl<K: Keeper> Loop for Turns<K> {
    fn kind(&self) -> &'static str {
        self.inner.kind
    }

    fn is_synced(&self) -> bool {
        self.state().synced
    }

    fn is_absent(&self) -> bool {
        self.state().absent
    }

    fn silence(&self) -> Duration {
        self.inner.pulse.silence()
    }

    fn oldest(&self) -> Option<(Key, Duration)> {
        let state = self.state();
        let (key, began) = state.under_way.iter().min_by_key(|(_, began)| **began)?;
        Some((key.clone(), began.elapsed()))
    }

    fn longest(&self) -> Duration {
        self.inner.pace.longest
    }

    fn depth(&self) -> Depth {
        self.state().queues.depth()
    }
}

#[cfg(test)]
mod tests;
