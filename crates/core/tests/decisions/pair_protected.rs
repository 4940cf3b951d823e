//! Protected: kept open, and withdrawn when what was proven is gone.

use super::cluster::{Situation, cluster, cluster_of, second};
use super::render::assert_table;
use mainstay_core::memgraph::ids::{Ordinal, RegistrationName};
use mainstay_core::memgraph::observed::Mode;
use mainstay_core::memgraph::record::{Sync, Writes};
use mainstay_core::memgraph::spec::WritesWithoutSync;

/// Somebody registered pod-1 anew as ASYNC.
fn by_hand() -> Situation {
    cluster().listed(1, |r| {
        r.name = RegistrationName::Async(Ordinal(1));
        r.mode = Mode::Async;
    })
}

#[test]
fn a_protected_pair() {
    assert_table!(
        "pair_protected__a_protected_pair",
        [
            ("pod-1 is MAIN", cluster_of(1)),
            (
                "writes were held: they are open again",
                cluster().record(|r| r.writes = Writes::Held)
            ),
            (
                "writes were closed: they are open again",
                cluster().record(|r| r.writes = Writes::Closed)
            ),
            ("the protected pod does not answer", cluster().silent(1, 3)),
            (
                "the record calls another pod protected, by a human's edit",
                cluster().record(|r| r.sync = r.sync.map(|s| Sync { pod: Ordinal(2), ..s }))
            ),
            ("the registration was dropped by hand", cluster().unregistered(1)),
            (
                "dropped by hand, policy Always",
                cluster().unregistered(1).policy(WritesWithoutSync::Always)
            ),
            (
                "dropped by hand, policy Never",
                cluster().unregistered(1).policy(WritesWithoutSync::Never)
            ),
            (
                "dropped by hand, exposed by a failover",
                cluster().unregistered(1).record(|r| r.exposed = true)
            ),
            ("registered anew as ASYNC by hand", by_hand()),
            (
                "SHOW REPLICAS was not answered",
                cluster().answer(0, |a| a.replicas = None)
            ),
            (
                "writes are open and nobody protects them, policy Never",
                cluster().unprotected().policy(WritesWithoutSync::Never)
            ),
            (
                "writes are open, nobody protects them, and there was no failover",
                cluster().unprotected().record(|r| r.exposed = false)
            ),
            (
                "writes are open, nobody protects them, policy Always",
                cluster()
                    .unprotected()
                    .silent(1, 3)
                    .policy(WritesWithoutSync::Always)
                    .record(|r| r.exposed = false)
            ),
            (
                "writes are held by a stricter policy: they stay so",
                cluster().held().silent(1, 3).policy(WritesWithoutSync::Never)
            ),
            (
                "policy Never and a loose process that ended",
                cluster()
                    .unprotected()
                    .policy(WritesWithoutSync::Never)
                    .loose(2, second(2))
            ),
            (
                "MAIN's data cannot be read",
                cluster().answer(0, |a| a.data = None)
            ),
            (
                "the mark is gone from the replica's data only",
                cluster().mark(1, None)
            ),
            (
                "the mark is gone from MAIN's data",
                cluster().mark(0, None).mark(1, None)
            ),
            (
                "a loose process that ended is forgotten",
                cluster().unregistered(1).loose(2, second(2))
            ),
        ]
    );
}
