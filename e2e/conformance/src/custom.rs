//! Custom kinds: definitions, schemas, rules, subresources.

use anyhow::Result;
use serde_json::{Value, json};

use crate::world::set;
use crate::{World, checks};

checks![
    a_definition_is_established_and_served,
    a_schema_defaults_prunes_and_refuses,
    strict_validation_names_unknown_fields,
    rules_are_enforced_also_about_changes,
    the_status_is_apart_from_the_rest,
    generation_counts_changes_of_the_spec_only,
    a_custom_kind_scales,
    a_custom_kind_has_its_columns,
    a_custom_kind_is_replaced_only_with_a_version,
    a_strategic_patch_of_a_custom_kind_is_unsupported,
    custom_lists_are_shared_by_key,
    a_bad_definition_is_invalid,
    a_definition_takes_its_objects_with_it,
];

/// A definition in a group of this check's own, because definitions are for the whole cluster.
struct Widgets {
    group: String,
    path: String,
}

impl Widgets {
    async fn new(world: &World) -> Result<Self> {
        let group = format!("{}.example.com", world.namespace);
        let made = world
            .post(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                &definition(&group),
            )
            .await?;
        world.worked("defined", made)?;
        let widgets = Self {
            path: format!("/apis/{group}/v1/{{ns}}/widgets"),
            group,
        };
        world
            .eventually(&widgets.definition(), |reply| {
                let conditions = reply.at("/status/conditions");
                let established = |condition: &Value| {
                    condition.get("type") == Some(&json!("Established"))
                        && condition.get("status") == Some(&json!("True"))
                };
                conditions
                    .as_array()
                    .is_some_and(|all| all.iter().any(established))
            })
            .await?;
        world.eventually(&widgets.path, |reply| reply.code == 200).await?;
        Ok(widgets)
    }

    fn definition(&self) -> String {
        format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{}",
            self.group
        )
    }

    fn one(&self, spec: &Value) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group), "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
    }

    async fn end(&self, world: &World) -> Result<()> {
        world.delete(&self.definition()).await?;
        Ok(())
    }
}

fn definition(group: &str) -> Value {
    let spec = json!({
        "type": "object",
        "required": ["size"],
        "x-kubernetes-validations": [{"rule": "self.size >= self.least", "message": "size below least"}],
        "properties": {
            "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9},
            "least": {"type": "integer", "default": 1},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "code": {"type": "string", "pattern": "^[a-z]{2}$"},
            "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]},
            "port": {"x-kubernetes-int-or-string": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "parts": {
                "type": "array", "maxItems": 3, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 7}}},
            },
        },
    });
    let status = json!({"type": "object", "properties": {"phase": {"type": "string"}, "size": {"type": "integer"}, "selector": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"}},
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        ],
    });
    let names = json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    })
}

async fn a_definition_is_established_and_served(world: World) -> Result<()> {
    let widgets = Widgets::new(&world).await?;
    let found = world.get(&format!("/apis/{}/v1", widgets.group)).await?;
    let resources = found.at("/resources").to_string();
    world.so(
        "discovered",
        resources.contains("\"widgets\"") && resources.contains("widgets/status"),
        &found.body,
    )?;
    let made = world
        .post(&widgets.path, &widgets.one(&json!({"size": 2})))
        .await?;
    world.same(
        "made",
        (made.code, made.at("/metadata/generation")),
        (201, json!(1)),
    )?;
    let list = world.get(&widgets.path).await?;
    world.same(
        "listed",
        (list.text("/kind"), list.names()),
        ("WidgetList", vec!["w".to_owned()]),
    )?;
    widgets.end(&world).await
}

