//! `spec.gateway`.
#![allow(
    unreachable_pub,
    reason = "the derive repeats our `pub` on a struct inside a function"
)]

use super::gateway_front::{BackendTls, GatewayTls, ProxyProtocol};
use super::parse::BadSpec;
use super::reads::Reads;
use crate::times;
use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::KubeSchema;
use mainstay_core::memgraph::read_gate;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The gateway that clients connect to.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.enabled || !has(self.image)").message("spec.gateway.image is given and spec.gateway.enabled is false; remove one of them"),
    validation = Rule::new("self.enabled || !self.reads.enabled").message("spec.gateway.reads.enabled is true and spec.gateway.enabled is false: the port for reads is one of the gateways'; enable them, or remove spec.gateway.reads"),
    validation = Rule::new("self.enabled || !self.wakeOnConnect").message("spec.gateway.wakeOnConnect is true and spec.gateway.enabled is false: nobody is there to connect to; remove one of them"),
)]
pub struct Gateway {
    /// Whether the operator runs one. Without it nothing cuts the sessions of an old MAIN.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// How many.
    #[serde(default = "two")]
    #[schemars(range(min = 1, max = 16))]
    #[x_kube(validation = Rule::new("self >= 1 && self <= 16").message("spec.gateway.replicas is 1 to 16; for none write spec.gateway.enabled: false"))]
    pub replicas: u8,
    /// Its image; the operator's own if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.size() > 0").message("spec.gateway.image is empty; leave it out for the operator's own image"))]
    pub image: Option<String>,
    /// Resources of its container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// How long new connections and new transactions wait while no MAIN takes them.
    #[serde(default = "fifteen_seconds")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('0s') && duration(self) <= duration('10m')").message("spec.gateway.hold is a duration of 0s to 10m, such as 10s"))]
    pub hold: String,
    /// How long sessions may go on when a gateway is told to stop.
    #[serde(default = "twenty_seconds")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('0s') && duration(self) <= duration('1h')").message("spec.gateway.drain is a duration of 0s to 1h, such as 20s"))]
    pub drain: String,
    /// After which a client is closed that asks for nothing and waits for nothing; never if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('168h')").message("spec.gateway.idle is a duration of 1s to 168h, such as 30m; leave it out for never"))]
    pub idle: Option<String>,
    /// How long a database may take to accept a connection.
    #[serde(default = "one_second")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('10ms') && duration(self) <= duration('1m')").message("spec.gateway.connectTimeout is a duration of 10ms to 1m, such as 1s"))]
    pub connect_timeout: String,
    /// How long a database may take for each of its answers until a client is let in.
    #[serde(default = "two_seconds")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('10ms') && duration(self) <= duration('1m')").message("spec.gateway.checkTimeout is a duration of 10ms to 1m, such as 2s"))]
    pub check_timeout: String,
    /// How long a client may take for its part of the login.
    #[serde(default = "ten_seconds")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('100ms') && duration(self) <= duration('5m')").message("spec.gateway.loginTimeout is a duration of 100ms to 5m, such as 10s"))]
    pub login_timeout: String,
    /// After which a client is closed that takes nothing of what it is sent.
    #[serde(default = "five_minutes")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')").message("spec.gateway.stallTimeout is a duration of 1s to 24h, such as 5m"))]
    pub stall_timeout: String,
    /// How many connections each gateway takes.
    #[serde(default = "ten_thousand")]
    #[schemars(range(min = 1, max = 100_000))]
    #[x_kube(validation = Rule::new("self >= 1 && self <= 100000").message("spec.gateway.maxConnections is 1 to 100000"))]
    pub max_connections: u32,
    /// How many of one address; no limit if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    #[x_kube(validation = Rule::new("self >= 1 && self <= 100000").message("spec.gateway.maxConnectionsPerSource is 1 to 100000; leave it out for no limit"))]
    pub max_connections_per_source: Option<u32>,
    /// How many of each port may wait for a database; all of them if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    #[x_kube(validation = Rule::new("self >= 0 && self <= 100000").message("spec.gateway.maxWaiting is 0 to 100000; leave it out for as many as maxConnections"))]
    pub max_waiting: Option<u32>,
    /// How many new connections each gateway takes in a second; no limit if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    #[x_kube(validation = Rule::new("self >= 1 && self <= 100000").message("spec.gateway.newPerSecond is 1 to 100000; leave it out for no limit"))]
    pub new_per_second: Option<u32>,
    /// How many of one address; no limit if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    #[x_kube(validation = Rule::new("self >= 1 && self <= 100000").message("spec.gateway.newPerSecondPerSource is 1 to 100000; leave it out for no limit"))]
    pub new_per_second_per_source: Option<u32>,
    /// Where `neo4j://` drivers send their writes, as HOST:PORT; where they came in if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new("self.matches('^(\\\\[[0-9A-Fa-f:.]+\\\\]|[^\\\\s:]+):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$')").message("spec.gateway.routeWriter is HOST:PORT with a port of 1 to 65535, such as memgraph.example.com:7687"))]
    pub route_writer: Option<String>,
    /// Where `neo4j://` drivers send their reads, as HOST:PORT; where writes go if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new("self.matches('^(\\\\[[0-9A-Fa-f:.]+\\\\]|[^\\\\s:]+):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$')").message("spec.gateway.routeReader is HOST:PORT with a port of 1 to 65535, such as reads.example.com:7687"))]
    pub route_reader: Option<String>,
    /// How long `neo4j://` drivers may rely on that.
    #[serde(default = "thirty_seconds")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')").message("spec.gateway.routeTtl is a duration of 1s to 24h, such as 30s"))]
    pub route_ttl: String,
    /// TLS with clients; connections are plain if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayTls>,
    /// TLS with databases; connections are plain if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend_tls: Option<BackendTls>,
    /// The PROXY protocol; not spoken if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// How many of a hundred sessions are logged when they end, without what they asked for.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    #[x_kube(validation = Rule::new("self >= 0 && self <= 100").message("spec.gateway.accessLogPercent is 0 to 100"))]
    pub access_log_percent: u8,
    /// The port for reads, which replicas take.
    #[serde(default)]
    pub reads: Reads,
    /// Whether a connection wakes a cluster that hibernates: the gateway sets spec.hibernated to false. The gateways may
    /// change this one object then, and nothing else of it is changed.
    #[serde(default)]
    pub wake_on_connect: bool,
    /// How long a connection waits for a cluster that wakes up.
    #[serde(default = "two_minutes")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]+(ms|s|m|h))+$') && duration(self) >= duration('1s') && duration(self) <= duration('30m')").message("spec.gateway.wakeTimeout is a duration of 1s to 30m, such as 2m"))]
    pub wake_timeout: String,
}

