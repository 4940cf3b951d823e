//! The other authority pod joins: registered ASYNC, caught up, held for, registered STRICT_SYNC.

use super::cluster::{Situation, a_candidate, ago, cluster, process, registration, second, strict};
use super::render::assert_table;
use mainstay_core::memgraph::ids::{Ordinal, RegistrationName};
use mainstay_core::memgraph::observed::{Mode, Role, Status};
use mainstay_core::memgraph::record::Writes;
use mainstay_core::memgraph::spec::WritesWithoutSync;
use mainstay_core::time::Time;
use std::time::Duration;

/// Nobody protects MAIN, and pod-1 is not registered.
fn outside() -> Situation {
    cluster().unprotected().unregistered(1)
}

/// pod-1 is level and writes are held.
fn level_and_held() -> Situation {
    cluster().joining().record(|r| {
        r.writes = Writes::Held;
        r.held_at = ago(1000);
    })
}

#[test]
fn a_pod_is_registered_async() {
    assert_table!(
        "pair_join__a_pod_is_registered_async",
        [
            ("it answers and its port is open", outside()),
            ("it does not answer", outside().silent(1, 3)),
            (
                "its answer is older than the record",
                outside().answer(1, |a| a.at = ago(200))
            ),
            (
                "its port is closed",
                outside().pod(1, |p| p.replication_port_open = Some(false))
            ),
            (
                "its port was not tried",
                outside().pod(1, |p| p.replication_port_open = None)
            ),
            (
                "its pod is being deleted",
                outside().object(1, |o| o.terminating = true)
            ),
            (
                "its pod has no address",
                outside().object(1, |o| o.addressed = false)
            ),
            ("its object is gone", outside().pod(1, |p| p.object = None)),
            (
                "its process is not ready for Kubernetes, which says nothing",
                outside().object(1, |o| o.ready = false)
            ),
            ("it restarted", outside().restarted(1)),
            (
                "writes were held for it: they go on first",
                outside().record(|r| r.writes = Writes::Held)
            ),
            (
                "writes are held by policy: they stay so",
                cluster().held().unregistered(1)
            ),
            (
                "writes are closed: they stay so",
                outside().record(|r| r.writes = Writes::Closed)
            ),
            (
                "SHOW REPLICAS was not answered",
                outside().answer(0, |a| a.replicas = None)
            ),
            ("it is a second MAIN", outside().role(1, Role::Main)),
            ("it is a second MAIN and protected", cluster().role(1, Role::Main)),
            (
                "it is a second MAIN, policy Always",
                cluster().role(1, Role::Main).policy(WritesWithoutSync::Always)
            ),
            (
                "it is a second MAIN, policy Never",
                cluster().role(1, Role::Main).policy(WritesWithoutSync::Never)
            ),
        ]
    );
}

#[test]
fn a_pod_catches_up_and_writes_are_held() {
    let behind = |n| {
        cluster().joining().listed(1, |r| {
            r.status = Status::Replicating;
            r.behind = n;
        })
    };
    assert_table!(
        "pair_join__a_pod_catches_up_and_writes_are_held",
        [
            ("ready and level: writes are held", cluster().joining()),
            (
                "ready and one behind: writes are held",
                cluster().joining().listed(1, |r| r.behind = -1)
            ),
            (
                "replicating and a thousand behind: writes are held",
                behind(-1000)
            ),
            ("replicating and a thousand and one behind: wait", behind(-1001)),
            ("replicating and ahead: wait", behind(1)),
            (
                "in recovery and nearly level: writes are held",
                behind(-1).listed(1, |r| r.status = Status::Recovery)
            ),
            (
                "invalid for a moment: wait",
                behind(-1).listed(1, |r| {
                    r.status = Status::Invalid;
                    r.since = ago(4999);
                })
            ),
            (
                "invalid for a moment and fed until then: writes are held",
                behind(-1).listed(1, |r| {
                    r.status = Status::Invalid;
                    r.since = ago(10);
                    r.moved = Some(ago(10));
                })
            ),
            (
                "the same, and a thousand and one behind: wait",
                behind(-1001).listed(1, |r| {
                    r.status = Status::Invalid;
                    r.since = ago(10);
                    r.moved = Some(ago(10));
                })
            ),
            (
                "invalid for long: made anew",
                behind(-1).listed(1, |r| {
                    r.status = Status::Invalid;
                    r.since = ago(5000);
                })
            ),
            (
                "invalid for a moment and its port is closed: made anew",
                behind(-1)
                    .listed(1, |r| {
                        r.status = Status::Invalid;
                        r.since = ago(0);
                    })
                    .pod(1, |p| p.replication_port_open = Some(false)),
            ),
            (
                "invalid for a moment and its port was not tried: wait",
                behind(-1)
                    .listed(1, |r| {
                        r.status = Status::Invalid;
                        r.since = ago(0);
                    })
                    .pod(1, |p| p.replication_port_open = None),
            ),
            (
                "invalid for a moment and nothing runs there: made anew",
                behind(-1)
                    .listed(1, |r| {
                        r.status = Status::Invalid;
                        r.since = ago(0);
                    })
                    .object(1, |o| o.running = None),
            ),
            (
                "invalid for a moment and its object is gone: made anew",
                behind(-1)
                    .listed(1, |r| {
                        r.status = Status::Invalid;
                        r.since = ago(0);
                    })
                    .pod(1, |p| p.object = None),
            ),
            (
                "held less than a pause ago: not again yet",
                behind(-1).record(|r| r.held_at = ago(29_999))
            ),
            (
                "held a pause ago: again",
                behind(-1).record(|r| r.held_at = ago(30_000))
            ),
            (
                "a shorter pause, as declared",
                behind(-1)
                    .record(|r| r.held_at = ago(29_999))
                    .spec(|s| s.hold = Duration::from_secs(4))
            ),
            (
                "held, and not level in time",
                behind(-1).record(|r| {
                    r.writes = Writes::Held;
                    r.held_at = ago(5001);
                })
            ),
            (
                "held, and there is time left",
                behind(-1).record(|r| {
                    r.writes = Writes::Held;
                    r.held_at = ago(5000);
                })
            ),
            (
                "held by policy, and not level in time: they stay so",
                behind(-1).held().record(|r| {
                    r.exposed = false;
                    r.held_at = ago(5001);
                }),
            ),
            (
                "held, and it does not answer: writes go on",
                level_and_held().silent(1, 3)
            ),
            (
                "it does not answer and writes are open",
                cluster().joining().silent(1, 3)
            ),
            (
                "its pod is being deleted and writes are open",
                cluster().joining().object(1, |o| o.terminating = true)
            ),
            (
                "its pod is being deleted, held: writes go on",
                level_and_held().object(1, |o| o.terminating = true)
            ),
            (
                "its pod has no address, held: writes go on",
                level_and_held().object(1, |o| o.addressed = false)
            ),
            (
                "policy Always, held, not in time",
                behind(-1).policy(WritesWithoutSync::Always).record(|r| {
                    r.exposed = false;
                    r.writes = Writes::Held;
                    r.held_at = ago(5001);
                })
            ),
        ]
    );
}

