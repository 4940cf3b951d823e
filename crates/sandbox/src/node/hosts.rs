//! Names of pods and services, in a file.
//!
//! Without privileges there is no DNS. So every process gets, in
//! `MAINSTAY_HOSTS`, the path of a file in the format of `/etc/hosts` that
//! holds what the cluster's DNS would answer in its namespace, short names
//! included, and is replaced as a whole when an answer changes. Several lines
//! with one name are several addresses. Nothing else resolves names: a program
//! that cannot read the file is given addresses.

use std::collections::BTreeSet;

use serde_json::Value;
use sim::kube::controllers::{Kind, View, name_of, namespace_of};

use super::spec::{items, text};

/// The variable that holds the path of the file.
pub const VARIABLE: &str = "MAINSTAY_HOSTS";

/// The file for one namespace.
pub(super) fn render(view: &dyn View, namespace: &str) -> String {
    let mut lines = BTreeSet::new();
    for slice in view.list(Kind::EndpointSlice) {
        let service = slice
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get("kubernetes.io/service-name"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        let domain = format!("{service}.{}", namespace_of(slice));
        let routed = cluster_ip(view, service, namespace_of(slice));
        for endpoint in items(slice, "/endpoints") {
            let ready = endpoint.pointer("/conditions/ready").and_then(Value::as_bool) == Some(true);
            for address in items(endpoint, "/addresses")
                .iter()
                .filter_map(Value::as_str)
                .filter(|_| ready)
            {
                lines.insert(line(address, &domain, service, namespace_of(slice) == namespace));
                lines.extend(routed.map(|ip| format!("{address} {ip}\n")));
                let hostname = text(endpoint, "/hostname");
                if !hostname.is_empty() {
                    let (full, short) = (format!("{hostname}.{domain}"), format!("{hostname}.{service}"));
                    lines.insert(line(address, &full, &short, namespace_of(slice) == namespace));
                }
            }
        }
    }
    let mut text = String::from("127.0.0.1 localhost\n");
    text.extend(lines);
    text
}

/// The address of a Service. Nobody routes it here, so it is looked up like a name.
fn cluster_ip<'a>(view: &'a dyn View, service: &str, namespace: &str) -> Option<&'a str> {
    let services = view.list(Kind::Service);
    let found = services
        .into_iter()
        .find(|found| name_of(found) == service && namespace_of(found) == namespace)?;
    Some(text(found, "/spec/clusterIP")).filter(|ip| !ip.is_empty() && *ip != "None")
}

fn line(address: &str, name: &str, short: &str, near: bool) -> String {
    let short = if near { format!(" {short}") } else { String::new() };
    format!("{address} {name}.svc.cluster.local {name}.svc {name}{short}\n")
}

/// Every address of a name in such a file.
pub fn lookup<'a>(file: &'a str, name: &str) -> Vec<&'a str> {
    file.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = words.next()?;
            words.any(|word| word == name).then_some(address)
        })
        .collect()
}

/// The namespaces that need a file.
pub(super) fn namespaces(view: &dyn View) -> BTreeSet<String> {
    view.list(Kind::Pod)
        .into_iter()
        .map(|pod| namespace_of(pod).to_owned())
        .collect()
}
