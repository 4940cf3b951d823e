//! Where an operator dies: the places before and after every call that changes something, by their number.

use operator::tap::Tap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// Counts places, and stands still at one of them.
#[derive(Clone, Default)]
pub(crate) struct Trap {
    passed: Arc<AtomicUsize>,
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
            if trap.passed.fetch_add(1, Ordering::SeqCst) + 1 != trap.at {
                return Box::pin(std::future::ready(()));
            }
            *trap.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place.to_owned());
            trap.sprung.notify_one();
            Box::pin(std::future::pending())
        })
    }

    pub(crate) fn place(&self) -> Option<String> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
