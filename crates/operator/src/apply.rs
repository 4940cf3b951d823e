//! Objects of a cluster: created if missing, replaced by the version that was read if they were built from something
//! else. What is there and not ours is adopted as it is.

use crate::call::{CallError, bounded, optional};
use crate::engine::lease::Permit;
use crate::tap::Tap;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use thiserror::Error;

/// The annotation that says what an object was built from.
pub const APPLIED: &str = "mainstay.dev/applied";

/// An object to be there, as JSON: the small Kubernetes and snapshots speak it too.
#[derive(Clone, Debug, PartialEq)]
pub struct Owned {
    /// `apiVersion`.
    pub version: &'static str,
    /// `kind`.
    pub kind: &'static str,
    /// The object.
    pub object: Value,
}

/// Why an object was not written.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// The call.
    #[error("{kind} `{name}`: {source}")]
    Call {
        /// Of what.
        kind: String,
        /// Which.
        name: String,
        /// Why.
        source: CallError,
    },
    /// Ours to build, and built wrongly.
    #[error("{kind} cannot be built: {source}")]
    Build {
        /// Of what.
        kind: String,
        /// Why.
        source: serde_json::Error,
    },
}

/// Where and how objects are written.
#[derive(Clone, Copy)]
pub struct Desk<'a> {
    /// How Kubernetes is asked.
    pub client: &'a Client,
    /// In which namespace.
    pub namespace: &'a str,
    /// How long a call may take.
    pub patience: Duration,
    /// Told of every call that changes something.
    pub tap: &'a Tap,
    /// The right to act.
    pub permit: &'a Permit,
}

/// What an object as it is has to keep: kind, what is wanted, what is there.
pub type CarryOver = fn(&str, Value, &DynamicObject) -> Value;

impl Desk<'_> {
    /// May something be written now?
    pub fn may_write(&self) -> Result<(), CallError> {
        self.permit
            .check(self.patience)
            .map_err(|refusal| CallError::Refused {
                code: 0,
                message: refusal.to_string(),
            })
    }

    /// Makes sure that the object is there as it is wanted.
    pub async fn apply(&self, owned: Owned, carry_over: CarryOver) -> Result<(), ApplyError> {
        let Owned {
            version,
            kind,
            mut object,
        } = owned;
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let failed = |source| ApplyError::Call {
            kind: kind.to_owned(),
            name: name.clone(),
            source,
        };
        let print = fingerprint(&object);
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.insert("annotations".to_owned(), json!({ APPLIED: print }));
        }
        let api = self.dynamic(version, kind);
        let patience = self.patience;
        let tap = self.tap;
        let found = optional(bounded(patience, api.get(&name)).await).map_err(failed)?;
        let Some(found) = found else {
            self.may_write().map_err(failed)?;
            let parsed = parse(kind, object)?;
            let params = PostParams::default();
            let create = bounded(patience, api.create(&params, &parsed));
            return match tap.around(format!("create {kind}"), create).await {
                Ok(_) | Err(CallError::Conflict(_)) => Ok(()),
                Err(error) => Err(failed(error)),
            };
        };
        if !needs_writing(&found, &print) {
            return Ok(());
        }
        self.may_write().map_err(failed)?;
        let parsed = parse(kind, carry_over(kind, object, &found))?;
        let params = PostParams::default();
        let replace = bounded(patience, api.replace(&name, &params, &parsed));
        match tap.around(format!("replace {kind}"), replace).await {
            // Somebody else writes too: the next turn looks again.
            Ok(_) | Err(CallError::Conflict(_)) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    fn dynamic(&self, version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), self.namespace, &resource)
    }
}

fn parse(kind: &str, object: Value) -> Result<DynamicObject, ApplyError> {
    serde_json::from_value(object).map_err(|source| ApplyError::Build {
        kind: kind.to_owned(),
        source,
    })
}

/// What an object was built from. Not for secrets: only to see a change.
fn fingerprint(object: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    object.to_string().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Only what we made ourselves is changed: an adopted object stays as it is, and no pod is made anew for it.
fn needs_writing(found: &DynamicObject, print: &str) -> bool {
    let applied = found.annotations().get(APPLIED);
    applied.is_some_and(|applied| applied != print)
}

/// Puts a value into an object at a place that is there.
pub(crate) fn set(object: &mut Value, at: &str, field: &str, value: Option<Value>) {
    if let (Some(Value::Object(map)), Some(value)) = (object.pointer_mut(at), value) {
        map.insert(field.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(annotations: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": { "name": "x", "resourceVersion": "7", "annotations": annotations },
        }))
        .unwrap()
    }

    #[test]
    fn only_what_we_made_from_something_else_is_written() {
        assert!(!needs_writing(&found(&json!({})), "now"), "adopted as it is");
        assert!(!needs_writing(&found(&json!({ APPLIED: "now" })), "now"));
        assert!(needs_writing(&found(&json!({ APPLIED: "before" })), "now"));
    }

    #[test]
    fn a_fingerprint_is_of_the_content() {
        let (a, b) = (json!({ "x": 1 }), json!({ "x": 2 }));
        assert_eq!(fingerprint(&a), fingerprint(&a.clone()));
        assert_ne!(fingerprint(&a), fingerprint(&b));
    }
}
