//! Definitions of custom kinds.

use std::sync::Arc;

use serde_json::{Value, json};

use super::failure::Cause;
use super::kinds::{Column, Kind, KindInfo, Scale, Version};
use super::meta;
use super::store::{Key, Store};
use super::value::{int, items, put, text};

/// Keeps a definition until its last object is gone, as upstream does.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What is wrong with a definition, beyond its types.
pub(crate) fn check(definition: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(definition, "/metadata/name");
    let wanted = format!(
        "{}.{}",
        text(definition, "/spec/names/plural"),
        text(definition, "/spec/group")
    );
    if name != wanted {
        let why = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &json!(name), why));
    }
    for (pointer, field) in [
        ("/spec/group", "spec.group"),
        ("/spec/names/kind", "spec.names.kind"),
        ("/spec/names/plural", "spec.names.plural"),
    ] {
        if text(definition, pointer).is_empty() {
            causes.push(Cause::required(field, ""));
        }
    }
    let scope = text(definition, "/spec/scope");
    if !["Namespaced", "Cluster"].contains(&scope) {
        causes.push(Cause {
            reason: "FieldValueNotSupported",
            field: "spec.scope".to_owned(),
            message: format!("Unsupported value: {scope:?}: supported values: \"Cluster\", \"Namespaced\""),
        });
    }
    let versions = items(definition, "/spec/versions");
    let stored = versions
        .iter()
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)));
    if stored.count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &json!(versions.len()), why));
    }
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
        match version.pointer("/schema/openAPIV3Schema") {
            None => causes.push(Cause::required(path, "schemas are required")),
            Some(schema) if text(schema, "/type") != "object" => {
                causes.push(Cause::invalid(
                    format!("{path}.type"),
                    &json!(text(schema, "/type")),
                    "must be object at the root",
                ));
            }
            Some(schema) => structural(schema, &path, &mut causes),
        }
    }
    causes
}

/// Every field says its type, or says that it needs none.
fn structural(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let free = [
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
    ];
    let untyped = text(schema, "/type").is_empty()
        && !free
            .iter()
            .any(|flag| schema.get(*flag) == Some(&Value::Bool(true)));
    if untyped {
        causes.push(Cause::required(
            format!("{path}.type"),
            "must not be empty for specified object fields",
        ));
    }
    if text(schema, "/type") == "array" && schema.get("items").is_none() {
        causes.push(Cause::required(format!("{path}.items"), "must be specified"));
    }
    for (name, schema) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        structural(schema, &format!("{path}.properties[{name}]"), causes);
    }
    for below in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get(below).filter(|schema| schema.is_object()) {
            structural(schema, &format!("{path}.{below}"), causes);
        }
    }
}

/// `.spec.replicas` as a JSON pointer.
fn pointer(path: &str) -> String {
    path.replace('.', "/")
}

fn texts(value: &Value, at: &str) -> Vec<String> {
    items(value, at)
        .iter()
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

fn version(definition: &Value) -> Version {
    let scale = definition.pointer("/subresources/scale").map(|scale| Scale {
        spec: pointer(text(scale, "/specReplicasPath")),
        status: pointer(text(scale, "/statusReplicasPath")),
        selector: pointer(text(scale, "/labelSelectorPath")),
    });
    let column = |column: &Value| Column {
        name: text(column, "/name").to_owned(),
        format: text(column, "/type").to_owned(),
        path: text(column, "/jsonPath").to_owned(),
        priority: int(column, "/priority").unwrap_or(0),
    };
    Version {
        name: text(definition, "/name").to_owned(),
        served: definition.get("served") == Some(&Value::Bool(true)),
        status: definition.pointer("/subresources/status").is_some(),
        scale,
        schema: definition.pointer("/schema/openAPIV3Schema").cloned(),
        columns: items(definition, "/additionalPrinterColumns")
            .iter()
            .map(column)
            .collect(),
        selectable: items(definition, "/selectableFields")
            .iter()
            .map(|field| text(field, "/jsonPath").to_owned())
            .collect(),
    }
}

fn described(definition: &Value) -> KindInfo {
    let mut versions: Vec<_> = items(definition, "/spec/versions").iter().collect();
    // The stored version first.
    versions.sort_by_key(|version| version.get("storage") != Some(&Value::Bool(true)));
    let kind = text(definition, "/spec/names/kind");
    let singular = match text(definition, "/spec/names/singular") {
        "" => kind.to_lowercase(),
        singular => singular.to_owned(),
    };
    KindInfo {
        group: text(definition, "/spec/group").to_owned(),
        kind: kind.to_owned(),
        plural: text(definition, "/spec/names/plural").to_owned(),
        namespaced: text(definition, "/spec/scope") == "Namespaced",
        singular,
        short: texts(definition, "/spec/names/shortNames"),
        categories: texts(definition, "/spec/names/categories"),
        custom: true,
        generation: true,
        versions: versions.into_iter().map(version).collect(),
        gone: false,
    }
}

impl Store {
    /// Serve what is defined; stop serving what is not.
    pub(crate) fn definition_changed(&mut self, definition: &Arc<Value>, deleted: bool) {
        let info = described(definition);
        if deleted {
            self.kinds.forget(&info.group, &info.plural);
            return;
        }
        let Some(kind) = self.kinds.define(info) else {
            return;
        };
        let key = Key {
            kind: Kind::CUSTOM_RESOURCE_DEFINITION,
            namespace: String::new(),
            name: text(definition, "/metadata/name").to_owned(),
        };
        if meta::is_deleting(definition) {
            let objects: Vec<_> = self
                .range(kind, None)
                .map(|(key, object)| (key.clone(), Arc::clone(object)))
                .collect();
            for (key, object) in objects
                .into_iter()
                .filter(|(_, object)| meta::finalizers(object).is_empty())
            {
                self.commit(key, object.as_ref().clone(), true);
            }
            self.maybe_close_definition(kind);
            return;
        }
        if items(definition, "/status/conditions").is_empty() {
            let mut established = definition.as_ref().clone();
            let at = definition
                .pointer("/metadata/creationTimestamp")
                .cloned()
                .unwrap_or_default();
            let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": at});
            let stored = items(definition, "/spec/versions")
                .iter()
                .find(|version| version.get("storage") == Some(&Value::Bool(true)))
                .map(|version| text(version, "/name").to_owned());
            put(&mut established, &["metadata", "finalizers"], json!([CLEANUP]));
            put(
                &mut established,
                &["status"],
                json!({
                    "conditions": [condition("NamesAccepted", "NoConflicts"), condition("Established", "InitialNamesAccepted")],
                    "acceptedNames": definition.pointer("/spec/names"),
                    "storedVersions": [stored],
                }),
            );
            self.commit(key, established, false);
        }
    }

    /// A definition that is being deleted goes with its last object.
    pub(crate) fn maybe_close_definition(&mut self, kind: Kind) {
        let Some(info) = self.kinds.info(kind).filter(|info| info.custom).cloned() else {
            return;
        };
        let key = Key {
            kind: Kind::CUSTOM_RESOURCE_DEFINITION,
            namespace: String::new(),
            name: info.qualified(),
        };
        let Some(definition) = self.objects.get(&key).filter(|found| meta::is_deleting(found)) else {
            return;
        };
        if self.range(kind, None).next().is_none() {
            let last = definition.as_ref().clone();
            self.commit(key, last, true);
        }
    }
}
