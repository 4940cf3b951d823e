//! States that wait to be expanded, small: most of what they are made of is shared with other states, so a waiting
//! state is a few numbers.

use super::world::{Hashed, Shared, State, fingerprint};
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::turn::Turn;
use std::collections::VecDeque;

#[allow(
    clippy::disallowed_types,
    reason = "looked up only, never iterated; hashed with a fixed seed"
)]
type Map = std::collections::HashMap<u64, u32, foldhash::fast::FixedState>;

/// How many pods and turns of a state have numbers of their own; others stay with the rest.
const PODS: usize = 3;
const TURNS: usize = 2;

/// Not there.
const NONE: u32 = u32::MAX;

/// Every different value once, by number.
#[derive(Debug)]
struct Table<T> {
    by_hash: Map,
    all: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            by_hash: Map::default(),
            all: Vec::new(),
        }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Table<T> {
    /// The number of this value.
    fn put(&mut self, value: T) -> u32 {
        let hash = fingerprint::of(&value);
        if let Some(number) = self.by_hash.get(&hash).filter(|n| self.get(**n) == Some(&value)) {
            return *number;
        }
        // Another value with this hash stays findable; this one is kept once more whenever it comes.
        let number = u32::try_from(self.all.len()).unwrap_or(NONE);
        self.by_hash.entry(hash).or_insert(number);
        self.all.push(value);
        number
    }

    fn get(&self, number: u32) -> Option<&T> {
        self.all.get(number as usize)
    }
}

/// A waiting state.
#[derive(Clone, Copy, Debug)]
struct Packed {
    id: u32,
    depth: u32,
    pods: [u32; PODS],
    record: u32,
    turns: [u32; TURNS],
    rest: u32,
}

/// States in the order in which they will be expanded.
#[derive(Debug, Default)]
pub struct Frontier {
    waiting: VecDeque<Packed>,
    pods: Table<Shared>,
    records: Table<Hashed<Record>>,
    turns: Table<Hashed<Turn>>,
    /// Whatever was not taken out of a state.
    rests: Table<State>,
}

impl Frontier {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// One more, the last.
    pub fn push(&mut self, id: u32, depth: u32, mut state: State) {
        let mut pods = [NONE; PODS];
        let taken = state.pods.len().min(PODS);
        for (number, pod) in pods.iter_mut().zip(state.pods.drain(..taken)) {
            *number = self.pods.put(pod);
        }
        let mut turns = [NONE; TURNS];
        for (number, operator) in turns.iter_mut().zip(&mut state.operators) {
            if let Some(turn) = operator.turn.take() {
                *number = self.turns.put(turn);
            }
        }
        let record = state.record.take().map_or(NONE, |r| self.records.put(r));
        let rest = self.rests.put(state);
        self.waiting.push_back(Packed {
            id,
            depth,
            pods,
            record,
            turns,
            rest,
        });
    }

    /// The first one, with its number and its depth.
    pub fn pop(&mut self) -> Option<(u32, u32, State)> {
        let Packed {
            id,
            depth,
            pods,
            record,
            turns,
            rest,
        } = self.waiting.pop_front()?;
        let mut state = self.rests.get(rest)?.clone();
        let others = std::mem::take(&mut state.pods);
        state.pods = Vec::with_capacity(PODS + others.len());
        let own = pods.iter().filter_map(|n| self.pods.get(*n).cloned());
        state.pods.extend(own.chain(others));
        for (number, operator) in turns.iter().zip(&mut state.operators) {
            if *number != NONE {
                operator.turn = self.turns.get(*number).cloned();
            }
        }
        if record != NONE {
            state.record = self.records.get(record).cloned();
        }
        Some((id, depth, state))
    }
}