async fn a_schema_defaults_prunes_and_refuses(world: World) -> Result<()> {
    let widgets = Widgets::new(&world).await?;
    let spec = json!({"size": 2, "unknown": true, "free": {"any": {"thing": 1}}, "parts": [{"name": "a"}]});
    let made = world.post(&widgets.path, &widgets.one(&spec)).await?;
    world.same("default", made.text("/spec/color"), "red")?;
    world.same("default in a list", made.at("/spec/parts/0/count"), json!(7))?;
    world.so("pruned", made.body.pointer("/spec/unknown").is_none(), &made.body)?;
    world.same("preserved", made.at("/spec/free/any/thing"), json!(1))?;
    for (what, spec) in [
        ("missing", json!({})),
        ("too small", json!({"size": 0})),
        ("too large", json!({"size": 10})),
        ("no integer", json!({"size": "two"})),
        ("not in the enum", json!({"size": 1, "color": "green"})),
        ("no match", json!({"size": 1, "code": "abc"})),
        ("neither int nor string", json!({"size": 1, "port": true})),
        (
            "too many",
            json!({"size": 1, "parts": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}]}),
        ),
        (
            "twice the same key",
            json!({"size": 1, "parts": [{"name": "a"}, {"name": "a"}]}),
        ),
        ("no object", json!(7)),
    ] {
        let mut body = widgets.one(&spec);
        set(&mut body, "/metadata/name", json!("other"));
        let refused = world.post(&widgets.path, &body).await?;
        world.refused(what, &refused, 422, "Invalid")?;
    }
    widgets.end(&world).await
}

async fn strict_validation_names_unknown_fields(world: World) -> Result<()> {
    let widgets = Widgets::new(&world).await?;
    let body = widgets.one(&json!({"size": 2, "unknown": true}));
    let strict = world
        .post(&format!("{}?fieldValidation=Strict", widgets.path), &body)
        .await?;
    world.refused("strict", &strict, 400, "BadRequest")?;
    world.so(
        "named",
        strict.text("/message").contains("spec.unknown"),
        &strict.body,
    )?;
    let map = json!({"metadata": {"name": "m"}, "dta": {}});
    let strict = world
        .post("/api/v1/{ns}/configmaps?fieldValidation=Strict", &map)
        .await?;
    world.refused("of a built-in kind", &strict, 400, "BadRequest")?;
    widgets.end(&world).await
}

async fn rules_are_enforced_also_about_changes(world: World) -> Result<()> {
    let widgets = Widgets::new(&world).await?;
    let below = world
        .post(&widgets.path, &widgets.one(&json!({"size": 1, "least": 3})))
        .await?;
    world.refused("a broken rule", &below, 422, "Invalid")?;
    world.so(
        "its own words",
        below.text("/message").contains("size below least"),
        &below.body,
    )?;
    let made = world
        .post(&widgets.path, &widgets.one(&json!({"size": 3, "fixed": "x"})))
        .await?;
    world.worked("made", made)?;
    let path = format!("{}/w", widgets.path);
    let changed = world
        .patch("merge-patch+json", &path, &json!({"spec": {"fixed": "y"}}))
        .await?;
    world.refused("a transition", &changed, 422, "Invalid")?;
    let other = world
        .patch("merge-patch+json", &path, &json!({"spec": {"size": 4}}))
        .await?;
    world.worked("another field", other)?;
    widgets.end(&world).await
}

async fn the_status_is_apart_from_the_rest(world: World) -> Result<()> {
    let widgets = Widgets::new(&world).await?;
    let mut body = widgets.one(&json!({"size": 2}));
    set(&mut body, "/status", json!({"phase": "Early"}));
    let made = world.post(&widgets.path, &body).await?;
    world.so(
        "no status at first",
        made.body.get("status").is_none(),
        &made.body,
    )?;
    let path = format!("{}/w", widgets.path);
    let patched = world
        .patch("merge-patch+json", &path, &json!({"status": {"phase": "Main"}}))
        .await?;
    world.so(
        "not by the main path",
        patched.body.get("status").is_none(),
        &patched.body,
    )?;
    let both = json!({"status": {"phase": "Ready"}, "spec": {"size": 5}});
    let patched = world
        .patch("merge-patch+json", &format!("{path}/status"), &both)
        .await?;
    world.same("by its own", patched.text("/status/phase"), "Ready")?;
    world.same("which leaves the spec", patched.at("/spec/size"), json!(2))?;
    let read = world.get(&format!("{path}/status")).await?;
    world.same("read", read.text("/status/phase"), "Ready")?;
    let mut put = read.body.clone();
    set(&mut put, "/status/phase", json!("Put"));
    set(&mut put, "/spec/size", json!(7));
    let put = world.put(&format!("{path}/status"), &put).await?;
    world.same(
        "replaced",
        (put.text("/status/phase"), put.at("/spec/size")),
        ("Put", json!(2)),
    )?;
    let gone = world.get("/api/v1/{ns}/configmaps/none/status").await?;
    world.same("a kind without status", gone.code, 404)?;
    widgets.end(&world).await
}

