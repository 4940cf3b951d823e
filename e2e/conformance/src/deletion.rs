//! Finalizers, preconditions, grace, propagation.

use anyhow::Result;
use serde_json::json;

use crate::{World, checks};

checks![
    a_deletion_answers_with_success_and_the_object_is_gone,
    a_finalizer_keeps_an_object_until_it_is_taken_away,
    no_finalizer_is_added_while_an_object_is_being_deleted,
    preconditions_of_a_deletion_are_checked,
    a_pod_on_no_node_goes_at_once,
    a_pod_on_a_node_gets_its_grace,
    foreground_deletion_waits_for_the_dependents,
    dependents_go_with_their_owner,
    orphans_stay_when_asked,
    a_collection_is_deleted_by_label,
    a_namespace_takes_everything_with_it,
];

const MAPS: &str = "/api/v1/{ns}/configmaps";

async fn a_deletion_answers_with_success_and_the_object_is_gone(world: World) -> Result<()> {
    let made = world.config_map("a", &json!({}), &json!({})).await?;
    let deleted = world.delete(&format!("{MAPS}/a")).await?;
    world.same(
        "status",
        (deleted.code, deleted.text("/status")),
        (200, "Success"),
    )?;
    world.same("uid", deleted.text("/details/uid"), made.text("/metadata/uid"))?;
    let read = world.get(&format!("{MAPS}/a")).await?;
    world.same("gone", read.code, 404)
}

async fn a_finalizer_keeps_an_object_until_it_is_taken_away(world: World) -> Result<()> {
    let body = json!({"metadata": {"name": "a", "finalizers": ["example.com/hold"]}});
    world.worked("made", world.post(MAPS, &body).await?)?;
    let deleted = world.delete(&format!("{MAPS}/a")).await?;
    world.so(
        "the object comes back",
        !deleted.text("/metadata/deletionTimestamp").is_empty() || deleted.text("/status") == "Success",
        &deleted.body,
    )?;
    let held = world.get(&format!("{MAPS}/a")).await?;
    world.so(
        "marked",
        !held.text("/metadata/deletionTimestamp").is_empty(),
        &held.body,
    )?;
    let again = world.delete(&format!("{MAPS}/a")).await?;
    world.same("deleted again", again.code, 200)?;
    let same = world.get(&format!("{MAPS}/a")).await?;
    world.same("nothing new by that", same.version(), held.version())?;
    let labelled = world
        .patch(
            "merge-patch+json",
            &format!("{MAPS}/a"),
            &json!({"metadata": {"labels": {"x": "y"}}}),
        )
        .await?;
    world.same("it can still change", labelled.code, 200)?;
    let freed = world
        .patch(
            "merge-patch+json",
            &format!("{MAPS}/a"),
            &json!({"metadata": {"finalizers": null}}),
        )
        .await?;
    world.same("freed", freed.code, 200)?;
    let read = world.get(&format!("{MAPS}/a")).await?;
    world.same("gone", read.code, 404)
}

async fn no_finalizer_is_added_while_an_object_is_being_deleted(world: World) -> Result<()> {
    let body = json!({"metadata": {"name": "a", "finalizers": ["example.com/one"]}});
    world.worked("made", world.post(MAPS, &body).await?)?;
    world.delete(&format!("{MAPS}/a")).await?;
    let added = json!({"metadata": {"finalizers": ["example.com/one", "example.com/two"]}});
    let added = world
        .patch("merge-patch+json", &format!("{MAPS}/a"), &added)
        .await?;
    world.refused("added", &added, 422, "Invalid")?;
    let freed = world
        .patch(
            "merge-patch+json",
            &format!("{MAPS}/a"),
            &json!({"metadata": {"finalizers": []}}),
        )
        .await?;
    world.worked("freed", freed)?;
    Ok(())
}

