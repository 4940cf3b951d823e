//! Two queues of the seeds: failover checks before reconciliations, each key at most once in each.
//!
//! A key says *that* something is to be looked at, never *what* happened, so nothing is lost when two events become
//! one, and nothing when a queue is full: the key is then kept aside until there is room.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Something may be wrong with MAIN.
    Failover,
    /// Everything else.
    Reconcile,
}

/// How many keys each queue takes before it is called full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Failover checks.
    pub failover: usize,
    /// Reconciliations.
    pub reconcile: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            failover: 50,
            reconcile: 100,
        }
    }
}

/// What the queues look like, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Failover checks that wait.
    pub failover: usize,
    /// Reconciliations that wait.
    pub reconcile: usize,
    /// Keys that wait for room.
    pub aside: usize,
    /// Turns under way.
    pub running: usize,
    /// How often a queue was full.
    pub overflows: u64,
}

/// Both queues and what is under way. A key is never under way twice.
#[derive(Debug)]
pub struct Queues<K> {
    limits: Limits,
    failover: VecDeque<K>,
    reconcile: VecDeque<K>,
    aside: BTreeMap<K, Urgency>,
    running: BTreeSet<K>,
    /// Asked for while under way: looked at again right after.
    again: BTreeMap<K, Urgency>,
    overflows: u64,
}

impl<K: Clone + Ord> Queues<K> {
    /// Empty ones.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            failover: VecDeque::new(),
            reconcile: VecDeque::new(),
            aside: BTreeMap::new(),
            running: BTreeSet::new(),
            again: BTreeMap::new(),
            overflows: 0,
        }
    }

    /// This key is to be looked at.
    pub fn push(&mut self, key: K, urgency: Urgency) {
        if self.running.contains(&key) {
            let entry = self.again.entry(key).or_insert(urgency);
            *entry = (*entry).min(urgency);
            return;
        }
        if self.failover.contains(&key) {
            return;
        }
        let (queue, limit) = match urgency {
            Urgency::Failover => (&mut self.failover, self.limits.failover),
            Urgency::Reconcile => (&mut self.reconcile, self.limits.reconcile),
        };
        if urgency == Urgency::Reconcile && queue.contains(&key) {
            return;
        }
        if queue.len() >= limit {
            self.overflows = self.overflows.saturating_add(1);
            let entry = self.aside.entry(key).or_insert(urgency);
            *entry = (*entry).min(urgency);
            return;
        }
        queue.push_back(key.clone());
        if urgency == Urgency::Failover {
            // A look is a look: the urgent one does for both.
            self.reconcile.retain(|waiting| *waiting != key);
            self.aside.remove(&key);
        }
    }

    /// The next key, which is under way from now on.
    pub fn pop(&mut self) -> Option<K> {
        let key = self.failover.pop_front().or_else(|| self.reconcile.pop_front())?;
        self.running.insert(key.clone());
        self.refill();
        Some(key)
    }

    /// The turn of this key is over.
    pub fn done(&mut self, key: &K) {
        self.running.remove(key);
        if let Some(urgency) = self.again.remove(key) {
            self.push(key.clone(), urgency);
        }
    }

    /// No turn is under way any more, whatever became of it.
    pub fn none_runs(&mut self) {
        for key in std::mem::take(&mut self.running) {
            self.done(&key);
        }
    }

    /// Forgets a key that does not exist any more.
    pub fn forget(&mut self, key: &K) {
        self.failover.retain(|waiting| waiting != key);
        self.reconcile.retain(|waiting| waiting != key);
        self.aside.remove(key);
        self.again.remove(key);
    }

    fn refill(&mut self) {
        let waiting: Vec<(K, Urgency)> = std::mem::take(&mut self.aside).into_iter().collect();
        let before = self.overflows;
        for (key, urgency) in waiting {
            self.push(key, urgency);
        }
        // Still waiting is not another overflow.
        self.overflows = before;
    }

    /// What they look like.
    pub fn depth(&self) -> Depth {
        Depth {
            failover: self.failover.len(),
            reconcile: self.reconcile.len(),
            aside: self.aside.len(),
            running: self.running.len(),
            overflows: self.overflows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Urgency::{Failover, Reconcile};

    fn queues(failover: usize, reconcile: usize) -> Queues<u32> {
        Queues::new(Limits { failover, reconcile })
    }

    fn drain(queues: &mut Queues<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queues.pop()).collect()
    }

    #[test]
    fn failover_checks_come_first_and_a_key_waits_once() {
        let mut q = queues(50, 100);
        for (key, urgency) in [
            (1, Reconcile),
            (2, Reconcile),
            (1, Reconcile),
            (2, Failover),
            (3, Failover),
        ] {
            q.push(key, urgency);
        }
        assert_eq!(
            (q.depth().failover, q.depth().reconcile),
            (2, 1),
            "the urgent look does for both"
        );
        assert_eq!(drain(&mut q), [2, 3, 1]);
    }

    #[test]
    fn a_key_is_never_under_way_twice_and_what_comes_meanwhile_is_not_lost() {
        let mut q = queues(50, 100);
        q.push(1, Reconcile);
        assert_eq!(q.pop(), Some(1));
        q.push(1, Reconcile);
        q.push(1, Failover);
        assert_eq!(q.pop(), None);
        q.done(&1);
        assert_eq!(q.depth().failover, 1, "with the higher urgency");
        assert_eq!(q.pop(), Some(1));
        q.done(&1);
        assert_eq!(q.pop(), None);
    }

    #[test]
    fn a_full_queue_loses_nothing() {
        let mut q = queues(2, 3);
        for key in 0..10 {
            q.push(key, Reconcile);
        }
        for key in 20..25 {
            q.push(key, Failover);
        }
        assert_eq!((q.depth().aside, q.depth().overflows), (10, 10));
        let mut all = drain(&mut q);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 22, 23, 24]);
    }

    #[test]
    fn a_key_that_is_gone_is_forgotten() {
        let mut q = queues(1, 1);
        for key in [1, 2] {
            q.push(key, Reconcile);
            q.forget(&key);
        }
        assert_eq!(drain(&mut q), [0_u32; 0]);
    }
}
