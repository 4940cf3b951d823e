//! What a server adds to the built-in kinds, and what it refuses.

use serde_json::{Value, json};

use super::failure::Cause;
use super::kinds::Kind;
use super::value::{items, put, remove, text};

/// The status of an object that was just made.
pub(crate) fn first_status(kind: Kind, object: &mut Value) {
    // A kubelet registers its node with its status.
    if kind == Kind::NODE {
        return;
    }
    remove(object, &["status"]);
    let phase = match kind {
        Kind::POD | Kind::PERSISTENT_VOLUME | Kind::PERSISTENT_VOLUME_CLAIM => "Pending",
        Kind::NAMESPACE => "Active",
        _ => return,
    };
    put(object, &["status", "phase"], phase);
}

/// Put in whatever is missing.
fn under(value: &mut Value, defaults: &Value) {
    let (Value::Object(map), Value::Object(defaults)) = (value, defaults) else {
        return;
    };
    for (key, default) in defaults {
        match map.get_mut(key) {
            None | Some(Value::Null) => {
                map.insert(key.clone(), default.clone());
            }
            Some(found) => under(found, default),
        }
    }
}

fn each(value: &mut Value, pointer: &str, mut then: impl FnMut(&mut Value)) {
    if let Some(list) = value.pointer_mut(pointer).and_then(Value::as_array_mut) {
        list.iter_mut().for_each(&mut then);
    }
}

