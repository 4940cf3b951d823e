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

/// A set of writes: a bit each. The first ones, all that an explorer has, need no heap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriteSet {
    first: u64,
    /// Never ends with a zero.
    more: Vec<u64>,
}

/// The word and the bit of a write.
fn place(id: WriteId) -> (usize, u64) {
    (usize::from(id.0) / 64, 1 << (id.0 % 64))
}

impl WriteSet {
    fn words(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first).chain(self.more.iter().copied())
    }

    fn word(&self, word: usize) -> u64 {
        match word.checked_sub(1) {
            None => self.first,
            Some(more) => self.more.get(more).copied().unwrap_or(0),
        }
    }

    /// Adds one.
    pub fn insert(&mut self, id: WriteId) {
        let (word, bit) = place(id);
        if self.more.len() < word {
            self.more.resize(word, 0);
        }
        let word = match word.checked_sub(1) {
            None => Some(&mut self.first),
            Some(more) => self.more.get_mut(more),
        };
        if let Some(word) = word {
            *word |= bit;
        }
    }

    /// Keeps only these.
    pub fn retain(&mut self, keep: impl Fn(WriteId) -> bool) {
        let words = std::iter::once(&mut self.first).chain(&mut self.more);
        for (word, n) in words.zip(0_u16..) {
            for bit in 0..64 {
                if !keep(WriteId(n * 64 + bit)) {
                    *word &= !(1 << bit);
                }
            }
        }
        while self.more.last() == Some(&0) {
            self.more.pop();
        }
    }

    /// Is it in here?
    pub fn contains(&self, id: WriteId) -> bool {
        let (word, bit) = place(id);
        self.word(word) & bit != 0
    }

    /// Nothing in here?
    pub fn is_empty(&self) -> bool {
        self.words().all(|w| w == 0)
    }

    /// How many.
    pub fn len(&self) -> u32 {
        self.words().map(u64::count_ones).sum()
    }

    /// The first that `self` has and `other` lacks.
    pub fn first_missing_in(&self, other: &Self) -> Option<WriteId> {
        self.words().zip(0_u16..).find_map(|(word, n)| {
            let missing = word & !other.word(usize::from(n));
            let bit = u16::try_from(missing.trailing_zeros()).ok()?;
            (missing != 0).then_some(WriteId(n * 64 + bit))
        })
    }

    /// Does `other` have everything that `self` has?
    pub fn is_within(&self, other: &Self) -> bool {
        self.words().zip(0..).all(|(word, n)| word & !other.word(n) == 0)
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
