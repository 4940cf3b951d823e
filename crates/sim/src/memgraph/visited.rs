//! Which states a search has seen, and with how many faults still to come.

use super::world::{Bounds, Budget, State};
use std::collections::BTreeMap;

/// What is left: of the budget three bits per fault, of the bounds on terms and on writes of the record eight bits
/// each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left(u64);

/// The highest bit of each count: borrowed from where one is less than the other.
const BORROW: u64 = 0x0249_2492_4924_8080;

impl Left {
    /// What is left in this state. More than three faults of a kind, or more than 127 terms or writes, are as good as
    /// that many: no world has more.
    pub fn of(state: &State, bounds: Bounds) -> Self {
        let Bounds { terms, writes } = bounds;
        // One more than are allowed, so that a state beyond the bounds has less left than any other.
        let terms = (terms + 1).saturating_sub(state.begun);
        let writes = (writes + 1).saturating_sub(state.written);
        Self::pack(&state.budget, terms, writes)
    }

    fn pack(budget: &Budget, terms: u64, writes: u64) -> Self {
        let faults = budget.named();
        let faults = faults
            .iter()
            .fold(0, |packed, (_, n)| packed << 3 | u64::from((*n).min(3)));
        Self(faults << 16 | terms.min(127) << 8 | writes.min(127))
    }

    /// Is there at least as much left of everything?
    pub fn covers(self, other: Self) -> bool {
        ((self.0 | BORROW) - other.0) & BORROW == BORROW
    }
}

/// One state: its fingerprint, its number, and which [`Left`] it was met with.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Zero: nothing is here.
    print: u64,
    id: u32,
    left: u32,
}

/// States by fingerprint, what is left not counted. Never iterated, so no order can leak into a result.
///
/// A state with less left can do nothing that the same state with more cannot: it is not searched again. The one
/// that covers it was met before it, so no trace gets longer by this.
///
/// A search spends most of its memory here, so this is one flat table with the next free place for who comes too
/// late, sixteen bytes for a place, and at most three of four places taken.
#[derive(Debug)]
pub struct Visited {
    slots: Vec<Slot>,
    taken: usize,
    /// The different [`Left`] by number: there are few.
    lefts: Vec<Left>,
    numbers: BTreeMap<Left, u32>,
    /// Further states with a fingerprint that is in the table, of which none covers another that came later.
    more: BTreeMap<u64, Vec<(u32, Left)>>,
}

impl Default for Visited {
    fn default() -> Self {
        Self {
            slots: vec![Slot::default(); 1 << 10],
            taken: 0,
            lefts: Vec::new(),
            numbers: BTreeMap::new(),
            more: BTreeMap::new(),
        }
    }
}

/// The place at which the search for this fingerprint ends, taken by it or free.
fn place(slots: &mut [Slot], print: u64) -> Option<&mut Slot> {
    let mask = slots.len().checked_sub(1)?;
    // The fingerprint is a good hash: its low bits are as good as any.
    let mut at = usize::try_from(print & u64::MAX >> 1).unwrap_or_default() & mask;
    while slots.get(at).is_some_and(|s| s.print != print && s.print != 0) {
        at = (at + 1) & mask;
    }
    slots.get_mut(at)
}

impl Visited {
    /// The state that covers this one, or nothing, and then it is remembered.
    pub fn find_or_insert(&mut self, print: u64, left: Left, id: u32) -> Option<u32> {
        // Zero means free.
        let print = print.max(1);
        if (self.taken + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let number = self.number(left);
        let slot = place(&mut self.slots, print)?;
        if slot.print == 0 {
            *slot = Slot {
                print,
                id,
                left: number,
            };
            self.taken += 1;
            return None;
        }
        let had = self.lefts.get(slot.left as usize)?;
        if had.covers(left) {
            return Some(slot.id);
        }
        let more = self.more.entry(print).or_default();
        let known = more.iter().find(|(_, had)| had.covers(left)).map(|(id, _)| *id);
        if known.is_none() {
            more.push((id, left));
        }
        known
    }

    fn number(&mut self, left: Left) -> u32 {
        if let Some(number) = self.numbers.get(&left) {
            return *number;
        }
        let number = u32::try_from(self.lefts.len()).unwrap_or(u32::MAX);
        self.lefts.push(left);
        self.numbers.insert(left, number);
        number
    }

    fn grow(&mut self) {
        let mut slots = vec![Slot::default(); self.slots.len() * 2];
        for old in self.slots.iter().filter(|s| s.print != 0) {
            if let Some(slot) = place(&mut slots, old.print) {
                *slot = *old;
            }
        }
        self.slots = slots;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(crashes: u8, repairs: u8) -> Left {
        let budget = Budget {
            crashes,
            repairs,
            late: 3,
            ..Budget::NONE
        };
        Left::pack(&budget, 4, 9)
    }

    #[test]
    fn a_budget_covers_another_only_if_it_has_as_much_of_everything() {
        for (a, b) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
            for (c, d) in (0..4).flat_map(|c| (0..4).map(move |d| (c, d))) {
                assert_eq!(left(a, b).covers(left(c, d)), a >= c && b >= d, "{a} {b} {c} {d}");
            }
        }
    }

    #[test]
    fn what_is_left_of_the_bounds_counts_like_a_fault_that_may_still_happen() {
        let left = |terms, writes| Left::pack(&Budget::NONE, terms, writes);
        for (a, b) in (0..20).flat_map(|a| (0..20).map(move |b| (a, b))) {
            for (c, d) in (0..20).flat_map(|c| (0..20).map(move |d| (c, d))) {
                assert_eq!(left(a, b).covers(left(c, d)), a >= c && b >= d, "{a} {b} {c} {d}");
            }
        }
    }

    #[test]
    fn a_state_is_known_if_it_was_met_with_at_least_as_much_left() {
        let mut visited = Visited::default();
        assert_eq!(visited.find_or_insert(1, left(1, 1), 10), None);
        assert_eq!(visited.find_or_insert(1, left(0, 1), 11), Some(10));
        assert_eq!(visited.find_or_insert(2, left(0, 0), 12), None);
        assert_eq!(visited.find_or_insert(1, left(2, 0), 13), None);
        assert_eq!(visited.find_or_insert(1, left(2, 0), 14), Some(13));
        assert_eq!(visited.find_or_insert(1, left(2, 1), 15), None);
    }

    #[test]
    fn everybody_is_found_again_after_the_table_has_grown() {
        let mut visited = Visited::default();
        // Some end up in the same place of a small table, and one is zero.
        let print = |n: u32| u64::from(n % 500) << 40 | u64::from(n / 500 * 2);
        for n in 0..20_000 {
            assert_eq!(visited.find_or_insert(print(n), left(1, 1), n), None, "{n}");
        }
        for n in 0..20_000 {
            assert_eq!(visited.find_or_insert(print(n), left(1, 1), 0), Some(n));
        }
    }
}
