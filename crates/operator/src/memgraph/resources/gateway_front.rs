//! What a gateway is told of TLS, of load balancers and of its log, and the Secrets that it gets for it.

use api::memgraph::{BackendTls, Gateway, GatewayTls, ProxyProtocol};
use serde_json::{Value, json};

/// A Secret in the gateway's pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mounted<'a> {
    volume: &'static str,
    secret: &'a str,
}

impl Mounted<'_> {
    fn file(self, key: &str) -> String {
        format!("/etc/mainstay/{}/{key}", self.volume)
    }

    /// Not as a single file: those are never changed in a running pod.
    pub(super) fn mount(self) -> Value {
        json!({ "name": self.volume, "mountPath": format!("/etc/mainstay/{}", self.volume), "readOnly": true })
    }

    pub(super) fn volume(self) -> Value {
        json!({ "name": self.volume, "secret": { "secretName": self.secret } })
    }
}

const fn certificate(tls: &GatewayTls) -> Mounted<'_> {
    Mounted {
        volume: "tls",
        secret: tls.secret_name.as_str(),
    }
}

fn client_ca(tls: &GatewayTls) -> Option<Mounted<'_>> {
    let secret = tls.client_ca_secret_name.as_deref()?;
    Some(Mounted {
        volume: "client-ca",
        secret,
    })
}

const fn backend_ca(tls: &BackendTls) -> Mounted<'_> {
    Mounted {
        volume: "backend-ca",
        secret: tls.ca_secret_name.as_str(),
    }
}

/// Every Secret that is needed.
pub(super) fn secrets(gateway: &Gateway) -> Vec<Mounted<'_>> {
    let front = gateway.tls.as_ref();
    [
        front.map(certificate),
        front.and_then(client_ca),
        gateway.backend_tls.as_ref().map(backend_ca),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The flags.
pub(super) fn arguments(gateway: &Gateway) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(tls) = &gateway.tls {
        let mounted = certificate(tls);
        all.push(format!("--tls-cert-file={}", mounted.file("tls.crt")));
        all.push(format!("--tls-key-file={}", mounted.file("tls.key")));
        all.extend(client_ca(tls).map(|ca| format!("--tls-client-ca-file={}", ca.file("ca.crt"))));
    }
    if let Some(tls) = &gateway.backend_tls {
        all.push(format!("--backend-ca-file={}", backend_ca(tls).file("ca.crt")));
        let name = tls.server_name.as_ref();
        all.extend(name.map(|name| format!("--backend-server-name={name}")));
    }
    let ProxyProtocol { accept, send } = gateway.proxy_protocol.clone().unwrap_or_default();
    all.extend(accept.then(|| "--proxy-protocol".to_owned()));
    all.extend(send.then(|| "--backend-proxy-protocol".to_owned()));
    if gateway.access_log_percent > 0 {
        all.push(format!("--access-log-percent={}", gateway.access_log_percent));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(spec: Value) -> Gateway {
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn a_gateway_that_nobody_told_anything_gets_nothing() {
        let plain = gateway(json!({}));
        assert!(arguments(&plain).is_empty() && secrets(&plain).is_empty());
    }

    #[test]
    fn every_file_that_is_named_is_in_a_volume_that_is_mounted() {
        let all = gateway(json!({
            "tls": { "secretName": "front", "clientCaSecretName": "clients" },
            "backendTls": { "caSecretName": "back", "serverName": "mg.example" },
            "proxyProtocol": { "accept": true, "send": true },
            "accessLogPercent": 7,
        }));
        let arguments = arguments(&all);
        assert_eq!(
            arguments,
            [
                "--tls-cert-file=/etc/mainstay/tls/tls.crt",
                "--tls-key-file=/etc/mainstay/tls/tls.key",
                "--tls-client-ca-file=/etc/mainstay/client-ca/ca.crt",
                "--backend-ca-file=/etc/mainstay/backend-ca/ca.crt",
                "--backend-server-name=mg.example",
                "--proxy-protocol",
                "--backend-proxy-protocol",
                "--access-log-percent=7",
            ]
        );
        let secrets = secrets(&all);
        let named: Vec<_> = secrets.iter().map(|secret| secret.secret).collect();
        assert_eq!(named, ["front", "clients", "back"]);
        let folders: Vec<_> = secrets
            .iter()
            .map(|secret| secret.mount()["mountPath"].clone())
            .collect();
        for file in arguments.iter().filter_map(|flag| flag.split_once("-file=")) {
            let inside = |folder: &Value| file.1.starts_with(folder.as_str().unwrap());
            assert!(folders.iter().any(inside), "{file:?}");
        }
        for secret in secrets {
            assert_eq!(secret.mount()["name"], secret.volume()["name"]);
        }
    }
}
