//! The operator's own objects: what has to be in Kubernetes before it can run there. Pure.

use crate::{rights, security};
use serde_json::{Value, json};

/// The name of everything of the operator.
pub const NAME: &str = "mainstay-operator";
/// The lease for which operators compete.
pub const LEASE: &str = "mainstay-operator";
/// Where it serves HTTP.
pub const HTTP_PORT: u16 = 8080;

/// How the operator is to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// Where it runs. It serves clusters of all namespaces.
    pub namespace: String,
    /// The image of this program.
    pub image: String,
    /// How many; one of them leads.
    pub replicas: u8,
    /// More arguments of `mainstay operator`.
    pub args: Vec<String>,
}

/// All objects, in the order in which they are made.
pub fn objects(install: &Install) -> Vec<Value> {
    let kinds = api::kinds().into_iter().map(|kind| json!(kind));
    let own = [
        install.named("v1", "ServiceAccount", json!({})),
        cluster_role(),
        install.cluster_binding(),
        install.lease(),
        install.deployment(),
    ];
    kinds.chain(own).collect()
}

fn cluster_role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": NAME, "labels": labels() },
        "rules": rights::all(),
    })
}

fn labels() -> Value {
    json!({ "app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "mainstay" })
}

impl Install {
    fn named(&self, version: &str, kind: &str, rest: Value) -> Value {
        let mut object = json!({
            "apiVersion": version, "kind": kind,
            "metadata": { "name": NAME, "namespace": self.namespace, "labels": labels() },
        });
        if let (Value::Object(object), Value::Object(rest)) = (&mut object, rest) {
            object.extend(rest);
        }
        object
    }

    fn cluster_binding(&self) -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": NAME, "labels": labels() },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME },
            "subjects": [{ "kind": "ServiceAccount", "name": NAME, "namespace": self.namespace }],
        })
    }

    /// Shipped as one that somebody had and freed: a lease without a past is distrusted for its whole duration.
    fn lease(&self) -> Value {
        let spec = json!({ "spec": { "leaseTransitions": 1 } });
        self.named("coordination.k8s.io/v1", "Lease", spec)
    }

    fn deployment(&self) -> Value {
        let mut args = vec![
            "operator".to_owned(),
            format!("--http=0.0.0.0:{HTTP_PORT}"),
            format!("--image={}", self.image),
            format!("--lease-name={LEASE}"),
        ];
        args.extend(self.args.iter().cloned());
        let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
        let container = json!({
            "name": "operator",
            "image": self.image,
            "securityContext": security::own_container(),
            "args": args,
            "env": [field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace")],
            "ports": [{ "name": "http", "containerPort": HTTP_PORT }],
            "readinessProbe": { "httpGet": { "path": "/readyz", "port": HTTP_PORT }, "periodSeconds": 2 },
            "livenessProbe": { "httpGet": { "path": "/livez", "port": HTTP_PORT }, "periodSeconds": 10 },
        });
        let selector = json!({ "app.kubernetes.io/name": NAME });
        let spec = json!({ "spec": {
            "replicas": self.replicas,
            "selector": { "matchLabels": selector },
            "template": {
                "metadata": { "labels": labels() },
                "spec": {
                    "serviceAccountName": NAME,
                    "securityContext": security::own_pod(),
                    "containers": [container],
                },
            },
        } });
        self.named("apps/v1", "Deployment", spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};

    fn install() -> Vec<Value> {
        objects(&Install {
            namespace: "ops".to_owned(),
            image: "mainstay:1".to_owned(),
            replicas: 2,
            args: vec!["--register-by-ip".to_owned()],
        })
    }

    fn one(kind: &str) -> Value {
        install()
            .into_iter()
            .find(|object| object["kind"] == kind)
            .unwrap()
    }

    #[test]
    fn every_object_is_one_that_kubernetes_knows() {
        serde_json::from_value::<ClusterRole>(one("ClusterRole")).unwrap();
        serde_json::from_value::<ClusterRoleBinding>(one("ClusterRoleBinding")).unwrap();
        let lease: Lease = serde_json::from_value(one("Lease")).unwrap();
        assert_eq!(lease.spec.unwrap().lease_transitions, Some(1));
        let deployment: Deployment = serde_json::from_value(one("Deployment")).unwrap();
        let pod = deployment.spec.unwrap().template.spec.unwrap();
        let args = pod.containers.into_iter().next().unwrap().args.unwrap();
        assert_eq!(args.last().map(String::as_str), Some("--register-by-ip"));
    }

    #[test]
    fn the_operator_asks_for_nothing_that_the_level_restricted_forbids() {
        let deployment = one("Deployment");
        let pod = deployment.pointer("/spec/template/spec").unwrap();
        assert_eq!(security::forbidden(pod), Vec::<String>::new());
    }

    #[test]
    fn no_rule_grants_everything() {
        let role = one("ClusterRole").to_string();
        assert!(!role.contains("\"*\""), "{role}");
        assert!(
            !role.contains("exec"),
            "a marker is written by the pod's own helper: {role}"
        );
    }
}
