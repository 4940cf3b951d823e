//! The data of the modelled clusters: as little as decides whether a write was lost.

use super::instance::Store;
use mainstay_core::memgraph::ids::{ProofId, Term};

/// A client's write, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u16);

/// One transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delta {
    /// A client's write.
    Write(WriteId),
    /// The mark gets a new term.
    Mark(Term),
    /// The mark gets a new proof.
    Proof(ProofId),
    /// A client deletes every vertex, the mark among them. What it deletes of its own is not modelled: nobody
    /// misses it.
    Unmark,
}

/// What an instance holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Data {
    /// The term in the mark.
    pub mark: Option<Term>,
    /// The last proof.
    pub proof: ProofId,
    /// The clients' writes, as a set.
    pub writes: WriteSet,
}

impl Store for Data {
    type Delta = Delta;

    fn apply(&mut self, delta: &Delta) {
        match *delta {
            Delta::Write(id) => self.writes.insert(id),
            Delta::Mark(term) => self.mark = Some(term),
            Delta::Proof(proof) => self.proof = proof,
            Delta::Unmark => {
                self.mark = None;
                self.proof = ProofId(0);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.mark.is_none() && self.writes.is_empty()
    }
}

/// A set of writes: a bit each, empty costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriteSet(Vec<u64>);

impl WriteSet {
    /// Adds one.
    pub fn insert(&mut self, id: WriteId) {
        let (word, bit) = (usize::from(id.0) / 64, id.0 % 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= 1 << bit;
        }
    }

    /// Keeps only these.
    pub fn retain(&mut self, keep: impl Fn(WriteId) -> bool) {
        for (word, n) in self.0.iter_mut().zip(0_u16..) {
            for bit in 0..64 {
                if !keep(WriteId(n * 64 + bit)) {
                    *word &= !(1 << bit);
                }
            }
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// Is it in here?
    pub fn contains(&self, id: WriteId) -> bool {
        let (word, bit) = (usize::from(id.0) / 64, id.0 % 64);
        self.0.get(word).is_some_and(|w| w & (1 << bit) != 0)
    }

    /// Nothing in here?
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|w| *w == 0)
    }

    /// How many.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|w| w.count_ones()).sum()
    }

    /// The first that `self` has and `other` lacks.
    pub fn first_missing_in(&self, other: &Self) -> Option<WriteId> {
        (0..self.0.len() * 64)
            .filter_map(|n| u16::try_from(n).ok().map(WriteId))
            .find(|id| self.contains(*id) && !other.contains(*id))
    }

    /// Does `other` have everything that `self` has?
    pub fn is_within(&self, other: &Self) -> bool {
        self.0
            .iter()
            .enumerate()
            .all(|(i, w)| w & !other.0.get(i).copied().unwrap_or(0) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_set_that_kept_nothing_is_as_new() {
        let mut set = WriteSet::default();
        set.insert(WriteId(3));
        set.insert(WriteId(130));
        set.retain(|id| id == WriteId(3));
        assert!(set.contains(WriteId(3)) && !set.contains(WriteId(130)));
        set.retain(|_| false);
        assert_eq!(set, WriteSet::default());
    }

    #[test]
    fn a_write_set_knows_what_it_has_and_what_another_lacks() {
        let (mut a, mut b) = (WriteSet::default(), WriteSet::default());
        assert!(a.is_empty() && a.is_within(&b));
        a.insert(WriteId(3));
        a.insert(WriteId(130));
        b.insert(WriteId(3));
        assert!(b.is_within(&a) && !a.is_within(&b));
        assert_eq!(a.first_missing_in(&b), Some(WriteId(130)));
        assert_eq!(
            (a.len(), a.contains(WriteId(130)), a.contains(WriteId(131))),
            (2, true, false)
        );
    }
}
