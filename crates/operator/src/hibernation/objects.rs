//! Objects of any kind as executors see them: versions that mean what they are asked to be, and writes that must not hit
//! another one.

use super::executor::{Place, changed, refusal};
use crate::call::{CallError, bounded, existing, optional};
use api::hibernation::PLAN_LABEL;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use mainstay_core::hibernation::ids::Version;
use mainstay_core::hibernation::observed::{Refusal, Skip};
use mainstay_core::hibernation::step::Aim;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// `true`: no plan touches it.
pub(super) const PROTECTED: &str = "mainstay.dev/protected";
/// On what sleeps: which plan put it to sleep, and in which cycle.
pub(super) const ASLEEP: &str = "mainstay.dev/hibernated-by";
/// On what sleeps: how many replicas it had. For people; the restore point counts.
pub(super) const ORIGINAL: &str = "mainstay.dev/original-replicas";
/// On what was woken: by which plan, in which cycle and leg. It makes every start another version.
pub(super) const WOKEN: &str = "mainstay.dev/woken-by";
/// The operator itself: who would wake it?
const OPERATOR: (&str, &str) = ("app.kubernetes.io/name", crate::install::NAME);

/// A kind as the API serves it.
pub(super) fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Objects of this kind where the plan is.
pub(super) fn api(place: &Place, kind: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(place.client.clone(), &place.namespace, kind)
}

/// All of a kind; none if there is no such kind. That something is not among them does not mean that it is gone.
pub(super) async fn list(place: &Place, kind: &ApiResource) -> Result<Vec<DynamicObject>, Refusal> {
    let call = bounded(place.settings.call, api(place, kind).list(&ListParams::default())).await;
    let listed = optional(call).map_err(|error| refusal(&error))?;
    Ok(listed.map(|list| list.items).unwrap_or_default())
}

/// One of a kind; `None` if it does not exist. That there is no such kind says nothing of the object: its definition may
/// be back in a moment, and what was called gone until then would never be woken.
pub(super) async fn get(
    place: &Place,
    kind: &ApiResource,
    name: &str,
) -> Result<Option<DynamicObject>, Refusal> {
    let call = bounded(place.settings.call, api(place, kind).get(name)).await;
    existing(call).map_err(|error| refusal(&error))
}

/// Changes with what the object is asked to be, and with every start; not with what its controller reports. `more` is
/// what is asked of it outside of its spec.
pub(super) fn version(object: &DynamicObject, more: &str) -> Version {
    let uid = object.metadata.uid.as_deref().unwrap_or_default();
    let generation = object.metadata.generation.unwrap_or_default();
    let woken = object.annotations().get(WOKEN).map_or("", String::as_str);
    Version(format!("{uid}/{generation}/{woken}/{more}"))
}

/// Reads the object that an aim means. It is the one that was looked at, or nothing is done.
pub(super) async fn aimed(
    place: &Place,
    aim: &Aim,
    kind: &ApiResource,
    name: &str,
    more: impl Fn(&DynamicObject) -> String,
) -> Result<DynamicObject, Refusal> {
    let found = get(place, kind, name).await?;
    let object = found.ok_or_else(|| changed(format!("{} does not exist", aim.resource)))?;
    let now = version(&object, &more(&object));
    match &aim.version {
        Some(seen) if *seen != now => Err(changed(format!("{} has changed", aim.resource))),
        _ => Ok(object),
    }
}

/// What a stop leaves on the object.
pub(super) fn asleep(place: &Place, aim: &Aim, replicas: Option<i64>) -> Value {
    json!({
        ASLEEP: format!("{} {}", place.plan, aim.cycle.0),
        ORIGINAL: replicas.map(|n| n.to_string()),
        WOKEN: null,
    })
}

/// What a start leaves on the object.
pub(super) fn woken(place: &Place, aim: &Aim) -> Value {
    json!({
        ASLEEP: null,
        ORIGINAL: null,
        WOKEN: format!("{} {}.{}", place.plan, aim.cycle.0, aim.leg),
    })
}

/// One write over exactly the version that was read.
pub(super) async fn patch(
    place: &Place,
    kind: &ApiResource,
    object: &DynamicObject,
    annotations: Value,
    rest: Option<(&str, Value)>,
) -> Result<DynamicObject, Refusal> {
    let mut body = json!({
        "metadata": { "resourceVersion": object.metadata.resource_version, "annotations": annotations },
    });
    if let (Some((field, value)), Value::Object(body)) = (rest, &mut body) {
        body.insert(field.to_owned(), value);
    }
    let (api, name) = (api(place, kind), object.name_any());
    let body = Patch::Merge(body);
    let params = PatchParams::default();
    let call = bounded(place.settings.call, api.patch(&name, &params, &body)).await;
    call.map_err(|error| refusal(&error))
}

/// Why an object is left alone whatever a plan selects.
pub(super) fn left_alone(object: &DynamicObject) -> Option<Skip> {
    let label = |name: &str| object.labels().get(name).map(String::as_str);
    let (operator, itself) = OPERATOR;
    if label(PROTECTED) == Some("true") || label(operator) == Some(itself) {
        return Some(Skip::Protected);
    }
    let owner = object
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true))?;
    Some(Skip::Other(format!(
        "it belongs to {} {}: name that instead",
        owner.kind, owner.name
    )))
}

/// The labels of everything that belongs to a plan.
pub(super) fn labels(place: &Place) -> BTreeMap<String, String> {
    BTreeMap::from([(PLAN_LABEL.to_owned(), place.plan.to_string())])
}

/// No answer of the scale subresource: there is none.
pub(super) fn no_scale(error: &CallError, resource: &str) -> Refusal {
    match error {
        CallError::NotFound | CallError::NoSuchPath(_) => super::executor::permanent(format!(
            "{resource} has no scale: only what can be scaled can be put to sleep"
        )),
        other => refusal(other),
    }
}
