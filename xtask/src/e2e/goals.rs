//! What is to be reached beside memgraph-controller, which was measured at the same faults on the same kind of machine:
//! better in every row, and ten times better where its clients waited for more than ten seconds.

/// What clients notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The longest time without an acknowledged write.
    Gap,
    /// All times of more than a second without one, together.
    Dark,
}

/// A limit for the middle of all rounds. That a machine is slow explains a missed goal, and does not hide it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) of: Measure,
    pub(crate) millis: u64,
    /// What memgraph-controller needed: in the middle, and at worst.
    pub(crate) beside: &'static str,
}

impl Goal {
    const fn gap(millis: u64, beside: &'static str) -> Self {
        Self {
            of: Measure::Gap,
            millis,
            beside,
        }
    }

    pub(crate) const KILL: Self = Self::gap(1_100, "1.1/23 s");
    pub(crate) const DELETE: Self = Self::gap(1_100, "10.9/22 s");
    pub(crate) const FORCED_DELETE: Self = Self::gap(3_600, "36/50 s");
    pub(crate) const OPERATOR: Self = Self::gap(3_100, "31/43 s");
    pub(crate) const FOLLOWER: Self = Self::gap(2_500, "25.5 s/never");
    pub(crate) const HANG: Self = Self::gap(6_000, "never (60 s)");
    pub(crate) const POWER_CUT: Self = Self::gap(9_800, "9.8 s");
    pub(crate) const POWER_CUT_LEADER: Self = Self::gap(8_700, "never (87 s)");
    pub(crate) const DIVERGED: Self = Self::gap(19_800, "never (198 s)");
    pub(crate) const ROLLING: Self = Self {
        of: Measure::Dark,
        millis: 4_700,
        beside: "47 s dark",
    };

    /// For a table.
    pub(crate) fn text(self) -> String {
        let unit = match self.of {
            Measure::Gap => "",
            Measure::Dark => " dark",
        };
        format!("{}{unit}", self.millis)
    }
}
