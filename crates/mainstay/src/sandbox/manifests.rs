//! What a sandbox puts into its Kubernetes. Pure.

use operator::install::{self, Install};
use serde_json::{Value, json};

/// Where everything is.
pub(crate) const NAMESPACE: &str = "default";
/// The name of the cluster, as in the seeds.
pub(crate) const CLUSTER: &str = "memgraph-ha";

/// What the databases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Databases {
    /// Stand-ins.
    StandIns,
    /// A real Memgraph.
    Real {
        /// On which port the first listens for its MAIN; the others on the next ones.
        replication_port: u16,
    },
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// How many databases.
    pub(crate) replicas: u8,
    /// What they are.
    pub(crate) databases: Databases,
    /// Nobody is promoted before the old MAIN is fenced.
    pub(crate) waits_for_the_fence: bool,
    /// Further arguments for the operators.
    pub(crate) operator: Vec<String>,
}

/// The operator and one cluster.
pub(crate) fn objects(wanted: Wanted) -> Vec<Value> {
    let Wanted {
        replicas,
        databases,
        waits_for_the_fence,
        operator: mut args,
    } = wanted;
    if let Databases::Real { replication_port } = databases {
        // A real server resolves names by the machine's own DNS, and listens for its MAIN on every address of the
        // machine, so each pod needs a port of its own.
        args.push("--register-by-ip".to_owned());
        args.push(format!("--replication-port-base={replication_port}"));
    }
    let operator = Install {
        namespace: NAMESPACE.to_owned(),
        image: "mainstay:sandbox".to_owned(),
        replicas: 2,
        args,
    };
    let mut all = install::objects(&operator);
    all.push(cluster(replicas, databases, waits_for_the_fence));
    all
}

fn cluster(replicas: u8, databases: Databases, waits_for_the_fence: bool) -> Value {
    let flags: &[&str] = match databases {
        Databases::StandIns => &[],
        Databases::Real { .. } => &[
            // It also listens for monitoring and metrics on every address, unless it is told its own.
            "--monitoring-address=0.0.0.0",
            "--metrics-address=0.0.0.0",
            // An installed package has a configuration file that names one log file for all, and a server that
            // cannot write it does not start. What it logs to standard error is kept here.
            "--log-file=",
        ],
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
