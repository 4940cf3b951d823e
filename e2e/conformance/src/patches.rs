//! Patches: JSON, merge, strategic merge.

use anyhow::Result;
use serde_json::json;

use crate::{World, checks};

checks![
    a_merge_patch_merges_and_null_deletes,
    a_json_patch_tests_adds_replaces_and_removes,
    a_json_patch_that_does_not_apply_changes_nothing,
    a_test_of_what_is_missing_passes_against_null,
    a_version_in_a_patch_is_a_precondition,
    a_strategic_patch_merges_containers_by_name,
    a_strategic_patch_deletes_and_replaces,
    a_patch_of_no_known_kind_is_unsupported,
    a_malformed_patch_is_a_bad_request,
    a_patch_cannot_rename,
];

const MAPS: &str = "/api/v1/{ns}/configmaps";

async fn a_merge_patch_merges_and_null_deletes(world: World) -> Result<()> {
    world
        .config_map("a", &json!({"keep": "1", "drop": "2"}), &json!({}))
        .await?;
    let patched = world
        .patch(
            "merge-patch+json",
            &format!("{MAPS}/a"),
            &json!({"data": {"drop": null, "new": "3"}}),
        )
        .await?;
    world.same("merged", patched.at("/data"), json!({"keep": "1", "new": "3"}))
}

async fn a_json_patch_tests_adds_replaces_and_removes(world: World) -> Result<()> {
    world
        .config_map("a", &json!({"x": "1", "y": "2"}), &json!({}))
        .await?;
    let patch = json!([
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "one"},
        {"op": "remove", "path": "/data/y"},
        {"op": "add", "path": "/data/z", "value": "3"},
        {"op": "copy", "from": "/data/z", "path": "/data/copied"},
        {"op": "move", "from": "/data/z", "path": "/data/moved"},
        {"op": "add", "path": "/metadata/annotations", "value": {"example.com/a~b": "c"}},
    ]);
    let patched = world
        .patch("json-patch+json", &format!("{MAPS}/a"), &patch)
        .await?;
    // The last operation names no valid annotation: everything is refused together.
    world.refused("all or nothing", &patched, 422, "Invalid")?;
    let mut good = patch;
    if let Some(operations) = good.as_array_mut() {
        operations.pop();
    }
    let patched = world
        .patch("json-patch+json", &format!("{MAPS}/a"), &good)
        .await?;
    world.same(
        "patched",
        patched.at("/data"),
        json!({"x": "one", "copied": "3", "moved": "3"}),
    )
}

async fn a_json_patch_that_does_not_apply_changes_nothing(world: World) -> Result<()> {
    let made = world.config_map("a", &json!({"x": "1"}), &json!({})).await?;
    for patch in [
        json!([{"op": "test", "path": "/data/x", "value": "2"}]),
        json!([{"op": "remove", "path": "/data/no"}]),
        json!([{"op": "replace", "path": "/no/such/place", "value": "1"}]),
        json!([{"op": "add", "path": "/no/such/place", "value": "1"}]),
    ] {
        let patched = world
            .patch("json-patch+json", &format!("{MAPS}/a"), &patch)
            .await?;
        world.same(&patch.to_string(), patched.code, 422)?;
    }
    let read = world.get(&format!("{MAPS}/a")).await?;
    world.same("unchanged", read.version(), made.version())?;
    let missing = json!([{"op": "replace", "path": "/data/new", "value": "1"}]);
    let patched = world
        .patch("json-patch+json", &format!("{MAPS}/a"), &missing)
        .await?;
    world.same(
        "replacing what a map has not adds it",
        patched.text("/data/new"),
        "1",
    )
}

