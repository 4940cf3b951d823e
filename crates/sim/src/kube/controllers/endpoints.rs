//! Endpoints and EndpointSlices: which pods stand behind a Service.

use serde_json::{Value, json};

use super::object::{
    condition_is, controller_reference, has_ended, is_deleting, items, name_of, namespace_of, set, text,
    uid_of,
};
use super::selector::selects_pairs;
use super::{Kind, Turn, View, Write};

pub(super) fn reconcile(view: &dyn View, turn: &mut Turn) {
    for service in view.list(Kind::Service) {
        if is_deleting(service) || service.pointer("/spec/selector").is_none() {
            continue;
        }
        let pods: Vec<&Value> = view
            .list(Kind::Pod)
            .into_iter()
            .filter(|pod| {
                namespace_of(pod) == namespace_of(service)
                    && selects_pairs(service.pointer("/spec/selector"), pod)
                    && !text(pod, "/status/podIP").is_empty()
                    && !has_ended(pod)
            })
            .collect();
        write(Kind::EndpointSlice, service, slice(service, &pods), view, turn);
        write(Kind::Endpoints, service, endpoints(service, &pods), view, turn);
    }
}

/// Create it, or bring the one that is there in line.
fn write(kind: Kind, service: &Value, mut object: Value, view: &dyn View, turn: &mut Turn) {
    set(&mut object, &["apiVersion"], kind.api_version().into());
    set(&mut object, &["kind"], kind.name().into());
    set(
        &mut object,
        &["metadata", "namespace"],
        namespace_of(service).into(),
    );
    let old = view
        .list(kind)
        .into_iter()
        .find(|old| namespace_of(old) == namespace_of(service) && name_of(old) == name_of(&object));
    let Some(old) = old else {
        turn.writes.push(Write::Create(object));
        return;
    };
    let mut new = old.clone();
    for field in ["endpoints", "ports", "subsets"] {
        if let Some(value) = object.get(field) {
            set(&mut new, &[field], value.clone());
        }
    }
    if new != *old {
        turn.writes.push(Write::Replace(new));
    }
}

fn slice(service: &Value, pods: &[&Value]) -> Value {
    let endpoints: Vec<Value> = pods
        .iter()
        .map(|pod| {
            let serving = publishes_all(service) || condition_is(pod, "Ready", "True");
            let mut endpoint = json!({
                "addresses": [text(pod, "/status/podIP")],
                "conditions": {
                    "ready": publishes_all(service) || (serving && !is_deleting(pod)),
                    "serving": serving,
                    "terminating": is_deleting(pod),
                },
                "nodeName": text(pod, "/spec/nodeName"),
                "targetRef": reference(pod),
            });
            if let Some(hostname) = hostname(service, pod) {
                set(&mut endpoint, &["hostname"], hostname.into());
            }
            endpoint
        })
        .collect();
    json!({
        "metadata": {
            // Upstream adds a random part because it splits at 100 endpoints.
            "name": format!("{}-endpoints", name_of(service)),
            "labels": {
                "kubernetes.io/service-name": name_of(service),
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "ownerReferences": [controller_reference(Kind::Service, service)],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports(service, pods),
    })
}

fn endpoints(service: &Value, pods: &[&Value]) -> Value {
    let of = |ready: bool| -> Vec<Value> {
        pods.iter()
            .filter(|pod| !is_deleting(pod) || publishes_all(service))
            .filter(|pod| (publishes_all(service) || condition_is(pod, "Ready", "True")) == ready)
            .map(|pod| {
                let mut address = json!({
                    "ip": text(pod, "/status/podIP"),
                    "nodeName": text(pod, "/spec/nodeName"),
                    "targetRef": reference(pod),
                });
                if let Some(hostname) = hostname(service, pod) {
                    set(&mut address, &["hostname"], hostname.into());
                }
                address
            })
            .collect()
    };
    let mut subset = json!({});
    for (field, addresses) in [("addresses", of(true)), ("notReadyAddresses", of(false))] {
        if !addresses.is_empty() {
            set(&mut subset, &[field], Value::Array(addresses));
        }
    }
    let subsets = if subset == json!({}) {
        json!([])
    } else {
        set(&mut subset, &["ports"], ports(service, pods));
        json!([subset])
    };
    // Upstream deletes it by name; an owner does the same here.
    json!({
        "metadata": {
            "name": name_of(service),
            "ownerReferences": [controller_reference(Kind::Service, service)],
        },
        "subsets": subsets,
    })
}

fn publishes_all(service: &Value) -> bool {
    service
        .pointer("/spec/publishNotReadyAddresses")
        .and_then(Value::as_bool)
        .unwrap_or_default()
}

fn hostname<'a>(service: &Value, pod: &'a Value) -> Option<&'a str> {
    let hostname = text(pod, "/spec/hostname");
    (text(pod, "/spec/subdomain") == name_of(service) && !hostname.is_empty()).then_some(hostname)
}

fn reference(pod: &Value) -> Value {
    json!({ "kind": "Pod", "name": name_of(pod), "namespace": namespace_of(pod), "uid": uid_of(pod) })
}

/// The ports of the pods. Named target ports are looked up in the first pod:
/// pods that disagree about a name would need a slice each.
fn ports(service: &Value, pods: &[&Value]) -> Value {
    let ports = items(service, "/spec/ports").iter().map(|port| {
        let target = port.get("targetPort").or_else(|| port.get("port"));
        let number = match target.and_then(Value::as_str) {
            Some(name) => pods.first().and_then(|pod| named_port(pod, name)),
            None => target.and_then(Value::as_i64),
        };
        let protocol = match text(port, "/protocol") {
            "" => "TCP",
            protocol => protocol,
        };
        let mut result = json!({ "name": text(port, "/name"), "protocol": protocol });
        if let Some(number) = number {
            set(&mut result, &["port"], number.into());
        }
        result
    });
    Value::Array(ports.filter(|port| port.get("port").is_some()).collect())
}

fn named_port(pod: &Value, name: &str) -> Option<i64> {
    items(pod, "/spec/containers")
        .iter()
        .flat_map(|container| items(container, "/ports"))
        .find(|port| text(port, "/name") == name)
        .and_then(|port| port.get("containerPort")?.as_i64())
}
