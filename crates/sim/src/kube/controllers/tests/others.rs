use super::*;
use crate::kube::controllers::object::{condition_is, items, number, text, uid_of};

fn deployment(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": {
            "replicas": replicas,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "main", "image": "one" }] },
            },
        },
    })
}

fn service(selector: &str, all: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "db", "namespace": "default" },
        "spec": {
            "clusterIP": "None", "selector": { "app": selector }, "publishNotReadyAddresses": all,
            "ports": [{ "name": "bolt", "port": 7687 }],
        },
    })
}

#[test]
fn a_deployment_never_has_fewer_pods_than_it_promised_while_it_rolls() {
    let mut world = World::new(&["n1", "n2"]);
    world.create(deployment(3));
    world.finish();
    assert_eq!(world.pods().len(), 3);
    world.change(Kind::Deployment, "web", IMAGE, containers("two"));
    for _ in 0..100 {
        world.settle();
        let serving = world
            .pods()
            .into_iter()
            .filter(|pod| is_ready(pod) && !is_deleting(pod))
            .count();
        assert!(serving >= 3, "{serving}");
        assert!(world.pods().into_iter().filter(|pod| !is_deleting(pod)).count() <= 4);
        let pods: Vec<Value> = world.pods().into_iter().cloned().collect();
        let Some(pod) = pods.iter().find(|pod| is_deleting(pod) || !is_ready(pod)) else {
            break;
        };
        if is_deleting(pod) {
            world.gone(name_of(pod));
        } else {
            world.ready(name_of(pod));
        }
    }
    assert!(world.pods().into_iter().all(|pod| image(pod) == "two"));
    let status = world.get(Kind::Deployment, "web");
    assert_eq!(number(status, "/status/updatedReplicas"), Some(3));
    assert_eq!(number(status, "/status/replicas"), Some(3));
    assert!(condition_is(status, "Available", "True"));
}

#[test]
fn a_deployment_that_recreates_ends_the_old_pods_first() {
    let mut world = World::new(&["n1"]);
    world.create(with(
        &deployment(2),
        &["spec", "strategy"],
        json!({ "type": "Recreate" }),
    ));
    world.finish();
    world.change(Kind::Deployment, "web", IMAGE, containers("two"));
    world.settle();
    assert!(
        world
            .pods()
            .into_iter()
            .filter(|pod| !is_deleting(pod))
            .all(|pod| image(pod) == "two")
    );
    world.finish();
    assert_eq!(
        world.pods().into_iter().map(image).collect::<Vec<_>>(),
        ["two", "two"]
    );
}

#[test]
fn a_restart_by_annotation_replaces_every_pod_of_a_deployment() {
    let mut world = World::new(&["n1"]);
    world.create(deployment(2));
    world.finish();
    let before = world.names();
    let stamp = &[
        "spec",
        "template",
        "metadata",
        "annotations",
        "kubectl.kubernetes.io/restartedAt",
    ];
    world.change(Kind::Deployment, "web", stamp, json!("now"));
    world.finish();
    assert_eq!(world.pods().len(), 2);
    assert!(world.names().iter().all(|name| !before.contains(name)));
}

#[test]
fn a_service_shows_who_is_ready_who_is_not_and_who_leaves() {
    let mut world = World::new(&["n1"]);
    world.create(service("db", false));
    world.create(stateful_set(2));
    world.finish();
    world.report("db-1", "Running", false);
    world.delete(Kind::Pod, "db-0");
    world.settle();
    let slice = world.get(Kind::EndpointSlice, "db-endpoints");
    let shown: Vec<_> = items(slice, "/endpoints")
        .iter()
        .map(|endpoint| (text(endpoint, "/hostname"), endpoint["conditions"].to_string()))
        .collect();
    assert_eq!(
        shown,
        [
            (
                "db-0",
                r#"{"ready":false,"serving":true,"terminating":true}"#.to_owned()
            ),
            (
                "db-1",
                r#"{"ready":false,"serving":false,"terminating":false}"#.to_owned()
            ),
        ]
    );
    assert_eq!(
        slice["ports"],
        json!([{ "name": "bolt", "port": 7687, "protocol": "TCP" }])
    );
    let endpoints = world.get(Kind::Endpoints, "db");
    assert_eq!(text(endpoints, "/subsets/0/notReadyAddresses/0/hostname"), "db-1");
    assert_eq!(items(endpoints, "/subsets/0/addresses").len(), 0);
}

