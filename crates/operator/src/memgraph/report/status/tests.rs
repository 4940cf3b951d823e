//! What is reported of turns that went well, badly, or not at all.

use super::*;
use crate::memgraph::footing::Setback;
use api::memgraph::QuarantineStatus;
use mainstay_core::memgraph::Plan;
use mainstay_core::memgraph::ids::{DatabaseId, Gen, PodUid, ProcessId, RegistrationName, Term, VolumeId};
use mainstay_core::memgraph::observed::{
    Answer, Memory, Mode, Observed, Pod, PodObject, Registration, Status, Wishes,
};
use mainstay_core::memgraph::reason::Reason;
use mainstay_core::memgraph::record::{Candidate, Main, Record, Sync};
use mainstay_core::memgraph::rules::Rule;
use mainstay_core::memgraph::spec::Spec;
use mainstay_core::time::Time;
use serde_json::json;

const A: ProcessId = ProcessId(0xa);
const B: ProcessId = ProcessId(0xb);

fn record() -> Record {
    let candidate = Candidate {
        pod: Ordinal(0),
        process: A,
        volume: VolumeId(1),
        peers: vec![B],
        suspect: false,
        forced: None,
        claim: None,
    };
    let main = Main {
        pod: Ordinal(0),
        process: A,
        volume: VolumeId(1),
        database: DatabaseId(1),
        term: Term(1),
        epoch: Term(1),
        peers: vec![B],
        suspect: false,
        history_from: Term(0),
        rebuilt: false,
        office_from: Term(1),
        rival: None,
    };
    let sync = Sync {
        pod: Ordinal(1),
        process: B,
        volume: VolumeId(2),
        name: RegistrationName::Strict(Ordinal(1), Gen(1)),
    };
    Record::initialising(Term(1), candidate, Time(1_000))
        .serving(main, Writes::Open, Time(2_000))
        .protected(sync)
}

fn pod(number: u8, process: ProcessId, role: Role) -> Pod {
    Pod {
        ordinal: Ordinal(number),
        object: None,
        contact: Contact::Answered(Answer {
            at: Time(5_000),
            process,
            role,
            data: None,
            replicas: None,
        }),
        replication_port_open: None,
        refusal: None,
    }
}

fn told(record: Record, partner: ProcessId) -> Told {
    let observed = Observed {
        read_at: Time(5_000),
        turn: 1,
        spec: Spec::default(),
        pods: vec![pod(0, A, Role::Main), pod(1, partner, Role::Replica)],
        gateways: vec![],
        wishes: Wishes::default(),
        memory: Memory::default(),
    };
    Told {
        cluster: "memgraph-ha".to_owned(),
        document: Some(Document::first(record, Rule::Bootstrap, Time(1_000))),
        observed: Some(observed),
        plan: Plan::wait(Reason::new(Rule::Prove, Why::Healthy { main: Ordinal(0) })),
        gateways: Some(2),
        at: Time(5_000),
        ..Told::default()
    }
}

fn cluster() -> MemgraphCluster {
    serde_json::from_value(json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
        "metadata": { "name": "memgraph-ha", "generation": 4 }, "spec": {},
    }))
    .unwrap()
}

fn after(told: &Told, before: &MemgraphClusterStatus) -> MemgraphClusterStatus {
    status(&cluster(), told, before, vec![])
}

fn condition<'a>(status: &'a MemgraphClusterStatus, kind: &str) -> &'a Condition {
    status.conditions.iter().find(|c| c.kind == kind).unwrap()
}

