//! Calls to the Kubernetes API: each bounded, and its outcome told apart.

use mainstay_core::memgraph::turn::Outcome;
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;

/// How a call ended that did not do what it should.
#[derive(Debug, Error)]
pub enum CallError {
    /// 404 that names the object that was asked for: it does not exist.
    #[error("not found")]
    NotFound,
    /// 404 that speaks of no object: there is no such kind, or whoever answered does not know the way. It says nothing
    /// about the object.
    #[error("there is no such path: {0}")]
    NoSuchPath(String),
    /// 409: somebody else was there first.
    #[error("conflict: {0}")]
    Conflict(String),
    /// 403 because the namespace is being deleted: nothing can be made in it any more.
    #[error("its namespace is being deleted: {0}")]
    Ending(String),
    /// Any other answer that says no: it had no effect.
    #[error("refused ({code}): {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// What was said.
        message: String,
    },
    /// No answer, or one that says nothing: it may have been done.
    #[error("no answer: {0}")]
    Unknown(String),
}

impl CallError {
    /// What it means for a step.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::NotFound
            | Self::NoSuchPath(_)
            | Self::Conflict(_)
            | Self::Ending(_)
            | Self::Refused { .. } => Outcome::Refused,
            Self::Unknown(_) => Outcome::Unknown,
        }
    }
}

/// Waits for an answer, and not for ever.
pub async fn bounded<T>(
    patience: Duration,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match timeout(patience, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(classify(&error)),
        Err(_) => Err(CallError::Unknown(format!("nothing in {patience:?}"))),
    }
}

fn classify(error: &kube::Error) -> CallError {
    let kube::Error::Api(status) = error else {
        return CallError::Unknown(error.to_string());
    };
    let message = status.message.clone();
    match status.code {
        404 if speaks_of_an_object(status) => CallError::NotFound,
        404 => CallError::NoSuchPath(message),
        409 => CallError::Conflict(message),
        403 if is_ending(status) => CallError::Ending(message),
        // 408, and 5xx but "not implemented": the server may have done it before it failed.
        408 | 500 | 502..=599 => CallError::Unknown(message),
        code => CallError::Refused { code, message },
    }
}

/// What the admission of namespaces gives as the cause when one is being deleted.
fn is_ending(status: &kube::core::Status) -> bool {
    let mut causes = status.details.iter().flat_map(|d| &d.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

/// The text "404 page not found" is what an API server says of a kind that it does not serve, and a proxy of anything.
fn speaks_of_an_object(status: &kube::core::Status) -> bool {
    let named = status.details.as_ref().is_some_and(|d| !d.name.is_empty());
    status.reason == "NotFound" && named
}

/// `None` if there is no such object, or no such kind.
pub fn optional<T>(result: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match result {
        Err(CallError::NoSuchPath(_)) => Ok(None),
        other => existing(other),
    }
}

/// `None` only if whoever keeps the object says that it does not exist.
pub fn existing<T>(result: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(CallError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16) -> Outcome {
        let status = kube::core::Status {
            code,
            ..Default::default()
        };
        classify(&kube::Error::Api(Box::new(status))).outcome()
    }

    #[test]
    fn only_an_answer_that_says_no_is_a_refusal() {
        for code in [400, 401, 403, 404, 409, 410, 422, 429, 501] {
            assert_eq!(answered(code), Outcome::Refused, "{code}");
        }
        for code in [408, 500, 502, 503, 504] {
            assert_eq!(answered(code), Outcome::Unknown, "{code}");
        }
    }

    #[test]
    fn a_namespace_that_is_being_deleted_is_told_from_a_right_that_is_missing() {
        let read = |details: serde_json::Value| {
            let status = serde_json::json!({ "code": 403, "reason": "Forbidden", "message": "no", "details": details });
            classify(&kube::Error::Api(Box::new(
                serde_json::from_value(status).unwrap(),
            )))
        };
        let cause = serde_json::json!({ "causes": [{ "reason": "NamespaceTerminating", "field": "metadata.namespace" }] });
        assert!(matches!(read(cause), CallError::Ending(_)));
        assert!(matches!(
            read(serde_json::json!({})),
            CallError::Refused { code: 403, .. }
        ));
    }

    #[test]
    fn an_object_is_gone_only_if_the_answer_names_it() {
        let read = |text: &str| {
            let status: kube::core::Status = serde_json::from_str(text).unwrap();
            classify(&kube::Error::Api(Box::new(status)))
        };
        let gone = read(
            r#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404,
                "message":"widgets.example.com \"a\" not found","details":{"name":"a","kind":"widgets"}}"#,
        );
        assert!(matches!(existing::<()>(Err(gone)), Ok(None)));
        // As an API server says it of a kind that it does not serve, with and without a Status.
        let nowhere = r#"{"reason":"NotFound","code":404,"message":"the server could not find the requested resource"}"#;
        let plain = kube::core::Status::failure("404 page not found", "Failed to parse error data");
        let plain = classify(&kube::Error::Api(Box::new(plain.with_code(404))));
        for answer in [read(nowhere), plain] {
            assert!(matches!(answer, CallError::NoSuchPath(_)), "{answer}");
            assert!(existing::<()>(Err(answer)).is_err());
        }
        assert!(matches!(optional::<()>(Err(read(nowhere))), Ok(None)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_not_answered_has_an_end() {
        let never = std::future::pending::<Result<(), kube::Error>>();
        let error = bounded(Duration::from_secs(5), never).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
    }
}
