//! Pods that many states share: copied when they are changed, hashed once.

use super::numbers::Numbers;
use super::state::Pod;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A pod of one state, and of every state in which nothing has happened to it since.
#[derive(Clone, Debug)]
pub struct Shared {
    pod: Arc<Pod>,
    /// What was computed of it; gone as soon as somebody may have changed it.
    seal: Option<Seal>,
}

#[derive(Clone, Copy, Debug)]
struct Seal {
    hash: u64,
    numbers: Numbers,
}

impl Shared {
    /// Has nobody touched it since it was sealed?
    pub(super) fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// Computes what is asked for often.
    pub(super) fn seal(&mut self) {
        if self.seal.is_none() {
            let numbers = Numbers::of_pod(self);
            let hash = super::fingerprint::of(&*self.pod);
            self.seal = Some(Seal { hash, numbers });
        }
    }

    /// Which numbers are in it, if it is sealed.
    pub(super) fn numbers(&self) -> Option<Numbers> {
        self.seal.map(|seal| seal.numbers)
    }
}

impl From<Pod> for Shared {
    fn from(pod: Pod) -> Self {
        Self {
            pod: Arc::new(pod),
            seal: None,
        }
    }
}

impl Deref for Shared {
    type Target = Pod;

    fn deref(&self) -> &Pod {
        &self.pod
    }
}

impl DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut Pod {
        self.seal = None;
        Arc::make_mut(&mut self.pod)
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pod, &other.pod) || self.pod == other.pod
    }
}

impl Eq for Shared {}

impl Hash for Shared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let hash = match &self.seal {
            Some(seal) => seal.hash,
            None => super::fingerprint::of(&*self.pod),
        };
        state.write_u64(hash);
    }
}
