//! A list of a few different numbers, most often without a heap.

/// How many fit in without one.
const FEW: usize = 24;

/// Different numbers in the order in which they came.
#[derive(Debug)]
pub(super) struct Few {
    first: [u32; FEW],
    count: usize,
    more: Vec<u32>,
}

impl Default for Few {
    fn default() -> Self {
        Self {
            first: [0; FEW],
            count: 0,
            more: Vec::new(),
        }
    }
}

impl Few {
    fn first(&self) -> &[u32] {
        self.first.get(..self.count).unwrap_or(&self.first)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.count + self.more.len()
    }

    /// The place of a number; the last one if it is new.
    pub(super) fn place(&mut self, number: u32) -> u32 {
        let known = self.first().iter().chain(&self.more).position(|n| *n == number);
        let place = known.unwrap_or_else(|| {
            self.push(number);
            self.len() - 1
        });
        u32::try_from(place).unwrap_or(u32::MAX)
    }

    fn push(&mut self, number: u32) {
        match self.first.get_mut(self.count) {
            Some(free) => {
                *free = number;
                self.count += 1;
            }
            None => self.more.push(number),
        }
    }

    /// Puts them in order.
    pub(super) fn sort(&mut self) {
        if self.more.is_empty() {
            let count = self.count;
            if let Some(first) = self.first.get_mut(..count) {
                first.sort_unstable();
            }
            return;
        }
        let mut all: Vec<u32> = self.first().iter().chain(&self.more).copied().collect();
        all.sort_unstable();
        *self = Self::default();
        for number in all {
            self.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_keeps_its_place_and_order_is_made_on_demand() {
        for many in [3, 24, 25, 60_u32] {
            let mut few = Few::default();
            for (place, number) in (0..many).rev().zip(0..) {
                assert_eq!(few.place(number), many - 1 - place);
                assert_eq!(few.place(number), many - 1 - place);
            }
            assert_eq!(few.len(), many as usize);
        }
        for many in [3, 24, 25, 60_u32] {
            let mut few = Few::default();
            for number in (0..many).rev() {
                few.place(number * 2);
            }
            few.sort();
            for number in 0..many {
                assert_eq!(few.place(number * 2), number);
            }
        }
    }
}
