//! How old a permission is at most, by one clock alone: that of the gate which may use it.
//!
//! The clock of the operator and that of a Node may differ by minutes, so no time of one machine is compared with that of
//! another. The gate notes when it last read a ledger in which the permission was not: it was given after that. A gate that
//! was cut off from the API has not looked for long, and one that was just started has never looked: both wait for the
//! next one.

use super::ids::GrantNumber;
use super::ledger::{Ledger, Work};
use crate::time::Time;
use std::time::Duration;

/// What a gate remembers of its looks at the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// The permission in the ledger that was read last.
    grant: Option<(GrantNumber, Time)>,
    /// When that was.
    read: Option<Time>,
    /// When a ledger was last read in which that permission was not.
    without: Option<Time>,
}

impl Freshness {
    /// A ledger was read, or there was none; the call began then, on a clock of the gate's own that never goes back.
    pub fn read(&mut self, ledger: Option<&Ledger>, began: Time) {
        let work = ledger.and_then(|l| l.work.as_ref());
        let grant = work.and_then(Work::grant).map(|g| (g.number, g.at));
        if grant != self.grant {
            self.without = self.read;
            self.grant = grant;
        }
        self.read = Some(began);
    }

    /// How old the permission in it is at most; `None` if that cannot be told.
    pub fn age(&self, now: Time) -> Option<Duration> {
        self.without.map(|without| now.since(without))
    }
}
