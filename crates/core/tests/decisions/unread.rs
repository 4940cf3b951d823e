//! What was forgotten, not read, or only seen once: each was once taken for more than it says.

use super::cluster::{Situation, TERM, a_candidate, ago, cluster, process, second, strict};
use super::faults::has_step;
use super::render::text;
use mainstay_core::memgraph::ids::{Gen, Ordinal, Term};
use mainstay_core::memgraph::observed::{Approval, Role, Status};
use mainstay_core::memgraph::plan::Step;
use mainstay_core::memgraph::reason::Why;
use mainstay_core::memgraph::record::{Record, Writes};
use mainstay_core::memgraph::spec::FenceTimeout;

fn whys(situation: &Situation) -> Vec<Why> {
    situation.plan().reasons.into_iter().map(|r| r.why).collect()
}

fn asks_for_a_reset(situation: &Situation) -> bool {
    has_step(situation, |s| s.record().is_some_and(|r| r.reset.is_some()))
}

fn created(situation: &Situation) -> Record {
    let steps = situation.plan().steps;
    let first = steps.first().map(|p| p.step.clone());
    let Some(Step::CreateRecord(record)) = first else {
        panic!("no record is created: {}", text(&situation.plan()));
    };
    *record
}

/// A promote of either pod may be on its way from before the record was lost; the lost record knew of whom.
#[test]
fn after_a_lost_record_whoever_runs_may_still_be_promoted_by_somebody() {
    let rebuilt = created(&cluster().record_lost());
    assert!(rebuilt.is_loose(process(0)) && rebuilt.is_loose(process(1)));
    assert!(!rebuilt.is_loose(process(2)), "nobody promotes an ASYNC pod");
    let adopted = created(&cluster().never_recorded().mark(0, None).mark(1, None));
    assert_eq!(
        (adopted.term, adopted.loose.len()),
        (Term(1), 0),
        "nobody was here before"
    );
}

/// A DROP of a name from before the record was lost must not hit a registration of today (T4).
#[test]
fn after_a_lost_record_no_name_is_used_again() {
    let rebuilt = created(&cluster().record_lost());
    let terms_and_withdrawals = 1_000_000;
    assert!(rebuilt.generation > Gen(TERM.0 + terms_and_withdrawals));
    let again = created(
        &cluster()
            .record_lost()
            .memory(|m| m.status_term = Some(rebuilt.term)),
    );
    assert!(again.generation > Gen(rebuilt.generation.0 + terms_and_withdrawals));
}

/// Whether pod-1 followed MAIN is told by its mark. In the first term of a cluster nothing else protects it.
#[test]
fn a_pod_of_the_pair_whose_data_could_not_be_read_is_not_reset() {
    let accused = cluster().unprotected().unregistered(1).accused(1, 3).record(|r| {
        let main = r.main.as_mut().expect("MAIN");
        (main.history_from, main.office_from) = (Term(0), Term(1));
    });
    assert_eq!(whys(&accused), [Why::NeedsApproval { pod: Ordinal(1) }]);
    let unread = accused.answer(1, |a| a.data = None);
    assert_eq!(whys(&unread), [Why::DataUnread { pod: Ordinal(1) }]);
    assert!(!asks_for_a_reset(&unread), "{}", text(&unread.plan()));
    let approved = unread.wishing(|w| {
        w.approve_reset = Some(Approval {
            pod: Ordinal(1),
            process: process(1),
        });
    });
    assert!(asks_for_a_reset(&approved), "{}", text(&approved.plan()));
}

/// The status belongs to the registration, and outlives for some pings the data of which it was said.
#[test]
fn a_copy_that_was_just_emptied_is_not_reset_again() {
    for (pod, cluster) in [(2, cluster()), (1, cluster().joining())] {
        let shown = cluster
            .listed(pod, |r| r.status = Status::Diverged)
            .resetting(pod)
            .restarted(pod)
            .emptied(pod);
        assert!(
            !whys(&shown).contains(&Why::ResetOverruled { pod: Ordinal(pod) }),
            "{}",
            text(&shown.plan())
        );
        let forgotten = shown.record(|r| r.reset = None);
        assert!(!asks_for_a_reset(&forgotten), "{}", text(&forgotten.plan()));
    }
}

/// A person may throw away a good copy of an ASYNC pod, but not the only one beside MAIN's.
#[test]
fn a_copy_that_is_not_diverged_is_reset_only_while_another_one_protects_main() {
    let wished = |situation: Situation| {
        situation.wishing(|w| {
            w.reset = Some(Approval {
                pod: Ordinal(2),
                process: process(2),
            });
        })
    };
    assert!(asks_for_a_reset(&wished(cluster())));
    let alone = wished(cluster().unprotected().silent(1, 3));
    assert!(!asks_for_a_reset(&alone), "{}", text(&alone.plan()));
    assert!(
        whys(&alone).contains(&Why::LastCopy { pod: Ordinal(2) }),
        "{:?}",
        whys(&alone)
    );
    for away in [cluster().silent(1, 1), cluster().restarted(1)] {
        let believed = wished(away);
        assert!(
            !asks_for_a_reset(&believed),
            "who is on record does not answer: {}",
            text(&believed.plan())
        );
    }
}

