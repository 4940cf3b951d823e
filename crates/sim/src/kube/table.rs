//! The forms in which objects are shown: whole, metadata only, or as the rows
//! that `kubectl get` prints.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::KindInfo;
use super::request::ApiRequest;
use super::store::Call;
use super::value::{int, items, text};

/// What the client asked for in `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Partial,
    Table,
}

impl Form {
    pub(crate) fn of(request: &ApiRequest) -> Self {
        let accept = request.accept.as_deref().unwrap_or_default();
        let first = accept.split(',').next().unwrap_or_default();
        if first.contains("as=Table") {
            Self::Table
        } else if first.contains("as=PartialObjectMetadata") {
            Self::Partial
        } else {
            Self::Whole
        }
    }
}

/// One object as a call wants it.
pub(crate) fn shown(call: &Call<'_>, object: &Value) -> Value {
    one(
        Form::of(call.request),
        &call.info,
        &call.resource.version,
        object,
        call.now,
    )
}

/// One object in a form.
pub(crate) fn one(form: Form, info: &KindInfo, version: &str, object: &Value, now: Timestamp) -> Value {
    match form {
        Form::Whole => object.clone(),
        Form::Partial => partial(object),
        Form::Table => {
            let meta = json!({"resourceVersion": object.pointer("/metadata/resourceVersion")});
            table(info, version, std::slice::from_ref(object), &meta, now)
        }
    }
}

/// A list in a form.
pub(crate) fn many(
    form: Form,
    info: &KindInfo,
    version: &str,
    objects: &[Value],
    meta: &Value,
    now: Timestamp,
) -> Value {
    match form {
        Form::Whole => {
            let group_version = objects.first().map_or_else(
                || info.api_version(version),
                |first| text(first, "/apiVersion").to_owned(),
            );
            json!({"kind": format!("{}List", info.kind), "apiVersion": group_version, "metadata": meta, "items": objects})
        }
        Form::Partial => {
            let items: Vec<_> = objects.iter().map(partial).collect();
            json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "items": items})
        }
        Form::Table => table(info, version, objects, meta, now),
    }
}

fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object.get("metadata")})
}

/// Header, and how to fill the cell. Lower case means: only with `-o wide`.
type Cells = &'static [(&'static str, fn(&Value, Timestamp) -> String)];

