//! What is broken, each while clients write.

use anyhow::Result;

use super::goals::Goal;
use super::place::Place;
use super::{nights, nodes, pods, resets, ring};

/// A fault, and what must be true afterwards.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Before clients write.
    pub(crate) before: fn(&Place<'_>) -> Result<()>,
    /// Breaks something and waits until it is mended.
    pub(crate) fault: fn(&Place<'_>) -> Result<()>,
    /// Where somebody else was measured at the same.
    pub(crate) goal: Option<Goal>,
    /// Nobody can write for as long as a person wants it: no gap is too long.
    pub(crate) may_be_dark: bool,
    /// It needs an operator that serves all namespaces.
    pub(crate) everywhere: bool,
}

/// Clients write, and nothing happens.
const PLAIN: Suite = Suite {
    name: "",
    about: "",
    before: |_| Ok(()),
    fault: |_| Ok(()),
    goal: None,
    may_be_dark: false,
    everywhere: false,
};

/// Each begins and ends serving, protected and whole.
pub(crate) const SUITES: &[Suite] = &[
    Suite {
        name: "bootstrap",
        about: "a cluster of the chart serves, is protected, and takes writes through its gateway",
        ..PLAIN
    },
    Suite {
        name: "kill",
        about: "kill -9 of MAIN's process",
        fault: pods::kill_main,
        goal: Some(Goal::KILL),
        ..PLAIN
    },
    Suite {
        name: "hang",
        about: "MAIN's process stands still for 60 s and goes on; its node and its pod are there",
        fault: pods::hang_main,
        goal: Some(Goal::HANG),
        ..PLAIN
    },
    Suite {
        name: "delete",
        about: "MAIN's pod is deleted",
        fault: pods::delete_main,
        goal: Some(Goal::DELETE),
        ..PLAIN
    },
    Suite {
        name: "forced-delete",
        about: "MAIN's pod is deleted without grace",
        fault: pods::force_delete_main,
        goal: Some(Goal::FORCED_DELETE),
        ..PLAIN
    },
    Suite {
        name: "operator",
        about: "both operators are deleted at once",
        fault: pods::delete_operators,
        goal: Some(Goal::OPERATOR),
        ..PLAIN
    },
    Suite {
        name: "operator-kill",
        about: "kill -9 of the operator that leads",
        fault: pods::kill_leader,
        goal: Some(Goal::OPERATOR),
        ..PLAIN
    },
    Suite {
        name: "follower-leads",
        about: "MAIN has moved; the operator that leads is deleted, and the new one cannot start for 25 s",
        before: pods::kill_main,
        fault: nodes::follower_leads,
        goal: Some(Goal::FOLLOWER),
        ..PLAIN
    },
    Suite {
        name: "rolling",
        about: "the spec changes, and every pod is made anew, MAIN last",
        fault: pods::roll,
        goal: Some(Goal::ROLLING),
        ..PLAIN
    },
    Suite {
        name: "upgrade",
        about: "a new operator is installed: operators, gateways and databases get its image",
        fault: pods::upgrade,
        ..PLAIN
    },
    Suite {
        name: "drain",
        about: "MAIN's node is drained; while its pod is away the budget keeps the others",
        fault: nodes::drain,
        ..PLAIN
    },
    Suite {
        name: "diverged-then-delete",
        about: "an ASYNC replica diverges, and MAIN's pod is deleted without grace: a new MAIN serves, the replica is reset",
        before: resets::young_term,
        fault: resets::diverged_then_delete,
        goal: Some(Goal::DIVERGED),
        ..PLAIN
    },
    Suite {
        name: "happy-path",
        about: "hard reset: an ASYNC replica diverges, and is reset once, by itself; ten times in a row",
        before: resets::often,
        fault: resets::happy_path,
        ..PLAIN
    },
    Suite {
        name: "marker-persistence",
        about: "hard reset: the pod is deleted twice more before its init container runs; one wipe",
        before: resets::often,
        fault: resets::marker_persistence,
        ..PLAIN
    },
    Suite {
        name: "sync-protection",
        about: "hard reset: the SYNC replica diverges, and is reset when a person approves",
        before: resets::often,
        fault: resets::sync_protection,
        may_be_dark: true,
        ..PLAIN
    },
    Suite {
        name: "multi-replica",
        about: "hard reset: two ASYNC replicas diverge, and are reset one after the other",
        before: resets::four_pods,
        fault: resets::multi_replica,
        ..PLAIN
    },
    Suite {
        name: "plan",
        about: "a HibernatePlan puts workloads of every kind and the cluster to sleep, and wakes them",
        fault: nights::sleeps_and_wakes,
        may_be_dark: true,
        ..PLAIN
    },
    Suite {
        name: "ring",
        about: "a RingCluster of stand-ins: it sleeps and wakes, a member leaves, another gets a new volume",
        fault: ring::lives,
        everywhere: true,
        ..PLAIN
    },
    // What happens to nodes comes last: a node that does not come back keeps nothing else from being run.
    Suite {
        name: "freeze",
        about: "every process on MAIN's node stops for 20 s and goes on",
        before: nodes::leader_elsewhere,
        fault: nodes::freeze,
        goal: Some(Goal::HANG),
        ..PLAIN
    },
    Suite {
        name: "partition",
        about: "MAIN's node is cut off for 20 s",
        before: nodes::leader_elsewhere,
        fault: nodes::partition,
        ..PLAIN
    },
    Suite {
        name: "partition-leader",
        about: "the same, and the operator that leads is on it",
        before: nodes::leader_beside_main,
        fault: nodes::partition,
        ..PLAIN
    },
    Suite {
        name: "power-cut",
        about: "MAIN's node loses its power, and boots again when somebody else serves",
        before: nodes::leader_elsewhere,
        fault: nodes::power_cut,
        goal: Some(Goal::POWER_CUT),
        ..PLAIN
    },
    Suite {
        name: "power-cut-leader",
        about: "the same, and the operator that leads is on it",
        before: nodes::leader_beside_main,
        fault: nodes::power_cut,
        goal: Some(Goal::POWER_CUT_LEADER),
        ..PLAIN
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
    fn every_suite_says_what_it_is_about() {
        assert!(
            SUITES
                .iter()
                .all(|suite| !suite.name.is_empty() && !suite.about.is_empty())
        );
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
