//! Writing the objects: created if missing, replaced by the version that was read if they were built from
//! something else. What is there and not ours is adopted as it is.

use super::APPLIED;
use super::build::{Owned, objects};
use crate::call::{CallError, bounded, optional};
use crate::clock::draw;
use crate::engine::lease::Permit;
use crate::memgraph::cluster::Cluster;
use api::MemgraphCluster;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use mainstay_core::memgraph::objects::CLUSTER_LABEL;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use thiserror::Error;

/// The key of the push token.
const TOKEN: &str = "token";

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

/// Makes sure that every object is there. The token that gateways and helpers know.
pub async fn ensure(
    cluster: &Cluster,
    object: &MemgraphCluster,
    permit: &Permit,
) -> Result<Option<String>, ApplyError> {
    let wanted = objects(object, &cluster.name, &cluster.settings);
    let token = Some(ensure_token(cluster, object, permit).await?);
    for owned in wanted {
        apply(cluster, owned, permit).await?;
    }
    Ok(token)
}

/// The push token, if there is one.
pub async fn token(cluster: &Cluster) -> Result<Option<String>, ApplyError> {
    let name = cluster.name.push_token();
    let secrets = cluster.secrets();
    let found = optional(bounded(cluster.settings.call, secrets.get(&name)).await);
    let found = found.map_err(|source| ApplyError::Call {
        kind: "Secret".to_owned(),
        name,
        source,
    })?;
    Ok(found.as_ref().and_then(token_of))
}

fn token_of(secret: &Secret) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(TOKEN)?;
    let text = String::from_utf8(bytes.0.clone()).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Made once, never changed by us: a person may put another one there.
async fn ensure_token(
    cluster: &Cluster,
    object: &MemgraphCluster,
    permit: &Permit,
) -> Result<String, ApplyError> {
    if let Some(token) = token(cluster).await? {
        return Ok(token);
    }
    let name = cluster.name.push_token();
    let failed = |source| ApplyError::Call {
        kind: "Secret".to_owned(),
        name: name.clone(),
        source,
    };
    may_write(cluster, permit).map_err(failed)?;
    let drawn = format!("{:013x}{:013x}{:013x}{:013x}", draw(), draw(), draw(), draw());
    let mut secret = Secret {
        string_data: Some(BTreeMap::from([(TOKEN.to_owned(), drawn.clone())])),
        ..Secret::default()
    };
    secret.metadata.name = Some(name.clone());
    secret.metadata.labels = Some(BTreeMap::from([(
        CLUSTER_LABEL.to_owned(),
        cluster.name.to_string(),
    )]));
    let owner = kube::Resource::controller_owner_ref(object, &());
    secret.metadata.owner_references = owner.map(|owner| vec![owner]);
    let secrets = cluster.secrets();
    let params = PostParams::default();
    let create = bounded(cluster.settings.call, secrets.create(&params, &secret));
    let made = cluster.settings.tap.around("create Secret", create).await;
    made.map_err(failed)?;
    Ok(drawn)
}

fn may_write(cluster: &Cluster, permit: &Permit) -> Result<(), CallError> {
    permit
        .check(cluster.settings.call)
        .map_err(|refusal| CallError::Refused {
            code: 0,
            message: refusal.to_string(),
        })
}

async fn apply(cluster: &Cluster, owned: Owned, permit: &Permit) -> Result<(), ApplyError> {
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
    let api = dynamic(cluster, version, kind);
    let patience = cluster.settings.call;
    let tap = &cluster.settings.tap;
    let found = optional(bounded(patience, api.get(&name)).await).map_err(failed)?;
    let Some(found) = found else {
        may_write(cluster, permit).map_err(failed)?;
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
    may_write(cluster, permit).map_err(failed)?;
    let parsed = parse(kind, carry_over(kind, object, &found))?;
    let params = PostParams::default();
    let replace = bounded(patience, api.replace(&name, &params, &parsed));
    match tap.around(format!("replace {kind}"), replace).await {
        // Somebody else writes too: the next turn looks again.
        Ok(_) | Err(CallError::Conflict(_)) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn dynamic(cluster: &Cluster, version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(cluster.client.clone(), &cluster.namespace, &resource)
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

/// What the object as it is has to keep.
fn carry_over(kind: &str, mut object: Value, found: &DynamicObject) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.insert("resourceVersion".to_owned(), json!(found.resource_version()));
    }
    let keep = |path: &str| found.data.pointer(path).cloned();
    match kind {
        "StatefulSet" => {
            // Asleep: waking up is a decision, not a difference.
            if keep("/spec/replicas") == Some(json!(0)) {
                set(&mut object, "/spec", "replicas", Some(json!(0)));
            }
            // Cannot be changed.
            set(
                &mut object,
                "/spec",
                "volumeClaimTemplates",
                keep("/spec/volumeClaimTemplates"),
            );
            set(
                &mut object,
                "/spec",
                "podManagementPolicy",
                keep("/spec/podManagementPolicy"),
            );
        }
        "Service" => {
            for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                set(&mut object, "/spec", field, keep(&format!("/spec/{field}")));
            }
        }
        _ => {}
    }
    object
}

fn set(object: &mut Value, at: &str, field: &str, value: Option<Value>) {
    if let (Some(Value::Object(map)), Some(value)) = (object.pointer_mut(at), value) {
        map.insert(field.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(annotations: &Value, replicas: i64) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": { "name": "x", "resourceVersion": "7", "annotations": annotations },
            "spec": { "replicas": replicas, "volumeClaimTemplates": ["as they are"] },
        }))
        .unwrap()
    }

    #[test]
    fn only_what_we_made_from_something_else_is_written() {
        assert!(!needs_writing(&found(&json!({}), 3), "now"), "adopted as it is");
        assert!(!needs_writing(&found(&json!({ APPLIED: "now" }), 3), "now"));
        assert!(needs_writing(&found(&json!({ APPLIED: "before" }), 3), "now"));
    }

    #[test]
    fn a_change_does_not_wake_a_cluster_and_keeps_what_cannot_change() {
        let wanted = || json!({ "metadata": {}, "spec": { "replicas": 5, "volumeClaimTemplates": ["new"] } });
        let asleep = carry_over("StatefulSet", wanted(), &found(&json!({}), 0));
        assert_eq!(asleep["spec"]["replicas"], 0);
        assert_eq!(asleep["spec"]["volumeClaimTemplates"], json!(["as they are"]));
        assert_eq!(asleep["metadata"]["resourceVersion"], "7");
        let awake = carry_over("StatefulSet", wanted(), &found(&json!({}), 3));
        assert_eq!(awake["spec"]["replicas"], 5);
    }

    #[test]
    fn a_fingerprint_is_of_the_content() {
        let (a, b) = (json!({ "x": 1 }), json!({ "x": 2 }));
        assert_eq!(fingerprint(&a), fingerprint(&a.clone()));
        assert_ne!(fingerprint(&a), fingerprint(&b));
    }
}
