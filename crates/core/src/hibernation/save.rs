//! `SaveOrPreserve`: what becomes of a stored entry when its resource is captured again.

use super::ids::{CycleId, ResourceId};
use super::point::{Entry, Point};
use serde_json::Value;
use std::collections::BTreeMap;

/// What is known of a stored entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Captured from something that ran.
    pub live: bool,
    /// Already brought back.
    pub consumed: bool,
    /// Captured in the cycle that captures now.
    pub same_cycle: bool,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Saved {
    /// The new truth is taken.
    Save,
    /// The new truth is taken because it is better.
    Upgrade,
    /// The stored one stays.
    Preserve,
}

/// The one rule: an entry that still has to be brought back stays, unless what is seen now runs and what is stored did
/// not. A consumed one has done its duty, and the new truth is taken.
///
/// Within a cycle this is the seed's table (first write wins, a better one replaces). Across cycles it differs from the
/// seed on purpose: an equal quality is no reason to keep yesterday's sizes, and *consumed* is what tells yesterday's
/// from today's. An entry of another cycle that was never consumed is the only record there is, and stays as well.
pub fn save_or_preserve(stored: Option<Known>, new_is_live: bool) -> Saved {
    match stored {
        None | Some(Known { consumed: true, .. }) => Saved::Save,
        Some(Known {
            live: false,
            consumed: false,
            same_cycle: _,
        }) if new_is_live => Saved::Upgrade,
        Some(Known {
            live: _,
            consumed: false,
            same_cycle: _,
        }) => Saved::Preserve,
    }
}

/// What was seen of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// What is needed to bring it back.
    pub state: Value,
    /// It runs.
    pub live: bool,
    /// It is usable.
    pub settled: bool,
}

/// How often what was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Taken.
    pub saved: usize,
    /// Taken because better.
    pub upgraded: usize,
    /// Kept.
    pub preserved: usize,
}

impl Point {
    /// The point after what was seen now. Nothing that still has to be brought back is ever lost or made worse.
    #[must_use]
    pub fn save_or_preserve(
        &self,
        cycle: CycleId,
        leg: u32,
        captured_at: &str,
        seen: &BTreeMap<ResourceId, Capture>,
    ) -> (Self, Tally) {
        let mut tally = Tally::default();
        if self.is_old() && self.is_open() && seen.values().all(|c| !c.live) {
            // One entry for the whole target, and nothing of it runs: it is the only record.
            tally.preserved = 1;
            return (self.clone(), tally);
        }
        let mut next = self.clone();
        next.entries.retain(|_, e| !e.consumed);
        for (id, capture) in seen {
            let stored = self.entries.get(id);
            let known = stored.map(|e| Known {
                live: e.live,
                consumed: e.consumed,
                same_cycle: self.cycle == Some(cycle),
            });
            match save_or_preserve(known, capture.live) {
                Saved::Preserve => {
                    tally.preserved += 1;
                    continue;
                }
                Saved::Save => tally.saved += 1,
                Saved::Upgrade => tally.upgraded += 1,
            }
            // What was just woken need not be usable yet when it goes to sleep again.
            let was = self.cycle == Some(cycle) && stored.is_some_and(|e| e.settled);
            let entry = Entry {
                state: capture.state.clone(),
                live: capture.live,
                consumed: false,
                settled: capture.settled || was,
                shard: stored.and_then(|e| e.shard),
            };
            next.entries.insert(id.clone(), entry);
        }
        if tally.saved + tally.upgraded > 0 || self.cycle != Some(cycle) {
            captured_at.clone_into(&mut next.captured_at);
            next.cycle = Some(cycle);
        }
        // Whoever still writes for an earlier leg loses the race for the ConfigMap.
        next.leg = leg;
        (next, tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s26_s27_s28_every_row_of_the_table() {
        let known = |live, consumed, same_cycle| {
            Some(Known {
                live,
                consumed,
                same_cycle,
            })
        };
        for (stored, new_is_live, expected) in [
            // The seed's rows 1 and 2: nothing is stored.
            (None, true, Saved::Save),
            (None, false, Saved::Save),
            // Row 3, within a cycle and across: what still has to be brought back is not replaced by "was stopped".
            (known(true, false, true), false, Saved::Preserve),
            (known(true, false, false), false, Saved::Preserve),
            // Row 4: better replaces worse.
            (known(false, false, true), true, Saved::Upgrade),
            (known(false, false, false), true, Saved::Upgrade),
            // Row 5: first write wins.
            (known(true, false, true), true, Saved::Preserve),
            (known(true, false, false), true, Saved::Preserve),
            // Row 6.
            (known(false, false, true), false, Saved::Preserve),
            (known(false, false, false), false, Saved::Preserve),
            // Consumed: a new night takes new truth, whatever the quality.
            (known(true, true, false), true, Saved::Save),
            (known(true, true, false), false, Saved::Save),
            (known(false, true, false), true, Saved::Save),
            (known(false, true, false), false, Saved::Save),
            (known(true, true, true), true, Saved::Save),
            (known(true, true, true), false, Saved::Save),
            (known(false, true, true), true, Saved::Save),
            (known(false, true, true), false, Saved::Save),
        ] {
            assert_eq!(
                save_or_preserve(stored, new_is_live),
                expected,
                "{stored:?}, new live {new_is_live}"
            );
        }
    }
}
