//! What our pods may do: nothing that the Pod Security level `restricted` forbids. Pure.

use serde_json::{Value, json};

/// The user of this program's own image, by number: Kubernetes cannot tell whether a name is root.
pub const OWN_USER: u32 = 65_532;
/// The user `memgraph` of the official image.
pub const DATABASE_USER: u32 = 101;
/// The group `memgraph` of the official image.
pub const DATABASE_GROUP: u32 = 103;

/// A pod in which only this program runs.
pub fn own_pod() -> Value {
    json!({
        "runAsNonRoot": true,
        "runAsUser": OWN_USER,
        "runAsGroup": OWN_USER,
        // Secrets are mounted for this group to read.
        "fsGroup": OWN_USER,
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}

/// A pod of a database. Its init container is the same user, so that it can move what the database wrote.
pub fn database_pod() -> Value {
    json!({
        "runAsNonRoot": true,
        "runAsUser": DATABASE_USER,
        "runAsGroup": DATABASE_GROUP,
        "fsGroup": DATABASE_GROUP,
        // The whole volume at every start would cost minutes, and MAIN is waited for.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}

/// A pod of a ring. Only who is not root meets `restricted`; an image that begins as root keeps to `baseline`.
pub fn ring_pod(user: Option<(u32, u32)>) -> Value {
    match user {
        Some((user, group)) => json!({
            "runAsNonRoot": true,
            "runAsUser": user,
            "runAsGroup": group,
            "fsGroup": group,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": { "type": "RuntimeDefault" },
        }),
        None => json!({ "seccompProfile": { "type": "RuntimeDefault" } }),
    }
}

/// A container of this program: it writes to volumes alone.
pub fn own_container() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    })
}

/// The container of the database. Its root is not read-only: what Memgraph writes beside its data is its own affair.
pub fn database_container() -> Value {
    json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } })
}

/// What the level `restricted` forbids in this pod, as far as a pod of ours could ask for it.
#[cfg(test)]
pub(crate) fn forbidden(pod: &Value) -> Vec<String> {
    const VOLUMES: [&str; 7] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
    ];
    let mut found = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            found.push(what);
        }
    };
    for host in ["hostNetwork", "hostPID", "hostIPC"] {
        must(pod.get(host).is_none(), host.to_owned());
    }
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        let plain = |kind: &String| VOLUMES.contains(&kind.as_str()) || kind == "secret" || kind == "name";
        let kinds = volume.as_object().unwrap();
        must(kinds.keys().all(plain), format!("volume {volume}"));
    }
    let whole = &pod["securityContext"];
    must(whole["runAsNonRoot"] == true, "runAsNonRoot".to_owned());
    must(
        whole["runAsUser"].as_u64().is_some_and(|user| user != 0),
        "runAsUser".to_owned(),
    );
    must(
        whole["seccompProfile"]["type"] == "RuntimeDefault",
        "seccompProfile".to_owned(),
    );
    let containers = ["initContainers", "containers"];
    for container in containers
        .iter()
        .filter_map(|list| pod[*list].as_array())
        .flatten()
    {
        let name = &container["name"];
        let own = &container["securityContext"];
        must(
            own["allowPrivilegeEscalation"] == false,
            format!("{name}: allowPrivilegeEscalation"),
        );
        must(
            own["capabilities"] == json!({ "drop": ["ALL"] }),
            format!("{name}: capabilities"),
        );
        for field in [
            "privileged",
            "runAsUser",
            "runAsNonRoot",
            "seccompProfile",
            "procMount",
        ] {
            must(own.get(field).is_none(), format!("{name}: {field} of its own"));
        }
        let ports = container["ports"].as_array().into_iter().flatten();
        must(
            ports.clone().all(|port| port.get("hostPort").is_none()),
            format!("{name}: hostPort"),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_level_forbids_is_found() {
        let good = json!({
            "securityContext": own_pod(),
            "containers": [{ "name": "a", "securityContext": own_container() }],
        });
        assert_eq!(forbidden(&good), Vec::<String>::new());
        let break_it: [(&str, &str, Value); 8] = [
            ("", "hostNetwork", json!(true)),
            (
                "",
                "volumes",
                json!([{ "name": "v", "hostPath": { "path": "/" } }]),
            ),
            ("/securityContext", "runAsNonRoot", json!(false)),
            ("/securityContext", "runAsUser", json!(0)),
            (
                "/securityContext",
                "seccompProfile",
                json!({ "type": "Unconfined" }),
            ),
            (
                "/containers/0/securityContext",
                "allowPrivilegeEscalation",
                json!(true),
            ),
            (
                "/containers/0/securityContext",
                "capabilities",
                json!({ "add": ["NET_ADMIN"] }),
            ),
            (
                "/containers/0",
                "ports",
                json!([{ "containerPort": 1, "hostPort": 1 }]),
            ),
        ];
        for (at, field, value) in break_it {
            let mut pod = good.clone();
            let part = pod.pointer_mut(at).and_then(Value::as_object_mut).unwrap();
            part.insert(field.to_owned(), value);
            assert_eq!(forbidden(&pod).len(), 1, "{field}");
        }
    }
}
