//! What is reported of turns that went well, badly, or not at all.

use super::*;
use crate::memgraph::footing::Setback;
use api::memgraph::QuarantineStatus;
use mainstay_core::memgraph::Plan;
use mainstay_core::memgraph::ids::{DatabaseId, Gen, ProcessId, RegistrationName, Term, VolumeId};
use mainstay_core::memgraph::observed::{Answer, Memory, Pod, Wishes};
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
    for shown in after(&failed(3), &before).conditions {
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
