//! STRICT_SYNC and not protected yet: proven, settled, renewed; or not ready, and what the policy makes of it.

use super::cluster::{Situation, ago, cluster, process, registration, second};
use super::render::assert_table;
use mainstay_core::memgraph::ids::{Ordinal, RegistrationName};
use mainstay_core::memgraph::observed::{Mode, Status};
use mainstay_core::memgraph::record::Writes;
use mainstay_core::memgraph::spec::WritesWithoutSync;
use std::time::Duration;

/// Registered STRICT_SYNC, ready, and not proven.
fn unproven() -> Situation {
    cluster().unprotected().record(|r| r.writes = Writes::Held)
}

/// Protected, and the registration has had this status for that long.
fn not_ready(status: Status, ms: u64) -> Situation {
    cluster().listed(1, |r| {
        r.status = status;
        r.since = ago(ms);
    })
}

#[test]
fn protection_is_proven() {
    assert_table!(
        "pair_strict__protection_is_proven",
        [
            ("every gateway confirmed the term", unproven()),
            (
                "a gateway is one term behind",
                unproven().one_gateway(|g| g.term.0 -= 1)
            ),
            (
                "a gateway is one revision behind, which is enough",
                unproven().one_gateway(|g| g.revision.0 -= 1)
            ),
            ("the pod does not answer", unproven().silent(1, 3)),
            (
                "its volume is not known",
                unproven().object(1, |o| o.volume = None)
            ),
            (
                "behind says nothing of a STRICT_SYNC one",
                unproven().listed(1, |r| r.behind = -1)
            ),
            (
                "the reset of another pod goes on",
                unproven().unregistered(2).crashed(2).resetting(2)
            ),
            (
                "an ASYNC row of the same pod beside it",
                unproven().registrations(0, |all| all
                    .insert(0, registration(RegistrationName::Async(Ordinal(1)), Mode::Async)))
            ),
            ("writes were open", unproven().record(|r| r.writes = Writes::Open)),
            (
                "a loose process that ended is forgotten",
                unproven().loose(2, second(2))
            ),
        ]
    );
}

#[test]
fn a_process_that_restarted_or_is_loose_is_not_proven() {
    assert_table!(
        "pair_strict__a_process_that_restarted_or_is_loose_is_not_proven",
        [
            ("the protected pod restarted: a new epoch", cluster().restarted(1)),
            (
                "it restarted and is known to the epoch: proven",
                cluster().restarted(1).in_epoch(second(1))
            ),
            (
                "it restarted and statements run before MAIN serves",
                cluster().restarted(1).spec(|s| s.on_promotion = true)
            ),
            ("the process is loose", unproven().loose(1, process(1))),
            ("MAIN's process is loose", unproven().loose(0, process(0))),
            (
                "both are loose: the replica first",
                unproven().loose(0, process(0)).loose(1, process(1))
            ),
            (
                "both are loose and the pair is protected: nothing",
                cluster().loose(0, process(0)).loose(1, process(1))
            ),
            (
                "loose and its object unknown",
                unproven().loose(1, process(1)).pod(1, |p| p.object = None)
            ),
            (
                "restarted and MAIN is loose: no second renewal",
                cluster().restarted(1).loose(0, process(0))
            ),
        ]
    );
}

#[test]
fn a_strict_replica_that_is_not_ready_stops_writes() {
    let always = |s: Situation| s.policy(WritesWithoutSync::Always);
    assert_table!(
        "pair_strict__a_strict_replica_that_is_not_ready_stops_writes",
        [
            ("invalid for a moment", not_ready(Status::Invalid, 4999)),
            (
                "invalid for long, and it answers: made anew",
                not_ready(Status::Invalid, 5000)
            ),
            (
                "invalid for long, and it does not answer: left",
                not_ready(Status::Invalid, 600_000).silent(1, 3)
            ),
            ("diverged for a moment", not_ready(Status::Diverged, 4999)),
            ("in recovery for long: left", not_ready(Status::Recovery, 600_000)),
            (
                "replicating at this moment: a commit like any other",
                not_ready(Status::Replicating, 4999)
            ),
            (
                "replicating at this moment, policy Always: nothing is withdrawn",
                always(not_ready(Status::Replicating, 4999))
            ),
            (
                "replicating for long: left",
                not_ready(Status::Replicating, 600_000)
            ),
            (
                "a longer patience, as declared",
                not_ready(Status::Invalid, 5000).spec(|s| s.steady = Duration::from_millis(5001))
            ),
            (
                "policy Always, away within the grace",
                always(not_ready(Status::Invalid, 4999).silent(1, 3))
            ),
            (
                "policy Always, away for the grace, hanging: its process is ended",
                always(not_ready(Status::Invalid, 5000).silent(1, 3))
            ),
            (
                "policy Always, away for the grace, refusing: withdrawn and dropped",
                always(not_ready(Status::Invalid, 5000).refused(1, 3))
            ),
            (
                "policy Always, crashed: withdrawn and dropped",
                always(not_ready(Status::Invalid, 5000).crashed(1))
            ),
            (
                "policy Always, hanging, its object unknown",
                always(
                    not_ready(Status::Invalid, 5000)
                        .silent(1, 3)
                        .pod(1, |p| p.object = None)
                )
            ),
            (
                "policy Always, hanging, nothing runs there",
                always(
                    not_ready(Status::Invalid, 5000)
                        .silent(1, 3)
                        .object(1, |o| o.running = None)
                )
            ),
            (
                "policy Always, replicating for the grace, it answers: withdrawn, not dropped",
                always(not_ready(Status::Replicating, 5000))
            ),
            (
                "policy Always, replicating for the grace, hanging",
                always(not_ready(Status::Replicating, 5000).silent(1, 1))
            ),
            (
                "policy Always, a longer grace as declared",
                always(not_ready(Status::Invalid, 5000).refused(1, 3))
                    .spec(|s| s.sync_grace = Duration::from_millis(5001))
            ),
            (
                "policy Never, away for the grace: left",
                not_ready(Status::Invalid, 5000)
                    .refused(1, 3)
                    .policy(WritesWithoutSync::Never)
            ),
            (
                "exposed by a failover, made anew: writes stay as they are",
                not_ready(Status::Invalid, 5000).unprotected()
            ),
            (
                "made anew, policy Never",
                not_ready(Status::Invalid, 5000).policy(WritesWithoutSync::Never)
            ),
        ]
    );
}
