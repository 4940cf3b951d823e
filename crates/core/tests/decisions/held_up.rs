//! A term whose candidate answers and is not promoted: whose process is ended, and who follows it.

use super::cluster::{Situation, TERM, a_candidate, ago, cluster, process};
use super::faults::has_step;
use super::render::{assert_table, text};
use mainstay_core::memgraph::ids::{DatabaseId, Ordinal, VolumeId};
use mainstay_core::memgraph::observed::Role;
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::record::Claim;
use mainstay_core::memgraph::spec::FenceTimeout;

/// A failover to pod-1 that was begun long ago and taken over since. MAIN is silent, its pod is being deleted.
fn held_up() -> Situation {
    cluster()
        .silent(0, 9)
        .object(0, |o| o.terminating = true)
        .becomes(|r| r.new_term(a_candidate(1), true, ago(60_000)))
        .loose(1, process(1))
        .confirmed()
}

/// The candidate's process was ended after its claim had passed to its volume; another one runs there.
fn followed(alone: bool) -> Situation {
    let claim = Claim {
        process: process(1),
        alone,
    };
    held_up()
        .becomes(|r| r.claimed(claim))
        .confirmed()
        .restarted(1)
        .role(1, Role::Replica)
}

#[test]
fn r37_a_candidate_that_is_not_promoted_is_ended_once_the_old_main_is_fenced() {
    assert_table!(
        "held_up__a_candidate_is_ended",
        [
            ("MAIN is cut off, and every gateway confirmed the term", held_up()),
            (
                "MAIN hangs: its process is ended first",
                held_up().object(0, |o| o.terminating = false)
            ),
            (
                "the process of MAIN is over, and a gateway is silent",
                held_up().crashed(0).one_gateway(|g| g.term.0 -= 1)
            ),
            (
                "a gateway is a term behind, and policy Wait: not fenced",
                held_up()
                    .spec(|s| s.fence_timeout = FenceTimeout::Wait)
                    .one_gateway(|g| g.term.0 -= 1)
            ),
            (
                "a gateway is a term behind, and policy Proceed",
                held_up().one_gateway(|g| g.term.0 -= 1)
            ),
            (
                "a gateway is a term behind, policy Proceed, and MAIN may still end",
                held_up()
                    .record(|r| r.since = ago(5_000))
                    .one_gateway(|g| g.term.0 -= 1)
            ),
            (
                "the process of MAIN is over, but it starts without the init file",
                held_up()
                    .crashed(0)
                    .object(0, |o| o.start_fence = false)
                    .spec(|s| s.fence_timeout = FenceTimeout::Wait)
                    .one_gateway(|g| g.term.0 -= 1)
            ),
            (
                "MAIN answers, and will end its commit",
                held_up().with(|s| *s = cluster()
                    .becomes(|r| r.new_term(a_candidate(1), true, ago(60_000)))
                    .loose(1, process(1))
                    .confirmed())
            ),
            (
                "the promotion was not tried for long",
                held_up().record(|r| r.since = ago(1_500))
            ),
            (
                "MAIN may still end, and that is worth waiting for",
                held_up().record(|r| r.since = ago(3_000))
            ),
            (
                "MAIN may still end, but that was waited for",
                held_up().record(|r| r.since = ago(3_001))
            ),
            (
                "the process of MAIN is over, and the promotion was tried for two seconds",
                held_up().crashed(0).record(|r| r.since = ago(2_001))
            ),
            (
                "the process of MAIN is over a moment ago: the promotion is tried again first",
                held_up().crashed(0).record(|r| r.since = ago(2_000))
            ),
            (
                "nobody has taken the term over yet",
                held_up().record(|r| r.loose.clear())
            ),
            (
                "the claim has passed already",
                held_up().becomes(|r| r.claimed(Claim {
                    process: process(1),
                    alone: false
                }))
            ),
            (
                "a human chose it",
                held_up().record(|r| r.candidate.as_mut().unwrap().forced = Some(ago(0)))
            ),
            (
                "it is on another volume",
                held_up().object(1, |o| o.volume = Some(VolumeId(99)))
            ),
            ("its data has another mark", held_up().mark(1, Some(TERM.0 - 1))),
            ("it is MAIN already", held_up().role(1, Role::Main)),
            (
                "it is the recorded MAIN itself",
                cluster()
                    .role(0, Role::Replica)
                    .becomes(|r| r.new_term(a_candidate(0), true, ago(60_000)))
                    .loose(0, process(0))
                    .confirmed()
            ),
        ]
    );
}

#[test]
fn r37_who_runs_on_the_volume_that_has_the_claim_begins_the_next_term() {
    assert_table!(
        "held_up__who_follows",
        [
            (
                "MAIN lived when the candidate ended: its history is suspect",
                followed(false)
            ),
            (
                "MAIN was gone by then: it is judged as the protected process",
                followed(true)
            ),
            ("it does not answer yet", followed(true).silent(1, 1)),
            (
                "the volume is another one",
                followed(true).object(1, |o| o.volume = Some(VolumeId(99)))
            ),
            (
                "the database is another one",
                followed(true).data(1, |d| d.database = DatabaseId(99))
            ),
            (
                "the mark is older than MAIN's",
                followed(true).mark(1, Some(TERM.0 - 1))
            ),
            (
                "it had been promoted and marked already",
                followed(true).mark(1, Some(TERM.0 + 1))
            ),
            ("it is empty, filled by a snapshot", followed(true).mark(1, None)),
            (
                "no claim has passed",
                followed(true).record(|r| r.candidate.as_mut().unwrap().claim = None)
            ),
            (
                "the recorded MAIN is back with everything: it has the better history",
                followed(true).with(|s| {
                    let back = cluster().restarted(0);
                    s.seen.pods[0] = back.seen.pods[0].clone();
                })
            ),
        ]
    );
}

/// From 3.12 a REPLICA refuses its promotion while a transaction of MAIN is prepared: with a MAIN that hangs in a commit
/// the failover never ended.
#[test]
fn a_main_that_hangs_does_not_hold_up_its_successor_for_ever() {
    let chosen = |ms| {
        cluster()
            .no_main(1)
            .silent(0, 3)
            .record(move |r| r.since = ago(ms))
    };
    let ends = |situation: &Situation| {
        has_step(
            situation,
            |step| matches!(step, Step::EndProcess { target, .. } if target.pod == Ordinal(0)),
        )
    };
    assert!(!ends(&chosen(200)), "the promotion is tried first");
    assert!(ends(&chosen(201)), "{}", text(&chosen(201).plan()));
    assert!(
        !ends(&chosen(60_000).silent(0, 2)),
        "a probe that was not answered is no hang"
    );
    assert!(!ends(&chosen(60_000).crashed(0)), "it is not there any more");
    assert!(
        !ends(&chosen(60_000).object(0, |o| o.terminating = true)),
        "it is being ended"
    );
    assert!(
        !ends(&cluster().no_main(1).record(|r| r.since = ago(60_000))),
        "it answers and can be demoted"
    );
    assert!(
        !ends(
            &cluster()
                .no_main(0)
                .silent(1, 3)
                .record(|r| r.since = ago(60_000))
        ),
        "nobody was deposed"
    );
}
