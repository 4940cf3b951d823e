//! Sleep and wake.

use super::cluster::{Situation, TERM, a_candidate, ago, cluster, process, second};
use super::render::assert_table;
use mainstay_core::memgraph::ids::{DatabaseId, VolumeId};
use mainstay_core::memgraph::observed::{Contact, Status};
use mainstay_core::memgraph::record::Writes;
use mainstay_core::memgraph::spec::WritesWithoutSync;

fn tired() -> Situation {
    cluster().wish(|w| w.hibernated = true)
}

/// Writes are closed, and every gateway said so.
fn closed() -> Situation {
    tired().record(|r| r.writes = Writes::Closed)
}

/// Asleep, and every pod is stopped.
fn asleep() -> Situation {
    let mut asleep = cluster().becomes(|r| r.hibernated(ago(60_000)));
    for pod in 0..3 {
        asleep = asleep.pod(pod, |p| {
            p.object = None;
            p.contact = Contact::Unknown;
        });
    }
    asleep
}

/// Every pod is back in another process.
fn woken() -> Situation {
    cluster()
        .becomes(|r| r.hibernated(ago(60_000)))
        .restarted(0)
        .restarted(1)
        .restarted(2)
}

#[test]
fn falling_asleep() {
    assert_table!(
        "hibernation__falling_asleep",
        [
            ("writes are open: closed first", tired()),
            (
                "writes are held: closed first",
                tired().record(|r| r.writes = Writes::Held)
            ),
            (
                "a gateway is one revision behind",
                closed().one_gateway(|g| g.revision.0 -= 1)
            ),
            (
                "a gateway is one term behind",
                closed().one_gateway(|g| g.term.0 -= 1)
            ),
            ("closed and confirmed: proven once more, then recorded", closed()),
            ("nobody is protected: recorded as it is", closed().unprotected()),
            (
                "the protected pod is in another process: not asleep with it",
                closed().restarted(1)
            ),
            (
                "the protected pod does not answer: not asleep with it",
                closed().silent(1, 3)
            ),
            ("the registration is gone", closed().unregistered(1)),
            (
                "the registration is not ready",
                closed().listed(1, |r| r.status = Status::Recovery)
            ),
            (
                "the registration is a zombie",
                closed().listed(1, |r| r.attached = false)
            ),
            (
                "the registration is of another generation",
                closed().listed(1, |r| r.name = super::cluster::strict(1, 4))
            ),
            (
                "SHOW REPLICAS was not answered",
                closed().answer(0, |a| a.replicas = None)
            ),
            ("MAIN is not healthy: failover first", closed().crashed(0)),
            (
                "loose processes that ended are forgotten",
                tired().loose(2, second(2))
            ),
            (
                "loose processes that ended are forgotten when it is recorded",
                closed().loose(2, second(2))
            ),
            (
                "loose processes that ended are forgotten when protection is taken back",
                closed().restarted(1).loose(2, second(2))
            ),
            (
                "sleep is asked for no more: open again",
                cluster().record(|r| r.writes = Writes::Closed)
            ),
        ]
    );
}

#[test]
fn asleep_and_waking() {
    assert_table!(
        "hibernation__asleep_and_waking",
        [
            ("asleep", asleep().wish(|w| w.hibernated = true)),
            (
                "asleep, and a pod is there",
                woken().wish(|w| w.hibernated = true)
            ),
            (
                "asleep, and one pod of three is there",
                asleep()
                    .wish(|w| w.hibernated = true)
                    .pod(2, |p| p.object = cluster().seen.pods[2].object)
            ),
            ("awake is asked for: pods first", asleep()),
            ("two of three pods are there", woken().pod(2, |p| p.object = None)),
            ("all are there: MAIN is back as it was", woken()),
            (
                "all are there: policy Never",
                woken().policy(WritesWithoutSync::Never)
            ),
            ("MAIN does not answer yet", woken().silent(0, 1)),
            ("MAIN cannot be read yet", woken().answer(0, |a| a.data = None)),
            ("MAIN lost its volume: the proven copy", woken().emptied(0)),
            (
                "MAIN has another database: the proven copy",
                woken().data(0, |d| d.database = DatabaseId(0xee))
            ),
            (
                "MAIN lost its volume, and the proven copy is on another one",
                woken().emptied(0).object(1, |o| o.volume = Some(VolumeId(0xe1)))
            ),
            (
                "MAIN lost its volume, and the mark of the proven copy is another",
                woken().emptied(0).mark(1, Some(TERM.0 - 1))
            ),
            (
                "MAIN lost its volume, and nobody was proven",
                woken().emptied(0).record(|r| r.sync = None)
            ),
            (
                "a suspect history ends with its process",
                woken().record(|r| r.main.as_mut().unwrap().suspect = true)
            ),
            (
                "somebody took MAIN out of the record",
                woken().record(|r| r.main = None)
            ),
            (
                "a loose process that ended is forgotten",
                woken().loose(1, process(1))
            ),
            (
                "a waking turn wrote its term after the pods had gone to sleep again",
                asleep().becomes(|r| r.new_term(a_candidate(0), true, ago(10)))
            ),
            (
                "the same, and sleep is wished for: the term needs its pods first",
                asleep()
                    .becomes(|r| r.new_term(a_candidate(0), true, ago(10)))
                    .wish(|w| w.hibernated = true)
            ),
            (
                "the same, and one pod is left: it is only on its way",
                asleep()
                    .becomes(|r| r.new_term(a_candidate(0), true, ago(10)))
                    .pod(2, |p| p.object = cluster().seen.pods[2].object)
            ),
        ]
    );
}
