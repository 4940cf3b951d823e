//! Faults that no real cluster injects on demand, each recorded with its time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use sim::kube::{ApiRequest, Method};
use tokio::sync::watch;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection breaks before anything is done.
    Refuse,
    /// The request is done after this time.
    Delay(Duration),
    /// The request is done, and the connection breaks before the answer.
    LoseAnswer,
    /// 429 with `Retry-After` in seconds; nothing is done.
    TooManyRequests(u32),
    /// 500; nothing is done.
    ServerError,
    /// A webhook, a quota or the object's own check says no with this code and these words; nothing is done.
    Denied(u16, String),
    /// A list is answered as it was so many revisions ago.
    StaleList(u64),
    /// A watch breaks.
    CutWatch,
    /// A watch stays open and sends nothing until the fault is lifted.
    FreezeWatch,
    /// All history is forgotten. Done by [`compact`](super::Kubernetes::compact), not injected.
    Compact,
}

/// Which requests it hits.
#[derive(Clone, Debug, Default)]
pub struct On {
    /// Only this method.
    pub method: Option<Method>,
    /// Only paths that contain this.
    pub path: String,
    /// Only requests of this user.
    pub user: Option<String>,
    /// Only so many times; always, if not given.
    pub times: Option<u32>,
}

impl On {
    /// Every request whose path contains this.
    pub fn path(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            ..Self::default()
        }
    }

    /// Only with this method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Only by this user.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Only so many times.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    fn hits(&self, request: &ApiRequest) -> bool {
        self.times != Some(0)
            && self.method.is_none_or(|method| method == request.method)
            && request.path.contains(&self.path)
            && self.user.as_ref().is_none_or(|user| *user == request.user.name)
    }
}

/// Names a fault that was injected, so that it can be lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultId(u64);

/// A fault that hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// When.
    pub at: Timestamp,
    /// What.
    pub fault: Fault,
    /// Which request: method and path. Empty if it hit no single one.
    pub request: String,
}

#[derive(Default)]
struct State {
    next: u64,
    active: Vec<(FaultId, Fault, On)>,
    hits: Vec<Hit>,
}

/// The faults of one API.
pub struct Faults {
    state: Mutex<State>,
    /// Tells open watches to look again.
    changed: watch::Sender<u64>,
}

impl Faults {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State::default()),
            changed: watch::channel(0).0,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this goes wrong.
    pub fn inject(&self, fault: Fault, on: On) -> FaultId {
        let mut state = self.state();
        state.next += 1;
        let id = FaultId(state.next);
        state.active.push((id, fault, on));
        drop(state);
        self.changed.send_modify(|changes| *changes += 1);
        id
    }

    /// It no longer does.
    pub fn lift(&self, id: FaultId) {
        self.state().active.retain(|(active, _, _)| *active != id);
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// Nothing goes wrong any more.
    pub fn lift_all(&self) {
        self.state().active.clear();
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// Every fault that hit, in order.
    pub fn hits(&self) -> Vec<Hit> {
        self.state().hits.clone()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The first fault of a sort that hits this request, counted and recorded.
    pub(super) fn hit(
        &self,
        now: Timestamp,
        request: &ApiRequest,
        of: impl Fn(&Fault) -> bool,
    ) -> Option<Fault> {
        let mut state = self.state();
        let (_, fault, on) = state
            .active
            .iter_mut()
            .find(|(_, fault, on)| of(fault) && on.hits(request))?;
        if let Some(times) = &mut on.times {
            *times = times.saturating_sub(1);
        }
        let fault = fault.clone();
        let request = format!("{:?} {}", request.method, request.path);
        let hit = Hit {
            at: now,
            fault: fault.clone(),
            request,
        };
        state.hits.push(hit);
        Some(fault)
    }

    /// Note what was done without being injected.
    pub(super) fn record(&self, at: Timestamp, fault: Fault, request: String) {
        self.state().hits.push(Hit { at, fault, request });
    }

    /// Whether a watch is frozen at this moment.
    pub(super) fn is_frozen(&self, request: &ApiRequest) -> bool {
        self.state()
            .active
            .iter()
            .any(|(_, fault, on)| *fault == Fault::FreezeWatch && on.hits(request))
    }
}