#[allow(clippy::too_many_lines, reason = "a table, one row for each column")]
fn built_in(kind: &str) -> Cells {
    match kind {
        "Pod" => &[
            ("Ready", |pod, _| {
                let all = items(pod, "/spec/containers").len();
                let ready = items(pod, "/status/containerStatuses")
                    .iter()
                    .filter(|status| status.get("ready") == Some(&Value::Bool(true)));
                format!("{}/{all}", ready.count())
            }),
            ("Status", |pod, _| pod_status(pod)),
            ("Restarts", |pod, _| {
                let all = items(pod, "/status/containerStatuses").iter();
                all.filter_map(|status| int(status, "/restartCount"))
                    .sum::<i64>()
                    .to_string()
            }),
            ("Age", age),
            ("ip", |pod, _| or_none(text(pod, "/status/podIP"))),
            ("node", |pod, _| or_none(text(pod, "/spec/nodeName"))),
        ],
        "StatefulSet" => &[("Ready", ready), ("Age", age), ("images", images)],
        "Deployment" => &[
            ("Ready", ready),
            ("Up-to-date", |object, _| {
                number(object, "/status/updatedReplicas")
            }),
            ("Available", |object, _| {
                number(object, "/status/availableReplicas")
            }),
            ("Age", age),
            ("images", images),
        ],
        "ReplicaSet" => &[
            ("Desired", |object, _| number(object, "/spec/replicas")),
            ("Current", |object, _| number(object, "/status/replicas")),
            ("Ready", |object, _| number(object, "/status/readyReplicas")),
            ("Age", age),
        ],
        "Service" => &[
            ("Type", |object, _| text(object, "/spec/type").to_owned()),
            ("Cluster-IP", |object, _| or_none(text(object, "/spec/clusterIP"))),
            ("External-IP", |_, _| "<none>".to_owned()),
            ("Port(s)", |object, _| {
                let port = |port: &Value| format!("{}/{}", number(port, "/port"), text(port, "/protocol"));
                items(object, "/spec/ports")
                    .iter()
                    .map(port)
                    .collect::<Vec<_>>()
                    .join(",")
            }),
            ("Age", age),
        ],
        "ConfigMap" => &[("Data", data), ("Age", age)],
        "Secret" => &[
            ("Type", |object, _| text(object, "/type").to_owned()),
            ("Data", data),
            ("Age", age),
        ],
        "PersistentVolumeClaim" => &[
            ("Status", phase),
            ("Volume", |object, _| text(object, "/spec/volumeName").to_owned()),
            ("Capacity", |object, _| {
                text(object, "/status/capacity/storage").to_owned()
            }),
            ("StorageClass", |object, _| {
                text(object, "/spec/storageClassName").to_owned()
            }),
            ("Age", age),
        ],
        "Node" => &[
            ("Status", |node, _| {
                let ready = if condition(node, "Ready") == "True" {
                    "Ready"
                } else {
                    "NotReady"
                };
                let cordoned = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
                if cordoned {
                    format!("{ready},SchedulingDisabled")
                } else {
                    ready.to_owned()
                }
            }),
            ("Age", age),
            ("Version", |node, _| {
                text(node, "/status/nodeInfo/kubeletVersion").to_owned()
            }),
        ],
        "Namespace" | "PersistentVolume" => &[("Status", phase), ("Age", age)],
        "Event" => &[
            ("Last Seen", |event, now| {
                let times = [
                    "/lastTimestamp",
                    "/deprecatedLastTimestamp",
                    "/series/lastObservedTime",
                    "/eventTime",
                ];
                let seen = times
                    .iter()
                    .map(|at| text(event, at))
                    .find(|time| !time.is_empty());
                since(seen.unwrap_or_default(), now)
            }),
            ("Type", |event, _| text(event, "/type").to_owned()),
            ("Reason", |event, _| text(event, "/reason").to_owned()),
            ("Object", |event, _| {
                let of = if event.get("regarding").is_some() {
                    "regarding"
                } else {
                    "involvedObject"
                };
                let kind = text(event, &format!("/{of}/kind")).to_lowercase();
                format!("{kind}/{}", text(event, &format!("/{of}/name")))
            }),
            ("Message", |event, _| {
                let note = text(event, "/note");
                if note.is_empty() {
                    text(event, "/message")
                } else {
                    note
                }
                .trim()
                .to_owned()
            }),
        ],
        "Lease" => &[
            ("Holder", |lease, _| {
                text(lease, "/spec/holderIdentity").to_owned()
            }),
            ("Age", age),
        ],
        "PodDisruptionBudget" => &[
            ("Min Available", |object, _| bound(object, "/spec/minAvailable")),
            ("Max Unavailable", |object, _| {
                bound(object, "/spec/maxUnavailable")
            }),
            ("Allowed Disruptions", |object, _| {
                number(object, "/status/disruptionsAllowed")
            }),
            ("Age", age),
        ],
        "CustomResourceDefinition" => &[("Created At", |object, _| {
            text(object, "/metadata/creationTimestamp").to_owned()
        })],
        _ => &[("Age", age)],
    }
}

fn or_none(text: &str) -> String {
    if text.is_empty() {
        "<none>".to_owned()
    } else {
        text.to_owned()
    }
}

fn number(object: &Value, at: &str) -> String {
    int(object, at).unwrap_or(0).to_string()
}

fn bound(object: &Value, at: &str) -> String {
    match object.pointer(at) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "N/A".to_owned(),
    }
}

fn ready(object: &Value, _: Timestamp) -> String {
    format!(
        "{}/{}",
        number(object, "/status/readyReplicas"),
        number(object, "/spec/replicas")
    )
}

fn images(object: &Value, _: Timestamp) -> String {
    let all = items(object, "/spec/template/spec/containers").iter();
    all.map(|container| text(container, "/image"))
        .collect::<Vec<_>>()
        .join(",")
}

fn data(object: &Value, _: Timestamp) -> String {
    let count = |field: &str| {
        object
            .get(field)
            .and_then(Value::as_object)
            .map_or(0, serde_json::Map::len)
    };
    (count("data") + count("binaryData")).to_string()
}

fn phase(object: &Value, _: Timestamp) -> String {
    text(object, "/status/phase").to_owned()
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    items(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == kind)
        .map_or("", |condition| text(condition, "/status"))
}