async fn preconditions_of_a_deletion_are_checked(world: World) -> Result<()> {
    let made = world.config_map("a", &json!({}), &json!({})).await?;
    let path = format!("{MAPS}/a");
    let other = json!({"preconditions": {"uid": "00000000-0000-4000-8000-000000000000"}});
    world.refused(
        "another uid",
        &world.delete_with(&path, &other).await?,
        409,
        "Conflict",
    )?;
    let old = json!({"preconditions": {"resourceVersion": "1"}});
    world.refused(
        "another version",
        &world.delete_with(&path, &old).await?,
        409,
        "Conflict",
    )?;
    let right =
        json!({"preconditions": {"uid": made.at("/metadata/uid"), "resourceVersion": made.version()}});
    world.worked("the right ones", world.delete_with(&path, &right).await?)?;
    Ok(())
}

fn pod(name: &str) -> serde_json::Value {
    json!({
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 20, "containers": [{"name": "c", "image": "example.com/nothing:1"}]},
    })
}

async fn a_pod_on_no_node_goes_at_once(world: World) -> Result<()> {
    world
        .eventually("/api/v1/{ns}/serviceaccounts/default", |reply| reply.code == 200)
        .await?;
    world.worked("made", world.post("/api/v1/{ns}/pods", &pod("p")).await?)?;
    let deleted = world.delete("/api/v1/{ns}/pods/p").await?;
    world.same("the pod comes back", deleted.text("/kind"), "Pod")?;
    let read = world.get("/api/v1/{ns}/pods/p").await?;
    world.same("gone", read.code, 404)
}

async fn a_pod_on_a_node_gets_its_grace(world: World) -> Result<()> {
    world
        .eventually("/api/v1/{ns}/serviceaccounts/default", |reply| reply.code == 200)
        .await?;
    world.worked("made", world.post("/api/v1/{ns}/pods", &pod("p")).await?)?;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "no-such-node"}});
    let bound = world.post("/api/v1/{ns}/pods/p/binding", &binding).await?;
    world.same("bound", bound.code, 201)?;
    let read = world.get("/api/v1/{ns}/pods/p").await?;
    world.same("node", read.text("/spec/nodeName"), "no-such-node")?;
    let again = world.post("/api/v1/{ns}/pods/p/binding", &binding).await?;
    world.refused("bound again", &again, 409, "Conflict")?;
    let deleted = world.delete("/api/v1/{ns}/pods/p").await?;
    world.same(
        "grace",
        deleted.at("/metadata/deletionGracePeriodSeconds"),
        json!(20),
    )?;
    let shorter = world
        .delete_with("/api/v1/{ns}/pods/p", &json!({"gracePeriodSeconds": 5}))
        .await?;
    world.same(
        "shorter",
        shorter.at("/metadata/deletionGracePeriodSeconds"),
        json!(5),
    )?;
    let longer = world
        .delete_with("/api/v1/{ns}/pods/p", &json!({"gracePeriodSeconds": 50}))
        .await?;
    world.same(
        "never longer",
        longer.at("/metadata/deletionGracePeriodSeconds"),
        json!(5),
    )?;
    world
        .delete_with("/api/v1/{ns}/pods/p", &json!({"gracePeriodSeconds": 0}))
        .await?;
    let read = world.get("/api/v1/{ns}/pods/p").await?;
    world.same("without grace it goes", read.code, 404)
}

async fn owned(world: &World, policy: &str) -> Result<()> {
    let owner = world.config_map("owner", &json!({}), &json!({})).await?;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.at("/metadata/uid"), "blockOwnerDeletion": true});
    let body = json!({"metadata": {"name": "owned", "ownerReferences": [reference]}});
    world.worked("owned", world.post(MAPS, &body).await?)?;
    let options = json!({"propagationPolicy": policy});
    world.worked(
        "deleted",
        world.delete_with(&format!("{MAPS}/owner"), &options).await?,
    )?;
    Ok(())
}

