//! What the judge has found in `decide`, each as the situation in which it was wrong.

use super::samples::{Sample, process, volume};
use super::worlds::{MAIN, OTHER, empty, falling_asleep, joining, moving, proving, unfinished};
use crate::memgraph::Plan;
use crate::memgraph::ids::{Gen, Ordinal, RegistrationName, Revision, Term};
use crate::memgraph::observed::{Data, Mark, Mode, Registration, Role, Status};
use crate::memgraph::plan::Step;
use crate::memgraph::record::{Loose, Record, State};
use crate::memgraph::spec::FenceTimeout;
use crate::time::Time;

fn first_record(plan: &Plan) -> &Record {
    plan.steps[0]
        .step
        .record()
        .expect("the plan begins with a record")
}

#[test]
fn a_process_that_just_answered_is_not_gone_because_its_object_lags() {
    let case = unfinished().with(|s| s.pod(OTHER).object.as_mut().unwrap().running = Some(process(1, 2)));
    let taken_over = Loose {
        pod: Ordinal(1),
        process: process(1, 0),
    };
    assert_eq!(first_record(&case.decided()).loose, [taken_over]);
}

#[test]
fn a_loose_main_is_not_proven_because_its_pod_object_was_not_seen() {
    let case = proving().with(|s| {
        s.record().loose = vec![Loose {
            pod: Ordinal(0),
            process: process(0, 0),
        }];
        s.pod(MAIN).object = None;
    });
    assert_eq!(case.decided().steps, []);
}

#[test]
fn a_confirmation_from_before_the_record_was_lost_does_not_count() {
    // The rebuilt record begins again at a low revision; the gateway has confirmed a higher one of its past.
    let case = joining().with(|s| {
        s.seen.gateways[0].term = Term(2);
        s.seen.gateways[0].revision = Revision(900);
    });
    assert_eq!(case.decided().steps, []);
}

#[test]
fn a_planned_move_that_is_taken_over_does_not_pass_its_fence_over_while_main_lives() {
    let begun = moving();
    let next = first_record(&begun.decided()).clone();
    let case = begun.with(|s| {
        next.clone_into(s.record());
        s.record().since = s.now;
    });
    let waits = |p: &Plan| {
        p.steps.iter().any(|p| {
            matches!(
                p.step,
                Step::AwaitFence {
                    otherwise: FenceTimeout::Wait,
                    ..
                }
            )
        })
    };
    assert_eq!(case.seen.spec.fence_timeout, FenceTimeout::Proceed);
    assert!(waits(&case.decided()), "{:#?}", case.decided().steps);
}

#[test]
fn strict_sync_too_is_registered_only_when_the_port_is_open() {
    let case = joining().with(|s| s.pod(OTHER).replication_port_open = Some(false));
    assert_eq!(case.decided().steps, []);
}

#[test]
fn protection_is_withdrawn_when_somebody_made_the_registration_async() {
    let sync = falling_asleep().record().sync;
    let case = joining().with(|s| s.record().sync = sync);
    let plan = case.decided();
    assert_eq!(
        (first_record(&plan).sync, first_record(&plan).generation),
        (None, Gen(6))
    );
    assert_eq!(plan.steps.len(), 1);
}

#[test]
fn protection_that_cannot_be_proven_again_is_not_kept_through_sleep() {
    let restarted = |s: &mut Sample| s.answer(OTHER).process = process(1, 1);
    let recovering = |s: &mut Sample| s.listed()[0].status = Status::Recovery;
    for case in [
        falling_asleep().with(restarted),
        falling_asleep().with(recovering),
    ] {
        let plan = case.decided();
        assert_eq!(
            (first_record(&plan).state, first_record(&plan).sync),
            (State::Serving, None)
        );
    }
}

#[test]
fn a_first_term_is_not_begun_again_on_another_volume() {
    let begun = empty();
    let next = first_record(&begun.decided()).clone();
    let came_back = |s: &mut Sample| {
        s.record = Some(next.clone());
        s.answer(MAIN).process = process(0, 1);
        s.pod(MAIN).object.as_mut().unwrap().running = Some(process(0, 1));
    };
    let same = begun.clone().with(came_back);
    assert_eq!(first_record(&same.decided()).term, Term(2));
    let other = same.with(|s| s.pod(MAIN).object.as_mut().unwrap().volume = Some(volume(0, 1)));
    assert_eq!(other.decided().steps, []);
}

#[test]
fn a_mark_above_the_record_is_suspicious_on_the_recorded_main_too() {
    // MAIN keeps its office in a new epoch; its data says a term that was never begun.
    let case = proving().with(|s| {
        s.record().main.as_mut().unwrap().peers.clear();
        s.data(MAIN).mark.as_mut().unwrap().term = Term(4);
    });
    assert_eq!(case.decided().steps, []);
}

/// No record; pod-0 is MAIN with data and lists pod-1 like this.
fn adopted(listed: Registration) -> Sample {
    empty().with(|s| {
        for i in [MAIN, OTHER] {
            let mark = Some(Mark {
                term: Term(1),
                proof: crate::memgraph::ids::ProofId(0),
            });
            let Data { database, .. } = *s.data(i);
            *s.data(i) = Data {
                database,
                mark,
                empty: false,
                snapshots: false,
            };
        }
        s.answer(MAIN).role = Role::Main;
        s.answer(MAIN).replicas = Some(vec![listed]);
    })
}

fn listed(attached: bool, status: Status) -> Registration {
    Registration {
        name: RegistrationName::Async(Ordinal(1)),
        mode: Mode::Async,
        address_ok: true,
        attached,
        status,
        behind: 0,
        since: Time(0),
        moved: None,
    }
}

#[test]
fn a_main_that_calls_the_other_pod_diverged_is_not_adopted() {
    let good = adopted(listed(true, Status::Ready));
    assert_eq!(
        first_record(&good.decided()).candidate.as_ref().map(|c| c.pod),
        Some(Ordinal(0))
    );
    assert_eq!(adopted(listed(true, Status::Diverged)).decided().steps, []);
}

#[test]
fn a_zombie_is_dropped_before_main_is_asked_whether_it_holds_everything() {
    let plan = adopted(listed(false, Status::Invalid)).decided();
    let steps: Vec<&Step> = plan.steps.iter().map(|p| &p.step).collect();
    assert!(
        matches!(
            steps[..],
            [Step::Drop {
                name: RegistrationName::Async(Ordinal(1)),
                ..
            }]
        ),
        "{steps:?}"
    );
}
