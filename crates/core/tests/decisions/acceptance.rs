//! The acceptance scenarios that are decisions, by their ids.

use super::cluster::{Situation, TERM, ago, cluster, fresh, process, second};
use mainstay_core::memgraph::gate::{Gate, Route};
use mainstay_core::memgraph::ids::{Ordinal, PodUid};
use mainstay_core::memgraph::observed::{Contact, Role, Status};
use mainstay_core::memgraph::plan::{Planned, Step, Target};
use mainstay_core::memgraph::reason::Why;
use mainstay_core::memgraph::record::{Record, Writes};
use mainstay_core::memgraph::rules::Rule;
use mainstay_core::memgraph::spec::WritesWithoutSync;
use std::time::Duration;

fn steps(situation: &Situation) -> Vec<Step> {
    situation
        .plan()
        .steps
        .into_iter()
        .map(|Planned { step, on_refusal: _ }| step)
        .collect()
}

fn whys(situation: &Situation) -> Vec<Why> {
    situation.plan().reasons.into_iter().map(|r| r.why).collect()
}

fn promoted(situation: &Situation) -> Vec<Target> {
    steps(situation)
        .into_iter()
        .filter_map(|s| if let Step::Promote(t) = s { Some(t) } else { None })
        .collect()
}

fn records(situation: &Situation) -> Vec<Record> {
    steps(situation)
        .iter()
        .filter_map(|s| s.record().cloned())
        .collect()
}

fn dials(situation: &Situation, pod: u8) -> bool {
    steps(situation)
        .iter()
        .any(|s| matches!(s, Step::Register { peer, .. } if peer.pod == Ordinal(pod)))
}

fn protected() -> Target {
    Target {
        pod: Ordinal(1),
        process: process(1),
    }
}

#[test]
fn b2_two_mains_with_data_are_ambiguous_and_nothing_is_sent() {
    let both = || {
        cluster()
            .never_recorded()
            .role(1, Role::Main)
            .mark(0, None)
            .mark(1, None)
    };
    let situations = [
        both(),
        both().data(0, |d| d.empty = true),
        both().data(1, |d| d.empty = true),
        both().memory(|m| m.status_term = Some(TERM)),
    ];
    for situation in situations {
        assert_eq!(steps(&situation), []);
        assert_eq!(whys(&situation), [Why::UnknownState]);
    }
}

#[test]
fn b4_replicas_only_or_an_unanswered_question_change_nothing() {
    let adopted = || cluster().never_recorded();
    let situations = [
        (adopted().role(0, Role::Replica), Why::UnknownState),
        (adopted().silent(0, 1), Why::NotReady { pod: Ordinal(0) }),
        (adopted().refused(1, 1), Why::NotReady { pod: Ordinal(1) }),
        (
            adopted().answer(0, |a| a.data = None),
            Why::NotReady { pod: Ordinal(0) },
        ),
        (
            adopted().pod(1, |p| p.contact = Contact::Unknown),
            Why::NotReady { pod: Ordinal(1) },
        ),
    ];
    for (situation, why) in situations {
        assert_eq!(steps(&situation), [], "{why}");
        assert_eq!(whys(&situation), [why]);
    }
}

#[test]
fn b7_a_pod_without_an_address_is_never_dialled() {
    let without = |s: Situation, pod| s.object(pod, |o| o.addressed = false);
    assert!(
        dials(&cluster().unprotected().unregistered(1), 1),
        "with an address it is"
    );
    assert!(!dials(&without(cluster().unprotected().unregistered(1), 1), 1));
    assert!(dials(&cluster().unregistered(2), 2), "with an address it is");
    assert!(!dials(&without(cluster().unregistered(2), 2), 2));
    assert_eq!(steps(&without(fresh(), 0)), []);
    assert_eq!(steps(&without(fresh(), 1)), []);
}

#[test]
fn r2_an_invalid_sync_replica_is_not_dropped_while_writes_are_open() {
    for policy in [WritesWithoutSync::AfterFailover, WritesWithoutSync::Never] {
        for since in [0, 4999, 5000, 3_600_000] {
            let invalid = cluster().policy(policy).listed(1, |r| {
                r.status = Status::Invalid;
                r.since = ago(since);
            });
            let away = invalid.clone().silent(1, 3);
            assert_eq!(steps(&away), [], "away for {since} ms under {policy:?}");
            let mut writes = Writes::Open;
            for step in steps(&invalid) {
                writes = step.record().map_or(writes, |r| r.writes);
                assert!(
                    !matches!(step, Step::Drop { .. }) || writes != Writes::Open,
                    "{since} ms, {policy:?}"
                );
            }
        }
    }
    assert_eq!(
        whys(&cluster()),
        [Why::Healthy { main: Ordinal(0) }],
        "after it recovered nothing is to be done"
    );
}

