//! For each invariant a plan that is right until one thing in it is made wrong.

use super::samples::{NOW, Sample, healthy, process, uid, volume};
use super::worlds::{
    EXTRA, MAIN, OTHER, empty, failing_over, falling_asleep, held_up, joining, moving, proving, renewing,
    resetting, settling, stray, unfinished,
};
use crate::memgraph::ids::{Gen, Ordinal, Pods, ProofId, RegistrationName, Revision, Term};
use crate::memgraph::invariants::{Invariant, check};
use crate::memgraph::observed::{Approval, Mode, Role, Status};
use crate::memgraph::plan::{OnRefusal, Plan, Planned, Step, Target};
use crate::memgraph::record::{Loose, Override, Record, State, Writes};
use crate::memgraph::rules::Rules;
use crate::memgraph::spec::{FenceTimeout, WritesWithoutSync};
use crate::time::Time;

/// A sample and its plan, before and after one thing was made wrong.
struct Case {
    good: (Sample, Plan),
    bad: (Sample, Plan),
}

/// The plan itself is made wrong.
fn planned(sample: Sample, f: impl FnOnce(&mut Plan)) -> Case {
    let plan = sample.decided();
    let mut bad = plan.clone();
    f(&mut bad);
    Case {
        good: (sample.clone(), plan),
        bad: (sample, bad),
    }
}

/// The plan stays; the world it is judged in is another one.
fn elsewhere(sample: Sample, f: impl FnOnce(&mut Sample)) -> Case {
    let plan = sample.decided();
    let bad = sample.clone().with(f);
    Case {
        good: (sample, plan.clone()),
        bad: (bad, plan),
    }
}

fn leave_out(plan: &mut Plan, f: impl Fn(&Step) -> bool) {
    let before = plan.steps.len();
    plan.steps.retain(|p| !f(&p.step));
    assert!(plan.steps.len() < before, "there is no such step: {plan:#?}");
}

fn add(plan: &mut Plan, step: Step) {
    plan.steps.push(Planned {
        step,
        on_refusal: OnRefusal::End,
    });
}

/// Changes the n-th record that the plan writes.
fn edit(plan: &mut Plan, n: usize, f: impl FnOnce(&mut Record)) {
    let mut records = plan.steps.iter_mut().filter_map(|p| match &mut p.step {
        Step::CreateRecord(r) | Step::WriteRecord(r) => Some(r),
        _ => None,
    });
    f(records.nth(n).expect("the plan writes that many records"));
}

/// Changes the step of this kind.
fn turn(plan: &mut Plan, kind: impl Fn(&Step) -> bool, f: impl FnOnce(&mut Planned)) {
    f(plan
        .steps
        .iter_mut()
        .find(|p| kind(&p.step))
        .expect("the plan has such a step"));
}

fn is_fence(step: &Step) -> bool {
    matches!(step, Step::AwaitFence { .. })
}

fn is_register(step: &Step) -> bool {
    matches!(step, Step::Register { .. })
}

fn set_otherwise(planned: &mut Planned) {
    if let Step::AwaitFence { otherwise, .. } = &mut planned.step {
        *otherwise = FenceTimeout::Proceed;
    }
}

fn main_target() -> Target {
    Target {
        pod: Ordinal(0),
        process: process(0, 0),
    }
}

fn other_target() -> Target {
    Target {
        pod: Ordinal(1),
        process: process(1, 0),
    }
}

