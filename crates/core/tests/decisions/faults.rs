//! Situations that were once decided wrongly, each with what is right.

use super::cluster::{NOW, Situation, TERM, ago, cluster, process, second};
use super::render::text;
use mainstay_core::memgraph::ids::Ordinal;
use mainstay_core::memgraph::observed::{Role, Status};
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::reason::Why;
use mainstay_core::memgraph::record::Writes;
use mainstay_core::time::Time;
use std::time::Duration;

fn whys(situation: &Situation) -> Vec<Why> {
    situation.plan().reasons.into_iter().map(|r| r.why).collect()
}

pub(crate) fn has_step(situation: &Situation, wanted: impl Fn(&Step) -> bool) -> bool {
    situation.plan().steps.iter().any(|p| wanted(&p.step))
}

fn named(situation: Situation, pod: u8) -> Situation {
    situation.overrides(pod, NOW + Duration::from_mins(1))
}

#[test]
fn a_main_that_dies_during_a_move_leaves_writes_open_as_after_any_failover() {
    let dead = cluster().crashed(0).moving();
    let last = dead
        .plan()
        .steps
        .last()
        .and_then(|p| p.step.record().cloned())
        .expect("it serves");
    assert_eq!(last.writes, Writes::Open, "{}", text(&dead.plan()));
}

#[test]
fn a_protected_pod_that_is_shown_as_diverged_is_not_reset_without_approval() {
    let diverged = cluster().listed(1, |r| r.status = Status::Diverged);
    assert_eq!(
        whys(&diverged),
        [Why::NeedsApproval { pod: Ordinal(1) }],
        "{}",
        text(&diverged.plan())
    );
    assert!(diverged.plan().steps.is_empty());
}

#[test]
fn a_reset_whose_process_restarted_before_the_marker_was_written_is_asked_for_again() {
    let restarted = cluster()
        .unprotected()
        .unregistered(1)
        .resetting(1)
        .restarted(1)
        .accused(1, 3)
        .mark(1, Some(2));
    let again = |s: &Step| {
        s.record()
            .is_some_and(|r| r.reset.is_none_or(|r| r.process != process(1)))
    };
    assert!(has_step(&restarted, again), "{}", text(&restarted.plan()));
}

#[test]
fn a_pod_without_an_object_is_not_reset() {
    let gone = cluster()
        .unregistered(2)
        .accused(2, 3)
        .pod(2, |p| p.object = None);
    assert!(gone.plan().steps.is_empty(), "{}", text(&gone.plan()));
}

#[test]
fn a_reset_is_not_over_while_nothing_runs_there() {
    let away = cluster().crashed(2).resetting(2);
    assert!(
        !whys(&away).contains(&Why::ResetOver { pod: Ordinal(2) }),
        "{}",
        text(&away.plan())
    );
}

#[test]
fn writes_are_not_held_for_longer_than_a_hold() {
    let held = |s: Situation| {
        s.record(|r| {
            r.writes = Writes::Held;
            r.held_at = ago(60_000);
        })
    };
    let late = [
        held(cluster().joining()).one_gateway(|g| g.revision.0 -= 1),
        held(cluster().unprotected()).one_gateway(|g| g.term.0 -= 1),
    ];
    for situation in late {
        let opens = |s: &Step| s.record().is_some_and(|r| r.writes == Writes::Open);
        assert!(has_step(&situation, opens), "{}", text(&situation.plan()));
    }
}

#[test]
fn writes_that_were_closed_for_a_sleep_that_did_not_come_are_opened_again() {
    let alone = cluster()
        .unprotected()
        .unregistered(1)
        .crashed(1)
        .record(|r| r.writes = Writes::Closed);
    let opens = |s: &Step| s.record().is_some_and(|r| r.writes == Writes::Open);
    assert!(has_step(&alone, opens), "{}", text(&alone.plan()));
}

#[test]
fn a_human_who_names_a_pod_is_heard_wherever_the_plan_says_that_a_human_must_look() {
    let suspicious = cluster().crashed(0).no_main(1).mark(1, None);
    let unmarked = cluster().restarted(0).unprotected().mark(0, None);
    let woken = cluster()
        .becomes(|r| r.hibernated(ago(1000)))
        .record(|r| r.sync = None)
        .emptied(0);
    for (pod, situation) in [(1, suspicious), (0, unmarked), (1, woken)] {
        assert!(situation.plan().steps.is_empty(), "it waits for a human");
        let named = named(situation, pod);
        let promoted = |s: &Step| matches!(s, Step::Promote(t) if t.pod == Ordinal(pod));
        assert!(has_step(&named, promoted), "{}", text(&named.plan()));
    }
}

