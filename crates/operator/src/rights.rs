//! What the operator may do, and nothing else, by the kind that needs it. Pure.
//!
//! It may do what its gateways, databases and gates may: nobody can grant what he has not. `cargo xtask e2e` compares it
//! with what a real API server was asked for.

use serde_json::{Value, json};

/// All of it, as the chart has it.
pub fn all() -> Value {
    let kinds = [memgraph(), ring(), hibernation()];
    kinds
        .into_iter()
        .flat_map(|kind| match kind {
            Value::Array(rules) => rules,
            _ => Vec::new(),
        })
        .collect()
}

/// What Memgraph clusters need, and the operator itself: its lease.
pub fn memgraph() -> Value {
    let made = json!(["get", "create", "update"]);
    json!([
        { "apiGroups": ["mainstay.dev"], "resources": ["memgraphclusters"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["mainstay.dev"], "resources": ["memgraphclusters/status"], "verbs": ["patch"] },
        // By uid, to end one process for certain and to reset a diverged replica.
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "delete"] },
        { "apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get"] },
        // Records are watched.
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "update"] },
        { "apiGroups": [""], "resources": ["services", "serviceaccounts"], "verbs": made },
        { "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"] },
        { "apiGroups": [""], "resources": ["events"], "verbs": ["create"] },
        { "apiGroups": ["apps"], "resources": ["statefulsets", "deployments"], "verbs": made },
        { "apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": made },
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": made },
        { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "create", "update", "patch", "delete"] },
    ])
}

/// What rings need besides.
pub fn ring() -> Value {
    json!([
        { "apiGroups": ["mainstay.dev"], "resources": ["ringclusters"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["mainstay.dev"], "resources": ["ringclusters/status"], "verbs": ["patch"] },
        // The gate of a member gets and patches its own pod.
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"] },
        // By uid: the volume of a member whose Node is gone, or that a human gave up.
        { "apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["delete"] },
        // Is the Node of a volume gone?
        { "apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["get"] },
        { "apiGroups": [""], "resources": ["nodes"], "verbs": ["list"] },
        // Records are immutable, and renewed by making them anew.
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"] },
        // Those of members are watched for labels, and go with a member that has left.
        { "apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch", "delete"] },
    ])
}

/// What plans that sleep need besides.
pub fn hibernation() -> Value {
    json!([
        { "apiGroups": ["mainstay.dev"], "resources": ["hibernateplans"], "verbs": ["get", "list", "watch", "patch"] },
        { "apiGroups": ["mainstay.dev"], "resources": ["hibernateplans/status"], "verbs": ["update"] },
        { "apiGroups": ["mainstay.dev"], "resources": ["scheduleexceptions"], "verbs": ["list", "watch"] },
        { "apiGroups": ["mainstay.dev"], "resources": ["scheduleexceptions/status"], "verbs": ["patch"] },
        // A cluster is put to sleep by its own object.
        { "apiGroups": ["mainstay.dev"], "resources": ["memgraphclusters", "ringclusters"], "verbs": ["patch"] },
        { "apiGroups": ["apps"], "resources": ["statefulsets", "deployments", "replicasets"], "verbs": ["get", "list", "patch"] },
        { "apiGroups": ["batch"], "resources": ["cronjobs"], "verbs": ["get", "list", "patch"] },
        { "apiGroups": ["keda.sh"], "resources": ["scaledobjects"], "verbs": ["get", "list", "patch"] },
    ])
}
