//! Paths of fields, as managers own them; and which lists are maps.
//!
//! A path is one text: its steps, as `fieldsV1` writes them (`f:spec`,
//! `k:{"name":"x"}`, `v:"y"`), joined by a character no step contains.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::value::items;

const JOINT: char = '\u{1f}';

/// Owned paths.
pub(crate) type Fields = BTreeSet<String>;

/// How a list is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// As a whole.
    Atomic,
    /// By value.
    Set,
    /// By these keys.
    Map(Vec<String>),
}

/// What is known about the place where a value stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Topology<'a> {
    /// The field of a built-in kind with this name. A name nearly always means
    /// the same thing everywhere in the API; the exceptions are told apart by
    /// looking at an item.
    BuiltIn(&'a str),
    /// The schema of this value.
    Schema(&'a Value),
    /// Nothing.
    Unknown,
}

impl<'a> Topology<'a> {
    /// Below this field.
    pub(crate) fn field(self, name: &'a str) -> Self {
        match self {
            Self::BuiltIn(_) => Self::BuiltIn(name),
            Self::Schema(schema) => {
                let properties = schema.get("properties").and_then(|all| all.get(name));
                match properties.or_else(|| schema.get("additionalProperties")) {
                    // A schema says nothing of metadata: it is the same everywhere.
                    _ if name == "metadata" => Self::BuiltIn(name),
                    Some(schema) if schema.is_object() => Self::Schema(schema),
                    _ => Self::Unknown,
                }
            }
            Self::Unknown => Self::Unknown,
        }
    }

    /// In an item of this list.
    pub(crate) fn item(self) -> Self {
        match self {
            Self::Schema(schema) => schema.get("items").map_or(Self::Unknown, Self::Schema),
            other => other,
        }
    }

    fn is_atomic_map(self) -> bool {
        match self {
            Self::BuiltIn(name) => matches!(
                name,
                "selector"
                    | "nodeSelector"
                    | "configMapKeyRef"
                    | "secretKeyRef"
                    | "fieldRef"
                    | "resourceFieldRef"
            ),
            Self::Schema(schema) => {
                schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic")
            }
            Self::Unknown => false,
        }
    }

    /// How this list is merged.
    pub(crate) fn list(self, list: &[Value]) -> ListKind {
        match self {
            Self::BuiltIn(name) => built_in_list(name, list),
            Self::Schema(schema) => match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
                Some("set") => ListKind::Set,
                Some("map") => {
                    let keys = items(schema, "/x-kubernetes-list-map-keys");
                    ListKind::Map(
                        keys.iter()
                            .filter_map(|key| key.as_str().map(str::to_owned))
                            .collect(),
                    )
                }
                _ => ListKind::Atomic,
            },
            Self::Unknown => ListKind::Atomic,
        }
    }
}

fn built_in_list(name: &str, list: &[Value]) -> ListKind {
    let of_objects = list.iter().all(Value::is_object);
    let keys: &[&str] = match name {
        "finalizers" => return ListKind::Set,
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "secrets" => &["name"],
        "ports" if list.iter().any(|port| port.get("containerPort").is_some()) => {
            &["containerPort", "protocol"]
        }
        "ports" => &["port", "protocol"],
        "volumeMounts" => &["mountPath"],
        "volumeDevices" => &["devicePath"],
        "conditions" => &["type"],
        "ownerReferences" => &["uid"],
        "hostAliases" | "podIPs" => &["ip"],
        "taints" => &["key", "effect"],
        "topologySpreadConstraints" => &["topologyKey", "whenUnsatisfiable"],
        _ => return ListKind::Atomic,
    };
    if of_objects {
        ListKind::Map(keys.iter().map(|key| (*key).to_owned()).collect())
    } else {
        ListKind::Atomic
    }
}

/// The step that names an item of a list that is a map.
fn key_step(item: &Value, keys: &[String]) -> String {
    let mut named = Map::new();
    for key in keys {
        let value = item.get(key).cloned();
        let value = value.or_else(|| (key == "protocol").then(|| json!("TCP")));
        named.insert(key.clone(), value.unwrap_or(Value::Null));
    }
    format!("k:{}", Value::Object(named))
}

/// Every leaf of a value with its path. An item of a list that is a map is a
/// leaf too: somebody owns that it is there.
pub(crate) fn leaves<'a>(value: &'a Value, here: Topology<'a>) -> BTreeMap<String, &'a Value> {
    let mut found = BTreeMap::new();
    collect(value, here, &mut String::new(), &mut found);
    found
}

fn collect<'a>(
    value: &'a Value,
    here: Topology<'a>,
    path: &mut String,
    found: &mut BTreeMap<String, &'a Value>,
) {
    let below = |step: &str, path: &mut String| {
        let length = path.len();
        if !path.is_empty() {
            path.push(JOINT);
        }
        path.push_str(step);
        length
    };
    match value {
        Value::Object(map) if !map.is_empty() && !here.is_atomic_map() => {
            for (key, value) in map {
                let length = below(&format!("f:{key}"), path);
                if !is_servers(path) {
                    collect(value, here.field(key), path, found);
                }
                path.truncate(length);
            }
        }
        Value::Array(list) => match here.list(list) {
            ListKind::Atomic => {
                found.insert(path.clone(), value);
            }
            ListKind::Set => {
                for item in list {
                    let length = below(&format!("v:{item}"), path);
                    found.insert(path.clone(), item);
                    path.truncate(length);
                }
            }
            ListKind::Map(keys) => {
                for item in list {
                    let length = below(&key_step(item, &keys), path);
                    found.insert(path.clone(), &Value::Null);
                    collect(item, here.item(), path, found);
                    path.truncate(length);
                }
            }
        },
        _ => {
            found.insert(path.clone(), value);
        }
    }
}

