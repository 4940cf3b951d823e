use super::*;
use crate::kube::controllers::object::{number, text, uid_of};

fn started(replicas: i64) -> World {
    let mut world = World::new(&["n1", "n2", "n3"]);
    world.create(stateful_set(replicas));
    world.finish();
    world
}

#[test]
fn an_ordered_set_starts_one_pod_after_the_other_is_ready() {
    let mut world = World::new(&["n1"]);
    world.create(stateful_set(3));
    world.settle();
    assert_eq!(world.names(), ["db-0"]);
    world.report("db-0", "Running", false);
    world.settle();
    assert_eq!(world.names(), ["db-0"]);
    world.ready("db-0");
    assert_eq!(world.names(), ["db-0", "db-1"]);
    world.ready("db-1");
    world.ready("db-2");
    let status = world.get(Kind::StatefulSet, "db");
    assert_eq!(number(status, "/status/readyReplicas"), Some(3));
    assert_eq!(
        text(status, "/status/currentRevision"),
        text(status, "/status/updateRevision")
    );
}

#[test]
fn a_parallel_set_starts_all_pods_at_once() {
    let mut world = World::new(&["n1"]);
    world.create(with(
        &stateful_set(3),
        &["spec", "podManagementPolicy"],
        json!("Parallel"),
    ));
    world.settle();
    assert_eq!(world.names(), ["db-0", "db-1", "db-2"]);
    world.change(Kind::StatefulSet, "db", &["spec", "replicas"], json!(1));
    world.settle();
    let deleting: Vec<_> = world
        .pods()
        .into_iter()
        .filter(|pod| is_deleting(pod))
        .map(name_of)
        .collect();
    assert_eq!(deleting, ["db-1", "db-2"]);
}

#[test]
fn a_pod_has_the_names_that_others_find_it_by() {
    let world = started(1);
    let pod = world.get(Kind::Pod, "db-0");
    assert_eq!(text(pod, "/spec/hostname"), "db-0");
    assert_eq!(text(pod, "/spec/subdomain"), "db");
    assert_eq!(
        pod.pointer("/metadata/labels").unwrap()["apps.kubernetes.io/pod-index"],
        "0"
    );
    assert_eq!(
        text(pod, "/spec/volumes/0/persistentVolumeClaim/claimName"),
        "data-db-0"
    );
}

#[test]
fn a_set_shrinks_from_its_highest_pod_and_waits_for_each() {
    let mut world = started(3);
    world.change(Kind::StatefulSet, "db", &["spec", "replicas"], json!(1));
    world.settle();
    assert!(is_deleting(world.get(Kind::Pod, "db-2")));
    assert!(!is_deleting(world.get(Kind::Pod, "db-1")));
    world.gone("db-2");
    assert!(is_deleting(world.get(Kind::Pod, "db-1")));
    world.gone("db-1");
    assert_eq!(world.names(), ["db-0"]);
}

#[test]
fn a_claim_outlives_its_pod_and_is_given_to_the_next_of_its_name() {
    let mut world = started(2);
    let uid = uid_of(world.get(Kind::PersistentVolumeClaim, "data-db-1")).to_owned();
    world.change(Kind::StatefulSet, "db", &["spec", "replicas"], json!(1));
    world.finish();
    world.change(Kind::StatefulSet, "db", &["spec", "replicas"], json!(2));
    world.finish();
    let claim = world.get(Kind::PersistentVolumeClaim, "data-db-1");
    assert_eq!(
        (uid_of(claim), text(claim, "/status/phase")),
        (uid.as_str(), "Bound")
    );
    let volume = world.get(Kind::PersistentVolume, &format!("pvc-{uid}"));
    assert_eq!(text(volume, "/spec/hostPath/path"), format!("/volumes/pvc-{uid}"));
}

#[test]
fn a_rolling_update_goes_down_from_the_highest_pod_one_at_a_time() {
    let mut world = started(3);
    world.change(Kind::StatefulSet, "db", IMAGE, containers("two"));
    world.settle();
    let deleting = |world: &World| -> Vec<String> {
        world
            .pods()
            .into_iter()
            .filter(|pod| is_deleting(pod))
            .map(|pod| name_of(pod).to_owned())
            .collect()
    };
    for name in ["db-2", "db-1", "db-0"] {
        assert_eq!(deleting(&world), [name]);
        world.gone(name);
        assert_eq!(image(world.get(Kind::Pod, name)), "two");
        assert_eq!(deleting(&world), [""; 0], "the next one waits for {name}");
        world.ready(name);
    }
    let set = world.get(Kind::StatefulSet, "db");
    assert_eq!(
        text(set, "/status/currentRevision"),
        text(set, "/status/updateRevision")
    );
    assert_eq!(number(set, "/status/updatedReplicas"), Some(3));
}

