//! What the store asks of foreign code: the types of the built-in kinds
//! (k8s-openapi), regular expressions, and CEL (kube-cel).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::{
    apps, batch, coordination, core, discovery, networking, policy, rbac, scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use kube_cel::{CompiledSchema, ErrorKind, Validator, compile_schema};
use regex::Regex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sim::kube::{Cause, Rules};

/// A schema and its rules, compiled.
type Compiled = (Value, Arc<CompiledSchema>);

/// Everything a real server would check.
#[derive(Default)]
pub struct RealRules {
    /// Compiling is dear and schemas are few.
    compiled: Mutex<Vec<Compiled>>,
    /// So are patterns; `None`: it is no expression.
    patterns: Mutex<BTreeMap<String, Option<Regex>>>,
}

impl std::fmt::Debug for RealRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RealRules").finish_non_exhaustive()
    }
}

/// Through the type and back: what does not fit is an error, what is not known is gone.
fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, String> {
    let typed = T::deserialize(object).map_err(|error| error.to_string())?;
    serde_json::to_value(typed).map_err(|error| error.to_string())
}

impl Rules for RealRules {
    fn decode(&self, api_version: &str, kind: &str, object: &Value) -> Result<Value, String> {
        let decode: fn(&Value) -> Result<Value, String> = match (api_version, kind) {
            ("v1", "Namespace") => through::<core::v1::Namespace>,
            ("v1", "Node") => through::<core::v1::Node>,
            ("v1", "Pod") => through::<core::v1::Pod>,
            ("v1", "Service") => through::<core::v1::Service>,
            ("v1", "Endpoints") => through::<core::v1::Endpoints>,
            ("v1", "ConfigMap") => through::<core::v1::ConfigMap>,
            ("v1", "Secret") => through::<core::v1::Secret>,
            ("v1", "ServiceAccount") => through::<core::v1::ServiceAccount>,
            ("v1", "PersistentVolume") => through::<core::v1::PersistentVolume>,
            ("v1", "PersistentVolumeClaim") => through::<core::v1::PersistentVolumeClaim>,
            ("v1", "Event") => through::<core::v1::Event>,
            ("apps/v1", "StatefulSet") => through::<apps::v1::StatefulSet>,
            ("apps/v1", "Deployment") => through::<apps::v1::Deployment>,
            ("apps/v1", "ReplicaSet") => through::<apps::v1::ReplicaSet>,
            ("apps/v1", "DaemonSet") => through::<apps::v1::DaemonSet>,
            ("apps/v1", "ControllerRevision") => through::<apps::v1::ControllerRevision>,
            ("coordination.k8s.io/v1", "Lease") => through::<coordination::v1::Lease>,
            ("policy/v1", "PodDisruptionBudget") => through::<policy::v1::PodDisruptionBudget>,
            ("discovery.k8s.io/v1", "EndpointSlice") => through::<discovery::v1::EndpointSlice>,
            ("rbac.authorization.k8s.io/v1", "Role") => through::<rbac::v1::Role>,
            ("rbac.authorization.k8s.io/v1", "RoleBinding") => through::<rbac::v1::RoleBinding>,
            ("rbac.authorization.k8s.io/v1", "ClusterRole") => through::<rbac::v1::ClusterRole>,
            ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding") => through::<rbac::v1::ClusterRoleBinding>,
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => {
                through::<apiextensions::v1::CustomResourceDefinition>
            }
            ("batch/v1", "Job") => through::<batch::v1::Job>,
            ("batch/v1", "CronJob") => through::<batch::v1::CronJob>,
            ("storage.k8s.io/v1", "StorageClass") => through::<storage::v1::StorageClass>,
            ("scheduling.k8s.io/v1", "PriorityClass") => through::<scheduling::v1::PriorityClass>,
            ("networking.k8s.io/v1", "NetworkPolicy") => through::<networking::v1::NetworkPolicy>,
            _ => return Ok(object.clone()),
        };
        decode(object)
    }

    fn matches(&self, pattern: &str, text: &str) -> bool {
        let mut known = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        let expression = match known.get(pattern) {
            Some(known) => known,
            None => known
                .entry(pattern.to_owned())
                .or_insert_with(|| Regex::new(pattern).ok()),
        };
        // A pattern that is no expression was refused with its definition.
        expression.as_ref().is_some_and(|e| e.is_match(text))
    }

    fn cel(&self, schema: &Value, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        let compiled = self.compiled(schema);
        let Err(errors) = Validator::new().validate_compiled(&compiled, new, old) else {
            return Vec::new();
        };
        errors
            .into_vec()
            .into_iter()
            .map(|error| {
                let reason = match error.reason.as_deref() {
                    Some("FieldValueRequired") => "FieldValueRequired",
                    Some("FieldValueForbidden") => "FieldValueForbidden",
                    Some("FieldValueDuplicate") => "FieldValueDuplicate",
                    _ => "FieldValueInvalid",
                };
                let value = at(new, &error.field_path);
                // A rule that could not be worked out is said with its sentence, as upstream.
                let sentence = match error.kind {
                    ErrorKind::EvaluationError => sentence(schema, &error.rule),
                    _ => None,
                };
                let why = sentence.map_or_else(
                    || error.message.clone(),
                    |sentence| format!("{} evaluating rule: {sentence}", error.message),
                );
                let message = match reason {
                    "FieldValueRequired" => format!("Required value: {why}"),
                    "FieldValueForbidden" => format!("Forbidden: {why}"),
                    _ => format!("Invalid value: {value}: {why}"),
                };
                let field = if error.field_path.is_empty() {
                    "<nil>".to_owned()
                } else {
                    error.field_path
                };
                Cause {
                    reason,
                    field,
                    message,
                }
            })
            .collect()
    }
}

/// What a rule says when it is broken, wherever it stands.
fn sentence<'a>(schema: &'a Value, rule: &str) -> Option<&'a str> {
    match schema {
        Value::Object(fields) => {
            let message = fields.get("message").and_then(Value::as_str);
            let own = message.filter(|_| fields.get("rule").and_then(Value::as_str) == Some(rule));
            own.or_else(|| fields.values().find_map(|below| sentence(below, rule)))
        }
        Value::Array(all) => all.iter().find_map(|below| sentence(below, rule)),
        _ => None,
    }
}

/// Real servers show a map as the word for it.
fn at(object: &Value, path: &str) -> Value {
    let pointer = format!("/{}", path.replace(['.', '['], "/").replace(']', ""));
    let found = if path.is_empty() {
        Some(object)
    } else {
        object.pointer(&pointer)
    };
    match found {
        Some(Value::Object(_)) | None => Value::String("object".to_owned()),
        Some(Value::Array(_)) => Value::String("array".to_owned()),
        Some(other) => other.clone(),
    }
}

impl RealRules {
    fn compiled(&self, schema: &Value) -> Arc<CompiledSchema> {
        let mut known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, compiled)) = known.iter().find(|(known, _)| known == schema) {
            return Arc::clone(compiled);
        }
        let compiled = Arc::new(compile_schema(schema));
        // Definitions that changed leave their old schema behind.
        if known.len() >= 32 {
            known.remove(0);
        }
        known.push((schema.clone(), Arc::clone(&compiled)));
        compiled
    }
}