fn case(invariant: Invariant) -> Case {
    use Invariant as I;
    match invariant {
        I::FenceFirst => planned(failing_over(), |p| leave_out(p, is_fence)),
        I::NoProceed => planned(moving(), |p| turn(p, is_fence, set_otherwise)),
        I::StartFenceSeen => elsewhere(failing_over(), |s| {
            s.pod(MAIN).object.as_mut().unwrap().start_fence = false;
        }),
        I::CauseNeeded => elsewhere(failing_over(), |s| {
            s.seen.gateways[0].heard = Some((NOW, process(0, 0)));
        }),
        I::ProvenByCommit => planned(proving(), |p| {
            leave_out(p, |s| matches!(s, Step::ReadProof { .. }));
        }),
        I::ProvenPair => elsewhere(proving(), |s| s.listed()[0].attached = false),
        I::ProvenName => planned(proving(), |p| {
            edit(p, 0, |r| {
                r.sync.as_mut().unwrap().name = RegistrationName::Strict(Ordinal(1), Gen(4));
            });
        }),
        I::ProvenNotLoose => planned(proving(), |p| {
            edit(p, 0, |r| {
                r.loose.push(Loose {
                    pod: Ordinal(0),
                    process: process(0, 0),
                });
            });
        }),
        I::ProvenInEpoch => elsewhere_and_record(proving(), |r| r.main.as_mut().unwrap().peers.clear()),
        I::ProvenAfterGateways => elsewhere(proving(), |s| s.seen.gateways[1].term = Term(2)),
        I::ProtectionEnds => {
            let sync = healthy().record().sync;
            planned(failing_over(), |p| edit(p, 0, |r| r.sync = sync))
        }
        I::EpochNeedsPromotion => planned(failing_over(), |p| {
            edit(p, 1, |r| r.main.as_mut().unwrap().peers = vec![process(0, 1)]);
        }),
        I::LooseUntilGone => planned(
            failing_over().with(|s| {
                s.record().loose = vec![Loose {
                    pod: Ordinal(1),
                    process: process(1, 0),
                }];
            }),
            |p| edit(p, 0, |r| r.loose.clear()),
        ),
        I::UnfinishedIsLoose => planned(unfinished(), |p| edit(p, 0, |r| r.loose.clear())),
        I::WithdrawFirst => planned(healthy(), |p| {
            let name = RegistrationName::Strict(Ordinal(1), Gen(5));
            add(
                p,
                Step::Drop {
                    on: main_target(),
                    name,
                },
            );
        }),
        I::DropIdle => elsewhere(joining(), |s| s.listed()[0].status = Status::Recovery),
        _ => more(invariant),
    }
}

/// The record is made wrong both as it was read and as it is written.
fn elsewhere_and_record(sample: Sample, f: impl Fn(&mut Record)) -> Case {
    let plan = sample.decided();
    let mut bad = plan.clone();
    edit(&mut bad, 0, &f);
    let world = sample.clone().with(|s| f(s.record()));
    Case {
        good: (sample, plan),
        bad: (world, bad),
    }
}

fn more(invariant: Invariant) -> Case {
    use Invariant as I;
    match invariant {
        I::RegisterName => planned(joining(), |p| {
            turn(p, is_register, |p| {
                if let Step::Register { mode, .. } = &mut p.step {
                    *mode = Mode::Sync;
                }
            });
        }),
        I::RegisterPeer => elsewhere(joining(), |s| s.answer(OTHER).role = Role::Main),
        I::RegisterPort => elsewhere(joining(), |s| s.pod(OTHER).replication_port_open = None),
        I::RegisterUndone => planned(joining(), |p| {
            turn(p, is_register, |p| p.on_refusal = OnRefusal::End);
        }),
        I::RegisterNewName => elsewhere(joining(), |s| {
            let mut strict = s.listed()[0];
            strict.name = RegistrationName::Strict(Ordinal(1), Gen(5));
            s.listed().push(strict);
        }),
        I::WritesByPolicy => elsewhere(failing_over(), |s| {
            s.seen.spec.writes_without_sync = WritesWithoutSync::Never;
        }),
        I::WritesOnlyServing => planned(failing_over(), |p| edit(p, 0, |r| r.writes = Writes::Open)),
        I::ClosedWhileAhead => elsewhere(proving(), |s| s.listed()[0].behind = 4),
        I::SleepClosed => elsewhere(falling_asleep(), |s| s.seen.gateways[0].revision = Revision(7)),
        I::SleepProven => planned(falling_asleep(), |p| {
            leave_out(p, |s| matches!(s, Step::WriteProof { .. }));
        }),
        I::StrayUnprotected => {
            let sync = healthy().record().sync;
            planned(stray(), |p| edit(p, 0, |r| r.sync = sync))
        }
        I::OfficeKept => planned(renewing(), |p| {
            leave_out(p, |s| matches!(s, Step::AwaitGateways(..)));
        }),
        I::RecordFirst => planned(stray(), |p| leave_out(p, |s| s.record().is_some())),
        I::CandidateOnly => planned(failing_over(), |p| {
            turn(
                p,
                |s| matches!(s, Step::Promote(_)),
                |p| p.step = Step::Promote(main_target()),
            );
        }),
        I::FreshTarget => elsewhere(failing_over(), |s| s.answer(OTHER).at = Time(1)),
        I::OneRevision => planned(failing_over(), |p| edit(p, 1, |r| r.revision = Revision(9))),
        I::OneTerm => planned(failing_over(), |p| edit(p, 0, |r| r.term = Term(5))),
        I::GenerationGrows => planned(stray(), |p| edit(p, 0, |r| r.generation = Gen(5))),
        I::LegalChange => planned(failing_over(), |p| edit(p, 0, |r| r.state = State::Initialising)),
        I::Paused => elsewhere(failing_over(), |s| {
            s.seen.wishes.paused_until = Some(Time(2_000_000));
        }),
        I::AsleepQuiet => planned(healthy(), |p| add(p, Step::Scale(2))),
        _ => offices_and_resets(invariant),
    }
}

