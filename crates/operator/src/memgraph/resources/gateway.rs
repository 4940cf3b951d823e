//! The gateway's objects.

use super::ADMIN_PORT;
use super::build::Site;
use crate::apply::Owned;
use crate::security;
use mainstay_core::memgraph::objects::BOLT_PORT;
use serde_json::{Value, json};

const ROLE: &str = "gateway";

pub(super) fn objects(site: &Site<'_>) -> Vec<Owned> {
    let mut all = Vec::from(site.access(&site.name.gateway(), ROLE, &site.gateway_may()));
    all.extend([site.service(), site.deployment()]);
    all
}

impl Site<'_> {
    /// The record to read, Leases to say what it confirmed. Nothing else.
    fn gateway_may(&self) -> Value {
        json!([
            { "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [self.name.record()], "verbs": ["get", "list", "watch"] },
            { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "patch", "update", "delete"] },
        ])
    }

    fn service(&self) -> Owned {
        let spec = json!({
            "selector": self.selector(ROLE),
            "ports": [{ "name": "bolt", "port": BOLT_PORT, "targetPort": BOLT_PORT }],
        });
        self.owned(
            "v1",
            "Service",
            &self.name.gateway(),
            ROLE,
            json!({ "spec": spec }),
        )
    }

    fn deployment(&self) -> Owned {
        let spec = &self.cluster.spec.gateway;
        let image = spec.image.as_ref().unwrap_or(&self.settings.image);
        let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
        let container = json!({
            "name": "gateway",
            "image": image,
            "securityContext": security::own_container(),
            "args": [
                "gateway",
                format!("--cluster={}", self.name),
                format!("--listen=0.0.0.0:{BOLT_PORT}"),
                format!("--admin=0.0.0.0:{ADMIN_PORT}"),
                "--push-token-file=/etc/mainstay/token/token",
            ],
            "env": [
                field("POD_NAME", "metadata.name"),
                field("POD_NAMESPACE", "metadata.namespace"),
                field("POD_UID", "metadata.uid"),
                field("POD_IP", "status.podIP"),
            ],
            "ports": [
                { "name": "bolt", "containerPort": BOLT_PORT },
                { "name": "admin", "containerPort": ADMIN_PORT },
            ],
            "readinessProbe": { "httpGet": { "path": "/readyz", "port": ADMIN_PORT }, "periodSeconds": 1 },
            "livenessProbe": { "httpGet": { "path": "/livez", "port": ADMIN_PORT }, "periodSeconds": 10 },
            "volumeMounts": [{ "name": "token", "mountPath": "/etc/mainstay/token", "readOnly": true }],
        });
        let template = json!({
            "metadata": { "labels": self.labels(ROLE) },
            "spec": {
                "serviceAccountName": self.name.gateway(),
                "terminationGracePeriodSeconds": 30,
                "securityContext": security::own_pod(),
                "containers": [container],
                "affinity": self.apart(ROLE),
                "volumes": [{ "name": "token", "secret": { "secretName": self.name.push_token() } }],
            },
        });
        let rest = json!({ "spec": {
            "replicas": spec.replicas,
            "selector": { "matchLabels": self.selector(ROLE) },
            "template": template,
        } });
        self.owned("apps/v1", "Deployment", &self.name.gateway(), ROLE, rest)
    }
}
