//! Each rule of the lease, on one candidate whose API server is the test.

use super::bench::{Bench, WALL, holder, replaced, secs, stored, version};
use crate::lease::{
    Action, Answer, HolderId, Input, Lease, LeaseEpoch, LeaseRefusal, LeaseTiming, LeaseUid, Loss,
    StoredLease, TimingError,
};
use crate::time::Time;
use std::time::Duration;

#[test]
fn a_held_lease_is_taken_only_after_the_own_clock_saw_it_unchanged_for_the_full_duration() {
    let mut bench = Bench::new();
    bench.tick(0);
    // Its renew time is years in the past of our wall clock, and that must not matter.
    assert_eq!(bench.answer(50, Answer::Read(stored(Some("other"), 1, 7))), None);
    for at in (2_000..=14_000).step_by(2_000) {
        assert_eq!(bench.tick(at), Some(Action::Read));
        assert_eq!(bench.answer(at, Answer::Read(stored(Some("other"), 1, 7))), None);
    }
    assert_eq!(bench.tick(15_049), None);
    assert_eq!(bench.candidate.next_deadline(), Some(Time(15_050)));
    let (from, lease) = replaced(bench.tick(15_050));
    assert_eq!(from, version("u", 1));
    assert_eq!(lease.holder, Some(holder("me")));
    assert_eq!(lease.transitions, 8);
}

#[test]
fn any_change_of_the_lease_starts_the_wait_again() {
    let seen = stored(Some("other"), 1, 7);
    let mut new_version = seen.clone();
    new_version.version = version("u", 2);
    let mut new_renew_time = seen.clone();
    new_renew_time.lease.renew_time = Some(Time(2));
    let new_holder = stored(Some("third"), 1, 7);
    for changed in [new_version, new_renew_time, new_holder] {
        let mut bench = Bench::new();
        bench.tick(0);
        bench.answer(0, Answer::Read(seen.clone()));
        bench.tick(14_000);
        bench.answer(14_000, Answer::Read(changed.clone()));
        bench.tick(28_000);
        assert_eq!(bench.answer(28_000, Answer::Read(changed)), None);
        assert!(matches!(bench.tick(29_000), Some(Action::Replace { .. })));
    }
}

#[test]
fn the_duration_that_the_holder_wrote_counts_if_it_is_longer_than_ours() {
    let mut lease = stored(Some("other"), 1, 7);
    lease.lease.duration = secs(30);
    let mut bench = Bench::new();
    bench.tick(0);
    bench.answer(0, Answer::Read(lease.clone()));
    assert_eq!(bench.tick(29_000), Some(Action::Read));
    assert_eq!(bench.answer(29_000, Answer::Read(lease)), None);
    assert!(matches!(bench.tick(30_000), Some(Action::Replace { .. })));
}

#[test]
fn a_conflict_is_followed_by_a_read_and_never_by_the_same_write() {
    let mut bench = Bench::new();
    bench.tick(0);
    bench.answer(0, Answer::Read(stored(None, 1, 7)));
    assert_eq!(bench.answer(100, Answer::Conflict), Some(Action::Read));
    assert_eq!(bench.answer(150, Answer::Read(stored(Some("other"), 2, 8))), None);
    assert_eq!(bench.candidate.holder(), Some(&holder("other")));
}

/// Counts the writes before 10 s at an API server that refuses each one as a conflict.
fn refused_writes(bench: &mut Bench, shown: Option<&str>) -> u32 {
    let mut writes = 0;
    for at in (200..10_000).step_by(10) {
        let mut action = bench.tick(at);
        while let Some(sent) = action {
            let is_read = sent == Action::Read;
            writes += u32::from(!is_read);
            assert!(writes < 100, "a flood at {at} ms");
            let answer = if is_read {
                Answer::Read(stored(shown, at, 8))
            } else {
                Answer::Conflict
            };
            action = bench.answer(at, answer);
        }
    }
    writes
}

#[test]
fn an_api_that_always_conflicts_sees_one_write_per_retry_interval() {
    assert_eq!(
        refused_writes(&mut Bench::leading(), Some("me")),
        4,
        "at 2, 4, 6 and 8 s"
    );
    assert_eq!(
        refused_writes(&mut Bench::new(), None),
        5,
        "at 0.2, 2.2, 4.2, 6.2 and 8.2 s"
    );
}

#[test]
fn leadership_counts_from_before_the_request_was_sent() {
    let mut bench = Bench::new();
    bench.tick(0);
    bench.answer(1_000, Answer::Read(stored(None, 1, 7)));
    bench.answer(4_000, Answer::Accepted(version("u", 2)));
    assert_eq!(bench.candidate.leadership().unwrap().until(), Time(11_000));
}

