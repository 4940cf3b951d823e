//! Short ways through a JSON tree. Missing is never an error here.

use serde_json::{Map, Value};

/// The text at a JSON pointer; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a JSON pointer.
pub(crate) fn int(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

/// The list at a JSON pointer; empty if there is none.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Set what is at a path, making the maps on the way.
pub(crate) fn put(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    let Some((step, rest)) = path.split_first() else {
        *value = new.into();
        return;
    };
    let mut map = match value.take() {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let mut inner = map.remove(*step).unwrap_or(Value::Null);
    put(&mut inner, rest, new);
    map.insert((*step).to_owned(), inner);
    *value = Value::Object(map);
}

/// Set what is at a path, or take it away.
pub(crate) fn put_or_remove(value: &mut Value, path: &[&str], new: Option<Value>) {
    match new {
        Some(new) => put(value, path, new),
        None => {
            remove(value, path);
        }
    }
}

/// Take away what is at a path.
pub(crate) fn remove(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, before) = path.split_last()?;
    let mut here = value;
    for step in before {
        here = here.as_object_mut()?.get_mut(*step)?;
    }
    here.as_object_mut()?.remove(*last)
}

/// `{}` and `[]` and null say nothing.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// Paths that `before` has and `after` has not: what a server would drop.
pub(crate) fn lost(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                let here = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                match after.get(key) {
                    Some(kept) => lost(value, kept, &here, found),
                    None if value.is_null() => {}
                    None => found.push(here),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (index, (value, kept)) in before.iter().zip(after).enumerate() {
                lost(value, kept, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}
