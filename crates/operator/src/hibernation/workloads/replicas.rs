//! Things with a number of replicas, and CronJobs, which have a switch.

use super::kinds::Workload;
use super::{no_number, replicas_state};
use crate::call::{CallError, bounded};
use crate::hibernation::executor::{Place, changed, refusal};
use crate::hibernation::objects::{aimed, api, asleep, get, no_scale, patch, version, woken};
use k8s_openapi::api::autoscaling::v1::Scale;
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use mainstay_core::hibernation::observed::{Power, Refusal, Resource};
use mainstay_core::hibernation::step::Aim;
use serde_json::{Value, json};

fn number(object: &DynamicObject, path: &str) -> Option<i64> {
    object.data.pointer(path).and_then(Value::as_i64)
}

/// What it is asked to be, and whether it is; `None` if it was deleted meanwhile.
pub(super) async fn seen(
    place: &Place,
    kind: &Workload,
    object: &DynamicObject,
) -> Result<Option<Resource>, Refusal> {
    let (wanted, settled, state, more) = match kind {
        Workload::CronJob => {
            let suspended = object.data.pointer("/spec/suspend") == Some(&Value::Bool(true));
            // What a CronJob started runs to its end: nobody waits for it, and nobody cuts it off.
            let state = json!({ "suspend": suspended });
            (i64::from(!suspended), true, state, String::new())
        }
        Workload::Scale { .. } => {
            let Some((wanted, have)) = scale(place, kind, &object.name_any()).await? else {
                return Ok(None);
            };
            // Where its number is kept is unknown, so it is part of the version.
            (wanted, wanted == have, replicas_state(wanted), wanted.to_string())
        }
        Workload::Replicas(..) | Workload::Keda => {
            let wanted = number(object, "/spec/replicas").unwrap_or(1);
            (
                wanted,
                is_settled(object, wanted),
                replicas_state(wanted),
                String::new(),
            )
        }
    };
    Ok(Some(Resource {
        power: if wanted > 0 { Power::Up } else { Power::Down },
        settled,
        state,
        version: Some(version(object, &more)),
        selected: true,
        skip: None,
    }))
}

/// Its controller has seen what is asked of it. Down: nothing runs. Up: all are ready.
fn is_settled(object: &DynamicObject, wanted: i64) -> bool {
    let generation = object.metadata.generation.unwrap_or_default();
    let observed = number(object, "/status/observedGeneration").unwrap_or_default();
    let have = number(object, "/status/replicas").unwrap_or_default();
    let ready = number(object, "/status/readyReplicas").unwrap_or_default();
    observed >= generation && if wanted == 0 { have == 0 } else { ready >= wanted }
}

/// What is wanted, and what there is. No answer means that there is no scale, unless the object went since it was listed:
/// then there is nothing to say of it.
async fn scale(place: &Place, kind: &Workload, name: &str) -> Result<Option<(i64, i64)>, Refusal> {
    let resource = kind.resource();
    let api = api(place, &resource);
    let found = match bounded(place.settings.call, api.get_scale(name)).await {
        Ok(found) => found,
        Err(error @ (CallError::NotFound | CallError::NoSuchPath(_))) => {
            return match get(place, &resource, name).await? {
                None => Ok(None),
                Some(_) => Err(no_scale(&error, &kind.path())),
            };
        }
        Err(error) => return Err(no_scale(&error, &kind.path())),
    };
    let Scale { spec, status, .. } = found;
    let wanted = spec.and_then(|s| s.replicas).unwrap_or_default();
    let have = status.map(|s| s.replicas).unwrap_or_default();
    Ok(Some((i64::from(wanted), i64::from(have))))
}

/// The part of the version that is not in the object.
async fn more(place: &Place, kind: &Workload, name: &str) -> Result<String, Refusal> {
    match kind {
        Workload::Scale { .. } => {
            let found = scale(place, kind, name).await?;
            let (wanted, _) = found.ok_or_else(|| changed(format!("{name} is gone")))?;
            Ok(wanted.to_string())
        }
        Workload::Replicas(..) | Workload::CronJob | Workload::Keda => Ok(String::new()),
    }
}

pub(super) async fn stop(place: &Place, aim: &Aim, kind: &Workload, name: &str) -> Result<(), Refusal> {
    let more = more(place, kind, name).await?;
    let object = aimed(place, aim, &kind.resource(), name, |_| more.clone()).await?;
    let seen = seen(place, kind, &object).await?;
    let seen = seen.ok_or_else(|| changed(format!("{name} is gone")))?;
    if seen.power == Power::Down {
        return Ok(());
    }
    let replicas = seen.state.get("replicas").and_then(Value::as_i64);
    set(place, kind, &object, asleep(place, aim, replicas), 0, true).await
}

pub(super) async fn start(
    place: &Place,
    aim: &Aim,
    kind: &Workload,
    name: &str,
    state: &Value,
) -> Result<(), Refusal> {
    let more = more(place, kind, name).await?;
    let object = aimed(place, aim, &kind.resource(), name, |_| more.clone()).await?;
    let replicas = state.get("replicas").and_then(Value::as_i64);
    let suspended = state.get("suspend").and_then(Value::as_bool);
    let (replicas, suspended) = match kind {
        Workload::CronJob => (0, suspended.unwrap_or_default()),
        _ => (replicas.ok_or_else(|| no_number(aim, state))?, false),
    };
    set(place, kind, &object, woken(place, aim), replicas, suspended).await
}

async fn set(
    place: &Place,
    kind: &Workload,
    object: &DynamicObject,
    annotations: Value,
    replicas: i64,
    suspended: bool,
) -> Result<(), Refusal> {
    let resource = kind.resource();
    let spec = match kind {
        Workload::CronJob => json!({ "suspend": suspended }),
        Workload::Replicas(..) | Workload::Keda => json!({ "replicas": replicas }),
        Workload::Scale { .. } => {
            // Its number has a place of its own: the annotation first, which makes it another version, then the number
            // over exactly that version.
            let marked = patch(place, &resource, object, annotations, None).await?;
            return rescale(place, kind, &marked, replicas).await;
        }
    };
    patch(place, &resource, object, annotations, Some(("spec", spec))).await?;
    Ok(())
}

async fn rescale(
    place: &Place,
    kind: &Workload,
    object: &DynamicObject,
    replicas: i64,
) -> Result<(), Refusal> {
    let api = api(place, &kind.resource());
    let body = json!({
        "metadata": { "resourceVersion": object.metadata.resource_version },
        "spec": { "replicas": replicas },
    });
    let (name, params, body) = (object.name_any(), PatchParams::default(), Patch::Merge(body));
    let call = bounded(place.settings.call, api.patch_scale(&name, &params, &body)).await;
    call.map(drop).map_err(|error| refusal(&error))
}
