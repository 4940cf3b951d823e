//! Reading and building objects that are plain JSON.
//!
//! A missing field reads as empty: an object in the store was accepted by the
//! store, and a controller that stops at a strange one would stop for all.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::Kind;
pub(super) use crate::kube::meta::is_deleting;
use crate::kube::value::put;
pub(super) use crate::kube::value::{int as number, items, text};

/// One stored object, and no later one of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Target {
    pub api_version: String,
    pub kind: String,
    /// Empty for what has no namespace.
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl Target {
    /// The object itself.
    pub fn of(object: &Value) -> Self {
        Self {
            api_version: text(object, "/apiVersion").to_owned(),
            kind: text(object, "/kind").to_owned(),
            namespace: namespace_of(object).to_owned(),
            name: name_of(object).to_owned(),
            uid: uid_of(object).to_owned(),
        }
    }
}

/// `metadata.name`.
pub fn name_of(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// `metadata.namespace`, empty for what has none.
pub fn namespace_of(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// `metadata.uid`.
pub fn uid_of(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// The time at a JSON pointer.
pub(super) fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// How Kubernetes writes a time in a status: whole seconds, UTC.
pub(super) fn written(at: Timestamp) -> String {
    format!("{at:.0}")
}

pub(super) fn labels(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/labels").and_then(Value::as_object)
}

/// The owner that is responsible, if there is one.
pub(super) fn controller(object: &Value) -> Option<&Value> {
    items(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))
}

pub(super) fn is_controlled_by(object: &Value, owner: &Value) -> bool {
    controller(object).is_some_and(|reference| text(reference, "/uid") == uid_of(owner))
}

/// A reference that makes `owner` responsible.
pub(super) fn controller_reference(kind: Kind, owner: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// A copy with one value changed; objects on the way are made.
pub(super) fn with(object: &Value, path: &[&str], value: Value) -> Value {
    let mut copy = object.clone();
    set(&mut copy, path, value);
    copy
}

/// Change one value; objects on the way are made.
pub(super) fn set(object: &mut Value, path: &[&str], value: Value) {
    put(object, path, value);
}

/// A number, or a percentage of `whole`.
pub(super) fn share(value: Option<&Value>, whole: i64, round_up: bool) -> Option<i64> {
    let value = value?;
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let exact = percent.checked_mul(whole)?;
    Some(if round_up {
        exact.checked_add(99)? / 100
    } else {
        exact / 100
    })
}

pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == kind)
}

pub(super) fn condition_is(object: &Value, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(condition, "/status") == status)
}

/// The conditions with one of them set; its time moves only with its status.
pub(super) fn with_condition(
    object: &Value,
    now: Timestamp,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
) -> Value {
    let old = condition(object, kind);
    let mut new = old.cloned().unwrap_or_else(|| json!({ "type": kind }));
    if old.is_none_or(|old| text(old, "/status") != status) {
        set(&mut new, &["lastTransitionTime"], written(now).into());
    }
    for (field, value) in [("status", status), ("reason", reason), ("message", message)] {
        set(&mut new, &[field], value.into());
    }
    let mut conditions: Vec<Value> = items(object, "/status/conditions").to_vec();
    match conditions
        .iter_mut()
        .find(|condition| text(condition, "/type") == kind)
    {
        Some(place) => *place = new,
        None => conditions.push(new),
    }
    Value::Array(conditions)
}

/// Whether a pod may serve.
pub fn is_ready(pod: &Value) -> bool {
    text(pod, "/status/phase") == "Running" && condition_is(pod, "Ready", "True")
}

pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Whether a pod was ready for long enough, or when it will have been.
pub(super) fn available(
    pod: &Value,
    min_ready_seconds: i64,
    now: Timestamp,
) -> Result<(), Option<Timestamp>> {
    if !is_ready(pod) || is_deleting(pod) {
        return Err(None);
    }
    if min_ready_seconds == 0 {
        return Ok(());
    }
    let since = condition(pod, "Ready")
        .and_then(|ready| time(ready, "/lastTransitionTime"))
        .ok_or(None)?;
    let at = since
        .checked_add(SignedDuration::from_secs(min_ready_seconds))
        .map_err(|_| None)?;
    if at <= now { Ok(()) } else { Err(Some(at)) }
}

/// A short word for a value: the same for the same value, in the letters that
/// Kubernetes uses for generated names (no vowels, so no words).
pub(super) fn hash(value: &Value, salt: u64) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut state: u64 = 0xcbf2_9ce4_8422_2325 ^ salt;
    for byte in value.to_string().bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // The low bits of this hash mix poorly on short input.
    state ^= state >> 29;
    let mut word = String::new();
    for _ in 0..10 {
        let index = usize::try_from(state % 27).unwrap_or_default();
        word.extend(LETTERS.get(index).map(|letter| char::from(*letter)));
        state /= 27;
    }
    word
}