const fn yes() -> bool {
    true
}

const fn two() -> u8 {
    2
}

fn one_second() -> String {
    "1s".to_owned()
}

fn two_seconds() -> String {
    "2s".to_owned()
}

fn ten_seconds() -> String {
    "10s".to_owned()
}

/// Longer than a planned move may take until it is given up: whoever waits for one is not told to try again because of it.
fn fifteen_seconds() -> String {
    "15s".to_owned()
}

fn twenty_seconds() -> String {
    "20s".to_owned()
}

fn thirty_seconds() -> String {
    "30s".to_owned()
}

fn five_minutes() -> String {
    "5m".to_owned()
}

fn two_minutes() -> String {
    "2m".to_owned()
}

const fn ten_thousand() -> u32 {
    10_000
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            enabled: true,
            replicas: two(),
            image: None,
            resources: None,
            hold: fifteen_seconds(),
            drain: twenty_seconds(),
            idle: None,
            connect_timeout: one_second(),
            check_timeout: two_seconds(),
            login_timeout: ten_seconds(),
            stall_timeout: five_minutes(),
            max_connections: ten_thousand(),
            max_connections_per_source: None,
            max_waiting: None,
            new_per_second: None,
            new_per_second_per_source: None,
            route_writer: None,
            route_reader: None,
            route_ttl: thirty_seconds(),
            tls: None,
            backend_tls: None,
            proxy_protocol: None,
            access_log_percent: 0,
            reads: Reads::default(),
            wake_on_connect: false,
            wake_timeout: two_minutes(),
        }
    }
}