/// Add the defaults of a built-in kind.
pub(crate) fn fill(kind: Kind, object: &mut Value) {
    match kind {
        Kind::POD => pod(object),
        Kind::STATEFUL_SET => {
            under(
                object,
                &json!({"spec": {
                    "replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
                    "updateStrategy": {"type": "RollingUpdate"},
                    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                }}),
            );
            if text(object, "/spec/updateStrategy/type") == "RollingUpdate" {
                under(
                    object,
                    &json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}),
                );
            }
            template(object);
            each(object, "/spec/volumeClaimTemplates", |claim| {
                under(
                    claim,
                    &json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}),
                );
            });
        }
        Kind::DEPLOYMENT => {
            under(
                object,
                &json!({"spec": {
                    "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                    "strategy": {"type": "RollingUpdate"},
                }}),
            );
            if text(object, "/spec/strategy/type") == "RollingUpdate" {
                under(
                    object,
                    &json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}}}),
                );
            }
            template(object);
        }
        Kind::REPLICA_SET => {
            under(object, &json!({"spec": {"replicas": 1}}));
            template(object);
        }
        Kind::SERVICE => {
            under(
                object,
                &json!({"spec": {"type": "ClusterIP", "sessionAffinity": "None"}}),
            );
            if text(object, "/spec/type") != "ExternalName" {
                under(
                    object,
                    &json!({"spec": {"internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}}),
                );
            }
            let ip = text(object, "/spec/clusterIP").to_owned();
            if !ip.is_empty() {
                under(object, &json!({"spec": {"clusterIPs": [ip]}}));
            }
            each(object, "/spec/ports", |port| {
                let target = port.get("port").cloned();
                under(port, &json!({"protocol": "TCP", "targetPort": target}));
            });
        }
        Kind::SECRET => secret(object),
        Kind::PERSISTENT_VOLUME_CLAIM => under(object, &json!({"spec": {"volumeMode": "Filesystem"}})),
        Kind::PERSISTENT_VOLUME => under(
            object,
            &json!({"spec": {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain"}}),
        ),
        Kind::NAMESPACE => {
            let name = text(object, "/metadata/name").to_owned();
            under(
                object,
                &json!({"metadata": {"labels": {"kubernetes.io/metadata.name": name}}}),
            );
            if !super::meta::is_deleting(object) {
                under(object, &json!({"spec": {"finalizers": ["kubernetes"]}}));
            }
        }
        Kind::ENDPOINT_SLICE => each(object, "/ports", |port| under(port, &json!({"protocol": "TCP"}))),
        Kind::STORAGE_CLASS => under(
            object,
            &json!({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        ),
        Kind::CUSTOM_RESOURCE_DEFINITION => {
            let kind = text(object, "/spec/names/kind").to_owned();
            let names = json!({"listKind": format!("{kind}List"), "singular": kind.to_lowercase()});
            under(
                object,
                &json!({"spec": {"conversion": {"strategy": "None"}, "names": names}}),
            );
        }
        _ => {}
    }
}

fn pod(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec") {
        pod_spec(spec);
    }
    under(
        object,
        &json!({"spec": {"enableServiceLinks": true, "serviceAccountName": "default", "priority": 0, "preemptionPolicy": "PreemptLowerPriority", "tolerations": []}}),
    );
    // Without these a pod would leave a lost node at once.
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        if let Some(list) = object
            .pointer_mut("/spec/tolerations")
            .and_then(Value::as_array_mut)
        {
            let tolerated = |toleration: &Value| {
                let found = text(toleration, "/key");
                (found.is_empty() || found == key) && matches!(text(toleration, "/effect"), "" | "NoExecute")
            };
            if !list.iter().any(tolerated) {
                list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
            }
        }
    }
}

fn template(object: &mut Value) {
    if let Some(spec) = object.pointer_mut("/spec/template/spec") {
        pod_spec(spec);
    }
}

fn pod_spec(spec: &mut Value) {
    under(
        spec,
        &json!({
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30, "securityContext": {},
        }),
    );
    for list in ["/initContainers", "/containers"] {
        each(spec, list, |container| {
            let image = text(container, "/image")
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned();
            let pull = match image.split_once(':') {
                None | Some((_, "latest")) => "Always",
                Some(_) => "IfNotPresent",
            };
            under(
                container,
                &json!({
                    "imagePullPolicy": pull, "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }),
            );
            each(container, "/ports", |port| {
                under(port, &json!({"protocol": "TCP"}));
            });
            for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
                if let Some(probe) = container.get_mut(probe) {
                    under(
                        probe,
                        &json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}),
                    );
                }
            }
        });
    }
    each(spec, "/volumes", |volume| {
        for source in ["configMap", "secret", "projected"] {
            if let Some(source) = volume.get_mut(source) {
                under(source, &json!({"defaultMode": 420}));
            }
        }
    });
}

/// `stringData` is only a way to write `data`.
fn secret(object: &mut Value) {
    use base64::Engine as _;
    under(object, &json!({"type": "Opaque"}));
    if let Some(Value::Object(plain)) = remove(object, &["stringData"]) {
        for (key, value) in plain {
            let bytes = value.as_str().unwrap_or_default();
            let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
            put(object, &["data", &key], encoded);
        }
    }
}

/// What a server refuses of a built-in kind.
pub(crate) fn check(kind: Kind, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    match kind {
        Kind::POD => {
            containers(object, "/spec", "spec", &mut causes);
            if old.is_some_and(|old| fixed_pod(old) != fixed_pod(object)) {
                causes.push(Cause::forbidden("spec", "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"));
            }
        }
        Kind::STATEFUL_SET | Kind::DEPLOYMENT | Kind::REPLICA_SET => {
            workload(object, &mut causes);
            let old_selector = old.and_then(|old| old.pointer("/spec/selector"));
            if kind != Kind::STATEFUL_SET
                && old_selector.is_some_and(|old| Some(old) != object.pointer("/spec/selector"))
            {
                let selector = object.pointer("/spec/selector").cloned().unwrap_or_default();
                causes.push(Cause::invalid("spec.selector", &selector, "field is immutable"));
            }
            if kind == Kind::STATEFUL_SET && old.is_some_and(|old| fixed_set(old) != fixed_set(object)) {
                causes.push(Cause::forbidden("spec", "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"));
            }
        }
        Kind::CONFIG_MAP | Kind::SECRET => {
            let fixed = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true)));
            if fixed.is_some_and(|old| {
                old.get("data") != object.get("data") || old.get("immutable") != object.get("immutable")
            }) {
                causes.push(Cause::forbidden(
                    "data",
                    "field is immutable when `immutable` is set",
                ));
            }
            for field in ["data", "binaryData"] {
                for key in object
                    .get(field)
                    .and_then(Value::as_object)
                    .into_iter()
                    .flatten()
                    .map(|(key, _)| key)
                {
                    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
                    if key.is_empty() || key.len() > 253 || !key.chars().all(good) {
                        causes.push(Cause::invalid(
                            format!("{field}[{key}]"),
                            &json!(key),
                            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
                        ));
                    }
                }
            }
        }
        Kind::SERVICE => {
            let changed = |pointer: &str| {
                old.is_some_and(|old| {
                    let before = text(old, pointer);
                    !before.is_empty() && before != text(object, pointer)
                })
            };
            if changed("/spec/clusterIP") && text(object, "/spec/type") != "ExternalName" {
                causes.push(Cause::invalid(
                    "spec.clusterIPs[0]",
                    &json!([text(object, "/spec/clusterIP")]),
                    "may not change once set",
                ));
            }
        }
        Kind::LEASE => {
            let seconds = super::value::int(object, "/spec/leaseDurationSeconds");
            if let Some(seconds) = seconds.filter(|seconds| *seconds <= 0) {
                causes.push(Cause::invalid(
                    "spec.leaseDurationSeconds",
                    &json!(seconds),
                    "must be greater than 0",
                ));
            }
        }
        _ => {}
    }
    causes
}

