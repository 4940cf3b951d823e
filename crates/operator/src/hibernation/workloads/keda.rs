//! KEDA: what scales from zero is paused at zero while its target sleeps.

use super::Named;
use super::kinds::Workload;
use crate::hibernation::executor::Place;
use crate::hibernation::objects::{self, aimed, asleep, patch, version, woken};
use kube::ResourceExt;
use kube::api::DynamicObject;
use mainstay_core::hibernation::observed::{Look, Power, Refusal, Resource};
use mainstay_core::hibernation::step::Aim;
use serde_json::{Value, json};

/// KEDA holds its target at so many replicas.
const PAUSED: &str = "autoscaling.keda.sh/paused-replicas";

fn paused(object: &DynamicObject) -> Option<&String> {
    object.annotations().get(PAUSED)
}

fn more(object: &DynamicObject) -> String {
    paused(object).cloned().unwrap_or_default()
}

/// Held at zero is down. Held at another number is up, and that number comes back.
pub(super) fn seen(object: &DynamicObject) -> Resource {
    let held = paused(object);
    Resource {
        power: if held.is_some_and(|n| n == "0") {
            Power::Down
        } else {
            Power::Up
        },
        settled: true,
        state: json!({ "pausedReplicas": held }),
        version: Some(version(object, &more(object))),
        selected: true,
        skip: None,
    }
}

/// The scalers of what is selected.
pub(super) async fn observe(
    place: &Place,
    names: &[(Workload, String)],
    look: &mut Look,
) -> Result<(), Refusal> {
    if names.is_empty() {
        return Ok(());
    }
    for object in objects::list(place, &Workload::Keda.resource()).await? {
        let target = |field: &str| {
            let path = format!("/spec/scaleTargetRef/{field}");
            object
                .data
                .pointer(&path)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let kind = target("kind").unwrap_or_else(|| "Deployment".to_owned());
        let scales = |(workload, name): &(Workload, String)| {
            let resource = workload.resource();
            let same = resource.kind == kind || target("apiVersion").as_ref() == Some(&resource.api_version);
            same && target("name").as_ref() == Some(name)
        };
        if names.iter().any(scales) {
            look.insert(Named::id(&Workload::Keda, &object.name_any())?, seen(&object));
        }
    }
    Ok(())
}

pub(super) async fn stop(place: &Place, aim: &Aim, name: &str) -> Result<(), Refusal> {
    let object = aimed(place, aim, &Workload::Keda.resource(), name, more).await?;
    let marks = with(asleep(place, aim, None), json!("0"));
    patch(place, &Workload::Keda.resource(), &object, marks, None).await?;
    Ok(())
}

pub(super) async fn start(place: &Place, aim: &Aim, name: &str, state: &Value) -> Result<(), Refusal> {
    let object = aimed(place, aim, &Workload::Keda.resource(), name, more).await?;
    let held = state.get("pausedReplicas").cloned().unwrap_or(Value::Null);
    let marks = with(woken(place, aim), held);
    patch(place, &Workload::Keda.resource(), &object, marks, None).await?;
    Ok(())
}

fn with(mut marks: Value, held: Value) -> Value {
    if let Value::Object(marks) = &mut marks {
        marks.insert(PAUSED.to_owned(), held);
    }
    marks
}
