//! Create, read, replace; names, revisions, generations.

use anyhow::Result;
use http::Method;
use serde_json::json;

use crate::world::set;
use crate::{World, checks};

checks![
    an_object_gets_what_only_the_server_gives,
    what_exists_is_not_made_again,
    what_does_not_exist_is_not_found,
    a_generated_name_begins_as_asked,
    a_bad_name_is_invalid,
    a_body_that_is_no_json_is_a_bad_request,
    a_bad_body_is_a_bad_request,
    a_replacement_with_an_old_version_is_a_conflict,
    a_replacement_without_a_version_overwrites_a_config_map_but_no_lease,
    a_write_that_changes_nothing_changes_no_version,
    the_uid_is_a_precondition_of_a_replacement,
    an_unknown_path_is_not_found,
    a_namespace_must_exist,
    a_dry_run_changes_nothing,
    an_event_has_two_faces,
    a_string_in_a_secret_becomes_data,
    an_immutable_config_map_stays,
];

const MAPS: &str = "/api/v1/{ns}/configmaps";

async fn an_object_gets_what_only_the_server_gives(world: World) -> Result<()> {
    let made = world
        .config_map("a", &json!({"k": "v"}), &json!({"app": "x"}))
        .await?;
    world.same("created", made.code, 201)?;
    world.so("uid", made.text("/metadata/uid").len() == 36, &made.body)?;
    world.so("version", made.version().parse::<u64>().is_ok(), &made.body)?;
    world.so(
        "creationTimestamp",
        made.text("/metadata/creationTimestamp").ends_with('Z'),
        &made.body,
    )?;
    world.same("namespace", made.text("/metadata/namespace"), &world.namespace)?;
    world.same("kind", made.text("/kind"), "ConfigMap")?;
    let read = world.get(&format!("{MAPS}/a")).await?;
    world.same("the same when read", read.body, made.body)
}

async fn what_exists_is_not_made_again(world: World) -> Result<()> {
    world.config_map("a", &json!({}), &json!({})).await?;
    let again = world.post(MAPS, &json!({"metadata": {"name": "a"}})).await?;
    world.refused("made again", &again, 409, "AlreadyExists")?;
    world.same(
        "details",
        (again.text("/details/name"), again.text("/details/kind")),
        ("a", "configmaps"),
    )
}

async fn what_does_not_exist_is_not_found(world: World) -> Result<()> {
    let read = world.get(&format!("{MAPS}/no")).await?;
    world.refused("read", &read, 404, "NotFound")?;
    let replaced = world
        .put(&format!("{MAPS}/no"), &json!({"metadata": {"name": "no"}}))
        .await?;
    world.refused("replaced", &replaced, 404, "NotFound")?;
    let patched = world
        .patch("merge-patch+json", &format!("{MAPS}/no"), &json!({"data": {}}))
        .await?;
    world.refused("patched", &patched, 404, "NotFound")?;
    let deleted = world.delete(&format!("{MAPS}/no")).await?;
    world.refused("deleted", &deleted, 404, "NotFound")
}

async fn a_generated_name_begins_as_asked(world: World) -> Result<()> {
    let made = world
        .post(MAPS, &json!({"metadata": {"generateName": "part-"}}))
        .await?;
    let name = made.text("/metadata/name");
    world.so("name", name.starts_with("part-") && name.len() == 10, &made.body)?;
    let nameless = world.post(MAPS, &json!({"metadata": {}})).await?;
    world.refused("without any name", &nameless, 422, "Invalid")
}

async fn a_bad_name_is_invalid(world: World) -> Result<()> {
    for name in ["UPPER", "-dash", "under_score", "dot."] {
        let made = world.post(MAPS, &json!({"metadata": {"name": name}})).await?;
        world.refused(name, &made, 422, "Invalid")?;
    }
    let labelled = world
        .post(MAPS, &json!({"metadata": {"name": "a", "labels": {"a b": "c"}}}))
        .await?;
    world.refused("a bad label", &labelled, 422, "Invalid")?;
    let service = world
        .post(
            "/api/v1/{ns}/services",
            &json!({"metadata": {"name": "a.b"}, "spec": {"ports": [{"port": 1}]}}),
        )
        .await?;
    world.refused("a service with a dot", &service, 422, "Invalid")
}