#[test]
fn an_override_begins_above_the_mark_of_the_pod_it_names() {
    let ahead = named(cluster().crashed(0).unprotected().mark(1, Some(TERM.0 + 5)), 1);
    let back = |s: &Step| matches!(s, Step::AdvanceMark { from: Some(from), to, .. } if to < from);
    assert!(!has_step(&ahead, back), "{}", text(&ahead.plan()));
}

#[test]
fn b4_a_main_that_did_not_answer_show_replicas_is_not_discovered_yet() {
    let unread = |s: Situation, pod| s.answer(pod, |a| a.replicas = None);
    let adopted = unread(cluster().never_recorded(), 0);
    let begun = unread(super::cluster::fresh().role(1, Role::Main), 1);
    for situation in [adopted, begun] {
        assert!(situation.plan().steps.is_empty(), "{}", text(&situation.plan()));
    }
}

#[test]
fn a_lost_mark_does_not_keep_a_dead_registration_from_being_removed() {
    let stuck = cluster().mark(0, None).mark(1, None).listed(1, |r| {
        r.status = Status::Invalid;
        r.since = ago(60_000);
    });
    assert!(
        has_step(&stuck, |s| matches!(s, Step::Drop { .. })),
        "{}",
        text(&stuck.plan())
    );
}

#[test]
fn a_first_candidate_whose_data_was_not_read_is_not_called_suspicious() {
    let record = mainstay_core::memgraph::record::Record::initialising(
        TERM,
        super::cluster::a_candidate(0),
        ago(1000),
    );
    let unread = cluster()
        .with(|s| s.record = Some(record))
        .restarted(0)
        .answer(0, |a| a.data = None);
    assert!(
        !whys(&unread).contains(&Why::SuspiciousData { pod: Ordinal(0) }),
        "{}",
        text(&unread.plan())
    );
}

#[test]
fn nobody_is_asked_to_choose_while_the_protected_pod_is_only_slow_to_answer() {
    let lost = Why::MainVolumeLost {
        main: Ordinal(0),
        other: Ordinal(1),
    };
    let serving = cluster().emptied(0).silent(1, 1);
    let woken = cluster()
        .becomes(|r| r.hibernated(ago(1000)))
        .emptied(0)
        .silent(1, 1);
    for situation in [serving, woken] {
        assert!(!whys(&situation).contains(&lost), "{}", text(&situation.plan()));
    }
}

#[test]
fn an_async_registration_never_delays_the_withdrawal_of_a_protection_that_is_gone() {
    let wrong = cluster().listed(2, |r| r.address_ok = false).unregistered(1);
    let held = wrong.clone().record(|r| {
        r.writes = Writes::Held;
        r.held_at = ago(1000);
    });
    for situation in [wrong, held.one_gateway(|g| g.revision.0 -= 1)] {
        let withdraws = |s: &Step| s.record().is_some_and(|r| r.sync.is_none());
        assert!(has_step(&situation, withdraws), "{}", text(&situation.plan()));
    }
}

#[test]
fn an_override_is_fulfilled_once_and_does_not_take_the_office_back() {
    let begun = named(cluster().crashed(0).unprotected(), 1).plan();
    let last = begun
        .steps
        .last()
        .and_then(|p| p.step.record().cloned())
        .expect("it serves");
    let honoured = last.honoured.expect("it is remembered");
    assert_eq!(honoured.pod, Ordinal(1));
    let later = named(cluster().record(|r| r.honoured = Some(honoured)), 1);
    assert!(later.plan().steps.is_empty(), "{}", text(&later.plan()));
    let asked_for_what_is = named(cluster(), 0).plan();
    let next = asked_for_what_is.steps[0]
        .step
        .record()
        .expect("it is remembered");
    assert_eq!(next.honoured.map(|h| h.pod), Some(Ordinal(0)));
    assert_eq!(
        (next.term, &next.main),
        (TERM, &cluster().record.expect("a record").main)
    );
}

