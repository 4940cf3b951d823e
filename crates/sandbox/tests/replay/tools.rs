//! Small things that playing needs.

use super::compare::refused;
use bolt::message::Auth;
use bolt::packstream::Value;
use sandbox::standin::memgraph::client::{Client, ClientError, Message};
use serde_json::{Value as Json, json};
use std::path::Path;

/// Logs in as whoever is let in.
pub(super) async fn connect(
    address: std::net::SocketAddr,
    credentials: &[Auth<'static>],
) -> Result<Client, ClientError> {
    let mut last = None;
    for auth in credentials {
        match Client::connect(address, auth.clone()).await {
            Err(error @ ClientError::Login(_)) => last = Some(error),
            other => return other,
        }
    }
    Err(last.expect("at least nobody"))
}

/// The user that a query creates.
pub(super) fn created(query: &str) -> Option<Auth<'static>> {
    let (name, password) = query
        .strip_prefix("CREATE USER ")?
        .split_once(" IDENTIFIED BY ")?;
    Some(Auth::basic(
        name.to_owned(),
        password.trim_matches('\'').to_owned(),
    ))
}

pub(super) fn message(message: Result<Message, ClientError>) -> Json {
    match message {
        Ok(Message::Success(_)) => json!({}),
        Ok(Message::Failure(failure)) => refused(&failure, "COMMIT"),
        Ok(other) => json!({ "message": format!("{other:?}") }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

pub(super) fn scalar(value: &Json) -> Value<'static> {
    match value {
        Json::Number(number) => Value::Int(number.as_i64().expect("a whole number")),
        Json::String(text) => Value::from(text.clone()),
        other => panic!("{other} is not a parameter that was recorded"),
    }
}

pub(super) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("a copy");
        }
    }
}
