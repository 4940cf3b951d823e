//! Selectors, pages, forms.

use anyhow::Result;
use serde_json::json;

use crate::{World, checks};

checks![
    labels_select,
    fields_select,
    a_bad_selector_is_a_bad_request,
    pages_are_of_one_moment,
    a_bad_page_or_version_is_refused,
    a_list_says_its_kind_and_revision,
    a_table_has_a_row_for_each_object,
    only_the_metadata_can_be_asked_for,
    discovery_names_what_is_served,
];

const MAPS: &str = "/api/v1/{ns}/configmaps";

async fn labels_select(world: World) -> Result<()> {
    world
        .config_map("a", &json!({}), &json!({"app": "x", "tier": "1"}))
        .await?;
    world
        .config_map("b", &json!({}), &json!({"app": "x", "tier": "2"}))
        .await?;
    world.config_map("c", &json!({}), &json!({"app": "y"})).await?;
    for (selector, wanted) in [
        ("app=x", vec!["a", "b"]),
        ("app==x,tier=2", vec!["b"]),
        ("app!=x,app", vec!["c"]),
        ("app,!tier", vec!["c"]),
        ("tier in (1,2)", vec!["a", "b"]),
        ("tier notin (1),app", vec!["b", "c"]),
        ("app=z", vec![]),
    ] {
        let encoded = selector
            .replace(' ', "%20")
            .replace('=', "%3D")
            .replace('!', "%21");
        let list = world.get(&format!("{MAPS}?labelSelector={encoded}")).await?;
        world.same(
            selector,
            list.names(),
            wanted.into_iter().map(str::to_owned).collect(),
        )?;
    }
    Ok(())
}

async fn fields_select(world: World) -> Result<()> {
    world.config_map("a", &json!({}), &json!({"mine": "yes"})).await?;
    world.config_map("b", &json!({}), &json!({"mine": "yes"})).await?;
    let list = world
        .get(&format!("{MAPS}?fieldSelector=metadata.name=a"))
        .await?;
    world.same("by name", list.names(), vec!["a".to_owned()])?;
    let list = world
        .get(&format!(
            "{MAPS}?fieldSelector=metadata.name!=a&labelSelector=mine"
        ))
        .await?;
    world.same("not by name", list.names(), vec!["b".to_owned()])?;
    let list = world
        .get("/api/v1/{ns}/pods?fieldSelector=spec.nodeName=nowhere")
        .await?;
    world.same("pods by node", (list.code, list.names().len()), (200, 0))
}

async fn a_bad_selector_is_a_bad_request(world: World) -> Result<()> {
    for query in [
        "labelSelector=a%20b",
        "labelSelector=app%20in%20(x",
        "labelSelector=-bad%3Dx",
        "fieldSelector=data.k=v",
        "fieldSelector=nonsense",
    ] {
        let list = world.get(&format!("{MAPS}?{query}")).await?;
        world.refused(query, &list, 400, "BadRequest")?;
    }
    Ok(())
}

async fn pages_are_of_one_moment(world: World) -> Result<()> {
    for name in ["a", "b", "c", "d", "e"] {
        world
            .config_map(name, &json!({}), &json!({"page": "yes"}))
            .await?;
    }
    let query = format!("{MAPS}?labelSelector=page&limit=2");
    let first = world.get(&query).await?;
    world.same("first", first.names(), vec!["a".to_owned(), "b".to_owned()])?;
    let token = first.text("/metadata/continue").to_owned();
    world.so("there is more", !token.is_empty(), &first.body)?;
    // What changes between pages is not seen.
    world
        .config_map("bb", &json!({}), &json!({"page": "yes"}))
        .await?;
    world.delete(&format!("{MAPS}/c")).await?;
    let second = world.get(&format!("{query}&continue={token}")).await?;
    world.same("second", second.names(), vec!["c".to_owned(), "d".to_owned()])?;
    world.same("of the same moment", second.version(), first.version())?;
    let token = second.text("/metadata/continue").to_owned();
    let third = world.get(&format!("{query}&continue={token}")).await?;
    world.same("third", third.names(), vec!["e".to_owned()])?;
    world.same("the last", third.text("/metadata/continue"), "")
}