async fn a_body_that_is_no_json_is_a_bad_request(world: World) -> Result<()> {
    const JSON: &str = "application/json";
    for body in ["", "hello", "{\"metadata\": {", "[1, 2]", "\"text\""] {
        let reply = world.raw(Method::POST, MAPS, JSON, body).await?;
        world.refused(&format!("`{body}` as an object"), &reply, 400, "BadRequest")?;
    }
    world.config_map("a", &json!({}), &json!({})).await?;
    for kind in ["merge-patch+json", "json-patch+json"] {
        let kind = format!("application/{kind}");
        let reply = world
            .raw(Method::PATCH, &format!("{MAPS}/a"), &kind, "{\"data\": ")
            .await?;
        world.refused(&kind, &reply, 400, "BadRequest")?;
    }
    let reply = world.get("/api/v1/namespaces/%zz/configmaps").await?;
    world.same("a path that cannot be decoded", reply.code, 400)
}

async fn a_bad_body_is_a_bad_request(world: World) -> Result<()> {
    let typed = world
        .post(MAPS, &json!({"metadata": {"name": "a"}, "data": 7}))
        .await?;
    world.refused("data is a number", &typed, 400, "BadRequest")?;
    let versioned = world
        .post(MAPS, &json!({"metadata": {"name": "a", "resourceVersion": "7"}}))
        .await?;
    // Real servers say this with a status of their own making.
    world.so("a version on creation", versioned.code >= 400, &versioned.body)?;
    let named = world
        .put(&format!("{MAPS}/a"), &json!({"metadata": {"name": "b"}}))
        .await?;
    world.refused("another name than the path's", &named, 400, "BadRequest")?;
    let placed = world
        .post(
            MAPS,
            &json!({"metadata": {"name": "a", "namespace": "kube-system"}}),
        )
        .await?;
    world.refused("another namespace than the path's", &placed, 400, "BadRequest")?;
    let kind = world
        .post(
            MAPS,
            &json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}}),
        )
        .await?;
    world.refused("another kind than the path's", &kind, 400, "BadRequest")
}

async fn a_replacement_with_an_old_version_is_a_conflict(world: World) -> Result<()> {
    let first = world.config_map("a", &json!({"k": "1"}), &json!({})).await?;
    let mut changed = first.body.clone();
    set(&mut changed, "/data/k", json!("2"));
    let second = world.put(&format!("{MAPS}/a"), &changed).await?;
    world.same("the first replacement", second.code, 200)?;
    world.so(
        "a higher version",
        second.version().parse::<u64>().ok() > first.version().parse().ok(),
        &second.body,
    )?;
    set(&mut changed, "/data/k", json!("3"));
    let third = world.put(&format!("{MAPS}/a"), &changed).await?;
    world.refused("the second, with the first version", &third, 409, "Conflict")?;
    let kept = world.get(&format!("{MAPS}/a")).await?;
    world.same("kept", kept.text("/data/k"), "2")
}

async fn a_replacement_without_a_version_overwrites_a_config_map_but_no_lease(world: World) -> Result<()> {
    world.config_map("a", &json!({"k": "1"}), &json!({})).await?;
    let map = world
        .put(
            &format!("{MAPS}/a"),
            &json!({"metadata": {"name": "a"}, "data": {"k": "2"}}),
        )
        .await?;
    world.same("a config map", map.code, 200)?;
    let leases = "/apis/coordination.k8s.io/v1/{ns}/leases";
    let body =
        json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15}});
    let lease = world.post(leases, &body).await?;
    world.worked("a lease", lease)?;
    let lease = world.put(&format!("{leases}/a"), &body).await?;
    world.refused("a lease without version", &lease, 422, "Invalid")
}

async fn a_write_that_changes_nothing_changes_no_version(world: World) -> Result<()> {
    let made = world.config_map("a", &json!({"k": "v"}), &json!({})).await?;
    let put = world.put(&format!("{MAPS}/a"), &made.body).await?;
    world.same("after a replacement", put.version(), made.version())?;
    let patched = world
        .patch(
            "merge-patch+json",
            &format!("{MAPS}/a"),
            &json!({"data": {"k": "v"}}),
        )
        .await?;
    world.same("after a patch", patched.version(), made.version())?;
    let patched = world
        .patch("json-patch+json", &format!("{MAPS}/a"), &json!([]))
        .await?;
    world.same("after an empty patch", patched.version(), made.version())
}

