//! What is told of clusters, against the list of memgraph-controller.

use super::*;
use crate::memgraph::report::Place;
use mainstay_core::memgraph::Plan;
use mainstay_core::memgraph::Record;
use mainstay_core::memgraph::document::Document;
use mainstay_core::memgraph::ids::{DatabaseId, ProcessId, RegistrationName, Term, VolumeId};
use mainstay_core::memgraph::observed::{
    Answer, Memory, Mode, Observed, Pod, Registration, Role, Status, Wishes,
};
use mainstay_core::memgraph::read_gate::Reads;
use mainstay_core::memgraph::reason::{Reason, Why};
use mainstay_core::memgraph::record::{Candidate, Main, Writes};
use mainstay_core::memgraph::rules::Rule;
use mainstay_core::memgraph::spec::Spec;

fn key() -> Key {
    Key {
        namespace: "db".to_owned(),
        name: "memgraph-ha".to_owned(),
    }
}

/// A cluster that this pod serves in that term.
fn served_by(pod: u8, term: u64) -> Told {
    let (pod, term) = (Ordinal(pod), Term(term));
    let candidate = Candidate {
        pod,
        process: ProcessId(1),
        volume: VolumeId(1),
        peers: vec![],
        suspect: false,
        forced: None,
        claim: None,
    };
    let main = Main {
        pod,
        process: ProcessId(1),
        volume: VolumeId(1),
        database: DatabaseId(1),
        term,
        epoch: term,
        peers: vec![],
        suspect: false,
        history_from: Term(0),
        rebuilt: false,
        office_from: Term(1),
        rival: None,
    };
    let record = Record::initialising(term, candidate, Time(1)).serving(main, Writes::Open, Time(2));
    let seen = |ordinal: u8, role| Pod {
        ordinal: Ordinal(ordinal),
        object: None,
        contact: Contact::Answered(Answer {
            at: Time(3),
            process: ProcessId(1),
            role,
            data: None,
            replicas: (role == Role::Main).then(|| vec![follower(2)]),
        }),
        replication_port_open: None,
        refusal: None,
    };
    Told {
        document: Some(Document::first(record, Rule::Bootstrap, Time(1))),
        observed: Some(Observed {
            read_at: Time(3),
            turn: 1,
            spec: Spec::default(),
            pods: vec![seen(0, Role::Main), seen(1, Role::Main), seen(2, Role::Replica)],
            gateways: vec![],
            wishes: Wishes::default(),
            memory: Memory::default(),
        }),
        plan: Plan::because(Reason::new(Rule::Prove, Why::Healthy { main: pod })),
        places: (0..3).map(place).collect(),
        at: Time(4),
        ..Told::default()
    }
}

/// An ASYNC replica that follows.
fn follower(pod: u8) -> Registration {
    Registration {
        name: RegistrationName::Async(Ordinal(pod)),
        mode: Mode::Async,
        address_ok: true,
        attached: true,
        status: Status::Ready,
        behind: 0,
        since: Time(1),
        moved: None,
    }
}

fn place(pod: u8) -> (Ordinal, Place) {
    let place = Place {
        ip: Some(format!("10.0.0.{pod}")),
        replication: Some(format!("10.0.0.{pod}:10000")),
    };
    (Ordinal(pod), place)
}

/// What MAIN lists.
fn rows(told: &mut Told) -> &mut Vec<Registration> {
    let main = told.observed.as_mut().and_then(|seen| seen.pods.first_mut());
    match &mut main.unwrap().contact {
        Contact::Answered(answer) => answer.replicas.as_mut().unwrap(),
        other => panic!("{other:?}"),
    }
}

const READS: Reads = Reads {
    max_lag: 10,
    from_sync: false,
    from_main: false,
};

fn metrics(board: &Board) -> String {
    let mut text = Metrics::default();
    board.metrics(&mut text);
    text.into_text()
}

/// The only keys that have no value here: its gateways are part of memgraph-controller, and ours are processes of their
/// own, which tell these numbers themselves.
const KNOWN_TO_GATEWAYS: [&str; 6] = [
    "connection_stats/active_connections",
    "connection_stats/total_connections",
    "connection_stats/rejected_connections",
    "connection_stats/errors",
    "health_check_stats/consecutive_failures",
    "health_check_stats/last_health_status",
];

