//! KEDA: what scales from zero is paused at zero while its target sleeps.

use super::Named;
use super::kinds::Workload;
use crate::hibernation::executor::Place;
use crate::hibernation::objects::{self, aimed, asleep, left_alone, patch, version, woken};
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
        skip: left_alone(object),
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
        let scales = |(workload, name): &(Workload, String)| scales(&object, workload, name);
        if names.iter().any(scales) {
            look.insert(Named::id(&Workload::Keda, &object.name_any())?, seen(&object));
        }
    }
    Ok(())
}

/// Is this what it scales? KEDA takes a Deployment if it says no kind. A version that it gives must fit, too: a kind of
/// the same name may be somebody else's.
fn scales(object: &DynamicObject, workload: &Workload, name: &str) -> bool {
    let target = |field: &str| {
        let path = format!("/spec/scaleTargetRef/{field}");
        object.data.pointer(&path).and_then(Value::as_str)
    };
    let resource = workload.resource();
    let version = target("apiVersion");
    let same_version = version.is_none_or(|v| v == resource.api_version);
    let same_kind = match workload {
        // Of what is only known by its path nobody knows the kind: the version has to do.
        Workload::Scale { .. } => version.is_some(),
        Workload::Replicas(..) | Workload::CronJob | Workload::Keda => {
            target("kind").unwrap_or("Deployment") == resource.kind
        }
    };
    same_kind && same_version && target("name") == Some(name)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn scaler(target: &Value, labels: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
            "metadata": { "name": "scaler", "labels": labels },
            "spec": { "scaleTargetRef": target },
        }))
        .unwrap()
    }

    #[test]
    fn a_scaler_belongs_to_what_has_its_name_and_its_kind_and_its_version() {
        let path = |path: &str| Workload::by_path(path).unwrap();
        let (deployments, sets) = (path("apps/v1/deployments"), path("apps/v1/statefulsets"));
        let rollouts = path("argoproj.io/v1alpha1/rollouts");
        for (target, workload, expected) in [
            (json!({"name": "web"}), &deployments, true),
            (json!({"name": "api"}), &deployments, false),
            (json!({"name": "web", "kind": "Deployment"}), &deployments, true),
            (json!({"name": "web", "kind": "StatefulSet"}), &deployments, false),
            // The version is the same for both: the kind decides.
            (
                json!({"name": "web", "kind": "StatefulSet", "apiVersion": "apps/v1"}),
                &deployments,
                false,
            ),
            (
                json!({"name": "web", "kind": "StatefulSet", "apiVersion": "apps/v1"}),
                &sets,
                true,
            ),
            (
                json!({"name": "web", "kind": "Deployment", "apiVersion": "other.io/v1"}),
                &deployments,
                false,
            ),
            (
                json!({"name": "web", "kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1"}),
                &rollouts,
                true,
            ),
            (json!({"name": "web", "kind": "Rollout"}), &rollouts, false),
        ] {
            let object = scaler(&target, &json!({}));
            assert_eq!(
                scales(&object, workload, "web"),
                expected,
                "{target} {workload:?}"
            );
        }
    }

    #[test]
    fn a_protected_scaler_is_left_alone() {
        let free = scaler(&json!({"name": "web"}), &json!({}));
        assert_eq!(seen(&free).skip, None);
        let label = objects::PROTECTED;
        let held = scaler(&json!({"name": "web"}), &json!({ label: "true" }));
        assert!(seen(&held).skip.is_some());
    }
}