/// The lengths of time of a gateway, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayTimes {
    /// For new connections and transactions while no MAIN takes them.
    pub hold: Duration,
    /// For sessions when a gateway is told to stop.
    pub drain: Duration,
    /// Until a silent client is closed.
    pub idle: Option<Duration>,
    /// For a database to accept a connection.
    pub connect: Duration,
    /// For each answer of a database until a client is let in.
    pub check: Duration,
    /// For a client's part of the login.
    pub login: Duration,
    /// Until a client is closed that does not read.
    pub stall: Duration,
    /// For drivers to rely on where they are sent.
    pub route_ttl: Duration,
    /// For a cluster to wake up.
    pub wake: Duration,
}

impl Gateway {
    /// What is declared about reads; `None` if there is no port for them.
    pub fn read_policy(&self) -> Option<read_gate::Reads> {
        let Reads {
            enabled,
            max_lag,
            include_sync,
            fallback_to_main,
        } = self.reads;
        (self.enabled && enabled).then_some(read_gate::Reads {
            max_lag: u64::from(max_lag),
            from_sync: include_sync,
            from_main: fallback_to_main,
        })
    }

    /// Reads the lengths of time.
    pub fn times(&self) -> Result<GatewayTimes, BadSpec> {
        let read = |field, text: &String| {
            times::duration(text).ok_or_else(|| BadSpec::Duration {
                field,
                value: text.clone(),
            })
        };
        Ok(GatewayTimes {
            hold: read("gateway.hold", &self.hold)?,
            drain: read("gateway.drain", &self.drain)?,
            idle: self
                .idle
                .as_ref()
                .map(|idle| read("gateway.idle", idle))
                .transpose()?,
            connect: read("gateway.connectTimeout", &self.connect_timeout)?,
            check: read("gateway.checkTimeout", &self.check_timeout)?,
            login: read("gateway.loginTimeout", &self.login_timeout)?,
            stall: read("gateway.stallTimeout", &self.stall_timeout)?,
            route_ttl: read("gateway.routeTtl", &self.route_ttl)?,
            wake: read("gateway.wakeTimeout", &self.wake_timeout)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_a_gateway_that_nobody_told_anything() {
        let gateway: Gateway = serde_json::from_str("{}").unwrap();
        assert_eq!(gateway, Gateway::default());
        let times = gateway.times().unwrap();
        assert_eq!((times.hold, times.idle), (Duration::from_secs(15), None));
        let given_up = times::duration(&crate::memgraph::Failover::default().drain).unwrap();
        assert!(
            times.hold > given_up,
            "who is held outlasts a move that is given up"
        );
    }

    #[test]
    fn reads_are_as_declared_and_there_are_none_without_gateways() {
        let policy = |text: &str| serde_json::from_str::<Gateway>(text).unwrap().read_policy();
        let declared = r#"{"reads": {"enabled": true, "maxLag": 7, "fallbackToMain": true}}"#;
        assert_eq!(
            policy(declared),
            Some(read_gate::Reads {
                max_lag: 7,
                from_sync: false,
                from_main: true,
            })
        );
        assert_eq!(policy("{}"), None);
        assert_eq!(policy(r#"{"enabled": false, "reads": {"enabled": true}}"#), None);
    }

    #[test]
    fn a_time_that_cannot_be_read_is_named() {
        for field in [
            "hold",
            "drain",
            "idle",
            "connectTimeout",
            "checkTimeout",
            "loginTimeout",
            "stallTimeout",
            "routeTtl",
            "wakeTimeout",
        ] {
            let gateway: Gateway = serde_json::from_value(serde_json::json!({ field: "soon" })).unwrap();
            assert!(
                gateway.times().unwrap_err().to_string().contains(field),
                "{field}"
            );
        }
    }
}
