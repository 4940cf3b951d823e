//! The small Kubernetes as a service: the pure store of `sim` behind a client
//! in this process, and behind a port for everybody else.

mod answer;
pub mod faults;
mod http;
mod rules;
mod service;
mod sockets;
pub mod streams;
mod watching;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use sim::kube::{Answer, ApiRequest, Store, User};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::faults::Faults;
pub use self::http::{ListenError, Listening};
pub use self::rules::RealRules;
use self::streams::{NoPods, PodStreams};

/// One small cluster. Clones are the same cluster.
#[derive(Clone)]
pub struct Kubernetes {
    inner: Arc<Inner>,
}

struct Inner {
    store: Mutex<Store>,
    /// Says that there is something new; the number is the revision.
    changed: watch::Sender<u64>,
    streams: RwLock<Arc<dyn PodStreams>>,
    faults: Faults,
    clock: Clock,
    tasks: TaskTracker,
    end: CancellationToken,
    admin_token: String,
}

/// Wall time that goes on by tokio's clock, so that paused tests have one time.
struct Clock {
    wall: Timestamp,
    start: Instant,
}

impl Clock {
    fn new() -> Self {
        Self {
            wall: Timestamp::try_from(SystemTime::now()).unwrap_or_default(),
            start: Instant::now(),
        }
    }

    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.start.elapsed()).unwrap_or_default();
        self.wall.checked_add(passed).unwrap_or(self.wall)
    }
}

impl Kubernetes {
    /// An empty cluster. The seed decides uids, generated names and tokens.
    pub fn new(seed: u64) -> Self {
        let clock = Clock::new();
        let store = Store::new(seed, clock.now(), Arc::new(RealRules::default()));
        let changed = watch::channel(store.revision().0).0;
        Self {
            inner: Arc::new(Inner {
                store: Mutex::new(store),
                changed,
                streams: RwLock::new(Arc::new(NoPods)),
                faults: Faults::new(),
                clock,
                tasks: TaskTracker::new(),
                end: CancellationToken::new(),
                admin_token: format!("admin-{seed:x}"),
            }),
        }
    }

    /// A client that may do everything. Needs a running tokio.
    pub fn client(&self) -> ::kube::Client {
        self.client_as(User::admin())
    }

    /// A client that may do what this user may.
    pub fn client_as(&self, user: User) -> ::kube::Client {
        ::kube::Client::new(service::InProcess::new(self.clone(), user), "default")
    }

    /// Answer one request, without any fault: the way of the sandbox's own controllers.
    pub fn handle(&self, request: &ApiRequest) -> Answer {
        let now = self.now();
        let mut store = self.store();
        let answer = store.handle(now, request);
        let revision = store.revision().0;
        drop(store);
        self.inner
            .changed
            .send_if_modified(|known| std::mem::replace(known, revision) != revision);
        answer
    }

    /// Look at the store.
    pub fn with_store<T>(&self, look: impl FnOnce(&Store) -> T) -> T {
        look(&self.store())
    }

    /// Services get addresses that begin so, from now on: for those who open doors there.
    pub fn services_in(&self, half: [u8; 2]) {
        self.store().services_in(half);
    }

    /// Forget all history: watches and pages begin again with 410.
    pub fn compact(&self) {
        self.inner
            .faults
            .record(self.now(), faults::Fault::Compact, String::new());
        self.store().compact();
        self.inner.changed.send_modify(|_| {});
    }

    /// Tells when there is something new; the value is the revision.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// Who answers for logs, exec and port-forward.
    pub fn set_streams(&self, streams: Arc<dyn PodStreams>) {
        *self.inner.streams.write().unwrap_or_else(PoisonError::into_inner) = streams;
    }

    /// What goes wrong.
    pub fn faults(&self) -> &Faults {
        &self.inner.faults
    }

    /// The time by which this cluster lives.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// End everything that this cluster started, and wait for it.
    pub async fn shutdown(&self) {
        self.inner.end.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.inner.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self) -> Arc<dyn PodStreams> {
        Arc::clone(&self.inner.streams.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A task that ends with the cluster.
    fn task(&self, task: impl Future<Output = ()> + Send + 'static) {
        let end = self.inner.end.clone();
        self.inner.tasks.spawn(async move {
            tokio::select! {
                () = end.cancelled() => {}
                () = task => {}
            }
        });
    }
}