#[test]
fn a_healthy_cluster_says_so_in_the_words_of_the_seeds() {
    let now = after(&told(record(), B), &MemgraphClusterStatus::default());
    assert_eq!(
        (now.phase.as_str(), now.term, now.writes.as_deref()),
        ("OPERATIONAL", Some(1), Some("Open"))
    );
    assert_eq!(now.target_main_pod.as_deref(), Some("memgraph-ha-0"));
    assert_eq!(now.target_sync_replica.as_deref(), Some("memgraph-ha-1"));
    let shown: Vec<(&str, &str)> = now
        .conditions
        .iter()
        .map(|c| (c.kind.as_str(), c.status.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            ("Ready", "True"),
            ("Protected", "True"),
            ("WritesOpen", "True"),
            ("TopologyKnown", "True"),
            ("Hibernated", "False"),
            ("Applied", "True"),
            ("GatewaysReachApi", "True")
        ]
    );
    assert_eq!(now.observed_generation, Some(4));
    assert!(now.reasons[0].starts_with("[PROVE]"), "{:?}", now.reasons);
}

#[test]
fn protection_ends_with_the_process_and_is_not_called_so_without_fsync() {
    let restarted = after(
        &told(record(), ProcessId(0xbb)),
        &MemgraphClusterStatus::default(),
    );
    assert_eq!(condition(&restarted, "Protected").status, "False");
    let mut relaxed = told(record(), B);
    relaxed.observed.as_mut().unwrap().spec.durability = Durability::Relaxed;
    let shown = after(&relaxed, &MemgraphClusterStatus::default());
    assert_eq!(condition(&shown, "Protected").status, "False");
    assert_eq!(condition(&shown, "Ready").status, "True");
}

/// The same, and these pods did not answer so many probes.
fn missed(pods: &[u8], probes: u32) -> Told {
    let mut turn = told(record(), B);
    for pod in &mut turn.observed.as_mut().unwrap().pods {
        if pods.contains(&pod.ordinal.0) {
            pod.contact = Contact::Silent {
                probes,
                since: Time(4_000),
            };
        }
    }
    turn
}

fn shown(turn: &Told, before: &MemgraphClusterStatus) -> (String, String, String, String) {
    let now = after(turn, before);
    let status = |kind| condition(&now, kind).status.clone();
    (
        status("Ready"),
        status("Protected"),
        status("WritesOpen"),
        now.writes.clone().unwrap(),
    )
}

fn all(ready: &str, protected: &str, open: &str, writes: &str) -> (String, String, String, String) {
    (ready.into(), protected.into(), open.into(), writes.into())
}

#[test]
fn with_both_pods_of_the_pair_silent_nothing_is_called_open_or_protected() {
    let well = after(&told(record(), B), &MemgraphClusterStatus::default());
    let silent = missed(&[0, 1], 3);
    let unknown = all("False", "Unknown", "Unknown", "Unknown");
    assert_eq!(shown(&silent, &well), unknown);
    assert!(!is_protected(&silent));
    let now = after(&silent, &well);
    assert!(now.pods.iter().all(|pod| !pod.protected), "{:?}", now.pods);
    for (kind, reason, named) in [
        ("Protected", "NobodyAnswers", "memgraph-ha-1"),
        ("WritesOpen", "MainDoesNotAnswer", "memgraph-ha-0"),
    ] {
        let judged = condition(&now, kind);
        assert_eq!(judged.reason, reason);
        assert!(judged.message.contains(named), "{}", judged.message);
    }
    // Without pods it is the same, and an operator that has just begun knows no more.
    let mut absent = told(record(), B);
    for pod in &mut absent.observed.as_mut().unwrap().pods {
        pod.contact = Contact::Unknown;
    }
    assert_eq!(shown(&absent, &well), unknown);
    assert_eq!(shown(&missed(&[0, 1], 1), &MemgraphClusterStatus::default()), {
        all("Unknown", "Unknown", "Unknown", "Unknown")
    });
}

#[test]
fn a_look_that_was_missed_once_changes_no_condition() {
    let well = after(&told(record(), B), &MemgraphClusterStatus::default());
    let one = missed(&[0, 1], 2);
    assert_eq!(shown(&one, &well), all("True", "True", "True", "Open"));
    assert!(is_protected(&one));
    let silent = after(&missed(&[0, 1], 3), &well);
    assert_eq!(
        shown(&one, &silent),
        all("False", "Unknown", "Unknown", "Unknown"),
        "nor does it make anything good"
    );
}

