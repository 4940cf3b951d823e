//! What a turn waits for, and what init containers and gateways decide at the edges.

use super::cluster::{TERM, cluster, process, second, strict, volume};
use mainstay_core::memgraph::ids::{Ordinal, ResetId, Revision, Term};
use mainstay_core::memgraph::observed::{Observed, Role};
use mainstay_core::memgraph::plan::{Step, Target};
use mainstay_core::memgraph::prepare::{Asked, Marker, Prepare, prepare};
use mainstay_core::memgraph::record::{Record, Reset, Sync};
use mainstay_core::memgraph::rules::Rules;
use mainstay_core::memgraph::spec::{Durability, FenceTimeout};
use mainstay_core::memgraph::turn::{FencedBy, awaited, confirmed, fenced};
use mainstay_core::memgraph::{counts_as_protected, pair_fsyncs};

const NEXT: Term = Term(TERM.0 + 1);

fn old() -> Target {
    Target {
        pod: Ordinal(0),
        process: process(0),
    }
}

fn fence(seen: &Observed, start_fence: bool) -> Option<FencedBy> {
    let step = Step::AwaitFence {
        old: old(),
        start_fence,
        term: NEXT,
        otherwise: FenceTimeout::Wait,
    };
    let by = fenced(old(), start_fence, NEXT, seen);
    assert_eq!(
        awaited(&step, seen),
        by.is_some(),
        "the step waits for nothing else"
    );
    assert_eq!(
        confirmed(&step, seen),
        by == Some(FencedBy::Gateways),
        "what a pod said or did is no word of a gateway"
    );
    by
}

#[test]
fn the_old_main_is_fenced_by_its_demotion_its_end_or_every_gateway() {
    assert_eq!(fence(&cluster().seen, true), None, "it serves");
    assert_eq!(
        fence(&cluster().role(0, Role::Replica).seen, true),
        Some(FencedBy::Demotion)
    );
    assert_eq!(fence(&cluster().crashed(0).seen, true), Some(FencedBy::Death));
    assert_eq!(
        fence(&cluster().crashed(0).seen, false),
        None,
        "without the init file it may start as MAIN (R13)"
    );
    assert_eq!(
        fence(&cluster().silent(0, 9).seen, true),
        None,
        "silence is no proof"
    );
    let told = cluster().gateways(|g| g.term = NEXT);
    assert_eq!(fence(&told.clone().seen, true), Some(FencedBy::Gateways));
    assert_eq!(
        fence(&told.one_gateway(|g| g.term = TERM).seen, true),
        None,
        "one gateway is missing"
    );
}

#[test]
fn gateways_are_awaited_by_term_and_revision() {
    let step = Step::AwaitGateways(NEXT, Revision(21));
    let told =
        |term, revision| cluster().gateways(move |g| (g.term, g.revision) = (term, Revision(revision)));
    assert!(
        !awaited(&step, &told(TERM, 99).seen),
        "revisions of an older term say nothing (R19)"
    );
    assert!(!awaited(&step, &told(NEXT, 20).seen));
    assert!(awaited(&step, &told(NEXT, 21).seen));
    assert!(awaited(&step, &told(NEXT.next(), 1).seen));
    assert!(
        !awaited(
            &step,
            &told(NEXT, 21).one_gateway(|g| g.revision = Revision(20)).seen
        ),
        "one is missing"
    );
    assert!(
        !awaited(&Step::Promote(old()), &cluster().role(0, Role::Replica).seen),
        "this one does not wait"
    );
}

fn asked_to_wipe() -> Record {
    let reset = Reset {
        pod: Ordinal(1),
        process: process(1),
        id: ResetId(20),
        term: TERM,
        since: super::cluster::NOW,
        keep: false,
    };
    cluster()
        .unprotected()
        .record
        .expect("there is a record")
        .resetting(reset)
}

fn init_container(pod: u8, record: &Record) -> Prepare {
    let marker = Marker {
        id: ResetId(20),
        term: TERM,
    };
    prepare(
        Some(marker),
        Some(process(1)),
        Ordinal(pod),
        Asked::Record(record),
        Rules::ALL,
    )
}

#[test]
fn nobody_who_holds_an_office_is_wiped() {
    assert_eq!(init_container(1, &asked_to_wipe()), Prepare::Wipe(ResetId(20)));
    let mut main = asked_to_wipe();
    main.main.as_mut().unwrap().pod = Ordinal(1);
    assert_eq!(init_container(1, &main), Prepare::Stale, "it is MAIN");
    let mut protected = asked_to_wipe();
    let (process, volume, name) = (second(1), volume(1), strict(1, 5));
    protected.sync = Some(Sync {
        pod: Ordinal(1),
        process,
        volume,
        name,
    });
    assert_eq!(init_container(1, &protected), Prepare::Stale, "it protects MAIN");
    protected.sync = Some(Sync {
        pod: Ordinal(0),
        process,
        volume,
        name,
    });
    assert_eq!(
        init_container(1, &protected),
        Prepare::Wipe(ResetId(20)),
        "another one does"
    );
    let mut later = asked_to_wipe();
    later.term = NEXT;
    assert_eq!(init_container(1, &later), Prepare::Stale, "the term is over");
}

#[test]
fn r12_without_fsync_nobody_is_called_protected() {
    let protected = cluster().record.expect("there is a record");
    assert!(counts_as_protected(Durability::Strict, true, &protected));
    assert!(!counts_as_protected(Durability::Relaxed, true, &protected));
    assert!(!counts_as_protected(Durability::Strict, false, &protected));
    let alone = cluster().unprotected().record.expect("there is a record");
    assert!(!counts_as_protected(Durability::Strict, true, &alone));
}

#[test]
fn r12_a_pair_writes_through_to_disk_if_both_of_its_pods_do() {
    let fsyncs = |without: Option<u8>| {
        let cluster = match without {
            Some(pod) => cluster().object(pod, |o| o.fsync = false),
            None => cluster(),
        };
        let record = cluster.record.clone().expect("there is a record");
        pair_fsyncs(&cluster.seen, &record)
    };
    assert!(fsyncs(None));
    assert!(!fsyncs(Some(0)), "MAIN");
    assert!(!fsyncs(Some(1)), "SYNC");
    assert!(fsyncs(Some(2)), "an ASYNC replica protects nobody");
}