#[test]
fn a_hand_dropped_registration_is_withdrawn_before_a_reset_a_sleep_or_a_move_goes_on() {
    let dropped = cluster().unregistered(1);
    let busy = [
        dropped.clone().resetting(2),
        dropped.clone().wish(|w| w.hibernated = true),
        dropped.clone().wish(|w| w.switchover = Some(Ordinal(1))),
    ];
    for situation in busy {
        assert!(
            whys(&situation).contains(&Why::RegistrationLost { pod: Ordinal(1) }),
            "{}",
            text(&situation.plan())
        );
        assert!(has_step(&situation, |s| s
            .record()
            .is_some_and(|r| r.sync.is_none())));
    }
}

#[test]
fn the_reset_of_an_async_pod_waits_behind_the_pair() {
    let joining = cluster().unprotected().unregistered(1).resetting(2);
    assert!(
        has_step(&joining, |s| matches!(s, Step::Register { .. })),
        "{}",
        text(&joining.plan())
    );
    let quiet = cluster().resetting(2);
    assert!(has_step(&quiet, |s| matches!(s, Step::WriteMarker { .. })));
}

#[test]
fn a_reset_that_does_not_end_is_given_up_and_blocks_no_other() {
    let begun = |ms| {
        cluster()
            .resetting(2)
            .record(|r| r.reset.as_mut().expect("asked").since = ago(ms))
    };
    assert!(!whys(&begun(600_000)).contains(&Why::ResetGivenUp { pod: Ordinal(2) }));
    let late = begun(600_001);
    assert_eq!(whys(&late).last(), Some(&Why::ResetGivenUp { pod: Ordinal(2) }));
    assert!(has_step(&late, |s| s.record().is_some_and(|r| r.reset.is_none())));
}

#[test]
fn an_approval_is_for_the_process_that_was_looked_at() {
    let young = |s: Situation| s.record(|r| r.since = ago(1000)).unregistered(2).accused(2, 3);
    let asks = |s: &Situation| has_step(s, |s| s.record().is_some_and(|r| r.reset.is_some()));
    assert!(!asks(&young(cluster())), "a young term");
    let approved = young(cluster().approves(2));
    assert!(asks(&approved), "{}", text(&approved.plan()));
    let another = young(cluster().approves(2).restarted(2));
    assert!(!asks(&another), "{}", text(&another.plan()));
}

#[test]
fn a_deleted_mark_is_written_again_before_anything_is_proven_and_before_sleep() {
    let advances = |s: &Step| matches!(s, Step::AdvanceMark { from: None, .. });
    let strict = cluster().unprotected().mark(0, None);
    let asleep = cluster()
        .record(|r| r.writes = Writes::Closed)
        .mark(0, None)
        .wish(|w| w.hibernated = true);
    for situation in [strict, asleep] {
        assert!(has_step(&situation, advances), "{}", text(&situation.plan()));
        assert!(!has_step(&situation, |s| matches!(
            s,
            Step::WriteProof { .. } | Step::Scale(_)
        )));
    }
}

#[test]
fn a_silent_candidate_does_not_keep_a_main_that_is_back_waiting_for_ever() {
    let waiting = |ms| {
        cluster()
            .restarted(0)
            .becomes(|r| r.new_term(super::cluster::a_candidate(1), true, ago(ms)))
            .silent(1, 3)
    };
    assert!(waiting(30_000).plan().steps.is_empty());
    let late = waiting(30_001);
    assert_eq!(whys(&late), [Why::CandidateTooSilent { pod: Ordinal(1) }]);
    let begun = late.plan().steps[0].step.record().cloned().expect("a new term");
    assert_eq!(begun.candidate.as_ref().map(|c| c.pod), Some(Ordinal(0)));
    assert!(
        begun.is_loose(process(1)),
        "a promote may still hit the silent one"
    );
    let forced = late.record(|r| r.candidate.as_mut().expect("one").forced = Some(NOW));
    assert!(forced.plan().steps.is_empty(), "a human's choice has no time-out");
}

#[test]
fn a_move_that_was_given_up_is_not_tried_again_at_once() {
    let given_up = |ms| {
        cluster()
            .record(|r| r.moved_at = ago(ms))
            .wish(|w| w.switchover = Some(Ordinal(1)))
    };
    assert!(given_up(59_999).plan().steps.is_empty());
    assert!(whys(&given_up(59_999)).contains(&Why::SwitchoverPaced { pod: Ordinal(1) }));
    assert!(whys(&given_up(60_000)).contains(&Why::SwitchoverWanted { pod: Ordinal(1) }));
    let moving = cluster().moving();
    assert_ne!(moving.record.as_ref().expect("a record").moved_at, Time::ZERO);
    let served = moving.plan().steps.last().and_then(|p| p.step.record().cloned());
    assert_eq!(
        served.map(|r| r.moved_at),
        Some(Time::ZERO),
        "a move that succeeded paces nothing"
    );
}

