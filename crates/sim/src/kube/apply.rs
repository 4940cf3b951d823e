//! Server-side apply, and who owns which field.

use std::sync::Arc;

use serde_json::{Value, json};

use super::failure::{Cause, Failure};
use super::fields::{self, Fields, Topology};
use super::request::Answer;
use super::store::{Call, Store, done};
use super::value::{items, put, remove, text};

/// How a manager came to own a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who writes.
#[derive(Clone, Debug)]
pub(crate) struct Manager {
    name: String,
    operation: Operation,
    pub(crate) subresource: Option<String>,
    api_version: String,
    time: String,
}

impl Manager {
    pub(crate) fn of(call: &Call<'_>, operation: Operation, subresource: Option<&str>) -> Self {
        Self {
            name: call.request.manager(),
            operation,
            subresource: subresource.map(str::to_owned),
            api_version: call.info.api_version(&call.resource.version),
            time: call.timestamp(),
        }
    }

    fn is(&self, entry: &Value) -> bool {
        text(entry, "/manager") == self.name
            && text(entry, "/operation") == self.operation.as_str()
            && text(entry, "/subresource") == self.subresource.as_deref().unwrap_or_default()
    }

    fn entry(&self, fields: &Fields) -> Value {
        let mut entry = json!({
            "manager": self.name, "operation": self.operation.as_str(), "apiVersion": self.api_version,
            "time": self.time, "fieldsType": "FieldsV1", "fieldsV1": fields::to_json(fields),
        });
        if let Some(subresource) = &self.subresource {
            put(&mut entry, &["subresource"], subresource.as_str());
        }
        entry
    }
}

/// Entries as they are stored, with their fields read.
fn entries(object: &Value) -> Vec<(Value, Fields)> {
    items(object, "/metadata/managedFields")
        .iter()
        .map(|entry| {
            (
                entry.clone(),
                entry.get("fieldsV1").map(fields::from_json).unwrap_or_default(),
            )
        })
        .collect()
}

/// Write the entries back. The time of an entry changes only with its fields.
fn write_back(object: &mut Value, entries: Vec<(Value, Fields)>, manager: &Manager) {
    let list: Vec<_> = entries
        .into_iter()
        .filter(|(_, fields)| !fields.is_empty())
        .map(|(entry, fields)| {
            let rendered = fields::to_json(&fields);
            if entry.get("fieldsV1") == Some(&rendered) {
                entry
            } else if manager.is(&entry) {
                manager.entry(&fields)
            } else {
                let mut entry = entry;
                put(&mut entry, &["fieldsV1"], rendered);
                entry
            }
        })
        .collect();
    if list.is_empty() {
        remove(object, &["metadata", "managedFields"]);
    } else {
        put(object, &["metadata", "managedFields"], list);
    }
}

/// Note who owns what after a write that was not an apply.
pub(crate) fn track(old: Option<&Value>, new: &mut Value, manager: &Manager, here: &Topology<'_>) {
    let cleared = new
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .is_some_and(|list| list.iter().all(|entry| *entry == json!({})));
    if manager.operation == Operation::Apply {
        return;
    }
    let mut list = match old {
        Some(old) if !cleared => entries(old),
        _ => Vec::new(),
    };
    let (changed, removed): (Fields, Fields) = {
        let before = old.map(|old| fields::leaves(old, *here)).unwrap_or_default();
        let after = fields::leaves(new, *here);
        let changed = after
            .iter()
            .filter(|(path, value)| before.get(*path) != Some(value));
        let removed = before.keys().filter(|path| !after.contains_key(*path));
        (
            changed.map(|(path, _)| path.clone()).collect(),
            removed.cloned().collect(),
        )
    };
    let mut mine = false;
    for (entry, fields) in &mut list {
        fields.retain(|path| !removed.contains(path));
        if manager.is(entry) {
            mine = true;
            fields.extend(changed.iter().cloned());
        } else {
            fields.retain(|path| !changed.contains(path));
        }
    }
    if !mine && !changed.is_empty() {
        list.push((manager.entry(&Fields::new()), changed));
    }
    write_back(new, list, manager);
}

/// Whether a write changed nothing, so that it must not be seen as a change.
pub(crate) fn same(old: &Value, new: &Value) -> bool {
    old == new
}

impl Store {
    /// Which lists are maps, for the kind of this call.
    pub(crate) fn topology<'c>(call: &'c Call<'_>) -> Topology<'c> {
        let version = call.info.version(&call.resource.version);
        match version.and_then(|version| version.schema.as_ref()) {
            Some(schema) => Topology::Schema(schema),
            None if call.info.custom => Topology::Unknown,
            None => Topology::BuiltIn(""),
        }
    }

