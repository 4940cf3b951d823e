//! What runs of ours in a database pod: before the database, and beside it.

use super::DATA_PATH;
use super::build::Site;
use crate::pod::INIT_CONTAINER;
use crate::security;
use mainstay_core::memgraph::helper::{HELPER, HELPER_PORT};
use serde_json::{Value, json};

/// Where the token of the cluster is mounted.
const TOKEN_FOLDER: &str = "/etc/mainstay/token";

impl Site<'_> {
    /// Carries out a reset that was asked for, before the database starts.
    pub(super) fn init_container(&self) -> Value {
        let mut container = self.ours(INIT_CONTAINER, "prepare", &[]);
        add(&mut container, "volumeMounts", json!([data()]));
        container
    }

    /// Writes the marker of a reset, says what is on the volume, and lets MAIN wait for its successor.
    pub(super) fn helper(&self) -> Value {
        let listen = format!("--listen=0.0.0.0:{HELPER_PORT}");
        let token = format!("--token-file={TOKEN_FOLDER}/token");
        let mut container = self.ours(HELPER, "serve", &[listen, token]);
        let token = json!({ "name": "token", "mountPath": TOKEN_FOLDER, "readOnly": true });
        add(&mut container, "volumeMounts", json!([data(), token]));
        add(
            &mut container,
            "ports",
            json!([{ "name": "helper", "containerPort": HELPER_PORT }]),
        );
        let probe = json!({ "httpGet": { "path": "/livez", "port": HELPER_PORT }, "periodSeconds": 10 });
        add(&mut container, "livenessProbe", probe);
        container
    }

    pub(super) fn token_volume(&self) -> Value {
        json!({ "name": "token", "secret": { "secretName": self.name.push_token() } })
    }

    fn ours(&self, name: &str, what: &str, more: &[String]) -> Value {
        let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
        let mut args = vec![
            "pod".to_owned(),
            what.to_owned(),
            format!("--cluster={}", self.name),
            format!("--data={DATA_PATH}"),
        ];
        args.extend(more.iter().cloned());
        json!({
            "name": name,
            "image": self.settings.image,
            "securityContext": security::own_container(),
            "args": args,
            "env": [
                field("POD_NAME", "metadata.name"),
                field("POD_NAMESPACE", "metadata.namespace"),
                field("POD_UID", "metadata.uid"),
            ],
        })
    }
}

fn data() -> Value {
    json!({ "name": "lib-storage", "mountPath": DATA_PATH })
}

fn add(container: &mut Value, field: &str, value: Value) {
    if let Value::Object(container) = container {
        container.insert(field.to_owned(), value);
    }
}