async fn a_test_of_what_is_missing_passes_against_null(world: World) -> Result<()> {
    world.config_map("a", &json!({}), &json!({})).await?;
    let patch = json!([
        {"op": "test", "path": "/metadata/finalizers", "value": null},
        {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/mine"]},
    ]);
    let patched = world
        .patch("json-patch+json", &format!("{MAPS}/a"), &patch)
        .await?;
    world.same(
        "added",
        patched.at("/metadata/finalizers"),
        json!(["example.com/mine"]),
    )?;
    let patch = json!([
        {"op": "test", "path": "/metadata/finalizers/0", "value": "example.com/mine"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]);
    let patched = world
        .patch("json-patch+json", &format!("{MAPS}/a"), &patch)
        .await?;
    world.worked("removed", patched)?;
    Ok(())
}

async fn a_version_in_a_patch_is_a_precondition(world: World) -> Result<()> {
    let made = world.config_map("a", &json!({}), &json!({})).await?;
    let with =
        |version: &str, value: &str| json!({"metadata": {"resourceVersion": version}, "data": {"k": value}});
    let path = format!("{MAPS}/a");
    let right = world
        .patch("merge-patch+json", &path, &with(&made.version(), "1"))
        .await?;
    world.same("the right one", right.code, 200)?;
    let old = world
        .patch("merge-patch+json", &path, &with(&made.version(), "2"))
        .await?;
    world.refused("an old one", &old, 409, "Conflict")
}

fn deployment() -> serde_json::Value {
    let container =
        |name: &str| json!({"name": name, "image": "example.com/x:1", "env": [{"name": "A", "value": "1"}]});
    json!({
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container("one"), container("two")]}},
        },
    })
}

const DEPLOYMENTS: &str = "/apis/apps/v1/{ns}/deployments";

async fn a_strategic_patch_merges_containers_by_name(world: World) -> Result<()> {
    world.worked("made", world.post(DEPLOYMENTS, &deployment()).await?)?;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "two", "image": "example.com/x:2", "env": [{"name": "B", "value": "2"}]}]}}}});
    let patched = world
        .patch("strategic-merge-patch+json", &format!("{DEPLOYMENTS}/d"), &patch)
        .await?;
    let containers = patched.at("/spec/template/spec/containers");
    world.same("still two", containers.as_array().map(Vec::len), Some(2))?;
    let two = containers
        .as_array()
        .and_then(|all| {
            all.iter()
                .find(|one| one.get("name") == Some(&json!("two")))
                .cloned()
        })
        .unwrap_or_default();
    world.same("changed", two.get("image"), Some(&json!("example.com/x:2")))?;
    world.same(
        "variables merged",
        two.get("env").and_then(serde_json::Value::as_array).map(Vec::len),
        Some(2),
    )
}

async fn a_strategic_patch_deletes_and_replaces(world: World) -> Result<()> {
    world.worked("made", world.post(DEPLOYMENTS, &deployment()).await?)?;
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "one", "$patch": "delete"}]}}}});
    let patched = world
        .patch("strategic-merge-patch+json", &format!("{DEPLOYMENTS}/d"), &patch)
        .await?;
    world.same(
        "one is left",
        patched
            .at("/spec/template/spec/containers")
            .as_array()
            .map(Vec::len),
        Some(1),
    )?;
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}});
    let patched = world
        .patch("strategic-merge-patch+json", &format!("{DEPLOYMENTS}/d"), &patch)
        .await?;
    world.same(
        "labels are kept",
        patched.at("/spec/template/metadata/labels"),
        json!({"app": "d"}),
    )
}

async fn a_patch_of_no_known_kind_is_unsupported(world: World) -> Result<()> {
    world.config_map("a", &json!({}), &json!({})).await?;
    for kind in ["json", "x-yaml", "nonsense"] {
        let patched = world.patch(kind, &format!("{MAPS}/a"), &json!({})).await?;
        world.refused(kind, &patched, 415, "UnsupportedMediaType")?;
    }
    Ok(())
}

async fn a_malformed_patch_is_a_bad_request(world: World) -> Result<()> {
    world.config_map("a", &json!({}), &json!({})).await?;
    let patched = world
        .patch("json-patch+json", &format!("{MAPS}/a"), &json!({"op": "add"}))
        .await?;
    world.refused("no list", &patched, 400, "BadRequest")?;
    let patched = world
        .patch("merge-patch+json", &format!("{MAPS}/a"), &json!({"data": [1, 2]}))
        .await?;
    world.so("the wrong type", matches!(patched.code, 400 | 422), &patched.body)
}

async fn a_patch_cannot_rename(world: World) -> Result<()> {
    world.config_map("a", &json!({}), &json!({})).await?;
    let patched = world
        .patch(
            "merge-patch+json",
            &format!("{MAPS}/a"),
            &json!({"metadata": {"name": "b"}}),
        )
        .await?;
    world.refused("another name", &patched, 400, "BadRequest")?;
    let patched = world
        .patch(
            "merge-patch+json",
            &format!("{MAPS}/a"),
            &json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z", "generation": 9}}),
        )
        .await?;
    world.so(
        "what is the server's stays",
        !patched.text("/metadata/creationTimestamp").starts_with("2020"),
        &patched.body,
    )
}