#[test]
fn the_holder_renews_every_retry_interval_and_keeps_its_epoch() {
    let mut bench = Bench::leading();
    assert_eq!(bench.tick(1_999), None);
    let (from, lease) = replaced(bench.tick(2_000));
    assert_eq!(from, version("u", 2));
    assert_eq!(
        (lease.transitions, lease.renew_time),
        (8, Some(Time(WALL + 2_000)))
    );
    assert_eq!(lease.acquire_time, Some(Time(WALL)));
    bench.answer(2_100, Answer::Accepted(version("u", 3)));
    let leadership = bench.candidate.leadership().unwrap();
    assert_eq!(
        (leadership.until(), leadership.epoch().transitions),
        (Time(12_000), 8)
    );
}

#[test]
fn the_holder_stops_at_the_renew_deadline_if_no_renewal_was_answered() {
    let mut bench = Bench::leading();
    assert!(matches!(bench.tick(2_000), Some(Action::Replace { .. })));
    assert_eq!(bench.tick(6_000), Some(Action::Read), "given up after 4 s");
    assert!(bench.permits(9_999, 0));
    assert!(
        !bench.permits(10_000, 0),
        "even before anybody tells the candidate the time"
    );
    bench.tick(10_000);
    assert_eq!(
        (bench.candidate.leadership(), bench.candidate.last_loss()),
        (None, Some(Loss::NotRenewed))
    );
}

#[test]
fn a_failed_renewal_is_followed_by_a_read_and_a_renewal_at_once() {
    let mut bench = Bench::leading();
    bench.tick(2_000);
    assert_eq!(bench.answer(5_000, Answer::Failed), Some(Action::Read));
    // The renewal did execute: the version is new. That alone must not prolong anything.
    let (from, _) = replaced(bench.answer(5_100, Answer::Read(stored(Some("me"), 3, 8))));
    assert_eq!(from, version("u", 3));
    assert_eq!(bench.candidate.leadership().unwrap().until(), Time(10_000));
}

#[test]
fn an_answer_to_a_request_that_was_given_up_changes_nothing() {
    let mut bench = Bench::leading();
    bench.tick(2_000);
    let renewal = bench.last.unwrap();
    assert_eq!(bench.tick(6_000), Some(Action::Read));
    let late = Input::Answered {
        id: renewal,
        answer: Answer::Accepted(version("u", 3)),
    };
    assert_eq!(bench.handle(6_500, late), None);
    assert_eq!(bench.candidate.leadership().unwrap().until(), Time(10_000));
    // The read is still awaited.
    let (from, _) = replaced(bench.answer(6_600, Answer::Read(stored(Some("me"), 3, 8))));
    assert_eq!(from, version("u", 3));
}

#[test]
fn an_answer_that_comes_after_the_time_to_give_up_is_late_even_if_no_tick_came_before() {
    let mut bench = Bench::new();
    bench.tick(0);
    bench.answer(0, Answer::Read(stored(None, 1, 7)));
    assert_eq!(
        bench.answer(4_000, Answer::Accepted(version("u", 2))),
        Some(Action::Read)
    );
    assert_eq!(bench.candidate.leadership(), None);
}

#[test]
fn a_renewal_answered_after_the_deadline_does_not_revive_the_old_term() {
    let mut bench = Bench::leading();
    bench.tick(2_000);
    bench.tick(6_000);
    bench.answer(9_000, Answer::Read(stored(Some("me"), 2, 8)));
    bench.tick(10_000);
    let (_, lease) = replaced(bench.answer(11_000, Answer::Accepted(version("u", 3))));
    assert_eq!(bench.candidate.leadership(), None);
    assert_eq!(lease.transitions, 9, "a new term has a new epoch");
}

#[test]
fn a_step_is_permitted_only_if_it_must_end_before_the_deadline() {
    let bench = Bench::leading();
    assert!(bench.permits(7_000, 2_999));
    assert_eq!(
        bench.refusal(7_000, 3_000),
        Some(Err(LeaseRefusal::TooShort {
            remaining: secs(3),
            step_timeout: secs(3)
        }))
    );
    assert_eq!(
        bench.refusal(10_000, 0),
        Some(Err(LeaseRefusal::Over {
            until: Time(10_000),
            now: Time(10_000)
        }))
    );
}

#[test]
fn a_suspended_machine_refuses_by_the_wall_clock_although_its_own_clock_stood_still() {
    let mut bench = Bench::leading();
    // Suspended at 1 s for 9 s: less than the lease duration, and yet too old to act.
    bench.wall_ahead += 9_000;
    assert_eq!(
        bench.refusal(1_000, 0),
        Some(Err(LeaseRefusal::ClocksDisagree {
            wall_elapsed: secs(10),
            elapsed: secs(1)
        }))
    );
    bench.tick(1_000);
    assert_eq!(
        (bench.candidate.leadership(), bench.candidate.last_loss()),
        (None, Some(Loss::ClocksDisagree))
    );
}