#[test]
fn a_service_that_publishes_all_calls_everybody_ready() {
    let mut world = World::new(&["n1"]);
    world.create(service("db", true));
    world.create(stateful_set(1));
    world.settle();
    world.report("db-0", "Running", false);
    world.settle();
    let slice = world.get(Kind::EndpointSlice, "db-endpoints");
    assert_eq!(slice.pointer("/endpoints/0/conditions/ready"), Some(&json!(true)));
    world.delete(Kind::Service, "db");
    world.settle();
    assert!(world.find(Kind::EndpointSlice, "db-endpoints").is_none());
    assert!(world.find(Kind::Endpoints, "db").is_none());
}

#[test]
fn what_an_object_owns_goes_with_it() {
    let mut world = World::new(&["n1"]);
    world.create(deployment(2));
    world.finish();
    world.delete(Kind::Deployment, "web");
    world.finish();
    assert_eq!(world.names(), [""; 0]);
    assert!(super::super::View::list(&world.store, Kind::ReplicaSet).is_empty());
}

#[test]
fn a_foreground_deletion_keeps_the_owner_until_the_last_dependent_is_gone() {
    let mut world = World::new(&["n1"]);
    world.create(stateful_set(1));
    world.finish();
    world.delete_with(Kind::StatefulSet, "db", "Foreground");
    world.settle();
    assert!(is_deleting(world.get(Kind::Pod, "db-0")));
    assert!(is_deleting(world.get(Kind::StatefulSet, "db")));
    world.gone("db-0");
    assert!(world.find(Kind::StatefulSet, "db").is_none());
}

#[test]
fn an_object_with_one_living_owner_stays() {
    let mut world = World::new(&[]);
    world.create(service("none", false));
    world.settle();
    let owner = uid_of(world.get(Kind::Service, "db")).to_owned();
    let reference = |uid: &str| json!({ "apiVersion": "v1", "kind": "Service", "name": "db", "uid": uid });
    for (name, owners) in [
        ("kept", vec![reference("lost"), reference(&owner)]),
        ("lost", vec![reference("lost")]),
    ] {
        world.create(json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": { "name": name, "namespace": "default", "ownerReferences": owners },
        }));
    }
    world.settle();
    assert!(world.find(Kind::Endpoints, "kept").is_some());
    assert!(world.find(Kind::Endpoints, "lost").is_none());
}

#[test]
fn a_budget_counts_what_should_be_there_not_what_is() {
    let mut world = World::new(&["n1"]);
    world.create(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "db", "namespace": "default" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "db" } } },
    }));
    world.create(stateful_set(3));
    world.finish();
    let allowed = |world: &World| {
        number(
            world.get(Kind::PodDisruptionBudget, "db"),
            "/status/disruptionsAllowed",
        )
    };
    assert_eq!(allowed(&world), Some(1));
    world.delete(Kind::Pod, "db-2");
    world.settle();
    assert_eq!(allowed(&world), Some(0));
    world.gone("db-2");
    assert_eq!(allowed(&world), Some(0), "the new pod is not ready yet");
    world.ready("db-2");
    assert_eq!(allowed(&world), Some(1));
}

#[test]
fn a_silent_node_makes_its_pods_not_ready_and_later_deletes_them_but_never_replaces_them() {
    let mut world = World::new(&["n1"]);
    let tolerations = json!([{
        "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20,
    }]);
    world.create(with(
        &stateful_set(1),
        &["spec", "template", "spec", "tolerations"],
        tolerations,
    ));
    world.finish();
    let uid = uid_of(world.get(Kind::Pod, "db-0")).to_owned();
    world.pass(49);
    assert_eq!(world.settle(), Some(world.now + SignedDuration::from_secs(1)));
    assert!(is_ready(world.get(Kind::Pod, "db-0")));
    world.pass(1);
    let next = world.settle();
    assert!(condition_is(world.get(Kind::Node, "n1"), "Ready", "Unknown"));
    let pod = world.get(Kind::Pod, "db-0");
    assert_eq!(
        (text(pod, "/status/phase"), is_ready(pod), is_deleting(pod)),
        ("Running", false, false)
    );
    assert_eq!(next, Some(world.now + SignedDuration::from_secs(20)));
    world.pass(20);
    world.settle();
    world.pass(3600);
    world.settle();
    let pod = world.get(Kind::Pod, "db-0");
    assert!(
        is_deleting(pod) && uid_of(pod) == uid,
        "only its node may say that it ended"
    );
}