/// A move whose drain takes its time, and one probe that is lost on the way: no failover, which may pass a fence over.
#[test]
fn a_move_is_no_failover_because_main_missed_a_look() {
    let moving = |missed| {
        cluster()
            .silent(0, missed)
            .becomes(|r| r.switching_over(a_candidate(1), ago(5_000)))
            .spec(|s| s.fence_timeout = FenceTimeout::Proceed)
    };
    let new_term = |s: &Step| s.record().is_some_and(|r| r.term.0 > TERM.0 + 1);
    for missed in [1, 2] {
        let situation = moving(missed);
        assert!(!has_step(&situation, new_term), "{}", text(&situation.plan()));
        let waits = |s: &Step| {
            matches!(
                s,
                Step::AwaitFence {
                    otherwise: FenceTimeout::Wait,
                    ..
                }
            )
        };
        assert!(has_step(&situation, waits), "{}", text(&situation.plan()));
    }
    assert!(has_step(&moving(3), new_term));
    let vetoed = moving(3).one_gateway(|g| g.heard = Some((ago(100), process(0))));
    assert!(!has_step(&vetoed, new_term), "a gateway has just heard it");
    assert!(has_step(&moving(1).crashed(0), new_term), "it is over");
}

/// A pod on its way out is why most moves are begun, so that says nothing of how far it is: gateways may drain for longer
/// than a fence is waited for.
#[test]
fn a_move_from_a_pod_that_is_deleted_passes_its_fence_over_only_when_main_is_lost() {
    let fence = |missed| {
        let drained = cluster()
            .silent(0, missed)
            .becomes(|r| r.switching_over(a_candidate(1), ago(1_000)))
            .object(0, |o| o.terminating = true)
            .spec(|s| s.fence_timeout = FenceTimeout::Proceed);
        let fence = drained.plan().steps.into_iter().find_map(|p| match p.step {
            Step::AwaitFence { otherwise, .. } => Some(otherwise),
            _ => None,
        });
        fence.unwrap_or_else(|| panic!("no fence: {}", text(&drained.plan())))
    };
    assert_eq!([fence(1), fence(2)], [FenceTimeout::Wait; 2]);
    assert_eq!(fence(3), FenceTimeout::Proceed, "nobody hears it");
}

/// The last transaction of a MAIN that died deleted everything: it has no mark, and a history that MAIN refuses.
#[test]
fn an_empty_copy_that_is_refused_by_name_is_not_registered_for_ever() {
    let refused = cluster()
        .unprotected()
        .unregistered(1)
        .data(1, |d| (d.empty, d.mark) = (true, None))
        .accused(1, 3);
    assert_eq!(whys(&refused), [Why::TooOldToJudge { pod: Ordinal(1) }]);
    let registers = |s: &Step| matches!(s, Step::Register { .. });
    assert!(!has_step(&refused, registers), "{}", text(&refused.plan()));
    let approved = refused.wishing(|w| {
        w.approve_reset = Some(Approval {
            pod: Ordinal(1),
            process: process(1),
        });
    });
    assert!(asks_for_a_reset(&approved), "{}", text(&approved.plan()));
}

/// A registration that can be dropped only while writes stand still, and a gateway that does not say that they do.
#[test]
fn writes_that_are_held_for_a_drop_go_on_when_it_takes_too_long() {
    let waiting = |held_ms| {
        cluster()
            .unprotected()
            .listed(1, |r| r.name = strict(1, 4))
            .record(|r| {
                r.exposed = true;
                r.writes = Writes::Held;
                r.held_at = ago(held_ms);
            })
            .one_gateway(|g| g.revision.0 -= 1)
    };
    let reopens = |s: &Step| s.record().is_some_and(|r| r.writes == Writes::Open);
    let hold = u64::try_from(cluster().seen.spec.hold.as_millis()).expect("short");
    assert!(!has_step(&waiting(hold), reopens));
    assert!(
        has_step(&waiting(hold + 1), reopens),
        "{:?}",
        whys(&waiting(hold + 1))
    );
    let moved_on = waiting(hold + 1).listed(1, |r| r.status = Status::Recovery);
    assert!(has_step(&moved_on, reopens), "{:?}", whys(&moved_on));
    let holds = |s: &Step| s.record().is_some_and(|r| r.writes == Writes::Held);
    let open = |held_ms| waiting(held_ms).record(|r| r.writes = Writes::Open);
    assert!(!has_step(&open(hold * 6 - 1), holds), "not again so soon");
    assert!(has_step(&open(hold * 6), holds));
}

/// R31 leaves a candidate that was emptied without its mark for ever; MAIN is back, and has everything.
#[test]
fn a_candidate_that_lost_its_data_gives_the_office_back() {
    let spoiled = cluster()
        .restarted(0)
        .role(0, Role::Replica)
        .no_main(1)
        .data(1, |d| (d.empty, d.mark) = (true, None));
    assert_eq!(whys(&spoiled), [Why::CandidateSpoiled { pod: Ordinal(1) }]);
    let begun = spoiled.plan().steps[0]
        .step
        .record()
        .cloned()
        .expect("a new term");
    assert_eq!(
        begun.candidate.as_ref().map(|c| (c.pod, c.process)),
        Some((Ordinal(0), second(0)))
    );
    assert!(begun.is_loose(process(1)), "a promote may still hit it");
    let back = |s: &Step| s.record().is_some_and(|r| r.term.0 > TERM.0 + 1);
    let forced = spoiled.clone().record(|r| {
        r.candidate.as_mut().expect("one").forced = Some(ago(0));
    });
    assert!(!has_step(&forced, back), "a human's choice");
    let alone = spoiled.clone().silent(0, 3);
    assert!(!has_step(&alone, back), "MAIN is not there");
    let unread = spoiled.answer(1, |a| a.data = None);
    assert!(!has_step(&unread, back), "nobody knows");
}
