//! Where an operator dies: the places before and after every call that changes something, by their number.

use operator::tap::Tap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Counts places, and stands still at one of them. Its tap may be given to the operator that comes after, too: it never
/// stands still again.
#[derive(Clone, Default)]
pub(crate) struct Trap {
    passed: Arc<AtomicUsize>,
    passed_by: Arc<Mutex<Vec<String>>>,
    at: usize,
    place: Arc<Mutex<Option<String>>>,
    pub(crate) sprung: Arc<Notify>,
}

impl Trap {
    pub(crate) fn at(at: usize) -> Self {
        Self {
            at,
            ..Self::default()
        }
    }

    pub(crate) fn tap(&self) -> Tap {
        let trap = self.clone();
        Tap::new(move |place| {
            lock(&trap.passed_by).push(place.to_owned());
            if trap.passed.fetch_add(1, Ordering::SeqCst) + 1 != trap.at {
                return Box::pin(std::future::ready(()));
            }
            *lock(&trap.place) = Some(place.to_owned());
            trap.sprung.notify_one();
            Box::pin(std::future::pending())
        })
    }

    pub(crate) fn place(&self) -> Option<String> {
        lock(&self.place).clone()
    }

    /// Every place that was reached, in order; the one to die at is among them.
    #[allow(dead_code, reason = "not every test that dies asks for it")]
    pub(crate) fn places(&self) -> Vec<String> {
        lock(&self.passed_by).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