#[test]
fn each_of_the_pair_speaks_for_the_protection_and_a_process_that_ended_speaks_against_it() {
    let well = after(&told(record(), B), &MemgraphClusterStatus::default());
    let unserved = missed(&[0], 3);
    assert_eq!(
        shown(&unserved, &well),
        all("False", "True", "Unknown", "Unknown"),
        "the replica is there"
    );
    let listed = |status: Status, attached: bool| {
        let mut turn = missed(&[1], 3);
        let main = turn.observed.as_mut().unwrap().pods.first_mut().unwrap();
        let Contact::Answered(answer) = &mut main.contact else {
            panic!("MAIN answers");
        };
        answer.replicas = Some(vec![Registration {
            name: RegistrationName::Strict(Ordinal(1), Gen(1)),
            mode: Mode::StrictSync,
            address_ok: true,
            attached,
            status,
            behind: 0,
            since: Time(1),
            moved: None,
        }]);
        shown(&turn, &well).1
    };
    assert_eq!(listed(Status::Ready, true), "True");
    assert_eq!(listed(Status::Replicating, true), "True");
    assert_eq!(listed(Status::Invalid, true), "False");
    assert_eq!(listed(Status::Ready, false), "False", "MAIN does not wait for it");
    let mut ended = missed(&[0, 1], 1);
    for (pod, process) in ended.observed.as_mut().unwrap().pods.iter_mut().zip([A, B]) {
        pod.object = Some(PodObject {
            uid: PodUid(1),
            running: None,
            ended: Some(process),
            volume: None,
            terminating: false,
            ready: false,
            addressed: true,
            start_fence: true,
            fsync: true,
        });
    }
    assert_eq!(shown(&ended, &well), all("False", "False", "False", "Unserved"));
}

#[test]
fn a_main_that_was_demoted_takes_no_writes() {
    let mut turn = told(record(), B);
    *turn.observed.as_mut().unwrap().pods.first_mut().unwrap() = pod(0, A, Role::Replica);
    let well = after(&told(record(), B), &MemgraphClusterStatus::default());
    assert_eq!(shown(&turn, &well), all("False", "True", "False", "Unserved"));
}

#[test]
fn writes_that_the_record_holds_are_called_so_whoever_answers() {
    let mut held = missed(&[0, 1], 3);
    let held_record = record().with_writes(Writes::Held);
    held.document = Some(Document::first(held_record, Rule::Bootstrap, Time(1_000)));
    let now = after(&held, &MemgraphClusterStatus::default());
    assert_eq!(now.writes.as_deref(), Some("Held"));
    assert_eq!(condition(&now, "WritesOpen").status, "False");
}

#[test]
fn asleep_nobody_answers_and_what_was_proven_last_stands() {
    let mut asleep = missed(&[0, 1], 9);
    let slept = record().hibernated(Time(4_000));
    asleep.document = Some(Document::first(slept, Rule::Bootstrap, Time(1_000)));
    assert_eq!(
        shown(&asleep, &MemgraphClusterStatus::default()),
        all("False", "True", "False", "Closed")
    );
}

#[test]
fn a_turn_that_came_to_nothing_keeps_what_is_known_and_says_why() {
    let before = after(&told(record(), B), &MemgraphClusterStatus::default());
    let failed = Told {
        error: Some("no API".to_owned()),
        at: Time(9_000),
        ..Told::default()
    };
    let now = after(&failed, &before);
    let ready = condition(&now, "Ready");
    assert_eq!(
        (
            ready.status.as_str(),
            ready.reason.as_str(),
            ready.message.as_str()
        ),
        ("True", "TurnFailed", "no API")
    );
    assert_eq!(
        ready.last_transition_time,
        condition(&before, "Ready").last_transition_time
    );
    assert_eq!(now.target_main_pod, before.target_main_pod);
    let first = after(&failed, &MemgraphClusterStatus::default());
    assert_eq!(condition(&first, "Ready").status, "Unknown");
}