fn offices_and_resets(invariant: Invariant) -> Case {
    use Invariant as I;
    match invariant {
        I::Entitled => elsewhere(failing_over(), |s| {
            s.record().sync.as_mut().unwrap().process = process(1, 1);
        }),
        I::CandidateSeen => elsewhere(failing_over(), |s| {
            s.pod(OTHER).object.as_mut().unwrap().volume = Some(volume(1, 1));
        }),
        I::CandidateStays => planned(unfinished(), |p| {
            edit(p, 0, |r| r.candidate.as_mut().unwrap().process = process(1, 1));
        }),
        I::MarkExpected => elsewhere(failing_over(), |s| {
            s.data(OTHER).mark.as_mut().unwrap().term = Term(2);
        }),
        I::ServesAsCandidate => planned(failing_over(), |p| {
            leave_out(p, |s| matches!(s, Step::AdvanceMark { .. }));
        }),
        I::FirstTermAboveAll => elsewhere(empty(), |s| s.seen.memory.status_term = Some(Term(4))),
        I::Adopted => elsewhere(empty(), |s| s.data(OTHER).empty = false),
        I::SuspectKept => elsewhere(failing_over(), |s| {
            s.record().main.as_mut().unwrap().peers.clear();
        }),
        I::ClaimFenced => elsewhere(held_up(), |s| {
            s.seen.gateways[0].term = Term(1);
            s.seen.spec.fence_timeout = FenceTimeout::Wait;
        }),
        I::ResetTarget => elsewhere_and_record(resetting(), |r| {
            r.sync.as_mut().unwrap().pod = Ordinal(2);
        }),
        I::ResetEvidence => elsewhere(resetting(), |s| s.pod(EXTRA).refusal = None),
        I::ResetRoom => elsewhere(resetting(), |s| s.seen.memory.crowded = Pods::ALL),
        I::ResetQuiet => planned(resetting(), |p| edit(p, 0, |r| r.since = NOW)),
        I::ResetSuspect => elsewhere_and_record(resetting(), |r| r.main.as_mut().unwrap().suspect = true),
        I::MarkerOfRecord => planned(resetting(), |p| {
            leave_out(p, |s| matches!(s, Step::WriteMarker { .. }));
        }),
        I::EndProcess => planned(settling(), |p| {
            let is_end = |s: &Step| matches!(s, Step::EndProcess { .. });
            turn(p, is_end, |p| {
                p.step = Step::EndProcess {
                    target: main_target(),
                    uid: uid(0),
                }
            });
        }),
        other => panic!("{other} has no broken plan"),
    }
}

fn found((sample, plan): &(Sample, Plan), rules: Rules) -> Vec<Invariant> {
    let mut seen = sample.seen.clone();
    seen.spec.rules = rules;
    check(sample.record.as_ref(), &seen, plan, sample.now)
        .into_iter()
        .map(|v| v.invariant)
        .collect()
}

#[test]
fn each_invariant_is_kept_until_one_thing_is_made_wrong() {
    for invariant in Invariant::ALL {
        let case = case(*invariant);
        assert_eq!(
            found(&case.good, Rules::ALL),
            [],
            "{invariant}: the plan was wrong before"
        );
        let wrong = found(&case.bad, Rules::ALL);
        assert!(
            wrong.contains(invariant),
            "{invariant} is not reported, but {wrong:?}\n{:#?}",
            case.bad.1.steps
        );
    }
}

#[test]
fn an_invariant_is_not_reported_while_one_of_its_rules_is_off() {
    for invariant in Invariant::ALL {
        let case = case(*invariant);
        for rule in invariant.rules() {
            assert!(
                !found(&case.bad, Rules::ALL.without(*rule)).contains(invariant),
                "{invariant} without {rule}"
            );
        }
    }
}

