//! For how long each heart has stood still, as each member sees it.
//!
//! Cassandra says `NORMAL` of a node that was killed, for ever. What tells is its heartbeat, which rises about once a
//! second; and what counts is only what this operator has seen itself.

use mainstay_core::ring::ids::{Address, Member};
use mainstay_core::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Generation and heartbeat.
pub(super) type Beat = (i32, i32);

/// What was last seen of each heart, by whom, and since when.
#[derive(Debug, Default)]
pub struct Hearts(BTreeMap<(Member, Address), (Beat, Time)>);

impl Hearts {
    /// For how long it has stood still in the eyes of this member, who was asked then and had answered at `heard`.
    pub(super) fn still(
        &mut self,
        by: &Member,
        whose: Address,
        beat: Beat,
        (asked, heard): (Time, Time),
    ) -> Duration {
        let known = self.0.entry((by.clone(), whose)).or_insert((beat, heard));
        if known.0 != beat {
            *known = (beat, heard);
        }
        // From the end of the first look to the beginning of the last.
        asked.since(known.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heart_that_was_not_looked_at_has_not_stood_still_and_each_member_sees_for_itself() {
        let mut hearts = Hearts::default();
        let (a, b): (Member, Member) = ("m-0".parse().unwrap(), "m-1".parse().unwrap());
        let dead: Address = "10.0.0.3".parse().unwrap();
        let second = Duration::from_secs(1);
        let start = Time(1_000_000_000);
        let mut still = |by: &Member, beat: Beat, seconds: u32| {
            let now = start + second * seconds;
            hearts.still(by, dead, beat, (now, now))
        };
        assert_eq!(still(&a, (1, 50), 0), Duration::ZERO);
        assert_eq!(still(&a, (1, 50), 30), second * 30);
        assert_eq!(still(&b, (1, 50), 30), Duration::ZERO);
        assert_eq!(still(&a, (1, 51), 31), Duration::ZERO);
        // A restart counts its beats anew.
        assert_eq!(still(&a, (2, 1), 60), Duration::ZERO);
    }
}