/// What memgraph-controller tells: dashboards and scripts of its users go on working. Its `memgraph_gateway_*` are told
/// by the gateways, which are processes of their own here.
#[test]
fn every_metric_and_every_key_of_memgraph_controller_is_there() {
    let board = Board::default();
    let told = Told {
        reads: Some(READS),
        ..served_by(0, 1)
    };
    board.told(&key(), Some(told));
    board.took(&key(), Duration::from_millis(30));
    board.failed(&key(), "no API");
    let text = metrics(&board);
    for name in [
        "memgraph_controller_reconciliations_total",
        "memgraph_controller_reconciliations_successful_total",
        "memgraph_controller_reconciliations_failed_total",
        "memgraph_controller_reconciliation_duration_seconds_bucket",
        "memgraph_controller_reconciliation_duration_seconds_sum",
        "memgraph_controller_reconciliation_duration_seconds_count",
        "memgraph_controller_last_reconciliation_timestamp",
        "memgraph_cluster_state",
        "memgraph_cluster_sync_replica_healthy",
        "memgraph_cluster_pods_total",
        "memgraph_cluster_pods_healthy",
        "memgraph_cluster_main_changes_total",
        "memgraph_controller_errors_total",
        "memgraph_controller_last_error_timestamp",
        "memgraph_controller_diverged_replicas",
    ] {
        let told = |line: &str| line.split(['{', ' ']).next() == Some(name);
        assert!(text.lines().any(told), "{name}: {text}");
    }
    assert!(
        text.contains("memgraph_controller_errors_total{type=\"reconciliation\"} 1"),
        "{text}"
    );
    assert!(
        text.contains("memgraph_controller_reconciliation_duration_seconds_bucket{le=\"0.05\"} 1"),
        "{text}"
    );
    assert!(
        text.contains("memgraph_cluster_state{namespace=\"db\",cluster=\"memgraph-ha\"} 2"),
        "{text}"
    );

    let status = board.answer("/api/v1/status").unwrap();
    for path in [
        "/timestamp",
        "/cluster_state/current_main",
        "/cluster_state/current_sync_replica",
        "/cluster_state/total_pods",
        "/cluster_state/healthy_pods",
        "/cluster_state/unhealthy_pods",
        "/cluster_state/sync_replica_healthy",
        "/cluster_state/replica_registrations/0/name",
        "/cluster_state/replica_registrations/0/pod_name",
        "/cluster_state/replica_registrations/0/address",
        "/cluster_state/replica_registrations/0/sync_mode",
        "/cluster_state/replica_registrations/0/is_healthy",
        "/cluster_state/read_gateway_status/enabled",
        "/cluster_state/read_gateway_status/current_upstream",
        "/cluster_state/read_gateway_status/upstream_pod_name",
        "/cluster_state/read_gateway_status/upstream_healthy",
        "/cluster_state/reconciliation_metrics/total_reconciliations",
        "/cluster_state/reconciliation_metrics/successful_reconciliations",
        "/cluster_state/reconciliation_metrics/failed_reconciliations",
        "/cluster_state/reconciliation_metrics/average_reconciliation_time",
        "/cluster_state/reconciliation_metrics/last_reconciliation_time",
        "/cluster_state/reconciliation_metrics/last_reconciliation_reason",
        "/cluster_state/reconciliation_metrics/last_reconciliation_error",
        "/pods/0/name",
        "/pods/0/state",
        "/pods/0/memgraph_role",
        "/pods/0/ip_address",
        "/pods/0/timestamp",
        "/pods/0/healthy",
        "/pods/0/replicas_registered/0",
        "/pods/1/inconsistency/description",
        "/pods/1/inconsistency/memgraph_role",
    ] {
        let told = status.pointer(path).is_some_and(|value| !value.is_null());
        assert!(told, "{path}: {status:#}");
    }
    for path in KNOWN_TO_GATEWAYS {
        let path = format!("/cluster_state/read_gateway_status/{path}");
        assert_eq!(status.pointer(&path), Some(&Value::Null), "{path}: {status:#}");
    }
    assert_eq!(status["pods"][0]["inconsistency"], Value::Null);
    assert_eq!(
        status["pods"][1]["inconsistency"]["memgraph_role"], "main",
        "a second MAIN"
    );
    assert_eq!(
        status["cluster_state"]["reconciliation_metrics"]["average_reconciliation_time"],
        30_000_000_u64
    );
}

