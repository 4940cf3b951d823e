//! What is broken, each while clients write.

use anyhow::Result;

use super::place::Place;
use super::{nodes, pods, resets};

/// A fault, and what must be true afterwards.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Before clients write.
    pub(crate) before: fn(&Place<'_>) -> Result<()>,
    /// Breaks something and waits until it is mended.
    pub(crate) fault: fn(&Place<'_>) -> Result<()>,
}

const NOTHING: fn(&Place<'_>) -> Result<()> = |_| Ok(());

/// Each begins and ends serving, protected and whole.
pub(crate) const SUITES: &[Suite] = &[
    Suite {
        name: "bootstrap",
        about: "a cluster of the chart serves, is protected, and takes writes through its gateway",
        before: NOTHING,
        fault: NOTHING,
    },
    Suite {
        name: "kill",
        about: "kill -9 of MAIN's process",
        before: NOTHING,
        fault: pods::kill_main,
    },
    Suite {
        name: "delete",
        about: "MAIN's pod is deleted",
        before: NOTHING,
        fault: pods::delete_main,
    },
    Suite {
        name: "forced-delete",
        about: "MAIN's pod is deleted without grace",
        before: NOTHING,
        fault: pods::force_delete_main,
    },
    Suite {
        name: "operator",
        about: "both operators are deleted at once",
        before: NOTHING,
        fault: pods::delete_operators,
    },
    Suite {
        name: "operator-kill",
        about: "kill -9 of the operator that leads",
        before: NOTHING,
        fault: pods::kill_leader,
    },
    Suite {
        name: "rolling",
        about: "the spec changes, and every pod is made anew, MAIN last",
        before: NOTHING,
        fault: pods::roll,
    },
    Suite {
        name: "upgrade",
        about: "a new operator is installed: operators, gateways and databases get its image",
        before: NOTHING,
        fault: pods::upgrade,
    },
    Suite {
        name: "drain",
        about: "MAIN's node is drained; while its pod is away the budget keeps the others",
        before: NOTHING,
        fault: nodes::drain,
    },
    Suite {
        name: "freeze",
        about: "every process on MAIN's node stops for 20 s and goes on",
        before: nodes::leader_elsewhere,
        fault: nodes::freeze,
    },
    Suite {
        name: "partition",
        about: "MAIN's node is cut off for 20 s",
        before: nodes::leader_elsewhere,
        fault: nodes::partition,
    },
    Suite {
        name: "partition-leader",
        about: "the same, and the operator that leads is on it",
        before: nodes::leader_beside_main,
        fault: nodes::partition,
    },
    Suite {
        name: "power-cut",
        about: "MAIN's node loses its power, and boots again when somebody else serves",
        before: nodes::leader_elsewhere,
        fault: nodes::power_cut,
    },
    Suite {
        name: "power-cut-leader",
        about: "the same, and the operator that leads is on it",
        before: nodes::leader_beside_main,
        fault: nodes::power_cut,
    },
    Suite {
        name: "happy-path",
        about: "hard reset: an ASYNC replica diverges, and is reset once, by itself; ten times in a row",
        before: resets::often,
        fault: resets::happy_path,
    },
    Suite {
        name: "marker-persistence",
        about: "hard reset: the pod is deleted twice more before its init container runs; one wipe",
        before: resets::often,
        fault: resets::marker_persistence,
    },
    Suite {
        name: "sync-protection",
        about: "hard reset: the SYNC replica diverges, and is reset when a person approves",
        before: resets::often,
        fault: resets::sync_protection,
    },
    Suite {
        name: "multi-replica",
        about: "hard reset: two ASYNC replicas diverge, and are reset one after the other",
        before: resets::four_pods,
        fault: resets::multi_replica,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_suite_has_a_name_of_its_own() {
        let names: BTreeSet<_> = SUITES.iter().map(|suite| suite.name).collect();
        assert_eq!(names.len(), SUITES.len());
    }

    #[test]
    fn the_four_scenarios_of_the_seed_have_their_names() {
        for name in [
            "happy-path",
            "multi-replica",
            "sync-protection",
            "marker-persistence",
        ] {
            assert!(SUITES.iter().any(|suite| suite.name == name), "{name}");
        }
    }
}