#[test]
fn r5_an_extra_main_is_demoted_and_nothing_is_registered_meanwhile() {
    for (pod, situation) in [
        (1, cluster().role(1, Role::Main)),
        (1, cluster().restarted(1).role(1, Role::Main).unregistered(1)),
        (2, cluster().role(2, Role::Main)),
        (2, cluster().restarted(2).role(2, Role::Main).unregistered(2)),
    ] {
        let steps = steps(&situation);
        let demoted = |s: &Step| matches!(s, Step::Demote(t) if t.pod == Ordinal(pod));
        assert!(steps.iter().any(demoted), "pod-{pod}: {steps:?}");
        assert!(
            !steps.iter().any(|s| matches!(s, Step::Register { .. })),
            "pod-{pod}: {steps:?}"
        );
        let written = steps.iter().position(|s| s.record().is_some());
        assert!(
            written < steps.iter().position(demoted),
            "the record comes first: {steps:?}"
        );
    }
}

#[test]
fn r12_a_terminating_replica_is_not_registered_and_blocks_nobody() {
    let leaving = |s: Situation, pod| s.object(pod, |o| o.terminating = true);
    assert!(!dials(&leaving(cluster().unregistered(2), 2), 2));
    let both = leaving(cluster().unprotected().unregistered(1).unregistered(2), 1);
    assert!(!dials(&both, 1));
    assert!(dials(&both, 2), "the other one joins meanwhile");
    let registered = leaving(cluster(), 2);
    assert_eq!(steps(&registered), [], "its registration is left");
}

#[test]
fn f2_a_deleted_main_is_replaced_when_it_is_silent_or_when_another_process_stands_in_its_place() {
    let gone = cluster().pod(0, |p| p.object = None);
    let at_first = gone.clone().silent(0, 1);
    assert_eq!(steps(&at_first), [], "a missing object is no death");
    assert_eq!(whys(&at_first), [Why::NoNews { pod: Ordinal(0) }]);
    assert_eq!(promoted(&gone.silent(0, 3)), [protected()]);
    let anew = cluster().restarted(0).object(0, |o| o.uid = PodUid(0xf9));
    assert_eq!(promoted(&anew), [protected()], "at the first look");
}

#[test]
fn f4_a_main_that_only_we_cannot_reach_is_fenced_before_the_other_is_promoted() {
    let cut_off = cluster().silent(0, 3);
    assert_eq!(promoted(&cut_off), [protected()]);
    let steps = steps(&cut_off);
    let at = |wanted: fn(&Step) -> bool| steps.iter().position(wanted).expect("it is there");
    let written = at(|s| s.record().is_some());
    let pushed = at(|s| matches!(s, Step::PushRecord(_)));
    let fenced = at(|s| matches!(s, Step::AwaitFence { .. }));
    let promoted = at(|s| matches!(s, Step::Promote(_)));
    assert!(
        written < pushed && pushed < fenced && fenced < promoted,
        "{steps:?}"
    );
    let heard = cut_off.one_gateway(|g| g.heard = Some((ago(500), process(0))));
    assert_eq!(heard.plan().steps, [], "a gateway that reaches it vetoes");
}

#[test]
fn f6_no_state_of_an_async_replica_stops_a_failover() {
    for status in [
        Status::Ready,
        Status::Replicating,
        Status::Recovery,
        Status::Invalid,
        Status::Diverged,
    ] {
        let situation = cluster().listed(2, |r| r.status = status).crashed(0);
        assert_eq!(promoted(&situation), [protected()], "{status:?}");
    }
    for situation in [
        cluster().silent(2, 9).crashed(0),
        cluster().crashed(2).crashed(0),
        cluster().role(2, Role::Main).crashed(0),
        cluster().resetting(2).crashed(0),
        cluster().accused(2, 3).crashed(0),
        cluster().with(|s| s.seen.pods.truncate(2)).crashed(0),
    ] {
        assert_eq!(promoted(&situation), [protected()]);
    }
}