#[test]
fn a_level_pod_is_registered_strict() {
    let closed = || cluster().joining().record(|r| r.writes = Writes::Closed);
    assert_table!(
        "pair_join__a_level_pod_is_registered_strict",
        [
            ("writes are held and every gateway said so", level_and_held()),
            ("writes are closed and every gateway said so", closed()),
            (
                "a gateway is one revision behind",
                level_and_held().one_gateway(|g| g.revision.0 -= 1)
            ),
            (
                "a gateway is one term behind",
                level_and_held().one_gateway(|g| g.term.0 -= 1)
            ),
            (
                "a gateway is ahead",
                level_and_held().one_gateway(|g| {
                    g.term.0 += 1;
                    g.revision.0 += 1;
                })
            ),
            (
                "there is no gateway",
                level_and_held().with(|s| s.seen.gateways.clear())
            ),
            (
                "its port is closed",
                level_and_held().pod(1, |p| p.replication_port_open = Some(false))
            ),
            (
                "its port was not tried",
                level_and_held().pod(1, |p| p.replication_port_open = None)
            ),
            (
                "one behind again: not yet",
                level_and_held().listed(1, |r| r.behind = -1)
            ),
            (
                "its process is loose: ended once",
                level_and_held().loose(1, process(1))
            ),
            (
                "MAIN's process is loose: ended once",
                level_and_held().loose(0, process(0))
            ),
            (
                "MAIN's process is loose and its object unknown",
                level_and_held().loose(0, process(0)).pod(0, |p| p.object = None)
            ),
            (
                "another process is loose: nothing",
                level_and_held().loose(2, process(2))
            ),
            (
                "it restarted in this epoch: MAIN begins a new one",
                level_and_held().restarted(1)
            ),
            (
                "it restarted, and MAIN cannot be read",
                level_and_held().restarted(1).answer(0, |a| a.data = None)
            ),
            (
                "it restarted, and MAIN's volume is not known",
                level_and_held().restarted(1).object(0, |o| o.volume = None)
            ),
            (
                "it restarted, and the policy is Never",
                level_and_held().restarted(1).policy(WritesWithoutSync::Never)
            ),
            (
                "it restarted under a suspect MAIN",
                level_and_held()
                    .restarted(1)
                    .record(|r| r.main.as_mut().unwrap().suspect = true)
            ),
            (
                "it restarted under a rebuilt MAIN",
                level_and_held()
                    .restarted(1)
                    .record(|r| r.main.as_mut().unwrap().rebuilt = true)
            ),
        ]
    );
}

