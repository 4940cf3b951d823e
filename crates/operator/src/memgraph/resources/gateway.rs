//! The gateway's objects.

use super::ADMIN_PORT;
use super::build::Site;
use super::gateway_front as front;
use crate::apply::Owned;
use crate::security;
use api::memgraph::{Gateway, GatewayTimes};
use api::times;
use mainstay_core::memgraph::objects::BOLT_PORT;
use serde_json::{Value, json};
use std::time::Duration;

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

    /// What the schema lets through is read; a spec that is not is not acted upon at all.
    fn gateway_times(&self) -> GatewayTimes {
        let spec = &self.cluster.spec.gateway;
        spec.times().unwrap_or_else(|_| GatewayTimes {
            hold: Duration::from_secs(10),
            drain: Duration::from_secs(20),
            idle: None,
            connect: Duration::from_secs(1),
            login: Duration::from_secs(10),
        })
    }

    fn gateway_arguments(&self) -> Vec<String> {
        let Gateway {
            enabled: _,
            replicas: _,
            image: _,
            hold: _,
            drain: _,
            idle: _,
            connect_timeout: _,
            login_timeout: _,
            max_connections,
            max_connections_per_source,
            max_waiting,
            new_per_second,
            new_per_second_per_source,
            route_writer,
            route_reader,
            tls: _,
            backend_tls: _,
            proxy_protocol: _,
            access_log_percent: _,
        } = &self.cluster.spec.gateway;
        let GatewayTimes {
            hold,
            drain,
            idle,
            connect,
            login,
        } = self.gateway_times();
        // The operator waits as long as the whole move may take: the gateway must have confirmed by then.
        let moves = times::duration(&self.cluster.spec.failover.drain).unwrap_or(Duration::from_secs(10));
        let millis = |flag: &str, time: Duration| format!("--{flag}={}ms", time.as_millis());
        let mut all = vec![
            "gateway".to_owned(),
            format!("--cluster={}", self.name),
            format!("--listen=0.0.0.0:{BOLT_PORT}"),
            format!("--admin=0.0.0.0:{ADMIN_PORT}"),
            "--push-token-file=/etc/mainstay/token/token".to_owned(),
            millis("hold", hold),
            millis("drain", drain),
            millis("connect-timeout", connect),
            millis("client-timeout", login),
            millis("transactions", moves / 2),
            format!("--max-connections={max_connections}"),
            format!("--max-waiting={max_waiting}"),
        ];
        all.extend(idle.map(|idle| millis("idle", idle)));
        let numbers = [
            ("max-per-source", max_connections_per_source),
            ("max-new-per-second", new_per_second),
            ("max-new-per-second-per-source", new_per_second_per_source),
        ];
        let numbers = numbers
            .into_iter()
            .filter_map(|(flag, number)| Some((flag, (*number)?)));
        all.extend(numbers.map(|(flag, number)| format!("--{flag}={number}")));
        let routes = [("route-writer", route_writer), ("route-reader", route_reader)];
        let routes = routes
            .into_iter()
            .filter_map(|(flag, to)| Some((flag, to.as_ref()?)));
        all.extend(routes.map(|(flag, to)| format!("--{flag}={to}")));
        all.extend(front::arguments(&self.cluster.spec.gateway));
        all
    }

    fn deployment(&self) -> Owned {
        let spec = &self.cluster.spec.gateway;
        let image = spec.image.as_ref().unwrap_or(&self.settings.image);
        let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
        let mut mounts =
            vec![json!({ "name": "token", "mountPath": "/etc/mainstay/token", "readOnly": true })];
        let mut volumes =
            vec![json!({ "name": "token", "secret": { "secretName": self.name.push_token() } })];
        for secret in front::secrets(spec) {
            mounts.push(secret.mount());
            volumes.push(secret.volume());
        }
        let container = json!({
            "name": "gateway",
            "image": image,
            "securityContext": security::own_container(),
            "args": self.gateway_arguments(),
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
            "volumeMounts": mounts,
        });
        let template = json!({
            "metadata": { "labels": self.labels(ROLE) },
            "spec": {
                "serviceAccountName": self.name.gateway(),
                // Longer than the drain, so that it is not killed in the middle of it.
                "terminationGracePeriodSeconds": self.gateway_times().drain.as_secs().saturating_add(10),
                "securityContext": security::own_pod(),
                "containers": [container],
                "affinity": self.apart(ROLE),
                "volumes": volumes,
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
