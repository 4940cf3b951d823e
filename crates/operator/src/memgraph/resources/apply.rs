//! Writing the objects (`crate::apply`), and the token that gateways and helpers know.

use super::build::objects;
use crate::apply::{ApplyError, Desk, set};
use crate::call::{CallError, bounded, existing};
use crate::clock::draw;
use crate::engine::lease::Permit;
use crate::memgraph::cluster::Cluster;
use api::MemgraphCluster;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DynamicObject, PostParams};
use mainstay_core::memgraph::objects::CLUSTER_LABEL;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The key of the push token.
const TOKEN: &str = "token";

/// What came of seeing to the objects, or to some of them.
#[derive(Debug, Default)]
pub struct Part {
    /// The token that gateways and helpers know, if it was looked at.
    pub token: Option<String>,
    /// What could not be had.
    pub errors: Vec<ApplyError>,
    /// The object to go on with, if some are left.
    pub next: Option<usize>,
}

/// Makes sure that every object from this one on is there, and says of which it could not: the token is looked at before
/// the first. One that is refused keeps no other from being written; one that is not answered for does, for this time:
/// the others would only wait as long. After `patience` no other is begun, but one is always.
pub async fn ensure(
    cluster: &Cluster,
    object: &MemgraphCluster,
    permit: &Permit,
    from: usize,
    patience: Option<Duration>,
) -> Part {
    let began = Instant::now();
    let desk = cluster.desk(permit);
    let mut part = Part::default();
    if from == 0 {
        match ensure_token(cluster, object, desk).await {
            Ok(token) => part.token = Some(token),
            Err(error) => part.errors.push(error),
        }
    }
    let wanted = objects(object, &cluster.name, &cluster.settings);
    for (number, owned) in wanted.into_iter().enumerate().skip(from) {
        if part.errors.iter().any(unanswered) {
            break;
        }
        if number > from && patience.is_some_and(|patience| began.elapsed() >= patience) {
            part.next = Some(number);
            break;
        }
        part.errors.extend(desk.apply(owned, carry_over).await.err());
    }
    part
}

fn unanswered(error: &ApplyError) -> bool {
    matches!(
        error,
        ApplyError::Call {
            source: CallError::Unknown(_),
            ..
        }
    )
}

/// The push token, if there is one.
pub async fn token(cluster: &Cluster) -> Result<Option<String>, ApplyError> {
    let name = cluster.name.push_token();
    let secrets = cluster.secrets();
    let found = existing(bounded(cluster.settings.call, secrets.get(&name)).await);
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
    desk: Desk<'_>,
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
    desk.may_write().map_err(failed)?;
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
    fn a_change_does_not_wake_a_cluster_and_keeps_what_cannot_change() {
        let wanted = || json!({ "metadata": {}, "spec": { "replicas": 5, "volumeClaimTemplates": ["new"] } });
        let asleep = carry_over("StatefulSet", wanted(), &found(&json!({}), 0));
        assert_eq!(asleep["spec"]["replicas"], 0);
        assert_eq!(asleep["spec"]["volumeClaimTemplates"], json!(["as they are"]));
        assert_eq!(asleep["metadata"]["resourceVersion"], "7");
        let awake = carry_over("StatefulSet", wanted(), &found(&json!({}), 3));
        assert_eq!(awake["spec"]["replicas"], 5);
    }
}