#[test]
fn f7_without_a_protected_replica_nobody_is_promoted_until_one_of_them_returns() {
    let stuck = cluster().crashed(0).unprotected();
    assert_eq!(steps(&stuck), []);
    assert!(whys(&stuck).contains(&Why::NobodyEntitled { awaited: Ordinal(0) }));
    let restarted = cluster().crashed(0).restarted(1);
    assert_eq!(promoted(&restarted), [], "the protected process is gone");
    let back = cluster().restarted(0).unprotected();
    assert_eq!(
        promoted(&back),
        [Target {
            pod: Ordinal(0),
            process: second(0)
        }]
    );
    let away = cluster().crashed(0).silent(1, 3);
    assert_eq!(promoted(&away), []);
    assert_eq!(
        promoted(&cluster().crashed(0)),
        [protected()],
        "the protected one is back"
    );
}

#[test]
fn f8_an_async_pod_is_never_promoted_not_even_by_a_human() {
    let down = cluster().crashed(0).crashed(1);
    assert_eq!(steps(&down), []);
    let named = down.overrides(2, super::cluster::NOW + Duration::from_mins(1));
    assert_eq!(steps(&named), []);
    let other = cluster().crashed(0).unprotected();
    let other = other.overrides(1, super::cluster::NOW + Duration::from_mins(1));
    assert_eq!(
        promoted(&other),
        [protected()],
        "a human may name the other authority pod"
    );
    assert_eq!(other.plan().reasons[0].rule, Rule::Override);
}

#[test]
fn f9_an_operator_without_memory_fails_over_on_what_is_stored_and_asked() {
    let cold = cluster().crashed(0).pod(0, |p| {
        p.contact = Contact::Unknown;
        p.replication_port_open = None;
    });
    let cold = cold.with(|s| s.seen.gateways.iter_mut().for_each(|g| g.heard = None));
    assert_eq!(promoted(&cold), [protected()]);
    let nothing = cluster().pod(0, |p| p.contact = Contact::Unknown);
    assert_eq!(steps(&nothing), [], "but not on nothing");
}

#[test]
fn f14_after_a_failover_the_policy_decides_whether_writes_are_open() {
    let last = |policy| {
        records(&cluster().crashed(0).policy(policy))
            .pop()
            .expect("it serves")
            .writes
    };
    assert_eq!(last(WritesWithoutSync::Never), Writes::Closed);
    assert_eq!(last(WritesWithoutSync::AfterFailover), Writes::Open);
    assert_eq!(last(WritesWithoutSync::Always), Writes::Open);
    let alone = |policy, writes| {
        let alone = cluster().unprotected().unregistered(1).crashed(1).policy(policy);
        alone.record(|r| r.writes = writes)
    };
    assert_eq!(
        steps(&alone(WritesWithoutSync::Never, Writes::Closed)),
        [],
        "ten minutes later still closed"
    );
    assert_eq!(
        steps(&alone(WritesWithoutSync::AfterFailover, Writes::Open)),
        [],
        "ten minutes later still open"
    );
}

#[test]
fn f17_no_gateway_forwards_to_a_pod_before_it_serves() {
    let failover = cluster().crashed(0);
    let mut gate = Gate::default();
    gate.on_record(failover.record.as_ref().expect("there is a record"));
    assert_eq!(
        gate.route(),
        Some(Route {
            pod: Ordinal(0),
            term: TERM
        })
    );
    let routes: Vec<_> = records(&failover)
        .iter()
        .map(|record| {
            let verdict = gate.on_record(record).expect("it is newer");
            assert!(verdict.cut, "every change of the route cuts");
            gate.route()
        })
        .collect();
    assert_eq!(
        routes,
        [
            None,
            Some(Route {
                pod: Ordinal(1),
                term: TERM.next()
            })
        ]
    );
}

#[test]
fn l7_what_is_known_of_a_pod_belongs_to_its_process_and_its_uid() {
    let replaced = |s: Situation, pod| s.restarted(pod).object(pod, |o| o.uid = PodUid(0xff));
    assert_eq!(
        promoted(&replaced(cluster().crashed(0), 1)),
        [],
        "a namesake is not protected"
    );
    let diverged = replaced(cluster(), 2).unregistered(2).accused(2, 3);
    let deleted: Vec<_> = steps(&diverged)
        .into_iter()
        .filter_map(|s| {
            if let Step::DeletePod { uid, .. } = s {
                Some(uid)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(deleted, [PodUid(0xff)], "the pod that was judged, not a namesake");
    let old = cluster().resetting(2).restarted(2).unregistered(2);
    assert!(
        !steps(&old).iter().any(|s| matches!(s, Step::DeletePod { .. })),
        "the judged process is gone"
    );
    let twice = cluster().with(|s| {
        let namesake = s.seen.pods[1].clone();
        s.seen.pods.push(namesake);
    });
    assert_eq!(steps(&twice), [], "a pod that is listed twice does no harm");
}
