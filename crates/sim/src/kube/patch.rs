//! JSON patch (RFC 6902) and merge patch (RFC 7386).

use serde_json::{Map, Value};

use super::failure::Failure;
use super::kinds::KindInfo;
use super::strategic;
use super::value::text;

/// More operations than a real server takes in one patch.
const MAX_OPERATIONS: usize = 10_000;

/// The object with the patch applied.
pub(crate) fn patched(media: &str, info: &KindInfo, object: &Value, patch: &Value) -> Result<Value, Failure> {
    match media {
        "application/json-patch+json" => json_patch(object, patch),
        "application/merge-patch+json" => {
            if !patch.is_object() {
                return Err(Failure::bad_request("a merge patch must be an object"));
            }
            let mut object = object.clone();
            merge(&mut object, patch);
            Ok(object)
        }
        "application/strategic-merge-patch+json" if info.custom => Err(Failure::unsupported_media(
            "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )),
        "application/strategic-merge-patch+json" => {
            if !patch.is_object() {
                return Err(Failure::bad_request("a strategic merge patch must be an object"));
            }
            let mut object = object.clone();
            strategic::merge(&mut object, patch).map_err(Failure::bad_request)?;
            Ok(object)
        }
        _ => Err(Failure::unsupported_media(
            "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml",
        )),
    }
}

/// RFC 7386: maps are merged, null deletes, everything else replaces.
pub(crate) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(object) = object else { return };
    for (key, value) in patch {
        if value.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

fn json_patch(object: &Value, patch: &Value) -> Result<Value, Failure> {
    let Some(operations) = patch.as_array() else {
        return Err(Failure::bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(Failure::bad_request(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut object = object.clone();
    for operation in operations {
        perform(&mut object, operation)?;
    }
    Ok(object)
}

fn perform(object: &mut Value, operation: &Value) -> Result<(), Failure> {
    let failed = |what: &str| {
        Failure::unprocessable(format!(
            "the server rejected our request due to an error in our request: {what}"
        ))
    };
    let path = operation
        .get("path")
        .and_then(Value::as_str)
        .ok_or_else(|| failed("missing path"))?;
    let value = || {
        operation
            .get("value")
            .cloned()
            .ok_or_else(|| failed("missing value"))
    };
    let from = || {
        let from = text(operation, "/from");
        object
            .pointer(from)
            .cloned()
            .ok_or_else(|| failed("from does not exist"))
    };
    match text(operation, "/op") {
        "test" => {
            // A path that is not there equals null: kube's finalizer relies on it, as the real server does it.
            let found = object.pointer(path).cloned().unwrap_or(Value::Null);
            let wanted = operation.get("value").cloned().unwrap_or(Value::Null);
            (found == wanted)
                .then_some(())
                .ok_or_else(|| failed(&format!("testing value {path} failed")))
        }
        "add" => {
            let value = value()?;
            add(object, path, value).ok_or_else(|| {
                failed(&format!(
                    "add operation does not apply: doc is missing path: {path}"
                ))
            })
        }
        "replace" => {
            let value = value()?;
            replace(object, path, value).ok_or_else(|| {
                failed(&format!(
                    "replace operation does not apply: doc is missing path: {path}"
                ))
            })
        }
        "remove" => take(object, path).map(drop).ok_or_else(|| {
            failed(&format!(
                "remove operation does not apply: doc is missing path: {path}"
            ))
        }),
        "copy" => {
            let value = from()?;
            add(object, path, value).ok_or_else(|| failed("copy operation does not apply"))
        }
        "move" => {
            let value = from()?;
            take(object, text(operation, "/from")).ok_or_else(|| failed("move operation does not apply"))?;
            add(object, path, value).ok_or_else(|| failed("move operation does not apply"))
        }
        other => Err(failed(&format!("Unexpected kind: {other}"))),
    }
}

/// The place that contains what a pointer names, and its last step, decoded.
fn parent<'a>(object: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (before, last) = path.rsplit_once('/')?;
    let parent = object.pointer_mut(before)?;
    Some((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn add(object: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *object = value;
        return Some(());
    }
    match parent(object, path)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
        }
        (Value::Array(list), key) if key == "-" => list.push(value),
        (Value::Array(list), key) => {
            let at: usize = key.parse().ok()?;
            if at > list.len() {
                return None;
            }
            list.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

/// In a map, what is missing is added: so does the real server.
fn replace(object: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *object = value;
        return Some(());
    }
    match parent(object, path)? {
        (Value::Object(map), key) => {
            map.insert(key, value);
        }
        (Value::Array(list), key) => *list.get_mut(key.parse::<usize>().ok()?)? = value,
        _ => return None,
    }
    Some(())
}

fn take(object: &mut Value, path: &str) -> Option<Value> {
    match parent(object, path)? {
        (Value::Object(map), key) => map.remove(&key),
        (Value::Array(list), key) => {
            let at: usize = key.parse().ok()?;
            (at < list.len()).then(|| list.remove(at))
        }
        _ => None,
    }
}