#[test]
fn below_the_partition_pods_keep_the_old_template_even_when_they_are_made_anew() {
    let mut world = started(3);
    let rolling = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } });
    world.change(Kind::StatefulSet, "db", &["spec", "updateStrategy"], rolling);
    world.change(Kind::StatefulSet, "db", IMAGE, containers("two"));
    world.finish();
    world.delete(Kind::Pod, "db-0");
    world.finish();
    let images: Vec<_> = world.pods().into_iter().map(image).collect();
    assert_eq!(images, ["one", "one", "two"]);
    let set = world.get(Kind::StatefulSet, "db");
    assert_ne!(
        text(set, "/status/currentRevision"),
        text(set, "/status/updateRevision")
    );
}

#[test]
fn on_delete_changes_only_what_is_deleted() {
    let mut world = started(3);
    world.change(
        Kind::StatefulSet,
        "db",
        &["spec", "updateStrategy"],
        json!({ "type": "OnDelete" }),
    );
    world.change(Kind::StatefulSet, "db", IMAGE, containers("two"));
    world.finish();
    world.delete(Kind::Pod, "db-1");
    world.finish();
    let images: Vec<_> = world.pods().into_iter().map(image).collect();
    assert_eq!(images, ["one", "two", "one"]);
}

#[test]
fn going_back_to_an_old_template_uses_its_old_revision() {
    let mut world = started(1);
    let first = text(world.get(Kind::StatefulSet, "db"), "/status/updateRevision").to_owned();
    world.change(Kind::StatefulSet, "db", IMAGE, containers("two"));
    world.finish();
    world.change(Kind::StatefulSet, "db", IMAGE, containers("one"));
    world.finish();
    assert_eq!(
        text(world.get(Kind::StatefulSet, "db"), "/status/updateRevision"),
        first
    );
    assert_eq!(
        number(world.get(Kind::ControllerRevision, &first), "/revision"),
        Some(3)
    );
}

#[test]
fn a_failed_pod_is_replaced() {
    let mut world = started(1);
    let uid = uid_of(world.get(Kind::Pod, "db-0")).to_owned();
    world.report("db-0", "Failed", false);
    world.finish();
    assert_ne!(uid_of(world.get(Kind::Pod, "db-0")), uid);
}

#[test]
fn an_ordered_set_does_not_repair_a_pod_that_a_bad_template_broke() {
    let mut world = started(2);
    world.change(Kind::StatefulSet, "db", IMAGE, containers("broken"));
    world.settle();
    world.gone("db-1");
    world.change(Kind::StatefulSet, "db", IMAGE, containers("good"));
    world.settle();
    assert_eq!(
        image(world.get(Kind::Pod, "db-1")),
        "broken",
        "as upstream: somebody must delete it"
    );
    world.delete(Kind::Pod, "db-1");
    world.finish();
    assert_eq!(image(world.get(Kind::Pod, "db-1")), "good");
}

#[test]
fn min_ready_seconds_are_waited_for() {
    let mut world = World::new(&["n1"]);
    world.create(with(&stateful_set(2), &["spec", "minReadySeconds"], json!(20)));
    world.settle();
    world.report("db-0", "Running", true);
    let due = world.settle();
    assert_eq!(world.names(), ["db-0"]);
    assert_eq!(due, Some(world.now + SignedDuration::from_secs(20)));
    world.pass(20);
    world.settle();
    assert_eq!(world.names(), ["db-0", "db-1"]);
}

#[test]
fn pods_of_a_set_that_was_deleted_alone_are_taken_over_by_its_successor() {
    let mut world = started(2);
    let uid = uid_of(world.get(Kind::Pod, "db-1")).to_owned();
    world.delete_with(Kind::StatefulSet, "db", "Orphan");
    world.settle();
    assert!(world.find(Kind::StatefulSet, "db").is_none());
    assert_eq!(world.names(), ["db-0", "db-1"]);
    world.create(stateful_set(2));
    world.settle();
    let pod = world.get(Kind::Pod, "db-1");
    assert_eq!(uid_of(pod), uid);
    let owner = text(pod, "/metadata/ownerReferences/0/uid").to_owned();
    assert_eq!(owner, uid_of(world.get(Kind::StatefulSet, "db")));
}

#[test]
fn a_pod_is_not_made_while_its_old_claim_is_still_going() {
    let mut world = started(1);
    let old = uid_of(world.get(Kind::PersistentVolumeClaim, "data-db-0")).to_owned();
    world.delete(Kind::PersistentVolumeClaim, "data-db-0");
    world.settle();
    assert!(
        is_deleting(world.get(Kind::PersistentVolumeClaim, "data-db-0")),
        "its pod still uses it"
    );
    world.delete(Kind::Pod, "db-0");
    world.settle();
    world.finish();
    let claim = world.get(Kind::PersistentVolumeClaim, "data-db-0");
    assert_ne!(uid_of(claim), old);
    assert!(!is_deleting(claim));
    assert!(
        world
            .find(Kind::PersistentVolume, &format!("pvc-{old}"))
            .is_none(),
        "the folder went with it"
    );
}
