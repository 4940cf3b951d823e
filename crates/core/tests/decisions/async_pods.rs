//! Pods outside the pair: registered, repaired, dropped when they are gone for good; never in the way.

use super::cluster::{Situation, ago, cluster, process, registration, second, strict};
use super::render::assert_table;
use mainstay_core::memgraph::ids::{Ordinal, RegistrationName};
use mainstay_core::memgraph::observed::{Mode, Role, Status};
use mainstay_core::memgraph::record::Writes;

#[test]
fn async_pods() {
    let missing = || cluster().unregistered(2);
    let scaled_down = || cluster().spec(|s| s.replicas = 2);
    assert_table!(
        "async_pods",
        [
            ("not registered", missing()),
            (
                "not registered, being deleted",
                missing().object(2, |o| o.terminating = true)
            ),
            (
                "not registered, without an address",
                missing().object(2, |o| o.addressed = false)
            ),
            (
                "not registered, its object is gone",
                missing().pod(2, |p| p.object = None)
            ),
            (
                "not registered, its port is closed",
                missing().pod(2, |p| p.replication_port_open = Some(false))
            ),
            (
                "not registered, its port was not tried",
                missing().pod(2, |p| p.replication_port_open = None)
            ),
            (
                "it does not answer: its registration is left",
                cluster().silent(2, 3)
            ),
            ("it restarted and is ready: nothing", cluster().restarted(2)),
            ("it answers as MAIN", cluster().role(2, Role::Main)),
            (
                "it answers as MAIN, and a loose process that ended is forgotten",
                cluster().role(2, Role::Main).loose(1, second(1))
            ),
            (
                "in recovery: a warning",
                cluster().listed(2, |r| r.status = Status::Recovery)
            ),
            (
                "invalid for a moment: a warning",
                cluster().listed(2, |r| {
                    r.status = Status::Invalid;
                    r.since = ago(4999);
                })
            ),
            (
                "invalid for long: made anew",
                cluster().listed(2, |r| {
                    r.status = Status::Invalid;
                    r.since = ago(5000);
                })
            ),
            (
                "a zombie: made anew",
                cluster().listed(2, |r| {
                    r.status = Status::Invalid;
                    r.since = ago(0);
                    r.attached = false;
                })
            ),
            (
                "a foreign address, ready, writes open: left for now",
                cluster().listed(2, |r| r.address_ok = false)
            ),
            (
                "a foreign address, invalid for long",
                cluster().listed(2, |r| {
                    r.address_ok = false;
                    r.status = Status::Invalid;
                })
            ),
            (
                "a foreign address, ready, writes closed: made anew",
                cluster()
                    .unprotected()
                    .silent(1, 3)
                    .unregistered(1)
                    .record(|r| r.writes = Writes::Closed)
                    .listed(2, |r| r.address_ok = false)
            ),
            (
                "under a STRICT_SYNC name, writes closed: made anew",
                cluster()
                    .unprotected()
                    .silent(1, 3)
                    .unregistered(1)
                    .record(|r| r.writes = Writes::Closed)
                    .listed(2, |r| {
                        r.name = strict(2, 5);
                        r.mode = Mode::StrictSync;
                    })
            ),
            (
                "right, writes closed: left",
                cluster()
                    .unprotected()
                    .silent(1, 3)
                    .unregistered(1)
                    .record(|r| r.writes = Writes::Closed)
            ),
            (
                "it goes on while the pair waits",
                missing().listed(1, |r| r.status = Status::Recovery)
            ),
            ("the pair goes first", missing().unregistered(1)),
            (
                "SHOW REPLICAS was not answered",
                missing().answer(0, |a| a.replicas = None)
            ),
            ("scaled down, ready, writes open: not yet", scaled_down()),
            (
                "scaled down, gone and invalid: dropped",
                scaled_down()
                    .with(|s| {
                        s.seen.pods.remove(2);
                    })
                    .listed(2, |r| {
                        r.status = Status::Invalid;
                        r.since = ago(0);
                    })
            ),
            (
                "scaled down, still there, not registered: not registered",
                scaled_down().unregistered(2)
            ),
            (
                "two of them: the first that needs something",
                cluster()
                    .with(|s| {
                        let mut extra = s.seen.pods[2].clone();
                        extra.ordinal = Ordinal(3);
                        s.seen.pods.push(extra);
                        s.seen.spec.replicas = 4;
                    })
                    .silent(2, 3)
            ),
            (
                "a second row of an ASYNC pod",
                cluster().registrations(0, |all| all
                    .push(registration(RegistrationName::Async(Ordinal(3)), Mode::Async)))
            ),
            (
                "a loose ASYNC process is left alone",
                cluster().loose(2, process(2))
            ),
        ]
    );
}

#[test]
fn an_async_pod_that_is_registered_otherwise() {
    let wrong = || cluster().listed(2, |r| r.address_ok = false);
    let held = |ms| {
        wrong().record(|r| {
            r.writes = Writes::Held;
            r.held_at = ago(ms);
        })
    };
    let behind = |s: Situation| s.one_gateway(|g| g.revision.0 -= 1);
    assert_table!(
        "async_pods__registered_otherwise",
        [
            ("ready and level, writes open: held first", wrong()),
            (
                "in mode SYNC: held first",
                cluster().listed(2, |r| r.mode = Mode::Sync)
            ),
            (
                "under a STRICT_SYNC name: held first",
                cluster().listed(2, |r| r.name = strict(2, 5))
            ),
            ("one behind: left", wrong().listed(2, |r| r.behind = -1)),
            (
                "catching up: left",
                wrong().listed(2, |r| r.status = Status::Recovery)
            ),
            (
                "a zombie is made anew in its turn",
                wrong().listed(2, |r| r.attached = false)
            ),
            ("writes held and confirmed: dropped", held(1000)),
            ("a gateway is behind, and there is time left", behind(held(5000))),
            (
                "a gateway is behind, and the time is over: writes go on",
                behind(held(5001))
            ),
            (
                "held less than a pause ago: left",
                wrong().record(|r| r.held_at = ago(29_999))
            ),
            (
                "held a pause ago: held again",
                wrong().record(|r| r.held_at = ago(30_000))
            ),
            (
                "a loose process that ended is forgotten",
                wrong().loose(1, second(1))
            ),
            (
                "an authority pod is the pair's business",
                cluster().listed(1, |r| r.address_ok = false)
            ),
        ]
    );
}

/// A replica that came back empty between two pings was called `ready` and stayed empty until somebody wrote.
#[test]
fn an_empty_replica_that_main_calls_ready_is_found_out_by_a_commit() {
    let hollow = || cluster().mark(2, None);
    assert_table!(
        "async_pods__an_empty_replica_is_found_out",
        [
            ("it is empty", hollow()),
            (
                "what is on it could not be read",
                cluster().answer(2, |a| a.data = None)
            ),
            (
                "it catches up already",
                hollow().listed(2, |r| r.status = Status::Recovery)
            ),
            (
                "writes do not stand open",
                hollow().record(|r| r.writes = Writes::Closed)
            ),
            ("MAIN lost its own mark", hollow().mark(0, None)),
            (
                "its reset is not over before it has the data",
                hollow().resetting(2).restarted(2).mark(2, None)
            ),
            ("and then it is", cluster().resetting(2).restarted(2)),
        ]
    );
}
