//! What a sandbox puts into its Kubernetes. Pure.

use operator::install::{self, Install};
use serde_json::{Value, json};

/// Where everything is.
pub(crate) const NAMESPACE: &str = "default";
/// The name of the cluster, as in the seeds.
pub(crate) const CLUSTER: &str = "memgraph-ha";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// How many databases.
    pub(crate) replicas: u8,
    /// Stand-ins, or a real Memgraph.
    pub(crate) stand_ins: bool,
    /// Nobody is promoted before the old MAIN is fenced.
    pub(crate) waits_for_the_fence: bool,
    /// Further arguments for the operators.
    pub(crate) operator: Vec<String>,
}

/// The operator and one cluster.
pub(crate) fn objects(wanted: Wanted) -> Vec<Value> {
    let Wanted {
        replicas,
        stand_ins,
        waits_for_the_fence,
        operator: mut args,
    } = wanted;
    if !stand_ins {
        // A real server resolves names by the machine's own DNS, and listens for its MAIN on every address of the
        // machine, so each pod needs a port of its own.
        args.extend(["--register-by-ip", "--replication-port-by-ordinal"].map(str::to_owned));
    }
    let operator = Install {
        namespace: NAMESPACE.to_owned(),
        image: "mainstay:sandbox".to_owned(),
        replicas: 2,
        args,
    };
    let mut all = install::objects(&operator);
    all.push(cluster(replicas, stand_ins, waits_for_the_fence));
    all
}

fn cluster(replicas: u8, stand_ins: bool, waits_for_the_fence: bool) -> Value {
    // A real server also listens for monitoring on every address, unless it is told its own.
    let flags: &[&str] = if stand_ins {
        &[]
    } else {
        &["--monitoring-address=0.0.0.0"]
    };
    let fence_timeout = if waits_for_the_fence { "Wait" } else { "Proceed" };
    json!({
        "apiVersion": "mainstay.dev/v1alpha1", "kind": "MemgraphCluster",
        "metadata": {
            "name": CLUSTER, "namespace": NAMESPACE,
            // Everything here may be broken on purpose.
            "annotations": { "mainstay.dev/allow-drills": "true" },
        },
        "spec": {
            "replicas": replicas, "flags": flags,
            "failover": { "fenceTimeout": fence_timeout },
            // And so often that the usual limits would stop a drill.
            "hardReset": { "quiet": "5s", "perHour": 60 },
            // With two databases there is no ASYNC replica; then MAIN takes reads.
            "gateway": {
                "reads": { "enabled": true, "fallbackToMain": replicas < 3 },
                "wakeOnConnect": true,
            },
        },
    })
}
