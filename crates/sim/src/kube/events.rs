//! Events have two faces, `v1` and `events.k8s.io/v1`. The first is stored.

use serde_json::Value;

use super::value::put;

/// New name, old name.
const FIELDS: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn renamed(event: &Value, name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Some(map) = event.as_object() else {
        return event.clone();
    };
    map.iter()
        .map(|(key, value)| (name(key).unwrap_or(key).to_owned(), value.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// As `events.k8s.io/v1` shows it.
pub(crate) fn to_new(event: &Value) -> Value {
    let find = |key: &str| FIELDS.iter().find(|(_, old)| *old == key).map(|(new, _)| *new);
    let mut event = renamed(event, find);
    put(&mut event, &["apiVersion"], "events.k8s.io/v1");
    event
}

/// As `v1` stores it.
pub(crate) fn to_old(event: &Value) -> Value {
    let find = |key: &str| FIELDS.iter().find(|(new, _)| *new == key).map(|(_, old)| *old);
    let mut event = renamed(event, find);
    put(&mut event, &["apiVersion"], "v1");
    event
}
