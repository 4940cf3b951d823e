//! A diverged replica: who is wrong, whether it is reset, and how a reset goes on.

use super::cluster::{Situation, ago, cluster, process, second};
use super::render::assert_table;
use mainstay_core::memgraph::ids::{DatabaseId, Ordinal, Pods, ProcessId, Term};
use mainstay_core::memgraph::observed::{Approval, Refusal, Status};
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::record::{Record, Reset, Sync, Writes};
use mainstay_core::memgraph::spec::WritesWithoutSync;
use std::time::Duration;

/// An ex-MAIN, pod-1, that MAIN refused as diverged.
fn ex_main() -> Situation {
    cluster()
        .unprotected()
        .unregistered(1)
        .accused(1, 3)
        .mark(1, Some(2))
}

/// An ASYNC pod that MAIN refused as diverged.
fn async_pod() -> Situation {
    cluster().unregistered(2).accused(2, 3)
}

fn refusal(change: impl FnOnce(&mut Refusal)) -> Situation {
    async_pod().pod(2, |p| change(p.refusal.as_mut().unwrap()))
}

#[test]
fn who_is_diverged() {
    assert_table!(
        "resets__who_is_diverged",
        [
            ("an ex-MAIN that was refused with Error 3", ex_main()),
            ("an ASYNC pod that was refused with Error 3", async_pod()),
            (
                "refused with another code",
                cluster().unregistered(2).accused(2, 5)
            ),
            ("refused by a MAIN that is gone", refusal(|r| r.by = ProcessId(1))),
            ("refused in an earlier process", refusal(|r| r.of = second(2))),
            (
                "shown as diverged, ASYNC pod",
                cluster().listed(2, |r| r.status = Status::Diverged)
            ),
            (
                "shown as diverged, joining",
                cluster()
                    .joining()
                    .listed(1, |r| r.status = Status::Diverged)
                    .mark(1, Some(2))
            ),
            (
                "another database",
                cluster().data(2, |d| d.database = DatabaseId(0xee))
            ),
            (
                "another database, empty, with a mark",
                cluster().data(2, |d| {
                    d.database = DatabaseId(0xee);
                    d.empty = true;
                })
            ),
            (
                "another database, with data, no mark",
                cluster().mark(2, None).data(2, |d| d.database = DatabaseId(0xee))
            ),
            (
                "another database, empty, no mark: a new pod",
                cluster().mark(2, None).data(2, |d| {
                    d.database = DatabaseId(0xee);
                    d.empty = true;
                })
            ),
            (
                "data that cannot be read is not foreign",
                cluster().answer(2, |a| a.data = None)
            ),
            (
                "another database, joining",
                cluster()
                    .unprotected()
                    .unregistered(1)
                    .data(1, |d| d.database = DatabaseId(0xee))
            ),
        ]
    );
}

#[test]
fn who_is_wrong() {
    let both = || ex_main().unregistered(2).accused(2, 3);
    let suspect = |s: Situation| s.record(|r| r.main.as_mut().unwrap().suspect = true);
    let rebuilt = |s: Situation| s.record(|r| r.main.as_mut().unwrap().rebuilt = true);
    assert_table!(
        "resets__who_is_wrong",
        [
            ("every one of two peers is accused: MAIN", both()),
            (
                "every one of two peers, and MAIN's object is unknown",
                both().pod(0, |p| p.object = None)
            ),
            ("one of two peers: the peer", ex_main()),
            ("the only peer that answers: the peer", ex_main().silent(2, 3)),
            (
                "the only peer, shown as diverged in the list",
                cluster()
                    .joining()
                    .listed(1, |r| r.status = Status::Diverged)
                    .mark(1, Some(2))
                    .silent(2, 3)
            ),
            (
                "every peer, but MAIN's history was rebuilt: the peer",
                rebuilt(both())
            ),
            (
                "every peer, MAIN's history was rebuilt, but it keeps a snapshot: a human",
                rebuilt(both()).data(0, |d| d.snapshots = true)
            ),
            (
                "MAIN's history is suspect: MAIN, with one peer accused",
                suspect(ex_main())
            ),
            (
                "MAIN's history is suspect and was rebuilt: MAIN",
                rebuilt(suspect(ex_main()))
            ),
            (
                "the other peer was not asked yet: it waits",
                ex_main().unregistered(2)
            ),
            (
                "the other peer was not asked yet, and a human approved",
                ex_main().unregistered(2).approves(1)
            ),
            (
                "the other peer is accepted and catching up: the accused",
                ex_main().listed(2, |r| r.status = Status::Recovery)
            ),
            (
                "the other peer is accepted and replicating: the accused",
                ex_main().listed(2, |r| r.status = Status::Replicating)
            ),
            (
                "the other peer is listed and invalid: it waits",
                ex_main().listed(2, |r| {
                    r.status = Status::Invalid;
                    r.since = ago(0);
                })
            ),
            (
                "the other peer is a zombie: it waits",
                ex_main().listed(2, |r| {
                    r.attached = false;
                    r.since = ago(0);
                })
            ),
            (
                "every peer, MAIN's history was rebuilt, it keeps a snapshot, and a human approved one",
                rebuilt(both()).data(0, |d| d.snapshots = true).approves(1)
            ),
            (
                "it was refused in an earlier term",
                ex_main().pod(1, |p| p.refusal.as_mut().unwrap().term.0 -= 1)
            ),
            (
                "the accused has data of a term that MAIN's history is right about",
                ex_main().mark(1, Some(1))
            ),
            (
                "the accused has older data: it may only be behind",
                ex_main().mark(1, Some(0))
            ),
            (
                "the accused has older data, and the other peer comes and goes: a human all the same",
                ex_main().mark(1, Some(0)).listed(2, |r| {
                    r.status = Status::Invalid;
                    r.since = ago(0);
                })
            ),
            (
                "the accused has no mark: it may only be behind",
                ex_main().mark(1, None)
            ),
            (
                "the accused cannot be read: it may only be behind",
                ex_main().answer(1, |a| a.data = None)
            ),
            (
                "the accused has older data, and a human approved",
                ex_main().mark(1, Some(0)).approves(1)
            ),
            (
                "the accused has older data, and a human approved another one",
                ex_main().mark(1, Some(0)).approves(2)
            ),
            (
                "another database is foreign, however old its mark",
                cluster()
                    .mark(2, Some(0))
                    .data(2, |d| d.database = DatabaseId(0xee))
            ),
            (
                "MAIN's history is suspect, and a pod has another database: the pod",
                suspect(cluster().data(2, |d| d.database = DatabaseId(0xee)))
            ),
        ]
    );
}

