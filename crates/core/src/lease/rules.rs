//! The rules by name, so that the tests can break each one and see that their search notices.

/// A rule of the candidate that a test can switch off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Count leadership from before the request, not from the answer.
    CountFromSend,
    /// Never compare a time that another wrote with the own clock.
    OwnClockOnly,
    /// End leadership by the wall clock too.
    WatchWallClock,
    /// Stop leading before the release is sent.
    StopBeforeRelease,
    /// Wait before taking a lease that nobody ever held.
    DistrustNewLease,
    /// Take back a lease under the own name only after having been entitled to it.
    ProveClaim,
}

/// All rules, always, except in tests of this crate.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    #[cfg(test)]
    pub(super) without: Option<Rule>,
}

impl Rules {
    #[cfg(test)]
    pub(super) fn keep(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    #[cfg(not(test))]
    #[expect(
        clippy::unused_self,
        reason = "there is nothing to look up: outside of tests no rule is off"
    )]
    pub(super) fn keep(&self, _rule: Rule) -> bool {
        true
    }
}