async fn the_uid_is_a_precondition_of_a_replacement(world: World) -> Result<()> {
    let made = world.config_map("a", &json!({}), &json!({})).await?;
    let mut other = made.body.clone();
    set(
        &mut other,
        "/metadata/uid",
        json!("00000000-0000-4000-8000-000000000000"),
    );
    let put = world.put(&format!("{MAPS}/a"), &other).await?;
    world.refused("another uid", &put, 409, "Conflict")
}

async fn an_unknown_path_is_not_found(world: World) -> Result<()> {
    for path in [
        "/api/v1/{ns}/nonsense",
        "/apis/nobody.example/v1/things",
        "/nothing",
        "/api/v2/pods",
    ] {
        let read = world.get(path).await?;
        world.same(path, read.code, 404)?;
    }
    let put = world.put("/api/v1/{ns}/configmaps", &json!({})).await?;
    world.same("a method that is not allowed", put.code, 405)
}

async fn a_namespace_must_exist(world: World) -> Result<()> {
    let made = world
        .post(
            "/api/v1/namespaces/nowhere-at-all/configmaps",
            &json!({"metadata": {"name": "a"}}),
        )
        .await?;
    world.refused("made nowhere", &made, 404, "NotFound")?;
    let list = world.get("/api/v1/namespaces/nowhere-at-all/configmaps").await?;
    world.same("listed nowhere", (list.code, list.names().len()), (200, 0))?;
    world
        .eventually("/api/v1/{ns}/serviceaccounts/default", |reply| reply.code == 200)
        .await?;
    Ok(())
}

async fn a_dry_run_changes_nothing(world: World) -> Result<()> {
    let made = world
        .post(&format!("{MAPS}?dryRun=All"), &json!({"metadata": {"name": "a"}}))
        .await?;
    world.same("made", made.code, 201)?;
    let read = world.get(&format!("{MAPS}/a")).await?;
    world.same("and not there", read.code, 404)
}

async fn an_event_has_two_faces(world: World) -> Result<()> {
    let event = json!({
        "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": world.namespace},
        "reason": "Seen", "note": "was seen", "type": "Normal", "action": "Looking",
        "reportingController": "conformance", "reportingInstance": "one", "eventTime": "2026-01-01T00:00:00.000000Z",
    });
    let made = world.post("/apis/events.k8s.io/v1/{ns}/events", &event).await?;
    world.worked("made", made)?;
    let old = world.get("/api/v1/{ns}/events/e").await?;
    world.same("message", old.text("/message"), "was seen")?;
    world.same("object", old.text("/involvedObject/name"), "p")?;
    let list = world
        .get("/api/v1/{ns}/events?fieldSelector=involvedObject.name=p,involvedObject.kind=Pod")
        .await?;
    world.same("selected by its object", list.names(), vec!["e".to_owned()])
}

async fn a_string_in_a_secret_becomes_data(world: World) -> Result<()> {
    let made = world
        .post(
            "/api/v1/{ns}/secrets",
            &json!({"metadata": {"name": "s"}, "stringData": {"k": "hello"}}),
        )
        .await?;
    world.same("data", made.text("/data/k"), "aGVsbG8=")?;
    world.same("type", made.text("/type"), "Opaque")?;
    world.so("no stringData", made.body.get("stringData").is_none(), &made.body)
}

async fn an_immutable_config_map_stays(world: World) -> Result<()> {
    let made = world
        .post(
            MAPS,
            &json!({"metadata": {"name": "a"}, "immutable": true, "data": {"k": "v"}}),
        )
        .await?;
    world.worked("made", made)?;
    let changed = world
        .patch(
            "merge-patch+json",
            &format!("{MAPS}/a"),
            &json!({"data": {"k": "w"}}),
        )
        .await?;
    world.refused("changed", &changed, 422, "Invalid")
}
