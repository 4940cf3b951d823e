//! A human names the MAIN. Everything gives way but the fence.

use super::cluster::{NOW, Situation, TERM, a_candidate, ago, cluster, process, second};
use super::render::assert_table;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::record::Override;
use mainstay_core::memgraph::spec::FenceTimeout;
use mainstay_core::time::Time;
use std::time::Duration;

/// A human named this pod, for another minute.
fn named(situation: Situation, pod: u8) -> Situation {
    until(situation, pod, NOW + Duration::from_mins(1))
}

fn until(situation: Situation, pod: u8, expires: Time) -> Situation {
    situation.overrides(pod, expires)
}

/// MAIN is lost and the other pod was never proven.
fn stuck() -> Situation {
    cluster().crashed(0).unprotected()
}

/// A human's term with pod-1 that was begun and not finished.
fn forced() -> Situation {
    cluster()
        .crashed(0)
        .no_main(1)
        .record(|r| r.candidate.as_mut().unwrap().forced = Some(NOW + Duration::from_mins(1)))
}

/// The wish for pod-1 has been fulfilled before.
fn honoured(situation: Situation) -> Situation {
    let (pod, until) = (Ordinal(1), NOW + Duration::from_mins(1));
    situation.record(|r| r.honoured = Some(Override { pod, until }))
}

#[test]
fn overriding() {
    assert_table!(
        "overriding",
        [
            (
                "nobody is entitled, and a human names the other pod",
                named(stuck(), 1)
            ),
            ("it has another mark", named(stuck().mark(1, Some(TERM.0 - 1)), 1)),
            ("it has no mark", named(stuck().mark(1, None), 1)),
            (
                "it cannot be read",
                named(stuck().answer(1, |a| a.data = None), 1)
            ),
            ("it does not answer", named(stuck().silent(1, 3), 1)),
            (
                "the fence has no time-out, whatever the policy says",
                named(
                    cluster()
                        .silent(0, 3)
                        .unprotected()
                        .spec(|s| s.fence_timeout = FenceTimeout::Proceed),
                    1
                )
            ),
            ("the wish has expired", until(stuck(), 1, NOW)),
            (
                "the wish is about to expire",
                until(stuck(), 1, NOW + Duration::from_millis(1))
            ),
            ("a pod outside the pair cannot be MAIN", named(stuck(), 2)),
            ("it serves already", named(cluster(), 0)),
            (
                "the wish was fulfilled, and a failover moved MAIN on since",
                named(honoured(cluster()), 1)
            ),
            (
                "the same pod is wished for again",
                until(honoured(cluster()), 1, NOW + Duration::from_mins(2))
            ),
            ("a healthy MAIN gives way", named(cluster(), 1)),
            (
                "a term is under way with another candidate",
                named(cluster().no_main(1), 0)
            ),
            (
                "a term of its own is under way, and its mark is missing",
                named(forced().mark(1, None), 1)
            ),
            (
                "a term of its own is under way, and the wish is gone",
                forced().mark(1, None)
            ),
            (
                "a term of its own is under way, and its process ended",
                forced().restarted(1)
            ),
            (
                "a term is under way with an older process of it",
                named(cluster().crashed(0).no_main(1).restarted(1), 1)
            ),
            (
                "a term is under way with it, and it does not answer",
                named(cluster().crashed(0).no_main(1).silent(1, 3), 1)
            ),
            ("a move to it is under way", named(cluster().moving(), 1)),
            (
                "a move is under way and MAIN is named",
                named(cluster().moving(), 0)
            ),
            (
                "an expired wish on a term with this candidate and a wrong mark",
                until(cluster().crashed(0).no_main(1).mark(1, None), 1, ago(1))
            ),
            (
                "asleep: not heard",
                named(cluster().becomes(|r| r.hibernated(ago(1000))), 1)
            ),
            (
                "the first term",
                named(
                    cluster().record(|r| {
                        r.main = None;
                        r.state = mainstay_core::memgraph::record::State::Initialising;
                        r.candidate = Some(a_candidate(0));
                        r.sync = None;
                    }),
                    1
                )
            ),
            (
                "a loose process that ended is forgotten",
                named(stuck().loose(0, process(0)).loose(2, second(2)), 1)
            ),
            (
                "the named pod was not seen when the epoch began",
                named(stuck().record(|r| r.main.as_mut().unwrap().peers.clear()), 1)
            ),
        ]
    );
}