    /// `PATCH` with an apply configuration.
    pub(crate) fn apply(&mut self, call: &Call<'_>, subresource: Option<&str>) -> Result<Answer, Failure> {
        if call.request.query("fieldManager").unwrap_or_default().is_empty() {
            return Err(Failure::unprocessable(
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ));
        }
        let body = call.request.json()?;
        if text(&body, "/apiVersion").is_empty() || text(&body, "/kind").is_empty() {
            return Err(Failure::bad_request(
                "invalid object type: an apply configuration must say its apiVersion and kind",
            ));
        }
        let mut config = Self::read(call, &body)?;
        if !items(&config, "/metadata/managedFields").is_empty() {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        put(&mut config, &["metadata", "name"], call.name());
        let manager = Manager::of(call, Operation::Apply, subresource);
        let Some(live) = self.objects.get(&call.key()).map(Arc::clone) else {
            return self.apply_new(call, config, &manager);
        };
        let version = remove(&mut config, &["metadata", "resourceVersion"]);
        keep_part(call, &mut config, subresource);
        let (mut merged, list) = merged(call, &live, &config, &manager, &Self::topology(call))?;
        write_back(&mut merged, list, &manager);
        if let Some(version) = version {
            put(&mut merged, &["metadata", "resourceVersion"], version);
        }
        let stored = self.update(call, &live, merged, &manager)?;
        Ok(done(200, call.present(&stored)))
    }

    fn apply_new(
        &mut self,
        call: &Call<'_>,
        mut config: Value,
        manager: &Manager,
    ) -> Result<Answer, Failure> {
        if manager.subresource.is_some() || !text(&config, "/metadata/uid").is_empty() {
            return Err(Failure::not_found(&call.info, call.name()));
        }
        keep_part(call, &mut config, None);
        let owned = fields::leaves(&config, Self::topology(call))
            .into_keys()
            .collect();
        put(
            &mut config,
            &["metadata", "managedFields"],
            json!([manager.entry(&owned)]),
        );
        let created = self.insert(call, config, manager)?;
        Ok(done(201, call.present(&created)))
    }
}

/// Only the part that this path writes.
fn keep_part(call: &Call<'_>, config: &mut Value, subresource: Option<&str>) {
    let has_status = call
        .info
        .version(&call.resource.version)
        .is_some_and(|version| version.status);
    match (subresource, config.as_object_mut()) {
        (Some(_), Some(map)) => {
            map.retain(|key, _| matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
            if let Some(Value::Object(meta)) = map.get_mut("metadata") {
                meta.retain(|key, _| matches!(key.as_str(), "name" | "namespace" | "uid"));
            }
        }
        (None, Some(map)) if has_status => {
            map.remove("status");
        }
        _ => {}
    }
}

type Merged = (Value, Vec<(Value, Fields)>);

/// The live object with the configuration in it, and who owns what then.
fn merged(
    call: &Call<'_>,
    live: &Value,
    config: &Value,
    manager: &Manager,
    here: &Topology<'_>,
) -> Result<Merged, Failure> {
    let mut merged = live.clone();
    fields::overlay(&mut merged, config, *here);
    let applied: Fields = fields::leaves(config, *here).into_keys().collect();
    let taken: Fields = {
        let (before, after) = (fields::leaves(live, *here), fields::leaves(&merged, *here));
        let differs = |path: &&String| before.get(*path) != after.get(*path);
        applied.iter().filter(differs).cloned().collect()
    };
    let mut list = entries(live);
    let force = call.request.flag("force");
    let mut conflicts = Vec::new();
    for (entry, owned) in list.iter_mut().filter(|(entry, _)| !manager.is(entry)) {
        for path in taken.iter().filter(|path| owned.contains(*path)) {
            conflicts.push(Cause {
                reason: "FieldManagerConflict",
                field: fields::readable(path),
                message: format!(
                    "conflict with {:?} using {}",
                    text(entry, "/manager"),
                    text(entry, "/apiVersion")
                ),
            });
        }
        if force {
            owned.retain(|path| !taken.contains(path));
        }
    }
    if !conflicts.is_empty() && !force {
        return Err(Failure::apply_conflict(&conflicts));
    }
    let of_others: Fields = list
        .iter()
        .filter(|(entry, _)| !manager.is(entry))
        .flat_map(|(_, owned)| owned.iter().cloned())
        .collect();
    match list.iter_mut().find(|(entry, _)| manager.is(entry)) {
        Some((_, owned)) => {
            for path in owned
                .iter()
                .filter(|path| !applied.contains(*path) && !of_others.contains(*path))
            {
                fields::erase(&mut merged, path);
            }
            *owned = applied;
        }
        None => list.push((manager.entry(&Fields::new()), applied)),
    }
    Ok((merged, list))
}
