//! MAIN is not healthy: who is suspected on what evidence, and who may take the office.

use super::cluster::{ANSWERED_AT, NOW, READ_AT, Situation, TERM, ago, cluster, cluster_of, process, second};
use super::render::assert_table;
use mainstay_core::memgraph::ids::{DatabaseId, Ordinal, VolumeId};
use mainstay_core::memgraph::observed::{Contact, Role, Status};
use mainstay_core::memgraph::spec::{FenceTimeout, WritesWithoutSync};
use mainstay_core::time::Time;
use std::time::Duration;

/// A gateway had an answer from this process that long ago.
fn heard(situation: Situation, ms: u64) -> Situation {
    situation.one_gateway(|g| g.heard = Some((ago(ms), process(0))))
}

#[test]
fn what_makes_main_suspect() {
    assert_table!(
        "failover__what_makes_main_suspect",
        [
            (
                "the kubelet reported the end of its process",
                cluster().crashed(0)
            ),
            ("its container restarted", cluster().restarted(0)),
            (
                "another process runs there, which does not answer",
                cluster().silent(0, 1).object(0, |o| o.running = Some(second(0)))
            ),
            (
                "it answers as REPLICA in the same process",
                cluster().role(0, Role::Replica)
            ),
            (
                "its pod is being deleted and it is silent once",
                cluster().silent(0, 1).object(0, |o| o.terminating = true)
            ),
            (
                "its pod is being deleted and it still serves",
                cluster().object(0, |o| o.terminating = true)
            ),
            ("refused once", cluster().refused(0, 1)),
            ("refused twice", cluster().refused(0, 2)),
            ("silent for one probe less than it takes", cluster().silent(0, 2)),
            ("silent for as many probes as it takes", cluster().silent(0, 3)),
            (
                "silent for more probes, as declared",
                cluster().silent(0, 3).spec(|s| s.silent_probes = 4)
            ),
            (
                "its object is gone, which is not death, and it was refused once",
                cluster().refused(0, 1).pod(0, |p| p.object = None)
            ),
            (
                "its object is gone and it is silent",
                cluster().silent(0, 3).pod(0, |p| p.object = None)
            ),
            (
                "it was never asked",
                cluster().pod(0, |p| p.contact = Contact::Unknown)
            ),
            (
                "it is not listed at all",
                cluster().with(|s| {
                    s.seen.pods.remove(0);
                })
            ),
            (
                "its answer is older than the record",
                cluster().answer(0, |a| a.at = Time(READ_AT.0 - 1))
            ),
            (
                "its answer is as old as the record",
                cluster().answer(0, |a| a.at = READ_AT)
            ),
            (
                "an answer is stronger than an object that lags behind",
                cluster().object(0, |o| {
                    o.ended = Some(process(0));
                    o.running = Some(second(0));
                }),
            ),
        ]
    );
}

#[test]
fn who_vetoes() {
    let silent = || cluster().silent(0, 3);
    assert_table!(
        "failover__who_vetoes",
        [
            (
                "a gateway had an answer just inside the window",
                heard(silent(), 1999)
            ),
            (
                "a gateway had an answer just outside the window",
                heard(silent(), 2000)
            ),
            (
                "a gateway had an answer and MAIN refuses",
                heard(cluster().refused(0, 2), 1999)
            ),
            (
                "a gateway had an answer and MAIN was silent too seldom",
                heard(cluster().silent(0, 2), 1999)
            ),
            (
                "a gateway had an answer from another process",
                silent().one_gateway(|g| g.heard = Some((NOW, second(0))))
            ),
            (
                "no gateway ever had an answer",
                silent().gateways(|g| g.heard = None)
            ),
            (
                "a veto does not help a process that ended",
                heard(cluster().crashed(0), 1)
            ),
            (
                "a veto does not help a MAIN that was demoted",
                heard(cluster().role(0, Role::Replica), 1)
            ),
            (
                "a veto does not help a pod that is being deleted",
                heard(cluster().silent(0, 1).object(0, |o| o.terminating = true), 1),
            ),
            (
                "a longer window, as declared",
                heard(silent(), 2000).spec(|s| s.veto = Duration::from_millis(2001))
            ),
        ]
    );
}