#[test]
fn what_stands_in_the_way_of_a_reset() {
    // The record names a pod outside the pair, which only a human's edit does: the pair asks no other way.
    let protected = || {
        async_pod()
            .record(|r| r.sync = r.sync.map(|s| Sync { pod: Ordinal(2), ..s }))
            .listed(1, |r| r.status = Status::Recovery)
    };
    let approved = |s: Situation| s.approves(2);
    let young = |ms| async_pod().record(|r| r.since = ago(ms));
    // MAIN took the office in term 2, and was promoted again in term 3.
    let promoted_again = || ex_main().record(|r| r.main.as_mut().unwrap().office_from = Term(2));
    assert_table!(
        "resets__what_stands_in_the_way_of_a_reset",
        [
            (
                "as many resets as an hour may have",
                async_pod().memory(|m| m.resets_last_hour = 3)
            ),
            ("one less", async_pod().memory(|m| m.resets_last_hour = 2)),
            (
                "as many, as declared",
                async_pod()
                    .memory(|m| m.resets_last_hour = 2)
                    .spec(|s| s.resets_per_hour = 2)
            ),
            (
                "no room for the quarantine",
                async_pod().memory(|m| m.crowded = Pods::from_iter([Ordinal(2)]))
            ),
            (
                "another pod has no room: no matter",
                async_pod().memory(|m| m.crowded = Pods::from_iter([Ordinal(1)]))
            ),
            ("an ASYNC pod in a young term", young(119_999)),
            ("an ASYNC pod, the quiet time is over", young(120_000)),
            (
                "an ASYNC pod in a young term, approved",
                young(119_999).approves(2)
            ),
            (
                "an ASYNC pod in a young term, another one approved",
                young(119_999).approves(1)
            ),
            (
                "a longer quiet time, as declared",
                young(120_000).spec(|s| s.reset_quiet = Duration::from_millis(120_001))
            ),
            (
                "an ex-MAIN in a young term",
                ex_main().record(|r| r.since = ago(0))
            ),
            (
                "another reset is under way",
                async_pod().unprotected().unregistered(1).crashed(1).resetting(1)
            ),
            (
                "a loose process that ended is forgotten",
                async_pod().loose(1, second(1))
            ),
            (
                "it followed this MAIN in this term, so it may have protected it",
                ex_main().mark(1, Some(3))
            ),
            (
                "it followed this MAIN in this term, approved",
                ex_main().mark(1, Some(3)).approves(1)
            ),
            (
                "it followed this MAIN, which was promoted again since",
                promoted_again().mark(1, Some(2))
            ),
            (
                "it followed this MAIN, which was promoted again since, approved",
                promoted_again().mark(1, Some(2)).approves(1)
            ),
            (
                "it was MAIN before this one, which was promoted again since",
                promoted_again().mark(1, Some(1))
            ),
            ("it is the protected pod", protected()),
            (
                "it is the protected pod, approved: protection is taken back first",
                approved(protected())
            ),
            (
                "it is the protected pod, approved, policy Always",
                approved(protected()).policy(WritesWithoutSync::Always),
            ),
            (
                "it is the protected pod, approved, and a loose process that ended is forgotten",
                approved(protected()).loose(1, second(1)),
            ),
        ]
    );
}

