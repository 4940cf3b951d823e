//! Why a request was refused, as the `Status` a real server sends.

use serde_json::{Value, json};

use super::kinds::KindInfo;

/// One thing that is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `FieldValueInvalid`, `FieldValueRequired`, `FieldManagerConflict`, …
    pub reason: &'static str,
    /// Where: `spec.replicas`, `spec.items[0].name`.
    pub field: String,
    /// What, for people.
    pub message: String,
}

impl Cause {
    /// A value that is not allowed.
    pub fn invalid(field: impl Into<String>, value: &Value, why: impl std::fmt::Display) -> Self {
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            message: format!("Invalid value: {value}: {why}"),
        }
    }

    /// A value that is missing.
    pub fn required(field: impl Into<String>, why: impl std::fmt::Display) -> Self {
        let why = why.to_string();
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Self {
            reason: "FieldValueRequired",
            field: field.into(),
            message,
        }
    }

    /// A change that is not allowed.
    pub fn forbidden(field: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self {
            reason: "FieldValueForbidden",
            field: field.into(),
            message: format!("Forbidden: {why}"),
        }
    }
}

/// A refusal. `reason` tells apart what shares a code.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The HTTP status.
    pub code: u16,
    /// The machine's word for it.
    pub reason: &'static str,
    /// The sentence for people.
    pub message: String,
    /// What it is about.
    pub details: Value,
}

impl Failure {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
        }
    }

    fn about(mut self, info: &KindInfo, name: &str) -> Self {
        self.details = json!({"name": name, "group": info.group, "kind": info.plural});
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, "Forbidden", message)
    }

    /// Nothing is made in a namespace that is being deleted; the cause tells that from a right that is missing.
    pub(crate) fn terminating(info: &KindInfo, name: &str, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let message = format!("{} \"{name}\" is forbidden: {why}", info.qualified());
        let mut failure = Self::forbidden(message).about(info, name);
        let cause = Cause {
            reason: "NamespaceTerminating",
            field: "metadata.namespace".to_owned(),
            message: format!("namespace {namespace} is being terminated"),
        };
        super::value::put(&mut failure.details, &["causes"], render(&[cause]));
        failure
    }

    pub(crate) fn no_such_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    pub(crate) fn not_found(info: &KindInfo, name: &str) -> Self {
        Self::new(
            404,
            "NotFound",
            format!("{} \"{name}\" not found", info.qualified()),
        )
        .about(info, name)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message)
    }

    pub(crate) fn already_exists(info: &KindInfo, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", info.qualified());
        Self::new(409, "AlreadyExists", message).about(info, name)
    }

    pub(crate) fn conflict(info: &KindInfo, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            info.qualified()
        );
        Self::new(409, "Conflict", message).about(info, name)
    }

    pub(crate) fn modified(info: &KindInfo, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(info, name, why)
    }

    pub(crate) fn apply_conflict(causes: &[Cause]) -> Self {
        let listed: Vec<_> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.message, cause.field))
            .collect();
        let plural = if causes.len() == 1 { "" } else { "s" };
        let message = format!(
            "Apply failed with {} conflict{plural}: {}",
            causes.len(),
            listed.join("\n")
        );
        let mut failure = Self::new(409, "Conflict", message);
        failure.details = json!({"causes": render(causes)});
        failure
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn unsupported_media(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn invalid(info: &KindInfo, name: &str, causes: &[Cause]) -> Self {
        let kind = if info.group.is_empty() {
            info.kind.clone()
        } else {
            format!("{}.{}", info.kind, info.group)
        };
        let listed: Vec<_> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let listed = match listed.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let mut failure = Self::new(422, "Invalid", format!("{kind} \"{name}\" is invalid: {listed}"));
        failure.details =
            json!({"name": name, "group": info.group, "kind": info.kind, "causes": render(causes)});
        failure
    }

    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    pub(crate) fn blocked_by_budget(budget: &str, why: &str) -> Self {
        let mut failure = Self::new(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
        );
        let message = format!("The disruption budget {budget} {why}");
        failure.details = json!({"causes": [{"reason": "DisruptionBudget", "message": message}]});
        failure
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    /// The answer as it goes over the wire.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null() {
            super::value::put(&mut status, &["details"], self.details.clone());
        }
        status
    }
}

fn render(causes: &[Cause]) -> Value {
    causes
        .iter()
        .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
        .collect()
}
