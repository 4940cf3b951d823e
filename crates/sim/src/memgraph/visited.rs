//! Which states a search has seen, and with how many faults still to come.

use super::world::Budget;

#[allow(
    clippy::disallowed_types,
    reason = "looked up only, never iterated; hashed with a fixed seed"
)]
type Map<T> = std::collections::HashMap<u64, T, foldhash::fast::FixedState>;

/// What is left of a budget, four bits per fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left(u64);

/// The highest bit of each four: borrowed from where one count is less than the other.
const BORROW: u64 = 0x8888_8888_8888_8888;

impl Left {
    /// The budget in this form. More than seven of anything is as good as seven: no world has that many.
    pub fn of(budget: &Budget) -> Self {
        let all = budget.named();
        Self(
            all.iter()
                .fold(0, |packed, (_, n)| packed << 4 | u64::from((*n).min(7))),
        )
    }

    /// Is there at least as much left of everything?
    pub fn covers(self, other: Self) -> bool {
        ((self.0 | BORROW) - other.0) & BORROW == BORROW
    }
}

/// States by fingerprint, the budget not counted. Never iterated, so no order can leak into a result.
///
/// A state with less of the budget left can do nothing that the same state with more cannot: it is not searched
/// again. The one that covers it was met before it, so no trace gets longer by this.
#[derive(Debug, Default)]
pub struct Visited {
    first: Map<(u32, Left)>,
    /// Further ones, of which none covers another that came later.
    more: Map<Vec<(u32, Left)>>,
}

impl Visited {
    /// The state that covers this one, if there is one.
    pub fn find(&self, print: u64, left: Left) -> Option<u32> {
        let (id, had) = self.first.get(&print)?;
        if had.covers(left) {
            return Some(*id);
        }
        let more = self.more.get(&print)?;
        more.iter().find(|(_, had)| had.covers(left)).map(|(id, _)| *id)
    }

    /// Remembers a state that nothing covers.
    pub fn insert(&mut self, print: u64, left: Left, id: u32) {
        match self.first.entry(print) {
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert((id, left));
            }
            std::collections::hash_map::Entry::Occupied(_) => {
                self.more.entry(print).or_default().push((id, left));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(crashes: u8, repairs: u8) -> Left {
        Left::of(&Budget {
            crashes,
            repairs,
            late: 3,
            ..Budget::NONE
        })
    }

    #[test]
    fn a_budget_covers_another_only_if_it_has_as_much_of_everything() {
        for (a, b) in (0..8).flat_map(|a| (0..8).map(move |b| (a, b))) {
            for (c, d) in (0..8).flat_map(|c| (0..8).map(move |d| (c, d))) {
                assert_eq!(left(a, b).covers(left(c, d)), a >= c && b >= d, "{a} {b} {c} {d}");
            }
        }
    }

    #[test]
    fn a_state_is_known_if_it_was_met_with_at_least_as_much_left() {
        let mut visited = Visited::default();
        assert_eq!(visited.find(1, left(1, 1)), None);
        visited.insert(1, left(1, 1), 10);
        assert_eq!(visited.find(1, left(0, 1)), Some(10));
        assert_eq!(visited.find(1, left(2, 0)), None);
        assert_eq!(visited.find(2, left(0, 0)), None);
        visited.insert(1, left(2, 0), 11);
        assert_eq!(visited.find(1, left(2, 0)), Some(11));
        assert_eq!(visited.find(1, left(2, 1)), None);
    }
}