#[test]
fn a_short_suspension_shortens_what_is_left_for_steps() {
    let mut bench = Bench::leading();
    bench.wall_ahead += 5_000;
    assert!(bench.permits(1_000, 3_999));
    assert!(!bench.permits(1_000, 4_000));
}

#[test]
fn a_wall_clock_that_is_set_back_neither_ends_nor_prolongs_leadership() {
    let mut bench = Bench::leading();
    bench.wall_ahead -= 3_600_000;
    assert!(bench.permits(9_999, 0));
    assert!(!bench.permits(10_000, 0));
}

#[test]
fn an_acquisition_answered_after_a_suspension_does_not_lead() {
    let mut bench = Bench::new();
    bench.tick(0);
    bench.answer(0, Answer::Read(stored(None, 1, 7)));
    bench.wall_ahead += 60_000;
    bench.answer(10, Answer::Accepted(version("u", 2)));
    assert_eq!(
        (bench.candidate.leadership(), bench.candidate.last_loss()),
        (None, Some(Loss::ClocksDisagree))
    );
}

#[test]
fn a_holder_that_reads_another_name_epoch_or_object_stops_at_once() {
    let mut other_object = stored(Some("me"), 9, 8);
    other_object.version = version("v", 9);
    for read in [
        stored(Some("other"), 9, 9),
        stored(None, 9, 8),
        stored(Some("me"), 9, 9),
        other_object,
    ] {
        let mut bench = Bench::leading();
        bench.tick(2_000);
        assert_eq!(bench.answer(2_100, Answer::Conflict), Some(Action::Read));
        assert!(bench.permits(2_100, 0), "a conflict alone proves nothing");
        bench.answer(2_200, Answer::Read(read));
        assert_eq!(
            (bench.candidate.leadership(), bench.candidate.last_loss()),
            (None, Some(Loss::Taken))
        );
    }
}

#[test]
fn a_holder_whose_lease_was_deleted_stops_and_the_new_lease_is_waited_for() {
    let mut bench = Bench::leading();
    bench.tick(2_000);
    bench.answer(2_100, Answer::NotFound);
    assert_eq!(
        (bench.candidate.leadership(), bench.candidate.last_loss()),
        (None, Some(Loss::Deleted))
    );
    let Some(Action::Create(lease)) = bench.tick(4_000) else {
        panic!("expected a create")
    };
    assert_eq!((lease.holder, lease.transitions), (Some(holder("me")), 0));
    assert_eq!(bench.answer(4_100, Answer::Accepted(version("v", 9))), None);
    assert_eq!(
        bench.candidate.leadership(),
        None,
        "a create does not make a leader"
    );
    bench.tick(19_000);
    let created = StoredLease {
        version: version("v", 9),
        lease: the_created_lease(),
    };
    assert_eq!(bench.answer(19_000, Answer::Read(created)), None);
    let (from, lease) = replaced(bench.tick(19_100));
    assert_eq!((from, lease.transitions), (version("v", 9), 1));
}

fn the_created_lease() -> Lease {
    Lease {
        holder: Some(holder("me")),
        duration: secs(15),
        acquire_time: None,
        renew_time: Some(Time(WALL + 4_000)),
        transitions: 0,
    }
}

#[test]
fn a_lease_without_a_holder_is_free_at_once_only_if_it_was_held_before() {
    let mut bench = Bench::new();
    bench.tick(0);
    assert!(matches!(
        bench.answer(10, Answer::Read(stored(None, 1, 1))),
        Some(Action::Replace { .. })
    ));

    let mut bench = Bench::new();
    bench.tick(0);
    assert_eq!(bench.answer(10, Answer::Read(stored(None, 1, 0))), None);
}

#[test]
fn a_lease_under_our_own_name_that_we_did_not_claim_is_somebody_elses() {
    let mut bench = Bench::new();
    bench.tick(0);
    assert_eq!(bench.answer(10, Answer::Read(stored(Some("me"), 1, 7))), None);
    bench.tick(14_000);
    bench.answer(14_000, Answer::Read(stored(Some("me"), 1, 7)));
    assert!(matches!(bench.tick(15_010), Some(Action::Replace { .. })));
}

#[test]
fn an_acquisition_whose_answer_was_lost_is_repeated_in_a_new_epoch() {
    let mut bench = Bench::new();
    bench.tick(0);
    bench.answer(0, Answer::Read(stored(None, 1, 7)));
    assert_eq!(bench.tick(4_000), Some(Action::Read));
    let (from, lease) = replaced(bench.answer(4_100, Answer::Read(stored(Some("me"), 2, 8))));
    assert_eq!((from, lease.transitions), (version("u", 2), 9));
    assert_eq!(bench.candidate.leadership(), None);
}