#[test]
fn reads_are_shown_where_gateways_send_them_or_why_nobody_takes_them() {
    let board = Board::default();
    let shown = |change: &dyn Fn(&mut Told)| {
        let mut told = Told {
            reads: Some(READS),
            ..served_by(0, 1)
        };
        change(&mut told);
        board.told(&key(), Some(told));
        let mut cluster = board.cluster("db", "memgraph-ha").unwrap();
        cluster["cluster_state"]["read_gateway_status"].take()
    };
    let two = shown(&|told| rows(told).push(follower(1)));
    assert_eq!(two["current_upstream"], "10.0.0.1:7687,10.0.0.2:7687");
    assert_eq!(two["upstream_pod_name"], "memgraph-ha-1,memgraph-ha-2");
    assert_eq!(
        (&two["enabled"], &two["upstream_healthy"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(two["reason"], Value::Null);

    let far = shown(&|told| rows(told).iter_mut().for_each(|row| row.behind = -11));
    assert_eq!(far["upstream_healthy"], false);
    assert_eq!(far["current_upstream"], Value::Null);
    assert_eq!(far["reason"], "the replica is too far behind");

    let main = shown(&|told| {
        rows(told).clear();
        told.reads = Some(Reads {
            from_main: true,
            ..READS
        });
    });
    assert_eq!(main["current_upstream"], "10.0.0.0:7687");

    let nobody = shown(&|told| told.document = None);
    assert_eq!(nobody["reason"], "no MAIN serves");

    let off = shown(&|told| told.reads = None);
    assert_eq!(
        (&off["enabled"], &off["upstream_healthy"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(
        (&off["current_upstream"], &off["reason"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn a_cluster_that_a_turn_does_not_find_any_more_is_not_shown() {
    let board = Board::default();
    board.told(&key(), Some(served_by(0, 1)));
    assert!(metrics(&board).contains("memgraph_cluster_pods_healthy{"));
    // In the order of the engine.
    board.took(&key(), Duration::from_millis(3));
    board.told(&key(), None);
    assert_eq!(board.clusters(), json!({ "clusters": [] }));
    let text = metrics(&board);
    assert!(!text.contains("cluster=\"memgraph-ha\""), "{text}");
    assert!(
        text.contains("memgraph_controller_reconciliations_total 2"),
        "it was a turn"
    );
}

#[test]
fn with_several_clusters_each_is_in_the_list_and_none_at_the_top() {
    let board = Board::default();
    board.told(&key(), Some(served_by(0, 1)));
    board.told(
        &Key {
            name: "other".to_owned(),
            ..key()
        },
        Some(served_by(0, 1)),
    );
    let status = board.answer("/api/v1/status").unwrap();
    assert_eq!(status["clusters"].as_array().unwrap().len(), 2);
    assert_eq!(status.get("cluster_state"), None);
}

#[test]
fn a_change_of_main_is_another_pod_and_not_another_term() {
    let board = Board::default();
    for (pod, term) in [(0, 1), (0, 2), (1, 3), (1, 3), (1, 4), (0, 5)] {
        board.told(&key(), Some(served_by(pod, term)));
    }
    let text = metrics(&board);
    assert!(
        text.contains("memgraph_cluster_main_changes_total{namespace=\"db\",cluster=\"memgraph-ha\"} 2"),
        "{text}"
    );
}

#[test]
fn metrics_have_their_names() {
    let board = Board::default();
    board.told(&key(), Some(Told::default()));
    board.failed(&key(), "no API");
    let text = metrics(&board);
    for line in [
        "memgraph_controller_reconciliations_total 2",
        "memgraph_controller_reconciliations_failed_total 1",
        "# TYPE memgraph_controller_hard_reset_triggered_total counter",
        "# TYPE memgraph_controller_hard_reset_success_total counter",
        "# TYPE memgraph_controller_hard_reset_failure_total counter",
        "memgraph_controller_diverged_replicas 0",
        "memgraph_cluster_sync_replica_healthy{namespace=\"db\",cluster=\"memgraph-ha\"} 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
    assert_eq!(
        board.cluster("db", "memgraph-ha").unwrap()["cluster_state"]["reconciliation_metrics"]["last_reconciliation_error"],
        "no API"
    );
    board.forget(&key());
    assert!(board.cluster("db", "memgraph-ha").is_none());
    board.told(&key(), Some(Told::default()));
    board.forget_all();
    assert!(board.cluster("db", "memgraph-ha").is_none());
    assert!(
        metrics(&board).contains("memgraph_controller_reconciliations_total 3"),
        "counters stay"
    );
}
