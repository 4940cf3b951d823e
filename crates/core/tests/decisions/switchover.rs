//! A planned move: begun only to a protected and level pod, gone on with, or given up.

use super::cluster::{Situation, TERM, ago, cluster, cluster_of, process, second};
use super::render::assert_table;
use mainstay_core::memgraph::ids::{Gen, Ordinal, RegistrationName};
use mainstay_core::memgraph::observed::{Role, Status};
use mainstay_core::memgraph::spec::{FenceTimeout, WritesWithoutSync};
use std::time::Duration;

fn wanted() -> Situation {
    cluster().wish(|w| w.switchover = Some(Ordinal(1)))
}

#[test]
fn a_move_is_begun_or_refused() {
    assert_table!(
        "switchover__a_move_is_begun_or_refused",
        [
            ("to the protected pod", wanted()),
            (
                "from pod-1 to pod-0",
                cluster_of(1).wish(|w| w.switchover = Some(Ordinal(0)))
            ),
            (
                "to where MAIN is",
                cluster().wish(|w| w.switchover = Some(Ordinal(0)))
            ),
            (
                "to a pod outside the pair",
                cluster().wish(|w| w.switchover = Some(Ordinal(2)))
            ),
            ("nobody is protected", wanted().unprotected()),
            ("the pod restarted", wanted().restarted(1)),
            ("the pod is one behind", wanted().listed(1, |r| r.behind = -1)),
            ("the pod is ahead", wanted().listed(1, |r| r.behind = 1)),
            (
                "the pod is not ready",
                wanted().listed(1, |r| r.status = Status::Recovery)
            ),
            (
                "the pod takes a commit at this moment",
                wanted().listed(1, |r| {
                    r.status = Status::Replicating;
                    r.behind = -1;
                    r.since = ago(4999);
                })
            ),
            (
                "the pod stands still in the middle of a commit",
                wanted().listed(1, |r| {
                    r.status = Status::Replicating;
                    r.since = ago(5000);
                })
            ),
            (
                "the registration is of another generation",
                wanted().listed(1, |r| r.name = RegistrationName::Strict(Ordinal(1), Gen(4)))
            ),
            ("the registration is gone", wanted().unregistered(1)),
            (
                "a gateway does not confirm: it would hold writes for nothing",
                wanted().one_gateway(|g| g.revision.0 -= 1)
            ),
            ("the protected process is loose", wanted().loose(1, process(1))),
            ("another process is loose", wanted().loose(2, process(2))),
            ("the mark is not the term's", wanted().mark(1, Some(TERM.0 - 1))),
            (
                "statements run before it serves",
                wanted().spec(|s| s.on_promotion = true)
            ),
            ("policy Never", wanted().policy(WritesWithoutSync::Never)),
            ("MAIN is not healthy: it is a failover", wanted().crashed(0)),
            (
                "the pod was not seen when the epoch began",
                wanted().record(|r| r.main.as_mut().unwrap().peers.clear())
            ),
            ("sleep is asked for too", wanted().wish(|w| w.hibernated = true)),
        ]
    );
}

#[test]
fn a_move_is_gone_on_with_or_given_up() {
    let late = |ms| cluster().moving().record(|r| r.since = ago(ms));
    assert_table!(
        "switchover__a_move_is_gone_on_with_or_given_up",
        [
            ("both live", cluster().moving()),
            ("both live at the deadline", late(10_000)),
            (
                "both live after the deadline: MAIN keeps its office",
                late(10_001)
            ),
            (
                "a longer deadline, as declared",
                late(10_001).spec(|s| s.drain = Duration::from_millis(10_001))
            ),
            (
                "the candidate restarted: MAIN keeps its office",
                cluster().restarted(1).moving()
            ),
            (
                "the candidate is silent: MAIN keeps its office",
                cluster().silent(1, 1).moving()
            ),
            (
                "MAIN was demoted: go on",
                cluster().role(0, Role::Replica).moving()
            ),
            (
                "MAIN was demoted long ago: go on",
                late(60_000).role(0, Role::Replica)
            ),
            (
                "the candidate serves as MAIN already",
                cluster().role(0, Role::Replica).role(1, Role::Main).moving()
            ),
            (
                "MAIN was demoted and the candidate is silent",
                cluster().role(0, Role::Replica).silent(1, 3).moving()
            ),
            (
                "MAIN was demoted and the candidate is gone",
                cluster().role(0, Role::Replica).crashed(1).moving()
            ),
            ("both are gone", cluster().crashed(0).crashed(1).moving()),
            ("MAIN died a moment ago: go on", cluster().crashed(0).moving()),
            (
                "MAIN missed one look: still a move, whose fence is not passed over",
                cluster()
                    .silent(0, 1)
                    .moving()
                    .spec(|s| s.fence_timeout = FenceTimeout::Proceed)
            ),
            (
                "MAIN missed every look: a failover",
                cluster()
                    .silent(0, 3)
                    .moving()
                    .spec(|s| s.fence_timeout = FenceTimeout::Proceed)
            ),
            (
                "MAIN died, and the candidate is not promoted: a failover, which may end it (R37)",
                late(2_001).crashed(0)
            ),
            (
                "MAIN died, and the candidate does not have its mark: a human",
                late(2_001).crashed(0).mark(1, Some(TERM.0 - 1))
            ),
            (
                "MAIN was demoted and the candidate lost its data: MAIN gets its office back",
                cluster()
                    .moving()
                    .role(0, Role::Replica)
                    .data(1, |d| (d.empty, d.mark) = (true, None))
            ),
            (
                "a loose process that ended is forgotten",
                cluster().moving().loose(2, second(2))
            ),
        ]
    );
}