fn containers(object: &Value, at: &str, path: &str, causes: &mut Vec<Cause>) {
    let found = items(object, &format!("{at}/containers"));
    if found.is_empty() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    for (index, container) in found.iter().enumerate() {
        for field in ["name", "image"] {
            if text(container, &format!("/{field}")).is_empty() {
                causes.push(Cause::required(format!("{path}.containers[{index}].{field}"), ""));
            }
        }
    }
}

fn workload(object: &Value, causes: &mut Vec<Cause>) {
    if super::value::int(object, "/spec/replicas").is_some_and(|replicas| replicas < 0) {
        let replicas = object.pointer("/spec/replicas").cloned().unwrap_or_default();
        causes.push(Cause::invalid(
            "spec.replicas",
            &replicas,
            "must be greater than or equal to 0",
        ));
    }
    let selector = object
        .pointer("/spec/selector")
        .filter(|selector| !super::value::is_empty(selector));
    let labels = object
        .pointer("/spec/template/metadata/labels")
        .cloned()
        .unwrap_or_default();
    let labelled = json!({"metadata": {"labels": labels}});
    match selector.map(super::select::from_object) {
        None => causes.push(Cause::required("spec.selector", "")),
        Some(Some(selector)) if selector.matches(&labelled) => {}
        Some(_) => causes.push(Cause::invalid(
            "spec.template.metadata.labels",
            &labels,
            "`selector` does not match template `labels`",
        )),
    }
    containers(object, "/spec/template/spec", "spec.template.spec", causes);
}

/// What of a pod may not change.
fn fixed_pod(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    for field in [
        "activeDeadlineSeconds",
        "tolerations",
        "terminationGracePeriodSeconds",
    ] {
        remove(&mut spec, &[field]);
    }
    for list in ["/containers", "/initContainers"] {
        each(&mut spec, list, |container| {
            remove(container, &["image"]);
        });
    }
    spec
}

/// What of a StatefulSet may not change.
fn fixed_set(set: &Value) -> Value {
    let mut spec = set.get("spec").cloned().unwrap_or_default();
    for field in [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ] {
        remove(&mut spec, &[field]);
    }
    spec
}