fn pod_status(pod: &Value) -> String {
    if super::meta::is_deleting(pod) {
        return "Terminating".to_owned();
    }
    let waiting = items(pod, "/status/containerStatuses").iter().find_map(|status| {
        let of = |at: &str| Some(text(status, at)).filter(|reason| !reason.is_empty());
        of("/state/waiting/reason").or_else(|| of("/state/terminated/reason"))
    });
    let reason = text(pod, "/status/reason");
    let otherwise = if reason.is_empty() {
        text(pod, "/status/phase")
    } else {
        reason
    };
    waiting.unwrap_or(otherwise).to_owned()
}

fn age(object: &Value, now: Timestamp) -> String {
    since(text(object, "/metadata/creationTimestamp"), now)
}

/// How long ago, as `kubectl` writes it: two units at most, coarser with age.
fn since(time: &str, now: Timestamp) -> String {
    let Ok(time) = time.parse::<Timestamp>() else {
        return "<unknown>".to_owned();
    };
    let seconds = now.duration_since(time).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 == 0 => format!("{minutes}m"),
        120..600 => format!("{minutes}m{}s", seconds % 60),
        600..10800 => format!("{minutes}m"),
        10800..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

fn table(info: &KindInfo, version: &str, objects: &[Value], meta: &Value, now: Timestamp) -> Value {
    let custom = info
        .version(version)
        .map(|version| version.columns.as_slice())
        .unwrap_or_default();
    let column = |name: &str, format: &str, priority: i64| json!({"name": name, "type": "string", "format": format, "description": "", "priority": priority});
    let mut columns = vec![column("Name", "name", 0)];
    let mut rows: Vec<Vec<Value>> = objects
        .iter()
        .map(|object| vec![json!(text(object, "/metadata/name"))])
        .collect();
    let mut add = |header: Value, cell: &dyn Fn(&Value) -> Value| {
        columns.push(header);
        for (row, object) in rows.iter_mut().zip(objects) {
            row.push(cell(object));
        }
    };
    for own in custom {
        let mut header = column(&own.name, "", own.priority);
        super::value::put(&mut header, &["type"], own.format.as_str());
        add(header, &|object| custom_cell(object, &own.path, &own.format, now));
    }
    if custom.is_empty() {
        for (name, cell) in built_in(if info.custom { "" } else { &info.kind }) {
            let wide = i64::from(name.starts_with(|c: char| c.is_lowercase()));
            add(column(name, "", wide), &|object| json!(cell(object, now)));
        }
    }
    let rows: Vec<_> = rows
        .into_iter()
        .zip(objects)
        .map(|(cells, object)| json!({"cells": cells, "object": partial(object)}))
        .collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "columnDefinitions": columns, "rows": rows})
}

fn custom_cell(object: &Value, path: &str, format: &str, now: Timestamp) -> Value {
    match (find(object, path), format) {
        (None, _) => Value::Null,
        (Some(Value::String(time)), "date") => json!(since(time, now)),
        (
            Some(found @ (Value::String(_) | Value::Number(_) | Value::Bool(_))),
            "integer" | "number" | "boolean",
        ) => found.clone(),
        (Some(Value::String(text)), _) => json!(text),
        (Some(other), _) => json!(other.to_string()),
    }
}

/// The part of JSONPath that printer columns use: `.a.b`, `[0]`,
/// `[?(@.type=="Ready")]`, `['key']`, `\.` in a key.
fn find<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut here = object;
    let mut rest = path.trim_start_matches('.');
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (step, after) = inside.split_once(']')?;
            rest = after.trim_start_matches('.');
            here = if let Some(filter) = step
                .strip_prefix("?(@.")
                .and_then(|filter| filter.strip_suffix(')'))
            {
                let (key, wanted) = filter.split_once("==")?;
                let wanted = wanted.trim().trim_matches(|quote| quote == '"' || quote == '\'');
                here.as_array()?
                    .iter()
                    .find(|item| text(item, &format!("/{}", key.trim())) == wanted)?
            } else if let Ok(index) = step.parse::<usize>() {
                here.get(index)?
            } else {
                here.get(step.trim_matches(|quote| quote == '"' || quote == '\''))?
            };
            continue;
        }
        let mut key = String::new();
        let mut characters = rest.char_indices();
        rest = loop {
            match characters.next() {
                None => break "",
                Some((_, '\\')) => key.extend(characters.next().map(|(_, c)| c)),
                Some((at, '.')) => break rest.get(at + 1..)?,
                Some((at, '[')) => break rest.get(at..)?,
                Some((_, c)) => key.push(c),
            }
        };
        here = here.get(&key)?;
    }
    Some(here)
}