#[test]
fn after_some_turns_that_came_to_nothing_no_condition_is_called_true() {
    let before = after(&told(record(), B), &MemgraphClusterStatus::default());
    let failed = |in_a_row| Told {
        error: Some("no API".to_owned()),
        failed: in_a_row,
        ..Told::default()
    };
    assert_eq!(condition(&after(&failed(2), &before), "Protected").status, "True");
    let now = after(&failed(3), &before);
    assert_eq!(now.writes.as_deref(), Some("Unknown"));
    for shown in now.conditions {
        assert_eq!(shown.status, "Unknown", "{shown:?}");
    }
}

#[test]
fn what_is_declared_and_not_so_is_a_condition_of_its_own() {
    let mut refused = told(record(), B);
    refused.setbacks = vec![Setback {
        reason: "ObjectNotWritten",
        message: "StatefulSet: too much".to_owned(),
    }];
    let shown = after(&refused, &MemgraphClusterStatus::default());
    let applied = condition(&shown, "Applied");
    assert_eq!(
        (applied.status.as_str(), applied.reason.as_str()),
        ("False", "ObjectNotWritten")
    );
    assert_eq!(condition(&shown, "Ready").status, "True");
    assert!(
        shown
            .reasons
            .iter()
            .any(|reason| reason == "StatefulSet: too much")
    );
}

#[test]
fn the_term_never_goes_back_even_if_the_record_does() {
    let before = MemgraphClusterStatus {
        term: Some(7),
        ..MemgraphClusterStatus::default()
    };
    assert_eq!(after(&told(record(), B), &before).term, Some(7));
}

#[test]
fn before_there_is_a_record_the_phase_is_bootstrap() {
    let mut begun = told(record(), B);
    begun.document = None;
    begun.plan = Plan::wait(Reason::new(Rule::Bootstrap, Why::UnknownState));
    let now = after(&begun, &MemgraphClusterStatus::default());
    assert_eq!(now.phase, "BOOTSTRAP");
    let known = condition(&now, "TopologyKnown");
    assert_eq!(
        (known.status.as_str(), known.reason.as_str()),
        ("False", "UnknownState")
    );
}

#[test]
fn a_gateway_that_does_not_reach_the_api_is_named() {
    let mut silent = told(record(), B);
    silent.silent_gateways = vec!["memgraph-ha-gw-b".to_owned()];
    let now = after(&silent, &MemgraphClusterStatus::default());
    let shown = condition(&now, "GatewaysReachApi");
    assert_eq!(
        (shown.status.as_str(), shown.reason.as_str()),
        ("False", "LeaseNotRenewed")
    );
    assert!(shown.message.contains("memgraph-ha-gw-b"), "{}", shown.message);
    assert_eq!(condition(&now, "Ready").status, "True");
}

fn set_aside(pod: &str, id: u64) -> QuarantineStatus {
    QuarantineStatus {
        pod: pod.to_owned(),
        id,
        bytes: 1,
        kept: false,
    }
}

#[test]
fn what_was_set_aside_is_known_until_its_own_helper_says_otherwise() {
    let known = vec![set_aside("memgraph-ha-1", 4), set_aside("memgraph-ha-2", 9)];
    let before = MemgraphClusterStatus {
        quarantines: known.clone(),
        ..MemgraphClusterStatus::default()
    };
    let mut turn = told(record(), B);
    assert_eq!(
        after(&turn, &before).quarantines,
        known,
        "a new leader has asked nobody yet"
    );
    turn.quarantines.insert("memgraph-ha-2".to_owned(), vec![]);
    assert_eq!(after(&turn, &before).quarantines, known[..1], "it was purged");
    turn.quarantines
        .insert("memgraph-ha-1".to_owned(), vec![set_aside("memgraph-ha-1", 12)]);
    assert_eq!(
        after(&turn, &before).quarantines,
        [set_aside("memgraph-ha-1", 12)]
    );
}

#[test]
fn a_lag_that_nobody_can_tell_is_not_shown() {
    let before = MemgraphClusterStatus {
        lag: Some(3),
        ..MemgraphClusterStatus::default()
    };
    assert_eq!(after(&told(record(), B), &before).lag, None);
}
