//! The gateway's objects.

use super::build::Site;
use super::gateway_front as front;
use super::{ADMIN_PORT, READS_PORT};
use crate::apply::Owned;
use crate::security;
use api::memgraph::{Credentials, Gateway, GatewayTimes, Reads};
use api::times;
use mainstay_core::memgraph::objects::BOLT_PORT;
use serde_json::{Value, json};
use std::time::Duration;

const ROLE: &str = "gateway";
/// How long a gateway that is told to stop goes on as before: until every node knows that it is not to be sent clients
/// any more.
const LEAVING: Duration = Duration::from_secs(3);
/// Where the credentials of the cluster are, which a gateway needs to ask MAIN for its replicas.
const CREDENTIALS: &str = "/etc/mainstay/credentials";

pub(super) fn objects(site: &Site<'_>) -> Vec<Owned> {
    let mut all = Vec::from(site.access(&site.name.gateway(), ROLE, &site.gateway_may()));
    // One at a time: who is cut off by one finds another.
    all.push(site.budget(&site.name.gateway(), ROLE));
    all.push(site.service());
    if site.cluster.spec.gateway.reads.enabled {
        all.push(site.reads_service());
    }
    all.push(site.deployment());
    all
}

impl Site<'_> {
    /// The record to read, Leases to say what it confirmed; where a connection wakes the cluster, the cluster's object to
    /// say so. Nothing else.
    fn gateway_may(&self) -> Value {
        let mut may = vec![
            json!({ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [self.name.record()], "verbs": ["get", "list", "watch"] }),
            json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "patch", "update", "delete"] }),
        ];
        if self.cluster.spec.gateway.wake_on_connect {
            may.push(json!({ "apiGroups": ["mainstay.dev"], "resources": ["memgraphclusters"], "resourceNames": [self.name.to_string()], "verbs": ["patch"] }));
        }
        Value::Array(may)
    }

    fn service(&self) -> Owned {
        let mut ports = vec![json!({ "name": "bolt", "port": BOLT_PORT, "targetPort": BOLT_PORT })];
        if self.cluster.spec.gateway.reads.enabled {
            // The host that a `neo4j://` driver came in by is the one that it is sent to for reads.
            ports.push(json!({ "name": "reads", "port": READS_PORT, "targetPort": READS_PORT }));
        }
        let spec = json!({ "selector": self.selector(ROLE), "ports": ports });
        self.owned(
            "v1",
            "Service",
            &self.name.gateway(),
            ROLE,
            json!({ "spec": spec }),
        )
    }

    /// For clients that only read, on the usual port.
    fn reads_service(&self) -> Owned {
        let spec = json!({
            "selector": self.selector(ROLE),
            "ports": [{ "name": "bolt", "port": BOLT_PORT, "targetPort": READS_PORT }],
        });
        self.owned(
            "v1",
            "Service",
            &format!("{}-reads", self.name),
            ROLE,
            json!({ "spec": spec }),
        )
    }

    /// What the schema lets through is read; a spec that is not is not acted upon at all.
    fn gateway_times(&self) -> GatewayTimes {
        let spec = &self.cluster.spec.gateway;
        spec.times().unwrap_or_else(|_| GatewayTimes {
            hold: Duration::from_secs(15),
            drain: Duration::from_secs(20),
            idle: None,
            connect: Duration::from_secs(1),
            check: Duration::from_secs(2),
            login: Duration::from_secs(10),
            stall: Duration::from_mins(5),
            route_ttl: Duration::from_secs(30),
            wake: Duration::from_mins(2),
        })
    }

    fn gateway_arguments(&self) -> Vec<String> {
        let Gateway {
            enabled: _,
            replicas: _,
            image: _,
            resources: _,
            hold: _,
            drain: _,
            idle: _,
            connect_timeout: _,
            check_timeout: _,
            login_timeout: _,
            stall_timeout: _,
            max_connections,
            max_connections_per_source,
            max_waiting,
            new_per_second,
            new_per_second_per_source,
            route_writer,
            route_reader,
            route_ttl: _,
            tls: _,
            backend_tls: _,
            proxy_protocol: _,
            access_log_percent: _,
            reads,
            wake_on_connect,
            wake_timeout: _,
        } = &self.cluster.spec.gateway;
        let GatewayTimes {
            hold,
            drain,
            idle,
            connect,
            check,
            login,
            stall,
            route_ttl,
            wake,
        } = self.gateway_times();
        // The operator waits as long as the whole move may take: the gateway must have confirmed by then. And everybody who
        // has no transaction is held meanwhile: for the sake of one that does not end they must not be told that it took too
        // long, before the next MAIN had its half of the time.
        let moves = times::duration(&self.cluster.spec.failover.drain).unwrap_or(Duration::from_secs(10));
        let transactions = moves.min(hold) / 2;
        let millis = |flag: &str, time: Duration| format!("--{flag}={}ms", time.as_millis());
        let mut all = vec![
            "gateway".to_owned(),
            format!("--cluster={}", self.name),
            format!("--listen=0.0.0.0:{BOLT_PORT}"),
            format!("--admin=0.0.0.0:{ADMIN_PORT}"),
            "--push-token-file=/etc/mainstay/token/token".to_owned(),
            millis("hold", hold),
            millis("drain", drain),
            millis("leaving", LEAVING),
            millis("connect-timeout", connect),
            millis("check-timeout", check),
            millis("client-timeout", login),
            millis("stall-timeout", stall),
            millis("route-ttl", route_ttl),
            millis("transactions", transactions),
            format!("--max-connections={max_connections}"),
        ];
        all.extend(idle.map(|idle| millis("idle", idle)));
        let numbers = [
            ("max-waiting", max_waiting),
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
        if *wake_on_connect {
            all.push(millis("wake-on-connect", wake));
        }
        all.extend(self.reads_arguments(reads));
        all
    }

    fn reads_arguments(&self, reads: &Reads) -> Vec<String> {
        let Reads {
            enabled,
            max_lag,
            include_sync,
            fallback_to_main,
        } = reads;
        if !enabled {
            return vec![];
        }
        let mut all = vec![
            format!("--reads=0.0.0.0:{READS_PORT}"),
            format!("--reads-max-lag={max_lag}"),
        ];
        if *include_sync {
            all.push("--reads-include-sync".to_owned());
        }
        if *fallback_to_main {
            all.push("--reads-fallback-to-main".to_owned());
        }
        if self.cluster.spec.credentials.is_some() {
            all.push(format!("--username-file={CREDENTIALS}/username"));
            all.push(format!("--password-file={CREDENTIALS}/password"));
        }
        all
    }

    /// What is mounted: the token of pushes, and where there is a port for reads the credentials of the cluster.
    fn gateway_volumes(&self) -> (Vec<Value>, Vec<Value>) {
        let mut volumes =
            vec![json!({ "name": "token", "secret": { "secretName": self.name.push_token() } })];
        let mut mounts =
            vec![json!({ "name": "token", "mountPath": "/etc/mainstay/token", "readOnly": true })];
        let spec = &self.cluster.spec;
        if let Some(credentials) = spec.credentials.as_ref().filter(|_| spec.gateway.reads.enabled) {
            let Credentials {
                secret_name,
                username_key,
                password_key,
            } = credentials;
            let items = json!([
                { "key": username_key, "path": "username" },
                { "key": password_key, "path": "password" },
            ]);
            volumes.push(
                json!({ "name": "credentials", "secret": { "secretName": secret_name, "items": items } }),
            );
            mounts.push(json!({ "name": "credentials", "mountPath": CREDENTIALS, "readOnly": true }));
        }
        (volumes, mounts)
    }

    fn deployment(&self) -> Owned {
        let spec = &self.cluster.spec.gateway;
        let image = spec.image.as_ref().unwrap_or(&self.settings.image);
        let (mut volumes, mut mounts) = self.gateway_volumes();
        for secret in front::secrets(spec) {
            mounts.push(secret.mount());
            volumes.push(secret.volume());
        }
        let mut ports = vec![
            json!({ "name": "bolt", "containerPort": BOLT_PORT }),
            json!({ "name": "admin", "containerPort": ADMIN_PORT }),
        ];
        if spec.reads.enabled {
            ports.push(json!({ "name": "reads", "containerPort": READS_PORT }));
        }
        let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
        let mut container = json!({
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
            "ports": ports,
            "readinessProbe": { "httpGet": { "path": "/readyz", "port": ADMIN_PORT }, "periodSeconds": 1 },
            "livenessProbe": { "httpGet": { "path": "/livez", "port": ADMIN_PORT }, "periodSeconds": 10 },
            "volumeMounts": mounts,
        });
        if let (Value::Object(container), Some(resources)) = (&mut container, &spec.resources) {
            container.insert("resources".to_owned(), json!(resources));
        }
        let template = json!({
            "metadata": { "labels": self.labels(ROLE) },
            "spec": {
                "serviceAccountName": self.name.gateway(),
                // Longer than it goes on and drains, so that it is not killed in the middle of it.
                "terminationGracePeriodSeconds": (self.gateway_times().drain + LEAVING).as_secs().saturating_add(10),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memgraph::cluster::Settings;
    use crate::memgraph::resources::objects as all_objects;
    use api::MemgraphCluster;

    fn built(spec: &Value) -> Vec<Owned> {
        let cluster: MemgraphCluster = serde_json::from_value(json!({
            "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
            "metadata": { "name": "memgraph-ha", "namespace": "db", "uid": "u" },
            "spec": spec,
        }))
        .unwrap();
        all_objects(&cluster, &"memgraph-ha".parse().unwrap(), &Settings::default())
    }

    fn named<'a>(all: &'a [Owned], kind: &str, name: &str) -> Option<&'a Value> {
        let found = all
            .iter()
            .find(|o| o.kind == kind && o.object["metadata"]["name"] == name);
        found.map(|owned| &owned.object)
    }

    fn arguments(all: &[Owned]) -> Vec<String> {
        let deployment = named(all, "Deployment", "memgraph-ha-gateway").unwrap();
        let args = deployment
            .pointer("/spec/template/spec/containers/0/args")
            .unwrap();
        serde_json::from_value(args.clone()).unwrap()
    }

    #[test]
    fn without_being_asked_for_there_is_no_port_for_reads_and_no_right_to_wake() {
        let all = built(&json!({ "credentials": { "secretName": "s" } }));
        assert!(named(&all, "Service", "memgraph-ha-reads").is_none());
        let text = serde_json::to_string(named(&all, "Deployment", "memgraph-ha-gateway").unwrap()).unwrap();
        for word in ["reads", "wake", "credentials"] {
            assert!(!text.contains(word), "{word} in {text}");
        }
        let role = named(&all, "Role", "memgraph-ha-gateway").unwrap();
        assert_eq!(role["rules"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn reads_have_a_port_a_service_and_the_credentials_of_the_cluster() {
        let all = built(&json!({
            "credentials": { "secretName": "s", "usernameKey": "u" },
            "gateway": { "reads": { "enabled": true, "maxLag": 7, "includeSync": true, "fallbackToMain": true } },
        }));
        let args = arguments(&all);
        for flag in [
            "--reads=0.0.0.0:7690",
            "--reads-max-lag=7",
            "--reads-include-sync",
            "--reads-fallback-to-main",
            "--username-file=/etc/mainstay/credentials/username",
            "--password-file=/etc/mainstay/credentials/password",
        ] {
            assert!(args.iter().any(|arg| arg == flag), "{flag}");
        }
        let service = named(&all, "Service", "memgraph-ha-reads").unwrap();
        assert_eq!(
            service["spec"]["ports"],
            json!([{ "name": "bolt", "port": 7687, "targetPort": 7690 }])
        );
        let own = named(&all, "Service", "memgraph-ha-gateway").unwrap();
        assert_eq!(own["spec"]["ports"][1]["port"], 7690);
        let deployment = named(&all, "Deployment", "memgraph-ha-gateway").unwrap();
        let items = deployment
            .pointer("/spec/template/spec/volumes/1/secret/items")
            .unwrap();
        assert_eq!(
            items,
            &json!([{ "key": "u", "path": "username" }, { "key": "password", "path": "password" }])
        );
    }

    #[test]
    fn every_time_and_limit_of_the_spec_reaches_the_gateway() {
        let given = json!({
            "hold": "7s", "drain": "30s", "idle": "9m", "connectTimeout": "300ms", "checkTimeout": "700ms",
            "loginTimeout": "4s", "stallTimeout": "90s", "routeTtl": "11s", "maxConnections": 12, "maxWaiting": 5,
        });
        let all = built(&json!({ "gateway": given }));
        let args = arguments(&all);
        for flag in [
            "--hold=7000ms",
            "--drain=30000ms",
            "--idle=540000ms",
            "--connect-timeout=300ms",
            "--check-timeout=700ms",
            "--client-timeout=4000ms",
            "--stall-timeout=90000ms",
            "--route-ttl=11000ms",
            "--max-connections=12",
            "--max-waiting=5",
        ] {
            assert!(args.iter().any(|arg| arg == flag), "{flag} in {args:?}");
        }
        assert!(
            !arguments(&built(&json!({})))
                .iter()
                .any(|arg| arg.contains("max-waiting"))
        );
    }

    #[test]
    fn transactions_have_half_of_a_move_and_no_more_than_half_of_what_others_are_held_for() {
        for (drain, hold, transactions) in [
            ("10s", "15s", 5_000),
            ("45s", "10s", 5_000),
            ("45s", "10m", 22_500),
            ("4s", "10m", 2_000),
            ("10s", "0s", 0),
        ] {
            let all = built(&json!({ "failover": { "drain": drain }, "gateway": { "hold": hold } }));
            let flag = format!("--transactions={transactions}ms");
            assert!(
                arguments(&all).contains(&flag),
                "{drain}, {hold}: {:?}",
                arguments(&all)
            );
        }
        assert!(arguments(&built(&json!({}))).contains(&"--transactions=5000ms".to_owned()));
    }

    #[test]
    fn gateways_are_evicted_one_at_a_time_and_have_time_to_leave_and_to_drain() {
        let all = built(&json!({ "gateway": { "drain": "30s" } }));
        let budget = named(&all, "PodDisruptionBudget", "memgraph-ha-gateway").unwrap();
        let deployment = named(&all, "Deployment", "memgraph-ha-gateway").unwrap();
        assert_eq!(budget["spec"]["maxUnavailable"], 1);
        assert_eq!(budget["spec"]["selector"], deployment["spec"]["selector"]);
        let grace = deployment
            .pointer("/spec/template/spec/terminationGracePeriodSeconds")
            .unwrap();
        assert_eq!(grace, 43);
    }

    #[test]
    fn a_gateway_has_the_resources_that_were_asked_for_and_none_otherwise() {
        let resources = |spec: &Value| {
            let all = built(spec);
            let deployment = named(&all, "Deployment", "memgraph-ha-gateway").unwrap();
            deployment
                .pointer("/spec/template/spec/containers/0/resources")
                .cloned()
        };
        assert_eq!(resources(&json!({})), None);
        let asked =
            json!({ "requests": { "cpu": "250m", "memory": "64Mi" }, "limits": { "memory": "256Mi" } });
        assert_eq!(
            resources(&json!({ "gateway": { "resources": asked } })),
            Some(asked)
        );
    }

    #[test]
    fn gateways_may_change_the_cluster_only_where_they_wake_it() {
        let all = built(&json!({ "gateway": { "wakeOnConnect": true, "wakeTimeout": "90s" } }));
        assert!(
            arguments(&all)
                .iter()
                .any(|arg| arg == "--wake-on-connect=90000ms")
        );
        let role = named(&all, "Role", "memgraph-ha-gateway").unwrap();
        assert_eq!(
            role["rules"][2],
            json!({ "apiGroups": ["mainstay.dev"], "resources": ["memgraphclusters"], "resourceNames": ["memgraph-ha"], "verbs": ["patch"] })
        );
    }
}