async fn a_bad_page_or_version_is_refused(world: World) -> Result<()> {
    let list = world.get(&format!("{MAPS}?limit=1&continue=nonsense")).await?;
    world.refused("continue", &list, 400, "BadRequest")?;
    let list = world.get(&format!("{MAPS}?resourceVersion=abc")).await?;
    world.same("version", list.code, 400)?;
    let ahead = world
        .get(&format!(
            "{MAPS}?resourceVersion=999999999&resourceVersionMatch=NotOlderThan"
        ))
        .await?;
    world.refused("a version that is to come", &ahead, 504, "Timeout")
}

async fn a_list_says_its_kind_and_revision(world: World) -> Result<()> {
    let made = world.config_map("a", &json!({}), &json!({})).await?;
    let list = world.get(MAPS).await?;
    world.same(
        "kind",
        (list.text("/kind"), list.text("/apiVersion")),
        ("ConfigMapList", "v1"),
    )?;
    world.so(
        "revision",
        list.version().parse::<u64>().ok() >= made.version().parse().ok(),
        &list.body,
    )?;
    let exact = world
        .get(&format!(
            "{MAPS}?resourceVersion={}&resourceVersionMatch=Exact",
            made.version()
        ))
        .await?;
    world.same("exactly then", exact.version(), made.version())
}

async fn a_table_has_a_row_for_each_object(world: World) -> Result<()> {
    world
        .config_map("a", &json!({"one": "1", "two": "2"}), &json!({"t": "yes"}))
        .await?;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let table = world.get_as(&format!("{MAPS}?labelSelector=t"), accept).await?;
    world.same("kind", table.text("/kind"), "Table")?;
    world.same(
        "columns",
        (
            table.text("/columnDefinitions/0/name"),
            table.text("/columnDefinitions/1/name"),
        ),
        ("Name", "Data"),
    )?;
    world.same("name", table.text("/rows/0/cells/0"), "a")?;
    let data = table.at("/rows/0/cells/1").to_string();
    world.same("data", data.trim_matches('"'), "2")?;
    world.same(
        "object",
        table.text("/rows/0/object/kind"),
        "PartialObjectMetadata",
    )
}

async fn only_the_metadata_can_be_asked_for(world: World) -> Result<()> {
    world
        .config_map("a", &json!({"k": "v"}), &json!({"t": "yes"}))
        .await?;
    let one = world
        .get_as(
            &format!("{MAPS}/a"),
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        )
        .await?;
    world.same("kind", one.text("/kind"), "PartialObjectMetadata")?;
    world.so("no data", one.body.get("data").is_none(), &one.body)?;
    let all = world
        .get_as(
            &format!("{MAPS}?labelSelector=t"),
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        )
        .await?;
    world.same(
        "all",
        (all.text("/kind"), all.names()),
        ("PartialObjectMetadataList", vec!["a".to_owned()]),
    )
}

async fn discovery_names_what_is_served(world: World) -> Result<()> {
    let core = world.get("/api/v1").await?;
    let resources = core.at("/resources").to_string();
    world.same("kind", core.text("/kind"), "APIResourceList")?;
    for name in [
        "pods",
        "pods/eviction",
        "pods/log",
        "pods/exec",
        "configmaps",
        "namespaces/status",
    ] {
        world.so(
            name,
            resources.contains(&format!("{name:?}")),
            &core.at("/resources/0"),
        )?;
    }
    let groups = world.get("/apis").await?.body.to_string();
    for name in [
        "apps",
        "coordination.k8s.io",
        "policy",
        "apiextensions.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
    ] {
        world.so(name, groups.contains(&format!("{name:?}")), &json!(null))?;
    }
    let version = world.get("/version").await?;
    world.same("major", version.text("/major"), "1")?;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let aggregated = world.get_as("/apis", accept).await?;
    world.same("aggregated", aggregated.text("/kind"), "APIGroupDiscoveryList")
}