#[test]
fn who_takes_the_office() {
    let down = || cluster().crashed(0);
    assert_table!(
        "failover__who_takes_the_office",
        [
            ("MAIN is pod-1 and pod-0 is protected", cluster_of(1).crashed(1)),
            ("the protected pod restarted", down().restarted(1)),
            ("the protected pod is silent", down().silent(1, 3)),
            (
                "the protected pod answered before the record was read",
                down().answer(1, |a| a.at = Time(READ_AT.0 - 1))
            ),
            (
                "the protected pod answered when the record was read",
                down().answer(1, |a| a.at = READ_AT)
            ),
            (
                "the protected pod answers as MAIN already",
                down().role(1, Role::Main)
            ),
            (
                "the mark of the protected pod is one below",
                down().mark(1, Some(TERM.0 - 1))
            ),
            (
                "the mark of the protected pod is one above",
                down().mark(1, Some(TERM.0 + 1))
            ),
            ("the protected pod has no mark", down().mark(1, None)),
            (
                "the data of the protected pod cannot be read",
                down().answer(1, |a| a.data = None)
            ),
            (
                "the claim of the protected pod is not known",
                down().object(1, |o| o.volume = None)
            ),
            ("nobody is protected", down().unprotected()),
            (
                "nobody is protected and MAIN is back as REPLICA",
                cluster().restarted(0).unprotected()
            ),
            (
                "the protected pod goes before a MAIN that is back",
                cluster().restarted(0)
            ),
            (
                "an ASYNC pod is never promoted",
                down().silent(1, 3).unprotected()
            ),
            (
                "the protection names another pod",
                down().record(|r| r.sync = r
                    .sync
                    .map(|s| mainstay_core::memgraph::record::Sync { pod: Ordinal(2), ..s })),
            ),
            (
                "the protected process is loose and may serve all the same",
                down().loose(1, process(1))
            ),
            (
                "a loose process that ended is forgotten",
                down().loose(0, process(0))
            ),
            (
                "the candidate was not seen when the epoch began",
                down().record(|r| r.main.as_mut().unwrap().peers.clear())
            ),
            ("a reset under way ends with the term", down().resetting(2)),
        ]
    );
}

#[test]
fn what_a_returning_main_must_have() {
    let back = || cluster().restarted(0).unprotected().silent(1, 3);
    assert_table!(
        "failover__what_a_returning_main_must_have",
        [
            ("everything it had", back()),
            (
                "another volume",
                back().object(0, |o| o.volume = Some(VolumeId(0xe0)))
            ),
            ("no claim that is known", back().object(0, |o| o.volume = None)),
            (
                "another database",
                back().data(0, |d| d.database = DatabaseId(0xee))
            ),
            ("a mark one below", back().mark(0, Some(TERM.0 - 1))),
            ("a mark one above the record", back().mark(0, Some(TERM.0 + 1))),
            ("no mark", back().mark(0, None)),
            ("data that cannot be read", back().answer(0, |a| a.data = None)),
            ("an empty volume", cluster().emptied(0).unprotected()),
            (
                "an answer from before the record was read",
                back().answer(0, |a| a.at = Time(ANSWERED_AT.0 - 100))
            ),
            (
                "its office in a suspect history ends with the process",
                back().record(|r| r.main.as_mut().unwrap().suspect = true)
            ),
            (
                "its suspect history stays with the process",
                cluster()
                    .role(0, Role::Replica)
                    .unprotected()
                    .record(|r| r.main.as_mut().unwrap().suspect = true),
            ),
            (
                "it was demoted by hand in the same process",
                cluster().role(0, Role::Replica).unprotected(),
            ),
            (
                "it was demoted by hand in a rebuilt process",
                cluster()
                    .role(0, Role::Replica)
                    .unprotected()
                    .record(|r| r.main.as_mut().unwrap().rebuilt = true),
            ),
            (
                "it starts as MAIN, without the init file",
                back().role(0, Role::Main).object(0, |o| o.start_fence = false),
            ),
        ]
    );
}

#[test]
fn how_the_old_main_is_fenced_and_what_is_open_afterwards() {
    let hung = || cluster().silent(0, 3);
    assert_table!(
        "failover__how_the_old_main_is_fenced_and_what_is_open_afterwards",
        [
            (
                "its end is no fence without the init file",
                cluster().crashed(0).object(0, |o| o.start_fence = false)
            ),
            (
                "its end is no fence without an object",
                hung().pod(0, |p| p.object = None)
            ),
            (
                "policy Wait",
                hung().spec(|s| s.fence_timeout = FenceTimeout::Wait)
            ),
            (
                "statements run before it serves",
                hung().spec(|s| s.on_promotion = true)
            ),
            ("policy Always", hung().policy(WritesWithoutSync::Always)),
            ("policy Never", hung().policy(WritesWithoutSync::Never)),
            (
                "a MAIN whose object says deleted and that answers as another MAIN process",
                {
                    cluster()
                        .answer(0, |a| a.process = second(0))
                        .object(0, |o| o.start_fence = false)
                }
            ),
            (
                "an ASYNC replica in any state delays nothing",
                hung().silent(2, 3)
            ),
        ]
    );
}

#[test]
fn a_replica_that_is_ahead_closes_writes() {
    let ahead = || cluster().listed(1, |r| r.behind = 1);
    assert_table!(
        "failover__a_replica_that_is_ahead_closes_writes",
        [
            ("protected: it takes the office", ahead()),
            ("not protected: writes are closed", ahead().unprotected()),
            (
                "not protected and closed: a human",
                ahead()
                    .unprotected()
                    .record(|r| r.writes = mainstay_core::memgraph::record::Writes::Closed)
            ),
            ("level: nothing", cluster().listed(1, |r| r.behind = 0)),
            (
                "a zombie proves nothing",
                ahead().unprotected().listed(1, |r| r.attached = false)
            ),
            (
                "catching up proves nothing",
                ahead().unprotected().listed(1, |r| r.status = Status::Recovery)
            ),
            (
                "an ASYNC pod that is ahead proves nothing",
                cluster().listed(2, |r| r.behind = 1)
            ),
            (
                "a loose process that ended is forgotten",
                ahead().unprotected().loose(2, second(2))
            ),
        ]
    );
}