/// What nobody owns.
fn is_servers(path: &str) -> bool {
    if path == "f:apiVersion" || path == "f:kind" {
        return true;
    }
    path.strip_prefix("f:metadata")
        .and_then(|rest| rest.strip_prefix(JOINT))
        .is_some_and(|field| {
            matches!(
                field,
                "f:name"
                    | "f:namespace"
                    | "f:uid"
                    | "f:resourceVersion"
                    | "f:generation"
                    | "f:creationTimestamp"
                    | "f:deletionTimestamp"
                    | "f:deletionGracePeriodSeconds"
                    | "f:selfLink"
                    | "f:managedFields"
            )
        })
}

/// Put one value over another, where lists that are maps are merged by key.
pub(crate) fn overlay(value: &mut Value, config: &Value, here: Topology<'_>) {
    match (value, config) {
        (Value::Object(map), Value::Object(config)) if !here.is_atomic_map() => {
            for (key, wanted) in config {
                match map.get_mut(key) {
                    Some(found) => overlay(found, wanted, here.field(key)),
                    None => {
                        map.insert(key.clone(), wanted.clone());
                    }
                }
            }
        }
        (Value::Array(list), Value::Array(config)) => match here.list(config) {
            ListKind::Atomic => list.clone_from(config),
            ListKind::Set => {
                for wanted in config {
                    if !list.contains(wanted) {
                        list.push(wanted.clone());
                    }
                }
            }
            ListKind::Map(keys) => {
                for wanted in config {
                    let key = key_step(wanted, &keys);
                    match list.iter_mut().find(|item| key_step(item, &keys) == key) {
                        Some(found) => overlay(found, wanted, here.item()),
                        None => list.push(wanted.clone()),
                    }
                }
            }
        },
        (value, config) => *value = config.clone(),
    }
}

/// Take a path away, and every map and list that is empty because of it.
pub(crate) fn erase(value: &mut Value, path: &str) {
    let (step, rest) = match path.split_once(JOINT) {
        Some((step, rest)) => (step, Some(rest)),
        None => (path, None),
    };
    match value {
        Value::Object(map) => {
            let Some(name) = step.strip_prefix("f:") else {
                return;
            };
            if let (Some(rest), Some(inner)) = (rest, map.get_mut(name)) {
                erase(inner, rest);
                if !super::value::is_empty(inner) {
                    return;
                }
            }
            map.remove(name);
        }
        Value::Array(list) => {
            let at = list.iter().position(|item| is_named(item, step));
            let Some(at) = at else { return };
            match (rest, list.get_mut(at)) {
                (Some(rest), Some(inner)) => erase(inner, rest),
                _ => {
                    list.remove(at);
                }
            }
        }
        _ => {}
    }
}

fn is_named(item: &Value, step: &str) -> bool {
    if let Some(value) = step.strip_prefix("v:") {
        return serde_json::from_str(value).is_ok_and(|value: Value| *item == value);
    }
    let keys: Option<Map<String, Value>> = step
        .strip_prefix("k:")
        .and_then(|keys| serde_json::from_str(keys).ok());
    keys.is_some_and(|keys| {
        let names: Vec<_> = keys.keys().cloned().collect();
        key_step(item, &names) == step
    })
}

/// As `fieldsV1` nests it.
pub(crate) fn to_json(fields: &Fields) -> Value {
    let mut root = Map::new();
    for path in fields {
        nest(&mut root, path);
    }
    tidy(&mut root);
    Value::Object(root)
}

fn nest(map: &mut Map<String, Value>, path: &str) {
    let (step, rest) = path.split_once(JOINT).unwrap_or((path, ""));
    if let Value::Object(inner) = map.entry(step).or_insert_with(|| json!({})) {
        if rest.is_empty() {
            inner.insert(".".to_owned(), json!({}));
        } else {
            nest(inner, rest);
        }
    }
}

/// A path that ends where nothing follows is written `{}`, without the dot.
fn tidy(map: &mut Map<String, Value>) {
    for inner in map.values_mut() {
        if let Value::Object(inner) = inner {
            if inner.len() == 1 && inner.contains_key(".") {
                inner.clear();
            } else {
                tidy(inner);
            }
        }
    }
}

/// The paths that `fieldsV1` nests.
pub(crate) fn from_json(value: &Value) -> Fields {
    fn walk(value: &Value, path: &str, found: &mut Fields) {
        let Some(map) = value.as_object() else { return };
        if map.is_empty() && !path.is_empty() {
            found.insert(path.to_owned());
        }
        for (step, inner) in map {
            if step == "." {
                found.insert(path.to_owned());
            } else if path.is_empty() {
                walk(inner, step, found);
            } else {
                walk(inner, &format!("{path}{JOINT}{step}"), found);
            }
        }
    }
    let mut found = Fields::new();
    walk(value, "", &mut found);
    found
}

/// For people: `.spec.containers[name="x"].image`.
pub(crate) fn readable(path: &str) -> String {
    let mut text = String::new();
    for step in path.split(JOINT) {
        match step.split_at_checked(2) {
            Some(("f:", name)) => {
                text.push('.');
                text.push_str(name);
            }
            Some(("k:", keys)) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let keys: Vec<_> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                text.extend(["[", &keys.join(","), "]"]);
            }
            Some((_, value)) => text.extend(["[=", value, "]"]),
            None => {}
        }
    }
    text
}
