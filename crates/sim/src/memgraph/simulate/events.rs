//! What is going to happen, in order of time and, for equal times, in the order it was planned.

use crate::memgraph::world::Action;
use mainstay_core::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The end of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Restore {
    /// This operator reaches this pod again.
    Contact(u8, u8),
    /// Kubernetes reports this pod again.
    Report(u8),
}

/// Something planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    Operator(u8),
    Gateway(u8),
    Client(u8),
    Commit(u8),
    Pingers,
    Kubelet,
    Fault,
    Do(Action),
    Restore(Restore),
}

/// The plan of the future.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    sequence: u64,
}

impl Queue {
    pub(super) fn push(&mut self, at: Time, event: Event) {
        self.sequence += 1;
        self.heap.push(Reverse((at, self.sequence, event)));
    }

    pub(super) fn pop(&mut self) -> Option<(Time, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
