//! Watches: order, resumption, selection, bookmarks, ends.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::{World, checks};

checks![
    a_watch_tells_what_happens_in_order,
    a_watch_goes_on_from_a_revision,
    a_watch_without_a_revision_begins_with_what_is_there,
    selection_turns_changes_into_coming_and_going,
    a_deletion_carries_a_revision_of_its_own,
    initial_events_end_with_a_bookmark,
    initial_events_need_their_match,
    a_watch_ends_when_asked,
    a_revision_that_is_forgotten_is_gone,
    a_bad_revision_is_refused,
    a_watch_can_be_of_metadata_only,
];

const MAPS: &str = "/api/v1/{ns}/configmaps";

fn pair(event: &str, name: &str) -> (String, String) {
    (event.to_owned(), name.to_owned())
}

async fn start(world: &World) -> Result<String> {
    // The server itself puts a map into every new namespace.
    let list = world.get(&format!("{MAPS}?labelSelector=w")).await?;
    Ok(list.version())
}

async fn a_watch_tells_what_happens_in_order(world: World) -> Result<()> {
    let from = start(&world).await?;
    let mut watch = world
        .watch(&format!("{MAPS}?watch=1&labelSelector=w&resourceVersion={from}"))
        .await?;
    world.same("begun", watch.code, 200)?;
    let label = json!({"w": "1"});
    world.config_map("a", &json!({}), &label).await?;
    world.config_map("b", &json!({}), &label).await?;
    world
        .patch(
            "merge-patch+json",
            &format!("{MAPS}/a"),
            &json!({"data": {"k": "v"}}),
        )
        .await?;
    world.delete(&format!("{MAPS}/b")).await?;
    for wanted in [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
    ] {
        world.same("event", watch.event().await?, pair(wanted.0, wanted.1))?;
    }
    Ok(())
}

async fn a_watch_goes_on_from_a_revision(world: World) -> Result<()> {
    let label = json!({"w": "1"});
    world.config_map("a", &json!({}), &label).await?;
    let second = world.config_map("b", &json!({}), &label).await?;
    world.config_map("c", &json!({}), &label).await?;
    let from = second.version();
    let mut watch = world
        .watch(&format!("{MAPS}?watch=1&labelSelector=w&resourceVersion={from}"))
        .await?;
    world.same("only what came later", watch.event().await?, pair("ADDED", "c"))
}

async fn a_watch_without_a_revision_begins_with_what_is_there(world: World) -> Result<()> {
    let label = json!({"w": "1"});
    world.config_map("a", &json!({}), &label).await?;
    for query in ["", "&resourceVersion=0"] {
        let mut watch = world
            .watch(&format!("{MAPS}?watch=1&labelSelector=w{query}"))
            .await?;
        world.same("what is there", watch.event().await?, pair("ADDED", "a"))?;
    }
    Ok(())
}

async fn selection_turns_changes_into_coming_and_going(world: World) -> Result<()> {
    let from = start(&world).await?;
    let mut watch = world
        .watch(&format!(
            "{MAPS}?watch=1&labelSelector=w%3D1&resourceVersion={from}"
        ))
        .await?;
    world.config_map("a", &json!({}), &json!({"w": "0"})).await?;
    let to = |value: &str| json!({"metadata": {"labels": {"w": value}}});
    world
        .patch("merge-patch+json", &format!("{MAPS}/a"), &to("1"))
        .await?;
    world.same("it comes", watch.event().await?, pair("ADDED", "a"))?;
    world
        .patch(
            "merge-patch+json",
            &format!("{MAPS}/a"),
            &json!({"data": {"k": "v"}}),
        )
        .await?;
    world.same("it changes", watch.event().await?, pair("MODIFIED", "a"))?;
    world
        .patch("merge-patch+json", &format!("{MAPS}/a"), &to("2"))
        .await?;
    world.same("it goes", watch.event().await?, pair("DELETED", "a"))
}

async fn a_deletion_carries_a_revision_of_its_own(world: World) -> Result<()> {
    let made = world.config_map("a", &json!({}), &json!({"w": "1"})).await?;
    let mut watch = world
        .watch(&format!(
            "{MAPS}?watch=1&labelSelector=w&resourceVersion={}",
            made.version()
        ))
        .await?;
    world.delete(&format!("{MAPS}/a")).await?;
    let event = watch.next().await?.context("an event")?;
    world.same("deleted", event.pointer("/type"), Some(&json!("DELETED")))?;
    let version = event
        .pointer("/object/metadata/resourceVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    world.so(
        "a later revision",
        version.parse::<u64>().ok() > made.version().parse().ok(),
        &event,
    )
}

async fn initial_events_end_with_a_bookmark(world: World) -> Result<()> {
    world.config_map("a", &json!({}), &json!({"w": "1"})).await?;
    let query = "watch=1&labelSelector=w&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let mut watch = world.watch(&format!("{MAPS}?{query}")).await?;
    let first = watch.next().await?.context("the object")?;
    world.same(
        "the object",
        first.pointer("/object/metadata/name"),
        Some(&json!("a")),
    )?;
    let last = watch.next().await?.context("the bookmark")?;
    world.same("a bookmark", last.pointer("/type"), Some(&json!("BOOKMARK")))?;
    let end = last.pointer("/object/metadata/annotations/k8s.io~1initial-events-end");
    world.same("that says the end", end, Some(&json!("true")))?;
    world.config_map("b", &json!({}), &json!({"w": "1"})).await?;
    world.same("and it goes on", watch.event().await?, pair("ADDED", "b"))
}

async fn initial_events_need_their_match(world: World) -> Result<()> {
    let watch = world
        .get(&format!(
            "{MAPS}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&timeoutSeconds=1"
        ))
        .await?;
    world.refused("without a match", &watch, 422, "Invalid")
}

async fn a_watch_ends_when_asked(world: World) -> Result<()> {
    let from = start(&world).await?;
    let mut watch = world
        .watch(&format!(
            "{MAPS}?watch=1&labelSelector=w&resourceVersion={from}&timeoutSeconds=1"
        ))
        .await?;
    world.same("in peace", watch.next().await?, None)
}

async fn a_revision_that_is_forgotten_is_gone(world: World) -> Result<()> {
    // Revision 1 is before any compaction only on a cluster that has just begun.
    let mut watch = world
        .watch(&format!(
            "{MAPS}?watch=1&labelSelector=w&resourceVersion=1&timeoutSeconds=2"
        ))
        .await?;
    let event = if watch.code == 200 {
        watch.next().await?
    } else {
        None
    };
    let gone = match &event {
        Some(event) => event.pointer("/object/code") == Some(&json!(410)),
        None => watch.code == 410 || watch.code == 200,
    };
    world.so("410, or nothing to tell", gone, &event.unwrap_or_default())
}

async fn a_bad_revision_is_refused(world: World) -> Result<()> {
    let watch = world.get(&format!("{MAPS}?watch=1&resourceVersion=abc")).await?;
    // A real server says 500 here and 400 for a list.
    world.so("no number", watch.code >= 400, &watch.body)
}

async fn a_watch_can_be_of_metadata_only(world: World) -> Result<()> {
    world
        .config_map("a", &json!({"k": "v"}), &json!({"w": "1"}))
        .await?;
    let path = format!("{MAPS}?watch=1&labelSelector=w&timeoutSeconds=1");
    let watch = world
        .get_as(
            &path,
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        )
        .await?;
    world.same("kind", watch.text("/object/kind"), "PartialObjectMetadata")
}