async fn foreground_deletion_waits_for_the_dependents(world: World) -> Result<()> {
    let body = json!({"metadata": {"name": "alone", "finalizers": ["example.com/hold"]}});
    world.worked("made", world.post(MAPS, &body).await?)?;
    world
        .delete_with(
            &format!("{MAPS}/alone"),
            &json!({"propagationPolicy": "Foreground"}),
        )
        .await?;
    let held = world.get(&format!("{MAPS}/alone")).await?;
    let finalizers = held.at("/metadata/finalizers").to_string();
    world.so(
        "held by its own finalizer",
        finalizers.contains("example.com/hold"),
        &held.body,
    )?;
    let freed = world
        .patch(
            "merge-patch+json",
            &format!("{MAPS}/alone"),
            &json!({"metadata": {"finalizers": null}}),
        )
        .await?;
    world.worked("freed", freed)?;
    let bad = world.config_map("b", &json!({}), &json!({})).await?;
    world.same("made", bad.code, 201)?;
    let refused = world
        .delete_with(&format!("{MAPS}/b"), &json!({"propagationPolicy": "Nonsense"}))
        .await?;
    world.refused("no such policy", &refused, 422, "Invalid")
}

async fn dependents_go_with_their_owner(world: World) -> Result<()> {
    if !world.has_controllers().await? {
        return Ok(());
    }
    owned(&world, "Background").await?;
    world
        .eventually(&format!("{MAPS}/owned"), |reply| reply.code == 404)
        .await?;
    Ok(())
}

async fn orphans_stay_when_asked(world: World) -> Result<()> {
    if !world.has_controllers().await? {
        return Ok(());
    }
    owned(&world, "Orphan").await?;
    world
        .eventually(&format!("{MAPS}/owner"), |reply| reply.code == 404)
        .await?;
    let orphan = world.get(&format!("{MAPS}/owned")).await?;
    world.same("still there", orphan.code, 200)?;
    world.so(
        "and owned by nobody",
        orphan.at("/metadata/ownerReferences").is_null(),
        &orphan.body,
    )
}

async fn a_collection_is_deleted_by_label(world: World) -> Result<()> {
    for (name, app) in [("a", "x"), ("b", "x"), ("c", "y")] {
        world.config_map(name, &json!({}), &json!({"app": app})).await?;
    }
    world.worked(
        "deleted",
        world.delete(&format!("{MAPS}?labelSelector=app=x")).await?,
    )?;
    let left = world.get(&format!("{MAPS}?labelSelector=app")).await?;
    world.same("left", left.names(), vec!["c".to_owned()])
}

async fn a_namespace_takes_everything_with_it(world: World) -> Result<()> {
    let made = world
        .post(
            "/api/v1/namespaces",
            &json!({"metadata": {"generateName": "conformance-"}}),
        )
        .await?;
    let path = format!("/api/v1/namespaces/{}", made.text("/metadata/name"));
    world.same("phase", made.text("/status/phase"), "Active")?;
    let body = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    world.worked("held", world.post(&format!("{path}/configmaps"), &body).await?)?;
    let deleted = world.delete(&path).await?;
    world.same("deleted", deleted.code, 200)?;
    world
        .eventually(&path, |reply| reply.text("/status/phase") == "Terminating")
        .await?;
    let late = world
        .post(
            &format!("{path}/configmaps"),
            &json!({"metadata": {"name": "late"}}),
        )
        .await?;
    world.refused("too late", &late, 403, "Forbidden")?;
    world
        .eventually(&format!("{path}/configmaps/held"), |reply| {
            !reply.text("/metadata/deletionTimestamp").is_empty()
        })
        .await?;
    let freed = world
        .patch(
            "merge-patch+json",
            &format!("{path}/configmaps/held"),
            &json!({"metadata": {"finalizers": null}}),
        )
        .await?;
    world.worked("freed", freed)?;
    world.eventually(&path, |reply| reply.code == 404).await?;
    Ok(())
}