#[test]
fn a_human_asks_for_a_reset() {
    let wished = |pod: u8, process| {
        cluster().wishing(|w| {
            w.reset = Some(Approval {
                pod: Ordinal(pod),
                process,
            });
        })
    };
    assert_table!(
        "resets__a_human_asks_for_a_reset",
        [
            ("of an ASYNC pod that is well", wished(2, process(2))),
            ("of a process that is gone", wished(2, second(2))),
            (
                "in a young term: a human looked",
                wished(2, process(2)).record(|r| r.since = ago(0))
            ),
            (
                "and its volume has no room",
                wished(2, process(2)).memory(|m| m.crowded = Pods::ALL)
            ),
            (
                "and the hour had its share",
                wished(2, process(2)).memory(|m| m.resets_last_hour = 3)
            ),
            ("of MAIN", wished(0, process(0))),
            ("of the protected pod that is well", wished(1, process(1))),
        ]
    );
}

#[test]
fn a_reset_under_way() {
    let back = || cluster().resetting(2).restarted(2);
    assert_table!(
        "resets__a_reset_under_way",
        [
            (
                "its process still runs: marker and delete again",
                cluster().resetting(2).unregistered(2)
            ),
            (
                "its pod is being deleted: wait",
                cluster()
                    .resetting(2)
                    .unregistered(2)
                    .object(2, |o| o.terminating = true)
            ),
            (
                "its process ended and nothing runs: wait",
                cluster().resetting(2).unregistered(2).crashed(2)
            ),
            (
                "its object is gone: wait",
                cluster()
                    .resetting(2)
                    .unregistered(2)
                    .silent(2, 3)
                    .pod(2, |p| p.object = None)
            ),
            ("another process runs and is ready: over", back()),
            (
                "another process runs and is not ready: wait",
                back().listed(2, |r| r.status = Status::Recovery)
            ),
            (
                "another process runs and is a zombie: not over",
                back().listed(2, |r| r.attached = false)
            ),
            (
                "another process runs and is not registered: joins",
                back().unregistered(2)
            ),
            (
                "it belongs to an older term",
                cluster()
                    .resetting(2)
                    .record(|r| r.reset.as_mut().unwrap().term.0 -= 1)
            ),
            (
                "it is about MAIN",
                cluster().record(|r| r.reset = Some(Reset {
                    pod: Ordinal(0),
                    process: process(0),
                    id: mainstay_core::memgraph::ids::ResetId(20),
                    term: r.term,
                    since: ago(1000),
                    keep: false,
                }))
            ),
            ("it is about the protected pod", cluster().resetting(1)),
            (
                "its process still runs and its registration is ready: not over",
                cluster().resetting(2)
            ),
            (
                "a loose process that ended is forgotten",
                back().loose(1, second(1))
            ),
            (
                "writes stay as they are",
                back().record(|r| r.writes = Writes::Held)
            ),
        ]
    );
}

#[test]
fn what_may_hold_a_lost_write_is_kept() {
    let kept = |situation: Situation| {
        let written = situation.plan().steps.into_iter().find_map(|p| match p.step {
            Step::WriteRecord(record) => record.reset.map(|reset| reset.keep),
            _ => None,
        });
        written.expect("it is reset")
    };
    let office = |from| move |s: Situation| s.record(|r| r.main.as_mut().unwrap().office_from = Term(from));
    assert!(
        !kept(office(2)(async_pod().mark(2, Some(2)))),
        "it followed this MAIN"
    );
    assert!(
        kept(office(3)(async_pod().mark(2, Some(2)))),
        "it followed the one before"
    );
    let rival = |r: &mut Record| r.main.as_mut().unwrap().rival = Some(Term(2));
    assert!(
        kept(office(1)(async_pod().mark(2, Some(2))).record(rival)),
        "the other pod of the pair marked it, and never served"
    );
    assert!(
        kept(async_pod().mark(2, None).approves(2)),
        "nobody knows whom it followed"
    );
    assert!(
        !kept(ex_main()),
        "nobody was told that what only an ex-MAIN has is there"
    );
    let wished = cluster().wishing(|w| {
        w.reset = Some(Approval {
            pod: Ordinal(2),
            process: process(2),
        });
    });
    assert!(
        !kept(office(3)(wished.mark(2, Some(2)))),
        "a human wants it to go"
    );
    let foreign = cluster()
        .unregistered(2)
        .data(2, |d| d.database = DatabaseId(0xf0));
    assert!(kept(foreign), "of another database");
}