#[test]
fn a_registration_that_is_wrong_is_repaired() {
    let wrong = || cluster().joining();
    let held = level_and_held;
    let invalid = |s: Situation| {
        s.listed(1, |r| {
            r.status = Status::Invalid;
            r.since = ago(5000);
        })
    };
    assert_table!(
        "pair_join__a_registration_that_is_wrong_is_repaired",
        [
            (
                "another pod's ASYNC name is its own business",
                wrong().registrations(0, |all| all
                    .push(registration(RegistrationName::Async(Ordinal(3)), Mode::Async)))
            ),
            (
                "mode SYNC, ready, writes open: held first",
                wrong().listed(1, |r| r.mode = Mode::Sync)
            ),
            (
                "mode SYNC, ready, writes held: dropped",
                held().listed(1, |r| r.mode = Mode::Sync)
            ),
            (
                "mode SYNC, ready, writes held, a gateway behind: wait",
                held()
                    .listed(1, |r| r.mode = Mode::Sync)
                    .one_gateway(|g| g.revision.0 -= 1)
            ),
            (
                "mode SYNC, one behind: unsafe",
                held().listed(1, |r| {
                    r.mode = Mode::Sync;
                    r.behind = -1;
                    r.since = ago(4999);
                })
            ),
            (
                "mode SYNC, one behind, and it has not moved since writes stand still: dropped",
                held().listed(1, |r| {
                    r.mode = Mode::Sync;
                    r.behind = -1;
                    r.since = ago(5000);
                })
            ),
            (
                "mode SYNC in recovery: unsafe",
                held().listed(1, |r| {
                    r.mode = Mode::Sync;
                    r.status = Status::Recovery;
                })
            ),
            (
                "mode SYNC and replicating: unsafe",
                held().listed(1, |r| {
                    r.mode = Mode::Sync;
                    r.status = Status::Replicating;
                })
            ),
            (
                "mode SYNC and invalid: dropped",
                invalid(wrong().listed(1, |r| r.mode = Mode::Sync))
            ),
            (
                "ASYNC under a STRICT_SYNC name: held first",
                wrong().listed(1, |r| r.name = strict(1, 5))
            ),
            (
                "ASYNC with a foreign address: held first",
                wrong().listed(1, |r| r.address_ok = false)
            ),
            (
                "ASYNC zombie: dropped at once",
                wrong().listed(1, |r| {
                    r.attached = false;
                    r.status = Status::Invalid;
                    r.since = ago(0);
                })
            ),
            (
                "STRICT_SYNC of an older generation, unprotected: held first",
                cluster().unprotected().listed(1, |r| r.name = strict(1, 4))
            ),
            (
                "STRICT_SYNC of an older generation, held: dropped",
                cluster()
                    .unprotected()
                    .record(|r| r.writes = Writes::Held)
                    .listed(1, |r| r.name = strict(1, 4))
            ),
            (
                "STRICT_SYNC of an older generation, protected: withdrawn",
                cluster().listed(1, |r| r.name = strict(1, 4))
            ),
            (
                "STRICT_SYNC of a younger generation, protected: withdrawn",
                cluster().listed(1, |r| r.name = strict(1, 6))
            ),
            (
                "STRICT_SYNC with a foreign address, protected: withdrawn",
                cluster().listed(1, |r| r.address_ok = false)
            ),
            (
                "STRICT_SYNC zombie, protected: withdrawn and dropped",
                cluster().listed(1, |r| {
                    r.attached = false;
                    r.status = Status::Invalid;
                })
            ),
            (
                "STRICT_SYNC zombie, not protected: retired and dropped",
                cluster().unprotected().listed(1, |r| {
                    r.attached = false;
                    r.status = Status::Invalid;
                })
            ),
            (
                "the same with writes held by policy",
                cluster().held().listed(1, |r| {
                    r.attached = false;
                    r.status = Status::Invalid;
                })
            ),
            (
                "the same with policy Always",
                cluster().policy(WritesWithoutSync::Always).listed(1, |r| {
                    r.attached = false;
                    r.status = Status::Invalid;
                })
            ),
            (
                "the same with policy Never",
                cluster().policy(WritesWithoutSync::Never).listed(1, |r| {
                    r.attached = false;
                    r.status = Status::Invalid;
                })
            ),
            (
                "a second, older registration beside the right one",
                cluster().registrations(0, |all| all.push(registration(strict(1, 4), Mode::StrictSync)))
            ),
            (
                "a loose process that ended is forgotten",
                cluster().loose(2, second(2)).listed(1, |r| r.address_ok = false)
            ),
            (
                "held at the start of the clock is never held",
                cluster().joining().record(|r| r.held_at = Time::ZERO)
            ),
        ]
    );
}

/// A hold made a restarted replica level, and RENEW followed. Without this the next hold came half a minute later, and
/// the cluster was unprotected for so long after every hung MAIN.
#[test]
fn a_hold_belongs_to_its_term() {
    let held = level_and_held().record.expect("a record");
    assert_ne!(held.held_at, Time::ZERO);
    let renewed = held.new_term(a_candidate(0), false, ago(0));
    let moved = held.switching_over(a_candidate(1), ago(0));
    assert_eq!((renewed.held_at, moved.held_at), (Time::ZERO, Time::ZERO));
}
