//! Strategic merge patch: a merge patch that knows which lists are maps.

use serde_json::{Map, Value};

use super::fields::{ListKind, Topology};

/// Merge a patch into an object of a built-in kind.
pub(crate) fn merge(object: &mut Value, patch: &Value) -> Result<(), String> {
    node(object, patch, Topology::BuiltIn(""))
}

fn node(object: &mut Value, patch: &Value, here: Topology<'_>) -> Result<(), String> {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return Ok(());
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(map) = object else { return Ok(()) };
    match patch.get("$patch").and_then(Value::as_str) {
        None | Some("merge") => {}
        Some("replace") => map.clear(),
        Some("delete") => {
            map.clear();
            return Ok(());
        }
        Some(other) => return Err(format!("Unknown patch type: {other}")),
    }
    if let Some(kept) = patch.get("$retainKeys") {
        let kept = kept.as_array().ok_or("$retainKeys must be a list")?;
        map.retain(|key, _| kept.iter().any(|kept| kept.as_str() == Some(key)));
    }
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = value
                .as_array()
                .ok_or("$deleteFromPrimitiveList must be a list")?;
            if let Some(list) = map.get_mut(list).and_then(Value::as_array_mut) {
                list.retain(|item| !gone.contains(item));
            }
        } else if key.starts_with('$') {
            // $setElementOrder only orders; the order of ours is that of arrival.
        } else if value.is_null() {
            map.remove(key);
        } else {
            let place = map.entry(key.clone()).or_insert(Value::Null);
            let below = here.field(key);
            match value {
                Value::Array(items) => list(place, items, below)?,
                other => node(place, other, below)?,
            }
        }
    }
    Ok(())
}

fn list(place: &mut Value, patch: &[Value], here: Topology<'_>) -> Result<(), String> {
    let kind = here.list(patch);
    let replaces = patch
        .iter()
        .any(|item| item.get("$patch").and_then(Value::as_str) == Some("replace"));
    if replaces || !place.is_array() {
        *place = Value::Array(Vec::new());
    }
    let Value::Array(found) = place else { return Ok(()) };
    match kind {
        ListKind::Atomic => {
            *found = patch
                .iter()
                .filter(|item| item.get("$patch").is_none())
                .cloned()
                .collect();
        }
        ListKind::Set => {
            for item in patch {
                if !found.contains(item) {
                    found.push(item.clone());
                }
            }
        }
        ListKind::Map(keys) => {
            // Upstream merges by one key; the others only tell SSA items apart.
            let key = keys.first().cloned().unwrap_or_default();
            for item in patch {
                if item.get("$patch").and_then(Value::as_str) == Some("replace") {
                    continue;
                }
                let id = item
                    .get(&key)
                    .ok_or_else(|| format!("map: {item} does not contain declared merge key: {key}"))?;
                let at = found.iter().position(|found| found.get(&key) == Some(id));
                let deletes = item.get("$patch").and_then(Value::as_str) == Some("delete");
                match at {
                    Some(at) if deletes => {
                        found.remove(at);
                    }
                    Some(at) => {
                        if let Some(old) = found.get_mut(at) {
                            node(old, item, here.item())?;
                        }
                    }
                    None if deletes => {}
                    None => {
                        let mut new = Value::Null;
                        node(&mut new, item, here.item())?;
                        found.push(new);
                    }
                }
            }
        }
    }
    Ok(())
}
