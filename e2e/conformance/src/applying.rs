//! Server-side apply.

use anyhow::Result;
use serde_json::{Value, json};

use crate::world::set;
use crate::{World, checks};

checks![
    applying_makes_what_is_not_there,
    applying_the_same_again_changes_nothing,
    what_is_no_longer_applied_goes,
    two_managers_conflict_over_one_field,
    force_takes_the_field,
    a_manager_is_needed,
    an_edit_takes_the_field_from_an_applier,
    two_managers_share_a_list_by_key,
    finalizers_are_a_set_of_many_managers,
    a_stale_version_is_a_conflict,
];

const MAPS: &str = "/api/v1/{ns}/configmaps";

fn map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

async fn apply(world: &World, manager: &str, body: &Value, more: &str) -> Result<crate::Reply> {
    world
        .patch(
            "apply-patch+yaml",
            &format!("{MAPS}/a?fieldManager={manager}{more}"),
            body,
        )
        .await
}

async fn applying_makes_what_is_not_there(world: World) -> Result<()> {
    let made = apply(&world, "one", &map(&json!({"k": "v"})), "").await?;
    world.same("made", (made.code, made.text("/data/k")), (201, "v"))?;
    world.same("manager", made.text("/metadata/managedFields/0/manager"), "one")?;
    world.same(
        "operation",
        made.text("/metadata/managedFields/0/operation"),
        "Apply",
    )?;
    world.same(
        "fields",
        made.at("/metadata/managedFields/0/fieldsV1/f:data/f:k"),
        json!({}),
    )
}

async fn applying_the_same_again_changes_nothing(world: World) -> Result<()> {
    let made = apply(&world, "one", &map(&json!({"k": "v"})), "").await?;
    let again = apply(&world, "one", &map(&json!({"k": "v"})), "").await?;
    world.same("code", again.code, 200)?;
    world.same("version", again.version(), made.version())
}

async fn what_is_no_longer_applied_goes(world: World) -> Result<()> {
    apply(&world, "one", &map(&json!({"k": "v", "gone": "x"})), "").await?;
    apply(&world, "two", &map(&json!({"other": "y"})), "").await?;
    let now = apply(&world, "one", &map(&json!({"k": "v"})), "").await?;
    world.same(
        "what others own stays",
        now.at("/data"),
        json!({"k": "v", "other": "y"}),
    )
}

async fn two_managers_conflict_over_one_field(world: World) -> Result<()> {
    apply(&world, "one", &map(&json!({"k": "v"})), "").await?;
    let other = apply(&world, "two", &map(&json!({"k": "w"})), "").await?;
    world.refused("another value", &other, 409, "Conflict")?;
    world.same(
        "cause",
        other.text("/details/causes/0/reason"),
        "FieldManagerConflict",
    )?;
    world.same("field", other.text("/details/causes/0/field"), ".data.k")?;
    let same = apply(&world, "two", &map(&json!({"k": "v"})), "").await?;
    world.same("the same value is shared", same.code, 200)?;
    world.same(
        "by two",
        same.at("/metadata/managedFields").as_array().map(Vec::len),
        Some(2),
    )
}

async fn force_takes_the_field(world: World) -> Result<()> {
    apply(&world, "one", &map(&json!({"k": "v"})), "").await?;
    let taken = apply(&world, "two", &map(&json!({"k": "w"})), "&force=true").await?;
    world.same("taken", (taken.code, taken.text("/data/k")), (200, "w"))?;
    let back = apply(&world, "one", &map(&json!({})), "").await?;
    world.same("the first no longer owns it", back.text("/data/k"), "w")
}

async fn a_manager_is_needed(world: World) -> Result<()> {
    let body = map(&json!({}));
    let made = world
        .patch("apply-patch+yaml", &format!("{MAPS}/a"), &body)
        .await?;
    world.so("no manager", matches!(made.code, 400 | 422), &made.body)?;
    let nameless = json!({"metadata": {"name": "a"}});
    let made = apply(&world, "one", &nameless, "").await?;
    world.same("no kind", made.code, 400)
}

async fn an_edit_takes_the_field_from_an_applier(world: World) -> Result<()> {
    apply(&world, "one", &map(&json!({"k": "v"})), "").await?;
    let edited = world
        .patch(
            "merge-patch+json",
            &format!("{MAPS}/a?fieldManager=editor"),
            &json!({"data": {"k": "w"}}),
        )
        .await?;
    world.same("edited", edited.text("/data/k"), "w")?;
    let again = apply(&world, "one", &map(&json!({"k": "v"})), "").await?;
    world.refused("the applier must ask", &again, 409, "Conflict")
}

async fn two_managers_share_a_list_by_key(world: World) -> Result<()> {
    let service = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}});
    let path = |manager: &str| format!("/api/v1/{{ns}}/services/s?fieldManager={manager}");
    let bolt = json!([{"name": "bolt", "port": 7687, "protocol": "TCP"}]);
    let http = json!([{"name": "http", "port": 7444, "protocol": "TCP"}]);
    let made = world
        .patch("apply-patch+yaml", &path("one"), &service(bolt))
        .await?;
    world.same("made", made.code, 201)?;
    let both = world
        .patch("apply-patch+yaml", &path("two"), &service(http))
        .await?;
    world.same("both", both.at("/spec/ports").as_array().map(Vec::len), Some(2))?;
    let none = world
        .patch(
            "apply-patch+yaml",
            &path("two"),
            &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}),
        )
        .await?;
    world.same(
        "one is taken back",
        none.at("/spec/ports").as_array().map(Vec::len),
        Some(1),
    )?;
    world.same("the right one", none.text("/spec/ports/0/name"), "bolt")
}

async fn finalizers_are_a_set_of_many_managers(world: World) -> Result<()> {
    let with = |finalizer: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": [finalizer]}});
    apply(&world, "one", &with("example.com/one"), "").await?;
    let both = apply(&world, "two", &with("example.com/two"), "").await?;
    world.same(
        "both",
        both.at("/metadata/finalizers").as_array().map(Vec::len),
        Some(2),
    )?;
    let one = apply(&world, "two", &map(&json!({})), "").await?;
    world.same("one", one.at("/metadata/finalizers"), json!(["example.com/one"]))?;
    let none = apply(&world, "one", &map(&json!({})), "").await?;
    world.so("none", none.at("/metadata/finalizers").is_null(), &none.body)
}

async fn a_stale_version_is_a_conflict(world: World) -> Result<()> {
    let made = apply(&world, "one", &map(&json!({"k": "v"})), "").await?;
    world
        .patch(
            "merge-patch+json",
            &format!("{MAPS}/a"),
            &json!({"data": {"x": "y"}}),
        )
        .await?;
    let mut body = map(&json!({"k": "w"}));
    set(&mut body, "/metadata/resourceVersion", json!(made.version()));
    let stale = apply(&world, "one", &body, "").await?;
    world.refused("stale", &stale, 409, "Conflict")
}
