//! `spec.gateway`: how clients come in, and how databases are reached.
#![allow(
    unreachable_pub,
    reason = "the derive repeats our `pub` on a struct inside a function"
)]

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// TLS between clients and the gateway.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayTls {
    /// A Secret of type `kubernetes.io/tls`: `tls.crt` and `tls.key`. A changed one is taken up without closing
    /// connections.
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')").message("spec.gateway.tls.secretName is the name of a Secret, such as memgraph-tls; or leave spec.gateway.tls out"))]
    pub secret_name: String,
    /// A Secret with `ca.crt`: clients must show a certificate of that authority. No client needs one if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')").message("spec.gateway.tls.clientCaSecretName is the name of a Secret, such as memgraph-clients; leave it out if clients need no certificate"))]
    pub client_ca_secret_name: Option<String>,
}

/// TLS between the gateway and databases.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendTls {
    /// A Secret with `ca.crt`: the authority that signed the certificates of the databases.
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')").message("spec.gateway.backendTls.caSecretName is the name of a Secret, such as memgraph-ca; or leave spec.gateway.backendTls out"))]
    pub ca_secret_name: String,
    /// The name in those certificates; the host name of each pod if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$')").message("spec.gateway.backendTls.serverName is a DNS name, such as memgraph.example.com; leave it out for the host name of each pod"))]
    pub server_name: Option<String>,
}

/// Where the PROXY protocol, version 2, is spoken.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyProtocol {
    /// Clients come through a load balancer that speaks it. Connections that do not begin with it are closed.
    #[serde(default)]
    pub accept: bool,
    /// Databases are told who the client is. Memgraph does not understand it: this is for a proxy in between.
    #[serde(default)]
    pub send: bool,
}
