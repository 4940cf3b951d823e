//! Whatever a client sends, the store answers with a proper status, and what it
//! refused has changed nothing.

use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use sim::kube::{Answer, ApiRequest, EventType, Kind, Method, NoRules, Store, User};

fn store() -> Store {
    let mut store = Store::new(1, Timestamp::UNIX_EPOCH, Arc::new(NoRules));
    let body = json!({"metadata": {"name": "a", "labels": {"app": "x"}}, "data": {"k": "v"}, "list": [1, {"name": "y"}]});
    ask(
        &mut store,
        Method::Post,
        MAPS,
        &[],
        "application/json",
        &body.to_string(),
    );
    store
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn ask(
    store: &mut Store,
    method: Method,
    path: &str,
    query: &[(&str, &str)],
    media: &str,
    body: &str,
) -> (u16, Value) {
    let request = ApiRequest {
        method,
        path: path.to_owned(),
        query: query
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        content_type: Some(media.to_owned()),
        accept: None,
        user: User::admin(),
        body: body.as_bytes().to_vec(),
    };
    match store.handle(Timestamp::UNIX_EPOCH, &request) {
        Answer::Done { code, body } => (code, body),
        Answer::Watch(_) | Answer::Stream(_) => (200, Value::Null),
    }
}

/// A refusal is a `Status` that says why, and leaves the revision alone.
fn proper(before: u64, store: &Store, code: u16, body: &Value) -> Result<(), TestCaseError> {
    if code >= 400 {
        prop_assert_eq!(&body["kind"], "Status");
        prop_assert_eq!(&body["code"], &json!(code));
        prop_assert!(body["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
        prop_assert!(
            body["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty())
        );
        prop_assert_eq!(store.revision().0, before);
        prop_assert!(code != 500, "{}", body);
    }
    Ok(())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z./~$-]{0,6}".prop_map(Value::from),
    ];
    // Keys that mean something, so that the depths are reached.
    let key = prop_oneof![
        Just("metadata"),
        Just("name"),
        Just("labels"),
        Just("finalizers"),
        Just("ownerReferences"),
        Just("spec"),
        Just("data"),
        Just("status"),
        Just("containers"),
        Just("ports"),
        Just("$patch"),
        Just("managedFields"),
        Just("resourceVersion"),
        Just("uid"),
        Just("op"),
        Just("path"),
        Just("value"),
        Just("from"),
        Just("list"),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_operation() -> impl Strategy<Value = Value> {
    let op = prop_oneof![
        Just("add"),
        Just("remove"),
        Just("replace"),
        Just("test"),
        Just("copy"),
        Just("move"),
        Just("x")
    ];
    let path = prop_oneof![
        Just("/data/k"),
        Just("/data"),
        Just(""),
        Just("/list/0"),
        Just("/list/-"),
        Just("/list/9"),
        Just("/metadata/labels/app"),
        Just("/metadata/finalizers"),
        Just("no-slash"),
        Just("/~1~0"),
        Just("/metadata/name"),
    ];
    (op, path.clone(), path, any_json())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
}

proptest! {
    #[test]
    fn any_path_is_answered(path in "(/(api|apis|v1|v2|apps|namespaces|default|pods|configmaps|a|log|status|openapi|v3|%41|%zz|%|\\PC{0,4})){0,7}", method in 0..5_u8) {
        let mut store = store();
        let method = [Method::Get, Method::Post, Method::Put, Method::Patch, Method::Delete][usize::from(method)];
        let before = store.revision().0;
        let (code, body) = ask(&mut store, method, &path, &[], "application/json", "{}");
        proper(before, &store, code, &body)?;
    }

    #[test]
    fn any_body_is_answered(body in "\\PC{0,30}", object in any_json(), put in any::<bool>()) {
        let mut store = store();
        for body in [body, object.to_string()] {
            let before = store.revision().0;
            let (method, path) = if put { (Method::Put, format!("{MAPS}/a")) } else { (Method::Post, MAPS.to_owned()) };
            let (code, answer) = ask(&mut store, method, &path, &[], "application/json", &body);
            proper(before, &store, code, &answer)?;
        }
    }

    #[test]
    fn any_patch_is_answered_and_what_is_stored_keeps_its_identity(
        operations in prop::collection::vec(any_operation(), 0..4), patch in any_json(), kind in 0..4_u8,
    ) {
        let mut store = store();
        let before = store.revision().0;
        let (media, body) = match kind {
            0 => ("application/json-patch+json", Value::from(operations)),
            1 => ("application/merge-patch+json", patch),
            2 => ("application/strategic-merge-patch+json", patch),
            _ => ("application/apply-patch+yaml", {
                let mut patch = patch;
                if let Some(map) = patch.as_object_mut() {
                    map.insert("apiVersion".to_owned(), json!("v1"));
                    map.insert("kind".to_owned(), json!("ConfigMap"));
                }
                patch
            }),
        };
        let uid = store.get(Kind::CONFIG_MAP, "default", "a").unwrap()["metadata"]["uid"].clone();
        let (code, answer) = ask(&mut store, Method::Patch, &format!("{MAPS}/a"), &[("fieldManager", "m"), ("force", "true")], media, &body.to_string());
        proper(before, &store, code, &answer)?;
        if let Some(left) = store.get(Kind::CONFIG_MAP, "default", "a") {
            prop_assert_eq!(&left["metadata"]["uid"], &uid);
            prop_assert_eq!(&left["metadata"]["name"], "a");
            prop_assert_eq!(&left["metadata"]["namespace"], "default");
        }
    }

    #[test]
    fn any_deletion_is_answered(grace in any::<i64>(), options in any_json(), policy in "Background|Foreground|Orphan|x") {
        let mut store = store();
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
        ask(&mut store, Method::Post, "/api/v1/namespaces/default/pods", &[], "", &pod.to_string());
        let known = json!({"gracePeriodSeconds": grace, "propagationPolicy": policy});
        for body in [options, known] {
            for path in ["/api/v1/namespaces/default/pods/p", "/api/v1/namespaces/default/configmaps/a", "/api/v1/namespaces/default"] {
                let before = store.revision().0;
                let (code, answer) = ask(&mut store, Method::Delete, path, &[], "", &body.to_string());
                proper(before, &store, code, &answer)?;
            }
        }
    }

    #[test]
    fn any_selector_is_answered(labels in "[a-z!=,() .]{0,16}|\\PC{0,8}", fields in "(metadata.name|data.k|x)?(=|==|!=|,)?[a-z,=]{0,5}") {
        let mut store = store();
        let before = store.revision().0;
        let (code, body) = ask(&mut store, Method::Get, MAPS, &[("labelSelector", &labels), ("fieldSelector", &fields)], "", "");
        proper(before, &store, code, &body)?;
        prop_assert!(code == 200 || code == 400);
    }

    #[test]
    fn any_definition_and_any_object_of_it_are_answered(schema in any_json(), object in any_json()) {
        let mut store = store();
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}}});
        let definition = json!({
            "metadata": {"name": "gears.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "gears", "kind": "Gear"}, "versions": [version]},
        });
        let before = store.revision().0;
        let (code, body) = ask(&mut store, Method::Post, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &[], "", &definition.to_string());
        proper(before, &store, code, &body)?;
        let before = store.revision().0;
        let gear = json!({"metadata": {"name": "g"}, "spec": object});
        let (code, body) = ask(&mut store, Method::Post, "/apis/example.com/v1/namespaces/default/gears", &[], "", &gear.to_string());
        proper(before, &store, code, &body)?;
    }

    /// A watch that is polled now and then tells the same story as the state.
    #[test]
    fn a_watch_leads_to_the_same_state_as_a_list(steps in prop::collection::vec((0..4_u8, 0..4_u8), 0..40), poll_every in 1..6_usize) {
        let mut store = store();
        let request = ApiRequest {
            method: Method::Get,
            path: MAPS.to_owned(),
            query: vec![("watch".to_owned(), "true".to_owned()), ("labelSelector".to_owned(), "app=x".to_owned())],
            content_type: None,
            accept: None,
            user: User::admin(),
            body: Vec::new(),
        };
        let Answer::Watch(mut watch) = store.handle(Timestamp::UNIX_EPOCH, &request) else { panic!("no watch") };
        let mut seen = std::collections::BTreeMap::new();
        for (index, (what, which)) in steps.into_iter().enumerate() {
            let (name, path) = (format!("m{which}"), format!("{MAPS}/m{which}"));
            let label = |app: &str| json!({"metadata": {"name": name, "labels": {"app": app}}, "data": {"n": index.to_string()}}).to_string();
            match what {
                0 => ask(&mut store, Method::Post, MAPS, &[], "", &label("x")),
                1 => ask(&mut store, Method::Put, &path, &[], "", &label("x")),
                2 => ask(&mut store, Method::Put, &path, &[], "", &label("y")),
                _ => ask(&mut store, Method::Delete, &path, &[], "", ""),
            };
            if index % poll_every == 0 {
                follow(&store, &mut watch, &mut seen)?;
            }
        }
        follow(&store, &mut watch, &mut seen)?;
        let listed: std::collections::BTreeMap<_, _> = store
            .list(Kind::CONFIG_MAP, Some("default"))
            .into_iter()
            .filter(|map| map["metadata"]["labels"]["app"] == "x")
            .map(|map| (map["metadata"]["name"].to_string(), map.clone()))
            .collect();
        prop_assert_eq!(seen, listed);
    }

    #[test]
    fn the_same_seed_gives_the_same_trace(steps in prop::collection::vec(0..4_u8, 0..30), seed in any::<u64>()) {
        let play = || {
            let mut store = Store::new(seed, Timestamp::UNIX_EPOCH, Arc::new(NoRules));
            let mut trace = String::new();
            for step in &steps {
                let (code, body) = match step {
                    0 => ask(&mut store, Method::Post, MAPS, &[], "", "{\"metadata\":{\"generateName\":\"g-\"}}"),
                    1 => ask(&mut store, Method::Get, MAPS, &[], "", ""),
                    2 => ask(&mut store, Method::Delete, MAPS, &[], "", ""),
                    _ => ask(&mut store, Method::Post, "/api/v1/namespaces", &[], "", "{\"metadata\":{\"generateName\":\"n-\"}}"),
                };
                trace.extend([code.to_string(), body.to_string()]);
            }
            trace
        };
        prop_assert_eq!(play(), play());
    }
}

fn follow(
    store: &Store,
    watch: &mut sim::kube::Watch,
    seen: &mut std::collections::BTreeMap<String, Value>,
) -> Result<(), TestCaseError> {
    for event in store.poll(watch) {
        let name = event
            .object
            .pointer("/metadata/name")
            .cloned()
            .unwrap_or_default()
            .to_string();
        let known = match event.event {
            EventType::Added => seen.insert(name, event.object).is_none(),
            EventType::Modified => seen.insert(name, event.object).is_some(),
            EventType::Deleted => seen.remove(&name).is_some(),
            EventType::Bookmark | EventType::Error => false,
        };
        prop_assert!(known, "an event that does not follow from the one before");
    }
    Ok(())
}
