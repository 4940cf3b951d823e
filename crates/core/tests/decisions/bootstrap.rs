//! No record, and there never was one: begin, adopt, or say why not.

use super::cluster::{Situation, ago, cluster, fresh, process, registration, second};
use super::render::assert_table;
use mainstay_core::memgraph::ids::{DatabaseId, Ordinal, ProcessId, RegistrationName};
use mainstay_core::memgraph::observed::{Mode, Refusal, Role, Status};
use mainstay_core::memgraph::spec::WritesWithoutSync;

/// A cluster that somebody else made: pod-0 MAIN with pod-1 attached, no mark.
fn existing() -> Situation {
    cluster()
        .never_recorded()
        .mark(0, None)
        .mark(1, None)
        .mark(2, None)
}

/// The same, and pod-1 is not registered.
fn apart() -> Situation {
    existing().unregistered(1)
}

fn refused(code: u8, change: impl FnOnce(&mut Refusal)) -> Situation {
    apart().pod(1, |p| {
        let mut refusal = Refusal {
            at: ago(100),
            by: process(0),
            of: process(1),
            code,
            term: mainstay_core::memgraph::ids::Term(0),
        };
        change(&mut refusal);
        p.refusal = Some(refusal);
    })
}

#[test]
fn a_cluster_begins() {
    assert_table!(
        "bootstrap__a_cluster_begins",
        [
            ("two empty pods", fresh()),
            ("two empty pods, pod-0 is a MAIN", fresh().role(0, Role::Main)),
            ("two empty pods, pod-1 is a MAIN", fresh().role(1, Role::Main)),
            ("two empty MAINs", fresh().role(0, Role::Main).role(1, Role::Main)),
            (
                "statements run before it serves",
                fresh().spec(|s| s.on_promotion = true)
            ),
            ("policy Never", fresh().policy(WritesWithoutSync::Never)),
            ("pod-0 does not answer", fresh().silent(0, 1)),
            ("pod-1 does not answer", fresh().silent(1, 1)),
            (
                "pod-1 answered too long ago",
                fresh().answer(1, |a| a.at = ago(200))
            ),
            ("pod-1 is not ready", fresh().object(1, |o| o.ready = false)),
            ("pod-1 has no address", fresh().object(1, |o| o.addressed = false)),
            (
                "pod-1 is being deleted",
                fresh().object(1, |o| o.terminating = true)
            ),
            ("pod-1 has no volume yet", fresh().object(1, |o| o.volume = None)),
            ("pod-1 has no object", fresh().pod(1, |p| p.object = None)),
            ("pod-1 cannot be read", fresh().answer(1, |a| a.data = None)),
            (
                "pod-2 is not there yet: nobody waits for it",
                fresh().silent(2, 1)
            ),
            ("pod-1 has data", fresh().data(1, |d| d.empty = false)),
            ("pod-0 has data", fresh().data(0, |d| d.empty = false)),
            ("pod-1 is empty and has a mark", fresh().mark(1, Some(1))),
            ("pod-0 is empty and has a mark", fresh().mark(0, Some(1))),
            (
                "two empty pods that are attached already",
                fresh().role(0, Role::Main).registrations(0, |all| all
                    .push(registration(RegistrationName::Async(Ordinal(1)), Mode::Async))),
            ),
            (
                "two empty pods, the other way round",
                fresh().role(1, Role::Main).registrations(1, |all| all
                    .push(registration(RegistrationName::Async(Ordinal(0)), Mode::Async))),
            ),
            (
                "two empty pods and a zombie between them",
                fresh().role(0, Role::Main).registrations(0, |all| {
                    let zombie = registration(RegistrationName::Async(Ordinal(1)), Mode::Async);
                    all.push(mainstay_core::memgraph::observed::Registration {
                        attached: false,
                        ..zombie
                    });
                }),
            ),
        ]
    );
}

#[test]
fn a_cluster_is_adopted() {
    let zombie = || {
        existing().listed(1, |r| {
            r.attached = false;
            r.status = Status::Invalid;
        })
    };
    let taken = |attached| {
        existing().listed(1, |r| {
            r.name = RegistrationName::Async(Ordinal(1));
            r.attached = attached;
            r.address_ok = false;
        })
    };
    assert_table!(
        "bootstrap__a_cluster_is_adopted",
        [
            ("one MAIN with its replica attached", existing()),
            (
                "pod-1 is the MAIN",
                existing()
                    .role(0, Role::Replica)
                    .role(1, Role::Main)
                    .registrations(1, |all| all
                        .push(registration(RegistrationName::Async(Ordinal(0)), Mode::Async)))
            ),
            (
                "a mark in MAIN's data: the term begins above it",
                existing().mark(0, Some(7)).mark(1, Some(7))
            ),
            (
                "the replica has a higher mark",
                existing().mark(0, Some(6)).mark(1, Some(7))
            ),
            (
                "the replica has a lower mark",
                existing().mark(0, Some(7)).mark(1, Some(6))
            ),
            (
                "the replica has a mark and MAIN has none",
                existing().mark(1, Some(1))
            ),
            (
                "MAIN is empty and the replica is not",
                existing().data(0, |d| d.empty = true)
            ),
            (
                "both are empty, and marked",
                existing()
                    .mark(0, Some(1))
                    .mark(1, Some(1))
                    .data(0, |d| d.empty = true)
                    .data(1, |d| d.empty = true)
            ),
            (
                "MAIN has data and the replica is empty",
                existing().data(1, |d| d.empty = true)
            ),
            (
                "the replica is shown as diverged",
                existing().listed(1, |r| r.status = Status::Diverged)
            ),
            (
                "the replica has another database",
                existing().data(1, |d| d.database = DatabaseId(0xee))
            ),
            (
                "the replica has another database and is empty",
                existing().data(1, |d| {
                    d.database = DatabaseId(0xee);
                    d.empty = true;
                })
            ),
            ("two MAINs with data", existing().role(1, Role::Main)),
            ("two replicas with data", existing().role(0, Role::Replica)),
            ("not attached: asked by registering it", apart()),
            (
                "not attached, and its port is closed",
                apart().pod(1, |p| p.replication_port_open = Some(false))
            ),
            (
                "not attached, and its port was not tried",
                apart().pod(1, |p| p.replication_port_open = None)
            ),
            (
                "not attached, with another database",
                apart().data(1, |d| d.database = DatabaseId(0xee))
            ),
            (
                "not attached, another database, empty: asked",
                apart().data(1, |d| {
                    d.database = DatabaseId(0xee);
                    d.empty = true;
                })
            ),
            ("refused with Error 3", refused(3, |_| {})),
            ("refused with another code", refused(5, |_| {})),
            (
                "refused by an earlier MAIN: asked again",
                refused(3, |r| r.by = ProcessId(1))
            ),
            (
                "refused in an earlier process: asked again",
                refused(3, |r| r.of = second(1))
            ),
            ("a zombie under a STRICT_SYNC name: asked", zombie()),
            (
                "a zombie under the name that is needed: dropped first",
                taken(false)
            ),
            ("the name is taken, with a foreign address", taken(true)),
            (
                "attached with a foreign address: asked",
                existing().listed(1, |r| r.address_ok = false)
            ),
        ]
    );
}
