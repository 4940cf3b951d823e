//! The record was there and is gone: rebuilt only around one proven MAIN, above every term that was seen.

use super::cluster::{Situation, cluster, fresh};
use super::render::assert_table;
use mainstay_core::memgraph::ids::Term;
use mainstay_core::memgraph::observed::Role;

fn lost() -> Situation {
    cluster().record_lost()
}

#[test]
fn the_record_is_lost() {
    assert_table!(
        "lost_record__the_record_is_lost",
        [
            ("one MAIN with its replica attached", lost()),
            (
                "the status knew a higher term",
                lost().memory(|m| m.status_term = Some(Term(9)))
            ),
            (
                "a gateway knew a higher term",
                lost().one_gateway(|g| g.term = Term(9))
            ),
            ("the data of MAIN knows a higher term", lost().mark(0, Some(9))),
            (
                "the data of the replica knows a higher term",
                lost().mark(1, Some(9))
            ),
            (
                "MAIN is not attached to its replica: asked",
                lost().unregistered(1)
            ),
            ("both restarted", lost().restarted(0).restarted(1)),
            ("two MAINs", lost().role(1, Role::Main)),
            (
                "both pods are empty: never begun anew",
                fresh().memory(|m| m.status_term = Some(Term(3)))
            ),
            ("a pod is missing", lost().silent(1, 3)),
        ]
    );
}