#[test]
fn no_epoch_is_begun_and_no_process_ended_while_a_gateway_is_behind() {
    let behind = |s: Situation| s.one_gateway(|g| g.term.0 -= 1);
    let restarted = behind(cluster().unprotected().restarted(1));
    let loose = behind(cluster().unprotected().loose(1, process(1)));
    for situation in [restarted, loose] {
        assert!(
            whys(&situation).contains(&Why::GatewaysBehind { term: TERM }),
            "{}",
            text(&situation.plan())
        );
        assert!(!has_step(&situation, |s| {
            matches!(s, Step::EndProcess { .. }) || s.record().is_some_and(|r| r.term > TERM)
        }));
    }
}

#[test]
fn a_replica_that_main_cannot_reach_is_not_waited_for_to_confirm_a_divergence() {
    let accused = |ms| {
        cluster()
            .unprotected()
            .unregistered(1)
            .accused(1, 3)
            .mark(1, Some(2))
            .listed(2, |r| {
                r.status = Status::Invalid;
                r.since = ago(ms);
            })
    };
    assert!(whys(&accused(600_000)).contains(&Why::AskOthersFirst { pod: Ordinal(1) }));
    let late = accused(600_001);
    assert!(
        whys(&late).contains(&Why::ResetReplica { pod: Ordinal(1) }),
        "{}",
        text(&late.plan())
    );
}

#[test]
fn a_cluster_that_wakes_without_its_main_says_who_is_awaited() {
    let waking = cluster().becomes(|r| r.hibernated(ago(1000))).silent(0, 9);
    assert_eq!(whys(&waking), [Why::WakeNeedsMain { main: Ordinal(0) }]);
}

#[test]
fn a_pod_that_is_empty_is_not_made_main_by_a_human_who_chose_it_for_its_data() {
    // The human named pod-0; it lost its volume before anybody acted on it.
    let protected = named(cluster().emptied(0), 0);
    let promotes = |s: &Step, pod| matches!(s, Step::Promote(t) if t.pod == Ordinal(pod));
    assert!(
        has_step(&protected, |s| promotes(s, 1)) && !has_step(&protected, |s| promotes(s, 0)),
        "the ordinary failover goes on: {}",
        text(&protected.plan())
    );
    assert!(whys(&protected).contains(&Why::NothingThere { pod: Ordinal(0) }));
    // The same while its term is under way: it was emptied to load a snapshot when the promotion came.
    let wish = NOW + Duration::from_mins(1);
    let under_way = named(cluster().crashed(0), 1)
        .no_main(1)
        .record(|r| r.candidate.as_mut().expect("one").forced = Some(wish))
        .mark(1, None)
        .answer(1, |a| a.data.as_mut().expect("data").empty = true);
    assert!(under_way.plan().steps.is_empty(), "{}", text(&under_way.plan()));
    // If nobody has anything, there is nothing to lose.
    let both = named(cluster().emptied(0).emptied(1), 1);
    assert!(has_step(&both, |s| promotes(s, 1)), "{}", text(&both.plan()));
}

#[test]
fn a_main_that_is_back_as_main_and_shows_a_replica_with_more_is_not_given_its_office_again() {
    // Without the start-up fence. Its mark would be the first commit that the replica takes for an old one.
    let ahead = cluster()
        .restarted(0)
        .role(0, Role::Main)
        .unprotected()
        .object(0, |o| o.start_fence = false)
        .answer(0, |a| {
            a.replicas = cluster().seen.answer(Ordinal(0)).expect("MAIN").replicas.clone();
        })
        .listed(1, |r| r.behind = 2);
    assert!(
        whys(&ahead).contains(&Why::ReplicaAhead { pod: Ordinal(1) }),
        "{}",
        text(&ahead.plan())
    );
    let closes = |s: &Step| {
        s.record()
            .is_some_and(|r| r.writes == Writes::Closed && r.term == TERM)
    };
    assert!(has_step(&ahead, closes) && !has_step(&ahead, |s| matches!(s, Step::AdvanceMark { .. })));
    let level = ahead.listed(1, |r| r.behind = 0);
    assert!(has_step(&level, |s| matches!(s, Step::AdvanceMark { .. })));
}