#[test]
fn ids_are_unique_and_in_order_within_their_group() {
    let parts = |i: &Invariant| -> (u32, u32) {
        let (group, number) = i.id().strip_prefix('I').unwrap().split_once('.').unwrap();
        (group.parse().unwrap(), number.parse().unwrap())
    };
    let ids: Vec<_> = Invariant::ALL.iter().map(parts).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

#[test]
fn a_violation_says_which_invariant_which_step_and_about_what() {
    let Case {
        good: _,
        bad: (sample, plan),
    } = case(Invariant::FenceFirst);
    let all = check(sample.record.as_ref(), &sample.seen, &plan, sample.now);
    let said = all[0].to_string();
    assert!(said.starts_with("[I1.1] step 2, pod-1 in process 0000"), "{said}");
}

#[test]
fn an_override_waits_for_its_fence_also_when_another_turn_takes_it_over() {
    let override_pod_1 = |s: &mut Sample| {
        s.record().sync = None;
        s.seen.wishes.override_main = Some(Override {
            pod: Ordinal(1),
            until: Time(2_000_000),
        });
    };
    let begun = failing_over().with(override_pod_1);
    let first = begun.decided();
    let next = first.steps[0].step.record().unwrap().clone();
    let taken_over = begun.clone().with(|s| s.record = Some(next));
    for sample in [begun, taken_over] {
        let case = planned(sample, |p| turn(p, is_fence, set_otherwise));
        assert_eq!(found(&case.good, Rules::ALL), []);
        assert!(found(&case.bad, Rules::ALL).contains(&Invariant::NoProceed));
    }
}

#[test]
fn an_override_also_fences_a_main_that_was_being_promoted_again() {
    let again = healthy().with(|s| {
        s.record().sync = None;
        s.record().loose = vec![Loose {
            pod: Ordinal(0),
            process: process(0, 1),
        }];
        s.answer(MAIN).process = process(0, 1);
        s.pod(MAIN).object.as_mut().unwrap().running = Some(process(0, 1));
        s.seen.wishes.override_main = Some(Override {
            pod: Ordinal(1),
            until: Time(2_000_000),
        });
    });
    let case = planned(again, |p| {
        let last = p.steps.iter().rposition(|p| is_fence(&p.step)).unwrap();
        p.steps.remove(last);
    });
    assert_eq!(found(&case.good, Rules::ALL), []);
    assert!(found(&case.bad, Rules::ALL).contains(&Invariant::FenceFirst));
}

#[test]
fn nothing_but_the_number_of_pods_changes_while_asleep() {
    let asleep = healthy().with(|s| {
        s.record().state = State::Hibernated;
        s.seen.wishes.hibernated = true;
    });
    let case = planned(asleep, |p| {
        add(
            p,
            Step::WriteProof {
                on: other_target(),
                proof: ProofId(1),
            },
        );
    });
    assert_eq!(found(&case.good, Rules::ALL), []);
    assert_eq!(found(&case.bad, Rules::ALL), [Invariant::AsleepQuiet]);
}

#[test]
fn a_mark_that_a_user_deleted_may_be_written_again_and_no_other() {
    let deleted = healthy().with(|s| s.data(MAIN).mark = None);
    let write = |to| {
        let mut plan = Plan::default();
        add(
            &mut plan,
            Step::AdvanceMark {
                on: main_target(),
                from: None,
                to,
            },
        );
        plan
    };
    assert_eq!(found(&(deleted.clone(), write(Term(3))), Rules::ALL), []);
    assert_eq!(
        found(&(deleted, write(Term(4))), Rules::ALL),
        [Invariant::MarkExpected]
    );
    assert_eq!(
        found(&(healthy(), write(Term(3))), Rules::ALL),
        [Invariant::MarkExpected]
    );
}

#[test]
fn what_may_hold_a_lost_write_is_set_aside_to_be_kept() {
    let stranger = resetting().with(|s| s.data(EXTRA).mark = None).with(|s| {
        // Nobody can tell whom it followed, so a human has to say that it may be reset.
        s.seen.wishes.approve_reset = Some(Approval {
            pod: Ordinal(2),
            process: process(2, 0),
        });
    });
    let case = planned(stranger, |p| {
        edit(p, 0, |r| r.reset.as_mut().unwrap().keep = false);
    });
    assert_eq!(found(&case.good, Rules::ALL), []);
    assert_eq!(found(&case.bad, Rules::ALL), [Invariant::ResetQuiet]);
}