async fn generation_counts_changes_of_the_spec_only(world: World) -> Result<()> {
    let widgets = Widgets::new(&world).await?;
    let path = format!("{}/w", widgets.path);
    world
        .post(&widgets.path, &widgets.one(&json!({"size": 2})))
        .await?;
    let labelled = world
        .patch(
            "merge-patch+json",
            &path,
            &json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/hold"]}}),
        )
        .await?;
    world.same("not by labels", labelled.at("/metadata/generation"), json!(1))?;
    let status = world
        .patch(
            "merge-patch+json",
            &format!("{path}/status"),
            &json!({"status": {"phase": "x"}}),
        )
        .await?;
    world.same("not by status", status.at("/metadata/generation"), json!(1))?;
    let spec = world
        .patch("merge-patch+json", &path, &json!({"spec": {"size": 3}}))
        .await?;
    world.same("by the spec", spec.at("/metadata/generation"), json!(2))?;
    world.delete(&path).await?;
    let deleting = world.get(&path).await?;
    world.same("and by deletion", deleting.at("/metadata/generation"), json!(3))?;
    world
        .patch(
            "merge-patch+json",
            &path,
            &json!({"metadata": {"finalizers": null}}),
        )
        .await?;
    widgets.end(&world).await
}

async fn a_custom_kind_scales(world: World) -> Result<()> {
    let widgets = Widgets::new(&world).await?;
    let path = format!("{}/w", widgets.path);
    world
        .post(&widgets.path, &widgets.one(&json!({"size": 2})))
        .await?;
    let scale = world.get(&format!("{path}/scale")).await?;
    world.same(
        "kind",
        (scale.text("/kind"), scale.text("/apiVersion")),
        ("Scale", "autoscaling/v1"),
    )?;
    world.same("size", scale.at("/spec/replicas"), json!(2))?;
    let scaled = world
        .patch(
            "merge-patch+json",
            &format!("{path}/scale"),
            &json!({"spec": {"replicas": 4}}),
        )
        .await?;
    world.same("scaled", scaled.at("/spec/replicas"), json!(4))?;
    let read = world.get(&path).await?;
    world.same("stored", read.at("/spec/size"), json!(4))?;
    let beyond = world
        .patch(
            "merge-patch+json",
            &format!("{path}/scale"),
            &json!({"spec": {"replicas": 40}}),
        )
        .await?;
    world.refused("beyond the schema", &beyond, 422, "Invalid")?;
    widgets.end(&world).await
}

async fn a_custom_kind_has_its_columns(world: World) -> Result<()> {
    let widgets = Widgets::new(&world).await?;
    world
        .post(&widgets.path, &widgets.one(&json!({"size": 2})))
        .await?;
    let table = world
        .get_as(&widgets.path, "application/json;as=Table;v=v1;g=meta.k8s.io")
        .await?;
    world.same("column", table.text("/columnDefinitions/1/name"), "Size")?;
    world.same("cell", table.at("/rows/0/cells/1"), json!(2))?;
    world.same("nothing there", table.at("/rows/0/cells/2"), json!(null))?;
    widgets.end(&world).await
}