#[test]
fn a_node_that_is_heard_again_loses_its_taints() {
    let mut world = World::new(&["n1"]);
    world.pass(100);
    world.settle();
    assert_eq!(items(world.get(Kind::Node, "n1"), "/spec/taints").len(), 2);
    world.heartbeat("n1");
    let conditions = with_condition(
        world.get(Kind::Node, "n1"),
        world.now,
        "Ready",
        "True",
        "KubeletReady",
        "",
    );
    let node = with(world.get(Kind::Node, "n1"), &["status", "conditions"], conditions);
    world.write(&Write::ReplaceStatus(node));
    world.settle();
    assert_eq!(items(world.get(Kind::Node, "n1"), "/spec/taints").len(), 0);
}

#[test]
fn a_node_out_of_service_gives_up_its_deleted_pods() {
    let mut world = World::new(&["n1", "n2"]);
    world.create(stateful_set(1));
    world.finish();
    let home = text(world.get(Kind::Pod, "db-0"), "/spec/nodeName").to_owned();
    let uid = uid_of(world.get(Kind::Pod, "db-0")).to_owned();
    world.delete(Kind::Pod, "db-0");
    let taint = json!([{ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" }]);
    world.change(Kind::Node, &home, &["spec", "taints"], taint);
    world.settle();
    let pod = world.get(Kind::Pod, "db-0");
    assert_ne!(uid_of(pod), uid);
    assert_ne!(text(pod, "/spec/nodeName"), home);
}

#[test]
fn a_pod_goes_where_it_may_and_says_why_it_cannot() {
    let mut world = World::new(&["n1", "n2"]);
    world.change(Kind::Node, "n1", &["spec", "unschedulable"], json!(true));
    let apart = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "db" } } },
    ] } });
    let set = with(&stateful_set(2), &["spec", "template", "spec", "affinity"], apart);
    world.create(with(&set, &["spec", "podManagementPolicy"], json!("Parallel")));
    world.settle();
    assert_eq!(text(world.get(Kind::Pod, "db-0"), "/spec/nodeName"), "n2");
    let pod = world.get(Kind::Pod, "db-1");
    assert_eq!(
        text(pod, "/status/conditions/0/message"),
        "0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 1 node(s) were unschedulable."
    );
    world.change(Kind::Node, "n1", &["spec", "unschedulable"], json!(false));
    world.settle();
    assert_eq!(text(world.get(Kind::Pod, "db-1"), "/spec/nodeName"), "n1");
}

#[test]
fn a_pod_waits_for_the_node_that_its_volume_is_bound_to() {
    let mut world = World::new(&["n1", "n2"]);
    for node in ["n1", "n2"] {
        world.change(Kind::Node, node, &["metadata", "labels"], json!({ "host": node }));
    }
    world.create(stateful_set(1));
    world.settle();
    let home = text(world.get(Kind::Pod, "db-0"), "/spec/nodeName").to_owned();
    let volume = text(
        world.get(Kind::PersistentVolumeClaim, "data-db-0"),
        "/spec/volumeName",
    )
    .to_owned();
    let there = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [
        { "key": "host", "operator": "In", "values": [home] },
    ] }] } });
    world.change(Kind::PersistentVolume, &volume, &["spec", "nodeAffinity"], there);
    world.change(Kind::Node, &home, &["spec", "unschedulable"], json!(true));
    world.delete(Kind::Pod, "db-0");
    world.finish();
    let pod = world.get(Kind::Pod, "db-0");
    assert_eq!(text(pod, "/spec/nodeName"), "");
    assert_eq!(
        text(pod, "/status/conditions/0/message"),
        "0/2 nodes are available: 1 node(s) had volume node affinity conflict, 1 node(s) were unschedulable."
    );
    world.change(Kind::Node, &home, &["spec", "unschedulable"], json!(false));
    world.settle();
    assert_eq!(text(world.get(Kind::Pod, "db-0"), "/spec/nodeName"), home);
}

#[test]
fn pods_of_one_set_are_spread() {
    let mut world = World::new(&["n1", "n2", "n3"]);
    world.create(stateful_set(3));
    world.finish();
    let mut homes: Vec<_> = world
        .pods()
        .into_iter()
        .map(|pod| text(pod, "/spec/nodeName"))
        .collect();
    homes.sort_unstable();
    assert_eq!(homes, ["n1", "n2", "n3"]);
}
