//! A planned restart of all pods: who is next, and when nobody is.

use super::cluster::{NOW, Situation, cluster, cluster_of};
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::observed::Status;
use mainstay_core::memgraph::rolling::{NotNow, Rolling, next};
use std::time::Duration;

fn asked(situation: &Situation, outdated: &[u8]) -> Option<Rolling> {
    let outdated: Vec<Ordinal> = outdated.iter().copied().map(Ordinal).collect();
    next(
        situation.record.as_ref(),
        &situation.seen,
        situation.now,
        &outdated,
    )
}

fn restart(situation: &Situation, pod: u8) -> Rolling {
    let uid = situation.seen.object(Ordinal(pod)).unwrap().uid;
    Rolling::Restart {
        pod: Ordinal(pod),
        uid,
    }
}

#[test]
fn async_pods_are_first_the_protected_one_is_next_and_main_is_last() {
    for (main, sync) in [(0, 1), (1, 0)] {
        let all_well = cluster_of(main);
        assert_eq!(asked(&all_well, &[0, 1, 2]), Some(restart(&all_well, 2)));
        assert_eq!(asked(&all_well, &[0, 1]), Some(restart(&all_well, sync)));
        let moved = Some(Rolling::Move { to: Ordinal(sync) });
        assert_eq!(asked(&all_well, &[main]), moved);
        assert_eq!(asked(&all_well, &[]), None);
    }
}

#[test]
fn nobody_is_restarted_while_anybody_else_is_not_well() {
    let wait = |why| Some(Rolling::Wait(why));
    let paused = cluster().wish(|w| w.paused_until = Some(NOW + Duration::from_secs(1)));
    let rows = [
        (
            "nobody protects MAIN",
            cluster().unprotected(),
            NotNow::Unprotected,
        ),
        (
            "the protected pod restarted",
            cluster().restarted(1),
            NotNow::Unprotected,
        ),
        ("MAIN is silent", cluster().silent(0, 3), NotNow::Unprotected),
        ("writes are held", cluster().held(), NotNow::Unprotected),
        (
            "a reset is under way",
            cluster().resetting(2),
            NotNow::Unprotected,
        ),
        ("a move is under way", cluster().moving(), NotNow::Unprotected),
        (
            "the ASYNC pod is diverged and not ready",
            cluster()
                .listed(2, |r| r.status = Status::Diverged)
                .object(2, |o| o.ready = false),
            NotNow::Away(Ordinal(2)),
        ),
        (
            "the ASYNC pod is not registered",
            cluster().unregistered(2),
            NotNow::Away(Ordinal(2)),
        ),
        (
            "the ASYNC pod is being deleted",
            cluster().object(2, |o| o.terminating = true),
            NotNow::Away(Ordinal(2)),
        ),
        ("paused", paused, NotNow::Asked),
        (
            "a move was asked for",
            cluster().wish(|w| w.switchover = Some(Ordinal(1))),
            NotNow::Asked,
        ),
    ];
    for (name, situation, why) in rows {
        assert_eq!(asked(&situation, &[0, 1, 2]), wait(why), "{name}");
    }
}

#[test]
fn under_load_nobody_is_ever_level_and_the_restart_goes_on() {
    let busy = |pod| {
        cluster().listed(pod, |r| {
            r.status = Status::Replicating;
            r.behind = -3;
        })
    };
    for pod in [1, 2] {
        assert_eq!(asked(&busy(pod), &[0, 1, 2]), Some(restart(&busy(pod), 2)));
    }
    // MAIN may show anything of an ASYNC pod: a restart that waited for better never ended.
    for status in [Status::Recovery, Status::Invalid] {
        let shown = cluster().listed(2, |r| r.status = status);
        assert_eq!(asked(&shown, &[0, 1, 2]), Some(restart(&shown, 2)), "{status:?}");
    }
}

/// Found on a real Kubernetes: its reset waits for the quiet time, which each new term begins anew, and the restart of the
/// others waited for that.
#[test]
fn a_diverged_async_pod_holds_nobody_up() {
    let shown = cluster().listed(2, |r| r.status = Status::Diverged);
    let refused = cluster().unregistered(2).accused(2, 3);
    for diverged in [shown, refused] {
        assert_eq!(asked(&diverged, &[0, 1, 2]), Some(restart(&diverged, 2)));
        assert_eq!(asked(&diverged, &[0, 1]), Some(restart(&diverged, 1)));
    }
}

#[test]
fn a_wish_that_was_fulfilled_holds_up_only_what_it_contradicts() {
    let stays = cluster().wish(|w| w.switchover = Some(Ordinal(0)));
    assert_eq!(asked(&stays, &[0, 1]), Some(restart(&stays, 1)));
    assert_eq!(asked(&stays, &[0]), Some(Rolling::Wait(NotNow::Asked)));
}

#[test]
fn a_pod_in_which_nothing_runs_is_replaced_whatever_else_is_the_case() {
    let broken = |pod| {
        cluster().unprotected().object(pod, |o| {
            o.running = None;
            o.ready = false;
        })
    };
    for pod in [0, 1, 2] {
        assert_eq!(asked(&broken(pod), &[pod]), Some(restart(&broken(pod), pod)));
        let fresh = broken(pod).never_recorded();
        assert_eq!(asked(&fresh, &[pod]), Some(restart(&fresh, pod)), "no record yet");
        let current = asked(&broken(pod), &[(pod + 1) % 3]);
        assert_eq!(
            current,
            Some(Rolling::Wait(NotNow::Unprotected)),
            "it has the new template already"
        );
        let leaving = broken(pod).object(pod, |o| o.terminating = true);
        assert_eq!(asked(&leaving, &[pod]), Some(Rolling::Wait(NotNow::Unprotected)));
    }
}