async fn a_custom_kind_is_replaced_only_with_a_version(world: World) -> Result<()> {
    let widgets = Widgets::new(&world).await?;
    let body = widgets.one(&json!({"size": 2}));
    world.post(&widgets.path, &body).await?;
    let put = world.put(&format!("{}/w", widgets.path), &body).await?;
    world.refused("without", &put, 422, "Invalid")?;
    widgets.end(&world).await
}

async fn a_strategic_patch_of_a_custom_kind_is_unsupported(world: World) -> Result<()> {
    let widgets = Widgets::new(&world).await?;
    world
        .post(&widgets.path, &widgets.one(&json!({"size": 2})))
        .await?;
    let patched = world
        .patch(
            "strategic-merge-patch+json",
            &format!("{}/w", widgets.path),
            &json!({"spec": {"size": 3}}),
        )
        .await?;
    world.refused("strategic", &patched, 415, "UnsupportedMediaType")?;
    widgets.end(&world).await
}

async fn custom_lists_are_shared_by_key(world: World) -> Result<()> {
    let widgets = Widgets::new(&world).await?;
    let path = |manager: &str| format!("{}/w?fieldManager={manager}", widgets.path);
    let made = world
        .patch(
            "apply-patch+yaml",
            &path("one"),
            &widgets.one(&json!({"size": 2, "parts": [{"name": "a", "count": 1}]})),
        )
        .await?;
    world.same("made", made.code, 201)?;
    let both = world
        .patch(
            "apply-patch+yaml",
            &path("two"),
            &widgets.one(&json!({"parts": [{"name": "b"}]})),
        )
        .await?;
    world.same("both", both.at("/spec/parts").as_array().map(Vec::len), Some(2))?;
    let clash = world
        .patch(
            "apply-patch+yaml",
            &path("two"),
            &widgets.one(&json!({"parts": [{"name": "a", "count": 2}]})),
        )
        .await?;
    world.refused("the same item", &clash, 409, "Conflict")?;
    let status = |phase: &str| json!({"apiVersion": format!("{}/v1", widgets.group), "kind": "Widget", "metadata": {"name": "w"}, "status": {"phase": phase}});
    let applied = world
        .patch(
            "apply-patch+yaml",
            &format!("{}/w/status?fieldManager=three", widgets.path),
            &status("Ready"),
        )
        .await?;
    world.same(
        "status",
        (applied.code, applied.text("/status/phase")),
        (200, "Ready"),
    )?;
    let again = world
        .patch(
            "apply-patch+yaml",
            &format!("{}/w/status?fieldManager=three", widgets.path),
            &status("Ready"),
        )
        .await?;
    world.same("again", again.version(), applied.version())?;
    widgets.end(&world).await
}

async fn a_bad_definition_is_invalid(world: World) -> Result<()> {
    let group = format!("{}.example.com", world.namespace);
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut named = definition(&group);
    set(&mut named, "/metadata/name", json!("others.example.com"));
    world.refused("another name", &world.post(path, &named).await?, 422, "Invalid")?;
    let mut schemaless = definition(&group);
    set(&mut schemaless, "/spec/versions/0/schema", json!(null));
    world.refused("no schema", &world.post(path, &schemaless).await?, 422, "Invalid")?;
    let mut untyped = definition(&group);
    set(
        &mut untyped,
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color",
        json!({"default": "x"}),
    );
    world.refused(
        "not structural",
        &world.post(path, &untyped).await?,
        422,
        "Invalid",
    )?;
    let mut stored = definition(&group);
    set(&mut stored, "/spec/versions/0/storage", json!(false));
    world.refused(
        "nothing stored",
        &world.post(path, &stored).await?,
        422,
        "Invalid",
    )
}

async fn a_definition_takes_its_objects_with_it(world: World) -> Result<()> {
    let widgets = Widgets::new(&world).await?;
    world
        .post(&widgets.path, &widgets.one(&json!({"size": 2})))
        .await?;
    widgets.end(&world).await?;
    world
        .eventually(&widgets.definition(), |reply| reply.code == 404)
        .await?;
    world.eventually(&widgets.path, |reply| reply.code == 404).await?;
    Ok(())
}