#[test]
fn a_release_stops_leading_before_it_empties_the_holder() {
    let mut bench = Bench::leading();
    let (from, lease) = replaced(bench.handle(500, Input::ReleaseRequested));
    assert_eq!(
        (from, lease.holder, lease.transitions),
        (version("u", 2), None, 8)
    );
    assert!(
        lease.duration > Duration::ZERO,
        "the API refuses a lease of no duration"
    );
    assert_eq!(
        (bench.candidate.leadership(), bench.candidate.last_loss()),
        (None, Some(Loss::Released))
    );
    assert!(!bench.candidate.is_released());
    assert_eq!(bench.answer(600, Answer::Accepted(version("u", 3))), None);
    assert!(bench.candidate.is_released());
    assert_eq!(bench.candidate.next_deadline(), None);
    assert_eq!(bench.tick(60_000), None, "it never campaigns again");
}

#[test]
fn a_release_whose_answer_was_lost_is_read_back_and_repeated() {
    let mut bench = Bench::leading();
    bench.handle(500, Input::ReleaseRequested);
    assert_eq!(bench.answer(600, Answer::Failed), Some(Action::Read));
    let still_ours = bench.answer(700, Answer::Read(stored(Some("me"), 2, 8)));
    assert_eq!(still_ours, None, "writes keep their distance");
    let (from, lease) = replaced(bench.tick(2_500));
    assert_eq!((from, lease.holder), (version("u", 2), None));
    assert_eq!(bench.tick(6_500), Some(Action::Read));
    assert_eq!(
        bench.answer(6_600, Answer::Read(stored(Some("other"), 4, 9))),
        None
    );
    assert!(bench.candidate.is_released());
}

#[test]
fn a_release_during_a_renewal_waits_for_its_answer_and_does_not_lead_by_it() {
    let mut bench = Bench::leading();
    bench.tick(2_000);
    assert_eq!(bench.handle(2_010, Input::ReleaseRequested), None);
    let (from, lease) = replaced(bench.answer(2_100, Answer::Accepted(version("u", 3))));
    assert_eq!((from, lease.holder), (version("u", 3), None));
    assert_eq!(bench.candidate.leadership(), None);
}

#[test]
fn a_candidate_that_never_claimed_the_lease_has_nothing_to_release() {
    let mut bench = Bench::new();
    bench.tick(0);
    bench.answer(10, Answer::Read(stored(Some("other"), 1, 7)));
    assert_eq!(bench.handle(20, Input::ReleaseRequested), None);
    assert!(bench.candidate.is_released());
}

#[test]
fn a_candidate_that_never_reached_the_api_is_released_without_a_read() {
    let mut bench = Bench::new();
    bench.tick(0);
    bench.answer(10, Answer::Failed);
    assert_eq!(bench.handle(20, Input::ReleaseRequested), None);
    assert!(bench.candidate.is_released());
}

#[test]
fn epochs_are_ordered_within_one_lease_object_and_not_across_two() {
    let epoch = |uid: &str, transitions| LeaseEpoch {
        uid: LeaseUid(uid.to_owned()),
        transitions,
    };
    assert!(epoch("u", 1) < epoch("u", 2));
    assert!(epoch("u", 2) >= epoch("u", 2));
    assert_eq!(epoch("u", 1).partial_cmp(&epoch("v", 2)), None);
}

#[test]
fn timings_that_cannot_be_safe_or_cannot_succeed_are_refused() {
    let timing = |duration, renew, retry, timeout| LeaseTiming::new(duration, renew, retry, timeout);
    assert_eq!(
        timing(secs(15), secs(10), secs(2), secs(4)),
        Ok(LeaseTiming::default())
    );
    assert_eq!(
        timing(Duration::from_millis(15_500), secs(10), secs(2), secs(4)),
        Err(TimingError::Duration)
    );
    assert_eq!(
        timing(secs(1 << 31), secs(10), secs(2), secs(4)),
        Err(TimingError::Duration)
    );
    assert_eq!(
        timing(secs(10), secs(10), secs(2), secs(4)),
        Err(TimingError::NoMargin)
    );
    assert_eq!(
        timing(secs(15), secs(6), secs(2), secs(4)),
        Err(TimingError::NoSecondAttempt)
    );
    assert_eq!(
        timing(secs(15), secs(10), Duration::ZERO, secs(4)),
        Err(TimingError::Zero)
    );
}

#[test]
fn a_holder_without_a_name_cannot_be_made() {
    assert!(HolderId::new("").is_err());
    assert_eq!(HolderId::from_field(Some("")), None);
    assert_eq!(HolderId::from_field(None), None);
    assert_eq!(
        HolderId::from_field(Some("a")).as_ref().map(HolderId::as_str),
        Some("a")
    );
}