#[test]
fn a_main_that_restarted_as_main_cannot_judge_the_data_of_its_term() {
    // It noted its epoch at the start and goes on in it: once it is promoted, it calls everybody diverged who followed.
    let back = |fence| {
        cluster()
            .restarted(0)
            .role(0, Role::Main)
            .unprotected()
            .object(0, |o| o.start_fence = fence)
    };
    let history = |s: &Situation| {
        let last = s.plan().steps.last().and_then(|p| p.step.record().cloned());
        last.and_then(|r| r.main).map(|m| m.history_from)
    };
    let next = TERM.next();
    assert_eq!(history(&back(false)), Some(next.next()));
    assert!(
        history(&back(true)).is_some_and(|from| from < next),
        "promoted by somebody else"
    );
}

#[test]
fn a_main_that_is_back_without_its_mark_is_not_waited_for() {
    let unmarked = cluster().restarted(0).unprotected().mark(0, None);
    assert!(
        whys(&unmarked).contains(&Why::SuspiciousData { pod: Ordinal(0) }),
        "{}",
        text(&unmarked.plan())
    );
    // The protected pod is only slow to answer: nobody has to look yet.
    let slow = cluster().restarted(0).mark(0, None).silent(1, 1);
    assert!(
        whys(&slow).contains(&Why::NobodyEntitled { awaited: Ordinal(1) }),
        "{}",
        text(&slow.plan())
    );
}

#[test]
fn an_override_also_fences_a_main_that_was_being_promoted_again() {
    // MAIN restarted and its new term was begun; promoted, and its mark not yet advanced, it takes writes from a gateway
    // of the old term. Its former process is gone, which fences nothing.
    let again = named(
        cluster()
            .unprotected()
            .restarted(0)
            .becomes(|r| {
                let mut candidate = super::cluster::a_candidate(0);
                candidate.process = second(0);
                r.new_term(candidate, true, ago(1000))
            })
            .role(0, Role::Main),
        1,
    );
    let fences = |wanted| {
        let is = move |s: &Step| matches!(s, Step::AwaitFence { old, .. } if old.process == wanted);
        has_step(&again, is)
    };
    assert!(fences(process(0)) && fences(second(0)), "{}", text(&again.plan()));
}

/// A replica that had just been protected and lost its process waited half a minute for nothing.
#[test]
fn a_hold_that_led_to_protection_needs_no_pause_before_the_next() {
    let before = cluster().record.expect("a record");
    let sync = before.sync.expect("it is protected");
    let proven = before.held(ago(2_000)).protected(sync);
    let joining = |held_at| cluster().joining().record(move |r| r.held_at = held_at);
    let holds = |held_at| {
        has_step(
            &joining(held_at),
            |step| matches!(step, Step::WriteRecord(r) if r.writes == Writes::Held),
        )
    };
    assert!(holds(proven.held_at), "the last hold was worth it");
    assert!(!holds(ago(2_000)), "the last hold led to nothing");
}

/// Under load every look at an ASYNC replica found it `invalid`, a little further each time: it never confirmed that
/// MAIN accepts anybody, and a diverged ex-MAIN waited for ever.
#[test]
fn a_replica_that_is_fed_confirms_that_main_accepts_somebody() {
    let fed = |status, moved| {
        cluster()
            .unprotected()
            .unregistered(1)
            .accused(1, 3)
            .mark(1, Some(TERM.0 - 1))
            .listed(2, move |r| {
                r.status = status;
                r.behind = -40;
                r.since = ago(300);
                r.moved = moved;
            })
    };
    let resets = |situation: &Situation| {
        has_step(
            situation,
            |step| matches!(step, Step::WriteRecord(r) if r.reset.is_some()),
        )
    };
    let lately = fed(Status::Invalid, Some(ago(300)));
    assert!(resets(&lately), "{}", text(&lately.plan()));
    assert!(!resets(&fed(Status::Invalid, None)), "it was never seen to move");
    assert!(!resets(&fed(Status::Invalid, Some(ago(6_000)))), "not lately");
    assert!(
        !resets(&lately.clone().record(|r| r.since = ago(200))),
        "that was in another term"
    );
    assert!(
        !resets(&fed(Status::Diverged, Some(ago(300)))),
        "it is accused, too"
    );
}
