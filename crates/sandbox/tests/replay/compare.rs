//! What a stand-in answered, in the form of a recording, and how the two differ.

use bolt::message::Failure;
use bolt::packstream::{Structure, Value};
use sandbox::standin::memgraph::client::{Outcome, Table};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// UUIDs that were seen, ours and the recorded: the same one must always mean the same one.
#[derive(Debug, Default)]
pub(super) struct Uuids {
    recorded: BTreeMap<String, String>,
    /// Whether a ping may have healed what was `invalid`.
    pub(super) soon: bool,
}

pub(super) fn refused(failure: &Failure<'_>, on: &str) -> Json {
    json!({ "code": failure.code, "message": failure.message, "on": on })
}

/// An answer in the form of a recording.
pub(super) fn seen(query: &str, outcome: &Outcome) -> Json {
    match outcome {
        Outcome::Refused { failure, on } => refused(failure, on),
        Outcome::Done(Table {
            columns,
            rows,
            summary,
        }) => {
            let mut out = Map::new();
            out.insert("columns".to_owned(), json!(columns));
            out.insert("rows".to_owned(), Json::Array(all_rows(query, columns, rows)));
            out.insert(
                "type".to_owned(),
                summary.get("type").map_or(Json::Null, |kind| json(kind)),
            );
            if let Some(stats) = summary.get("stats").and_then(Value::as_dict) {
                let stats: Map<String, Json> = stats
                    .iter()
                    .filter(|(_, count)| count.as_int() != Some(0))
                    .map(|(key, count)| (key.to_string(), json(count)))
                    .collect();
                out.insert("stats".to_owned(), Json::Object(stats));
            }
            if let Some(notes) = summary.get("notifications").and_then(Value::as_list) {
                out.insert("notes".to_owned(), notes.iter().map(note).collect());
            }
            Json::Object(out)
        }
    }
}

fn note(note: &Value<'_>) -> Json {
    let text = |key: &str| {
        note.as_dict()
            .and_then(|note| note.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    Json::String(format!(
        "{} {}: {}",
        text("severity"),
        text("code"),
        text("title")
    ))
}

fn all_rows(query: &str, columns: &[String], rows: &[Vec<Value<'static>>]) -> Vec<Json> {
    if query.starts_with("SHOW CONFIG") {
        return Vec::new();
    }
    if columns.first().is_some_and(|column| column == "path") && columns.len() == 4 {
        return rows
            .iter()
            .map(|_| json!(["<path>", "<ts>", "<time>", "<size>"]))
            .collect();
    }
    rows.iter()
        .map(|row| Json::Array(row.iter().map(json).collect()))
        .collect()
}

/// A value without clocks and sizes.
fn json(value: &Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Int(value) => json!(value),
        Value::Float(value) => json!(value),
        Value::Bytes(bytes) => json!(bytes.as_ref()),
        Value::String(text) => Json::String(plain(text)),
        Value::List(values) => Json::Array(values.iter().map(json).collect()),
        Value::Dict(entries) if entries.contains_key("behind") && entries.contains_key("ts") => {
            let behind = entries.get("behind").and_then(Value::as_int).unwrap_or(0);
            json!({
                "behind": behind.signum(),
                "status": entries.get("status").map_or(Json::Null, json),
            })
        }
        Value::Dict(entries) => Json::Object(
            entries
                .iter()
                .map(|(key, value)| (key.to_string(), json(value)))
                .collect(),
        ),
        Value::Structure(structure) => match structure.as_ref() {
            Structure::Node(node) => json!({ "labels": node.labels }),
            other => Json::String(format!("{other:?}")),
        },
    }
}

fn plain(text: &str) -> String {
    let size = |unit: &str| {
        text.strip_suffix(unit).is_some_and(|number| {
            !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.')
        })
    };
    if ["KiB", "MiB", "GiB", "B"].into_iter().any(size) || text == "unlimited" {
        "<size>".to_owned()
    } else if text.len() == 36 && text.bytes().filter(|byte| *byte == b'-').count() == 4 {
        format!("<uuid:{text}>")
    } else if text.contains("/snapshots/") {
        "<path>".to_owned()
    } else {
        text.to_owned()
    }
}

/// How what was seen differs from what was recorded; nothing if it does not.
pub(super) fn difference(uuids: &mut Uuids, recorded: &Json, seen: &Json) -> Option<String> {
    if storage(uuids, recorded, seen).unwrap_or_else(|| same(uuids, recorded, seen)) {
        None
    } else {
        Some(format!("recorded {recorded}\n          seen     {seen}"))
    }
}

fn same(uuids: &mut Uuids, recorded: &Json, seen: &Json) -> bool {
    match (recorded, seen) {
        (Json::String(a), Json::String(b)) if a.starts_with("<uuid:") && b.starts_with("<uuid:") => {
            uuids.recorded.entry(a.clone()).or_insert_with(|| b.clone()) == b
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_row(uuids, a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(uuids, a, b)))
        }
        _ => recorded == seen,
    }
}

/// The recorder kept only some rows of storage info: those must be there.
fn storage(uuids: &mut Uuids, recorded: &Json, seen: &Json) -> Option<bool> {
    let of = |answer: &Json| {
        let storage = answer.pointer("/columns/0")? == "storage info";
        storage.then(|| answer.get("rows")?.as_array().cloned())?
    };
    let (recorded, seen) = (of(recorded)?, of(seen)?);
    Some(recorded.iter().all(|row| {
        seen.iter()
            .any(|other| row.get(0) == other.get(0) && same(uuids, row, other))
    }))
}

/// A row of `SHOW REPLICAS` about an ASYNC replica: a status that a server only
/// passes through may be over, or not have begun, when somebody else looks.
fn same_row(uuids: &mut Uuids, recorded: &Json, seen: &Json) -> bool {
    if let (Json::Array(a), Json::Array(b)) = (recorded, seen)
        && let [name_a, address_a, mode_a, _, info_a] = a.as_slice()
        && let [name_b, address_b, mode_b, _, info_b] = b.as_slice()
        && (name_a, address_a, mode_a) == (name_b, address_b, mode_b)
    {
        if uuids.soon && status(info_a) == Some("invalid") && status(info_b) == Some("ready") {
            return true;
        }
        let passed = passing(info_a) && (passing(info_b) || status(info_b) == Some("ready"));
        if mode_a == "async" && passed {
            return true;
        }
        // A recovery of a few writes is over before one can look.
        // One that never succeeds is `invalid` between two attempts.
        if status(info_a) == Some("recovery") && matches!(status(info_b), Some("ready" | "invalid")) {
            return true;
        }
    }
    same(uuids, recorded, seen)
}

fn status(info: &Json) -> Option<&str> {
    info.get("memgraph")?.get("status")?.as_str()
}

fn passing(info: &Json) -> bool {
    matches!(status(info), Some("replicating" | "recovery" | "invalid"))
}
