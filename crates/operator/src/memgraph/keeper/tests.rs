use super::*;
use crate::scripted;
use mainstay_core::memgraph::ids::{DatabaseId, PodUid, ProcessId, VolumeId};
use mainstay_core::memgraph::observed::{Answer, Contact, Pod, PodObject};
use mainstay_core::memgraph::record::{Candidate, Main, Writes};
use serde_json::json;
use std::sync::Mutex;

fn seen(terminating: bool, role: Role) -> Observed {
    let object = PodObject {
        uid: PodUid(1),
        running: Some(ProcessId(1)),
        ended: None,
        volume: None,
        terminating,
        ready: true,
        addressed: true,
        start_fence: true,
        fsync: true,
    };
    let answer = Answer {
        at: Time(1),
        process: ProcessId(1),
        role,
        data: None,
        replicas: None,
    };
    Observed {
        read_at: Time(1),
        turn: 1,
        spec: Spec::default(),
        pods: vec![Pod {
            ordinal: Ordinal(0),
            object: Some(object),
            contact: Contact::Answered(answer),
            replication_port_open: None,
            refusal: None,
        }],
        gateways: vec![],
        wishes: Wishes::default(),
        memory: Memory::default(),
    }
}

fn records() -> (Record, Record) {
    let candidate = Candidate {
        pod: Ordinal(0),
        process: ProcessId(1),
        volume: VolumeId(1),
        peers: vec![],
        suspect: false,
        forced: None,
        claim: None,
    };
    let main = Main {
        pod: Ordinal(0),
        process: ProcessId(1),
        volume: VolumeId(1),
        database: DatabaseId(1),
        term: Term(1),
        epoch: Term(1),
        peers: vec![],
        suspect: false,
        history_from: Term(0),
        rebuilt: false,
        office_from: Term(1),
        rival: None,
    };
    let begun = Record::initialising(Term(1), candidate, Time(1));
    let serving = begun.serving(main, Writes::Open, Time(1));
    (begun, serving)
}

#[test]
fn a_main_that_is_drained_is_moved_while_it_answers() {
    let (begun, serving) = records();
    assert_eq!(drained(Some(&serving), &seen(true, Role::Main)), Some(Ordinal(1)));
    assert_eq!(drained(Some(&serving), &seen(false, Role::Main)), None);
    assert_eq!(drained(Some(&serving), &seen(true, Role::Replica)), None);
    assert_eq!(drained(Some(&begun), &seen(true, Role::Main)), None);
    assert_eq!(drained(None, &seen(true, Role::Main)), None);
}

/// What a first turn asks of an API that has this record and nothing else, in order.
async fn asked_with(record: Option<Record>) -> Vec<String> {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let document = record.map(|record| Document::first(record, Rule::Complete, Time(1)));
    let client = scripted::client({
        let asked = asked.clone();
        move |request| {
            asked.lock().unwrap().push(request.path.clone());
            let answer = match request.path.rsplit('/').next() {
                _ if request.method != http::Method::GET => (201, request.body),
                Some("memgraph-ha") if request.path.contains("/memgraphclusters/") => (
                    200,
                    json!({
                        "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
                        "metadata": { "name": "memgraph-ha", "namespace": "db", "generation": 1 }, "spec": {},
                    }),
                ),
                Some("memgraph-ha-topology") if document.is_some() => (
                    200,
                    json!({
                        "apiVersion": "v1", "kind": "ConfigMap",
                        "metadata": { "name": "memgraph-ha-topology", "resourceVersion": "1" },
                        "data": document.as_ref().unwrap().data().unwrap(),
                    }),
                ),
                Some("leases") => (
                    200,
                    json!({
                        "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": {}, "items": [],
                    }),
                ),
                _ => scripted::not_found(&request.path),
            };
            std::future::ready(answer)
        }
    });
    let mut keeper = Keeper::new(client, "db", "memgraph-ha", Arc::default());
    engine::keeper::Keeper::turn(&mut keeper, &Permit::ALWAYS)
        .await
        .unwrap();
    asked.lock().unwrap().clone()
}

#[tokio::test]
async fn a_cluster_with_a_main_is_looked_at_before_its_objects_are_and_one_without_has_them_first() {
    let place = |asked: &[String], what: &str| asked.iter().position(|path| path.contains(what));
    let (objects, looked) = ("/services/", "/leases");
    let serving = asked_with(Some(records().1)).await;
    assert!(place(&serving, looked).is_some(), "{serving:?}");
    assert_eq!(
        place(&serving, objects),
        None,
        "MAIN does not answer: {serving:?}"
    );
    let mut asleep = records().1;
    asleep.state = State::Hibernated;
    for record in [None, Some(asleep)] {
        let asked = asked_with(record).await;
        assert!(place(&asked, objects) < place(&asked, looked), "{asked:?}");
        assert!(place(&asked, objects).is_some(), "{asked:?}");
    }
}
